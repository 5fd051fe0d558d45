"""Checks that a candidate does its work, before and after its speed is measured."""

import collections
import concurrent.futures
import json

from .common import (
    ECHO,
    FEW_CREDITS,
    READ,
    READ_COST,
    SESSION_TOKEN,
    USER_AGENT,
    USER_ID,
    WRITE,
    WRITE_BODY,
    WRITE_COST,
    ask,
    check,
    native,
    say,
)
from .upstream import answer_body

CALLS = 40
AT_ONCE = 8
POOR_CALLS = 20


def check_work(candidate):
    """What every candidate must do: forward; those that charge must do all of the gateway's
    work."""
    url = candidate.url
    status, body = ask(url + native(READ), candidate.keys[0])
    check((status, body.decode()) == (200, answer_body()), f"{candidate.name} changed the response: {status} {body!r}")
    if not candidate.books:
        say(f"{candidate.name}: forwards")
        return
    for key, what in ((None, "no key"), (candidate.keys[0][:-1] + "~", "a wrong key")):
        status, _ = ask(url + native(READ), key)
        check(status == 401, f"{candidate.name} responded {status} to {what}")
    check_credentials(candidate)
    check_charges(candidate)
    check_refusals(candidate)
    say(f"{candidate.name}: refuses wrong keys and empty balances, adds credentials, logs and charges exactly")


def check_credentials(candidate):
    """The platform gets the account's credentials and not the caller's key."""
    _, body = ask(candidate.url + native(ECHO), candidate.keys[0])
    wanted = {"authorization": f"Session {SESSION_TOKEN}", "user": USER_ID, "agent": USER_AGENT, "key": ""}
    check(json.loads(body) == wanted, f"{candidate.name}: the platform saw {body!r}")


def check_charges(candidate):
    """Concurrent calls cost exactly what they should, and each is logged."""
    books = candidate.books
    balance, logged = books.balance(), books.logged()
    url = candidate.url

    def one(place):
        key = candidate.keys[place % len(candidate.keys)]
        if place % 2:
            return ask(url + native(WRITE), key, WRITE_BODY)[0]
        return ask(url + native(READ), key)[0]

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
        statuses = collections.Counter(threads.map(one, range(CALLS)))
    check(statuses == {200: CALLS}, f"{candidate.name} responded {dict(statuses)}")
    cost = CALLS // 2 * (READ_COST + WRITE_COST)
    charged, written = balance - books.balance(), books.logged() - logged
    check(charged == cost, f"{candidate.name} charged {charged} for {CALLS} calls that cost {cost}")
    check(written == CALLS, f"{candidate.name} logged {written} of {CALLS} calls")


def check_refusals(candidate):
    """A customer with a few credits gets exactly that many concurrent calls, and 402 for the
    others."""
    url = candidate.url + native(READ)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
        answers = threads.map(lambda _: ask(url, candidate.books.poor_key)[0], range(POOR_CALLS))
        statuses = collections.Counter(answers)
    wanted = {200: FEW_CREDITS, 402: POOR_CALLS - FEW_CREDITS}
    check(statuses == wanted, f"{candidate.name} responded {dict(statuses)} to {FEW_CREDITS} credits")


class Watch:
    """The accounting of a candidate while it is measured: it must have charged what it logged."""

    def __init__(self, candidate, cost):
        self.candidate, self.cost = candidate, cost
        if candidate.books:
            self.balance, self.logged = candidate.books.balance(), candidate.books.logged()
            self.credited = candidate.books.credited() if candidate.books.credited else 0

    def check(self, answered):
        """Called after the last round; `answered` is the number of responses that the load
        generator got."""
        books, name = self.candidate.books, self.candidate.name
        if not books:
            return
        charged, written = self.balance - books.balance(), books.logged() - self.logged
        credited = books.credited() - self.credited if books.credited else written * self.cost
        check(charged == credited, f"{name} charged {charged} credits and logged {credited} in {written} calls")
        check(written >= answered, f"{name} answered {answered} calls and logged {written}")
