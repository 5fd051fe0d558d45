"""One node and three nodes on one PostgreSQL."""

import dataclasses

from ..checks import Watch
from ..common import READ_COST
from ..load import Load
from ..rounds import median_of, median_ratio, run_rounds
from ..section import Section, figure

CONNECTIONS = 96
NODES = 3


def measure_nodes(gateways, first, stage):
    """`gateways` are the nodes, all started; `first` is the candidate of the first one.

    Each node gets the same connections. On few cores three nodes share what one had to itself, so
    the measure is the CPU for each call, including the database's.
    """
    roots = frozenset().union(*(gateway.roots() for gateway in gateways))
    # Idle nodes cost almost nothing, but a round of one node should not include even that.
    alone = dataclasses.replace(first, name="1 node", title="PostgreSQL")
    together = dataclasses.replace(first, name=f"{NODES} nodes", title="PostgreSQL", roots=roots)
    urls = {alone.name: [first.url], together.name: [gateway.url for gateway in gateways]}
    load = Load(f"reads, {CONNECTIONS} connections a node", CONNECTIONS, stage.seconds)
    watch = Watch(first, READ_COST)
    rows = run_rounds([alone, together], [load], stage, urls)[load.name]
    # Fails if a credit is missing: what was charged must be what was logged, and the ledger must
    # add up.
    watch.check(sum(got.requests for rounds in rows.values() for got in rounds))
    gateways[0].verify()
    section = Section(
        "Nodes on one PostgreSQL",
        f"{CONNECTIONS} connections to one node, or to each of three. Efficiency is CPU for each call with one node, "
        "divided by the same with three. After the last round the balance, the log and the responses agreed, and "
        "`verify` found nothing.",
        ["candidate", "requests/s, × 1 node", "CPU, × 1 node", "CPU ms per 1,000", "p50 ms", "others' CPU"],
    )
    for candidate in (alone, together):
        rounds = rows[candidate.name]
        section.rows.append(
            [
                candidate.name,
                figure(median_ratio(rounds, rows[alone.name], "per_second")),
                figure(median_ratio(rounds, rows[alone.name], "cpu_ms")),
                figure(median_of(rounds, "cpu_ms")),
                figure(median_of(rounds, "p50_ms")),
                f"{max(got.foreign for got in rounds):.0%}",
            ]
        )
    section.goals = {"nodes": median_ratio(rows[alone.name], rows[together.name], "cpu_ms"), "lost": 0}
    return section
