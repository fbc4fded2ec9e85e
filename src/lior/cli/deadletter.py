"""lior dead-letter: what failed, why, and sending it again.

A replay takes a dead letter away in the transaction that sends the message again, where both sides are
transactional. Elsewhere it sends first, recoverable, and removes the dead letter when that is on disk: a
crash in between leaves both, never none.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final

import click

import lior
from lior.cli.connection import Session, connected
from lior.cli.inputs import confirm, duration, lookup_id, whole_seconds
from lior.cli.output import FAILED, age, json_text, number, progress, show_error, size
from lior.cli.queue import purge_with_progress, yes_option
from lior.cli.views import class_name, message_json, shortened
from lior.client.message import FIELDS, ReceivedMessage
from lior.errors import LiorError, MessageNotFound, QueueNotFound, StoreUnusable
from lior.message import Message, MessageSecurity

SYSTEM: Final = {"deadletter": r".\SYSTEM$;DEADLETTER", "deadxact": r".\SYSTEM$;DEADXACT"}
HEADINGS: Final = ("LOOKUP-ID", "REASON", "WAS FOR", "LABEL", "SIZE", "AGE", "KEPT IN")
_NOT_RESENT: Final = frozenset({"destination_queue", "destination_multi_queue", "security"})


@dataclass(frozen=True)
class DeadLetter:
    queue: str  # where it is kept
    transactional: bool
    message: ReceivedMessage

    @property
    def reason(self) -> str:
        return class_name(self.message.failure_reason) if self.message.failure_reason else ""

    @property
    def origin(self) -> str:
        """The queue it was in or meant for."""
        return self.message.failed_destination or self.message.destination_queue

    def row(self) -> tuple[str, ...]:
        message = self.message
        return (str(message.lookup_identifier), self.reason, self.origin, shortened(message.label),
                size(message.size), age(message.arrival_time), self.queue)

    def json(self, *, whole: bool = False) -> dict[str, Any]:
        return {"queue": self.queue, "reason": self.reason, "origin": self.origin} | message_json(
            self.message, whole=whole
        )


@dataclass(frozen=True)
class Filter:
    """Which dead letters a command is about."""

    sources: tuple[str, ...]
    lookup_ids: tuple[int, ...]
    reason: str | None
    origin: str | None
    label: str | None
    older_than: float | None

    @property
    def takes_all(self) -> bool:
        return not self.lookup_ids and not any((self.reason, self.origin, self.label, self.older_than))

    def require_choice(self, everything: bool) -> None:
        """Nothing happens to all of them because an option was forgotten."""
        if self.takes_all is not everything:
            raise click.UsageError(
                "say which dead letters: lookup ids, --reason, --origin, --label, --older-than; or --all alone"
            )

    def __call__(self, letter: DeadLetter) -> bool:
        message = letter.message
        return (
            (not self.lookup_ids or message.lookup_identifier in self.lookup_ids)
            and _like(letter.reason, self.reason)
            and _like(letter.origin, self.origin)
            and _like(message.label, self.label)
            and (not self.older_than or message.arrival_time <= time.time() - self.older_than)
        )

    def find(self, manager: lior.QueueManager) -> list[DeadLetter]:
        found = []
        for source in self.sources:
            transactional = manager.queue(source).transactional
            with manager.open_queue(source, "peek") as queue:
                letters = (DeadLetter(source, transactional, message) for message in queue)
                found += [letter for letter in letters if self(letter)]
        missing = set(self.lookup_ids) - {letter.message.lookup_identifier for letter in found}
        if missing:
            raise MessageNotFound(
                f"no dead letter has the lookup id {min(missing)} and fits the other options",
                where=", ".join(self.sources),
                remedy="see: lior dead-letter list",
            )
        return found


def _like(text: str, pattern: str | None) -> bool:
    """A pattern with * and ?, or a part of the text."""
    if pattern is None:
        return True
    text, pattern = text.casefold(), pattern.casefold()
    return fnmatchcase(text, pattern) if set(pattern) & {"*", "?"} else pattern in text


def filtered(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose dead letters, as one Filter."""

    def command(session: Session, sources: tuple[str, ...], lookup_ids: tuple[int, ...], reason: str | None,
                origin: str | None, label: str | None, older_than: float | None, **options: Any) -> Any:  # fmt: skip
        names = tuple(SYSTEM.get(source, source) for source in sources or SYSTEM)
        return function(session, Filter(names, lookup_ids, reason, origin, label, older_than), **options)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    wrapped: Callable[..., Any] = command
    for option in (
        click.option("--older-than", type=duration, metavar="TIME", help="Dead for longer than this: 30, 5m, 2h, 4d."),
        click.option("--label", metavar="TEXT", help="Whose label has this in it, or matches it with * and ?."),
        click.option("--origin", metavar="TEXT", help="Meant for a queue whose name has this in it, or matches it."),
        click.option("--reason", metavar="TEXT", help="That failed for a reason like this: TIMEOUT, NACK_*_QUOTA."),
        click.option("--from", "sources", multiple=True, metavar="QUEUE",
                     help="Kept in deadletter, deadxact, or an application's own queue; default: the first two."),
        click.argument("lookup_ids", nargs=-1, type=lookup_id, metavar="[LOOKUP-ID]..."),
    ):  # fmt: skip
        wrapped = option(wrapped)
    return connected(wrapped)


