"""The accounting of the peers that charge: a Redis with an append-only file, and one script that
decides."""

import dataclasses
import pathlib
import re
import secrets
import subprocess
import time

from .. import machine
from ..candidate import Books
from ..common import ACCOUNT, CREDITS, FEW_CREDITS, KEYS, SESSION_TOKEN, START_TIMEOUT_S, USER_AGENT, USER_ID, check

SPEND_SCRIPT = pathlib.Path(__file__).with_name("spend.lua")
RICH, POOR = "rich", "poor"
# The time after which all rows of finished calls are in the log; usually it takes much less.
LOG_PAUSE_S = 0.3


@dataclasses.dataclass(frozen=True)
class Redis:
    """A Redis with keys, accounts, balances and the log."""

    port: int
    pid: int
    keys: tuple
    poor_key: str

    def ask(self, *arguments):
        """Runs one command; returns its result as text."""
        return _ask(self.port, *arguments)

    def logged(self):
        """The number of rows in the log, once no more arrive: a row may be written after its call
        has its response."""
        before = -1
        while (rows := int(self.ask("XLEN", f"calls:{RICH}"))) != before:
            before = rows
            time.sleep(LOG_PAUSE_S)
        return rows

    def books(self):
        """How to query what was charged and logged."""
        return Books(
            balance=lambda: int(self.ask("GET", f"balance:{RICH}")),
            logged=self.logged,
            credited=None,
            poor_key=self.poor_key,
        )


def _ask(port, *arguments):
    done = subprocess.run(
        ["redis-cli", "-p", str(port), *map(str, arguments)], capture_output=True, text=True, check=True
    )
    check(not done.stdout.startswith(("ERR", "(error)")), f"redis: {done.stdout}")
    return done.stdout.strip()


def start_redis(folder, name, fsync):
    """A Redis whose append-only file is synced `always` (before it responds) or `everysec`."""
    home = folder / name
    home.mkdir()
    port = machine.free_port()
    # No rewriting of the file and no snapshots during the measurement: both would only cost it
    # time.
    process = machine.start(
        ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", home, "--save", "", "--appendonly", "yes"]
        + ["--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0", "--tcp-backlog", "4096"],
        folder / f"{name}.log",
    )
    asked = ["redis-cli", "-p", str(port), "ping"]
    for _ in range(START_TIMEOUT_S * 20):
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if "PONG" in done.stdout:
            break
        check(process.poll() is None, f"redis ended at its start; its log is {folder}/{name}.log")
    keys = tuple(f"key_{secrets.token_hex(20)}" for _ in range(KEYS))
    poor_key = f"key_{secrets.token_hex(20)}"
    for customer, held, amount in ((RICH, keys, CREDITS), (POOR, (poor_key,), FEW_CREDITS)):
        for key in held:
            _ask(port, "SET", f"key:{key}", customer)
        _ask(port, "SET", f"balance:{customer}", amount)
        fields = ("authorization", f"Session {SESSION_TOKEN}", "user", USER_ID, "agent", USER_AGENT)
        _ask(port, "HSET", f"account:{customer}:{ACCOUNT}", *fields)
    set_to = re.split(r"\s+", _ask(port, "CONFIG", "GET", "appendfsync"))[-1]
    check(set_to == fsync, f"redis syncs {set_to}, not {fsync}")
    return Redis(port, process.pid, keys, poor_key)
