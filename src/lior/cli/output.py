"""What the commands print: tables and fields for people, JSON lines for programs, errors with their remedy."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import click

from lior.errors import LiorError

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NO_MESSAGE: Final = 3
INTERRUPTED: Final = 130  # what shells say of a process that Ctrl-C ended

_RIGHT: Final = frozenset({"MESSAGES", "SIZE", "JOURNAL", "READERS", "PRIORITY", "CHANGE", "OPERATIONS", "ABORTS"})


class Output:
    """Where a command's answer goes, and in which of the two forms."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def record(self, data: Mapping[str, Any]) -> None:
        """One JSON object on a line."""
        click.echo(json_text(data))

    def line(self, text: str = "") -> None:
        click.echo(text, color=colours(sys.stdout))

    def done(self, text: str, **data: Any) -> None:
        """The outcome of a command that answers nothing else."""
        if self.as_json:
            self.record(data)
        else:
            self.line(text)

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        for line in table_lines(headings, list(rows)):
            self.line(line)

    def fields(self, data: Mapping[str, str]) -> None:
        width = max(map(len, data), default=0)
        for name, value in data.items():
            first, *more = value.split("\n")
            self.line(f"{name:<{width}}  {first}".rstrip())
            for line in more:
                self.line(f"{'':<{width}}  {line}".rstrip())

    def flush(self) -> None:
        sys.stdout.flush()


def colours(stream: Any) -> bool:
    return bool(stream.isatty()) and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def on_terminal() -> bool:
    """A person is there to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def table_lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max([len(heading), *(cell_width(row[at]) for row in cells)]) for at, heading in enumerate(headings)]

    def line(row: Sequence[str]) -> str:
        padded = []
        for heading, cell, width in zip(headings, row, widths, strict=True):
            space = " " * (width - cell_width(cell))
            padded.append(space + cell if heading in _RIGHT else cell + space)
        return "  ".join(padded).rstrip()

    return [click.style(line(headings), bold=True), *(line(row) for row in cells)]


def cell_width(text: str) -> int:
    """Columns on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def printable(text: str, kept: str = "") -> str:
    """The text with everything escaped that could steer a terminal: labels and bodies come from strangers."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode() for char in text
    )


def json_text(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, default=_plain)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair in a label
        return json.dumps(data, default=_plain)
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def iso(moment: float | None) -> str | None:
    if not moment:
        return None
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # no calendar has this moment
        return None


def age(moment: float | None, now: float | None = None) -> str:
    """How long ago, in one unit."""
    if not moment:
        return ""
    return duration(max(0.0, (time.time() if now is None else now) - moment))


def duration(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: int) -> str:
    """Bytes, in one unit."""
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"


def number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def show_error(error: LiorError) -> None:
    """Three lines for stderr: what, where, what to do."""
    colour = colours(sys.stderr)
    mark = click.style("error:", fg="red", bold=True)
    lines = [f"{mark} {printable(error.what)} ({error.symbol} 0x{error.code:08X})"]
    if error.where:
        lines.append(f"where: {printable(error.where)}")
    if error.remedy:
        lines.append(f"do:    {printable(error.remedy)}")
    click.echo("\n".join(lines), err=True, color=colour)


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal's stderr; elsewhere nothing. Yields what to call with each step."""
    if not sys.stderr.isatty() or (total is not None and total < 2):
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)
