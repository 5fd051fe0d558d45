"""A primary that disappears suddenly, and a standby that replaces it."""

import time
from typing import ClassVar

from lib.books import PostgresBooks
from lib.cluster.network import CUT_OFF_CALL_MAX_S
from lib.cluster.nodes import Nodes
from lib.cluster.postgres import Postgres
from lib.cluster.proxy import Proxy
from lib.cluster.watch import metric, seconds
from lib.comparison import Findings

DATABASE = "creator_gateway"
# The time without a primary before the operator promotes the standby.
DECISION_S = 2
# The promised longest time until a node serves after the promotion.
RETURN_MAX_S = 3
SETTLE_S = 2
# Nodes check the standbys every ten seconds.
SHOWN_MAX_S = 15
# How far behind the asynchronous standby is when it is promoted.
BEHIND_S = 3
LOST = "responses delivered to the client without a hold row"
VERIFY = "verify: runs that found a fault"


class PairBooks(PostgresBooks):
    """A database on a primary and a standby, reached through a list of both."""

    # Settings of the primary after the standby has been copied. They are passed on the command
    # line: settings that the standby copies must not make it wait for itself once it is promoted.
    settings: ClassVar = {"synchronous_standby_names": "standby"}
    link = None

    def __init__(self, folder):
        self.primary, self.standby = (Postgres(folder, name) for name in ("primary", "standby"))
        try:
            self.primary.create()
            self.primary.start()
            self.link = Proxy(self.primary.port)
            self.standby.follow(self.link.port)
            self.primary.close()
            self.primary.start(**self.settings)
            self.standby.start()
            self.url = self._url(f"{self.primary.address},{self.standby.address}", DATABASE, "?target_session_attrs=read-write")
            self.command(self._url(self.primary.address, "postgres"), f"create database {DATABASE}")
        except BaseException:
            self.drop()
            raise

    @staticmethod
    def _url(hosts, database, more=""):
        return f"postgres://postgres@{hosts}/{database}{more}"

    def drop(self):
        self.primary.close()
        self.standby.close()
        if self.link:
            self.link.close()


class Promotion(Nodes):
    """The primary is stopped immediately, and its synchronous standby promoted."""

    title = "Promotion of a synchronous standby"
    is_short = True
    books = PairBooks
    standby_kind = "synchronous"

    def play(self):
        self.promise("until all nodes' metrics show the standby", self.until(self.is_standby_shown), SHOWN_MAX_S)
        self.before_the_end()
        stopped = time.monotonic()
        self.books.primary.stop_immediately()
        self.disturbances += 1
        self.say("the primary is gone")
        time.sleep(DECISION_S)
        begun = time.monotonic()
        self.books.standby.promote()
        promoted = time.monotonic()
        self.say(f"the standby is promoted, which took {promoted - begun:.1f} s")
        self.await_metered(promoted, self.services)
        self.say("all nodes serve again")
        first = self.load.first_metered(promoted)
        self.facts.append(("from the promotion to the first metered response", seconds(first)))
        self.facts.append(("longest time without a metered response", seconds(self.load.longest_gap(stopped, time.monotonic()))))
        for service in self.services:
            again = self.load.first_metered(promoted, [service])
            self.promise(f"{service.name}: from the promotion until it serves", again, RETURN_MAX_S)
        self.promise_calls("calls meanwhile", stopped, time.monotonic(), self.services, CUT_OFF_CALL_MAX_S)
        time.sleep(SETTLE_S)

    def is_standby_shown(self):
        """Whether every node's metrics count one standby of the right kind, and say whether commits
        wait for it."""
        series = f'creator_gateway_database_standbys{{kind="{self.standby_kind}"}}'
        required = float(self.standby_kind == "synchronous")
        return all(
            metric(each, series) == 1 and metric(each, "creator_gateway_database_synchronous_standby_required") == required
            for each in self.services
        )

    def before_the_end(self):
        """Prepares the primary before it is stopped."""


class AsynchronousBooks(PairBooks):
    """The primary does not wait for the standby."""

    settings: ClassVar = {}


class AsynchronousPromotion(Promotion):
    """The standby is behind, but is promoted anyway: this shows the cost, and that the comparison
    detects it."""

    title = "Promotion of an asynchronous standby that is behind"
    is_short = False
    books = AsynchronousBooks
    standby_kind = "asynchronous"

    def before_the_end(self):
        self.books.link.silence()
        self.say(f"the standby receives nothing for {BEHIND_S} s")
        time.sleep(BEHIND_S)

    def compare_more(self):
        """Losses are expected. The remaining data must be consistent."""
        counts = self.findings.counts
        self.facts += [(f"expected: {rule}", count) for rule, (count, _) in counts.items() if count and rule != VERIFY]
        lost = counts[LOST][0]
        self.findings = self.comparison.findings = Findings()
        self.findings.counts[VERIFY] = counts[VERIFY]
        self.findings.add("an asynchronous standby that is behind and loses nothing", [] if lost else [lost])
