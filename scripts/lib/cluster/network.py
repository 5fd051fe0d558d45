"""A node whose packets to the database are lost, and a database whose commits hang."""

import os
import time
import urllib.parse

from lib.books import OPEN_HOLDS_S, PostgresBooks
from lib.cluster.nodes import HOLD_TTL_S, SWEEP_S, Nodes
from lib.cluster.proxy import Proxy
from lib.processes import POSTGRES_VARIABLE

# The promised longest time that a caller waits for a response, whatever happens to the database.
CALL_MAX_S = 5
# If the database cannot be reached, a call may first wait 5 s for a connection to read the caller's
# key.
CUT_OFF_CALL_MAX_S = 6
NO_STANDBY = "a_standby_that_does_not_exist"


class DroppedPackets(Nodes):
    """One node's connections to the database pass nothing for a while, without being closed."""

    title = "Dropped packets"
    is_short = True
    # What is promised: until the disconnected node reports that it is not ready, and until it serves
    # again afterwards.
    notice_max_s = 15
    return_max_s = 15

    def prepare(self):
        target = urllib.parse.urlsplit(self.books.url)
        self.proxies = []
        for _ in range(3):
            self.proxies.append(Proxy(target.port))
            self.others.append(self.proxies[-1])
        self.silence_s = 20 if self.options.short else 60
        # Late packets may contain holds that their node no longer knows.
        self.patience_s = OPEN_HOLDS_S if self.options.short else HOLD_TTL_S + SWEEP_S

    def database_url(self, number):
        url = urllib.parse.urlsplit(self.books.url)
        host = f"{url.username}@127.0.0.1:{self.proxies[number - 1].port}"
        return url._replace(netloc=host).geturl()

    def play(self):
        lost, others = self.services[0], self.services[1:]
        # During calls, so that a transaction may stay open in the middle.
        time.sleep(self.load.until_next_step() + self.random.uniform(0.0, 0.02))
        begun = time.monotonic()
        self.proxies[0].silence()
        self.say(f"{lost.name} is cut off from the database for {self.silence_s} s")
        self.disturbances += 1
        time.sleep(self.silence_s)
        self.until(lambda: self.watches[0].first(False, begun) is not None)
        ended = time.monotonic()
        if self.options.short:
            self.proxies[0].forget()
            self.say("the network passes packets again, but has reset the connections")
        else:
            self.proxies[0].pass_on()
            self.say("the network passes packets again, including those sent before")
        self.await_metered(ended, [lost])
        self.say(f"{lost.name} serves again")
        self.promise("from the cut until the node reports not ready", self.watches[0].first(False, begun), self.notice_max_s)
        self.promise("until the node serves again", self.load.first_metered(ended, [lost]), self.return_max_s)
        self.promise_calls("calls to the other nodes meanwhile", begun, time.monotonic(), others, CALL_MAX_S)
        self.promise_calls("calls to the node that was cut off", begun, time.monotonic(), [lost], CUT_OFF_CALL_MAX_S)
        for service in others:
            gap = self.load.first_metered(begun, [service])
            self.facts.append((f"{service.name}: until its next metered response", f"{gap:.1f} s" if gap else "never"))


class Stall(Nodes):
    """The database reads and writes, but its commits wait for a missing standby."""

    title = "Stalled commits"
    stall_s = 20
    notice_max_s = 6
    return_max_s = 3

    def prepare(self):
        self.others.append(self)

    def close(self):
        """The server is shared with other tests and must not keep waiting."""
        self._wait_for_standby("")

    def _wait_for_standby(self, name):
        server = os.environ[POSTGRES_VARIABLE]
        PostgresBooks.command(server, f"alter system set synchronous_standby_names = '{name}'")
        PostgresBooks.command(server, "select pg_reload_conf()")

    def play(self):
        begun = time.monotonic()
        self._wait_for_standby(NO_STANDBY)
        self.say(f"commits wait for a standby that is missing, for {self.stall_s} s")
        self.disturbances += 1
        time.sleep(self.stall_s)
        self.until(lambda: all(watch.first(False, begun) is not None for watch in self.watches))
        self._wait_for_standby("")
        ended = time.monotonic()
        self.say("commits no longer wait")
        self.await_metered(ended, self.services)
        self.say("all nodes serve again")
        for service, watch in zip(self.services, self.watches, strict=True):
            self.promise(f"{service.name}: until it reports not ready", watch.first(False, begun), self.notice_max_s)
            self.promise(f"{service.name}: until it serves again", self.load.first_metered(ended, [service]), self.return_max_s)
        self.promise_calls("calls meanwhile", begun, time.monotonic(), self.services, CALL_MAX_S)
