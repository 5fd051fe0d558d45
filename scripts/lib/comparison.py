"""Compares what really happened with the ledger: the platforms' logs, the client's log and the
database."""

import collections
import urllib.parse

# The outcomes of calls whose result is unknown: they are free, whatever the platform did.
UNACCOUNTED = ("outcome_unknown", "expired")


class Findings:
    """Rules whose count must be zero, with the first examples of violations."""

    def __init__(self):
        self.counts = {}

    def add(self, rule, examples=()):
        examples = list(examples)
        known = self.counts.setdefault(rule, [0, []])
        known[0] += len(examples)
        known[1].extend(examples[: max(0, 3 - len(known[1]))])

    def is_clean(self):
        return all(count == 0 for count, _ in self.counts.values())


def operation_of(arrival):
    """The number of the client's operation that reached a platform; None for other requests, such
    as the identity check of a new account."""
    query = urllib.parse.parse_qs(arrival["query"] or "")
    return int(query["operation"][0]) if "operation" in query else None


class Comparison:
    """Compares the database with the logs of the platforms and of the client, call by call."""

    def __init__(self, trial):
        self.load, self.books, self.findings = trial.load, trial.books, trial.findings
        self.customer = trial.customer
        columns = "id, request_id, method, state, outcome, cost, credits, platform"
        rows = self.books.query(f"select {columns} from calls")
        self.calls = {row[0]: row for row in rows}
        self.by_request = {row[1]: row for row in rows}
        self.arrivals = {platform: trial.platforms.requests(platform) for platform in trial.platforms.accounts}
        self._compare_platforms()
        self._compare_answers()
        self._compare_repeats()
        self._compare_dead_keys()
        self.reads = trial.reader.reads if trial.reader else None
        if trial.reader:
            self.findings.add("reads of the balance that did not add up", trial.reader.broken)
        self.findings.add("request ids with more than one call", [""] * (len(rows) - len(self.by_request)))

    def _compare_platforms(self):
        self.seen = collections.Counter()
        self.by_operation = collections.Counter()
        self.acted = set()
        writes_by_operation = collections.Counter()
        writes_without, twice, nameless, reads_without = [], [], [], []
        for platform, arrivals in self.arrivals.items():
            for arrival in arrivals:
                call, is_write = arrival["call_id"], arrival["write"]
                operation = operation_of(arrival)
                if operation is None:
                    continue
                self.by_operation[operation] += 1
                if call is None:
                    nameless.append((platform, arrival["seq"]))
                    continue
                self.seen[call] += 1
                if is_write:
                    writes_by_operation[operation] += 1
                    if self.seen[call] > 1:
                        twice.append(call)
                    if call not in self.calls:
                        writes_without.append(call)
                elif call not in self.calls:
                    reads_without.append(call)
                if arrival["status"] is not None and arrival["status"] < 500:
                    self.acted.add(call)
        self.unknown_reads = len(reads_without)
        operations = self.load.operations
        again = [number for number, times in writes_by_operation.items() if times > 1]
        unseen = [row[0] for row in self.calls.values() if row[3] == "settled" and row[0] not in self.seen]
        add = self.findings.add
        add("writes at a platform without a hold row", writes_without)
        add("calls at a platform without a call id", nameless)
        add("a write's call id seen twice at a platform", twice)
        add("an Idempotency-Key that reached a platform twice", [n for n in again if operations[n].key])
        add("a write sent once that reached a platform twice", [n for n in again if not operations[n].key])
        add("settled calls that the platform never saw", unseen)

    def _compare_answers(self):
        without, wrong = [], []
        self.free_answers = 0
        back = self.books.query("select source_id, amount from ledger where source = 'withheld_read'")
        self.given_back = dict(back)
        kept = [answer.request_id for answer in self.load.answers if self._is_charged_in_vain(answer)]
        receipts = [answer for answer in self.load.answers if answer.is_receipt()]
        for answer in receipts:
            row = self.by_request.get(answer.request_id)
            if row is None:
                without.append((answer.request_id, answer.status))
            elif row[4] in UNACCOUNTED:
                self.free_answers += 1
            elif answer.cost != row[6]:
                wrong.append((answer.request_id, answer.cost, row[6], row[4]))
        settled = sum(row[6] for row in self.calls.values() if row[3] == "settled")
        spent = self.books.query(f"select spent from customer_credits where customer_id = '{self.customer}'")[0][0]
        self.receipts, self.settled = len(receipts), settled
        add = self.findings.add
        add("responses delivered to the client without a hold row", without)
        add("refused calls that stay charged", kept)
        add("receipts whose cost differs from the call's row", wrong)
        add("credits spent that differ from the sum of settled calls", [f"{spent} - {settled}"] if spent != settled else [])

    def _is_charged_in_vain(self, answer):
        row = self.by_request.get(answer.request_id)
        is_charged = row is not None and answer.source == "gateway" and not answer.is_receipt()
        return is_charged and row[6] > self.given_back.get(row[0], 0)

    def _compare_repeats(self):
        """Once a platform has responded to a write with a key, the key returns that response again,
        even after a kill."""
        different, unanswered = [], []
        self.replays = self.keyed = 0
        for operation in self.load.operations:
            if not operation.key:
                continue
            self.keyed += 1
            whole = [answer for answer in operation.answers if answer.is_whole()]
            if len(whole) < 2:
                unanswered.append(operation.number)
            first = None
            for answer in whole:
                self.replays += answer.replayed
                if first is None and answer.cost is not None and answer.source != "gateway":
                    first = answer
                elif first and (answer.status, answer.body) != (first.status, first.body):
                    different.append((operation.key, first.status, answer.status, answer.code))
        self.findings.add("a repetition that did not get the first response", different)
        self.findings.add("an Idempotency-Key that never got two responses", unanswered)

    def _compare_dead_keys(self):
        """Calls with the old key that start after the response to a rotation are refused,
        everywhere. A write does not reach its platform either; a read may, in vain."""
        self.probes = [operation for operation in self.load.operations if operation.credential]
        if self.probes:
            accepted = [probe.number for probe in self.probes if self._is_accepted(probe)]
            self.findings.add("calls accepted with a rotated key, after the response", accepted)

    def _is_accepted(self, probe):
        is_sent = probe.method != "GET" and probe.number in self.by_operation
        return is_sent or any(answer.status not in (401, 503) for answer in probe.answers)

    def checked(self):
        """How much was compared, by kind."""
        counts = {"calls in the ledger": len(self.calls), "calls at the platforms": len(self.seen), "responses": self.receipts}
        return counts if self.reads is None else {**counts, "reads of the balance": self.reads}

    def report(self, trial, more=()):
        """Prints what happened and the counts that must be 0."""
        unknown = [row for row in self.calls.values() if row[4] in UNACCOUNTED]
        acted = [row for row in unknown if row[0] in self.acted]
        load = self.load
        statuses = collections.Counter(answer.status for answer in load.answers)
        outcomes = collections.Counter(row[4] or row[3] for row in self.calls.values())
        refusals = collections.Counter(answer.code for answer in load.answers if answer.source == "gateway")
        print_facts(
            f"{self.books.name}: what happened",
            [
                *more,
                ("operations of the client", len(load.operations)),
                ("responses delivered, metered ones among them", f"{len(load.answers)}, {self.receipts}"),
                ("responses by status", shown(statuses)),
                ("refusals of the gateway by code", shown(refusals)),
                ("connection errors, cut responses", f"{load.connection_errors}, {load.cut_answers}"),
                ("calls in the database", len(self.calls)),
                ("calls by outcome", shown(outcomes)),
                ("requests at the platforms", sum(self.seen.values())),
                ("reads at a platform without a hold row or a response", self.unknown_reads),
                ("reads charged, then withheld and given back", len(self.given_back)),
                ("refunded as outcome_unknown or expired", len(unknown)),
                ("of these the platform had acted on (free calls)", len(acted)),
                ("of these the client had got the response", self.free_answers),
                ("writes with an Idempotency-Key, replays", f"{self.keyed}, {self.replays}"),
                *([("reads of the balance", trial.reader.reads)] if trial.reader else []),
                ("credits spent", self.settled),
            ],
        )
        print_findings(self.books.name, self.findings)


def shown(counter):
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items(), key=str)) or "none"


def print_facts(title, facts):
    print(f"\n{title}")
    for name, value in facts:
        print(f"  {name:<58} {value}")


def print_findings(name, findings):
    print(f"{name}: what must be 0")
    for rule, (count, examples) in findings.counts.items():
        print(f"  {rule:<58} {count}")
        for example in examples:
            print(f"      for example {example}")
    print(flush=True)
