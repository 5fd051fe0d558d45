"""Nodes that reach their database through PgBouncer."""

import threading
import time
import urllib.parse

from lib.books import PostgresBooks
from lib.cluster.network import CALL_MAX_S
from lib.cluster.nodes import Nodes
from lib.cluster.programs import Helper, fill, own_folder, program
from lib.cluster.watch import seconds
from lib.processes import START_TIMEOUT_S, Failure, Service, check, free_port, node_id, shared_settings

LOAD_S = 8
# The nodes' setting is that they wait 2 s for a lock; the rest allows for a slow or busy machine. The table is locked for
# longer, so that a wait that only the end of the lock ends is noticed.
LOCK_WAIT_MAX_S = 20
LOCK_S = 30


class PgBouncer(Helper):
    """PgBouncer with the documented configuration."""

    def __init__(self, folder, books, pool_mode):
        self.port = free_port()
        server = urllib.parse.urlsplit(books.url)
        own = own_folder(folder / f"pgbouncer-{pool_mode}")
        users = own / "users.txt"
        users.write_text('"postgres" ""\n')
        users.chmod(0o644)
        config = fill(
            "pgbouncer.ini",
            own,
            database_host=server.hostname,
            database_port=server.port,
            listen_address="127.0.0.1",
            listen_port=self.port,
            auth_type="trust",
            auth_file=users,
            pool_mode=pool_mode,
        )
        super().__init__([program("pgbouncer", "pgbouncer"), config], folder / f"pgbouncer-{pool_mode}.log")
        self.database = server.path
        url = self.url()
        until = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                PostgresBooks.command(url, "select 1")
                break
            except Failure:
                check(self.process.poll() is None and time.monotonic() < until, "PgBouncer did not start")
                time.sleep(0.2)

    def url(self):
        return f"postgres://postgres@127.0.0.1:{self.port}{self.database}"


class Pooler(Nodes):
    """Calls, and a locked table: nodes give up waiting for it only if their settings apply."""

    title = "PgBouncer"

    def prepare(self):
        self.bouncer = PgBouncer(self.folder, self.books, "session")
        self.others.append(self.bouncer)

    def database_url(self, _number):
        return self.bouncer.url()

    def play(self):
        time.sleep(LOAD_S)
        self.say("session mode: calls get responses")
        begun = time.monotonic()
        longest = self._lock()
        self.say(f"a table was locked for {LOCK_S} s")
        self.disturbances += 1
        self.facts.append(("session mode: the longest wait for a lock", f"{longest:.1f} s (at most {LOCK_WAIT_MAX_S} s)"))
        late = [f"{longest:.1f} s"] if longest > LOCK_WAIT_MAX_S else []
        self.findings.add(f"session mode: a wait for a lock of more than {LOCK_WAIT_MAX_S} s", late)
        self.findings.add("session mode: no session waited for the lock, so the test proves nothing", [] if longest else [longest])
        self.promise_calls("session mode: calls while a table is locked", begun, time.monotonic(), self.services, CALL_MAX_S)
        time.sleep(3)
        self._try_transaction_mode()

    def _lock(self):
        """Locks a table that every call writes to; returns the longest time that a session of the
        nodes waited for it."""
        lock = f"begin; lock table customer_credits in exclusive mode; select pg_sleep({LOCK_S}); rollback"
        locker = threading.Thread(target=PostgresBooks.command, args=(self.books.url, lock), daemon=True)
        locker.start()
        sql = (
            "select coalesce(cast(1000 * max(extract(epoch from clock_timestamp() - waitstart)) as bigint), 0) "
            "from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())"
        )
        longest = 0
        while locker.is_alive():
            longest = max(longest, self.books.query(sql)[0][0])
            time.sleep(0.1)
        return longest / 1000

    def _try_transaction_mode(self):
        """Whether a node refuses to start if sessions are shared between transactions, and its
        message."""
        bouncer = PgBouncer(self.folder, self.books, "transaction")
        self.others.append(bouncer)
        settings = {**shared_settings(self.books.url), "metering": {"node": node_id()}}
        settings["secrets"] = self.services[0].settings["secrets"]
        place = (self.options.binary, self.folder, self.platforms, bouncer.url())
        node = Service(*place, name="node-transaction-mode", settings=settings)
        node.start()
        try:
            took = self.until(lambda: node.child.process.poll() is not None or node.is_healthy())
            is_over = node.child.process.poll() is not None
        finally:
            node.child.kill()
        said = node.log.read_text(errors="replace").strip().splitlines()
        what = f"ends after {seconds(took)}: {said[-1] if said else ''}" if is_over else "starts"
        self.facts.append(("transaction mode: a node", what[:200]))
