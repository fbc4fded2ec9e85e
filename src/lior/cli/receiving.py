"""lior receive, peek, browse and journal.

A message that is received is shown before it is taken for good: inside a transaction that is committed when
the output is written, or, where there are none, while its queue keeps it from other readers. A full disk or a
closed pipe then costs no message, and two readers never show the same one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

import lior
from lior.cli.connection import Session, connected
from lior.cli.inputs import duration, lookup_id, twenty_bytes
from lior.cli.output import Output, json_text, number, progress
from lior.cli.queue import purge_confirmed, yes_option
from lior.cli.views import MESSAGE_HEADINGS, message_fields, message_json, message_row
from lior.client.calling import format_name
from lior.client.message import ReceivedMessage
from lior.errors import MessageLocked, MessageNotFound, StoreUnusable, Timeout

BATCH: Final = 100  # messages in one transaction while they are there without waiting


class Writer:
    """Where messages go: fields, JSON lines, bare bodies, or files."""

    def __init__(self, out: Output, raw: bool, directory: str | None) -> None:
        if out.as_json + raw + (directory is not None) > 1:
            raise click.UsageError("choose one of --json, --raw and --output-dir")
        self._out = out
        self._raw = raw
        self._directory = None if directory is None else Path(directory)
        self._made: list[Path] = []
        self._written = 0

    def write(self, messages: list[ReceivedMessage]) -> None:
        """Returns when what was written cannot be lost by this process any more."""
        for message in messages:
            if self._directory is not None:
                self._save(message, self._directory)
            elif self._raw:
                sys.stdout.buffer.write(message.body)
            elif self._out.as_json:
                self._out.record(message_json(message))
            else:
                if self._written:
                    self._out.line()
                self._out.fields(message_fields(message))
            self._written += 1
        if self._directory is not None:
            _sync_directory(self._directory)
        else:
            sys.stdout.flush()

    def _save(self, message: ReceivedMessage, directory: Path) -> None:
        stem = str(message.lookup_identifier)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file(directory / f"{stem}.body", message.body)
            self._file(directory / f"{stem}.json", (json_text(message_json(message, whole=True)) + "\n").encode())
        except OSError as error:
            where = os.fspath(error.filename or directory)
            raise StoreUnusable(error.strerror or str(error), where=where,
                                remedy="make room, or give another --output-dir") from error

    def _file(self, path: Path, content: bytes) -> None:
        with path.open("xb") as file:
            self._made.append(path)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def kept(self) -> None:
        """The messages are taken: what was written stays."""
        self._made.clear()

    def undo(self) -> None:
        """The messages stay in the queue: no file may say otherwise."""
        for path in self._made:
            with suppress(OSError):
                path.unlink()
        self._made.clear()


def _sync_directory(directory: Path) -> None:
    if directory.is_dir():
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--output-dir", "directory", type=click.Path(file_okay=False), metavar="DIR",
                     help="Write each message to DIR: its body to LOOKUP-ID.body, its properties to LOOKUP-ID.json."),
        click.option("--raw", is_flag=True, help="Write the bare bodies, one after the other."),
    ):  # fmt: skip
        function = option(function)
    return function


@click.command()
@click.argument("source")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Receive so many.")
@click.option("--all", "everything", is_flag=True, help="Receive until the queue is empty.")
@click.option("--timeout", type=duration, default="0", show_default=True, metavar="TIME",
              help="Wait so long for each message; inf: for ever.")
@click.option("--transaction", "together", is_flag=True, help="All of them in one transaction, or none.")
@click.option("--lookup-id", "lookup", type=lookup_id, metavar="LOOKUP-ID", help="Receive this message.")
@click.option("--correlation-id", "correlation", type=twenty_bytes, metavar="ID",
              help="Receive the answer to this message.")
@output_options
@connected
def receive(session: Session, source: str, count: int, everything: bool, timeout: float | None, together: bool,
            lookup: int | None, correlation: bytes | None, raw: bool, directory: str | None) -> None:  # fmt: skip
    """Take messages from the queue SOURCE.

    A message leaves the queue when it has been written out. Exit code 3: fewer came than were asked for.
    """
    if lookup is not None and correlation is not None:
        raise click.UsageError("give --lookup-id or --correlation-id, not both")
    if (everything or count > 1) and (lookup is not None or correlation is not None):
        raise click.UsageError("--lookup-id and --correlation-id receive one message")
    writer = Writer(session.out, raw, directory)
    wanted = None if everything else count
    with session.open() as manager, manager.open_queue(source) as queue:
        chosen = Choice(queue, timeout, lookup, correlation)
        transactional = queue.info().transactional
        with progress("receiving", wanted) as advance:
            if together:
                taken = receive_together(manager, chosen, writer, wanted)
            elif transactional:
                taken = receive_batches(manager, chosen, writer, wanted, advance)
            else:
                taken = receive_singly(chosen, writer, wanted, advance)
    if taken < (wanted or 1):
        raise too_few(source, taken, wanted)


def too_few(source: str, taken: int, wanted: int | None) -> Timeout:
    if not taken:
        return Timeout("there is no message", where=source, remedy="wait for one with --timeout TIME")
    return Timeout(f"only {taken} of {wanted} messages came in time", where=source,
                   remedy="wait longer with --timeout TIME")


class Choice:
    """Which message is next."""

    def __init__(self, queue: lior.Queue, timeout: float | None, lookup: int | None = None,
                 correlation: bytes | None = None) -> None:  # fmt: skip
        self.queue = queue
        self.timeout = timeout
        self._lookup = lookup
        self._correlation = correlation

    def receive(self, transaction: lior.Transaction, timeout: float | None) -> ReceivedMessage:
        if self._lookup is not None:
            return self.queue.receive_by_lookup_id(self._lookup, transaction=transaction)
        if self._correlation is not None:
            return self.queue.receive_by_correlation_id(self._correlation, timeout, transaction=transaction)
        return self.queue.receive(timeout, transaction=transaction)

    def peek(self) -> ReceivedMessage:
        if self._lookup is not None:
            return self.queue.peek_by_lookup_id(self._lookup)
        if self._correlation is not None:
            return peek_correlated(self.queue, self._correlation, self.timeout)
        return self.queue.peek(self.timeout)

    @contextmanager
    def hold(self) -> Iterator[ReceivedMessage]:
        """The message is taken when the block ends, and stays if the block raises."""
        while self._correlation is not None:
            found = peek_correlated(self.queue, self._correlation, self.timeout).lookup_identifier
            with ExitStack() as held:
                try:
                    message = held.enter_context(self.queue.hold(lookup_id=found))
                except (MessageNotFound, MessageLocked):  # another reader was faster: look further
                    continue
                yield message
                return
        with self.queue.hold(self.timeout, lookup_id=self._lookup) as message:
            yield message


def peek_correlated(queue: lior.Queue, correlation: bytes, timeout: float | None) -> ReceivedMessage:
    """The first message with this correlation id, waiting for messages as long as they keep coming."""
    with queue.cursor() as cursor:
        message = cursor.current(timeout)
        while message.correlation_id != correlation:
            message = cursor.next(timeout)
        return message


def receive_together(manager: lior.QueueManager, chosen: Choice, writer: Writer, wanted: int | None) -> int:
    """Everything in one transaction; too few give everything back."""
    messages: list[ReceivedMessage] = []
    with undoing(writer), manager.transaction() as transaction:
        with suppress(Timeout):
            while wanted is None or len(messages) < wanted:
                messages.append(chosen.receive(transaction, chosen.timeout))
        if len(messages) < (wanted or 1):
            what = f"only {len(messages)} of {wanted} messages came in time; they are back in the queue"
            raise Timeout(what if messages else "there is no message", where=chosen.queue.format_name,
                          remedy="wait longer with --timeout TIME")
        writer.write(messages)
    return len(messages)


def receive_batches(manager: lior.QueueManager, chosen: Choice, writer: Writer, wanted: int | None,
                    advance: Callable[[int], None]) -> int:  # fmt: skip
    """Transactions of what is there without waiting, each committed when it is written out."""
    taken = 0
    while wanted is None or taken < wanted:
        room = BATCH if wanted is None else min(BATCH, wanted - taken)
        messages: list[ReceivedMessage] = []
        with undoing(writer), manager.transaction() as transaction:
            with suppress(Timeout):
                messages.append(chosen.receive(transaction, chosen.timeout))
                while len(messages) < room:
                    messages.append(chosen.receive(transaction, 0))
            writer.write(messages)
        writer.kept()
        if not messages:
            break
        taken += len(messages)
        advance(len(messages))
    return taken


def receive_singly(chosen: Choice, writer: Writer, wanted: int | None, advance: Callable[[int], None]) -> int:
    taken = 0
    with suppress(Timeout):
        while wanted is None or taken < wanted:
            with undoing(writer), chosen.hold() as message:
                writer.write([message])
            writer.kept()
            taken += 1
            advance(1)
    return taken


@contextmanager
def undoing(writer: Writer) -> Iterator[None]:
    try:
        yield
    except BaseException:
        writer.undo()
        raise


@click.command()
@click.argument("source")
@click.option("--timeout", type=duration, default="0", show_default=True, metavar="TIME",
              help="Wait so long for a message; inf: for ever.")
@click.option("--lookup-id", "lookup", type=lookup_id, metavar="LOOKUP-ID", help="Show this message.")
@output_options
@connected
def peek(session: Session, source: str, timeout: float | None, lookup: int | None, raw: bool,
         directory: str | None) -> None:  # fmt: skip
    """Show the next message of the queue SOURCE and leave it there."""
    writer = Writer(session.out, raw, directory)
    with session.open() as manager, manager.open_queue(source, "peek") as queue:
        writer.write([Choice(queue, timeout, lookup).peek()])
        writer.kept()


@click.command(short_help="List the messages of a queue and leave them there.")
@click.argument("source")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Show no more than these.")
@connected
def browse(session: Session, source: str, limit: int) -> None:
    r"""List the messages of the queue SOURCE, in the order of receiving, and leave them there.

    SOURCE may also be a subqueue or a journal, or a queue that keeps dead letters: .\private$\orders;retry,
    .\private$\orders;JOURNAL, .\SYSTEM$;DEADXACT.
    """
    with session.open() as manager:
        show_messages(session.out, manager, source, limit)


def show_messages(out: Output, manager: lior.QueueManager, source: str, limit: int) -> None:
    with manager.open_queue(source, "peek") as queue:
        shown = list(islice(queue, limit))
        total = queue.info().messages
    if out.as_json:
        for message in shown:
            out.record(message_json(message))
        return
    out.table(MESSAGE_HEADINGS, map(message_row, shown))
    if total > len(shown):
        out.line(f"{len(shown)} of {total} messages; more with --limit")


def journal_name(name: str) -> str:
    """The journal's name from the queue's."""
    if "=" in name:
        parsed = format_name(name)
        return parsed if parsed.upper().endswith(";JOURNAL") else f"{parsed};JOURNAL"
    return name if name.upper().endswith(";JOURNAL") else f"{name};JOURNAL"


@click.command(short_help="List what was received and kept in a journal.")
@click.argument("name", metavar="[QUEUE]", default=r".\SYSTEM$;JOURNAL")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Show no more than these.")
@click.option("--purge", "purging", is_flag=True, help="Empty the journal instead.")
@yes_option
@connected
def journal(session: Session, name: str, limit: int, purging: bool, yes: bool) -> None:
    """List what was received from QUEUE and kept in its journal; without QUEUE the queue manager's own
    journal, with the messages sent with --journal."""
    name = journal_name(name)
    with session.open() as manager:
        if not purging:
            show_messages(session.out, manager, name, limit)
            return
        info, removed = purge_confirmed(manager, name, yes)
    session.out.done(f"removed {number(removed, 'message')} from {info.path}", purged=info.path, messages=removed)


