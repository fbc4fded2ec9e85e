"""lior stats, set, outgoing, transaction, security, compact: the queue manager as a whole."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import click

import lior
from lior.cli.connection import Session, connected
from lior.cli.inputs import quota, whole_seconds
from lior.cli.outgoing_views import (
    CONNECTION_HEADINGS,
    HISTORY_HEADINGS,
    OUTGOING_HEADINGS,
    connection_row,
    history_row,
    outgoing_fields,
    outgoing_json,
    outgoing_row,
)
from lior.cli.output import duration, iso, number, printable, size
from lior.cli.queue import require_queue_kind
from lior.cli.views import queue_fields, quota_text
from lior.client.sddl import format_sddl, parse_sddl
from lior.errors import IllegalSecurityDescriptor
from lior.message import INFINITE
from lior.security import Ace, AceType, QueueAccess, SecurityDescriptor, SecurityInformation


@click.command(short_help="Show figures of the queue manager.")
@connected
def stats(session: Session) -> None:
    """Show figures of the queue manager: messages, sizes, quotas, room on the disk."""
    with session.open() as manager:
        figures = manager.properties()
        queues = manager.queues()
        subscriptions = manager.subscriptions()
    counts = message_counts(queues) | claim_counts(subscriptions)
    if session.out.as_json:
        session.out.record(manager_json(figures) | counts)
    else:
        session.out.fields(manager_fields(figures, counts))


def message_counts(queues: list[lior.QueueInfo]) -> dict[str, int]:
    """Messages by what they wait for."""
    dead = sum(info.messages for info in queues if info.name.upper().endswith((";DEADLETTER", ";DEADXACT")))
    return {
        "messages": sum(info.messages for info in queues if info.kind in ("private", "subqueue")),
        "outgoing_messages": sum(info.messages for info in queues if info.kind == "outgoing"),
        "dead_letters": dead,
        "journal_messages": sum(info.journal_messages for info in queues)
        + sum(info.messages for info in queues if info.name.upper().endswith(";JOURNAL")),
    }


def claim_counts(subscriptions: list[dict[str, Any]]) -> dict[str, int]:
    """What readers that claim messages hold, all together."""
    return {
        "subscriptions": len(subscriptions),
        "claimed_messages": sum(each["claimed"] for each in subscriptions),
        "subscription_lag": sum(each["lag"] for each in subscriptions),
    }


def manager_json(figures: dict[str, Any]) -> dict[str, Any]:
    data = dict(figures)
    for name in ("create_time", "modify_time"):
        data[name] = iso(data[name])
    for name in ("queue_manager_quota", "journal_quota"):
        data[name] = None if data[name] == INFINITE else data[name]
    return data


def manager_fields(figures: dict[str, Any], counts: dict[str, int]) -> dict[str, str]:
    fields = {
        "computer": figures["qualified_computer_name"] or figures["computer_name"],
        "identifier": figures["identifier"].upper(),
        "version": figures["queue_manager_version"],
        "state": figures["state"] + ("" if figures["connection_active"] else ", offline"),
        "held back": figures["throttled"],
        "queues": str(figures["queues"]),
        "messages": f"{counts['messages']} in queues, {counts['outgoing_messages']} outgoing",
        "dead letters": str(counts["dead_letters"]),
        "subscriptions": f"{counts['subscriptions']}: {counts['claimed_messages']} messages claimed, "
        f"{counts['subscription_lag']} wait" if counts["subscriptions"] else "",
        "in journals": str(counts["journal_messages"]),
        "size": f"{size(figures['bytes'])} of {quota_text(figures['queue_manager_quota'])}",
        "journals' size": f"{size(figures['journal_bytes'])} of {quota_text(figures['journal_quota'])}",
        "transactions": str(figures["transactions"]),
        "open handles": str(figures["open_handles"]),
        "reads waiting": str(figures["waiting_reads"]),
        "time to reach": duration(figures["default_time_to_reach_queue"]),
        "disk": f"{size(figures['free_disk_bytes'])} free",
    }
    return {name: printable(value) for name, value in fields.items() if value}


@click.command(name="set")
@click.option("--quota", "queue_manager_quota", type=quota, metavar="QUOTA",
              help="Most that all queues together may hold: KB, or with K, M, G or T; none: no limit.")
@click.option("--journal-quota", type=quota, metavar="QUOTA",
              help="Most that all journals and dead-letter queues may hold.")
@click.option("--ttrq", "default_time_to_reach_queue", type=whole_seconds, metavar="TIME",
              help="Time to reach the queue of messages that name none: 30, 5m, 2h, 4d.")
@click.option("--hardened/--no-hardened", "hardened_security", default=None,
              help="Hardened mode: no messages over the binary protocol, only over HTTPS.")
@click.option("--insecure-nacks/--no-insecure-nacks", "send_insecure_nacks", default=None,
              help="Send negative acknowledgements that nobody signed.")
@click.option("--literal-default-rights/--no-literal-default-rights", default=None,
              help="Give new queues the rights that the specification prints, not the stricter ones.")
@click.option("--online/--offline", default=None, help="Offline: nothing is sent or taken over the network.")
@connected
def set_(session: Session, online: bool | None, **options: Any) -> None:
    """Change properties of the queue manager."""
    changes = {name: value for name, value in options.items() if value is not None}
    if not changes and online is None:
        raise click.UsageError("say what to change; see --help")
    with session.open() as manager:
        if changes:
            manager.set_properties(**changes)
        if online is not None:
            manager.set_online(online)
        figures = manager.properties()
    named = sorted([*changes, *(() if online is None else ("connection_active",))])
    session.out.done(f"changed {', '.join(named)}", **manager_json(figures))


@click.command()
@connected
def compact(session: Session) -> None:
    """Give the free space of the store's file back to the disk."""
    with session.open() as manager:
        given_back = manager.compact()
    session.out.done(f"gave back {size(given_back)}", bytes=given_back)


