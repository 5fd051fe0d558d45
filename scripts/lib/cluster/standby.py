"""A primary that is gone from one moment to the next, and a standby that takes its place."""

import time

from lib.books import PostgresBooks
from lib.cluster.nodes import Nodes
from lib.cluster.postgres import Postgres
from lib.cluster.watch import seconds

DATABASE = "creator_gateway"
# How long there is no primary before somebody promotes the standby.
DECISION_S = 2
# A node goes on in this time after the promotion.
RETURN_MAX_S = 3


class PairBooks(PostgresBooks):
    """A database on a primary and a standby, reached by a list of both."""

    is_synchronous = True

    def __init__(self, folder):
        self.primary, self.standby = (Postgres(folder, name) for name in ("primary", "standby"))
        try:
            self.primary.create()
            # On the command line: what the standby copies must not make it wait for itself once it is promoted.
            self.primary.start()
            self.standby.follow(self.primary)
            self.primary.close()
            self.primary.start(**({"synchronous_standby_names": "standby"} if self.is_synchronous else {}))
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


class Promotion(Nodes):
    """The primary is stopped at once, and its synchronous standby promoted."""

    title = "Promotion of a synchronous standby"
    is_short = True
    books = PairBooks

    def play(self):
        stopped = time.monotonic()
        self.books.primary.stop_immediately()
        self.say("the primary is gone")
        time.sleep(DECISION_S)
        begun = time.monotonic()
        self.books.standby.promote()
        promoted = time.monotonic()
        self.say(f"the standby is promoted, which took {promoted - begun:.1f} s")
        self.until(lambda: all(self.load.first_metered(promoted, [each]) for each in self.services), 10 * RETURN_MAX_S)
        self.say("all nodes serve again")
        first = self.load.first_metered(promoted)
        self.facts.append(("from the promotion to the first metered answer", seconds(first)))
        self.facts.append(("longest time without a metered answer", seconds(self.load.longest_gap(stopped, time.monotonic()))))
        for service in self.services:
            again = self.load.first_metered(promoted, [service])
            self.promise(f"{service.name}: from the promotion until it serves", again, RETURN_MAX_S)
        self.promise_calls("calls meanwhile", stopped, time.monotonic(), self.services, 5)
        time.sleep(2)
