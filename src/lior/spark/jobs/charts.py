"""Tables and plots of a report, as HTML and SVG that need nothing else: to look at, to print, to send. Lines differ in
dashes too, so that they can be told apart on paper without colours."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM, TOP = 900, 240, 64, 14, 26, 12
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555")
DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "4 4", "12 4", "1 5")
_SPANS: Final = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 30 * 86400)
_STYLE: Final = """
:root { color-scheme: light }
body { font: 14px/1.45 system-ui, sans-serif; max-width: 960px; margin: 2em auto; padding: 0 1em; color: #1c1c1c }
h1 { margin-bottom: 0 } .about { color: #555; margin: .2em 0 1.5em } h2 { margin: 1.8em 0 .4em; font-size: 1.15em }
.note { color: #555; margin: 0 0 .5em; font-size: 12px } .none { color: #777 }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 0 0 1em; padding: 0; list-style: none }
.tiles li { border: 1px solid #ccc; border-radius: 4px; padding: 8px 14px; min-width: 110px }
.tiles b { display: block; font-size: 1.35em } .tiles span { color: #555; font-size: 12px }
.tiles .bad b { color: #b00020 }
table { border-collapse: collapse; width: 100%; font-size: 12px } td, th { text-align: right; padding: 3px 6px;
border-bottom: 1px solid #ddd; white-space: nowrap } td:first-child, th:first-child { text-align: left;
white-space: normal; overflow-wrap: anywhere }
svg { width: 100%; height: auto; display: block } text { font: 11px system-ui, sans-serif; fill: #444 }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0 24px }
@page { size: A4; margin: 14mm }
@media print { body { margin: 0; max-width: none; padding: 0; font-size: 11px } h2 { break-after: avoid }
svg, tr, .tiles, figure { break-inside: avoid } table { font-size: 9px } * { print-color-adjust: exact } }
"""


def document(title: str, about: str, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (f"<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>{escape(title)}</title><style>{_STYLE}</style>\n<h1>{escape(title)}</h1>\n"
            f"<p class=about>{escape(about)}</p>\n{body}\n</html>\n")  # fmt: skip


def section(title: str, *parts: str, note: str = "") -> str:
    said = f"\n<p class=note>{escape(note)}</p>" if note else ""
    return "\n".join((f"<h2>{escape(title)}</h2>{said}", *parts))


def pair(*parts: str) -> str:
    return f"<div class=pair>{''.join(f'<div>{each}</div>' for each in parts)}</div>"


def tiles(values: Mapping[str, str], bad: frozenset[str] = frozenset()) -> str:
    """The few numbers that are looked at first."""
    found = "".join(f"<li{' class=bad' if name in bad else ''}><b>{escape(value)}</b><span>{escape(name)}</span>"
                    for name, value in values.items())  # fmt: skip
    return f"<ul class=tiles>{found}</ul>"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "<p class=none>None.</p>"
    head = "".join(f"<th>{escape(each)}" for each in headings)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(str(each))}" for each in row) for row in rows)
    return f"<table><thead><tr>{head}</thead>\n{body}</table>"


def bars(values: Mapping[str, float], unit: str, colour: str = COLOURS[0]) -> str:
    """Lying, with names of any length."""
    if not values:
        return "<p class=none>None.</p>"
    highest = max(values.values()) or 1.0
    step, label = 22, 260
    drawn = [_svg(step * len(values), unit)]
    for at, (name, value) in enumerate(values.items()):
        width, y = (WIDTH - label - 130) * value / highest, at * step
        shown = name if len(name) <= 40 else f"{name[:39]}…"
        drawn.append(f'<text x="{label - 6}" y="{y + 15}" text-anchor=end><title>{escape(name)}</title>{escape(shown)}'
                     f'</text><rect x="{label}" y="{y + 3}" width="{max(width, 1):.1f}" height="{step - 6}" '
                     f'fill="{colour}"/><text x="{label + width + 5:.1f}" y="{y + 15}">{number(value)} '
                     f'{escape(unit)}</text>')  # fmt: skip
    return "\n".join([*drawn, "</svg>"])


def columns(values: Sequence[tuple[str, float]], unit: str, colour: str = COLOURS[0]) -> str:
    """Standing, in the order given: a histogram."""
    if not any(value for _, value in values):
        return "<p class=none>None.</p>"
    wide, highest = 440, nice(max(value for _, value in values))
    step = (wide - LEFT - RIGHT) / len(values)
    drawn = [_svg(HEIGHT, unit, wide), *_scale(highest, wide)]
    for at, (name, value) in enumerate(values):
        x, tall = LEFT + at * step, (HEIGHT - TOP - BOTTOM) * value / highest
        drawn.append(f'<rect x="{x + 1:.1f}" y="{HEIGHT - BOTTOM - tall:.1f}" width="{step - 2:.1f}" '
                     f'height="{tall:.1f}" fill="{colour}"><title>{escape(name)}: {number(value)}</title></rect>')
        if at % -(-len(values) // 8) == 0:
            drawn.append(f'<text x="{x + step / 2:.1f}" y="{HEIGHT - 9}" text-anchor=middle>{escape(name)}</text>')
    return "\n".join([*drawn, "</svg>"])


def lines(series: Mapping[str, Sequence[tuple[float, float]]], unit: str, step: float = 0.0) -> str:
    """One line for each name; x is a time. With `step` there is a value so often, and it is 0 where none is given."""
    points = [point for each in series.values() for point in each]
    if not points:
        return "<p class=none>None.</p>"
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    highest, span = nice(max(y for _, y in points)), last - first

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * ((x - first) / span if span else 0.5)

    def down(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - y / highest)

    drawn = [_svg(HEIGHT + 18 * -(-len(series) // 2), unit), *_scale(highest, WIDTH), *_moments(first, last, across)]
    for at, (name, given) in enumerate(series.items()):
        each = _filled(given, first, last, step)
        colour, dash = COLOURS[at % len(COLOURS)], DASHES[at % len(DASHES)]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in each)
        drawn.append(f'<polyline points="{path}" fill=none stroke="{colour}" stroke-width=1.6 '
                     f'stroke-dasharray="{dash}"><title>{escape(name)}</title></polyline>')  # fmt: skip
        if len(each) <= 40:
            drawn += [f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r=2.2 fill="{colour}"/>' for x, y in each]
        x, y = LEFT + (at % 2) * (WIDTH - LEFT) // 2, HEIGHT + 18 * (at // 2) + 10
        drawn.append(f'<line x1="{x}" x2="{x + 26}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width=2 '
                     f'stroke-dasharray="{dash}"/><text x="{x + 32}" y="{y}">{escape(name)}</text>')  # fmt: skip
    return "\n".join([*drawn, "</svg>"])


def number(value: float) -> str:
    """As short as people read it: 1,234 or 56.7k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (size if letter != 'k' else 1e3):,.3g}{letter}"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"


def size(value: float) -> str:
    for limit, letter in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= limit:
            return f"{value / limit:,.3g} {letter}"
    return f"{value:,.0f} B"


def moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def nice(highest: float) -> float:
    """The next of 1, 2, 4, 5, 10 and their multiples by ten: quarters of it are read easily."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next(each * power for each in (1, 2, 4, 5, 10) if each * power >= highest * 0.999999)


def _filled(
    points: Sequence[tuple[float, float]], first: float, last: float, step: float
) -> Sequence[tuple[float, float]]:
    if not step:
        return points
    known = dict(points)
    return [(first + at * step, known.get(first + at * step, 0.0)) for at in range(round((last - first) / step) + 1)]


def _svg(height: float, about: str, width: int = WIDTH) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role=img aria-label="{escape(about)}">'


def _scale(highest: float, width: int) -> list[str]:
    found = []
    for part in range(5):
        y = TOP + (HEIGHT - TOP - BOTTOM) * (1 - part / 4)
        found.append(f'<line x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor=end>{number(highest * part / 4)}</text>')
    return found


def _moments(first: float, last: float, across: object) -> list[str]:
    """Marks at full minutes, hours or days, six or so."""
    assert callable(across)
    span = next((each for each in _SPANS if (last - first) / each <= 7), _SPANS[-1])
    style = "%H:%M:%S" if span < 60 else "%H:%M" if span < 43200 and last - first < 86400 else "%m-%d %H:%M"
    found, at = [], math.ceil(first / span) * span
    marks: list[float] = [at + each * span for each in range(8) if at + each * span <= last] or [first]
    for x in marks:
        place = across(x)
        found.append(f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 4}" '
                     f'stroke="#888"/><text x="{place:.1f}" y="{HEIGHT - 9}" text-anchor=middle>'
                     f'{time.strftime(style, time.gmtime(x))}</text>')  # fmt: skip
    return found
