"""Many plain messages that programs here send to one queue, local or elsewhere, in one turn of the loop.

As in `Batches`, what is unusual about a message or its queue is left to the calls for one, in `Sending` and
`Transactions`, which these calls agree with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from lior.message import INFINITE, Message, MessageTransaction, ObjectId
from lior.queues.checking import usual_size
from lior.queues.core import Core
from lior.queues.descriptor import SEND_ACCESS, OpenQueueDescriptor
from lior.queues.many import MOST, Many, Told
from lior.queues.outgoing import OutgoingQueue
from lior.queues.outgoing_streams import OutgoingStreams
from lior.queues.ports import Operation, PutMessage
from lior.queues.position import Position, State
from lior.queues.queue import Queue
from lior.queues.sending import TIME_TO_REACH_QUEUE, Sending
from lior.queues.stream import Batch, OutgoingStream
from lior.queues.transactions import Transactions

_STAGED: Final = State.STAGED
_put_message: Final[Callable[[tuple[int, int, Message, float, int, int, int, float]], PutMessage]] = partial(
    tuple.__new__, PutMessage
)
_object_id: Final[Callable[[tuple[UUID, int]], ObjectId]] = partial(tuple.__new__, ObjectId)


class Sent(Many):
    """Messages that programs here sent to one queue; of a stream to another queue manager if they have places in it."""

    __slots__ = ("_batch", "_sending", "_stream", "puts", "queue")

    def __init__(
        self, sending: Sending, queue: Queue, positions: Sequence[Position], puts: Sequence[PutMessage],
        callers: Sequence[Any], told: Told, stream: OutgoingStream | None = None, batch: Batch | None = None,
    ) -> None:  # fmt: skip
        super().__init__(positions, callers, told)
        self.queue = queue
        self.puts = puts
        self._sending = sending
        self._stream = stream
        self._batch = batch

    def join(self, stream: OutgoingStream, batch: Batch) -> None:
        """The messages get the places of the batch."""
        self._stream, self._batch = stream, batch

    @property
    def lookup_ids(self) -> list[int] | None:
        """Those of messages that have places in a stream."""
        return None if self._batch is None else self._batch.lookup_ids

    def done(self) -> None:
        if self._stream is not None and self._batch is not None:
            self._stream.joined(self._batch)
        self._sending.inserted_all(self.queue, self.items)

    def undone(self) -> None:
        self._sending.insert_failed_all(self.queue, self.items)
        if self._stream is not None and self._batch is not None:
            self._stream.decided(self._batch)

    def operation(self, at: int) -> PutMessage | None:
        return self.puts[at] if self.puts else None

    def shared(self) -> list[Operation]:
        return [operation for operation in self.operations if type(operation) is not PutMessage]

    def part(self, at: int) -> Sent:
        last, batch = at + 1, self._batch
        if self._stream is not None and batch is not None:
            batch = self._stream.alone(batch, self.items[at].lookup_id)
        return Sent(self._sending, self.queue, self.items[at:last], self.puts[at:last], self._callers[at:last],
                    self._told, self._stream, batch)


class SendBatches:
    def __init__(self, core: Core, sending: Sending, streams: OutgoingStreams, transactions: Transactions) -> None:
        self._core = core
        self._sending = sending
        self._streams = streams
        self._transactions = transactions

    def send(
        self, descriptor: OpenQueueDescriptor, messages: Sequence[Message], callers: Sequence[Any], told: Told, *,
        express: bool = False, alone: bool = False,
    ) -> bool:  # fmt: skip
        """As `Sending.send` for each, outside transactions, or as `Transactions.send_alone` if they are `alone`; if all
        of them, which are `express` or recoverable, get into their queue as they are and nothing follows from it.
        `told` of the callers and the positions, at once where nothing has to be stored. False: nothing was done."""
        core, queue = self._core, descriptor.queue
        if queue is None or core.broken is not None or len(messages) > MOST or not _takes(descriptor, queue, alone):
            return False
        guarantee = None if alone else 0 if express else 1
        try:
            sizes = [usual_size(message, guarantee) for message in messages]
        except Exception:  # one that is none: who sent it hears what is wrong with it, and nobody else
            return False
        if not all(sizes):
            return False
        total = sum(sizes)
        if core.throttled or not core.has_room(queue, total) or not queue.has_room(total):
            return False
        positions: list[Position] = []
        puts: list[PutMessage] = []
        change = Sent(self._sending, queue, positions, puts, callers, told)
        if alone:
            self._place(change, queue, messages)
        self._stage(change, descriptor.text, messages, sizes)
        if not express:
            change.operations += puts
        elif queue.staged_inserts:
            change.ordered = True  # not before the durable messages that came earlier
        queue.staged_inserts += len(positions)
        queue.uncommitted_bytes += total
        core.staged_bytes += total
        core.count_bytes(queue, total)
        core.traffic.sent += len(positions)
        core.submit(change)
        return True

    def _place(self, change: Sent, queue: Queue, messages: Sequence[Message]) -> None:
        """Each is all that there is to its transaction, and the next of its stream if it leaves."""
        guid, indexes = self._core.ids.guid, self._transactions.next_indexes(len(messages))
        sequence_id = number = 0
        if isinstance(queue, OutgoingQueue):
            stream, batch, number = self._streams.join(change, queue, len(messages))
            change.join(stream, batch)
            sequence_id = batch.sequence_id
        for message, index in zip(messages, indexes, strict=True):
            message.priority, message.delivery_guarantee = 0, 1
            if sequence_id:
                previous, number = number, number + 1
                message.transaction = MessageTransaction(guid(), sequence_id, number, previous, index, True, True)
            else:
                message.transaction = MessageTransaction(guid(), 0, 0, 0, index, True, True)

    def _stage(self, change: Sent, destination: str, messages: Sequence[Message], sizes: Sequence[int]) -> None:
        """Stamps, positions, and what there is to store."""
        core, queue = self._core, change.queue
        queue_id, outgoing = queue.queue_id, isinstance(queue, OutgoingQueue)
        source, default = core.properties.identifier, core.properties.default_time_to_reach_queue
        now, mask, ordinal_mask = core.clock.wall(), core.lookup_ids.mask, core.ordinals.mask
        second, expires = int(now) + 1, 0
        stored = messages[0].delivery_guarantee != 0
        if stored and not queue.persisted:
            self._sending.stage_definition(change, queue)
        ordinals = core.ordinals.take(change, len(sizes))
        numbers = core.lookup_ids.take(change, len(sizes))
        add, put = change.items.append, change.puts.append  # type: ignore[attr-defined]  # lists, while it is made
        batch = change.lookup_ids
        for message, ordinal, number, size in zip(messages, ordinals, numbers, sizes, strict=True):
            message.identifier = _object_id((source, ordinal & ordinal_mask))
            message.source_queue_manager = source
            message.sent_time = now
            message.destination_queue = destination
            reach = message.time_to_reach_queue
            if reach == TIME_TO_REACH_QUEUE:
                message.time_to_reach_queue = reach = default  # the sender left it open (DM-047)
            if outgoing:  # and its time to be received is without end
                expires = 0 if reach == INFINITE else second + reach
            lookup_id = (7 - message.priority) << 56 | number & mask
            add(Position(queue, lookup_id, message, now, stored, expires, 0, 0, 0.0, _STAGED, size))
            if stored:
                put(_put_message((queue_id, lookup_id, message, now, expires, 0, 0, 0.0)))
            if batch is not None:
                batch.append(lookup_id)


def _takes(descriptor: OpenQueueDescriptor, queue: Queue, alone: bool) -> bool:
    """Whether the queue takes messages of this kind without a closer look."""
    if descriptor.children or descriptor.access not in SEND_ACCESS:
        return False
    if isinstance(queue, OutgoingQueue):
        return not queue.multicast and not queue.is_http
    properties = queue.main.properties
    return properties.takes_unsigned and properties.transactional is alone
