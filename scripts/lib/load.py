"""Clients that call at a fixed rate and record every response."""

import dataclasses
import heapq
import http.client
import json
import random
import threading
import time

from lib.processes import CALL_TIMEOUT_S, WAIT_S, check

CLIENTS = 24
WRITE_SHARE = 0.3
KEYED_SHARE = 0.1
# The time before a write with an Idempotency-Key is repeated, which grows with each attempt.
REPEAT_PAUSE_S = 0.5
REPEAT_PAUSE_MAX_S = 8.0
# Calls that every client makes with a key after the response to its rotation.
PROBES = 3

# The calls to each platform: paths to read, and (path, body) to write. They may contain fields of
# the account.
OPERATIONS = {
    "platform_alpha": (
        ["users/me", "chats", "lists"],
        [("chats/mark-as-read", {}), ("lists", {"name": "test"})],
    ),
    "platform_beta": (
        ["account/me", "lists/account", "subscriptions/tiers"],
        [("lists", {"label": "test"})],
    ),
    "platform_gamma": (
        ["me", "subscribers"],
        [("user/{account_id}/user-lists", {"name": "test"})],
    ),
    "platform_delta": (
        ["notifications", "chats"],
        [("chats/lists/custom", {"name": "test"})],
    ),
}


@dataclasses.dataclass
class Answer:
    """The response that the client got, at least its head."""

    operation: int
    status: int
    request_id: str
    cost: int | None
    replayed: bool
    source: str | None
    code: str | None = None
    body: bytes | None = None

    def is_receipt(self):
        """Whether it is the response to a metered call, not a refusal or a replay."""
        return self.cost is not None and not self.replayed

    def is_whole(self):
        """Whether it is final: not one that asks to retry, with another key or later."""
        says_later = self.status in (401, 503) or self.code == "idempotency_in_progress"
        return self.body is not None and not (self.source == "gateway" and says_later)


@dataclasses.dataclass
class Operation:
    """One operation of the client; with an Idempotency-Key it is repeated."""

    number: int
    platform: str
    method: str
    path: str
    body: bytes | None
    key: str | None = None
    # The API key to call with, if it differs from the current one.
    credential: str | None = None
    answers: list = dataclasses.field(default_factory=list)
    attempts: int = 0


