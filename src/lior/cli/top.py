"""lior top: the queues, shown again and again."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

import lior
from lior.cli.connection import Session, connected
from lior.cli.operation import summary
from lior.cli.output import age, iso, size, table_lines
from lior.cli.views import queue_json

HEADINGS: Final = ("QUEUE", "MESSAGES", "CHANGE", "SIZE", "JOURNAL", "READERS", "OLDEST")
CLEAR: Final = "\x1b[H\x1b[2J"
QUIT: Final = frozenset({b"q", b"Q", b"\x04"})


@click.command()
@click.option("--once", is_flag=True, help="Show the figures once and end.")
@click.option("--interval", type=click.FloatRange(0.2, 3600), default=2.0, show_default=True, metavar="SECONDS",
              help="Time between two looks.")
@connected
def top(session: Session, once: bool, interval: float) -> None:
    """Show the busiest queues live, until q or Ctrl-C.

    On a data directory that nobody serves it has that for itself meanwhile. Without a terminal, or with --json, it
    prints one picture after the other.
    """
    with session.open() as manager, keyboard() as pressed:
        before: dict[str, int] = {}
        while True:
            queues = sorted(manager.queues(), key=lambda info: (-info.messages, info.name))
            show(session, queues, before)
            before = {info.identifier: info.messages for info in queues}
            if once or pressed(interval):
                return


def show(session: Session, queues: list[lior.QueueInfo], before: dict[str, int]) -> None:
    if session.out.as_json:
        session.out.record({"time": iso(time.time()), "queues": [queue_json(info) for info in queues]})
        session.out.flush()
        return
    live = sys.stdout.isatty() and sys.stdin.isatty()
    lines = [summary(queues), "", *table_lines(HEADINGS, [row(info, before) for info in queues])]
    if live:
        lines = lines[: max(4, os.get_terminal_size(sys.stdout.fileno()).lines - 1)]
    session.out.line((CLEAR if live else "") + "\n".join(lines))
    session.out.flush()


def row(info: lior.QueueInfo, before: dict[str, int]) -> tuple[str, ...]:
    change = info.messages - before.get(info.identifier, info.messages)
    return (info.name, str(info.messages), f"{change:+d}" if change else "", size(info.bytes),
            str(info.journal_messages), str(info.readers), age(info.oldest))


class Keyboard:
    """Waits, and says whether the user wants to quit meanwhile."""

    def __init__(self, listening: bool) -> None:
        self._listening = listening

    def __call__(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not self._listening:
                time.sleep(left)
            elif select.select([sys.stdin], [], [], left)[0]:
                pressed = os.read(sys.stdin.fileno(), 1)
                if not pressed or pressed in QUIT:
                    return True
        return False


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Single keys without Enter while the block runs, if there is a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield Keyboard(False)
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    settings = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        yield Keyboard(True)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, settings)
