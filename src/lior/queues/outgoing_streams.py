"""Exactly-once streams towards other queue managers, the sender's side ([MS-MQQB] 3.1.1.3.1, 3.1.5.6, 3.1.7.1.3).

A message of a transaction gets its place in the stream of its outgoing queue when the transaction commits, so that
the place is on disk with the message and nothing is written when it is sent. Numbers of a stream are given in one run
of the queue manager only: after a restart new messages begin another stream, and wait until the older ones are
acknowledged. So no number needs to be reserved, and none is used twice, not even when a backup was restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from lior.errors import LiorError
from lior.message import Message, MessageClass, MessageTransaction
from lior.queues.awaiting import Awaiting
from lior.queues.change import Change
from lior.queues.core import Core
from lior.queues.events import MessageAwaitsTransfer, MessageDeleted, StorageFailed
from lior.queues.final_acknowledgements import FinalAcknowledgements, Place
from lior.queues.outgoing import OutgoingQueue, OutgoingTransferInfo, SequenceInfo
from lior.queues.ports import DeleteMessages, LoadedState, PutState
from lior.queues.position import Position, State
from lior.queues.removal import HELD, Removal
from lior.queues.sending import Sending
from lior.queues.sends import Sends
from lior.queues.stream import Batch, OutgoingStream

STREAM: Final = "stream"  # the kind under which the store keeps the time stamp of the ids of streams
TIME_STAMP: Final = "time stamp"
MOST: Final = 0xFFFFFFFF  # of 32 bits
CHUNK: Final = 1024  # messages acknowledged in one change; more follow in others


class OutgoingStreams:
    def __init__(self, core: Core, sending: Sending, removal: Removal, awaiting: Awaiting) -> None:
        self._core = core
        self._sending = sending
        self._removal = removal
        self._awaiting = awaiting
        self._queues: dict[int, OutgoingQueue] = {}  # by the id of each stream that has messages
        self._time_stamp = 0
        self._ordinal = 0
        self.finals = FinalAcknowledgements(core, sending, removal, awaiting)
        self.finals.search = self._search
        sending.stage_in_stream = self.stage

    # At start

    def restore(self, state: LoadedState, change: Change) -> None:
        """Time stamps grow with every start, whatever the clock says (QB-097)."""
        stored = int.from_bytes(state.state.get((STREAM, TIME_STAMP), b""), "little")
        self._time_stamp = max(stored + 1, int(self._core.clock.wall())) & MOST
        self._record_time_stamp(change)
        self._awaiting.restore(state)
        for queue in self._core.outgoing.values():
            last = queue.available.last()
            if last is not None:
                stream = self._stream(queue)
                stream.unread_to = max(last, stream.unread_from)

    def _record_time_stamp(self, change: Change) -> None:
        change.operations.append(PutState(STREAM, TIME_STAMP, self._time_stamp.to_bytes(8, "little")))

    def _stream(self, queue: OutgoingQueue) -> OutgoingStream:
        if queue.stream is None:
            queue.stream = OutgoingStream(queue, self._core.properties.identifier, self._queues, self._left)
        return queue.stream

    # A message joins

    def stage(self, change: Change, queue: OutgoingQueue, message: Message) -> None:
        """Insert a message of a transaction, with its place."""
        stream = queue.stream or self._stream(queue)
        if stream.is_finished or stream.last_number == MOST:
            self._begin(change, stream)
        if stream.change is not change or stream.batch.sequence_id != stream.sequence_id:
            stream.change, stream.batch = change, Batch(stream.sequence_id)
            if isinstance(change, Sends):
                change.join(self._joined, self._decided, stream, stream.batch)
            else:
                change.either(self._joined, self._decided, stream, stream.batch)
        place = message.transaction  # the message's own
        assert place is not None
        number = stream.last_number + 1
        place.sequence_identifier = stream.sequence_id
        place.sequence_number = number
        place.previous_sequence_number = number - 1
        position = self._sending.stage_insert(change, queue, message)
        stream.batch.lookup_ids.append(position.lookup_id)
        stream.last_number = number
        stream.staged += 1

    def join(self, change: Change, queue: OutgoingQueue, count: int) -> tuple[OutgoingStream, Batch, int]:
        """As `stage` for so many messages, of which a change consists, but for their insertion: the batch that wants
        their lookup ids, and the number before the first of them."""
        stream = queue.stream or self._stream(queue)
        if stream.is_finished or stream.last_number > MOST - count:
            self._begin(change, stream)
        stream.change, stream.batch = change, Batch(stream.sequence_id)
        last = stream.last_number
        stream.last_number += count
        stream.staged += count
        return stream, stream.batch, last

    def _begin(self, change: Change, stream: OutgoingStream) -> None:
        if self._ordinal == MOST:
            self._ordinal = 0
            self._time_stamp = (self._time_stamp + 1) & MOST
            self._record_time_stamp(change)
        self._ordinal += 1
        stream.sequence_id = self._time_stamp << 32 | self._ordinal
        stream.last_number = stream.staged = 0

    def _joined(self, stream: OutgoingStream, batch: Batch) -> None:
        stream.joined(batch)

    def _decided(self, stream: OutgoingStream, batch: Batch) -> None:
        stream.decided(batch)

    # To the links

    def lock_next(self, queue: OutgoingQueue, owner: object) -> Position | None:
        """The next message to send, locked for `owner`; None while there is none, or it has to wait."""
        core = self._core
        if not queue.may_transmit:
            return None
        lookup_id = queue.available.first()
        while lookup_id is not None:
            try:
                position = queue.read_ahead(lookup_id, core.store)
            except LiorError as error:  # damaged: it stays for `lior doctor`, and the others go
                core.emit(StorageFailed(str(error)))
                lookup_id = queue.available.after(lookup_id)
                continue
            if position.expires and position.expires <= core.clock.wall() and not queue.must_outlast(position):
                self._removal.submit(position, self._removal.expiry_reason(position))
                lookup_id = queue.available.first()
                continue
            stream = queue.stream
            if stream is not None and stream.must_wait(position.message):
                return None
            queue.lock(position, owner)
            if stream is not None and stream.unread_from < lookup_id <= stream.unread_to:
                stream.unread_from = lookup_id  # it was the first: all below it is known
            return position
        return None

    def release(self, owner: object, positions: Iterable[Position]) -> None:
        """A link gives back what it has not got acknowledged: to its old place, to be sent again."""
        for position in positions:
            self._removal.release_from(owner, position)

    def previous_for(self, position: Position) -> int:
        """PreviousTxSequenceNumber, to be asked for each time the message is sent (QB-184, QB-185): the number of the
        message before it that is still here. If none is, the first time the last that was acknowledged, later none:
        a receiver that forgot the stream takes it then too."""
        message = position.message
        queue, stream, transaction = position.queue, None, message.transaction
        if isinstance(queue, OutgoingQueue):
            stream = queue.stream
        if transaction is None or stream is None or not stream.owns(message):
            return 0 if transaction is None else transaction.previous_sequence_number
        sequence_id, lookup_id = transaction.sequence_identifier, position.lookup_id
        first = lookup_id > stream.sent_to
        if first:
            assert message.identifier is not None
            stream.sent_to = lookup_id
            stream.unacked += 1
            self.finals.sent.add(message.identifier.uniquifier, (stream.queue, lookup_id))
            last, stream.last = stream.last, position
            if last is not None and last.state is State.LOCKED:  # so it is here, and no copy of what was
                known = last.message.transaction  # nearly always the one before it, and still here
                number = transaction.sequence_number - 1
                if known is not None and (known.sequence_identifier, known.sequence_number) == (sequence_id, number):
                    return number
        before = stream.entries.before(lookup_id)
        known_here = stream.queue.positions
        while before is not None:
            other = known_here.get(before) or self._at(stream.queue, before)
            if other is not None and other.message.transaction is not None:
                known = other.message.transaction
                return known.sequence_number if known.sequence_identifier == sequence_id else 0
            before = stream.entries.before(before)
        acked_id, acked = stream.acked
        return acked if first and acked_id == sequence_id and acked < transaction.sequence_number else 0

    def previous_for_all(self, queue: OutgoingQueue, positions: Sequence[Position]) -> list[int]:
        """As `previous_for` for each, in their order; they were locked just now to be sent."""
        found = [self.previous_for(positions[0])]
        stream, place, at = queue.stream, positions[0].message.transaction, 1
        if stream is not None and place is not None and stream.last is positions[0]:
            at = self._follow_on(stream, place, positions, found)
        return found + [self.previous_for(position) for position in positions[at:]]

    def _follow_on(
        self, stream: OutgoingStream, place: MessageTransaction, positions: Sequence[Position], found: list[int]
    ) -> int:
        """Those that follow the first one by one, and go for the first time as it does: nearly always all of them."""
        sequence_id, number, source, at = place.sequence_identifier, place.sequence_number, stream.source, 1
        sent_to, ordinals, places = stream.sent_to, list[int](), list[Place]()
        for position in islice(positions, 1, None):
            message, lookup_id = position.message, position.lookup_id
            known, identifier = message.transaction, message.identifier
            if (
                known is None or identifier is None or known.sequence_number != number + 1
                or known.sequence_identifier != sequence_id or message.source_queue_manager is not source
                or lookup_id <= sent_to
            ):  # fmt: skip
                break
            found.append(number)
            ordinals.append(identifier[1])
            places.append((stream.queue, lookup_id))
            number, sent_to, at = number + 1, lookup_id, at + 1
        stream.sent_to, stream.last = sent_to, positions[at - 1]
        stream.unacked += at - 1
        self.finals.sent.add_all(ordinals, places)
        return at

    def _at(self, queue: OutgoingQueue, lookup_id: int) -> Position | None:
        """The position of an entry; None if the message is damaged."""
        try:
            return queue.positions.get(lookup_id) or queue.read_ahead(lookup_id, self._core.store)
        except LiorError as error:
            self._core.emit(StorageFailed(str(error)))
            return None

    def _left(self, queue: OutgoingQueue, positions: Sequence[Position]) -> None:
        """Entries are gone from their queue, whatever the reason."""
        stream, sent = queue.stream, self.finals.sent
        assert stream is not None
        ordinals = [position.message.identifier[1] for position in positions]  # type: ignore[index]  # each has one
        sent.remove_all(ordinals, [(queue, position.lookup_id) for position in positions])
        transaction = positions[-1].message.transaction
        last = transaction is not None and transaction.sequence_identifier not in stream.counts
        if last and stream.counts and queue.available:
            self._core.emit(MessageAwaitsTransfer(queue))  # those of the next stream waited for this

    # Order acknowledgements

    def queue_of(self, sequence_id: int) -> OutgoingQueue | None:
        """The outgoing queue of a stream that has messages left."""
        return self._queues.get(sequence_id)

    def order_acked(self, change: Change, sequence_id: int, number: int) -> OutgoingQueue | None:
        """[MS-MQQB] 3.1.5.6: everything up to `number` was accepted, or refused for good. The queue of the stream;
        None for an acknowledgement to be ignored, of a stream that has nothing left or a number not given."""
        queue = self._queues.get(sequence_id)
        if queue is None or queue.stream is None or number < 1:
            return None
        stream = queue.stream
        if sequence_id == stream.sequence_id and number > stream.last_number:
            return None
        if (sequence_id, number) > stream.acked:
            stream.acked = sequence_id, number
        info = queue.transfer_info
        info.eod_last_ack = SequenceInfo(sequence_id, stream.acked[1], stream.acked[1] - 1)
        info.eod_last_ack_count += 1
        info.eod_last_ack_time = self._core.clock.wall()
        self._stage_acked(change, stream, sequence_id, number)
        return queue

    def _stage_acked(self, change: Change, stream: OutgoingStream, sequence_id: int, number: int) -> None:
        queue = stream.queue
        some = list(islice(self._up_to(stream, sequence_id, number), CHUNK))
        if not some:
            return
        gone: list[Position] = []
        waiting: list[Position] = []
        for position in some:
            self._removal.take(change, position)
            message = position.message
            wanted = message.negative_journaling_requested
            if queue.is_http:  # only who wants dead letters hears the end of a message (MC-MQSRM 3.1.5.1.8.3)
                if message.positive_journaling_requested and not wanted:
                    self._sending.stage_journal_copy(change, message)
            else:
                place = message.transaction
                final = place is not None and place.final_ack_required
                wanted = wanted or message.positive_journaling_requested or final
            if wanted:
                waiting.append(position)
                self.finals.moving.add(position.lookup_id)
            else:
                gone.append(position)
        if gone:
            change.operations.append(DeleteMessages(queue.queue_id, [position.lookup_id for position in gone]))
        row = self._awaiting.stage(change, queue, sequence_id, waiting) if waiting else 0
        change.either(self._acked, self._not_acked, stream, sequence_id, gone, waiting, row)
        if len(some) == CHUNK:
            change.then(self._ack_more, stream, sequence_id, number)

    def _up_to(self, stream: OutgoingStream, sequence_id: int, number: int) -> Iterator[Position]:
        """The messages that an acknowledgement is about and nobody else removes."""
        queue = stream.queue
        here = queue.positions
        for lookup_id in stream.entries:
            position = here.get(lookup_id) or self._at(queue, lookup_id)
            if position is None or position.message.transaction is None:
                continue
            known = position.message.transaction
            if (known.sequence_identifier, known.sequence_number) > (sequence_id, number):
                break  # a message of this run, perhaps, behind those that nobody has looked at since the start
            if known.sequence_identifier == sequence_id and not isinstance(position.owner, HELD):
                yield position
        for position in self._unread(stream):
            transaction = position.message.transaction
            if transaction is None or not stream.owns(position.message):
                continue
            if transaction.sequence_identifier != sequence_id or transaction.sequence_number > number:
                return
            yield position

    def _unread(self, stream: OutgoingStream) -> Iterator[Position]:
        """What was there at the start and was not looked at since; each is known when the next is asked for."""
        queue = stream.queue
        while stream.unread_from < stream.unread_to:
            lookup_id = queue.available.after(stream.unread_from)
            if lookup_id is None or lookup_id > stream.unread_to:
                stream.unread_from = stream.unread_to
                return
            position = self._at(queue, lookup_id)
            if position is not None:
                yield position
                stream.learn(position)
            stream.unread_from = lookup_id

    def _ack_more(self, stream: OutgoingStream, sequence_id: int, number: int) -> None:
        change = Change()
        self._stage_acked(change, stream, sequence_id, number)
        self._core.submit(change)

    def _acked(
        self, stream: OutgoingStream, sequence_id: int, gone: list[Position], waiting: list[Position], row: int
    ) -> None:
        if gone:
            self._removal.deleted_all(stream.queue, gone, MessageClass.ACK_REACH_QUEUE)
        if waiting:
            self._awaiting.arrived(row, stream.queue, sequence_id, waiting)
        for position in waiting:
            self.finals.moving.discard(position.lookup_id)
            stream.queue.delete(position)
            if self._core.fates is not None:
                self._core.fates.delivered(position)
            self._core.traffic.left(MessageClass.ACK_REACH_QUEUE)
            if self._core.message_listeners:
                self._core.emit_message(MessageDeleted(stream.queue, position.message, MessageClass.ACK_REACH_QUEUE))

    def _not_acked(
        self, stream: OutgoingStream, sequence_id: int, gone: list[Position], waiting: list[Position], row: int
    ) -> None:
        for position in (*gone, *waiting):
            self.finals.moving.discard(position.lookup_id)
            self._removal.put_back(position)

    # Final acknowledgements

    def final_acked(self, change: Change, source: UUID, ordinal: int, message_class: int, sequence_id: int = 0) -> bool:
        """See FinalAcknowledgements.acknowledged."""
        return self.finals.acknowledged(change, source, ordinal, message_class, sequence_id)

    def _search(self, ordinal: int, sequence_id: int) -> Place | None:
        """A message sent before a restart and not read since: all before it in its queue were sent too."""
        for queue in self._core.outgoing.values():
            if queue.stream is None or queue.stream.unread_from >= queue.stream.unread_to:
                continue
            for position in self._unread(queue.stream):
                transaction, identifier = position.message.transaction, position.message.identifier
                if transaction is None or identifier is None or not queue.stream.owns(position.message):
                    continue
                if identifier.uniquifier == ordinal and sequence_id in (0, transaction.sequence_identifier):
                    return queue, position.lookup_id
                if sequence_id and transaction.sequence_identifier > sequence_id:
                    break
        return None

    # Management

    def unconfirmed(self, queue: OutgoingQueue) -> int:
        """Messages of the queue that were delivered and wait for their final acknowledgement."""
        return self._awaiting.count(queue)

    def transfer_info(self, queue: OutgoingQueue) -> OutgoingTransferInfo:
        """What management shows of the stream, as it is now (QB-149, QB-176)."""
        stream, info = queue.stream, queue.transfer_info
        if stream is None:
            return info
        info.eod_no_ack_count = stream.unacked
        info.eod_no_read_count = self._awaiting.count(queue)
        first = stream.entries.first() if stream.unacked else None
        last = stream.entries.before(stream.sent_to + 1) if stream.unacked else None
        info.eod_first_non_ack = self._place(queue, first)
        info.eod_last_non_ack = self._place(queue, last)
        info.eod_next_seq = SequenceInfo(stream.sequence_id, stream.last_number + 1, stream.last_number)
        if stream.is_finished:
            info.eod_next_seq = SequenceInfo(self._time_stamp << 32 | self._ordinal + 1, 1, 0)
        return info

    def _place(self, queue: OutgoingQueue, lookup_id: int | None) -> SequenceInfo:
        position = None if lookup_id is None else self._at(queue, lookup_id)
        if position is None or position.message.transaction is None:
            return SequenceInfo()
        known = position.message.transaction
        return SequenceInfo(known.sequence_identifier, known.sequence_number, known.previous_sequence_number)
