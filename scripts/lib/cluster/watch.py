"""Callers' and load balancers' view of nodes: the duration of each call, and readiness over
time."""

import dataclasses
import itertools
import threading
import time
import urllib.error
import urllib.request

from lib.load import Answer, Load
from lib.processes import STOP_TIMEOUT_S

LOOK_PAUSE_S = 0.2
# Only a node that hangs takes so long to say whether it is ready.
LOOK_TIMEOUT_S = 60


@dataclasses.dataclass
class Timing:
    """One call of a client; without a response if its connection failed."""

    begun: float
    ended: float
    port: int
    answer: Answer | None

    @property
    def seconds(self):
        return self.ended - self.begun

    def is_metered(self):
        return self.answer is not None and self.answer.is_receipt()

    def has_failed(self):
        return self.answer is None or self.answer.body is None or self.answer.status >= 500


class TimedLoad(Load):
    """Clients that also record the time, the target and the duration of each call."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.timings = []

    def _carry_out(self, connection, operation):
        before = len(operation.answers)
        begun = time.monotonic()
        is_connected = super()._carry_out(connection, operation)
        answer = operation.answers[-1] if len(operation.answers) > before else None
        self.timings.append(Timing(begun, time.monotonic(), connection.port, answer))
        return is_connected

    def between(self, begin, end, services=None):
        """Calls to these services that were running during a time."""
        ports = {service.port for service in services or self.services}
        return [each for each in list(self.timings) if each.ended >= begin and each.begun <= end and each.port in ports]

    def first_metered(self, since, services=None):
        """When the first call that started after a time had its metered response, in seconds after
        that time."""
        calls = self.between(since, float("inf"), services)
        answered = [each.ended for each in calls if each.begun >= since and each.is_metered()]
        return min(answered) - since if answered else None

    def longest_gap(self, begin, end):
        """The longest time without a metered response to any call."""
        moments = sorted(each.ended for each in self.between(begin, end) if each.is_metered() and begin <= each.ended <= end)
        moments = [begin, *moments, end]
        return max(later - earlier for earlier, later in itertools.pairwise(moments))


@dataclasses.dataclass
class Look:
    """One readiness probe of a node: true, false, or None if it did not respond in time."""

    begun: float
    ended: float
    ready: bool | None


class ReadyWatch(threading.Thread):
    """Probes the readiness of a node as a load balancer does."""

    def __init__(self, service):
        super().__init__(daemon=True)
        self.service = service
        self.ended = threading.Event()
        self.looks = []

    def run(self):
        while not self.ended.wait(LOOK_PAUSE_S):
            begun = time.monotonic()
            ready = readiness(self.service)
            self.looks.append(Look(begun, time.monotonic(), ready))

    def finish(self):
        self.ended.set()
        self.join(STOP_TIMEOUT_S)

    def first(self, ready, since):
        """Seconds from a time until readiness first had this value, or None."""
        moments = [look.ended for look in list(self.looks) if look.ready is ready and look.begun >= since]
        return moments[0] - since if moments else None

    def slowest(self):
        return max((look.ended - look.begun for look in list(self.looks)), default=0.0)

    def without_answer(self):
        return [f"{self.service.name}, {look.ended - look.begun:.1f} s" for look in self.looks if look.ready is None]


def readiness(service):
    """A node's readiness; None if it does not respond in time."""
    try:
        with urllib.request.urlopen(f"{service.admin_url}/ready", timeout=LOOK_TIMEOUT_S) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        return False
    except OSError:
        return None


def metric(service, series):
    """The value of one series, such as `name{label="value"}`; None if the node does not respond or
    has no such series."""
    try:
        with urllib.request.urlopen(f"{service.admin_url}/metrics", timeout=LOOK_TIMEOUT_S) as response:
            lines = response.read().decode().splitlines()
    except OSError:
        return None
    values = [line.removeprefix(f"{series} ") for line in lines if line.startswith(f"{series} ")]
    return float(values[0]) if values else None


def seconds(value):
    return "never" if value is None else f"{value:.1f} s"
