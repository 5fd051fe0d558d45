"""Reads the ledger from outside the service: both databases, and a reader that polls
continuously."""

import csv
import os
import sqlite3
import subprocess
import threading
import time

from lib.processes import POSTGRES_VARIABLE, STOP_TIMEOUT_S, check

# The pause of a reader between two polls.
READER_PAUSE_S = 0.1
# How long a reader of the embedded database waits for its turn.
LOCK_TIMEOUT_S = 60
# How long the last calls of a load may take to end. A hold that was lost stands longer (metering.hold_ttl_s, 170 s unless
# a test shortens it to 130 s).
OPEN_HOLDS_S = 100


class SqliteBooks:
    """Reads the embedded database from outside the service."""

    name = "SQLite"

    def __init__(self, folder):
        self.path = folder / "books.db"
        self.url = f"sqlite:{self.path}"

    def query(self, sql):
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=LOCK_TIMEOUT_S)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def reader(self, sql):
        """A function that repeats a query over one connection."""
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=LOCK_TIMEOUT_S, isolation_level=None)
        return lambda: connection.execute(sql).fetchone(), connection.close

    def drop(self):
        pass


class PostgresBooks:
    """Reads a PostgreSQL database of the test through psql."""

    name = "PostgreSQL"

    def __init__(self, _folder):
        self.server = os.environ[POSTGRES_VARIABLE]
        self.database = f"creator_gateway_{os.getpid()}"
        self.command(self.server, f"create database {self.database}")
        self.url = self.server.rsplit("/", 1)[0] + "/" + self.database

    @staticmethod
    def command(url, sql, timeout_s=STOP_TIMEOUT_S):
        done = subprocess.run(
            ["psql", "-X", "-q", "--csv", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, url],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        check(done.returncode == 0, f"psql: {done.stderr}")
        return done.stdout

    def query(self, sql):
        numbers = lambda text: int(text) if text.lstrip("-").isdigit() else (text or None)
        return [tuple(map(numbers, row)) for row in csv.reader(self.command(self.url, sql).splitlines())]

    def reader(self, sql):
        process = subprocess.Popen(
            ["psql", "-X", "-q", "-A", "-t", "-F", ",", self.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

        def ask():
            process.stdin.write(sql + ";\n")
            process.stdin.flush()
            return tuple(map(int, process.stdout.readline().split(",")))

        def close():
            try:
                process.stdin.close()
            except OSError:
                pass  # It has already ended.
            process.wait(STOP_TIMEOUT_S)
            process.stdout.close()

        return ask, close

    def drop(self):
        self.command(self.server, f"drop database {self.database} with (force)")


class Reader(threading.Thread):
    """Reads the customer's credits ten times a second: they must add up in every read."""

    def __init__(self, books, customer, *, may_break=False):
        super().__init__(daemon=True)
        self.books = books
        self.sql = (
            "select granted, debt, available, held, spent, removed from customer_credits "
            f"where customer_id = '{customer}'"
        )
        # Whether the database may be unavailable at times; the query is then retried.
        self.may_break = may_break
        self.ended = threading.Event()
        self.reads = 0
        self.failed_reads = 0
        self.broken = []
        self.failure = None

    def run(self):
        while not self.ended.is_set():
            try:
                self._read_on()
            except Exception as failure:  # The main thread must know that reading has stopped, whatever the reason.
                if not self.may_break:
                    self.failure = failure
                    return
                self.failed_reads += 1
                self.ended.wait(READER_PAUSE_S)

    def _read_on(self):
        ask, close = self.books.reader(self.sql)
        try:
            while not self.ended.wait(READER_PAUSE_S):
                parts = ask()
                granted, debt, available, held, spent, removed = parts
                self.reads += 1
                if granted + debt != available + held + spent + removed or min(parts) < 0:
                    self.broken.append(parts)
        finally:
            close()

    def finish(self):
        self.ended.set()
        self.join(STOP_TIMEOUT_S)
        check(self.failure is None, f"the reader of the balance failed: {self.failure!r}")


def open_holds(books, patience_s):
    """The number of calls that are still open after waiting for them to end."""
    until = time.monotonic() + patience_s
    while True:
        (count,) = books.query("select count(*) from open_calls")[0]
        if count == 0 or time.monotonic() > until:
            return count
        time.sleep(0.1)