@click.group(name="dead-letter", short_help="Messages that failed: list, replay, export, purge.")
def dead_letter() -> None:
    """Messages that could not be delivered or were not received: list, replay, export, purge."""


@dead_letter.command(name="list", short_help="List dead letters with reason and origin.")
@filtered
def list_(session: Session, wanted: Filter) -> None:
    """List dead letters with the reason and the queue they were for. `lior error REASON` explains a reason."""
    with session.open() as manager:
        found = wanted.find(manager)
    if session.out.as_json:
        for letter in found:
            session.out.record(letter.json())
    else:
        session.out.table(HEADINGS, [letter.row() for letter in found])


@dead_letter.command(short_help="Send dead letters again and remove them.")
@click.option("--all", "everything", is_flag=True, help="Replay every dead letter.")
@click.option("--to", "destination", metavar="QUEUE", help="Send to this queue, not to the original one.")
@click.option("--ttbr", type=whole_seconds, metavar="TIME", help="Give it this time to be received, from now.")
@click.option("--ttrq", type=whole_seconds, metavar="TIME", help="Give it this time to reach the queue, from now.")
@click.option("--dry-run", is_flag=True, help="Say what would be sent, and do nothing.")
@filtered
def replay(session: Session, wanted: Filter, everything: bool, destination: str | None, ttbr: int | None,
           ttrq: int | None, dry_run: bool) -> None:  # fmt: skip
    """Send dead letters again, with all their properties, recoverable, and remove them.

    The times to be received and to reach the queue start anew; one of 0 seconds would expire again at once.

    Name them by lookup id or by the options below, or give --all. One that cannot be sent
    stays, with the error on stderr, and the exit code is 1.
    """
    wanted.require_choice(everything)
    failures = 0
    given = {"time_to_be_received": ttbr, "time_to_reach_queue": ttrq}
    times = {name: value for name, value in given.items() if value is not None}
    with session.open() as manager:
        found = wanted.find(manager)
        with progress("replaying", len(found)) as advance:
            for letter in found:
                target = destination or letter.origin
                try:
                    identifier = None if dry_run else resend(manager, letter, target, times)
                except LiorError as error:
                    failures += 1
                    show_error(error)
                else:
                    report_replay(session, letter, target, identifier)
                advance(1)
    if not session.out.as_json:
        sent = number(len(found) - failures, "message")
        session.out.line(f"{sent} would be sent" if dry_run else f"replayed {sent}")
    if failures:
        raise SystemExit(FAILED)


def report_replay(session: Session, letter: DeadLetter, target: str, identifier: lior.ObjectId | None) -> None:
    lookup = letter.message.lookup_identifier
    if session.out.as_json:
        sent = None if identifier is None else str(identifier)
        session.out.record({"lookup_id": lookup, "queue": letter.queue, "destination": target, "id": sent})
    else:
        session.out.line(f"{lookup} -> {target}")


