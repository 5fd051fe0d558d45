"""Three PostgreSQL servers managed by Patroni, with etcd for consensus."""

import itertools
import json
import os
import pathlib
import secrets
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

from lib.books import PostgresBooks
from lib.cluster.postgres import postgres_folder
from lib.cluster.programs import Helper, fill, own_folder, program, run_as_owner
from lib.processes import START_TIMEOUT_S, STOP_TIMEOUT_S, check, free_port

MEMBERS = 3
DATABASE = "creator_gateway"
PACKAGES = ("patroni", "python3-etcd", "python3-psycopg2")
# Patroni is written in Python and must not load the libraries of this script's Python.
ENVIRONMENT = {"PYTHONPATH": "", "PYTHONHOME": "", "PYTHONUNBUFFERED": "1"}


class Etcd(Helper):
    """One member is enough for this test; production needs three."""

    def __init__(self, folder):
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.address = client.removeprefix("http://")
        data = own_folder(folder / "etcd")
        arguments = ["--name", "etcd", "--data-dir", data, "--logger", "zap"]
        arguments += ["--listen-client-urls", client, "--advertise-client-urls", client]
        arguments += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"etcd={peer}"]
        super().__init__([program("etcd", "etcd-server"), *arguments], folder / "etcd.log")


class Member:
    """Patroni and its PostgreSQL."""

    def __init__(self, folder, number, **places):
        self.name = f"postgres-{number}"
        self.folder = own_folder(folder / self.name)
        self.port, self.rest_port = free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.log = folder / f"{self.name}.log"
        self.data = self.folder / "data"
        own = {"name": self.name, "address": "127.0.0.1", "port": self.port, "rest_port": self.rest_port}
        folders = {"data_folder": self.data, "programs_folder": postgres_folder()}
        self.config = fill("patroni.yml", self.folder, **own, **folders, **places)
        self.patroni = None

    def start(self):
        self.patroni = Helper([program("patroni", *PACKAGES), self.config], self.log, environment=ENVIRONMENT)

    def state(self):
        """Patroni's report: the role and the state of the server, or None."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest_port}/patroni", timeout=2) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            return json.load(refused)
        except (OSError, ValueError):
            return {}

    def is_primary(self):
        found = self.state()
        return found.get("role") in ("master", "primary") and found.get("state") == "running"

    def is_synchronous(self):
        return self.state().get("sync_standby") is True

    def _server(self):
        """The id of the server's first process, which is Patroni's child only until Patroni is
        restarted."""
        try:
            return int((self.data / "postmaster.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None

    def _is_server(self, process):
        """Whether a process is still this server: ids are reused."""
        try:
            return str(self.data).encode() in pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            return False

    def kill(self):
        """Kills the server and Patroni, as a crash of the machine would."""
        process = self._server()
        self.patroni.kill()
        if process and self._is_server(process):
            os.kill(process, signal.SIGKILL)

    def close(self):
        process = self._server()
        if self.patroni:
            self.patroni.close()
        if process and self._is_server(process):
            os.kill(process, signal.SIGKILL)


class PatroniBooks(PostgresBooks):
    """A database on three servers, reached through a list of them."""

    def __init__(self, folder):
        self.others = []
        passwords = {f"{name}_password": secrets.token_hex(16) for name in ("superuser", "replication")}
        self.password = passwords["superuser_password"]
        try:
            etcd = self._add(Etcd(folder))
            places = {"etcd_hosts": etcd.address, "network": "127.0.0.1/32", **passwords}
            self.members = [self._add(Member(folder, number, **places)) for number in range(1, MEMBERS + 1)]
            for member in self.members:
                member.start()
            self.wait_until_whole()
            hosts = ",".join(member.address for member in self.members)
            self.url = self.url_of(hosts) + "?target_session_attrs=read-write"
            self.command(self.url.replace(f"/{DATABASE}", "/postgres"), f"create database {DATABASE}")
            self.command(self.url.replace(f"/{DATABASE}", "/postgres"), "create table gap_watch (at timestamptz)")
        except BaseException:
            self.drop()
            raise

    def url_of(self, hosts):
        return f"postgres://postgres:{self.password}@{hosts}/{DATABASE}"

    def _add(self, other):
        self.others.append(other)
        return other

    def primary(self):
        return next((member for member in self.members if member.is_primary()), None)

    def wait_until_whole(self):
        """Waits until one is the primary, one its synchronous standby, and all of them run."""
        until = time.monotonic() + START_TIMEOUT_S
        while not self._is_whole():
            states = [(member.name, member.state().get("role"), member.state().get("state")) for member in self.members]
            check(time.monotonic() < until, f"the cluster is not complete: {states}")
            time.sleep(0.5)

    def _is_whole(self):
        states = [member.state() for member in self.members]
        roles = [state.get("role") for state in states if state.get("state") in ("running", "streaming")]
        primaries = [role for role in roles if role in ("master", "primary")]
        following = [state for state in states if state.get("sync_standby")]
        return len(roles) == MEMBERS and len(primaries) == 1 and bool(following)

    def switch_over(self, leader):
        """A planned switchover: Patroni picks the synchronous standby."""
        patronictl = [program("patronictl", *PACKAGES), "-c", self.members[0].config]
        arguments = [*patronictl, "switchover", "--master", leader.name, "--force"]
        run_as_owner(arguments, env={**os.environ, **ENVIRONMENT, "LC_ALL": "C.UTF-8"})

    def drop(self):
        for other in reversed(self.others):
            other.close()


class GapWatch(threading.Thread):
    """Writes one row after another, to detect when no write succeeds."""

    def __init__(self, books):
        super().__init__(daemon=True)
        self.url = books.url.replace(f"/{DATABASE}", "/postgres") + "&connect_timeout=2"
        self.ended = threading.Event()
        self.written = []

    def run(self):
        while not self.ended.wait(0.1):
            begun = time.monotonic()
            sql = "set statement_timeout = '1s'; insert into gap_watch values (now())"
            arguments = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql, self.url]
            try:
                done = subprocess.run(arguments, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=5)
            except subprocess.TimeoutExpired:
                continue
            if done.returncode == 0:
                self.written.append((begun, time.monotonic()))

    def longest_gap(self, begin, end):
        """The longest time between two writes that succeeded."""
        moments = sorted(ended for _, ended in list(self.written) if begin <= ended <= end)
        moments = [begin, *moments, end]
        return max(later - earlier for earlier, later in itertools.pairwise(moments))

    def close(self):
        self.ended.set()
        self.join(STOP_TIMEOUT_S)
