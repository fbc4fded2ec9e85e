"""Where a message is now, and what became of it: the store, what only memory knows, and the record of fates.

The store is searched by a thread on a connection of its own; what it finds is then looked at on the loop, where a
message that has left its queue meanwhile is told from one that is there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from lior.errors import InvalidParameter
from lior.message import Message
from lior.queues.change import Change
from lior.queues.definition import QueueType
from lior.queues.descriptor import TwoPhaseRead
from lior.queues.manager import QueueManager
from lior.queues.outgoing import ConnectionStatus, OutgoingQueue
from lior.queues.position import Position, State
from lior.queues.queue import AWAITING_FINAL, Queue
from lior.queues.transaction import Enqueue, Transaction
from lior.queues.transactions import PREPARED_QUEUE
from lior.security import Caller, QueueManagerAccess
from lior.server.engine import Engine, EngineStore
from lior.server.fates import Recorder
from lior.server.history import Entry, Seen, Teller, class_name, place_of, still_there
from lior.store.fate_chunks import FateRow
from lior.store.fates import Found
from lior.store.search import Place, Wanted
from lior.wire.admin_json import object_id

MOST_PLACES: Final = 1000  # in one answer
LOOK: Final = QueueManagerAccess.PEEK_DEADLETTER | QueueManagerAccess.PEEK_JOURNAL_QUEUE_MESSAGE
_IN_QUEUE: Final = frozenset({State.AVAILABLE, State.LOCKED, State.PURGE_PENDING})
Progress = Callable[[int, int], None]
Held = list[tuple[Queue, list[Position]]]


def wanted_of(message_id: str, label: str, correlation_id: str) -> Wanted:
    """What to look for, as people write it."""
    if sum(map(bool, (message_id, label, correlation_id))) != 1:
        raise InvalidParameter("one of message id, label and correlation id", where="trace", remedy="give one of them")
    if message_id:
        return Wanted(object_id(message_id))
    if label:
        return Wanted(label=label)
    with suppress(ValueError):
        if len(found := bytes.fromhex(correlation_id)) == 20:
            return Wanted(correlation_id=found)
    return Wanted(correlation_id=object_id(correlation_id).to_bytes())


class Whereabouts:
    """One search, for one caller."""

    def __init__(self, engine: Engine, store: EngineStore, wanted: Wanted) -> None:
        self._engine = engine
        self._manager: QueueManager = engine.manager
        self._store = store
        self._wanted = wanted
        self._entries: list[Entry] = []
        self._there: Seen = set()

    async def trace(self, caller: Caller, progress: Progress | None) -> list[Entry]:
        """Everything known, message by message: what happened in time order, then where it is."""
        self._manager.access.check_manager(caller, LOOK, "trace")
        await self._engine.caught_up()
        core = self._manager.core
        places, express = await self._search(progress)
        for place in places:
            self._add_stored(place)
        for position in express:
            if position.state in _IN_QUEUE:
                self._add_position(position.queue, position)
        for transaction in list(core.transactions.values()):
            self._add_unsent(transaction)
        recorder = core.fates
        kept, started = Found([], []), 0.0
        if isinstance(recorder, Recorder):
            kept, started = await recorder.find(self._wanted), recorder.started
            self._add_arrived(kept.rows)
        teller = Teller(core.properties.identifier, self._wanted, started, core.peers.host_of)
        return teller.told(kept, self._entries, self._there)

    # Searching

    async def _search(self, progress: Progress | None) -> tuple[list[Place], list[Position]]:
        loop = asyncio.get_running_loop()
        enough = threading.Event()
        held: Held = [(queue, list(queue.positions.values())) for queue in self._manager.core.queues.values()]

        def tell(done: int, total: int) -> None:
            if progress is not None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(progress, done, total)

        try:
            return await loop.run_in_executor(None, self._look, held, enough, tell)
        finally:
            enough.set()  # whoever asked went away

    def _look(self, held: Held, enough: threading.Event, tell: Progress) -> tuple[list[Place], list[Position]]:
        """In a thread. Of the queues it reads only what never changes."""
        express = [
            position
            for _, positions in held
            for position in positions
            if not position.stored and not enough.is_set() and self._wanted.is_about(position.message)
        ]
        places: list[Place] = []
        for step in self._store.search(self._wanted):
            places += step.places
            tell(step.done, step.total)
            if enough.is_set() or len(places) >= MOST_PLACES:
                break
        return places, express[:MOST_PLACES]

    # What was found

    def _add_stored(self, place: Place) -> None:
        lookup_id = place.stored.lookup_id
        if place.queue_id == PREPARED_QUEUE:
            self._add_prepared(place)
            return
        queue = self._manager.core.queues.get(place.queue_id)
        if queue is None or lookup_id not in queue:
            return  # it left meanwhile
        position = queue.positions.get(lookup_id)
        entry = self._entry(queue, lookup_id, place.stored.message, place.stored.arrival_time)
        entry["state"] = f"damaged: {place.damage}" if place.damage else _state(queue, position)
        entry["aborts"] = place.stored.abort_count if position is None else position.abort_count
        self._entries.append(entry)

    def _add_position(self, queue: Queue, position: Position) -> None:
        entry = self._entry(queue, position.lookup_id, position.message, position.arrival_time)
        entry["state"] = _state(queue, position)
        entry["aborts"] = position.abort_count
        if not position.stored:
            entry["express"] = True
        self._entries.append(entry)

    def _entry(self, queue: Queue, lookup_id: int, message: Message, time: float) -> Entry:
        self._there.add((message.identifier, queue.name, lookup_id))
        entry = self._blank(message, time) | {
            "what": _what(queue, message, self._wanted),
            "queue": queue.name,
            "queue_kind": queue.kind.value,
            "lookup_id": lookup_id,
        }
        if isinstance(queue, OutgoingQueue):
            entry["detail"] = _way(queue)
        elif message.failed_destination:
            entry["detail"] = message.failed_destination
        if entry["what"] == "answer":
            entry |= {"message": str(self._wanted.identifier), "detail": str(message.identifier)}
        return entry

    def _blank(self, message: Message, time: float) -> Entry:
        reason = message.failure_reason or message.message_class
        return {
            "message": str(message.identifier) if message.identifier is not None else "",
            "current": True,
            "time": time,
            "label": message.label,
            "reason": class_name(reason),
        }

    def _add_arrived(self, rows: list[FateRow]) -> None:
        """What came while the store was searched: the record is as of now, and would tell of an arrival only."""
        queues = {queue.name: queue for queue in self._manager.core.queues.values()}
        for place in still_there(rows):
            _, name, lookup_id = place
            if place in self._there or name not in queues or len(self._entries) >= MOST_PLACES:
                continue
            position = queues[name].positions.get(lookup_id)
            if position is not None and position.state in _IN_QUEUE and self._wanted.is_about(position.message):
                self._add_position(position.queue, position)

    def _add_prepared(self, place: Place) -> None:
        for transaction in self._manager.core.transactions.values():
            for operation in transaction.operations:
                if isinstance(operation, Enqueue) and operation.prepared_id == place.stored.lookup_id:
                    self._add_enqueue(transaction, operation, place.stored.arrival_time)

    def _add_unsent(self, transaction: Transaction) -> None:
        for operation in transaction.operations:
            if not isinstance(operation, Enqueue) or operation.prepared_id:  # the latter are in the store
                continue
            if self._wanted.is_about(operation.message):
                self._add_enqueue(transaction, operation, operation.message.sent_time)

    def _add_enqueue(self, transaction: Transaction, operation: Enqueue, time: float) -> None:
        entry = self._blank(operation.message, time) | {"what": "unsent", **place_of(operation.queue)}
        entry["state"] = _holder(transaction)
        self._entries.append(entry)


def _what(queue: Queue, message: Message, wanted: Wanted) -> str:
    if wanted.identifier is not None and message.identifier != wanted.identifier:
        return "answer"
    if queue.name.casefold() == f"private$\\{AWAITING_FINAL}":
        return "unconfirmed"
    if isinstance(queue, OutgoingQueue):
        return "outgoing"
    if message.failure_reason:
        return "dead letter"
    if queue.kind is QueueType.JOURNAL or queue.is_system:
        return "journal"
    return "waiting"


def _state(queue: Queue, position: Position | None) -> str:
    if position is None or position.state is State.AVAILABLE:
        return "available"
    if position.state is State.PURGE_PENDING:
        return f"purged, and {_holder(position.owner)}"
    if isinstance(queue, OutgoingQueue) and not isinstance(position.owner, Transaction | TwoPhaseRead | Change):
        return "sent, waits for its acknowledgement"
    return _holder(position.owner)


def _holder(owner: object) -> str:
    if isinstance(owner, Transaction):
        return f"held by the {owner.state.value} transaction {owner.identifier}"
    if isinstance(owner, TwoPhaseRead):
        return "held by a reader that has not confirmed it"
    return "about to leave"


def _way(queue: OutgoingQueue) -> str:
    """The outgoing queue's state, next hop and last trouble."""
    return ", ".join(_parts(queue))


def _parts(queue: OutgoingQueue) -> Iterator[str]:
    yield "paused" if queue.state.value == "ONHOLD" else queue.state.value.lower()
    if queue.next_hops:
        yield f"next hop {' '.join(queue.next_hops)}"
    if queue.connection_history:
        last = queue.connection_history[-1]
        if last.status >= ConnectionStatus.UNKNOWN_FAILURE:
            yield f"last attempt: {last.status.name}"


