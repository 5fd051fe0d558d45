"""Key rotations, killed and paused nodes, and database crashes, in a random order."""

import signal
import subprocess
import time

from lib.books import OPEN_HOLDS_S
from lib.cluster.nodes import HOLD_TTL_S, NODES, SWEEP_S, Nodes
from lib.processes import HERE, WAIT_S, Failure, fetch, node_id

# The longest time between a hold and the sending of its call.
DISPATCH_GUARD_S = 5
# What clocks and scheduling of a slow or busy machine may add between sending and the platform's log. A paused node is
# paused for longer, so that a call that it sends afterwards is noticed.
SLACK_S = 20
PAUSE_S = DISPATCH_GUARD_S + SLACK_S + 1


class Rounds(Nodes):
    """One cluster."""

    title = "Rounds"
    is_short = True

    def prepare(self):
        self.rotations = self.kills = self.pauses = self.crashes = 0
        self.slowest_start_ms = 0.0
        # The holds of a node that never came back under its id are the last to end.
        self.patience_s = OPEN_HOLDS_S if self.options.short else HOLD_TTL_S + SWEEP_S

    def play(self):
        for number in range(1, self.options.rounds + 1):
            self._round(number)

    def _round(self, number):
        steps = [self._rotate, self._kill, self._pause, self._crash]
        self.random.shuffle(steps)
        for step in steps:
            time.sleep(self.random.uniform(0.3, 1.0))
            self.say(f"round {number}/{self.options.rounds}: {step()}")
            self.disturbances += 1
        verdict = self.services[0].verify(self.findings, f"after round {number}")
        self.say(f"round {number}/{self.options.rounds}: verify {verdict}")

    def _rotate(self):
        """All nodes are called with the key while it is rotated on one of them, and after the
        response to the rotation."""
        service = self.random.choice(self.services)
        end = time.monotonic() + WAIT_S
        while True:
            try:
                fresh = fetch(f"{service.base_url}/v1/auth/keys/rotate", self.load.key, {})
                break
            except OSError as failure:
                # Right after a crash of the database it is refused with 503, without any change.
                if getattr(failure, "code", None) != 503 or time.monotonic() > end:
                    raise Failure(f"the key could not be rotated: {failure!r}") from None
                time.sleep(0.5)
        self.load.change_key(fresh["api_key"])
        self.rotations += 1
        return f"key rotated on {service.name}"

    def _next_step(self):
        time.sleep(self.load.until_next_step() + self.random.uniform(0.0, 0.04))

    def _kill(self):
        service = self.random.choice(self.services)
        self._next_step()
        service.child.kill()
        self.kills += 1
        what = f"{service.name} killed"
        if self.kills == 1 and not self.options.short:
            service.settings["metering"]["node"] = node_id()
            service.write_configuration(self.platforms)
            what += ", comes back under another id"
        time.sleep(self.random.uniform(0.0, 0.5))
        service.start()
        self.slowest_start_ms = max(self.slowest_start_ms, service.wait_for_health())
        return what

    def _pause(self):
        service = self.random.choice(self.services)
        self._next_step()
        service.child.process.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_S)
        service.child.process.send_signal(signal.SIGCONT)
        self.pauses += 1
        return f"{service.name} stopped for {PAUSE_S} s"

    def _crash(self):
        self._next_step()
        begun = time.monotonic()
        done = subprocess.run([HERE / "postgres", "crash"], check=False, capture_output=True, text=True, timeout=WAIT_S)
        if done.returncode:
            raise Failure(f"PostgreSQL did not come back: {done.stdout}{done.stderr}")
        self.crashes += 1
        return f"PostgreSQL crashed, back after {time.monotonic() - begun:.1f} s"

    def unanswered_looks(self):
        """Nodes are killed and paused here, and do not respond then."""
        return []

    def compare_more(self):
        """No call is sent long after its hold, which another node may have refunded by then."""
        held_at = {row[0]: row[1] for row in self.books.query("select id, held_at from calls")}
        late = []
        for arrivals in self.comparison.arrivals.values():
            for arrival in arrivals:
                held = held_at.get(arrival["call_id"])
                if held and arrival["write"] and arrival["at_ms"] / 1e3 - held / 1e6 > DISPATCH_GUARD_S + SLACK_S:
                    late.append(arrival["call_id"])
        self.findings.add(f"writes sent more than {DISPATCH_GUARD_S} s after their hold", late)

    def report(self):
        probes = self.comparison.probes
        refused = sum(answer.status == 401 for probe in probes for answer in probe.answers)
        self.facts += [
            ("nodes, requests a second", f"{NODES}, {self.options.rps}"),
            ("nodes killed, nodes stopped, crashes of PostgreSQL", f"{self.kills}, {self.pauses}, {self.crashes}"),
            ("slowest start of a node, to the first response", f"{self.slowest_start_ms:.0f} ms"),
            ("rotations of the key under load", self.rotations),
            ("calls with a rotated key, of these refused with 401", f"{len(probes)}, {refused}"),
        ]
        super().report()


class TwoBuilds(Rounds):
    """Rounds in which the last node runs another build, such as the previous release."""

    title = "Two builds on one schema"
    is_short = False

    def program(self, number):
        return self.options.other_binary if number == NODES else self.options.binary

    def start_nodes(self):
        """The newer build creates the schema; `--binary` is meant to be the newer one."""
        super().start_nodes()
        self.facts.append(("the last node runs", self.options.other_binary.name))
