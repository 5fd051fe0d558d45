"""Nodes on one database under load: the basis of every scenario."""

import time

from lib.books import OPEN_HOLDS_S, PostgresBooks, open_holds
from lib.cluster.watch import ReadyWatch, TimedLoad, seconds
from lib.comparison import UNACCOUNTED, Comparison
from lib.processes import CALL_TIMEOUT_S, WAIT_S, Service, node_id, shared_settings
from lib.trial import Trial

NODES = 3
# The shortest allowed lifetime of a hold, and the time that its sweeper may need: it must have seen it unrenewed for two
# minutes.
HOLD_TTL_S = 130
SWEEP_S = 180
WARM_UP_S = 3


class Nodes(Trial):
    """A scenario. Other processes that it needs are added to `others`, which are closed at the end
    in any case."""

    books = PostgresBooks
    # The title of the scenario, in one line.
    title = ""
    # Whether it is part of the short form.
    is_short = False
    # How long to wait for holds that their node has lost.
    patience_s = OPEN_HOLDS_S

    def __init__(self, options, books_of, folder):
        self.facts, self.others, self.watches = [], [], []
        # How often something was made to fail.
        self.disturbances = 0
        try:
            super().__init__(options, books_of, folder)
        finally:
            for each in reversed((*self.others, *self.watches)):
                each.finish() if isinstance(each, ReadyWatch) else each.close()

    def carry_out(self):
        print(f"\n{self.title}: {NODES} nodes at {self.options.rps} requests/s, seed {self.options.seed}", flush=True)
        self.begun = time.monotonic()
        self.prepare()
        self.add_nodes()
        self.start_nodes()
        self.call_nodes()
        self.play()
        self.finish()

    def prepare(self):
        """Starts the processes besides the nodes."""

    def play(self):
        """Performs the scenario under load."""
        raise NotImplementedError

    def database_url(self, _number):
        return self.books.url

    def program(self, _number):
        return self.options.binary

    def settings(self, _number):
        """Sections of the configuration that are specific to one node."""
        return {}

    def targets(self):
        """The services that clients call."""
        return self.services

    def add_nodes(self):
        shared = shared_settings(self.books.url)
        for number in range(1, NODES + 1):
            settings = {**shared, **self.settings(number)}
            settings["metering"] = {"node": node_id(), "hold_ttl_s": HOLD_TTL_S, **settings.get("metering", {})}
            place = (self.program(number), self.folder, self.platforms, self.database_url(number))
            self.services.append(Service(*place, name=f"node-{number}", settings=settings))

    def start_nodes(self):
        for service in self.services:
            service.start()
            service.wait_for_health()

    def call_nodes(self):
        """Watches readiness and the balance, and lets the clients call, until all nodes have
        responded for a while."""
        customer, key = self.services[0].prepare(self.platforms)
        self.begin_reading(customer, may_break=True)
        self.watches = [ReadyWatch(service) for service in self.services]
        for watch in self.watches:
            watch.start()
        self.customer = customer
        self.load = TimedLoad(self.targets(), key, self.platforms, self.options.rps, self.options.seed)
        self.load.start()
        time.sleep(WARM_UP_S)
        self.await_metered(self.load.begun, self.targets())
        self.say("all nodes are called")

    def say(self, what):
        self.load.check()
        count = len(self.load.answers)
        print(f"  {time.monotonic() - self.begun:>5.0f} s, {what:<66} {count:>6} responses", flush=True)

    def until(self, is_so):
        """Waits for a condition: the seconds until it was true, or None if it was not for minutes."""
        begun = time.monotonic()
        while not is_so():
            if time.monotonic() - begun > WAIT_S:
                return None
            time.sleep(0.05)
        return time.monotonic() - begun

    def await_metered(self, since, services):
        """Waits until each of these services has a metered response to a call that began after a time."""
        silent = lambda: [each.name for each in services if self.load.first_metered(since, [each]) is None]
        self.until(lambda: not silent())
        self.findings.add("nodes that never serve again", silent())

    def promise(self, rule, value, limit):
        """Records a duration, and what is promised. A slow or busy machine may take longer, but what never happens is a
        fault."""
        self.facts.append((rule, f"{seconds(value)} (promised: {limit} s)"))
        self.findings.add(f"{rule}: never", [seconds(value)] if value is None else [])

    def promise_calls(self, rule, begin, end, services, limit):
        """Records the slowest call within a time, and what is promised. A call that hangs is a fault, whatever becomes of it."""
        timings = self.load.between(begin, end, services)
        hanging = [each for each in timings if each.seconds > CALL_TIMEOUT_S / 2]
        slowest = max((each.seconds for each in timings), default=0.0)
        self.facts.append((rule, f"{len(timings)} calls, the slowest {slowest:.1f} s (promised: {limit} s)"))
        shown = [f"{each.seconds:.1f} s, {each.answer.status if each.answer else 'no response'}" for each in hanging]
        self.findings.add(f"{rule}: calls that hang", shown)
        self.findings.add(f"{rule}: no calls, so the test proves nothing", [] if timings else [rule])

    def finish(self):
        """Ends the load and the nodes and compares the ledger."""
        time.sleep(1)
        self.load.finish()
        self.findings.add("open holds at the end", ["open"] * open_holds(self.books, self.patience_s))
        self.reader.finish()
        for watch in self.watches:
            watch.finish()
        self.facts.append(("slowest readiness probe", seconds(max(watch.slowest() for watch in self.watches))))
        self.findings.add("readiness probes without a response", self.unanswered_looks())
        self.stop_services()
        self.services[0].verify(self.findings, "at the end")
        self.comparison = Comparison(self)
        self.compare_more()

    def unanswered_looks(self):
        return [look for watch in self.watches for look in watch.without_answer()]

    def compare_more(self):
        """No node died, so every call with a response stays charged."""
        rows = self.comparison.by_request
        receipts = [answer.request_id for answer in self.load.answers if answer.is_receipt()]
        refunded = [(rows[each][0], rows[each][4]) for each in receipts if each in rows and rows[each][4] in UNACCOUNTED]
        self.findings.add("calls with a response that were refunded", refunded)

    def checked(self):
        return {"disturbances": self.disturbances, **self.comparison.checked()}

    def report(self):
        self.comparison.report(self, [*self.facts, ("reads of the balance that met no database", self.reader.failed_reads)])
