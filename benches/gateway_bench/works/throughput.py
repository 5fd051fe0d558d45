"""Reads and writes at full speed, compared with all peers."""

from ..checks import Watch
from ..common import READ_COST, WRITE_COST
from ..load import Load
from ..rounds import median_of, median_ratio, run_rounds
from ..section import Section, figure, joined

HEAD = [
    "connections",
    "candidate",
    "requests/s, × P1 · P3 · P3dur",
    "must",
    "aim",
    "CPU, × P1 · P3 · P3dur",
    "must",
    "aim",
    "CPU ms per 1,000",
    "requests/s",
    "p50 · p99 ms",
    "MiB",
    "others' CPU",
]
PEERS = ("P1", "P3", "P3dur")
# The marks of the rows that have goals: requests/s must and aim, CPU must and aim.
MARKS = {
    ("SQLite", 256): ("0.60", "0.7", "1.9", "1.5"),
    ("PostgreSQL", 256): ("0.42", "0.5", "3.2", "2.6"),
}
NO_MARKS = ("", "", "", "")


def measure_throughput(candidates, stage, connections, write):
    """Rounds at each number of connections; the accounting is compared with the load before and
    after."""
    kind = "writes" if write else "reads"
    loads = [Load(f"{kind}, {count} connections", count, stage.seconds, write) for count in connections]
    cost = WRITE_COST if write else READ_COST
    watches = {candidate.name: Watch(candidate, cost) for candidate in candidates}
    taken = run_rounds(candidates, loads, stage)
    for candidate in candidates:
        rounds = [got for rows in taken.values() for got in rows[candidate.name]]
        watches[candidate.name].check(sum(got.requests for got in rounds))
    text = (
        "`POST /v1/{account}/native/lists` with a small JSON body; it is sent only after its hold is on disk."
        if write
        else "`GET /v1/{account}/native/users/me`, a response of 2 KB."
    )
    text += " After the last round, what each charged was compared with what it logged and with the responses."
    section = Section(kind.capitalize(), text, HEAD)
    for load in loads:
        for candidate in candidates:
            section.rows.append(_row(candidate, load, taken[load.name], write))
        if load.connections == max(connections):
            _summarise(section, taken[load.name], candidates, load, write)
        if load.connections == 32 and not write:
            section.goals.update(_tail(taken[load.name]))
    return section


def _tail(rows):
    """How the slowest reads on PostgreSQL compare with those on SQLite, if both were measured."""
    if not {"SQLite", "PostgreSQL"} <= rows.keys():
        return {}
    return {"tail_postgres": median_ratio(rows["PostgreSQL"], rows["SQLite"], "p99_ms")}


def ratios(rows, name, field):
    """The ratios of a candidate's figure to each peer's; None if the peer was not measured."""
    return [median_ratio(rows[name], rows[peer], field) if peer in rows else None for peer in PEERS]


def _row(candidate, load, rows, write):
    rounds = rows[candidate.name]
    base = candidate.name.split(" ")[0]
    marks = NO_MARKS if write else MARKS.get((base, load.connections), NO_MARKS)
    return [
        str(load.connections),
        f"{candidate.name}: {candidate.title}",
        joined(*ratios(rows, candidate.name, "per_second")),
        *marks[:2],
        joined(*ratios(rows, candidate.name, "cpu_ms")),
        *marks[2:],
        figure(median_of(rounds, "cpu_ms")),
        f"{median_of(rounds, 'per_second'):,.0f}",
        f"{median_of(rounds, 'p50_ms'):.1f} · {median_of(rounds, 'p99_ms'):.1f}",
        f"{max(got.peak_mib for got in rounds):.0f}",
        f"{max(got.foreign for got in rounds):.0%}",
    ]


def _summarise(section, rows, candidates, load, write):
    """Goals and bars, from the rounds with the most connections."""
    kind = "writes" if write else "reads"
    rates, costs = [], []
    for candidate in candidates:
        if "P1" in rows:
            rates.append([candidate.name, median_ratio(rows[candidate.name], rows["P1"], "per_second")])
            costs.append([candidate.name, median_ratio(rows[candidate.name], rows["P1"], "cpu_ms")])
    section.bars[f"{kind}: requests/s, × P1, {load.connections} connections"] = rates
    section.bars[f"{kind}: CPU for each call, × P1, {load.connections} connections"] = costs
    if write or load.connections != 256:
        return
    for name, database in (("SQLite", "sqlite"), ("PostgreSQL", "postgres")):
        if name in rows:
            # The goals are relative to P1, the first of the peers.
            section.goals[f"reads_{database}_p1"] = ratios(rows, name, "per_second")[0]
            section.goals[f"cpu_{database}"] = ratios(rows, name, "cpu_ms")[0]
    if "SQLite" in rows:
        section.goals["loaded"] = max(got.peak_mib for got in rows["SQLite"])
