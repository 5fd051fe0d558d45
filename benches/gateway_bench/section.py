"""The result of a measurement: a table for people, figures for the goals, bars for the chart."""

import dataclasses


@dataclasses.dataclass
class Section:
    """One kind of work."""

    title: str
    # What was measured, in a sentence or two.
    text: str
    head: list
    rows: list = dataclasses.field(default_factory=list)
    # Goal to figure.
    goals: dict = dataclasses.field(default_factory=dict)
    # Chart to a list of [bar, value].
    bars: dict = dataclasses.field(default_factory=dict)
    # Filled in by the command: when, where and how it was measured.
    conditions: list = dataclasses.field(default_factory=list)


def figure(value):
    """A number with a sensible number of digits."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def joined(*values):
    """Several figures in one cell."""
    return " · ".join(figure(value) for value in values)
