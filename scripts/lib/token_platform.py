"""A platform whose token endpoint is slow, and takes the second use of a refresh token for theft.

It shares nothing with the service or its simulators. Each refresh token may be used once, and what it was exchanged for
is in force from that moment, although the answer leaves later: RFC 9700, section 4.14.2. After a second use nothing of
the account works.
"""

import asyncio
import dataclasses
import json
import threading
import time
import urllib.parse

# How long a new access token lives, in seconds.
LIFE_S = 20
# An answer of this many bytes, one each second, is never whole.
DRIPPING_BYTES = 3_600


@dataclasses.dataclass
class Family:
    """The tokens of one account: `access-N` and `refresh-N` are valid."""

    delay_s: float
    drips_once: bool = False
    number: int = 0
    ends_at: float = 0.0
    # A refresh token was used twice.
    is_revoked: bool = False
    # Exchanges whose answer has not left yet.
    running: int = 0
    # When the last answer left whole, on the monotonic clock.
    answered_at: float = 0.0


class TokenPlatform(threading.Thread):
    """Listens until the process ends. Its endpoint takes each of these times to answer, by account and in turn; some accounts'
    first exchange drips."""

    def __init__(self, accounts, delays_s, dripping):
        super().__init__(daemon=True)
        self.families = {
            f"creator-{index}": Family(delays_s[index % len(delays_s)], drips_once=index < dripping) for index in range(accounts)
        }
        self.lock = threading.Lock()
        self.exchanges = self.answered = self.dripped = self.refused = 0
        self.listens = threading.Event()
        self.url = None

    def first_tokens(self, name):
        """The credentials with which an account is connected."""
        family = self.families[name]
        family.ends_at = time.time() + LIFE_S
        return {
            "access_token": f"access-{name}-0",
            "refresh_token": f"refresh-{name}-0",
            "expires_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(family.ends_at)),
        }

    def run(self):
        asyncio.run(self._serve())

    async def _serve(self):
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1_000)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.listens.set()
        await server.serve_forever()

    async def _connection(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self._answer(first.split(" ")[1], headers, body.decode(), writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, path, headers, body, writer):
        if path.endswith("/oauth/token"):
            await self._exchange(urllib.parse.parse_qs(body)["refresh_token"][0], writer)
        else:
            status = 200 if self._is_valid(headers.get("authorization", "")) else 401
            await respond(writer, status, {} if status == 200 else {"error": "unauthorized"})

    def _is_valid(self, authorization):
        name, _, number = authorization.removeprefix("Bearer access-").rpartition("-")
        with self.lock:
            family = self.families[name]
            is_valid = not family.is_revoked and int(number) == family.number and time.time() < family.ends_at
            self.refused += not is_valid
        return is_valid

    async def _exchange(self, token, writer):
        name, _, number = token.removeprefix("refresh-").rpartition("-")
        with self.lock:
            family = self.families[name]
            self.exchanges += 1
            drips, family.drips_once = family.drips_once, False
            if not drips:
                family.is_revoked = family.is_revoked or int(number) != family.number
                is_refused = family.is_revoked
                family.number += not is_refused
                family.running += 1
        if drips:
            await self._drip(writer)
            return
        try:
            await asyncio.sleep(family.delay_s)
            if is_refused:
                await respond(writer, 400, {"error": "invalid_grant"})
                return
            with self.lock:
                family.ends_at = time.time() + LIFE_S
                pair = {part: f"{part.split('_')[0]}-{name}-{family.number}" for part in ("access_token", "refresh_token")}
            await respond(writer, 200, {**pair, "expires_in": LIFE_S})
        finally:
            with self.lock:
                family.running -= 1
                family.answered_at = time.monotonic()
                self.answered += 1

    async def _drip(self, writer):
        """An answer that never ends; what it would bring is not in force."""
        self.dripped += 1
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {DRIPPING_BYTES}\r\n\r\n".encode())
        for _ in range(DRIPPING_BYTES - 1):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(1)

    def in_exchange(self, since):
        """The accounts whose exchange runs, or has ended since a moment of the monotonic clock."""
        with self.lock:
            return {name for name, family in self.families.items() if family.running or family.answered_at > since}


async def respond(writer, status, content):
    body = json.dumps(content)
    writer.write(
        f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
    )
    await writer.drain()
