"""lior send and lior move."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from lior import Identity
from lior.cli.connection import Session, connected
from lior.cli.inputs import assignment, lookup_id, message_property, twenty_bytes, whole_seconds
from lior.cli.output import number, progress
from lior.client.calling import format_name
from lior.client.formatters import FORMATTERS
from lior.errors import StoreUnusable
from lior.message import MAX_MESSAGE_SIZE, Acknowledgements

ACKNOWLEDGEMENTS: Final = {
    "reach-queue": Acknowledgements.POSITIVE_ARRIVAL,
    "receive": Acknowledgements.POSITIVE_RECEIVE,
    "not-reach-queue": Acknowledgements.NEGATIVE_ARRIVAL,
    "not-receive": Acknowledgements.NACK_RECEIVE,
    "full-reach-queue": Acknowledgements.FULL_REACH_QUEUE,
    "full-receive": Acknowledgements.FULL_RECEIVE,
}


def body_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--formatter", type=click.Choice(list(FORMATTERS)), help="Form of the body. Without it --body "
                     "is text (a BSTR), and bytes of a file or of standard input stay as they are."),
        click.option("--file", "file", type=click.Path(exists=True, dir_okay=False, allow_dash=True),
                     help="Read the body from this file."),
        click.option("--body", help="The body. Without --body and --file it is read from standard input."),
    ):  # fmt: skip
        function = option(function)
    return function


def property_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--property", "properties", multiple=True, type=assignment, metavar="NAME=VALUE",
                     help="Any other property by its name (docs/command-line.md); again for more."),
        click.option("--privacy", type=click.Choice(("advanced", "enhanced", "base")),
                     help="Encrypt the body on its way, with AES (advanced) or what the peer has at least."),
        click.option("--sid", help="Who signs; default: whom the certificate names, else the local user."),
        click.option("--sign", "identity", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
                     help="Sign with the key and certificate in FILE (lior certificate create)."),
        click.option("--response-queue", metavar="QUEUE", help="Where answers are to go."),
        click.option("--ack", multiple=True, type=click.Choice(list(ACKNOWLEDGEMENTS)),
                     help="Ask for this acknowledgement in --admin-queue; again for more."),
        click.option("--admin-queue", metavar="QUEUE", help="Where acknowledgements go."),
        click.option("--correlation-id", type=twenty_bytes, metavar="ID",
                     help=r"The message that this one answers: {GUID}\number or 40 hexadecimal digits."),
        click.option("--app-tag", type=click.IntRange(0, 0xFFFFFFFF), metavar="N",
                     help="A number for the application."),
        click.option("--ttbr", type=whole_seconds, metavar="TIME",
                     help="Time to be received: 30, 5m, 2h, 4d; then it expires. Default: inf."),
        click.option("--ttrq", type=whole_seconds, metavar="TIME",
                     help="Time to reach the queue. Default: 4d."),
        click.option("--dead-letter/--no-dead-letter", default=True, show_default=True,
                     help="Keep a copy with the reason if it fails."),
        click.option("--journal", is_flag=True, help="Keep a copy in the journal of the sending queue manager."),
        click.option("--recoverable/--express", default=True, show_default=True,
                     help="Keep the message on disk, or only in memory: express messages are gone after a restart."),
        click.option("--transactional", is_flag=True, default=None,
                     help="In a transaction of its own, for a transactional queue of another queue manager."),
        click.option("--priority", type=click.IntRange(0, 7), help="0 to 7, the highest; 3 if not given."),
        click.option("--label", default="", help="At most 249 characters."),
    ):  # fmt: skip
        function = option(function)
    return function


@click.command(short_help="Send a message to a queue, or to several.")
@click.argument("destination")
@body_options
@property_options
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Send so many.")
@connected
def send(session: Session, destination: str, body: str | None, file: str | None, formatter: str | None, count: int,
         **options: Any) -> None:  # fmt: skip
    """Send a message to DESTINATION: a path name, a format name, or several format names with commas.

    When the command ends a recoverable message is on disk. To a transactional queue it is sent in a transaction; of a
    queue elsewhere only you know: --transactional.
    """
    value = formatted(read_body(body, file), formatter)
    properties = message_properties(**options)
    with session.open() as manager, progress("sending", count) as advance:
        for _ in range(count):
            identifier = manager.send(destination, value, formatter=formatter, **properties)
            advance(1)
            if session.out.as_json:
                session.out.record({"id": str(identifier), "destination": destination})
    if not session.out.as_json:
        session.out.line(f"sent {identifier}" if count == 1 else f"sent {number(count, 'message')}")
    if not properties.get("recoverable", True):
        click.echo("note: an express message ends with the queue manager that holds it: this command's", err=True)


def read_body(body: str | None, file: str | None) -> str | bytes:
    if body is not None and file is not None:
        raise click.UsageError("give --body or --file, not both")
    if body is not None:
        return body
    if file is None and sys.stdin.isatty():
        click.echo("The body comes from standard input; end it with Ctrl-D.", err=True)
    if file is None or file == "-":
        return limited(sys.stdin.buffer)
    try:
        with Path(file).open("rb") as stream:
            return limited(stream)
    except OSError as error:
        raise StoreUnusable(error.strerror or str(error), where=file, remedy="check the file and its rights") from error


def limited(stream: BinaryIO) -> bytes:
    """No more than is needed to see that it does not fit; the queue manager says so."""
    return stream.read(MAX_MESSAGE_SIZE + 1)


def formatted(body: str | bytes, formatter: str | None) -> Any:
    """What the formatter takes: bytes for `bytes`, values for `json`, text for the others."""
    if formatter is None:
        return body
    if formatter == "bytes":
        return body.encode() if isinstance(body, str) else body
    if isinstance(body, bytes):
        if formatter == "auto":
            return body
        try:
            body = body.decode()
        except UnicodeDecodeError:
            raise click.UsageError(f"the body is no UTF-8 text, so {formatter} cannot write it; leave "
                                   "--formatter away to send the bytes as they are") from None
    if formatter == "json":
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise click.UsageError(f"the body is no JSON: {error}") from None
    return body


def message_properties(
    label: str, priority: int | None, transactional: bool | None, recoverable: bool, journal: bool,
    dead_letter: bool, ttrq: int | None, ttbr: int | None, app_tag: int | None, correlation_id: bytes | None,
    admin_queue: str | None,
    ack: tuple[str, ...], response_queue: str | None, properties: tuple[tuple[str, str], ...],
    identity: str | None, sid: str | None, privacy: str | None,
) -> dict[str, Any]:  # fmt: skip
    """The options as the library takes them; those that were not given stay the library's."""
    found: dict[str, Any] = {
        "label": label,
        "transactional": transactional,
        "recoverable": recoverable,
        "journal": journal,
        "dead_letter": dead_letter,
        "priority": priority,
        "time_to_reach_queue": ttrq,
        "time_to_be_received": ttbr,
        "app_tag": app_tag,
        "correlation_id": correlation_id,
        "admin_queue": None if admin_queue is None else format_name(admin_queue),
        "response_queue": None if response_queue is None else format_name(response_queue),
        "privacy": privacy,
        "sign": None if identity is None else Identity.load(identity, sid=sid),
    }
    if ack:
        if admin_queue is None:
            raise click.UsageError("--ack needs --admin-queue: where are the acknowledgements to go?")
        wanted = Acknowledgements.NONE
        for name in ack:
            wanted |= ACKNOWLEDGEMENTS[name]
        found["acknowledge"] = int(wanted)
    found = {name: value for name, value in found.items() if value is not None}
    return found | dict(message_property(name, text) for name, text in properties)


