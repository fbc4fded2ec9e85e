"""Exactly-once streams from other queue managers, the receiver's side ([MS-MQQB] 3.1.5.8.6).

Where a stream stands is stored in the change that holds the message it got to, once for each change. Changes of one
stream may be under way one after the other; each says what it builds upon, so that none is stored whose predecessor
was not: the position would claim messages that nobody has.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from lior.message import Message, MessageTransaction
from lior.queues.change import Change
from lior.queues.core import Core
from lior.queues.outgoing import INCOMING, NOWHERE, IncomingTransactionalTransferInfo
from lior.queues.ports import DeleteState, ExpectState, LoadedState, PutState
from lior.queues.queue import Queue
from lior.queues.removal import Removal

MOST_STREAMS: Final = 65536  # remembered; those that were not used for longest are forgotten first
FORGET_AT_ONCE: Final = 64
_KNOWN: Final = 4096  # found without building their key

Key = tuple[int, UUID, str]


class Place(NamedTuple):
    """What is undone together."""

    sequence_id: int = 0
    number: int = 0
    access_time: float = 0.0
    reject_count: int = 0
    acknowledge_to: str = ""


class Step:
    """What one change does to one stream."""

    __slots__ = ("at", "change", "place", "run", "value")

    def __init__(self, change: Change, at: int, run: int) -> None:
        self.change = change
        self.at = at  # index of the record among the change's operations
        self.run = run
        self.place = Place()
        self.value = b""


class Tracking:
    """Beside the position of a stream: what is on disk of it, and what is on the way there."""

    __slots__ = ("key", "last", "run", "stored", "stored_place", "under_way", "written")

    def __init__(self, key: str, stored: bytes | None, place: Place) -> None:
        self.key = key
        self.stored = self.written = stored  # the record on disk, and the last that was handed over
        self.stored_place = place
        self.under_way = 0  # changes that are not decided
        self.run = 0  # counts failures: changes made before one are doomed
        self.last: Step | None = None


class IncomingStreams:
    def __init__(self, core: Core, removal: Removal) -> None:
        self._core = core
        removal.order_queue_of = self.acknowledge_to
        self._known: dict[Key, IncomingTransactionalTransferInfo] = {}

    def restore(self, state: LoadedState, change: Change) -> None:
        for key, info in self._core.incoming.items():
            info.tracking = Tracking(key, state.state[INCOMING, key], _place(info))

    def position(
        self, queue: Queue | None, message: Message, sender: UUID | None = None
    ) -> IncomingTransactionalTransferInfo:
        """Where the stream of this message stands; without a queue, of one to nowhere. Each destination format name
        is a stream of its own, since each has its own outgoing queue at the sender (QB-098). `sender` is the queue
        manager that the stream says it is of, where it says so."""
        queue_id = NOWHERE if queue is None else queue.queue_id
        if sender is None:
            sender = message.source_queue_manager
        known = (queue_id, sender, message.destination_queue)
        info = self._known.get(known)
        if info is None:
            info = IncomingTransactionalTransferInfo(message.destination_queue, sender)
            info = self._core.incoming.get(info.key(queue_id), info)
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[known] = info
        return info

    def acknowledge_to(self, queue: Queue | None, message: Message) -> str:
        """Where acknowledgements of the message go: of what it came with, else to the queue manager it came from."""
        info = self.position(queue and queue.main, message)
        return info.acknowledge_to or f"PRIVATE={str(message.source_queue_manager).upper()}\\00000004"

    def accepts(self, info: IncomingTransactionalTransferInfo, transaction: MessageTransaction) -> bool:
        """The message is the next of the stream, or the first of a later one (QB-171)."""
        sequence_id = transaction.sequence_identifier
        if sequence_id == info.sequence_id:
            last = info.last_sequence_number
            return transaction.sequence_number > last >= transaction.previous_sequence_number
        return sequence_id > info.sequence_id and transaction.previous_sequence_number == 0

    def accepts_all(self, info: IncomingTransactionalTransferInfo, messages: Sequence[Message]) -> bool:
        """Each is the next when those before it are taken."""
        first = messages[0].transaction
        if first is None or not self.accepts(info, first):
            return False
        sequence_id, last = first.sequence_identifier, first.sequence_number
        for message in islice(messages, 1, None):
            transaction = message.transaction
            if (
                transaction is None
                or transaction.sequence_identifier != sequence_id
                or not transaction.sequence_number > last >= transaction.previous_sequence_number
            ):
                return False
            last = transaction.sequence_number
        return True

    def reject(self, info: IncomingTransactionalTransferInfo) -> None:
        """A message that is not the next one is dropped, and counted."""
        info.reject_count += 1

    def advance(
        self,
        change: Change,
        info: IncomingTransactionalTransferInfo,
        queue: Queue | None,
        transaction: MessageTransaction,
        now: float,
    ) -> None:
        """The stream gets to this message, whether it is delivered or refused for good (QB-151)."""
        tracking = info.tracking
        if not isinstance(tracking, Tracking):
            tracking = info.tracking = Tracking(
                info.key(NOWHERE if queue is None else queue.queue_id), None, _place(info)
            )
        info.sequence_id = transaction.sequence_identifier
        info.last_sequence_number = transaction.sequence_number
        info.last_access_time = now
        info.reject_count = 0
        step = tracking.last
        value = info.to_bytes()
        if step is None or step.change is not change:
            step = self._begin(change, info, tracking)
        change.operations[step.at] = PutState(INCOMING, tracking.key, value)
        step.value = tracking.written = value
        step.place = _place(info)

    def stored(self, info: IncomingTransactionalTransferInfo) -> tuple[int, int]:
        """Stream and number that are on disk. An order acknowledgement says these, never what is still on the way."""
        place = self.stored_place(info)
        return place.sequence_id, place.number

    def stored_place(self, info: IncomingTransactionalTransferInfo) -> Place:
        """The same, with where it is to be acknowledged: another stream of the sender may have another address."""
        tracking = info.tracking
        return tracking.stored_place if isinstance(tracking, Tracking) else _place(info)

    def _begin(self, change: Change, info: IncomingTransactionalTransferInfo, tracking: Tracking) -> Step:
        if tracking.key not in self._core.incoming:
            self._core.incoming[tracking.key] = info
            self._forget_oldest(change)
        if tracking.under_way:
            change.operations.append(ExpectState(INCOMING, tracking.key, tracking.written))
        step = tracking.last = Step(change, len(change.operations), tracking.run)
        change.operations.append(PutState(INCOMING, tracking.key, b""))  # until all messages of the change are known
        tracking.under_way += 1
        change.either(self._stored, self._failed, info, tracking, step)
        return step

    def _stored(self, info: IncomingTransactionalTransferInfo, tracking: Tracking, step: Step) -> None:
        tracking.under_way -= 1
        tracking.stored, tracking.stored_place = step.value, step.place
        if tracking.last is step:
            tracking.last = None

    def _failed(self, info: IncomingTransactionalTransferInfo, tracking: Tracking, step: Step) -> None:
        """Back to what is on disk. Changes that build upon this one will fail as well, and find nothing to undo."""
        tracking.under_way -= 1
        if step.run != tracking.run:
            return
        tracking.run += 1
        tracking.last = None
        tracking.written = tracking.stored
        place = tracking.stored_place
        info.sequence_id, info.last_sequence_number = place.sequence_id, place.number
        info.last_access_time, info.reject_count = place.access_time, place.reject_count
        info.acknowledge_to = place.acknowledge_to or info.acknowledge_to
        if tracking.stored is None:
            self._core.incoming.pop(tracking.key, None)

    def _forget_oldest(self, change: Change) -> None:
        """Whoever invents senders and names gets no more memory than this."""
        incoming = self._core.incoming
        if len(incoming) <= MOST_STREAMS:
            return
        idle = sorted((info.last_access_time, key) for key, info in incoming.items() if _is_idle(info))
        for _, key in idle[:FORGET_AT_ONCE]:
            change.operations.append(DeleteState(INCOMING, key))
            incoming.pop(key)
        self._known.clear()


def _place(info: IncomingTransactionalTransferInfo) -> Place:
    return Place(
        info.sequence_id, info.last_sequence_number, info.last_access_time, info.reject_count, info.acknowledge_to
    )


def _is_idle(info: IncomingTransactionalTransferInfo) -> bool:
    tracking = info.tracking
    return info.sequence_id != 0 and (not isinstance(tracking, Tracking) or not tracking.under_way)
