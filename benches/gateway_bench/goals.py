"""The goals: each goal's figure, its unit, and its must and aim."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Goal:
    """A figure with two marks. Without `least`, the figure must not exceed them."""

    text: str
    # None: nothing is required.
    must: float | None
    # None: there is no aim beyond the must.
    aim: float | None
    unit: str = "×"
    # Whether more is better.
    least: bool = False

    def judge(self, value):
        """The goal reached, in words: aim, must, or neither."""
        reached = (lambda mark: value >= mark) if self.least else (lambda mark: value <= mark)
        if self.must is not None and not reached(self.must):
            return "**missed**"
        if self.aim is not None and not reached(self.aim):
            return "must" if self.must is not None else "not yet"
        return "aim" if self.aim is not None else "must"

    def mark(self, value):
        """A mark for the table."""
        if value is None:
            return "–"
        number = f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:g}"
        sign = "≥" if self.least else "≤"
        return f"{sign} {number} {self.unit}".strip()


def _least(text, must, aim):
    return Goal(text, must, aim, least=True)


GOALS = {
    "reads_sqlite_p1": _least("reads/s, SQLite, 256 connections, relative to P1", 0.60, 0.7),
    "reads_postgres_p1": _least("reads/s, PostgreSQL, 256 connections, relative to P1", 0.42, 0.5),
    "cpu_sqlite": Goal("CPU for each read, SQLite, 256 connections, relative to P1", 1.9, 1.5),
    "cpu_postgres": Goal("CPU for each read, PostgreSQL, 256 connections, relative to P1", 3.2, 2.6),
    "tail_postgres": Goal("99 % of reads within, PostgreSQL, 32 connections, relative to SQLite", 2.5, 1.5),
    "added_2000": Goal("median latency beyond P1's, platform of 50 ms, 2,000 connections", 1.5, 0.3, "ms"),
    "added_9000": Goal("median latency beyond P1's, platform of 50 ms, 9,000 connections", 1.5, 0.3, "ms"),
    "errors_9000": Goal("errors with 9,000 connections and a platform of 50 ms", 0, None, ""),
    "memory_connection": Goal("resident memory of a connection, 9,000 connections", None, 40, "KiB"),
    "large": Goal("resident memory that grows while a response of 1 GiB passes", 16, 16, "MiB"),
    "growth": Goal("CPU for each call with 100 times more of everything", 1.2, 1.05),
    "nodes": _least("efficiency of three nodes on one PostgreSQL, by CPU for each call", 0.9, None),
    "lost": Goal("credits lost with three nodes on one PostgreSQL", 0, None, ""),
    "start": Goal("start to first response, existing database", 300, 100, "ms"),
    "idle": Goal("resident memory, idle", 60, 30, "MiB"),
    "loaded": Goal("resident memory at 256 connections", 120, 60, "MiB"),
}
