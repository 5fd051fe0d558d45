"""PostgreSQL servers of a scenario: a primary, and standbys that follow it."""

import contextlib
import pathlib
import re
import signal
import subprocess
import time

from lib.cluster.programs import CLOSE_TIMEOUT_S, Helper, own_folder, run_as_owner
from lib.processes import START_TIMEOUT_S, STOP_TIMEOUT_S, check, free_port

PLACES = ("/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt")


def postgres_folder():
    """The folder with the programs of the newest PostgreSQL."""
    found = [path.parent for place in PLACES for path in pathlib.Path(place).glob("**/bin/initdb")]
    check(found, "there is no initdb; scripts/postgres installs PostgreSQL")
    return max(found, key=lambda path: [int(number) for number in re.findall(r"\d+", str(path))])


class Postgres:
    """One server in its own folder, listening on 127.0.0.1 only."""

    def __init__(self, folder, name):
        self.name, self.programs = name, postgres_folder()
        self.port = free_port()
        self.folder = own_folder(folder / name)
        self.data = self.folder / "data"
        self.log = folder / f"{name}.log"
        self.child = None

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def create(self):
        locale = ["--encoding", "UTF8", "--locale", "C", "--locale-provider", "icu", "--icu-locale", "en-US"]
        run_as_owner([self.programs / "initdb", "-D", self.data, "-U", "postgres", "--auth", "trust", "--no-sync", *locale])

    def follow(self, port):
        """Copies the server on a port, to follow it under this server's name."""
        source = f"host=127.0.0.1 port={port} user=postgres application_name={self.name}"
        copy = ["-D", self.data, "-d", source, "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        run_as_owner([self.programs / "pg_basebackup", *copy])

    def start(self, **settings):
        fixed = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": 300}
        options = [f"--{name}={value}" for name, value in {**fixed, **settings}.items()]
        self.child = Helper([self.programs / "postgres", "-D", self.data, "-p", self.port, *options], self.log)
        until = time.monotonic() + START_TIMEOUT_S
        ready = [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        while subprocess.run(ready, check=False).returncode:
            check(self.child.process.poll() is None and time.monotonic() < until, f"{self.name} did not start")
            time.sleep(0.1)

    def stop_immediately(self):
        """Stops it without writing anything, as a power loss would."""
        self.child.process.send_signal(signal.SIGQUIT)
        self.child.process.wait(STOP_TIMEOUT_S)

    def promote(self):
        run_as_owner([self.programs / "pg_ctl", "promote", "-D", self.data, "-w", "-s"])

    def close(self):
        if self.child and self.child.process.poll() is None:
            # A fast shutdown: it closes connections and waits for nothing.
            self.child.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.process.wait(CLOSE_TIMEOUT_S)
        if self.child:
            self.child.kill()


