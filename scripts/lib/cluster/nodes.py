"""Nodes on one database under load: what every scenario has in common."""

import time

from lib.books import PostgresBooks, open_holds
from lib.cluster.watch import ReadyWatch, TimedLoad, seconds
from lib.comparison import UNACCOUNTED, Comparison
from lib.processes import Service, node_id, shared_settings
from lib.trial import Trial

NODES = 3
# The shortest time that a hold may be given, and what its sweeper may need.
HOLD_TTL_S = 130
SWEEP_S = 60
WARM_UP_S = 3
PATIENCE_S = 20


class Nodes(Trial):
    """A scenario. What it needs beside nodes it adds to `others`, which are closed at the end whatever happens."""

    books = PostgresBooks
    # What the scenario shows, in one line.
    title = ""
    # Whether it is part of the short form.
    is_short = False
    # How long is waited for holds whose node has lost them.
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
        """Starts what stands around the nodes."""

    def play(self):
        """Lets happen what the scenario is about, under load."""
        raise NotImplementedError

    def database_url(self, _number):
        return self.books.url

    def program(self, _number):
        return self.options.binary

    def settings(self, _number):
        """Sections of one node's configuration that are its own."""
        return {}

    def targets(self):
        """What clients call."""
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
        """Looks at readiness and at the balance, and lets the clients call, until all nodes have answered for a while."""
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
        print(f"  {time.monotonic() - self.begun:>5.0f} s, {what:<66} {count:>6} answers", flush=True)

    def until(self, is_so, limit_s):
        """Waits for something, for some seconds at most: seconds until it was so, or nothing."""
        begun = time.monotonic()
        while not is_so():
            if time.monotonic() - begun > limit_s:
                return None
            time.sleep(0.05)
        return time.monotonic() - begun

    def promise(self, rule, value, limit):
        """Notes a time, and that it must not be longer than a limit."""
        self.facts.append((rule, f"{seconds(value)} (at most {limit} s)"))
        late = value is None or value > limit
        self.findings.add(f"{rule}: longer than {limit} s", [seconds(value)] if late else [])

    def promise_calls(self, rule, begin, end, services, limit):
        """No call of a time may take longer than a limit, whatever its answer is."""
        timings = self.load.between(begin, end, services)
        slow = [each for each in timings if each.seconds > limit]
        slowest = max((each.seconds for each in timings), default=0.0)
        self.facts.append((rule, f"{len(timings)} calls, the slowest {slowest:.1f} s (at most {limit} s)"))
        shown = [f"{each.seconds:.1f} s, {each.answer.status if each.answer else 'no answer'}" for each in slow]
        self.findings.add(f"{rule}: calls that took more than {limit} s", shown)

    def finish(self):
        """Ends the load and the nodes and compares the books."""
        time.sleep(1)
        self.load.finish()
        self.findings.add("open holds at the end", ["open"] * open_holds(self.books, self.patience_s))
        self.reader.finish()
        for watch in self.watches:
            watch.finish()
        self.findings.add("looks at readiness without an answer", self.unanswered_looks())
        self.stop_services()
        self.services[0].verify(self.findings, "at the end")
        self.comparison = Comparison(self)
        self.compare_more()

    def unanswered_looks(self):
        return [look for watch in self.watches for look in watch.without_answer()]

    def compare_more(self):
        """No node died, so every call that was answered stays charged."""
        rows = self.comparison.by_request
        receipts = [answer.request_id for answer in self.load.answers if answer.is_receipt()]
        refunded = [(rows[each][0], rows[each][4]) for each in receipts if each in rows and rows[each][4] in UNACCOUNTED]
        self.findings.add("answered calls that were given back", refunded)

    def report(self):
        self.comparison.report(self, [*self.facts, ("reads of the balance that met no database", self.reader.failed_reads)])
