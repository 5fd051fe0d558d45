"""A candidate of the measurement: its address, the processes whose CPU time it uses, and access to
its accounting."""

import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Books:
    """How to query the accounting of a candidate that charges for calls."""

    # The remaining credits of the customer of the measured keys.
    balance: typing.Callable[[], int]
    # The calls of that customer in the log.
    logged: typing.Callable[[], int]
    # The credits charged for these calls; None: every call is charged its cost.
    credited: typing.Callable[[], int] | None
    # A key of the customer with only a few credits, for the same account.
    poor_key: str


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A program that serves `/v1/{account}/native/…`."""

    # A short name for columns: P1, P3dur, SQLite.
    name: str
    # A short description.
    title: str
    url: str
    # The root processes of all process trees that work for it, including its database's.
    roots: frozenset
    keys: tuple = ("none",)
    # None: it only forwards.
    books: Books | None = None
