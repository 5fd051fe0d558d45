"""Nodes on one database under load: the basis of every scenario."""

import time

from lib.books import PostgresBooks, open_holds
from lib.cluster.watch import ReadyWatch, TimedLoad, seconds
from lib.comparison import UNACCOUNTED, Comparison
from lib.processes import Service, node_id, shared_settings
from lib.trial import Trial

NODES = 3
# The shortest allowed lifetime of a hold, and the time that its sweeper may need.
HOLD_TTL_S = 130
SWEEP_S = 60
WARM_UP_S = 3
PATIENCE_S = 20


class Nodes(Trial):
    """A scenario. Other processes that it needs are added to `others`, which are closed at the end
    in any case."""

    books = PostgresBooks
    # The title of the scenario, in one line.
    title = ""
    # Whether it is part of the short form.
    is_short = False
    # How long to wait for holds that their node has lost.
    patience_s = PATIENCE_S

    def __init__(self, options, books_of, folder):
        self.facts, self.others, self.watches = [], [], []
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
        self.say("all nodes are called")

    def say(self, what):
        self.load.check()
        count = len(self.load.answers)
        print(f"  {time.monotonic() - self.begun:>5.0f} s, {what:<66} {count:>6} responses", flush=True)

    def until(self, is_so, limit_s):
        """Waits for a condition, up to a limit: the seconds until it was true, or None."""
        begun = time.monotonic()
        while not is_so():
            if time.monotonic() - begun > limit_s:
                return None
            time.sleep(0.05)
        return time.monotonic() - begun

    def promise(self, rule, value, limit):
        """Records a duration, which must not exceed a limit."""
        self.facts.append((rule, f"{seconds(value)} (at most {limit} s)"))
        late = value is None or value > limit
        self.findings.add(f"{rule}: longer than {limit} s", [seconds(value)] if late else [])

    def promise_calls(self, rule, begin, end, services, limit):
        """No call within a time may take longer than a limit, whatever its response."""
        timings = self.load.between(begin, end, services)
        slow = [each for each in timings if each.seconds > limit]
        slowest = max((each.seconds for each in timings), default=0.0)
        self.facts.append((rule, f"{len(timings)} calls, the slowest {slowest:.1f} s (at most {limit} s)"))
        shown = [f"{each.seconds:.1f} s, {each.answer.status if each.answer else 'no response'}" for each in slow]
        self.findings.add(f"{rule}: calls that took more than {limit} s", shown)

    def finish(self):
        """Ends the load and the nodes and compares the ledger."""
        time.sleep(1)
        self.load.finish()
        self.findings.add("open holds at the end", ["open"] * open_holds(self.books, self.patience_s))
        self.reader.finish()
        for watch in self.watches:
            watch.finish()
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

    def report(self):
        self.comparison.report(self, [*self.facts, ("reads of the balance that met no database", self.reader.failed_reads)])
