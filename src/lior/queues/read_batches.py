"""Many two-phase reads of one queue at a time: the first messages handed out together, and what their reader said that
it has taken out in one change, with one step after the commit and an answer for each.

As in `Batches`, what is unusual about a message or its queue is left to the calls for one, in `Reading`, which these
calls agree with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from lior.errors import LiorError
from lior.message import MessageClass
from lior.queues.change import Change
from lior.queues.descriptor import RECEIVE_ACCESS, OpenQueueDescriptor, TwoPhaseRead
from lior.queues.outgoing import OutgoingQueue
from lior.queues.ports import DeleteMessages
from lior.queues.position import Position, State
from lior.queues.queue import Queue

if TYPE_CHECKING:
    from lior.queues.core import Core
    from lior.queues.reading import Reading
    from lior.queues.removal import Removal

MOST: Final = 64  # reads of one change: what waits for its commit is counted in changes
_LOCKED: Final = State.LOCKED
_RECEIVED: Final = MessageClass.ACK_RECEIVE

Told = Callable[[Sequence[Any], LiorError | None], None]  # the callers of reads, and why they did not end


class Ends(Change):
    """Two-phase reads of one queue that end with their messages taken. If the commit fails, the change falls apart into
    changes of one read each."""

    __slots__ = ("_batches", "_callers", "_told", "_untold", "queue", "reads")

    def __init__(
        self, batches: ReadBatches, queue: Queue, reads: Sequence[TwoPhaseRead], callers: Sequence[Any], told: Told
    ) -> None:
        super().__init__()
        self.queue = queue
        self.reads = reads
        self._batches = batches
        self._callers = callers
        self._told = told
        self._untold = True
        stored = [read.position.lookup_id for read in reads if read.position.stored]
        if stored:
            self.operations.append(DeleteMessages(queue.queue_id, stored))
        for read in reads:
            read.position.owner = self

    @property
    def has_steps(self) -> bool:
        return True

    def finish(self) -> None:
        self._batches.ended(self.queue, [read.position for read in self.reads])
        self._untold = False
        self._told(self._callers, None)

    def lost(self, error: LiorError) -> None:
        if self._untold:
            self._untold = False
            self._told(self._callers, error)

    def fail(self, error: LiorError) -> None:
        self._batches.not_ended(self.reads)
        self.lost(error)

    @property
    def count(self) -> int:
        return len(self.reads)

    def parts(self) -> list[Change]:
        if len(self.reads) < 2:
            return [self]
        return [Ends(self._batches, self.queue, (read,), (caller,), self._told)
                for read, caller in zip(self.reads, self._callers, strict=True)]


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
        core, change = self._core, Ends(self, queue, reads, callers, told)
        core.submit(change)
        if core.pending and core.pending[-1] is change:
            for _ in range(len(reads) - 1):
                core.joined_pending()
        return True

    # What became of it

    def ended(self, queue: Queue, positions: Sequence[Position]) -> None:
        self._removal.deleted_all(queue, positions, _RECEIVED)

    def not_ended(self, reads: Sequence[TwoPhaseRead]) -> None:
        """The readers may end them again, those that are still there."""
        for read in reversed(reads):
            read.position.owner = read
            self._reading.not_ended(read)
