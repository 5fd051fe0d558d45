"""creator-gateway as a candidate: its configuration, its database, its first customers."""

import base64
import json
import os
import secrets
import subprocess
import time

from . import machine
from .candidate import Books, Candidate
from .common import (
    ACCOUNT,
    CREDITS,
    FEW_CREDITS,
    KEYS,
    ROOT,
    SESSION_TOKEN,
    START_TIMEOUT_S,
    USER_AGENT,
    USER_ID,
    call,
    check,
    native,
    wait_for,
)

POSTGRES_SCRIPT = ROOT / "scripts" / "postgres"
POSTGRES_VARIABLE = "CREATOR_GATEWAY_TEST_POSTGRES"
VERIFY_TIMEOUT_S = 600
SETTLE_TIMEOUT_S = 20

# Only non-default settings: limits that would refuse a load from one address, one customer and one
# account, and a log without a line per call, as the peers have none either.
CONFIGURATION = """
[http]
listen = "127.0.0.1:{port}"
public_base_url = "http://127.0.0.1:{port}"
[http.limits]
calls_per_account_max = 16000
calls_per_customer_max = 16000
native_bodies_per_customer_bytes_max = 67108864
[admin]
listen = "127.0.0.1:{admin_port}"
token = "{admin_token}"
[database]
url = "{database_url}"
[secrets]
master_keys = ["bench:{master_key}"]
[rate_limits]
per_key_per_second = 1000000
per_key_burst = 1000000
control_per_key_per_second = 1000000
control_per_key_burst = 1000000
imports_per_minute = 1000000
key_changes_per_minute = 1000000
[log]
filter = "warn"
format = "json"
[mail]
url = "file:{folder}/mail"
[platforms.platform_alpha]
base_url = "{platform_url}"
verify_route = {{ path = "users/me", id_pointer = "", equals_field = "", accepted_statuses = [] }}
"""


class Database:
    """A PostgreSQL started by scripts/postgres, in which each node gets its own database."""

    def __init__(self):
        self.server = os.environ[POSTGRES_VARIABLE]
        self.pid = int(self.ask("select split_part(pg_read_file('postmaster.pid'), chr(10), 1)"))

    def ask(self, sql, url=None):
        """The result of a statement, as text."""
        asked = ["psql", "-X", "-A", "-t", "-q", "-c", sql, url or self.server]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    def create(self, name):
        """Creates a database; returns its URL."""
        name = f"bench_{os.getpid()}_{name}"
        self.ask(f"create database {name}")
        return self.server.rsplit("/", 1)[0] + "/" + name


class Gateway:
    """One node of creator-gateway with a folder, a configuration and a database."""

    def __init__(self, binary, folder, platform, database_url, server_pid=None, master_key=None):
        folder.mkdir()
        self.binary, self.folder, self.server_pid = binary, folder, server_pid
        self.master_key = master_key or base64.b64encode(os.urandom(32)).decode()
        self.database_url = database_url
        self.port = machine.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.config = folder / "config.toml"
        self.config.write_text(
            CONFIGURATION.format(
                port=self.port,
                admin_port=machine.free_port(),
                admin_token=secrets.token_hex(32),
                database_url=database_url,
                folder=folder,
                master_key=self.master_key,
                platform_url=platform.url,
            )
        )
        self.process = None

    def serve(self):
        """Starts the server and waits until it responds."""
        self.spawn()
        wait_for(f"{self.url}/health", self.process)

    def spawn(self):
        """Starts the server."""
        self.process = machine.start([self.binary, "serve", "--config", self.config], self.folder / "log")

    def stop(self):
        """Stops the server."""
        machine.stop(self.process)

    def roots(self):
        """The processes that work for it."""
        return frozenset({self.process.pid} | ({self.server_pid} if self.server_pid else set()))

    def run(self, *arguments, timeout=START_TIMEOUT_S):
        """Runs a command of the binary; returns its output."""
        command = [str(self.binary), *arguments, "--config", str(self.config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        check(done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def create_customer(self, email, amount):
        """Creates a customer with one connected account; returns its first key."""
        arguments = ["create-customer", "--email", email, "--credits", str(amount), "--json"]
        facts = json.loads(self.run("admin", *arguments))
        key = (facts if "api_key" in facts else next(iter(facts.values())))["api_key"]
        auth = {"session_token": SESSION_TOKEN, "user_id": USER_ID, "user_agent": USER_AGENT}
        call(f"{self.url}/v1/connect/import", key, {"creator_id": ACCOUNT, "platform": "platform_alpha", "auth": auth})
        return key

    def create_keys(self, first):
        """Creates further keys for the customer of the first one, up to the required number."""
        keys = [first]
        for place in range(1, KEYS):
            made = call(f"{self.url}/v1/auth/keys", first, {"name": f"key {place}", "scope": "full"})
            keys.append(json.loads(made)["api_key"])
        return tuple(keys)

    def books(self, keys, poor_key):
        """How to query what was charged and logged."""
        return Books(
            balance=lambda: self.settled_balance(keys[0]),
            logged=lambda: sum(self.ended_calls(key, "calls") for key in keys),
            # A call whose caller disconnected before it was sent, as at the end of a round, is
            # logged but not charged.
            credited=lambda: sum(self.ended_calls(key, "credits") for key in keys),
            poor_key=poor_key,
        )

    def settled_balance(self, key):
        """The balance once no call of the customer is running."""
        begun = time.monotonic()
        while time.monotonic() - begun < SETTLE_TIMEOUT_S:
            billing = json.loads(call(f"{self.url}/v1/billing", key))
            if billing["held"] == 0:
                return billing["balance"]
            time.sleep(0.05)
        return check(False, "credits are still held long after the last call")

    def ended_calls(self, key, field):
        """The sum of a field over the ended calls of this key, today and yesterday."""
        days = json.loads(call(f"{self.url}/v1/billing/usage/daily?days=2", key))
        return sum(day[field] for day in days["days"])

    def verify(self):
        """Fails unless every invariant of the ledger holds."""
        self.run("verify", timeout=VERIFY_TIMEOUT_S)

    def candidate(self, name, title, keys, poor_key):
        """The candidate for this node."""
        books = self.books(keys, poor_key)
        return Candidate(name, title, self.url, self.roots(), keys, books)


def start_gateway(name, title, gateway):
    """Starts a node with a rich and a poor customer; returns the candidate."""
    gateway.serve()
    keys = gateway.create_keys(gateway.create_customer("rich@example.com", CREDITS))
    poor_key = gateway.create_customer("poor@example.com", FEW_CREDITS)
    call(f"{gateway.url}{native('users/me')}", keys[0])
    return gateway.candidate(name, title, keys, poor_key)