# Outgoing queues


@click.group(short_help="Queues to other computers and their connections.")
def outgoing() -> None:
    """Queues of messages on their way to other computers: list, show, pause, resume, connections."""


@outgoing.command(name="list")
@connected
def list_outgoing(session: Session) -> None:
    """List the destinations with what waits for them."""
    with session.open() as manager:
        queues = manager.outgoing()
    if session.out.as_json:
        for figures in queues:
            session.out.record(outgoing_json(figures))
        return
    session.out.table(OUTGOING_HEADINGS, map(outgoing_row, queues))


@outgoing.command(short_help="Show the outgoing queue to a destination.")
@click.argument("destination")
@connected
def show(session: Session, destination: str) -> None:
    """Show the outgoing queue to DESTINATION, a format name as `list` shows it: what waits, where it goes next, the
    last attempts to connect, and how far the stream of transactional messages was acknowledged."""
    with session.open() as manager:
        info = manager.queue(destination)
        require_queue_kind(info, "outgoing", "see: lior outgoing list")
        figures = next(known for known in manager.outgoing() if known["identifier"] == info.identifier)
    if session.out.as_json:
        session.out.record(outgoing_json(figures))
        return
    session.out.fields(queue_fields(info) | outgoing_fields(figures))
    if figures["history"]:
        session.out.line()
        session.out.table(HISTORY_HEADINGS, map(history_row, reversed(figures["history"])))


@outgoing.command(short_help="Send nothing to a destination until it is resumed.")
@click.argument("destination")
@connected
def pause(session: Session, destination: str) -> None:
    """Send nothing to DESTINATION until it is resumed, also after a restart."""
    with session.open() as manager:
        manager.pause(destination)
    session.out.done(f"paused {destination}", paused=destination)


@outgoing.command()
@click.argument("destination")
@connected
def resume(session: Session, destination: str) -> None:
    """Send to DESTINATION again."""
    with session.open() as manager:
        manager.resume(destination)
    session.out.done(f"resumed {destination}", resumed=destination)


@outgoing.command(short_help="List the connections to other queue managers.")
@connected
def connections(session: Session) -> None:
    """List the connections to other queue managers, in both directions. Only a server has some."""
    with session.open() as manager:
        found = manager.connections()
    if session.out.as_json:
        for known in found:
            session.out.record(known | {"since": iso(known["since"])})
        return
    session.out.table(CONNECTION_HEADINGS, map(connection_row, found))


# Transactions in doubt


@click.group(short_help="Transactions in doubt: list, commit, abort.")
def transaction() -> None:
    """Transactions that were prepared and wait for somebody to decide them: list, commit, abort."""


