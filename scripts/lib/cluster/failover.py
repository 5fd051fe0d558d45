"""Nodes on a database managed by Patroni: its primary is killed, and replaced as planned."""

import time

from lib.cluster.network import CUT_OFF_CALL_MAX_S
from lib.cluster.nodes import Nodes
from lib.cluster.patroni import GapWatch, PatroniBooks
from lib.cluster.rolling import Balancer
from lib.cluster.watch import seconds
from lib.processes import check, free_port

# The promised longest time between the recovery of the database and of the nodes.
BEHIND_MAX_S = 3
SETTLE_S = 3


class Failover(Nodes):
    """Nodes find the primary in a list of servers."""

    title = "Patroni, through a list of servers"
    books = PatroniBooks

    def prepare(self):
        self.gaps = GapWatch(self.books)
        self.others.append(self.gaps)
        self.gaps.start()

    def play(self):
        self._replace("killed", self._kill)
        self._replace("planned", self.books.switch_over)

    def _kill(self, leader):
        leader.kill()
        self.killed = leader

    def _replace(self, how, replace):
        leader = self.books.primary()
        begun = time.monotonic()
        self.say(f"{leader.name} is to be replaced, {how}")
        replace(leader)
        self.disturbances += 1
        check(self.until(lambda: self.books.primary() not in (None, leader)), "no other server became the primary")
        moved = time.monotonic()
        self.say(f"{getattr(self.books.primary(), 'name', 'no server')} is the primary")
        self.await_metered(moved, self.load.services)
        time.sleep(SETTLE_S)
        self._note(how, begun, time.monotonic())
        if how == "killed":
            leader.start()
            self.books.wait_until_whole()
            self.say(f"{leader.name} follows again")

    def _note(self, how, begun, ended):
        """The time without any successful write, and the time without a metered response."""
        database = self.gaps.longest_gap(begun, ended)
        calls = self.load.longest_gap(begun, ended)
        self.facts.append((f"{how}: no write succeeded for", seconds(database)))
        self.facts.append((f"{how}: no metered response for", seconds(calls)))
        self.promise(f"{how}: nodes behind the database", max(0.0, calls - database), BEHIND_MAX_S)
        self.promise_calls(f"{how}: calls meanwhile", begun, ended, self.load.services, CUT_OFF_CALL_MAX_S)


class FailoverThroughProxy(Failover):
    """Nodes connect to haproxy, which asks Patroni for the primary."""

    title = "Patroni, through haproxy"

    def prepare(self):
        places = {}
        for number, member in enumerate(self.books.members, 1):
            places |= {f"postgres_{number}": member.address, f"rest_port_{number}": member.rest_port}
        self.proxy = Balancer("haproxy-database.cfg", self.folder, free_port(), **places)
        self.others.append(self.proxy)
        self.proxy.wait_for(self.books.primary().name, alone=True)
        super().prepare()

    def database_url(self, _number):
        return self.books.url_of(f"127.0.0.1:{self.proxy.port}")
