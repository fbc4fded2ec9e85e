"""Many two-phase reads of one queue at a time: the first messages handed out together, and what their reader said that
it has taken out in one change, with one step after the commit and an answer for each.

As in `Batches`, what is unusual about a message or its queue is left to the calls for one, in `Reading`, which these
calls agree with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lior.errors import LiorError
from lior.message import MessageClass
from lior.queues.descriptor import RECEIVE_ACCESS, OpenQueueDescriptor, TwoPhaseRead
from lior.queues.many import MOST, Many, Told
from lior.queues.outgoing import OutgoingQueue
from lior.queues.ports import DeleteMessage, DeleteMessages, Operation
from lior.queues.position import Position, State
from lior.queues.queue import Queue

if TYPE_CHECKING:
    from lior.queues.core import Core
    from lior.queues.reading import Reading
    from lior.queues.removal import Removal

_LOCKED: Final = State.LOCKED
_RECEIVED: Final = MessageClass.ACK_RECEIVE


class Ends(Many):
    """Two-phase reads that end with their messages taken."""

    __slots__ = ("_batches", "queue")

    def __init__(
        self, batches: ReadBatches, queue: Queue, reads: Sequence[TwoPhaseRead], callers: Sequence[Any], told: Told
    ) -> None:
        super().__init__(reads, callers, told)
        self.queue = queue
        self._batches = batches
        for read in reads:
            read.position.owner = self

    def done(self) -> None:
        self._batches.ended(self.queue, [read.position for read in self.items])

    def undone(self) -> None:
        self._batches.not_ended(self.items)

    def operation(self, at: int) -> Operation | None:
        position = self.items[at].position
        return DeleteMessage(self.queue.queue_id, position.lookup_id) if position.stored else None

    def shared(self) -> list[Operation]:
        return []

    def part(self, at: int) -> Ends:
        return Ends(self._batches, self.queue, self.items[at : at + 1], self._callers[at : at + 1], self._told)


class ReadBatches:
    def __init__(self, core: Core, reading: Reading, removal: Removal) -> None:
        self._core = core
        self._reading = reading
        self._removal = removal

    def take(self, descriptor: OpenQueueDescriptor, most: int) -> list[TwoPhaseRead]:
        """As `Reading.receive` in two phases for the first messages of the queue, at most so many. None or fewer: the
        next has to wait, or is for the call for one to look at."""
        queue, core = descriptor.queue, self._core
        if queue is None or descriptor.access not in RECEIVE_ACCESS:
            return []
        if isinstance(queue, OutgoingQueue) or core.broken is not None:
            return []
        head = queue.available.head(most)
        if not head:
            return []
        try:
            first = queue.read_ahead(head[0], core.store)
        except LiorError:
            return []
        known = queue.positions
        found: list[Position] = []
        for lookup_id in head:
            position = known.get(lookup_id) if found else first
            if position is None or position.message.allow_peek_when_locked:
                break
            found.append(position)
        if not found:
            return []
        known[first.lookup_id] = first  # it may have been in the store alone
        reads: list[TwoPhaseRead] = []
        two_phase, handle = self._reading.two_phase, core.handle
        queue.lock_first(found, None)
        for position in found:
            read = TwoPhaseRead(handle(), descriptor, position)
            two_phase[read.handle] = read
            position.owner = read
            reads.append(read)
        return reads

    def end(self, reads: Sequence[TwoPhaseRead], callers: Sequence[Any], told: Told) -> bool:
        """As `Reading.end` for each, with the message taken, if nothing follows from it but that it is gone. All are of
        one queue. False: nothing was done."""
        queue, two_phase = reads[0].descriptor.queue, self._reading.two_phase
        if queue is None or isinstance(queue, OutgoingQueue) or queue.claimed or len(reads) > MOST or (
                queue.main.properties.journaling and not queue.is_system):
            return False
        for read in reads:
            position = read.position
            message = position.message
            if (
                position.state is not _LOCKED or position.owner is not read or position.queue is not queue
                or read.handle not in two_phase or read.descriptor.queue is not queue
                or message.transaction is not None or message.administration_queue or message.failure_reason
            ):  # fmt: skip
                return False
        for read in reads:
            del two_phase[read.handle]
        change = Ends(self, queue, reads, callers, told)
        stored = [read.position.lookup_id for read in reads if read.position.stored]
        if stored:
            change.operations.append(DeleteMessages(queue.queue_id, stored))
        self._core.submit(change)
        return True

    # What became of it

    def ended(self, queue: Queue, positions: Sequence[Position]) -> None:
        self._removal.deleted_all(queue, positions, _RECEIVED)

    def not_ended(self, reads: Sequence[TwoPhaseRead]) -> None:
        """The readers may end them again, those that are still there."""
        for read in reversed(reads):
            read.position.owner = read
            self._reading.not_ended(read)