class Load:
    """Clients that call at a fixed rate, whatever happens to their calls. Late calls are skipped,
    not caught up.

    They call in step, so that a kill hits many running calls, and commits that contain many of
    them. With several services, each client has its own and switches to the next if its connection
    fails.
    """

    def __init__(self, services, key, platforms, rate, seed):
        self.services, self.key, self.rate = services, key, rate
        self.accounts = platforms.accounts
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.operations = []
        self.answers = []
        # Operations to repeat, with their times, in the order of the times.
        self.repeats = []
        self.dead_key = None
        self.probes_left = [0] * CLIENTS
        self.connection_errors = 0
        self.cut_answers = 0
        self.failure = None
        self.threads = [threading.Thread(target=self._run, args=(client,), daemon=True) for client in range(CLIENTS)]

    def start(self):
        self.begun = time.monotonic()
        for thread in self.threads:
            thread.start()

    def until_next_step(self):
        """Seconds until the next calls of all clients."""
        period = CLIENTS / self.rate
        return period - (time.monotonic() - self.begun) % period

    def change_key(self, key):
        """Uses a new key from now on. Every client makes a few more calls with the old one, which
        no longer works."""
        with self.lock:
            self.dead_key, self.key = self.key, key
            self.probes_left = [PROBES] * CLIENTS

    def _run(self, client):
        place = client
        connection = self._connection(place)
        period = CLIENTS / self.rate
        due = self.begun
        try:
            while not self.ended.is_set():
                pause = due - time.monotonic()
                if pause > 0:
                    time.sleep(pause)
                else:
                    due += period * int(-pause / period)
                due += period
                if not self._carry_out(connection, self._next(client)):
                    place += 1
                    connection = self._connection(place)
        except Exception as failure:  # Any other failure is a bug of the service or of this test.
            self.failure = failure
        finally:
            connection.close()

    def _connection(self, place):
        service = self.services[place % len(self.services)]
        return http.client.HTTPConnection("127.0.0.1", service.port, timeout=CALL_TIMEOUT_S)

    def _next(self, client):
        with self.lock:
            if self.probes_left[client]:
                self.probes_left[client] -= 1
                return self._new(self.dead_key)
            if self.repeats and self.repeats[0][0] <= time.monotonic():
                return self.operations[heapq.heappop(self.repeats)[1]]
            return self._new()

    def _new(self, credential=None):
        pick = self.random
        platform = pick.choice(sorted(self.accounts))
        reads, writes = OPERATIONS[platform]
        number = len(self.operations)
        is_write = pick.random() < WRITE_SHARE
        path, body = pick.choice(writes) if is_write else (pick.choice(reads), None)
        account = self.accounts[platform]
        is_keyed = is_write and not credential and pick.random() < KEYED_SHARE
        # The number is in the query, so that the platform's log shows which operation arrived.
        path = f"/v1/{account['creator_id']}/native/{path.format(**account['auth'])}?operation={number}"
        operation = Operation(
            number,
            platform,
            "POST" if is_write else "GET",
            path,
            json.dumps(body).encode() if is_write else None,
            f"test-{number}" if is_keyed else None,
            credential,
        )
        self.operations.append(operation)
        return operation

    def _carry_out(self, connection, operation):
        """Makes the call and records its response; returns false if the connection can no longer be
        used."""
        operation.attempts += 1
        answer = None
        is_connected = True
        with self.lock:
            headers = {"X-API-Key": operation.credential or self.key}
        if operation.body is not None:
            headers["Content-Type"] = "application/json"
        if operation.key:
            headers["Idempotency-Key"] = operation.key
        try:
            connection.request(operation.method, operation.path, operation.body, headers)
            response = connection.getresponse()
            answer = self._head(operation, response)
            answer.body = response.read()
            if answer.status >= 400:
                answer.code = code_of(answer.body)
        except (OSError, http.client.HTTPException):
            connection.close()
            is_connected = False
            with self.lock:
                if answer is None:
                    self.connection_errors += 1
                else:
                    self.cut_answers += 1
        with self.lock:
            if answer is not None:
                self.answers.append(answer)
                operation.answers.append(answer)
            if operation.key and needs_repeat(operation):
                pause = min(REPEAT_PAUSE_S * operation.attempts, REPEAT_PAUSE_MAX_S)
                heapq.heappush(self.repeats, (time.monotonic() + pause, operation.number))
        return is_connected

    @staticmethod
    def _head(operation, response):
        # Refusals have a cost of 0 too; only a call with a hold has a route.
        cost = response.headers.get("X-Credits-Cost") if "X-Route" in response.headers else None
        return Answer(
            operation.number,
            response.status,
            response.headers.get("X-Request-Id", ""),
            int(cost) if cost is not None else None,
            response.headers.get("Idempotent-Replayed") == "true",
            response.headers.get("X-Error-Source"),
        )

    def check(self):
        check(self.failure is None, f"a client failed: {self.failure!r}")

    def finish(self):
        """Stops the clients and makes the remaining repetitions."""
        self.ended.set()
        for thread in self.threads:
            thread.join(2 * CALL_TIMEOUT_S)
            check(not thread.is_alive(), "a client did not end")
        self.check()
        connection = self._connection(0)
        until = time.monotonic() + WAIT_S
        for operation in [self.operations[number] for _, number in self.repeats]:
            while needs_repeat(operation) and time.monotonic() < until:
                self._carry_out(connection, operation)
                if not operation.answers[-1:] or not operation.answers[-1].is_whole():
                    time.sleep(REPEAT_PAUSE_S / 2)
        connection.close()


def code_of(body):
    try:
        return json.loads(body).get("code")
    except (ValueError, AttributeError):
        return None


def needs_repeat(operation):
    """A key is used until it was requested once more after it had got a response."""
    return len([answer for answer in operation.answers if answer.is_whole()]) < 2
