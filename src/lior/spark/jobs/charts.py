"""Tables and plots of a report, as HTML and SVG that need nothing else: to look at, to print, to send."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 900, 260, 70, 30, 10
COLOURS: Final = ("#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#6a4c93", "#008891", "#8d5524", "#5c5c5c")
_STYLE: Final = """
body { font: 14px/1.5 system-ui, sans-serif; max-width: 960px; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; width: 100%; font-size: 12px } td, th { text-align: right; padding: 3px 6px;
border-bottom: 1px solid #ddd } td:first-child, th:first-child { text-align: left } h2 { margin-top: 2em }
svg { width: 100%; height: auto } .none { color: #777 } text { font: 11px system-ui, sans-serif; fill: #444 }
@media print { h2 { break-after: avoid } svg, tr { break-inside: avoid } }
"""


def document(title: str, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (f"<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{_STYLE}</style>"
            f"\n<h1>{escape(title)}</h1>\n<p>Times are UTC.</p>\n{body}\n</html>\n")  # fmt: skip


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "<p class=none>None.</p>"
    head = "".join(f"<th>{escape(each)}" for each in headings)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(str(each))}" for each in row) for row in rows)
    return f"<table><tr>{head}\n{body}</table>"


def bars(values: Mapping[str, float], unit: str) -> str:
    if not values:
        return "<p class=none>None.</p>"
    highest = max(values.values()) or 1.0
    step, label = 22, 220
    lines_ = [f'<svg viewBox="0 0 {WIDTH} {step * len(values)}" role=img aria-label="{escape(unit)}">']
    for at, (name, value) in enumerate(values.items()):
        width = (WIDTH - label - 110) * value / highest
        y = at * step
        lines_.append(f'<text x="{label - 6}" y="{y + 15}" text-anchor=end>{escape(name[:34])}</text>'
                      f'<rect x="{label}" y="{y + 3}" width="{width:.1f}" height="{step - 6}" fill="{COLOURS[0]}"/>'
                      f'<text x="{label + width + 5:.1f}" y="{y + 15}">{value:,.0f} {escape(unit)}</text>')  # fmt: skip
    return "\n".join([*lines_, "</svg>"])


def lines(series: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> str:
    """One line for each name; x is a time."""
    points = [point for each in series.values() for point in each]
    if not points:
        return "<p class=none>None.</p>"
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    highest = max(y for _, y in points) or 1.0
    span = last - first or 1.0

    def at(x: float, y: float) -> str:
        across = LEFT + (WIDTH - LEFT - 10) * (x - first) / span
        return f"{across:.1f},{TOP + (HEIGHT - TOP - BOTTOM) * (1 - y / highest):.1f}"

    drawn = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 18 * len(series)}" role=img aria-label="{escape(unit)}">']
    for part in range(5):
        value = highest * part / 4
        y = TOP + (HEIGHT - TOP - BOTTOM) * (1 - part / 4)
        drawn.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>'
                     f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor=end>{value:,.3g}</text>')  # fmt: skip
    for anchor, x, moment in (("start", LEFT, first), ("end", WIDTH - 10, last)):
        shown = time.strftime("%Y-%m-%d %H:%M", time.gmtime(moment))
        drawn.append(f'<text x="{x}" y="{HEIGHT - 8}" text-anchor={anchor}>{shown}</text>')
    for number, (name, each) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(at(x, y) for x, y in each)
        drawn.append(f'<polyline points="{path}" fill=none stroke="{colour}" stroke-width=1.5 />')
        drawn += [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r=2 fill="{colour}"/>' for p in path.split()
                  if len(each) <= 200]  # fmt: skip
        y = HEIGHT + 18 * number + 10
        drawn.append(f'<rect x="{LEFT}" y="{y - 9}" width=10 height=10 fill="{colour}"/>'
                     f'<text x="{LEFT + 16}" y="{y}">{escape(name)}</text>')  # fmt: skip
    return "\n".join([*drawn, "</svg>"])
