"""Fills a database with customers, keys, accounts and calls, as if the calls had happened."""

import dataclasses
import hashlib
import secrets
import sqlite3
import time

from .common import Failure, check, say

DAY_US = 86_400 * 1_000_000
DAYS = 90
# One of this many generated calls is the measured customer's own.
OWN_EVERY = 100
# The remaining credits of each generated customer.
LEFT = 1_000
# Instructions of SQLite's virtual machine.
PROGRESS_EVERY = 1_000_000


@dataclasses.dataclass(frozen=True)
class Amount:
    """The amount of data; each customer has one key and one account."""

    customers: int
    calls: int


def seed_sqlite(gateway, amount):
    """Writes into the SQLite file of a gateway that has served a call and is now stopped."""
    begun = time.monotonic()
    say(f"generating {amount.customers:,} customers and {amount.calls:,} calls")
    database = sqlite3.connect(gateway.database_url.removeprefix("sqlite:"), isolation_level=None)
    database.row_factory = sqlite3.Row
    try:
        # No other process reads the file meanwhile, and it is discarded if this fails. The server
        # sets its own journal mode again.
        for pragma in ("journal_mode = off", "synchronous = off", "cache_size = -400000"):
            database.execute(f"pragma {pragma}")
        # Called from time to time, so that a signal can end the process in the middle of a long
        # statement.
        database.set_progress_handler(lambda: 0, PROGRESS_EVERY)
        database.execute("begin")
        _Seed(database, amount).fill()
        database.execute("commit")
    except sqlite3.OperationalError as failure:
        raise Failure(f"the database could not be filled: {failure}") from failure
    finally:
        database.close()
    say(f"that took {time.monotonic() - begun:.0f} s")


