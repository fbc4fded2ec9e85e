"""A queue and the order of its messages ([MS-MQDMPR] 3.1.1.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from lior.errors import StoreCorrupt
from lior.message import INFINITE, Message
from lior.names import PathName
from lior.queues.definition import QueueProperties, QueueScope, QueueType
from lior.queues.expiry import time_to_be_received_end
from lior.queues.index import LookupIndex
from lior.queues.ports import PutQueue, Store, StoredMessage
from lior.queues.position import Position, State, Step, step_all

if TYPE_CHECKING:
    from lior.queues.descriptor import OpenQueueDescriptor
    from lior.queues.waiting import WaitingRead

START: Final = -1  # before the first message: where a fresh cursor stands
READ_AHEAD: Final = 64  # messages read from the store at once when the head is not in memory

AWAITING_FINAL: Final = "awaiting_final_queue$"  # delivered messages whose final acknowledgement has not come
HIDDEN_QUEUES: Final = ("order_queue$", "notify_queue$", "admin_queue$", AWAITING_FINAL)


class ContentCache:
    """Bytes of stored messages held in memory: what was sent lately stays while there is room, so that the
    reader who comes soon does not ask the store. The oldest stay, for they are read first."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int = 64 << 20) -> None:
        self.limit = limit
        self.used = 0


