"""Messages that are order-acknowledged and wait for their final acknowledgement ([MS-MQQB] 3.1.1.3.1,
AwaitingFinalACKTable): in a hidden queue of their own, found by the ordinal of their identifier.

In memory each is one number. State rows written with the moves tell after a restart where they are, so that no
message has to be read for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from struct import Struct
from typing import Any, Final, NamedTuple

from lior.errors import LiorError
from lior.message import Message
from lior.queues.by_ordinal import ByOrdinal
from lior.queues.change import Change
from lior.queues.core import Core
from lior.queues.events import StorageFailed
from lior.queues.expiry import time_to_be_received_end
from lior.queues.ports import DeleteMessage, DeleteState, LoadedState, MoveMessage, PutState
from lior.queues.position import Position
from lior.queues.queue import AWAITING_FINAL, Queue

AWAITING: Final = "awaiting"  # the kind under which the store keeps which message is where
MARGIN: Final = 3600  # seconds after the time to be received in which the final acknowledgement may still come

_HEAD: Final = Struct("<QQ")  # outgoing queue, stream
_ENTRY: Final = Struct("<IQIB")  # ordinal, lookup id, size, what is to be done
_LOOKUP_MASK: Final = (1 << 64) - 1
_SIZE_SHIFT, _FLAGS_SHIFT, _ROW_SHIFT = 64, 96, 98
_JOURNAL, _DEAD_LETTER = 1, 2


class AwaitingQueue(Queue):
    """Hidden from applications; its bytes count as those of any queue, for they are messages to be delivered."""

    margin = MARGIN

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.is_system = False

    def end_of(self, message: Message) -> int:
        end = time_to_be_received_end(message)
        return end and ceil(end + self.margin)


class Row(NamedTuple):
    """What one state row is about."""

    queue_id: int
    sequence_id: int


class Found(NamedTuple):
    """A message that waits: where it is, and what its final acknowledgement may call for."""

    packed: int

    @property
    def lookup_id(self) -> int:
        return self.packed & _LOOKUP_MASK

    @property
    def size(self) -> int:
        return self.packed >> _SIZE_SHIFT & 0xFFFFFFFF

    @property
    def to_journal(self) -> bool:
        return bool(self.packed >> _FLAGS_SHIFT & _JOURNAL)

    @property
    def to_dead_letters(self) -> bool:
        return bool(self.packed >> _FLAGS_SHIFT & _DEAD_LETTER)

    @property
    def row(self) -> int:
        return self.packed >> _ROW_SHIFT


class Awaiting:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._entries: ByOrdinal[int] = ByOrdinal()
        self._rows: dict[int, Row] = {}
        self._left: dict[int, int] = {}  # entries of each row
        self._next_row = 0
        self._spent: list[int] = []  # rows to delete with the next change
        self._by_queue: dict[int, int] = {}

    @property
    def queue(self) -> Queue:
        return self._core.paths[f"private$\\{AWAITING_FINAL}"]

    def count(self, outgoing: Queue) -> int:
        """Messages of this outgoing queue that wait here."""
        return self._by_queue.get(outgoing.queue_id, 0)

    # In: with the order acknowledgement

    def stage(self, change: Change, outgoing: Queue, sequence_id: int, positions: Sequence[Position]) -> int:
        """Move the messages here; the number of their row, for `arrived`. Whoever calls holds the positions."""
        target = self.queue.queue_id
        data = [_HEAD.pack(outgoing.queue_id, sequence_id)]
        for position in positions:
            message = position.message
            change.operations.append(
                MoveMessage(outgoing.queue_id, position.lookup_id, target, position.lookup_id, 0, 0, 0.0)
            )
            data.append(_ENTRY.pack(_ordinal(message), position.lookup_id, position.size, _flags(message)))
        row = self._next_row
        self._next_row += 1
        self._delete_spent(change)
        change.operations.append(PutState(AWAITING, str(row), b"".join(data)))
        return row

    def arrived(self, row: int, outgoing: Queue, sequence_id: int, positions: Sequence[Position]) -> None:
        self._rows[row] = Row(outgoing.queue_id, sequence_id)
        queue = self.queue
        for position in positions:
            message = position.message
            self._add(row, _ordinal(message), position.lookup_id, position.size, _flags(message))
            queue.available.add(position.lookup_id)
            queue.total_bytes += position.size
            end = queue.end_of(message)
            if end:
                self._core.expiries.add(end, queue.queue_id, position.lookup_id)

    def _add(self, row: int, ordinal: int, lookup_id: int, size: int, flags: int) -> None:
        self._entries.add(ordinal, row << _ROW_SHIFT | flags << _FLAGS_SHIFT | size << _SIZE_SHIFT | lookup_id)
        self._left[row] = self._left.get(row, 0) + 1
        queue_id = self._rows[row].queue_id
        self._by_queue[queue_id] = self._by_queue.get(queue_id, 0) + 1

    # Out: with the final acknowledgement, or when none came

    def find(self, ordinal: int, sequence_id: int = 0) -> Found | None:
        """`sequence_id` tells copies for several destinations apart."""
        found = self._entries.get(ordinal)
        if len(found) > 1:
            found = [packed for packed in found if self._rows[packed >> _ROW_SHIFT].sequence_id == sequence_id] or found
        return Found(found[0]) if found else None

    def find_position(self, position: Position) -> Found | None:
        for packed in self._entries.get(_ordinal(position.message)):
            if packed & _LOOKUP_MASK == position.lookup_id:
                return Found(packed)
        return None

    def message(self, found: Found) -> Message | None:
        try:
            return self.queue.position(found.lookup_id, self._core.store).message
        except LiorError as error:  # damaged
            self._core.emit(StorageFailed(str(error)))
            return None

    def stage_removal(self, change: Change, ordinal: int, found: Found) -> None:
        """Out of sight at once, gone with the change."""
        self._take_out(ordinal, found)
        self._delete_spent(change)
        change.operations.append(DeleteMessage(self.queue.queue_id, found.lookup_id))
        change.either(self._removed, self._not_removed, ordinal, found)

    def remove(self, position: Position) -> bool:
        """In memory, when a change deleted it that was made before the message had come here."""
        ordinal, found = _ordinal(position.message), self.find_position(position)
        if found is None:
            return False
        self._take_out(ordinal, found)
        self._removed(ordinal, found)
        return True

    def _take_out(self, ordinal: int, found: Found) -> None:
        queue = self.queue
        self._entries.remove(ordinal, found.packed)
        queue.available.discard(found.lookup_id)
        queue.unavailable += 1

    def _removed(self, ordinal: int, found: Found) -> None:
        queue, row = self.queue, found.row
        queue.unavailable -= 1
        queue.total_bytes -= found.size
        self._core.count_bytes(queue, -found.size)
        self._by_queue[self._rows[row].queue_id] -= 1
        self._left[row] -= 1
        if not self._left[row]:
            del self._left[row], self._rows[row]
            self._spent.append(row)

    def _not_removed(self, ordinal: int, found: Found) -> None:
        queue = self.queue
        queue.unavailable -= 1
        queue.available.add(found.lookup_id)
        self._entries.add(ordinal, found.packed)

    def _delete_spent(self, change: Change) -> None:
        if self._spent:
            rows, self._spent = self._spent, []
            change.operations += [DeleteState(AWAITING, str(row)) for row in rows]
            change.otherwise(self._spent_again, rows)

    def _spent_again(self, rows: Iterable[int]) -> None:
        self._spent += rows

    # At start

    def restore(self, state: LoadedState) -> None:
        there = self.queue.available
        for (kind, key), value in state.state.items():
            if kind != AWAITING:
                continue
            row = int(key)
            self._next_row = max(self._next_row, row + 1)
            self._rows[row] = Row(*_HEAD.unpack_from(value))
            for ordinal, lookup_id, size, flags in _ENTRY.iter_unpack(value[_HEAD.size :]):
                if lookup_id in there:
                    self._add(row, ordinal, lookup_id, size, flags)
            if row not in self._left:
                del self._rows[row]
                self._spent.append(row)


def _ordinal(message: Message) -> int:
    assert message.identifier is not None  # the queue manager gave it
    return message.identifier.uniquifier


def _flags(message: Message) -> int:
    return (_JOURNAL if message.positive_journaling_requested else 0) | (
        _DEAD_LETTER if message.negative_journaling_requested else 0
    )
