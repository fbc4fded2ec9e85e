"""Recoverable messages that were sent to one queue in one turn of the loop, as one change with an answer for each.

What there is to do before the commit and after it for a change is done once for all of them. If the commit fails,
the change falls apart into changes of one message each, so that one that cannot be stored takes no other with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from lior.errors import LiorError
from lior.queues.change import Change, Reply
from lior.queues.ports import PutMessage

if TYPE_CHECKING:
    from lior.queues.position import Position
    from lior.queues.queue import Queue
    from lior.queues.stream import Batch, OutgoingStream

MOST: Final = 32  # messages of one change: what waits for its commit is counted in changes

Inserted = Callable[["Queue", "Sequence[Position]"], None]
Joined = Callable[["OutgoingStream", "Batch"], None]


class Sends(Change):
    __slots__ = ("_answered", "_inserted", "_joins", "_not_inserted", "_replies", "positions", "queue")

    def __init__(self, queue: Queue, inserted: Inserted, not_inserted: Inserted) -> None:
        super().__init__()
        self.queue = queue
        self.positions: list[Position] = []
        self._inserted = inserted
        self._not_inserted = not_inserted
        self._joins: list[tuple[Joined, Joined, OutgoingStream, Batch]] = []
        self._replies: list[Reply] = []
        self._answered = 0

    @property
    def has_steps(self) -> bool:
        return True

    def join(self, joined: Joined, not_joined: Joined, stream: OutgoingStream, batch: Batch) -> None:
        """The messages whose lookup ids are in the batch get their place in a stream."""
        self._joins.append((joined, not_joined, stream, batch))

    def answer(self, reply: Reply, value: Any = None) -> None:
        """One for each message, in their order: the message's identifier."""
        self._replies.append(reply)

    def finish(self) -> None:
        super().finish()
        for joined, _, stream, batch in self._joins:
            joined(stream, batch)
        self._inserted(self.queue, self.positions)
        for reply, position in zip(self._replies, self.positions, strict=True):
            self._answered += 1
            if not reply.cancelled():
                reply.set_result(position.message.identifier)

    def lost(self, error: LiorError) -> None:
        for reply in self._replies[self._answered :]:
            if not reply.cancelled():
                reply.set_exception(error)

    def fail(self, error: LiorError) -> None:
        self._not_inserted(self.queue, self.positions)
        for _, not_joined, stream, batch in reversed(self._joins):
            not_joined(stream, batch)
        super().fail(error)
        self.lost(error)

    @property
    def count(self) -> int:
        return len(self.positions)

    def parts(self) -> list[Change]:
        """The same, one message each; what else there is to store goes with the first."""
        if len(self.positions) < 2:
            return [self]
        puts = [operation for operation in self.operations if isinstance(operation, PutMessage)]
        others = [operation for operation in self.operations if not isinstance(operation, PutMessage)]
        found: list[Change] = []
        for position, put, reply in zip(self.positions, puts, self._replies, strict=True):
            part = Sends(self.queue, self._inserted, self._not_inserted)
            part.operations = [*others, put]
            part._steps, self._steps, others = self._steps, (), []
            part.ordered = self.ordered
            part.positions.append(position)
            part._replies.append(reply)
            for joined, not_joined, stream, batch in self._joins:
                if position.lookup_id in batch.lookup_ids:
                    part.join(joined, not_joined, stream, stream.alone(batch, position.lookup_id))
            found.append(part)
        return found
