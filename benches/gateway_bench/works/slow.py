"""A platform that takes 50 ms, and thousands of connections."""

from .. import machine
from ..load import Load
from ..rounds import median_difference, median_of, median_ratio, run_rounds
from ..section import Section, figure
from ..upstream import start_platform

DELAY_MS = 50
CONNECTIONS = (2_000, 9_000)
# Opening thousands of connections takes part of every round.
CONNECTING_S = 5
HEAD = [
    "load",
    "candidate",
    "p50 ms",
    "p50 beyond P1's, ms",
    "p99 ms",
    "requests/s, × P1",
    "CPU, × P1",
    "failed · refused",
    "KiB a connection",
    "others' CPU",
]


def loads_at(rate, seconds):
    """Loads for each number of connections with pauses, so that no candidate is at its limit, and
    one for the most connections without pauses."""
    seconds += CONNECTING_S
    paced = [
        Load(f"{count:,} connections, {rate:,} requests/s", count, seconds, False, _pause(count, rate), False)
        for count in CONNECTIONS
    ]
    most = CONNECTIONS[-1]
    return [*paced, Load(f"{most:,} connections, no pauses", most, seconds, False, 0, False)]


def _pause(connections, rate):
    return max(1, round(connections / rate * 1000) - DELAY_MS)


def measure_slow(starters, folder, stage, rate):
    """`starters` are functions from a folder and a platform to a candidate; each gets its own
    platform."""
    candidates = []
    for place, starter in enumerate(starters):
        home = folder / f"slow-{place}"
        home.mkdir()
        home.chmod(0o755)
        candidates.append(starter(home, start_platform(home, "platform", DELAY_MS)))
    idle = {candidate.name: machine.resident_mib(machine.family(candidate.roots)) for candidate in candidates}
    loads = loads_at(rate, stage.seconds)
    taken = run_rounds(candidates, loads, stage)
    section = Section(
        f"A platform of {DELAY_MS} ms",
        "Reads. With pauses, all connections together send the stated load, far below every candidate's limit; this is "
        "where latency is compared. Without pauses every candidate is at its limit.",
        HEAD,
    )
    for load in loads:
        for candidate in candidates:
            section.rows.append(_row(load, candidate, taken[load.name], idle[candidate.name]))
    _goals(section, loads, taken, idle)
    return section


def _kib(rounds, idle, load):
    return (max(got.peak_mib for got in rounds) - idle) * 1024 / load.connections


def _row(load, candidate, rows, idle):
    rounds, first = rows[candidate.name], rows["P1"]
    paced = load.pause_ms > 0
    return [
        load.name,
        f"{candidate.name}: {candidate.title}",
        figure(median_of(rounds, "p50_ms")),
        figure(median_difference(rounds, first, "p50_ms")) if paced else "–",
        figure(median_of(rounds, "p99_ms")),
        "–" if paced else figure(median_ratio(rounds, first, "per_second")),
        figure(median_ratio(rounds, first, "cpu_ms")),
        f"{sum(got.failed for got in rounds):,} · {sum(got.refused for got in rounds):,}",
        figure(_kib(rounds, idle, load)),
        f"{max(got.foreign for got in rounds):.0%}",
    ]


def _goals(section, loads, taken, idle):
    for load in loads[:2]:
        rows = taken[load.name]
        if "SQLite" in rows:
            section.goals[f"added_{load.connections}"] = median_difference(rows["SQLite"], rows["P1"], "p50_ms")
    rows = taken[loads[1].name]
    if "SQLite" in rows:
        section.goals["errors_9000"] = sum(got.failed + got.refused for got in rows["SQLite"])
        section.goals["memory_connection"] = _kib(rows["SQLite"], idle["SQLite"], loads[1])
    bars = [[name, median_difference(rounds, rows["P1"], "p50_ms")] for name, rounds in rows.items() if name != "P1"]
    section.bars["median latency beyond P1's, ms, 9,000 connections, platform of 50 ms"] = bars
