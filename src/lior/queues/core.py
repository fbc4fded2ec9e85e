"""What the parts of the queue manager share: its collections, counters, quotas, events and changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from lior.errors import InsufficientResources, LiorError, ServiceNotAvailable, StoreUnusable
from lior.message import INFINITE, Message
from lior.names import LocalNames
from lior.queues.change import Change
from lior.queues.counters import ORDINALS, Counter
from lior.queues.definition import QueueManagerProperties
from lior.queues.directory import Directory
from lior.queues.events import Event, MessageDropped, StorageFailed, ThrottledChanged
from lior.queues.expiry import ExpiryQueue
from lior.queues.outgoing import IncomingTransactionalTransferInfo, OutgoingQueue
from lior.queues.peers import PeerDirectory
from lior.queues.ports import LOOKUP_IDS, Ids, Store
from lior.queues.queue import ContentCache, Queue
from lior.queues.traffic import Traffic
from lior.queues.waiting import Waits

if TYPE_CHECKING:
    from lior.queues.fates import Fates
    from lior.queues.transaction import Transaction


log = logging.getLogger("lior.queues")

# Every so many pending changes the engine looks how much waits, so that one caller who sends without end in one turn
# of the loop does not pile up memory.
MANY: Final = 32


class Clock(Protocol):
    """Readings given from outside: wall for expiry, monotonic for waits; never mixed."""

    def wall(self) -> float: ...

    def monotonic(self) -> float: ...


class Core:
    """Shared state. One owner at a time changes it: the loop that runs the queue manager."""

    def __init__(
        self,
        properties: QueueManagerProperties,
        local: LocalNames,
        store: Store,
        clock: Clock,
        ids: Ids,
        *,
        cache_bytes: int = 64 << 20,
    ) -> None:
        self.properties = properties
        self.local = local
        self.store = store
        self.clock = clock
        self.ids = ids
        self.peers = PeerDirectory()
        self.directory: Directory = self.peers
        self.queues: dict[int, Queue] = {}
        self.paths: dict[str, Queue] = {}  # by name without the computer, casefolded
        self.private_numbers: dict[int, Queue] = {}
        self.identifiers: dict[UUID, Queue] = {}
        self.outgoing: dict[str, OutgoingQueue] = {}  # by the key of the destination format name
        self.incoming: dict[str, IncomingTransactionalTransferInfo] = {}  # by its key
        self.transactions: dict[UUID, Transaction] = {}
        self.next_queue_id = 1
        self.last_handle = 0
        self.lookup_ids = Counter(LOOKUP_IDS, 0, 56)
        self.ordinals = Counter(ORDINALS, 0, 32)
        self.expiries = ExpiryQueue()
        self.waits = Waits()
        self.total_bytes = 0  # in every queue but journals and dead letters
        self.journal_bytes = 0
        self.staged_bytes = 0  # of messages whose commit is pending or under way
        self.cache = ContentCache(cache_bytes)
        self.throttled = ""  # the reason, while the disk is too full to take messages
        self.broken: LiorError | None = None  # set for good when durability can no longer be promised
        self.pending: list[Change] = []
        self.awaited = False  # somebody waits for one of them
        self.pending_count = 0  # of what they are made of
        self.wake: Callable[[], None] = _nothing  # the engine's: something is pending or due
        self.wake_later: Callable[[], None] = _nothing  # the engine's: something is pending that nobody waits for
        self.on_many: Callable[[], None] = _nothing  # the engine's: again MANY more changes are pending
        self.listeners: list[Callable[[Event], None]] = []
        self.message_listeners: list[Callable[[Event], None]] = []  # those of them who hear of each message
        self.traffic = Traffic()
        self.fates: Fates | None = None  # who records what becomes of messages

    # Changes

    def submit(self, change: Change) -> None:
        """Hand a change over. One that stores nothing and overtakes nobody ends at once."""
        if self.broken is not None:
            change.fail(self.broken)
        elif change.operations or change.ordered:
            self.pending.append(change)
            count = change.count
            if count > 1:
                self._count_more(count - 1)
            self.joined_pending(change.lazy)
        else:
            change.finish()

    def joined_pending(self, lazy: bool = False) -> None:
        """One more is pending, or one more in the last that is."""
        self.pending_count = count = self.pending_count + 1
        if not lazy and not self.awaited:
            self.awaited = True
            self.wake()
        elif count == 1:
            self.wake_later()
        if not count % MANY:
            self.on_many()

    def _count_more(self, count: int) -> None:
        before, self.pending_count = self.pending_count, self.pending_count + count
        if before // MANY != self.pending_count // MANY:
            self.on_many()

    def take_pending(self) -> list[Change]:
        pending, self.pending = self.pending, []
        self.pending_count = 0
        self.awaited = False
        return pending

    def storage_failed(self, changes: Iterable[Change], error: LiorError) -> None:
        """A commit failed: undo the changes in memory. Never go on after an unusable store."""
        self.emit(StorageFailed(str(error)))
        if isinstance(error, StoreUnusable) and self.broken is None:
            self.broken = error
            changes = [*changes, *self.take_pending()]
        for change in reversed(list(changes)):
            change.fail(error)

    def require_service(self) -> None:
        if self.broken is not None:
            raise ServiceNotAvailable(
                f"the queue manager stopped serving: {self.broken.what}",
                where=self.broken.where,
                remedy=self.broken.remedy or "check the disk, then restart it",
            )

    # Identity

    def is_source(self, message: Message) -> bool:
        """The message was sent here first, and not taken over from another queue manager."""
        source, own = message.source_queue_manager, self.properties.identifier
        return source is own or source == own

    def handle(self) -> int:
        """Unique on the queue manager for its lifetime: a stale handle never meets a new object."""
        self.last_handle += 1
        return self.last_handle

    def take_queue_id(self) -> int:
        queue_id = self.next_queue_id
        self.next_queue_id += 1
        return queue_id

    def top_up_counters(self) -> None:
        """Reserve numbers ahead of their use."""
        for counter in (self.lookup_ids, self.ordinals):
            if counter.wants_reservation() and self.broken is None:
                change = Change()
                counter.reserve(change)
                self.submit(change)

    # Quotas: bytes are added when a message is staged and taken off when it is gone

    def has_room(self, queue: Queue, size: int) -> bool:
        """Room in the queue manager's quota ([MS-MQDMPR] 3.1.7.1.9), journals apart."""
        if queue.is_system:
            quota, used = self.properties.journal_quota, self.journal_bytes
        else:
            quota, used = self.properties.queue_manager_quota, self.total_bytes
        return quota == INFINITE or used + size <= quota * 1024

    def takes(self, queue: Queue, size: int) -> bool:
        """Room in both quotas: the queue's own and the queue manager's."""
        return queue.has_room(size) and self.has_room(queue, size)

    def count_bytes(self, queue: Queue, size: int) -> None:
        if queue.is_system:
            self.journal_bytes += size
        else:
            self.total_bytes += size

    def require_room(self, queue: Queue, size: int) -> None:
        if self.throttled:
            raise InsufficientResources(
                f"new messages are refused while {self.throttled}",
                where=queue.name,
                remedy="free disk space, or receive and purge messages",
            )
        if not self.has_room(queue, size):
            self.require_manager_room(queue, size)
        if queue.main.properties.quota != INFINITE and not queue.has_room(size):
            raise InsufficientResources(
                f"the message of {size} bytes would exceed the queue's quota of {queue.main.properties.quota} KB",
                where=queue.name,
                remedy="receive messages, or raise the quota with: lior queue set --quota KB",
            )

    def require_manager_room(self, queue: Queue, size: int) -> None:
        if not self.has_room(queue, size):
            quota = self.properties.queue_manager_quota
            raise InsufficientResources(
                f"the message of {size} bytes would exceed the queue manager's quota of {quota} KB",
                where=queue.name,
                remedy="receive messages, or raise the quota with: lior set --quota KB",
            )

    def set_throttled(self, why: str) -> None:
        """[MS-MQDMPR] 3.1.7.2.5 and 3.1.7.2.6; an empty reason ends it."""
        if why != self.throttled:
            self.throttled = why
            self.emit(ThrottledChanged(bool(why), why))

    # Events

    def emit(self, event: Event) -> None:
        """A listener that fails must not keep others from their messages and answers."""
        for listener in self.listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed at %s", type(event).__name__)

    def emit_message(self, event: Event) -> None:
        """As `emit`, for what comes with every message: nobody makes the event unless somebody listens."""
        for listener in self.message_listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed at %s", type(event).__name__)

    def dropped(self, message: Message, where: str, why: str) -> None:
        self.traffic.dropped += 1
        self.emit(MessageDropped(message, where, why))
        if self.fates is not None:
            self.fates.dropped(message, where, why)


def _nothing() -> None:
    pass