class _Seed:
    """Copies rows of the measured customer and changes only what must differ, so that every column
    has a valid value."""

    def __init__(self, database, amount):
        self.database, self.amount = database, amount
        self.end = int(time.time() * 1e6) // DAY_US * DAY_US
        self.begin = self.end - DAYS * DAY_US
        self.own = self._sample("calls", "state = 'settled' and status = 200 and idempotency_hash is null")

    def fill(self):
        """Fills all tables."""
        callers = [(row[0], row[1]) for row in self._own_callers()]
        check(callers, "the measured customer has no keys")
        own = len(callers)
        callers += self._people()
        self.database.execute("create temp table callers (place integer primary key, customer_id text, key_id text)")
        self.database.executemany(
            "insert into callers values (?, ?, ?)", [(place, *caller) for place, caller in enumerate(callers)]
        )
        self._calls(own)
        self._sums()
        self._balances()

    def _sample(self, table, where="true"):
        row = self.database.execute(f"select * from {table} where {where} limit 1").fetchone()
        check(row, f"there is no row of {table} to copy")
        return dict(row)

    def _own_callers(self):
        return self.database.execute(
            "select customer_id, id from keys where customer_id = ?", (self.own["customer_id"],)
        ).fetchall()

    def _insert(self, table, where, rows):
        """Copies a row of the measured customer; each of `rows` says what differs."""
        sample = self._sample(table, where)
        names = list(sample)
        sql = f"insert into {table} ({', '.join(names)}) values ({', '.join(':' + name for name in names)})"
        self.database.executemany(sql, [{**sample, **row} for row in rows])

    def _people(self):
        """Customers with a key, an account and its data key; returns the ids of customers and
        keys."""
        own = self.own["customer_id"]
        places = range(self.amount.customers)
        customers = [_id(own, self.begin) for _ in places]
        keys = [_id(self.own["key_id"], self.begin) for _ in places]
        data_key = self._sample("data_keys", f"customer_id = '{own}'")["id"]
        data_keys = [_id(data_key, self.begin) for _ in places]
        pairs = list(zip(customers, keys, data_keys, strict=True))
        mine = f"customer_id = '{own}'"
        self._insert(
            "customers",
            f"id = '{own}'",
            [{"id": name, "email": f"person{place}@example.org"} for place, name in enumerate(customers)],
        )
        balance = {"granted": LEFT, "removed": 0, "spent": 0, "held": 0, "available": LEFT, "debt": 0}
        self._insert("customer_credits", mine, [{"customer_id": name, **balance} for name in customers])
        self._insert("keys", mine, [{"id": key, "customer_id": name} for name, key, _ in pairs])
        secrets_of = [{"hash": hashlib.sha256(key.encode()).hexdigest(), "key_id": key} for key in keys]
        self._insert("key_secrets", f"key_id = '{self.own['key_id']}'", secrets_of)
        self._insert("data_keys", mine, [{"id": data, "customer_id": name} for name, _, data in pairs])
        self._insert("accounts", mine, [{"customer_id": name, "data_key_id": data} for name, _, data in pairs])
        self._grant((name, LEFT) for name in customers)
        return [(name, key) for name, key, _ in pairs]

    def _grant(self, grants):
        """Ledger rows: (customer, credits)."""
        sample = self._sample("ledger")
        rows = []
        for customer, amount in grants:
            name = _id(sample["id"], self.begin)
            rows.append({"id": name, "customer_id": customer, "amount": amount, "source_id": name})
        self._insert("ledger", f"id = '{sample['id']}'", rows)

    def _calls(self, own):
        """Calls at even intervals; indexes are created after the rows, which is much faster."""
        indexes = self.database.execute(
            "select name, sql from sqlite_master where type = 'index' and tbl_name = 'ended_calls' and sql is not null"
        ).fetchall()
        for index in indexes:
            self.database.execute(f"drop index {index['name']}")
        for column in ("customer_id", "key_id"):
            self.database.execute(f"insert or ignore into words (word) select {column} from callers")
        (sample,) = self.database.execute(
            "select * from all_ended_calls where id = ?", (bytes.fromhex(self.own["id"].rpartition("_")[2]),)
        ).fetchall()
        self.database.create_function("id_bytes", 2, _id_bytes, deterministic=True)
        step = (self.end - self.begin) // self.amount.calls
        at = f"({self.begin} + n * {step})"
        different = {
            "id": f"id_bytes({at} / 1000, n)",
            "customer": "customer.number",
            "key": "key.number",
            "held_at": at,
            "lasted": "50000",
            "request": "id_bytes(0, n)",
        }
        names = sample.keys()
        values = ", ".join(different.get(name, f":{name}") for name in names)
        others = f"{own} + n % {self.amount.customers}"
        caller = f"case when n % {OWN_EVERY} = 0 then n / {OWN_EVERY} % {own} else {others} end"
        numbers = f"select 0 union all select n + 1 from numbers where n + 1 < {self.amount.calls}"
        self.database.execute(
            f"insert into ended_calls ({', '.join(names)}) "
            f"with recursive numbers (n) as ({numbers}) "
            f"select {values} from numbers cross join callers on callers.place = {caller} "
            "cross join words customer on customer.word = callers.customer_id "
            "cross join words key on key.word = callers.key_id",
            dict(sample),
        )
        for index in indexes:
            self.database.execute(index["sql"])

    def _sums(self):
        """The sums that the service keeps, computed from the calls."""
        before = f"from calls where held_at < {self.end} group by customer_id, key_id, held_at / {DAY_US}"
        self.database.execute(
            "insert into usage_daily (customer_id, key_id, day, calls, credits, ok, errors) "
            f"select customer_id, key_id, held_at / {DAY_US}, count(*), sum(credits), count(*), 0 {before}"
        )
        self.database.execute(
            "insert into usage_routes (customer_id, key_id, day, creator_id, platform, method, route, calls, errors,"
            f" last_status, last_at) select customer_id, key_id, held_at / {DAY_US}, creator_id, platform, method,"
            f" route, count(*), 0, 200, max(held_at) {before}, creator_id, platform, method, route"
        )

    def _balances(self):
        """Grants and spends the costs of the calls."""
        spent = self.database.execute(
            f"select customer_id, sum(credits) from usage_daily where day < {self.end // DAY_US} group by customer_id"
        ).fetchall()
        self.database.executemany(
            "update customer_credits set granted = granted + ?2, spent = spent + ?2 where customer_id = ?1",
            [tuple(row) for row in spent],
        )
        self._grant(tuple(row) for row in spent)


def _id_bytes(millis, number):
    """The bytes of an id: a UUID of version 7 with this time and number."""
    return (millis << 80 | 0x7 << 76 | (number & 0xFFF) << 64 | 0b10 << 62 | number).to_bytes(16, "big")


def _id(sample, micros):
    """An id in the service's format, with the sample's prefix: a UUID of version 7."""
    tail = secrets.randbits(74)
    low = 0b10 << 62 | tail & (1 << 62) - 1
    return f"{sample.rpartition('_')[0]}_{micros // 1000 << 80 | 0x7 << 76 | tail >> 62 << 64 | low:032x}"