def resend(
    manager: lior.QueueManager, letter: DeadLetter, destination: str, times: dict[str, Any]
) -> lior.ObjectId:
    """Send the message, and remove the dead letter together with that or after it."""
    message = replace(fresh(letter.message), **times)
    lookup = letter.message.lookup_identifier
    transactional = is_transactional(manager, destination)
    if transactional is None:  # only the destination knows; it was sent in a transaction or not
        transactional = letter.message.transaction is not None
    with manager.open_queue(letter.queue) as queue:
        if letter.transactional and transactional:
            with manager.transaction() as transaction:
                queue.receive_by_lookup_id(lookup, transaction=transaction)
                return transaction.send(destination, message)
        identifier = manager.send(destination, message, transactional=transactional)
        with manager.transaction() if letter.transactional else nullcontext() as own:
            queue.receive_by_lookup_id(lookup, transaction=own)
        return identifier


def is_transactional(manager: lior.QueueManager, destination: str) -> bool | None:
    try:
        info = manager.queue(destination)
    except QueueNotFound:
        return None
    return None if info.kind == "outgoing" else info.transactional


def fresh(message: ReceivedMessage) -> Message:
    """The message as its sender made it. A signature covers the first sending only and stays behind; what is
    needed to read an encrypted body goes along."""
    new = Message(delivery_guarantee=1)
    for name in FIELDS - _NOT_RESENT:
        setattr(new, name, getattr(message, name))
    new.delivery_guarantee = 1
    old = message.security
    if old is not None and old.privacy_level:
        new.security = MessageSecurity(symmetric_key=old.symmetric_key, privacy_level=old.privacy_level,
                                       encryption_algorithm=old.encryption_algorithm,
                                       authentication_provider_type=old.authentication_provider_type,
                                       authentication_provider_name=old.authentication_provider_name)  # fmt: skip
    return new


@dead_letter.command(short_help="Write dead letters as JSON lines.")
@click.option("--output", metavar="FILE", default="-", help="Write here; standard output if not given.")
@filtered
def export(session: Session, wanted: Filter, output: str) -> None:
    """Write dead letters as JSON lines, with body and extension in base64, and leave them where they are."""
    with session.open() as manager:
        found = wanted.find(manager)
    try:
        with opened(output) as file:
            for letter in found:
                file.write(json_text(letter.json(whole=True)) + "\n")
            file.flush()
            if file is not sys.stdout:
                os.fsync(file.fileno())
    except OSError as error:
        if output == "-":
            raise
        raise StoreUnusable(error.strerror or str(error), where=output, remedy="give another --output") from error
    if output != "-":
        session.out.done(f"exported {number(len(found), 'message')} to {output}", exported=len(found), file=output)


def opened(output: str) -> Any:
    """A new file: an export never replaces one."""
    if output == "-":
        return nullcontext(sys.stdout)
    return open(output, "x", encoding="utf-8")  # the caller closes it


@dead_letter.command()
@click.option("--all", "everything", is_flag=True, help="Remove every dead letter.")
@yes_option
@filtered
def purge(session: Session, wanted: Filter, everything: bool, yes: bool) -> None:
    """Remove dead letters for good. Name them by lookup id or by the options below, or give --all."""
    wanted.require_choice(everything)
    with session.open() as manager:
        found = wanted.find(manager)
        confirm("dead-letter", f"{number(len(found), 'dead letter')} will be removed", yes)
        removed = empty(manager, wanted) if wanted.takes_all else remove(manager, found)
    session.out.done(f"removed {number(removed, 'dead letter')}", messages=removed)


def empty(manager: lior.QueueManager, wanted: Filter) -> int:
    removed = 0
    for source in wanted.sources:
        info = manager.queue(source)
        removed += info.messages - purge_with_progress(manager, info, source)
    return removed


def remove(manager: lior.QueueManager, letters: list[DeadLetter]) -> int:
    with progress("removing", len(letters)) as advance:
        for letter in letters:
            own = manager.transaction() if letter.transactional else nullcontext()
            with manager.open_queue(letter.queue) as queue, own as transaction:
                queue.receive_by_lookup_id(letter.message.lookup_identifier, transaction=transaction)
            advance(1)
    return len(letters)


