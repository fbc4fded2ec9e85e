"""lior queue: create, list, show, set, delete, purge."""

from __future__ import annotations

import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Final

import click

import lior
from lior.cli.connection import Session, connected
from lior.cli.inputs import assignment, confirm, number_or_none, quota
from lior.cli.output import Output, number, progress
from lior.cli.views import QUEUE_HEADINGS, queue_fields, queue_json, queue_row
from lior.errors import IllegalPropertyValue

PRIVACY: Final = {"none": 0, "optional": 1, "body": 2}
POLL: Final = 0.1  # seconds between looks at a purge
yes_option = click.option("--yes", is_flag=True, help="Do not ask for the name on a terminal.")


@click.group(name="queue")
def queue() -> None:
    """Create, list, change and delete queues."""


def property_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `create` and `set` can give a queue."""
    for option in (
        click.option("--note", "notes", multiple=True, type=assignment, metavar="NAME=VALUE",
                     help="A note of the operator, kept with the queue; again for more."),
        click.option("--max-aborts", type=number_or_none, metavar="N",
                     help="Move a message to ;poison when more than N transactions gave it back; none: never."),
        click.option("--multicast", metavar="ADDRESS:PORT", help="Multicast address that the queue listens to."),
        click.option("--type", "type_", type=click.UUID, metavar="GUID", help="Type of the queue: what it is for."),
        click.option("--privacy", type=click.Choice(list(PRIVACY)), help="Which bodies it takes: clear only (none), "
                     "both (optional), encrypted only (body)."),
        click.option("--authenticate/--no-authenticate", "authentication", default=None,
                     help="Take signed messages only."),
        click.option("--journal-quota", type=quota, metavar="QUOTA", help="Most that its journal may hold."),
        click.option("--quota", type=quota, metavar="QUOTA",
                     help="Most that it may hold: KB, or with K, M, G or T; none: no limit."),
        click.option("--journal/--no-journal", "journaling", default=None,
                     help="Keep a copy of every message received from it."),
        click.option("--label", help="Description, at most 124 characters."),
    ):  # fmt: skip
        function = option(function)
    return function


def given(privacy: str | None, type_: Any, multicast: str | None, max_aborts: int | str | None,
          notes: tuple[tuple[str, str], ...], **plain: Any) -> dict[str, Any]:  # fmt: skip
    """The properties that were named on the command line."""
    found = {name: value for name, value in plain.items() if value is not None}
    if privacy is not None:
        found["privacy_level"] = PRIVACY[privacy]
    if type_ is not None:
        found["type"] = type_
    if multicast is not None:
        found["multicast_address"] = multicast
    if max_aborts is not None:
        found["max_aborts"] = None if max_aborts == "none" else max_aborts
    if notes:
        found["description"] = dict(notes)
    return found


@queue.command()
@click.argument("path")
@click.option("--transactional", is_flag=True, help="Take messages in transactions only, in order, exactly once.")
@property_options
@connected
def create(session: Session, path: str, transactional: bool, **options: Any) -> None:
    r"""Create the private queue PATH, for example .\private$\orders.

    A data directory that is not there yet is made.
    """
    with session.open(create=True) as manager:
        info = manager.create_queue(path, transactional=transactional, **given(**options))
    session.out.done(f"created {info.path}", **queue_json(info))


@queue.command(name="list")
@click.argument("pattern", default="*")
@click.option("--all", "everything", is_flag=True, help="System and outgoing queues too.")
@connected
def list_(session: Session, pattern: str, everything: bool) -> None:
    """List the queues whose name matches PATTERN (with * and ?)."""
    with session.open() as manager:
        queues = manager.queues()
    shown = [info for info in queues if (everything or info.kind in ("private", "subqueue")) and matches(info, pattern)]
    if session.out.as_json:
        for info in shown:
            session.out.record(queue_json(info))
    else:
        session.out.table(QUEUE_HEADINGS, map(queue_row, shown))


def matches(info: lior.QueueInfo, pattern: str) -> bool:
    folded = pattern.casefold()
    bare = info.name.rpartition("\\")[2]
    return any(fnmatchcase(name.casefold(), folded) for name in (info.name, bare, info.path))


@queue.command()
@click.argument("name")
@connected
def show(session: Session, name: str) -> None:
    """Show everything about the queue NAME."""
    with session.open() as manager:
        info = manager.queue(name)
    show_queue(session.out, info)


def show_queue(out: Output, info: lior.QueueInfo) -> None:
    if out.as_json:
        out.record(queue_json(info))
    else:
        out.fields(queue_fields(info))


@queue.command(name="set")
@click.argument("name")
@property_options
@connected
def set_(session: Session, name: str, **options: Any) -> None:
    """Change properties of the queue NAME. Notes are replaced by those given."""
    changes = given(**options)
    if not changes:
        raise click.UsageError("say what to change; see --help")
    with session.open() as manager:
        manager.set_queue(name, **changes)
        info = manager.queue(name)
    session.out.done(f"changed {info.path}", **queue_json(info))


@queue.command(short_help="Delete a queue with every message in it.")
@click.argument("name")
@yes_option
@connected
def delete(session: Session, name: str, yes: bool) -> None:
    """Delete the queue NAME, its journal and its subqueues, with every message in them."""
    with session.open() as manager:
        info = manager.queue(name)
        confirm(info.name, f"{info.path} with {number(info.messages, 'message')} will be deleted", yes)
        manager.delete_queue(name)
    session.out.done(f"deleted {info.path} and {number(info.messages, 'message')}", deleted=info.path,
                     messages=info.messages)  # fmt: skip


@queue.command()
@click.argument("name")
@yes_option
@connected
def purge(session: Session, name: str, yes: bool) -> None:
    """Remove every message from the queue NAME."""
    with session.open() as manager:
        info, removed = purge_confirmed(manager, name, yes)
    session.out.done(f"removed {number(removed, 'message')} from {info.path}", purged=info.path, messages=removed)


def purge_confirmed(manager: lior.QueueManager, name: str, yes: bool) -> tuple[lior.QueueInfo, int]:
    """The queue as it was, and how many of its messages are gone."""
    info = manager.queue(name)
    confirm(info.name, f"{number(info.messages, 'message')} of {info.path} will be removed", yes)
    return info, max(0, info.messages - purge_with_progress(manager, info, name))


def purge_with_progress(manager: lior.QueueManager, info: lior.QueueInfo, name: str) -> int:
    """Purge in a thread of its own, and watch the queue get shorter. Returns what stays: messages that a
    transaction holds."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            manager.purge_queue(name)
        except BaseException as error:
            failures.append(error)

    with progress("purging", info.messages) as advance:
        thread = threading.Thread(target=work, name="purge")
        thread.start()
        left = info.messages
        while thread.is_alive():
            thread.join(POLL)
            now = manager.queue(name).messages
            advance(left - now)
            left = now
    if failures:
        raise failures[0]
    return manager.queue(name).messages


def require_queue_kind(info: lior.QueueInfo, kind: str, remedy: str) -> None:
    if info.kind != kind:
        raise IllegalPropertyValue(f"this is no {kind} queue", where=info.path, remedy=remedy)
