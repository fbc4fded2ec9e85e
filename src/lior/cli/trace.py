"""lior trace: where a message is, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import groupby
from operator import attrgetter

import click

import lior
from lior.cli.connection import Session, connected
from lior.cli.inputs import parse_object_id
from lior.cli.output import Output, iso, printable, progress
from lior.client.trace import TraceEntry
from lior.errors import MessageNotFound
from lior.message import ObjectId


def identifier(text: str) -> str:
    """As lior prints it, with or without its braces."""
    found = parse_object_id(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is no message identifier; write {{GUID}}\\number, as lior prints it")
    return str(ObjectId.from_bytes(found))


@click.command(short_help="Tell where a message is, and what became of it.")
@click.argument("message_id", type=identifier, required=False, metavar="MESSAGE-ID")
@click.option("--label", default="", help="Messages with this label instead: the newest hundred.")
@click.option("--correlation-id", "--correlation", "correlation_id", type=identifier, metavar="ID",
              help="Messages with this correlation id instead.")
@connected
def trace(session: Session, message_id: str | None, label: str, correlation_id: str | None) -> None:
    r"""Tell where the message with MESSAGE-ID is on this queue manager, and what became of it, in time order.

    MESSAGE-ID is as lior prints it, {GUID}\number; in a shell, in single quotes. Every queue is searched, which takes
    a while where millions of messages wait. What happened is read from the record of the queue manager, which is
    bounded: see docs/trace.md.
    """
    if sum(map(bool, (message_id, label, correlation_id))) != 1:
        raise click.UsageError("give a message identifier, --label or --correlation")
    wanted = {"message_id": message_id or "", "label": label, "correlation_id": correlation_id or ""}
    with session.open() as manager:
        entries = search(manager, wanted, measured=not session.is_served)
    if not entries:
        raise MessageNotFound(
            "nothing is known here of such a message",
            where=next(filter(None, wanted.values())),
            remedy="ask the queue manager that it was sent to (--server), or that it came from",
        )
    (show_json if session.out.as_json else show)(session.out, entries)


def search(manager: lior.QueueManager, wanted: dict[str, str], *, measured: bool) -> list[TraceEntry]:
    """With a bar. A server does not tell how far it is."""
    with progress("searching the queues", 100 if measured else None) as advance:
        return manager.trace(
            wanted["message_id"],
            label=wanted["label"],
            correlation_id=wanted["correlation_id"],
            progress=in_percent(advance),
        )


def in_percent(advance: Callable[[int], None]) -> Callable[[int, int], None]:
    shown = 0

    def show_progress(done: int, total: int) -> None:
        nonlocal shown
        now = 100 * done // total if total else 100
        if now > shown:
            advance(now - shown)
            shown = now

    return show_progress


def show_json(out: Output, entries: list[TraceEntry]) -> None:
    for entry in entries:
        out.record(asdict(entry) | {"time": iso(entry.time), "text": entry.text})


def show(out: Output, entries: list[TraceEntry]) -> None:
    for number, (message, group) in enumerate(groupby(entries, key=attrgetter("message"))):
        if number:
            out.line()
        show_message(out, message, list(group))


def show_message(out: Output, message: str, entries: list[TraceEntry]) -> None:
    label = next((entry.label for entry in entries if entry.label), "")
    out.line(printable(f"{message}  {label}".rstrip()))
    for entry in entries:
        if not entry.current:
            out.line(printable(f"  {iso(entry.time) or '':<24}  {entry.text}"))
    places = [entry for entry in entries if entry.current]
    for entry in places:
        out.line(printable(f"  {'now':<24}  {entry.text}"))
    if not places:
        out.line(f"  {'now':<24}  not on this queue manager")
