"""What is measured: where it answers, the processes whose time it costs, and how its books are read."""

import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Books:
    """How a candidate that charges for calls is asked what it wrote down."""

    # Credits that the customer of the measured keys has left.
    balance: typing.Callable[[], int]
    # Calls of that customer that are in the log.
    logged: typing.Callable[[], int]
    # Credits that these calls were charged; None: what a call costs is charged to each.
    credited: typing.Callable[[], int] | None
    # A key of the customer who has only a few credits, and the same account.
    poor_key: str


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Something that answers `/v1/{account}/native/…`."""

    # Short, as in a column: P1, P3dur, SQLite.
    name: str
    # What it is, in a few words.
    title: str
    url: str
    # The first processes of all trees that work for it, its database's included.
    roots: frozenset
    keys: tuple = ("none",)
    # None: it forwards and does nothing else.
    books: Books | None = None
