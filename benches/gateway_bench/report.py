"""The results, stored as data beside the document and written into it as tables."""

import dataclasses
import json

from .common import ROOT, check
from .goals import GOALS
from .section import Section, figure

DATA = ROOT / "docs" / "performance.json"
DOCUMENT = ROOT / "docs" / "performance.md"
BEGIN = "<!-- benches/gateway writes from here -->"
END = "<!-- benches/gateway writes to here -->"
CHART = "performance.svg"


def known_sections():
    """The sections of earlier published runs: work to section."""
    if not DATA.exists():
        return {}
    return {name: Section(**fields) for name, fields in json.loads(DATA.read_text()).items()}


def save(sections):
    """Stores the data of all sections."""
    text = json.dumps({name: dataclasses.asdict(section) for name, section in sections.items()}, indent=1)
    DATA.write_text(text + "\n")


def publish(text):
    """Writes the tables into the document, between their markers."""
    document = DOCUMENT.read_text()
    check(BEGIN in document and END in document, f"{DOCUMENT} has no markers for the tables")
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{text.strip()}\n\n{END}{after}")


def render(sections, chart=None):
    """All tables as Markdown: the goals first, then each kind of work."""
    parts = []
    reached = {goal: (value, name) for name, section in sections.items() for goal, value in section.goals.items()}
    if reached:
        parts.append("## Goals\n\n" + _goals(reached))
    if chart:
        parts.append(f"![Requests a second and CPU for each call, relative to P1]({chart})")
    said = None
    for section in sections.values():
        parts.append(f"## {section.title}\n\n{section.text}\n\n{table(section.head, section.rows)}")
        # One run has the same conditions for all its measurements; they are stated once.
        if section.conditions != said:
            parts.append(
                "Conditions, also of what follows:\n\n" + "\n".join(f"* {line}" for line in section.conditions)
            )
            said = section.conditions
    return "\n\n".join(parts) + "\n"


def _goals(reached):
    rows = []
    for name, goal in GOALS.items():
        value = reached.get(name, (None, None))[0]
        if value is not None:
            measured = f"{figure(value) if value else 0} {goal.unit}".strip()
            rows.append([goal.text, measured, goal.mark(goal.must), goal.mark(goal.aim), goal.judge(value)])
    return table(["goal", "measured", "must", "aim", "reached"], rows)


def table(head, rows):
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