class Queue:
    """One queue: its definition, the index of its available messages and the positions in memory."""

    def __init__(
        self,
        queue_id: int,
        kind: QueueType,
        name: str,
        properties: QueueProperties,
        *,
        identifier: UUID,
        path: PathName | None = None,
        private_number: int = 0,
        create_time: int = 0,
        modify_time: int = 0,
        parent: Queue | None = None,
        cache: ContentCache | None = None,
    ) -> None:
        self.cache = cache or ContentCache()
        self.queue_id = queue_id
        self.kind = kind
        self.name = name  # path without the computer, as its creator spelled it; unique without case
        self.properties = properties
        self.identifier = identifier
        self.path = path
        self.private_number = private_number
        self.create_time = create_time
        self.modify_time = modify_time
        self.parent = parent  # of a subqueue or a journal
        # The queue whose rights, quota and journal count
        self.main: Queue = parent if kind is QueueType.SUBQUEUE and parent is not None else self
        self.is_system = kind in (QueueType.SYSTEM, QueueType.JOURNAL)
        self.journal: Queue | None = None
        self.subqueues: dict[str, Queue] = {}
        self.scope = QueueScope.ENTERPRISE
        self.persisted = False  # the store knows the definition
        self.deleted = False
        self.available = LookupIndex()
        self.claimed = LookupIndex()  # by subscriptions; stored, and none of them has a position in memory
        self.peekable: list[int] = []  # locked, yet visible to peeks (AllowPeekWhenLocked)
        self.positions: dict[int, Position] = {}
        self.unavailable = 0  # locked, purge-pending or claimed positions: still in the queue, not in the index
        self.total_bytes = 0
        self.uncommitted_bytes = 0  # staged inserts and messages of open transactions
        self.staged_inserts = 0  # durable inserts whose commit is under way
        self.descriptors: list[OpenQueueDescriptor] = []
        self.waiters: list[WaitingRead] = []

    # What it is

    @property
    def transactional(self) -> bool:
        return self.main.properties.transactional

    @property
    def active(self) -> bool:
        """[MS-MQDMPR] 3.1.1.2 Active: somebody has it open. Outgoing queues add pending messages."""
        return bool(self.descriptors)

    @property
    def message_count(self) -> int:
        return len(self.available) + self.unavailable

    def definition(self) -> PutQueue:
        data: dict[str, Any] = {
            "identifier": str(self.identifier),
            "properties": self.properties.to_json(),
            "private_number": self.private_number,
            "create_time": self.create_time,
            "modify_time": self.modify_time,
            "parent": None if self.parent is None else self.parent.queue_id,
        }
        return PutQueue(self.queue_id, self.kind.value, self.name, data)

    def mark_persisted(self, persisted: bool = True) -> None:
        self.persisted = persisted

    # Quota

    def used_bytes(self) -> int:
        """What counts against the quota: subqueues share their parent's."""
        main = self.main
        used = main.total_bytes + main.uncommitted_bytes
        for subqueue in main.subqueues.values():
            used += subqueue.total_bytes + subqueue.uncommitted_bytes
        return used

    def has_room(self, size: int) -> bool:
        quota = self.main.properties.quota
        return quota == INFINITE or self.used_bytes() + size <= quota * 1024

    # Positions

    def end_of(self, message: Message) -> int:
        """The second from which the message expires here; 0 for never. Journals and dead letters keep all."""
        return 0 if self.is_system else time_to_be_received_end(message)

    def position(self, lookup_id: int, store: Store) -> Position:
        """The position of an available message, with its content; read from the store if need be."""
        position = self.positions.get(lookup_id)
        if position is None:
            stored = store.fetch(self.queue_id, lookup_id)
            if stored is None:
                raise StoreCorrupt(
                    f"message {lookup_id:#018x} is in the index but not in the store",
                    where=self.name,
                    remedy="stop the queue manager and run: lior doctor --repair",
                )
            position = self._from_store(stored)
        return position

    def _keep(self, position: Position) -> bool:
        """Hold the content of an available stored message in memory, if there is room."""
        cache = self.cache
        used = cache.used + position.size
        if used > cache.limit:
            return False
        cache.used = used
        position.cached = True
        self.positions[position.lookup_id] = position
        return True

    def _from_store(self, stored: StoredMessage) -> Position:
        return Position(
            self,
            stored.lookup_id,
            stored.message,
            stored.arrival_time,
            True,
            expires=self.end_of(stored.message),
            abort_count=stored.abort_count,
            move_count=stored.move_count,
            last_move_time=stored.last_move_time,
            state=State.AVAILABLE,
        )

    def read_ahead(self, first: int, store: Store) -> Position:
        """As `position`, and keep the messages that follow it, since a reader who drains comes for them."""
        if first in self.positions:
            return self.positions[first]
        found: Position | None = None
        try:
            following = store.scan(self.queue_id, first - 1, READ_AHEAD)
        except StoreCorrupt:
            following = []  # who gets to the damaged message learns of it; the others can still be read
        for stored in following:
            if stored.lookup_id in self.positions or stored.lookup_id not in self.available:
                continue
            position = self._from_store(stored)
            if stored.lookup_id == first:
                found = position
            elif not self._keep(position):
                break
        return found if found is not None else self.position(first, store)

    def lock(self, position: Position, owner: object) -> None:
        """Take an available position out of sight."""
        position.lock(owner)
        if position.cached:
            self.cache.used -= position.size
            position.cached = False
        self.available.discard(position.lookup_id)
        self.positions[position.lookup_id] = position
        self.unavailable += 1

    def claim(self, lookup_id: int) -> Position | None:
        """Take an available message out of sight for a subscription; its position, if it was in memory."""
        self.available.discard(lookup_id)
        self.claimed.add(lookup_id)
        self.unavailable += 1
        position = self.positions.pop(lookup_id, None)
        if position is not None:
            position.step(Step.CLAIM)
            if position.cached:
                self.cache.used -= position.size
                position.cached = False
        return position

    def claimed_positions(self, lookup_ids: Sequence[int], store: Store) -> list[Position]:
        """The positions of claimed messages, with their content; those that are not claimed are left out."""
        wanted = [lookup_id for lookup_id in lookup_ids if lookup_id in self.claimed]
        found = store.fetch_all(self.queue_id, wanted) if wanted else []
        if len(found) < len(wanted):
            missing = next(iter(set(wanted) - {stored.lookup_id for stored in found}))
            raise StoreCorrupt(f"message {missing:#018x} is claimed but not in the store", where=self.name,
                               remedy="stop the queue manager and run: lior doctor --repair")
        positions = [self._from_store(stored) for stored in found]
        for position in positions:
            position.state = State.CLAIMED
        return positions

    def forget_claimed(self, lookup_ids: Sequence[int], size: int) -> None:
        """Claimed messages are gone; `size` is that of all together."""
        for lookup_id in lookup_ids:
            self.claimed.discard(lookup_id)
        self.unavailable -= len(lookup_ids)
        self.total_bytes -= size

    def lock_first(self, positions: Sequence[Position], owner: object) -> None:
        """As `lock`, for the first messages of the order, which are in memory."""
        step_all(positions, State.AVAILABLE, Step.LOCK, owner)
        for position in positions:
            if position.cached:
                self.cache.used -= position.size
                position.cached = False
        self.available.discard_head(len(positions))
        self.unavailable += len(positions)

    def unlocked(self, position: Position) -> None:
        """The position left the locked states; its owner let go."""
        self.unavailable -= 1
        position.owner = None
        if self.peekable and position.lookup_id in self.peekable:
            self.peekable.remove(position.lookup_id)

    def publish(self, position: Position) -> None:
        """An available position joins the order."""
        self.available.add(position.lookup_id)
        if not position.stored:
            self.positions[position.lookup_id] = position
        elif not self._keep(position):
            self.positions.pop(position.lookup_id, None)

    def publish_all(self, positions: Sequence[Position]) -> None:
        """As `publish`, for new positions in their order."""
        cache, ids = self.cache, [position.lookup_id for position in positions]
        self.available.extend(ids)
        self.positions.update(zip(ids, positions, strict=True))
        for position in positions:
            if position.stored:
                used = cache.used + position.size
                if used > cache.limit:
                    del self.positions[position.lookup_id]
                else:
                    cache.used = used
                    position.cached = True

    def delete(self, position: Position) -> None:
        """[MS-MQDMPR] 3.1.7.2.1: bytes are counted off here and nowhere else."""
        position.step(Step.DELETE)
        self.unlocked(position)
        self.positions.pop(position.lookup_id, None)
        self.total_bytes -= position.size
        if self.claimed:
            self.claimed.discard(position.lookup_id)

    def delete_all(self, positions: Sequence[Position]) -> None:
        """As `delete` for each."""
        step_all(positions, State.LOCKED, Step.DELETE)
        forget, total = self.positions.pop, 0
        for position in positions:
            forget(position.lookup_id, None)
            total += position.size
        if self.peekable:
            gone = {position.lookup_id for position in positions}
            self.peekable = [lookup_id for lookup_id in self.peekable if lookup_id not in gone]
        self.total_bytes -= total
        self.unavailable -= len(positions)

    # Seeking

    def next_visible(self, after: int, *, peek: bool) -> int | None:
        """The first message above `after` that a reader may see ([MS-MQDMPR] 3.1.7.3.2)."""
        found = self.available.after(after) if after >= 0 else self.available.first()
        if peek and self.peekable:
            locked = min((i for i in self.peekable if i > after), default=None)
            if locked is not None and (found is None or locked < found):
                return locked
        return found

    def previous_visible(self, before: int, *, peek: bool) -> int | None:
        found = self.available.before(before)
        if peek and self.peekable:
            locked = max((i for i in self.peekable if i < before), default=None)
            if locked is not None and (found is None or locked > found):
                return locked
        return found

    def __contains__(self, lookup_id: int) -> bool:
        return lookup_id in self.available or lookup_id in self.positions

    def knows(self, position: Position) -> bool:
        """Whether an available position speaks of its message still: one out of memory may have a successor."""
        lookup_id = position.lookup_id
        return lookup_id in self.available and self.positions.get(lookup_id, position) is position

    def locked_positions(self) -> Iterator[Position]:
        for position in list(self.positions.values()):
            if position.state in (State.LOCKED, State.PURGE_PENDING):
                yield position

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.message_count} messages>"


def is_hidden(queue: Queue) -> bool:
    """Order and notification queues: the protocols' own, not for applications (DM-011)."""
    return queue.kind is QueueType.SYSTEM and queue.name.rpartition("\\")[2].casefold() in HIDDEN_QUEUES
