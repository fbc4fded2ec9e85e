"""The exactly-once messages of one outgoing queue that we originate ([MS-MQQB] 3.1.1.3.1): which they are, and how
far they got. Numbers grow with lookup ids, so eight bytes for each message do; the numbers are in the messages.

After a restart the store knows the messages, and we learn which of them are ours when they are read: everything is
known up to `unread_from`, and what was not there yet at the start is above `unread_to`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from lior.message import Message
from lior.queues.index import LookupIndex

if TYPE_CHECKING:
    from lior.queues.change import Change
    from lior.queues.outgoing import OutgoingQueue
    from lior.queues.position import Position

LOWEST: Final = 7 << 56  # of the lookup ids that messages of a transaction can have: their priority is 0


class Batch:
    """Messages of one stream that one change puts into the queue."""

    __slots__ = ("lookup_ids", "sequence_id")

    def __init__(self, sequence_id: int) -> None:
        self.sequence_id = sequence_id
        self.lookup_ids: list[int] = []


class OutgoingStream:
    __slots__ = (
        "acked",
        "batch",
        "change",
        "counts",
        "entries",
        "last",
        "last_number",
        "left",
        "queue",
        "sent_to",
        "sequence_id",
        "source",
        "staged",
        "streams",
        "unacked",
        "unread_from",
        "unread_to",
    )

    def __init__(
        self,
        queue: OutgoingQueue,
        source: UUID,
        streams: dict[int, OutgoingQueue],
        left: Callable[[OutgoingQueue, Sequence[Position]], None],
    ) -> None:
        self.queue = queue
        self.source = source
        self.streams = streams  # of all queues: where the messages of each stream are
        self.left = left  # told of the entries that are gone
        self.entries = LookupIndex()  # in the queue, on disk, and known to be ours
        self.counts: dict[int, int] = {}  # of each stream; there is more than one only after a restart
        self.sequence_id = 0  # of the stream that new messages join; none yet in this run
        self.last_number = 0
        self.staged = 0  # messages of that stream in changes that are not decided
        self.change: Change | None = None  # the last that put messages in, and which
        self.batch = Batch(0)
        self.sent_to = 0  # the highest lookup id that was transmitted in this run
        self.last: Position | None = None  # and where it stands
        self.unacked = 0  # entries that were
        self.acked = (0, 0)  # stream and number of the last order acknowledgement
        self.unread_from = self.unread_to = LOWEST - 1

    def owns(self, message: Message) -> bool:
        return message.transaction is not None and message.source_queue_manager == self.source

    @property
    def is_finished(self) -> bool:
        """Nothing is left of the stream that new messages join: the next one begins another (QB-148)."""
        return not self.staged and self.sequence_id not in self.counts

    def alone(self, batch: Batch, lookup_id: int) -> Batch:
        """One message of a batch that falls apart; nothing joins it any more."""
        if self.batch is batch:
            self.change = None
        one = Batch(batch.sequence_id)
        one.lookup_ids.append(lookup_id)
        return one

    def joined(self, batch: Batch) -> None:
        """The change that holds the messages is on disk."""
        self.decided(batch)
        self.add_all(batch.lookup_ids, batch.sequence_id)

    def decided(self, batch: Batch) -> None:
        """Numbers of a change that failed are not used again: the next message names the one before them."""
        if batch.sequence_id == self.sequence_id:
            self.staged -= len(batch.lookup_ids)
        if self.batch is batch:
            self.change = None

    def add(self, lookup_id: int, sequence_id: int) -> None:
        self.entries.add(lookup_id)
        if sequence_id in self.counts:
            self.counts[sequence_id] += 1
        else:
            self.counts[sequence_id] = 1
            self.streams[sequence_id] = self.queue

    def add_all(self, lookup_ids: list[int], sequence_id: int) -> None:
        if lookup_ids:
            self.entries.extend(lookup_ids)
            self.counts[sequence_id] = self.counts.get(sequence_id, 0) + len(lookup_ids)
            self.streams[sequence_id] = self.queue

    def learn(self, position: Position) -> None:
        """A message that was there at the start is read: it may be ours."""
        lookup_id, transaction = position.lookup_id, position.message.transaction
        if transaction is None or not self.unread_from < lookup_id <= self.unread_to:
            return
        if lookup_id not in self.entries and self.owns(position.message):
            self.add(lookup_id, transaction.sequence_identifier)

    def forget(self, position: Position) -> None:
        """A message left the queue, whatever the reason."""
        if self.last is position:
            self.last = None
        transaction = position.message.transaction
        if transaction is None or not self.entries.discard(position.lookup_id):
            return
        if position.lookup_id <= self.sent_to:
            self.unacked -= 1
        sequence_id = transaction.sequence_identifier
        left = self.counts[sequence_id] - 1
        if left:
            self.counts[sequence_id] = left
        else:
            del self.counts[sequence_id], self.streams[sequence_id]
        self.left(self.queue, (position,))

    def forget_all(self, positions: Sequence[Position]) -> None:
        """As `forget` for each."""
        if self.last in positions:
            self.last = None
        ids = [position.lookup_id for position in positions]
        place = positions[0].message.transaction
        whole = place is not None and self.entries.head(len(ids)) == ids and {
            None if message.transaction is None else message.transaction.sequence_identifier
            for message in [position.message for position in positions]
        } == {place.sequence_identifier}
        if not whole or place is None or ids[-1] > self.sent_to:
            for position in positions:
                self.forget(position)
            return
        self.entries.discard_head(len(ids))
        self.unacked -= len(ids)
        sequence_id = place.sequence_identifier
        left = self.counts[sequence_id] - len(ids)
        if left:
            self.counts[sequence_id] = left
        else:
            del self.counts[sequence_id], self.streams[sequence_id]
        self.left(self.queue, positions)

    def must_wait(self, message: Message) -> bool:
        """Whether messages of an older stream are there: who took one of the newer would refuse them for ever."""
        transaction = message.transaction
        if transaction is None or not self.counts or not self.owns(message):
            return False
        return transaction.sequence_identifier > min(self.counts)
