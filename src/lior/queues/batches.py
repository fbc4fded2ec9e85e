"""Many plain messages of one queue at a time: what arrives from another queue manager, what leaves for one, and what
the next one has. What programs here send is in `SendBatches`.

A message costs little if it is one of many: one lookup of everything that holds for all of them, one step after the
commit, one operation of the store. What is unusual about a message is left to the calls for one, in `Sending`,
`OutgoingStreams` and `Removal`, which these calls agree with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from lior.message import INFINITE, Message, MessageClass
from lior.queues.change import Change
from lior.queues.core import Core
from lior.queues.outgoing import OutgoingQueue
from lior.queues.outgoing_streams import OutgoingStreams
from lior.queues.ports import DeleteMessages, PutMessage
from lior.queues.position import Position, State
from lior.queues.queue import Queue
from lior.queues.removal import HELD, Removal
from lior.queues.sending import Sending

MOST_BYTES: Final = 1 << 20  # locked at once: a window of large messages is packed in parts
_LOCKED: Final = State.LOCKED
_TRANSFERRED: Final = MessageClass.ACK_REACH_QUEUE
_put_message: Final[Callable[[tuple[int, int, Message, float, int, int, int, float]], PutMessage]] = partial(
    tuple.__new__, PutMessage
)


class Batches:
    def __init__(self, core: Core, sending: Sending, removal: Removal, streams: OutgoingStreams) -> None:
        self._core = core
        self._sending = sending
        self._removal = removal
        self._streams = streams

    # Arrivals

    def arrive(self, change: Change, queue: Queue, messages: Sequence[Message]) -> bool:
        """As `Sending.accept` for each, if all of them get into the local queue as they are and nothing follows from
        it. False: nothing was done."""
        core = self._core
        now = core.clock.wall()
        total = 0
        sizes: list[int] = []
        for message in messages:
            reach = message.time_to_reach_queue
            if (
                message.time_to_be_received != INFINITE
                or message.administration_queue
                or message.positive_journaling_requested
                or (reach != INFINITE and int(message.sent_time) + reach < now)
            ):
                return False
            size = message.size
            sizes.append(size)
            total += size
        if core.throttled or not core.has_room(queue, total) or not queue.has_room(total):
            return False
        mask, queue_id = core.lookup_ids.mask, queue.queue_id
        operations = change.operations
        if not queue.persisted:
            self._sending.stage_definition(change, queue)
        positions: list[Position] = []
        waits = queue.staged_inserts > 0
        for message, number, size in zip(messages, core.lookup_ids.take(change, len(sizes)), sizes, strict=True):
            lookup_id = (7 - message.priority) << 56 | number & mask
            stored = message.delivery_guarantee != 0
            positions.append(Position(queue, lookup_id, message, now, stored, size=size))
            if stored:
                waits = True
                operations.append(_put_message((queue_id, lookup_id, message, now, 0, 0, 0, 0.0)))
        if waits:
            change.ordered = True  # express messages come not before the durable ones that came earlier
        queue.staged_inserts += len(positions)
        queue.uncommitted_bytes += total
        core.staged_bytes += total
        core.count_bytes(queue, total)
        change.either(self._sending.inserted_all, self._sending.insert_failed_all, queue, positions)
        return True

    # Departures

    def lock(
        self, queue: OutgoingQueue, owner: object, most: int, *, any_priority: bool = True
    ) -> list[Position]:
        """The next messages to send, in order and locked for `owner`; none while there is none, or it has to wait.
        Unless of `any_priority`, those that are as urgent as the first."""
        stream, now = queue.stream, self._core.clock.wall()
        found: list[Position] = []
        size = 0
        if most > 1 and queue.may_transmit:
            known = queue.positions
            several = stream is not None and len(stream.counts) > 1
            head = queue.available.head(most)
            if not any_priority and head and head[0] >> 56 != head[-1] >> 56:
                head = [lookup_id for lookup_id in head if lookup_id >> 56 == head[0] >> 56]
            for lookup_id in head:
                position = known.get(lookup_id)
                if position is None or (position.expires and position.expires <= now) or size > MOST_BYTES:
                    break
                if stream is not None and (
                    lookup_id <= stream.unread_to or (several and stream.must_wait(position.message))
                ):
                    break
                found.append(position)
                size += position.size
        if found:
            queue.lock_first(found, owner)
            return found
        single = self._streams.lock_next(queue, owner)
        return [] if single is None else [single]

    def transferred(self, change: Change, positions: Sequence[Position]) -> None:
        """As `Removal.transferred` for each."""
        by_queue: dict[Queue, list[Position]] = {}
        for position in positions:
            if (
                position.state is not _LOCKED
                or isinstance(position.owner, HELD)
                or position.message.positive_journaling_requested
            ):
                self._removal.transferred(change, position)
                continue
            position.owner = change
            queue = position.queue
            if queue in by_queue:
                by_queue[queue].append(position)
            else:
                by_queue[queue] = [position]
        for queue, some in by_queue.items():
            self.remove_held(change, queue, some)
            change.otherwise(self._put_back, some)

    def remove_held(self, change: Change, queue: Queue, positions: Sequence[Position]) -> None:
        """Messages that the next queue manager has leave with the change that holds them."""
        stored = [position.lookup_id for position in positions if position.stored]
        if stored:
            change.operations.append(DeleteMessages(queue.queue_id, stored))
        change.then(self._removal.deleted_all, queue, positions, _TRANSFERRED)

    def _put_back(self, positions: Sequence[Position]) -> None:
        for position in reversed(positions):
            self._removal.put_back(position)