@click.command(short_help="Move messages into a subqueue, or back.")
@click.argument("source")
@click.argument("lookup_ids", nargs=-1, type=lookup_id, metavar="LOOKUP-ID...")
@click.argument("subqueue")
@click.option("--all", "everything", is_flag=True, help="Move every message that is there; give no lookup ids.")
@connected
def move(session: Session, source: str, lookup_ids: tuple[int, ...], subqueue: str, everything: bool) -> None:
    """Move messages of the queue SOURCE into its SUBQUEUE, all or none of a transactional queue.

    The lookup ids are those that `lior browse` shows; they stay the same. SOURCE may be a subqueue
    (QUEUE;NAME); an empty SUBQUEUE ('') means the queue itself.
    """
    if everything is bool(lookup_ids):
        raise click.UsageError("give the lookup ids of the messages to move, or --all")
    with session.open() as manager, manager.open_queue(source) as queue:
        chosen = [m.lookup_identifier for m in queue] if everything else list(dict.fromkeys(lookup_ids))
        with progress("moving", len(chosen)) as advance:
            if queue.info().transactional:
                with manager.transaction() as transaction:
                    for lookup in chosen:
                        queue.move(lookup, subqueue, transaction=transaction)
                        advance(1)
            else:
                for lookup in chosen:
                    queue.move(lookup, subqueue)
                    advance(1)
    target = f"subqueue {subqueue}" if subqueue else "the queue itself"
    session.out.done(f"moved {number(len(chosen), 'message')} to {target}", moved=len(chosen), subqueue=subqueue)
