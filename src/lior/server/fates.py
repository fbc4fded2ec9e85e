"""The recorder: gathers what becomes of messages on the loop, and has a thread of its own write it down.

On the loop a row is packed into a buffer by one call into C: no object stays behind that the garbage collector has to
follow, and the thread has next to nothing to do that needs the interpreter. Ten times a second it gets what there is.
When it falls behind, rows are left out and counted: the record never holds up a message.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from struct import Struct
from struct import error as StructError
from typing import Final
from uuid import UUID
from weakref import WeakSet

from lior.errors import InvalidParameter
from lior.message import NULL_CORRELATION_ID, Message, ObjectId
from lior.queues.acknowledgements import POSITIVE
from lior.queues.core import Clock
from lior.queues.fates import Fate, Removed
from lior.queues.moving import POISON
from lior.queues.position import Position
from lior.queues.queue import Queue
from lior.server.engine import Engine
from lior.store.fate_chunks import CHUNK_ROWS, ROW, Rows
from lior.store.fates import DAYS, MOST_ROWS, FateLog, Found
from lior.store.search import Wanted

log = logging.getLogger("lior.fates")

ALL: Final = "all"
FAILURES: Final = "failures"
OFF: Final = "off"
LEVELS: Final = (ALL, FAILURES, OFF)

INTERVAL: Final = 0.1  # seconds that a row waits for its batch
MOST_WAITING: Final = 256 * 1024  # rows that the thread has yet to write
_SIZE: Final = ROW.size
_BUFFER: Final = _SIZE * CHUNK_ROWS
_pack: Final = ROW.pack_into
# The same row in two: what is different in each of many, and what is not
_END: Final = Struct("<dIHB")
_pack_row: Final = Struct(f"<IHQ{_END.size}s").pack_into
_NO_QUEUE: Final = ("", "")
# Plain numbers: looking one up in the enumeration costs as much as the rest of a row
_ARRIVED, _EXPRESS, _REMOVED, _HANDED = (
    int(fate) for fate in (Fate.ARRIVED, Fate.ARRIVED_EXPRESS, Fate.REMOVED, Fate.HANDED)
)


class Recorder:
    """Everything that becomes of messages."""

    level = ALL

    def __init__(
        self, file: FateLog, clock: Clock, own: Callable[[], UUID], *, most_waiting: int = MOST_WAITING
    ) -> None:
        self._file = file
        self._wall = clock.wall
        self.started = clock.wall()
        self._whose = own
        self._most_waiting = most_waiting
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray(_BUFFER)
        self._resting = True  # no flush is planned
        self._handed_over = 0  # rows, counted by the loop
        self._written = 0  # rows, counted by the thread
        self._left_out = 0  # rows, since the last batch
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._failed = False
        self._begin()
        _recorders.add(self)

    def _begin(self) -> None:
        self._at = 0
        self._own = self._whose()  # the lineage of nearly every message, as the object that those have
        self._places: dict[Queue | None, int] = {}
        self._lineages: dict[int, int] = {self._own.int: 0}
        self._labels: dict[int, str] = {}
        self._details: dict[int, str] = {}
        self._correlations: dict[int, bytes] = {}

    # What the queues tell. The first two come for every message and spell out what `_tell` does.

    def arrived(self, position: Position) -> None:
        message, queue, at = position.message, position.queue, self._at
        try:
            lineage, number = message.identifier  # type: ignore[misc]
            place = self._places.get(queue)
            _pack(
                self._buffer, at, number, 0 if lineage is self._own else self._lineage(lineage), position.lookup_id,
                position.arrival_time, message.failure_reason or message.message_class,
                self._place(queue) if place is None else place, _ARRIVED if position.stored else _EXPRESS,
            )  # fmt: skip
        except (StructError, TypeError):
            self._left_out += 1
            return
        if message.label:
            self._labels[at] = message.label
        if message.failed_destination:
            self._details[at] = message.failed_destination
        if message.correlation_id is not NULL_CORRELATION_ID:
            self._correlations[at] = message.correlation_id
        self._at = at + _SIZE
        if self._resting or self._at == _BUFFER:
            self._plan()

    def removed(self, position: Position, reason: int) -> None:
        message, queue, at = position.message, position.queue, self._at
        try:
            lineage, number = message.identifier  # type: ignore[misc]
            place = self._places.get(queue)
            _pack(
                self._buffer, at, number, 0 if lineage is self._own else self._lineage(lineage), position.lookup_id,
                self._wall(), reason, self._place(queue) if place is None else place, _REMOVED,
            )  # fmt: skip
        except (StructError, TypeError):
            self._left_out += 1
            return
        if message.label:
            self._labels[at] = message.label
        if message.correlation_id is not NULL_CORRELATION_ID:
            self._correlations[at] = message.correlation_id
        self._at = at + _SIZE
        if self._resting or self._at == _BUFFER:
            self._plan()

    # And of many at once: the same rows, without a call for each. A batch that arrived has the time of its last.

    def arrived_all(self, positions: Sequence[Position]) -> None:
        stored = positions[0].stored
        for position in positions:
            message = position.message
            if message.failure_reason or message.message_class or message.failed_destination \
                    or position.stored is not stored:
                for each in positions:
                    self.arrived(each)
                return
        self._tell_all(_ARRIVED if stored else _EXPRESS, positions, positions[-1].arrival_time, 0, "")

    def removed_all(self, positions: Sequence[Removed], reason: int) -> None:
        self._tell_all(_REMOVED, positions, self._wall(), reason, "")

    def handed_all(self, positions: Sequence[Position], hop: str) -> None:
        self._tell_all(_HANDED, positions, self._wall(), 0, hop)

    def _tell_all(self, fate: int, positions: Sequence[Removed], now: float, reason: int, detail: str) -> None:
        own, details, correlations = self._own, self._details, self._correlations
        buffer, at, queue, end = self._buffer, self._at, None, b""
        last, whose = own, 0  # messages of one sender stand together
        for position in positions:
            message = position.message
            try:
                if position.queue is not queue:
                    queue = position.queue
                    end = _END.pack(now, reason, self._place(queue), fate)
                lineage, number = message.identifier  # type: ignore[misc]
                if lineage is not last:
                    last, whose = lineage, 0 if lineage is own else self._lineage(lineage)
                _pack_row(buffer, at, number, whose, position.lookup_id, end)
            except (StructError, TypeError):
                queue = None
                self._left_out += 1
                continue
            if message.label:
                self._labels[at] = message.label
            if detail:
                details[at] = detail
            if message.correlation_id is not NULL_CORRELATION_ID:
                correlations[at] = message.correlation_id
            self._at = at = at + _SIZE
            if at == _BUFFER:  # all of these are new then
                self._hand_over()
                own, details, correlations = self._own, self._details, self._correlations
                buffer, at, queue = self._buffer, self._at, None
                last, whose = own, 0
        if self._resting and at:
            self._plan()

    def handed(self, position: Position, hop: str) -> None:
        self._about(Fate.HANDED, position.queue, position.lookup_id, 0, position.message, hop)

    def refused(self, queue: Queue | None, message: Message, reason: int) -> None:
        self._about(Fate.REFUSED, queue, 0, reason, message, message.destination_queue)

    def moved(self, position: Position, moved: Position) -> None:
        self._about(Fate.MOVED, moved.queue, moved.lookup_id, 0, moved.message, position.queue.name)

    def given_back(self, position: Position) -> None:
        self._about(Fate.GIVEN_BACK, position.queue, position.lookup_id, position.abort_count, position.message)

    def dropped(self, message: Message, where: str, why: str) -> None:
        self._about(Fate.DROPPED, None, 0, message.message_class, message, f"{where}: {why}")

    def delivered(self, position: Position) -> None:
        self._about(Fate.DELIVERED, position.queue, position.lookup_id, 0, position.message)

    def confirmed(self, identifier: ObjectId, reason: int) -> None:
        self._tell(Fate.CONFIRMED, None, 0, reason, identifier)

    def _about(
        self, fate: Fate, queue: Queue | None, lookup_id: int, reason: int, message: Message, detail: str = ""
    ) -> None:
        self._tell(fate, queue, lookup_id, reason, message.identifier, message.label, message.correlation_id, detail)

    def _tell(
        self, fate: Fate, queue: Queue | None, lookup_id: int, reason: int, identifier: ObjectId | None,
        label: str = "", correlation_id: bytes = NULL_CORRELATION_ID, detail: str = "",
    ) -> None:  # fmt: skip
        at = self._at
        try:
            lineage, number = identifier  # type: ignore[misc]
            _pack(self._buffer, at, number, self._lineage(lineage), lookup_id, self._wall(), reason,
                  self._place(queue), int(fate))  # fmt: skip
        except (StructError, TypeError):
            self._left_out += 1
            return
        if label:
            self._labels[at] = label
        if detail:
            self._details[at] = detail
        if correlation_id is not NULL_CORRELATION_ID:
            self._correlations[at] = correlation_id
        self._at = at + _SIZE
        if self._resting or self._at == _BUFFER:
            self._plan()

    def _lineage(self, lineage: UUID) -> int:
        """By its number: hashing the GUID itself runs Python code."""
        return self._lineages.setdefault(lineage.int, len(self._lineages))

    def _place(self, queue: Queue | None) -> int:
        return self._places.setdefault(queue, len(self._places))

    # To the thread

    def _plan(self) -> None:
        if self._at == _BUFFER:
            self._hand_over()
        elif not self._loop.is_closed():
            self._resting = False
            self._loop.call_later(INTERVAL, self.flush)

    def flush(self) -> None:
        self._resting = True
        self._hand_over()

    def _hand_over(self) -> None:
        """What was gathered goes to the thread, or is left out if that is too far behind."""
        count = self._at // _SIZE
        if count and self._handed_over - self._written + count > self._most_waiting:
            self._left_out += count
        elif count and not self._closed:
            rows = Rows(bytes(memoryview(self._buffer)[: self._at]), [], [], self._labels, self._details,
                        self._correlations)  # fmt: skip
            lost, self._left_out = self._left_out, 0
            self._handed_over += count
            self._give(partial(self._write, rows, self._lineages, self._places, lost))
        if count:
            self._begin()

    def _give(self, work: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="lior-fates", daemon=True)
            self._thread.start()
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:  # the record is never in the way of the queue manager
                if not self._failed:
                    log.exception("a defect in Lior, please report it: the record of fates")
                self._failed = True
        self._file.close()

    def _write(self, rows: Rows, lineages: dict[int, int], places: dict[Queue | None, int], lost: int) -> None:
        rows.lineages = [UUID(int=number) for number in lineages]
        rows.queues = [_NO_QUEUE if queue is None else (queue.name, queue.kind.value) for queue in places]
        self._file.append(rows, lost)
        self._written += len(rows)

    async def find(self, wanted: Wanted) -> Found:
        """What the record has, up to now."""
        self.flush()
        answer: asyncio.Future[Found] = self._loop.create_future()

        def look() -> None:
            found = self._file.find(wanted)
            self._loop.call_soon_threadsafe(_answer, answer, found)

        if self._closed:
            return Found([], [])
        self._give(look)
        return await answer

    def close(self) -> None:
        """Write what is left. What comes later is not recorded."""
        self.flush()
        if self._closed:
            return
        if self._left_out:
            self._give(lambda: self._file.lose(self._left_out))
        self._closed = True
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()


class FailureRecorder(Recorder):
    """What went wrong: dead letters, refusals, expiry, purges, aborts, poison, what could not be kept."""

    level = FAILURES

    def arrived(self, position: Position) -> None:
        if position.message.failure_reason:
            super().arrived(position)

    def arrived_all(self, positions: Sequence[Position]) -> None:
        for position in positions:
            self.arrived(position)

    def removed(self, position: Position, reason: int) -> None:
        if reason not in POSITIVE:
            super().removed(position, reason)

    def removed_all(self, positions: Sequence[Removed], reason: int) -> None:
        if reason not in POSITIVE:
            super().removed_all(positions, reason)

    def handed(self, position: Position, hop: str) -> None:
        pass

    def handed_all(self, positions: Sequence[Position], hop: str) -> None:
        pass

    def moved(self, position: Position, moved: Position) -> None:
        if moved.queue.path is not None and moved.queue.path.subqueue == POISON:
            super().moved(position, moved)

    def delivered(self, position: Position) -> None:
        pass

    def confirmed(self, identifier: ObjectId, reason: int) -> None:
        if reason not in POSITIVE:
            super().confirmed(identifier, reason)


def recorder(
    level: str,
    directory: Path | None,
    clock: Clock,
    own: Callable[[], UUID],
    *,
    most_rows: int = MOST_ROWS,
    days: float = DAYS,
) -> Recorder | None:
    """For a level; None for "off". Without a directory it is in memory. `own` tells the queue manager's GUID."""
    if level not in LEVELS:
        raise InvalidParameter(f"there is no record {level!r}", where="record", remedy=f"use {', '.join(LEVELS)}")
    if level == OFF:
        return None
    kind = Recorder if level == ALL else FailureRecorder
    return kind(FateLog(directory, most_rows=most_rows, longest=days * 86400, clock=clock.wall), clock, own)


def keep_record(engine: Engine, kept: Recorder | None) -> None:
    """From now to the engine's end, within the lock on the data directory."""
    if kept is not None:
        engine.manager.core.fates = kept
        engine.at_end.append(kept.close)


def _answer(answer: asyncio.Future[Found], found: Found) -> None:
    if not answer.done():  # who asked went away
        answer.set_result(found)


_recorders: WeakSet[Recorder] = WeakSet()


def _leave_to_parent() -> None:
    """In a forked process: the thread stayed in the parent, and so does the file."""
    for each in _recorders:
        each._closed = True


os.register_at_fork(after_in_child=_leave_to_parent)
