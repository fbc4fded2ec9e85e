"""The recorder: gathers what becomes of messages on the loop, and has a thread of its own write it down.

On the loop it is a handful of values appended to a list: no formatting, and no object that the garbage collector
has to follow. Four times a second the list goes to the thread. When the thread falls behind, whole lists are left
out and counted: the record never holds up a message.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final
from weakref import WeakSet

from lior.errors import InvalidParameter
from lior.message import NULL_CORRELATION_ID, NULL_GUID, Message, ObjectId
from lior.queues.acknowledgements import POSITIVE
from lior.queues.core import Clock
from lior.queues.fates import Fate
from lior.queues.moving import POISON
from lior.queues.position import Position
from lior.queues.queue import Queue
from lior.server.engine import Engine
from lior.store.fate_chunks import CHUNK_ROWS, FateColumns
from lior.store.fates import DAYS, MOST_ROWS, FateLog, Found
from lior.store.search import Wanted

log = logging.getLogger("lior.fates")

ALL: Final = "all"
FAILURES: Final = "failures"
OFF: Final = "off"
LEVELS: Final = (ALL, FAILURES, OFF)

INTERVAL: Final = 0.25  # seconds that a row waits for its batch
MOST_WAITING: Final = 256 * 1024  # rows that the thread has yet to write
_WIDTH: Final = 9  # values of one row
_NOBODY: Final = ObjectId(NULL_GUID, 0)
_NO_QUEUE: Final = ("", "")
# Plain numbers: looking one up in the enumeration costs as much as the rest of a row
_ARRIVED, _EXPRESS, _REMOVED, _HANDED = (
    int(fate) for fate in (Fate.ARRIVED, Fate.ARRIVED_EXPRESS, Fate.REMOVED, Fate.HANDED)
)


class Recorder:
    """Everything that becomes of messages."""

    level = ALL

    def __init__(self, file: FateLog, clock: Clock, *, most_waiting: int = MOST_WAITING) -> None:
        self._file = file
        self._clock = clock
        self.started = clock.wall()
        self._most_waiting = most_waiting
        self._loop = asyncio.get_running_loop()
        self._rows: list[Any] = []
        self._resting = True  # no flush is planned
        self._handed_over = 0  # rows, counted by the loop
        self._written = 0  # rows, counted by the thread
        self._left_out = 0  # rows, since the last batch
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        _recorders.add(self)

    # What the queues tell: one row of _WIDTH values each

    def arrived(self, position: Position) -> None:
        message = position.message
        self._rows += (
            _ARRIVED if position.stored else _EXPRESS, position.arrival_time, position.queue, position.lookup_id,
            message.failure_reason or message.message_class, message.identifier, message.label,
            message.correlation_id, message.failed_destination,
        )  # fmt: skip
        if self._resting:
            self._plan()

    def removed(self, position: Position, reason: int) -> None:
        message = position.message
        self._rows += (
            _REMOVED, self._clock.wall(), position.queue, position.lookup_id, reason, message.identifier,
            message.label, message.correlation_id, "",
        )  # fmt: skip
        if self._resting:
            self._plan()

    def handed(self, position: Position, hop: str) -> None:
        message = position.message
        self._rows += (
            _HANDED, self._clock.wall(), position.queue, position.lookup_id, 0, message.identifier, message.label,
            message.correlation_id, hop,
        )  # fmt: skip
        if self._resting:
            self._plan()

    def refused(self, queue: Queue | None, message: Message, reason: int) -> None:
        self._tell(Fate.REFUSED, queue, 0, reason, message, message.destination_queue)

    def moved(self, position: Position, moved: Position) -> None:
        self._tell(Fate.MOVED, moved.queue, moved.lookup_id, 0, moved.message, position.queue.name)

    def given_back(self, position: Position) -> None:
        self._tell(Fate.GIVEN_BACK, position.queue, position.lookup_id, position.abort_count, position.message)

    def dropped(self, message: Message, where: str, why: str) -> None:
        self._tell(Fate.DROPPED, None, 0, message.message_class, message, f"{where}: {why}")

    def delivered(self, position: Position) -> None:
        self._tell(Fate.DELIVERED, position.queue, position.lookup_id, 0, position.message)

    def confirmed(self, identifier: ObjectId, reason: int) -> None:
        self._rows += (
            int(Fate.CONFIRMED), self._clock.wall(), None, 0, reason, identifier, "", NULL_CORRELATION_ID, "",
        )  # fmt: skip
        if self._resting:
            self._plan()

    def _tell(
        self, fate: Fate, queue: Queue | None, lookup_id: int, reason: int, message: Message, detail: str = ""
    ) -> None:
        self._rows += (
            int(fate), self._clock.wall(), queue, lookup_id, reason, message.identifier, message.label,
            message.correlation_id, detail,
        )  # fmt: skip
        if self._resting:
            self._plan()

    # To the thread

    def _plan(self) -> None:
        self._resting = False
        if not self._loop.is_closed():
            self._loop.call_later(INTERVAL, self.flush)

    def flush(self) -> None:
        """Hand over what was gathered, or leave it out if the thread is too far behind."""
        self._resting = True
        rows = self._rows
        if not rows or self._closed:
            return
        self._rows = []
        count = len(rows) // _WIDTH
        if self._handed_over - self._written + count > self._most_waiting:
            self._left_out += count
            return
        lost, self._left_out = self._left_out, 0
        self._handed_over += count
        self._give(lambda: self._write(rows, count, lost))

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
                log.exception("the record of fates")
        self._file.close()

    def _write(self, rows: list[Any], count: int, lost: int) -> None:
        for at in range(0, len(rows), CHUNK_ROWS * _WIDTH):
            self._file.append(columns(rows[at : at + CHUNK_ROWS * _WIDTH]), lost)
            lost = 0
        self._written += count

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

    def removed(self, position: Position, reason: int) -> None:
        if reason not in POSITIVE:
            super().removed(position, reason)

    def handed(self, position: Position, hop: str) -> None:
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
    level: str, directory: Path | None, clock: Clock, *, most_rows: int = MOST_ROWS, days: float = DAYS
) -> Recorder | None:
    """For a level; None for "off". Without a directory the record is in memory."""
    if level not in LEVELS:
        raise InvalidParameter(f"there is no record {level!r}", where="record", remedy=f"use {', '.join(LEVELS)}")
    if level == OFF:
        return None
    kind = Recorder if level == ALL else FailureRecorder
    return kind(FateLog(directory, most_rows=most_rows, longest=days * 86400, clock=clock.wall), clock)


def keep_record(engine: Engine, kept: Recorder | None) -> None:
    """From now to the engine's end, within the lock on the data directory."""
    if kept is not None:
        engine.manager.core.fates = kept
        engine.at_end.append(kept.close)


def columns(rows: list[Any]) -> FateColumns:
    """From one row after the other to one column after the other; slices, so that C does the work."""
    queues: list[Queue | None] = rows[2::_WIDTH]
    places = {queue: place for place, queue in enumerate(dict.fromkeys(queues))}
    identifiers = rows[5::_WIDTH]
    return FateColumns(
        rows[0::_WIDTH],
        rows[1::_WIDTH],
        list(map(places.__getitem__, queues)),
        [_NO_QUEUE if queue is None else (queue.name, queue.kind.value) for queue in places],
        identifiers if None not in identifiers else [identifier or _NOBODY for identifier in identifiers],
        rows[3::_WIDTH],
        rows[4::_WIDTH],
        rows[6::_WIDTH],
        rows[7::_WIDTH],
        rows[8::_WIDTH],
    )


def _answer(answer: asyncio.Future[Found], found: Found) -> None:
    if not answer.done():  # who asked went away
        answer.set_result(found)


_recorders: WeakSet[Recorder] = WeakSet()


def _leave_to_parent() -> None:
    """In a forked process: the thread stayed in the parent, and so does the file."""
    for each in _recorders:
        each._closed = True


os.register_at_fork(after_in_child=_leave_to_parent)
