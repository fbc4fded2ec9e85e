"""Figures of a running queue manager, for the library, the command line and the console."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from typing import Any
from uuid import UUID

from lior.errors import LiorError
from lior.names import DirectName, MachineName, PrivateName, QueueSuffix
from lior.queues.claim_log import ClaimLog
from lior.queues.definition import QueueType
from lior.queues.descriptor import PEEK_ACCESS
from lior.queues.manager import QueueManager
from lior.queues.outgoing import OutgoingQueue
from lior.queues.ports import Store
from lior.queues.queue import START, Queue, is_hidden
from lior.queues.transaction import Transaction


def identifier_of(stored_properties: bytes) -> UUID:
    """The queue manager's GUID in what the store keeps of its properties."""
    return UUID(json.loads(stored_properties)["identifier"])


def is_listed(queue: Queue) -> bool:
    return not is_hidden(queue) and queue.kind is not QueueType.JOURNAL


def format_name(manager: QueueManager, queue: Queue) -> str:
    """The name to open it by from anywhere: direct, or the machine's for system queues."""
    if isinstance(queue, OutgoingQueue):
        return str(queue.destination)
    if queue.path is None:
        return ""
    if queue.path.suffix is not QueueSuffix.NONE and queue.kind is QueueType.SYSTEM:
        return str(MachineName(manager.core.properties.identifier, queue.path.suffix))
    return str(DirectName.from_path(queue.path))


def private_name(manager: QueueManager, queue: Queue) -> str:
    """The name by number, as packets carry it; empty where there is none."""
    number = queue.private_number
    return str(PrivateName(manager.core.properties.identifier, number)) if number else ""


def queue_figures(manager: QueueManager, queue: Queue) -> dict[str, Any]:
    journal = queue.journal
    properties = queue.properties.to_json()
    properties.pop("security", None)
    return {
        "name": queue.name,
        "path": str(queue.path) if queue.path is not None else queue.name,
        "format_name": format_name(manager, queue),
        "private_name": private_name(manager, queue),
        "kind": queue.kind.value,
        "transactional": queue.transactional,
        "messages": queue.message_count,
        "bytes": queue.total_bytes,
        "journal_messages": 0 if journal is None else journal.message_count,
        "journal_bytes": 0 if journal is None else journal.total_bytes,
        "readers": sum(descriptor.access in PEEK_ACCESS for descriptor in queue.descriptors),
        "state": queue.state.value if isinstance(queue, OutgoingQueue) else "",
        "oldest": oldest_arrival(manager, queue),
        "identifier": str(queue.identifier).upper(),
        "create_time": queue.create_time,
        "modify_time": queue.modify_time,
        "properties": properties,
    }


def outgoing_figures(manager: QueueManager, queue: OutgoingQueue) -> dict[str, Any]:
    """As of any queue, and where its messages go and how that went."""
    history = [
        {"status": entry.status.name, "time": entry.time, "error": entry.error, "addresses": list(entry.addresses)}
        for entry in queue.connection_history
    ]
    return queue_figures(manager, queue) | {
        "next_hops": list(queue.next_hops),
        "history": history,
        "transfer": asdict(manager.outgoing_streams.transfer_info(queue)),
    }


def oldest_arrival(manager: QueueManager, queue: Queue) -> float | None:
    """Arrival of the oldest available message: the first of each priority is a candidate."""
    oldest: float | None = None
    found = queue.next_visible(START, peek=False)
    while found is not None:
        with suppress(LiorError):  # who reads the damaged message learns of it
            arrival = queue.position(found, manager.core.store).arrival_time
            oldest = arrival if oldest is None else min(oldest, arrival)
        found = queue.next_visible(((found >> 56) + 1 << 56) - 1, peek=False)
    return oldest


def subscription_figures(manager: QueueManager, log: ClaimLog) -> dict[str, Any]:
    """With the arrival of the oldest message that it has not released: of those claimed the one claimed first, or one
    that waits."""
    found = [oldest_arrival(manager, queue) for queue in map(manager.core.queues.get, log.definition.queues) if queue]
    claim = next(log.between(log.definition.gone, log.definition.last), None)
    queue = None if claim is None else manager.core.queues.get(claim.queue_id)
    if claim is not None and queue is not None:
        with suppress(LiorError):
            found.append(queue.position(claim.lookup_id, manager.core.store).arrival_time)
    oldest = min((each for each in found if each is not None), default=None)
    return manager.subscriptions.figures(log) | {"oldest": oldest}


def manager_figures(manager: QueueManager, store: Store) -> dict[str, Any]:
    core = manager.core
    figures = core.properties.to_json()
    for private in ("public_encryption_key_list", "public_signing_key_list", "security"):
        figures.pop(private)
    return figures | {
        "state": manager.state.value,
        "throttled": core.throttled,
        "queues": sum(is_listed(queue) for queue in core.queues.values()),
        "bytes": core.total_bytes,
        "journal_bytes": core.journal_bytes,
        "open_handles": len(manager.opening.descriptors),
        "transactions": len(core.transactions),
        "waiting_reads": sum(len(queue.waiters) for queue in core.queues.values()),
        "free_disk_bytes": store.free_bytes(),
    }


def transaction_figures(transaction: Transaction) -> dict[str, Any]:
    return {
        "identifier": str(transaction.identifier),
        "state": transaction.state.value,
        "operations": len(transaction.operations),
        "internal": transaction.single_phase,
    }
