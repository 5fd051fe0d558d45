"""Alternating rounds (A B C A B C …), repeated if the machine is disturbed, and their medians."""

import dataclasses
import math
import os
import statistics

from .common import check, say
from .load import measure

# The duration of each candidate's warm-up, as a part of a round.
WARM_UP_PART = 0.5
# A round is repeated if unrelated processes used more than this share of the cores.
FOREIGN_SHARE_MAX = 0.10
# How often a round with refusals is tried, if disturbed rounds are not repeated.
SPOILT_MAX = 4
# The time that starting, connecting and reading /proc add to a round.
OVERHEAD_S = 0.5


@dataclasses.dataclass(frozen=True)
class Stage:
    """What every measurement needs: a folder, its duration, and the processes whose CPU time
    belongs to it."""

    folder: object
    rounds: int
    seconds: int
    repeats: int
    outside: frozenset


def run_rounds(candidates, loads, stage, urls=None):
    """All rounds of all loads: load, then candidate, to a list with one entry for each round.

    `urls` returns the URLs of a candidate that has several.
    """
    needed = sum(load.seconds * (stage.rounds + WARM_UP_PART) + OVERHEAD_S * (stage.rounds + 1) for load in loads)
    plan = f"{len(loads)} load(s) × {len(candidates)} candidates × {stage.rounds} round(s)"
    say(f"{plan}: {minutes(len(candidates) * needed)}, and more if rounds are disturbed")
    taken = {}
    for load in loads:
        rows = taken[load.name] = {candidate.name: [] for candidate in candidates}
        where = {candidate.name: (urls or {}).get(candidate.name) for candidate in candidates}
        for candidate in candidates:
            warm_up = dataclasses.replace(load, seconds=math.ceil(load.seconds * WARM_UP_PART))
            measure(candidate, warm_up, stage.folder, stage.outside, where[candidate.name])
        for number in range(stage.rounds):
            for candidate in candidates:
                got = _calmest(candidate, load, stage, where[candidate.name])
                rows[candidate.name].append(got)
                say(
                    f"{load.name}, round {number + 1} of {stage.rounds}: {candidate.name:<12} {got.per_second:>8,.0f}/s"
                    f"  CPU {got.cpu_ms:>6.1f} ms/1,000  p50 {got.p50_ms:>6.1f}  p99 {got.p99_ms:>6.1f} ms"
                    f"  others' CPU {got.foreign:.0%}  load {os.getloadavg()[0]:.1f}"
                )
    return taken


def minutes(seconds):
    """A duration for people."""
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"


def _calmest(candidate, load, stage, urls):
    """A round without disturbance by other work of the machine, if there is one."""
    whole = []
    for _ in range(stage.repeats + 1 if stage.repeats else SPOILT_MAX):
        taken = measure(candidate, load, stage.folder, stage.outside, urls)
        calm = taken.foreign <= FOREIGN_SHARE_MAX
        if load.strict and taken.failed + taken.refused:
            # A candidate without CPU time may refuse; one that has the machine to itself may not.
            spoilt = f"{candidate.name}, {load.name}: {taken.failed} failed, {taken.refused} were refused"
            check(not calm, spoilt)
            say(f"{spoilt}, while others took {taken.foreign:.0%} of the cores: again")
            continue
        whole.append(taken)
        if calm or not stage.repeats:
            break
    check(whole, f"{candidate.name}, {load.name}: every round had refusals; the machine is too busy")
    return min(whole, key=lambda taken: taken.foreign)


def median_of(rounds, field):
    """The median of one figure of these rounds."""
    return statistics.median(getattr(got, field) for got in rounds)


def median_ratio(rounds, others, field):
    """The median of the ratios of consecutive rounds."""
    pairs = [(getattr(mine, field), getattr(other, field)) for mine, other in zip(rounds, others, strict=True)]
    return statistics.median(mine / other if other else math.nan for mine, other in pairs)


def median_difference(rounds, others, field):
    """The median of the differences of consecutive rounds."""
    return statistics.median(getattr(a, field) - getattr(b, field) for a, b in zip(rounds, others, strict=True))
