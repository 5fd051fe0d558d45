"""Bars as an SVG for light and dark pages: ratios to P1, with a line at P1."""

import html

from .section import figure

WIDTH = 760
# Space for names: before them, and for each character of the longest.
BEFORE_NAMES, CHARACTER = 18, 7.5
BAR, GAP = 16, 6
HEAD, BELOW = 34, 18
OURS = ("SQLite", "PostgreSQL", "creator-gateway")
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .title { font-weight: 600; }
  .ours { fill: #1a7f64; }
  .peer { fill: #8c959f; }
  .line { stroke: #cf222e; stroke-dasharray: 3 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .ours { fill: #3fb68b; }
    .peer { fill: #6e7681; }
    .line { stroke: #ff7b72; }
  }
"""


def draw(charts):
    """`charts` maps a title to a list of [bar, value]; returns the SVG."""
    parts, top = [], 10
    names = BEFORE_NAMES + CHARACTER * max((len(name) for bars in charts.values() for name, _ in bars), default=0)
    for title, bars in charts.items():
        if bars:
            drawn, height = _panel(title, bars, top, names)
            parts += drawn
            top += height
    size = f'viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n'
        "<title>creator-gateway beside its peers</title>\n"
        f"<style>{STYLE}</style>\n"
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def _panel(title, bars, top, names):
    room = WIDTH - names - 60
    most = max(value for _, value in bars) or 1
    parts = [f'<text class="title" x="10" y="{top + 18}">{html.escape(title)}</text>']
    y = top + HEAD
    if any(name == "P1" for name, _ in bars):
        # Below bars and figures, so that it hides none of them.
        x, end = names + room / most, y + len(bars) * (BAR + GAP)
        parts.append(f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 4}" y2="{end}"/>')
    for name, value in bars:
        length = max(0, value) / most * room
        kind = "ours" if name.split(" ")[0] in OURS else "peer"
        middle = y + BAR - 4
        parts.append(f'<text x="{names - 8:.1f}" y="{middle}" text-anchor="end">{html.escape(name)}</text>')
        parts.append(f'<rect class="{kind}" x="{names:.1f}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>')
        parts.append(f'<text x="{names + length + 6:.1f}" y="{middle}">{figure(value)}</text>')
        y += BAR + GAP
    return parts, y - top + BELOW
