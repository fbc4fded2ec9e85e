"""From the store to memory at start ([MS-MQDMPR] 3.1.3): definitions, counters, index, transactions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol
from uuid import UUID

from lior.errors import IllegalFormatName, StoreCorrupt
from lior.names import MultipleName, QueueSuffix, parse_format_name, parse_path_name
from lior.queues.administration import register
from lior.queues.awaiting import AwaitingQueue
from lior.queues.change import Change
from lior.queues.core import Core
from lior.queues.counters import ORDINALS, Counter, stored_limit
from lior.queues.definition import QueueManagerProperties, QueueProperties, QueueType
from lior.queues.index import LookupIndex
from lior.queues.machine import NEXT_QUEUE_ID, QUEUE_MANAGER, properties_record
from lior.queues.outgoing import INCOMING, NOWHERE, IncomingTransactionalTransferInfo, OutgoingQueue, OutgoingState
from lior.queues.ports import COUNTER, LOOKUP_IDS, SEQUENCE_MASK, IndexEntry, LoadedState, PutQueue
from lior.queues.queue import AWAITING_FINAL, HIDDEN_QUEUES, Queue
from lior.queues.routing import SYSTEM_QUEUES, private_name
from lior.queues.transactions import PREPARED, PREPARED_QUEUE, Transactions
from lior.security import ADMINISTRATORS, Caller, default_queue_manager_descriptor


class Part(Protocol):
    """What else has something in the store."""

    def restore(self, state: LoadedState, change: Change) -> None: ...


def load(core: Core, transactions: Transactions, parts: Iterable[Part] = ()) -> None:
    """Everything but the engine's first commit, which it does before it says ready."""
    state = core.store.load()
    change = Change()
    _load_properties(core, state, change)
    _load_queues(core, state.queues)
    core.next_queue_id = max(core.next_queue_id, int(state.state.get((QUEUE_MANAGER, NEXT_QUEUE_ID), b"0")))
    _make_system_queues(core, change)
    highest = _load_index(core)
    core.lookup_ids = Counter(LOOKUP_IDS, max(highest, stored_limit(state.state.get((COUNTER, LOOKUP_IDS)))), 56)
    core.ordinals = Counter(ORDINALS, stored_limit(state.state.get((COUNTER, ORDINALS))), 32)
    for counter in (core.lookup_ids, core.ordinals):
        counter.reserve(change)
    for (kind, key), value in state.state.items():
        if kind == INCOMING and ((queue_id := int(key.partition("/")[0])) == NOWHERE or queue_id in core.queues):
            core.incoming[key] = IncomingTransactionalTransferInfo.from_bytes(value)
    for part in parts:
        part.restore(state, change)
    transactions.restore({key: value for (kind, key), value in state.state.items() if kind == PREPARED})
    core.expiries.still_there = partial(_still_there, core)
    core.submit(change)


def _still_there(core: Core, queue_id: int, lookup_ids: Iterable[int]) -> list[int]:
    queue = core.queues.get(queue_id)
    if queue is None or not queue.message_count:
        return []
    return [lookup_id for lookup_id in lookup_ids if lookup_id in queue]


def _load_properties(core: Core, state: LoadedState, change: Change) -> None:
    """Identity and modes survive; names follow the host, which may be called otherwise today (DM-002)."""
    value = state.state.get((QUEUE_MANAGER, "properties"))
    given = core.properties
    now = int(core.clock.wall())
    if value is not None:
        kept = QueueManagerProperties.from_json(json.loads(value))
        kept.computer_name = given.computer_name
        kept.qualified_computer_name = given.qualified_computer_name
        kept.queue_manager_version = given.queue_manager_version
        kept.operating_system_version = given.operating_system_version
        core.properties = kept
        core.local = replace(core.local, guid=kept.identifier)
    else:
        given.create_time = given.modify_time = now
    if core.properties.security is None:
        owner = Caller(ADMINISTRATORS, is_administrator=True, authenticated=True)
        core.properties.security = default_queue_manager_descriptor(owner)
    if value is None:
        change.operations.append(properties_record(core.properties))


