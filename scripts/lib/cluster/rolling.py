"""Nodes behind a load balancer, restarted one after the other."""

import csv
import re
import signal
import socket
import time

from lib.cluster.nodes import Nodes
from lib.cluster.programs import Helper, fill, program
from lib.cluster.watch import readiness, seconds
from lib.load import CLIENTS
from lib.processes import START_TIMEOUT_S, STOP_TIMEOUT_S, check, free_port, known_settings

# The longest time that a stopping node may be told to announce it. It is told to go on once haproxy has noticed.
ANNOUNCE_MS = 300_000
# What haproxy waits for a node that does not respond: only one that hangs takes so long.
PATIENCE = "60s"
ROUNDS, SHORT_ROUNDS = 10, 1


class Balancer(Helper):
    """haproxy, with the documented configuration, run by the current user. If it is patient, a slow or busy machine is not
    mistaken for a node that is down."""

    name = "haproxy"

    def __init__(self, template, folder, port, *, is_patient=False, **places):
        self.port = port
        self.control = folder / "haproxy.socket"
        haproxy = program("haproxy", "haproxy")
        path = fill(template, folder, listen=f"127.0.0.1:{port}", stats_socket=self.control, **places)
        if is_patient:
            path.write_text(re.sub(r"(timeout (?:connect|check)) \S+", rf"\1 {PATIENCE}", path.read_text()))
        super().__init__([haproxy, "-db", "-f", path], folder / "haproxy.log", is_owners=False)

    def close(self):
        """When asked to end it would wait for its connections, which is unnecessary."""
        self.kill()

    def states(self):
        """Its view of each server, by name."""
        try:
            with socket.socket(socket.AF_UNIX) as control:
                control.settimeout(STOP_TIMEOUT_S)
                control.connect(str(self.control))
                control.sendall(b"show stat\n")
                lines = control.makefile("r").read().removeprefix("# ").splitlines()
        except OSError:
            return {}
        return {row["svname"]: row["status"] for row in csv.DictReader(lines)}

    def used(self):
        """The servers that it sends requests to. Its first states are a guess, before every server
        was checked."""
        return {name for name, state in self.states().items() if state.startswith("UP") and name not in ("FRONTEND", "BACKEND")}

    def wait_for(self, name, *, alone=False):
        """Waits until it uses a server, and optionally no other one."""
        until = time.monotonic() + START_TIMEOUT_S
        while not (self.used() == {name} if alone else name in self.used()):
            check(self.process.poll() is None and time.monotonic() < until, f"haproxy does not use {name}: {self.states()}")
            time.sleep(0.1)


class RollingRestart(Nodes):
    """Clients without retries call through haproxy; every node is stopped and restarted, one after
    the other."""

    title = "Rolling restart"
    is_short = True

    def settings(self, _number):
        settings = {
            "http": {"trusted_proxies": ["127.0.0.1"]},
            "admin": {"probe_listen": f"127.0.0.1:{free_port()}"},
        }
        if self.announces():
            settings["http.timeouts"] = {"announce_ms": ANNOUNCE_MS}
        return settings

    def announces(self):
        """Whether this build announces that it stops."""
        return "announce_ms" in known_settings(self.options.binary)["http"]["timeouts"]

    def targets(self):
        return [self.balancer]

    def call_nodes(self):
        places = {}
        for number, service in enumerate(self.services, 1):
            places[f"node_{number}"] = f"127.0.0.1:{service.port}"
            places[f"probe_port_{number}"] = service.settings["admin"]["probe_listen"].rpartition(":")[2]
        self.balancer = Balancer("haproxy-gateway.cfg", self.folder, free_port(), is_patient=True, **places)
        self.others.append(self.balancer)
        for service in self.services:
            self.balancer.wait_for(service.name)
        super().call_nodes()

    def play(self):
        self.rounds = SHORT_ROUNDS if self.options.short else ROUNDS
        begun = time.monotonic()
        stops, self.notices = [], []
        for number in range(1, self.rounds + 1):
            for service in self.services:
                stops.append(self._restart(service))
                self.disturbances += 1
            self.say(f"round {number}/{self.rounds}: every node stopped and started")
        failed = [each for each in self.load.between(begun, time.monotonic()) if each.has_failed()]
        shown = [
            (each.answer.status, each.answer.code, f"{each.begun - begun:.1f} s") if each.answer else "no response" for each in failed
        ]
        self.findings.add("requests that failed while nodes were restarted", shown)
        self.facts.append(("nodes stopped and started behind haproxy", len(stops)))
        self.facts.append(("longest stop of a node", f"{max(stops):.1f} s"))
        if self.notices:
            self.facts.append(("longest until haproxy noticed that a node stops", seconds(max(self.notices))))

    def _restart(self, service):
        """Stops a node as a service manager does, and starts it; returns once it is used again."""
        begun = time.monotonic()
        service.child.process.send_signal(signal.SIGTERM)
        if self.announces():
            self._leave(service)
            # It need not wait any longer.
            service.child.process.send_signal(signal.SIGTERM)
        code = service.child.process.wait(STOP_TIMEOUT_S)
        took = time.monotonic() - begun
        self.findings.add("exit codes of a stopped service other than 0", [code] if code else [])
        service.start()
        service.wait_for_health()
        self.until(lambda: readiness(service))
        self.balancer.wait_for(service.name)
        return took

    def _leave(self, service):
        """Waits until haproxy has noticed that a node stops, and the calls on their way to it are over."""
        noticed = self.until(lambda: service.name not in self.balancer.used())
        check(noticed is not None, f"haproxy does not notice that {service.name} stops")
        self.notices.append(noticed)
        seen = len(self.load.answers)
        self.until(lambda: len(self.load.answers) >= seen + 2 * CLIENTS)

    def unanswered_looks(self):
        """A stopped node does not respond."""
        return []