@transaction.command(name="list")
@connected
def list_transactions(session: Session) -> None:
    """List the transactions in doubt."""
    with session.open() as manager:
        found = [known for known in manager.transactions() if known["state"] == "prepared"]
    if session.out.as_json:
        for known in found:
            session.out.record(known)
        return
    rows = [(known["identifier"], known["state"], str(known["operations"])) for known in found]
    session.out.table(("TRANSACTION", "STATE", "OPERATIONS"), rows)


@transaction.command(short_help="Commit a transaction in doubt.")
@click.argument("identifier", type=click.UUID)
@connected
def commit(session: Session, identifier: UUID) -> None:
    """Commit the transaction in doubt with this IDENTIFIER: what it sent and received becomes final."""
    with session.open() as manager:
        manager.decide(identifier, commit=True)
    session.out.done(f"committed {identifier}", committed=identifier)


@transaction.command(short_help="Abort a transaction in doubt.")
@click.argument("identifier", type=click.UUID)
@connected
def abort(session: Session, identifier: UUID) -> None:
    """Abort the transaction in doubt with this IDENTIFIER: what it received goes back, what it sent is gone."""
    with session.open() as manager:
        manager.decide(identifier, commit=False)
    session.out.done(f"aborted {identifier}", aborted=identifier)


# Rights


@click.group()
def security() -> None:
    """Who may do what with a queue: show, set."""


@security.command(name="show")
@click.argument("name", metavar="QUEUE")
@connected
def show_security(session: Session, name: str) -> None:
    """Show owner and rights of QUEUE, in words and in SDDL."""
    with session.open() as manager:
        wanted = SecurityInformation.OWNER | SecurityInformation.GROUP | SecurityInformation.DACL
        descriptor = manager.get_security(name, wanted)
    text = format_sddl(descriptor)
    if session.out.as_json:
        session.out.record({"queue": name, "sddl": text, "owner": _text(descriptor.owner),
                            "entries": [entry(ace) for ace in aces(descriptor)]})  # fmt: skip
        return
    session.out.fields({"owner": _text(descriptor.owner) or "nobody", "sddl": text})
    if descriptor.dacl is None:
        session.out.line("no list of rights: everybody may do everything")
        return
    rows = [(line["kind"], line["who"], ", ".join(line["rights"])) for line in map(entry, aces(descriptor))]
    session.out.table(("ENTRY", "WHO", "RIGHTS"), rows)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def aces(descriptor: SecurityDescriptor) -> tuple[Ace, ...]:
    return () if descriptor.dacl is None else descriptor.dacl.aces


def entry(ace: Ace) -> dict[str, Any]:
    try:
        kind = AceType(ace.type).name.lower()
    except ValueError:
        kind = f"type {ace.type}"
    return {"kind": kind, "who": str(ace.sid), "rights": rights(ace.mask)}


def rights(mask: int) -> list[str]:
    """The names of single rights; bits without a name as a number."""
    named = [right for right in QueueAccess if right.bit_count() == 1 and mask & right]
    rest = mask & ~sum(named)
    return [right.name.lower() for right in named if right.name] + ([f"0x{rest:X}"] if rest else [])


@security.command(name="set", short_help="Change owner and rights of a queue.")
@click.argument("name", metavar="QUEUE")
@click.argument("sddl", metavar="SDDL")
@connected
def set_security(session: Session, name: str, sddl: str) -> None:
    """Give QUEUE the owner, group and rights that SDDL names; what it does not name stays.

    docs/security-descriptors.md has the rights and the syntax.
    """
    descriptor = parse_sddl(sddl)
    information = SecurityInformation(0)
    if descriptor.owner is not None:
        information |= SecurityInformation.OWNER
    if descriptor.group is not None:
        information |= SecurityInformation.GROUP
    if descriptor.has_dacl:
        information |= SecurityInformation.DACL
    if descriptor.sacl is not None:
        information |= SecurityInformation.SACL
    if not information:
        raise IllegalSecurityDescriptor("it names nothing", where=sddl, remedy="give at least O:, G:, D: or S:")
    with session.open() as manager:
        manager.set_security(name, descriptor, information)
    session.out.done(f"changed the rights of {name}", queue=name, sddl=format_sddl(descriptor))


def summary(queues: list[lior.QueueInfo]) -> str:
    """One line over a table of queues."""
    counts = message_counts(queues)
    return (f"{number(len(queues), 'queue')}, {number(counts['messages'], 'message')}, "
            f"{counts['outgoing_messages']} outgoing, {number(counts['dead_letters'], 'dead letter')}")
