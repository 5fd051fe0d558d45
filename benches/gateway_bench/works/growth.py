"""The cost of a call with a hundred times more of everything."""

from ..checks import Watch
from ..common import READ_COST, WRITE_COST
from ..load import Load
from ..rounds import median_of, median_ratio, run_rounds
from ..section import Section, figure
from ..seed import Amount, seed_sqlite

CONNECTIONS = 256
TIMES = 100
CALLS_PER_CUSTOMER = 1_000


def measure_growth(nodes, stage, calls):
    """`nodes` are two (gateway, candidate) pairs on SQLite: with a part of the calls in the
    database, and with all."""
    amounts = [Amount(count // CALLS_PER_CUSTOMER, count) for count in (calls // TIMES, calls)]
    candidates = []
    for (gateway, candidate), amount in zip(nodes, amounts, strict=True):
        gateway.stop()
        seed_sqlite(gateway, amount)
        gateway.serve()
        candidates.append(gateway.candidate(candidate.name, candidate.title, candidate.keys, candidate.books.poor_key))
    loads = [
        Load(f"{kind}, {CONNECTIONS} connections", CONNECTIONS, stage.seconds, kind == "writes")
        for kind in ("reads", "writes")
    ]
    section = Section(
        "A hundred times more",
        f"SQLite with {amounts[0].customers:,} customers, keys and accounts and {amounts[0].calls:,} calls in the "
        f"database, compared with {amounts[1].customers:,} and {amounts[1].calls:,}; one call of a hundred is the measured "
        "customer's own.",
        ["load", "candidate", "requests/s, × the small one", "CPU, × the small one", "CPU ms per 1,000", "others' CPU"],
    )
    worst = 0.0
    for load in loads:
        cost = WRITE_COST if load.write else READ_COST
        watches = [Watch(candidate, cost) for candidate in candidates]
        rows = run_rounds(candidates, [load], stage)[load.name]
        small = rows[candidates[0].name]
        for candidate, watch in zip(candidates, watches, strict=True):
            rounds = rows[candidate.name]
            watch.check(sum(got.requests for got in rounds))
            ratio = median_ratio(rounds, small, "cpu_ms")
            worst = max(worst, ratio if candidate is candidates[1] else 0.0)
            section.rows.append(
                [
                    load.name,
                    candidate.title,
                    figure(median_ratio(rounds, small, "per_second")),
                    figure(ratio),
                    figure(median_of(rounds, "cpu_ms")),
                    f"{max(got.foreign for got in rounds):.0%}",
                ]
            )
    section.goals["growth"] = worst
    return section