def _load_queues(core: Core, records: list[PutQueue]) -> None:
    core.next_queue_id = max((record.queue_id for record in records), default=PREPARED_QUEUE) + 1
    later: list[PutQueue] = []
    for record in records:
        if record.kind in (QueueType.JOURNAL, QueueType.SUBQUEUE):
            later.append(record)
        elif record.kind == QueueType.OUTGOING:
            _load_outgoing(core, record)
        else:
            register(core, _queue(core, record, None))
    for record in later:
        parent = core.queues.get(record.definition["parent"])
        if parent is None:
            raise StoreCorrupt(
                "a journal or subqueue without its queue", where=record.name, remedy="run: lior doctor --repair"
            )
        queue = _queue(core, record, parent)
        core.queues[queue.queue_id] = queue
        if queue.kind is QueueType.JOURNAL:
            parent.journal = queue
        else:
            parent.subqueues[record.name.rpartition(";")[2].casefold()] = queue


def _queue(core: Core, record: PutQueue, parent: Queue | None) -> Queue:
    data: dict[str, Any] = record.definition
    queue = _class_of(record.name)(
        record.queue_id,
        QueueType(record.kind),
        record.name,
        QueueProperties.from_json(data["properties"]),
        identifier=UUID(data["identifier"]),
        path=parse_path_name(f"{core.properties.computer_name}\\{record.name}"),
        private_number=data["private_number"],
        create_time=data["create_time"],
        modify_time=data["modify_time"],
        parent=parent,
        cache=core.cache,
    )
    queue.mark_persisted()
    return queue


def _load_outgoing(core: Core, record: PutQueue) -> None:
    name = parse_format_name(record.definition["destination"])
    if isinstance(name, MultipleName):
        raise IllegalFormatName("an outgoing queue has one destination", where=record.name)
    queue = OutgoingQueue(
        record.queue_id,
        name,
        identifier=UUID(record.definition["identifier"]),
        hardened=core.properties.hardened_security,
        state=OutgoingState.ON_HOLD if record.definition.get("on_hold") else None,
        create_time=record.definition["create_time"],
        cache=core.cache,
    )
    queue.mark_persisted()
    core.queues[queue.queue_id] = queue
    core.outgoing[name.key] = queue


def _make_system_queues(core: Core, change: Change) -> None:
    """The three that administrators read, and the hidden ones of the protocols."""
    for suffix in (QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT, QueueSuffix.JOURNAL):
        _make_system_queue(core, change, SYSTEM_QUEUES[suffix], transactional=suffix is QueueSuffix.DEADXACT)
    for name in HIDDEN_QUEUES:
        _make_system_queue(core, change, private_name(name), transactional=False)


def _make_system_queue(core: Core, change: Change, name: str, *, transactional: bool) -> None:
    if name.casefold() in core.paths:
        return
    queue = _class_of(name)(
        core.take_queue_id(),
        QueueType.SYSTEM,
        name,
        QueueProperties(transactional=transactional),
        identifier=core.ids.guid(),
        path=parse_path_name(f"{core.properties.computer_name}\\{name}"),
        create_time=int(core.clock.wall()),
        cache=core.cache,
    )
    register(core, queue)
    change.operations.append(queue.definition())
    change.then(queue.mark_persisted)


def _class_of(name: str) -> type[Queue]:
    return AwaitingQueue if name == private_name(AWAITING_FINAL) else Queue


def _load_index(core: Core) -> int:
    """The order of every queue and its bytes. Timers are made anew from what the store kept (DM-063).
    Answers the highest number that a lookup id has used: whatever the counter says, none is given twice."""
    highest = 0
    for queue_id, entries in groupby(core.store.load_index(), key=itemgetter(0)):
        queue = core.queues.get(queue_id)
        if queue is None and queue_id != PREPARED_QUEUE:
            raise StoreCorrupt(
                f"messages of an unknown queue {queue_id}", where="index", remedy="run: lior doctor --repair"
            )
        loading = _Loading(core, queue_id, entries)
        index = LookupIndex(loading)
        highest = max(highest, loading.highest)
        if queue is not None:
            queue.available = index
            queue.total_bytes = loading.bytes
            core.count_bytes(queue, loading.bytes)
    return highest


class _Loading:
    """The lookup ids of one queue as they come from the store, with what is counted on the way."""

    def __init__(self, core: Core, queue_id: int, entries: Iterable[IndexEntry]) -> None:
        self._core = core
        self._queue_id = queue_id
        self._entries = entries
        self.bytes = 0
        self.highest = 0

    def __iter__(self) -> Iterator[int]:
        add, queue_id = self._core.expiries.add, self._queue_id
        total = highest = 0
        for _, lookup_id, size, expires in self._entries:
            total += size
            number = lookup_id & SEQUENCE_MASK
            if number > highest:
                highest = number
            if expires:
                add(expires, queue_id, lookup_id)
            yield lookup_id
        self.bytes, self.highest = total, highest
