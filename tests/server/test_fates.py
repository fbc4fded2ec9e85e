"""The recorder: what it costs the loop, what it leaves out, and how it ends."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from uuid import UUID

import pytest

import lior
from lior.errors import InvalidParameter
from lior.message import Message, MessageClass, ObjectId
from lior.queues.definition import QueueProperties, QueueType
from lior.queues.fates import Fate
from lior.queues.position import Position
from lior.queues.queue import Queue
from lior.server.fates import INTERVAL, FailureRecorder, Recorder, recorder
from lior.server.local import LocalBackend
from lior.store.fate_chunks import CHUNK_ROWS, Rows
from lior.store.fates import FATES_FILE, FateLog, Found
from lior.store.search import Wanted
from lior.testing.clock import FakeClock
from tests.server.engines import LONG, looped

GUID = UUID(int=5)
QUEUE = Queue(7, QueueType.PRIVATE, r"private$\q", QueueProperties(), identifier=GUID)


def position(number: int, *, stored: bool = True, **fields: object) -> Position:
    message = Message(identifier=ObjectId(GUID, number), label=f"label {number}")
    for name, value in fields.items():
        setattr(message, name, value)
    return Position(QUEUE, 4 << 56 | number, message, 1000.0 + number, stored)


def own() -> UUID:
    return GUID


def about(number: int) -> Wanted:
    return Wanted(ObjectId(GUID, number))


async def kinds(kept: Recorder, number: int) -> list[int]:
    return [row.kind for row in (await kept.find(about(number))).rows]


class HeldLog(FateLog):
    """Writes when the test says so."""

    def __init__(self) -> None:
        super().__init__(None)
        self.reached = threading.Event()
        self.go = threading.Event()

    def append(self, rows: Rows, lost: int = 0) -> None:
        self.reached.set()
        assert self.go.wait(LONG)
        super().append(rows, lost)


@looped
async def test_a_row_has_everything_that_was_told() -> None:
    clock = FakeClock()
    kept = Recorder(FateLog(None), clock, own)
    kept.arrived(position(1))
    kept.removed(position(1), MessageClass.ACK_RECEIVE)
    kept.handed(position(1), "192.0.2.1")
    kept.refused(None, position(1).message, MessageClass.NACK_BAD_DST_Q)
    first, second, third, fourth = (await kept.find(about(1))).rows
    assert (first.kind, first.time, first.queue, first.queue_kind) == (Fate.ARRIVED, 1001.0, QUEUE.name, "private")
    assert (first.label, first.lookup_id, first.identifier) == ("label 1", 4 << 56 | 1, ObjectId(GUID, 1))
    assert (second.kind, second.time, second.reason) == (Fate.REMOVED, clock.wall(), MessageClass.ACK_RECEIVE)
    assert (third.kind, third.detail) == (Fate.HANDED, "192.0.2.1")
    assert (fourth.kind, fourth.queue, fourth.reason) == (Fate.REFUSED, "", MessageClass.NACK_BAD_DST_Q)
    kept.close()


@looped
async def test_rows_of_many_at_once_are_those_of_each() -> None:
    clock, count = FakeClock(), CHUNK_ROWS // 2 + 100  # so many that they do not fit into one chunk
    many, single = (Recorder(FateLog(None, clock=clock.wall), clock, own) for _ in range(2))
    usual = [position(number) for number in range(count)]
    odd = [position(count), position(count + 1, message_class=2), position(count + 2, correlation_id=bytes(range(20)))]
    for position_ in usual + odd:
        position_.arrival_time = clock.wall()
    for batch in (usual, odd):
        many.arrived_all(batch)
        many.handed_all(batch, "192.0.2.1")
        many.removed_all(batch, MessageClass.ACK_REACH_QUEUE)
        for one in batch:
            single.arrived(one)
        for one in batch:
            single.handed(one, "192.0.2.1")
        for one in batch:
            single.removed(one, MessageClass.ACK_REACH_QUEUE)
    for number in (0, 1, CHUNK_ROWS // 2 - 1, CHUNK_ROWS // 2, count - 1, count, count + 1, count + 2):
        found = (await many.find(about(number))).rows
        assert len(found) == 3 and found == (await single.find(about(number))).rows
    many.close()
    single.close()


@looped
async def test_of_many_at_once_only_failures_are_kept_where_only_those_are_wanted() -> None:
    kept = FailureRecorder(FateLog(None), FakeClock(), own)
    batch = [position(1), position(2, failure_reason=int(MessageClass.NACK_BAD_DST_Q))]
    kept.arrived_all(batch)
    kept.handed_all(batch, "192.0.2.1")
    kept.removed_all(batch, MessageClass.ACK_REACH_QUEUE)
    kept.removed_all(batch[:1], MessageClass.NACK_Q_PURGED)
    assert await kinds(kept, 1) == [Fate.REMOVED] and await kinds(kept, 2) == [Fate.ARRIVED]
    kept.close()


@looped
async def test_rows_are_written_without_anybody_asking() -> None:
    log = HeldLog()
    log.go.set()
    kept = Recorder(log, FakeClock(), own)
    kept.arrived(position(1))
    assert not log.reached.is_set()
    assert await asyncio.to_thread(log.reached.wait, LONG)  # after INTERVAL
    kept.close()


@looped
async def test_a_thread_that_falls_behind_costs_rows_and_never_the_loop() -> None:
    log = HeldLog()
    kept = Recorder(log, FakeClock(), own, most_waiting=10)
    for number in range(5):
        kept.arrived(position(number))
    kept.flush()
    assert await asyncio.to_thread(log.reached.wait, LONG)
    for number in range(5, 12):
        kept.arrived(position(number))
    kept.flush()  # these are left out
    log.go.set()
    assert (await kept.find(about(4))).rows
    kept.arrived(position(20))
    found = await kept.find(about(20))
    assert len(found.rows) == 1
    assert [gap.rows for gap in found.gaps] == [7]
    assert (await kept.find(about(6))).rows == []
    kept.close()


@looped
async def test_what_was_left_out_last_is_a_gap_too(tmp_path: Path) -> None:
    kept = Recorder(FateLog(tmp_path), FakeClock(), own, most_waiting=1)
    kept.arrived(position(1))
    kept.arrived(position(2))
    kept.close()
    assert [gap.rows for gap in FateLog(tmp_path).find(about(1)).gaps] == [2]


@looped
async def test_closing_writes_what_is_left_and_what_comes_later_is_ignored(tmp_path: Path) -> None:
    kept = Recorder(FateLog(tmp_path), FakeClock(), own)
    kept.arrived(position(1))
    kept.close()
    kept.arrived(position(2))
    kept.flush()
    kept.close()
    assert await kept.find(about(1)) == Found([], [])
    reader = FateLog(tmp_path)
    assert [len(reader.find(about(number)).rows) for number in (1, 2)] == [1, 0]


@looped
async def test_failures_only_leaves_out_what_went_well() -> None:
    kept = FailureRecorder(FateLog(None), FakeClock(), own)
    kept.arrived(position(1))
    kept.removed(position(1), MessageClass.ACK_RECEIVE)
    kept.handed(position(1), "192.0.2.1")
    kept.delivered(position(1))
    kept.confirmed(ObjectId(GUID, 1), MessageClass.ACK_RECEIVE)
    assert await kinds(kept, 1) == []
    kept.arrived(position(2, failure_reason=MessageClass.NACK_Q_PURGED, failed_destination="x"))
    kept.removed(position(2), MessageClass.NACK_Q_PURGED)
    kept.given_back(position(2))
    kept.confirmed(ObjectId(GUID, 2), MessageClass.NACK_RECEIVE_TIMEOUT)
    kept.dropped(position(2).message, "there", "full")
    assert await kinds(kept, 2) == [Fate.ARRIVED, Fate.REMOVED, Fate.GIVEN_BACK, Fate.CONFIRMED, Fate.DROPPED]
    kept.close()


@looped
async def test_each_level_makes_its_recorder(tmp_path: Path) -> None:
    assert recorder("off", tmp_path, FakeClock(), own) is None
    for level, kind in (("all", Recorder), ("failures", FailureRecorder)):
        made = recorder(level, tmp_path, FakeClock(), own)
        assert type(made) is kind
        made.close()
    with pytest.raises(InvalidParameter, match="no record"):
        recorder("some", tmp_path, FakeClock(), own)


@pytest.mark.parametrize(("level", "there"), [("all", True), ("failures", False), ("off", False)])
def test_a_queue_manager_has_the_record_that_was_asked_for(tmp_path: Path, level: str, there: bool) -> None:
    with lior.open(tmp_path, record=level) as qm:
        qm.create_queue(r".\private$\q")
        qm.send(r".\private$\q", b"x")
        assert isinstance(qm.aio.backend, LocalBackend)
        assert (qm.aio.backend.manager.core.fates is None) == (level == "off")
    assert (tmp_path / FATES_FILE).exists() == there


def test_a_command_that_moves_no_message_opens_no_record(tmp_path: Path) -> None:
    with lior.open(tmp_path) as qm:
        qm.create_queue(r".\private$\q")
    with lior.open(tmp_path) as qm:
        qm.queues()
    assert not (tmp_path / FATES_FILE).exists()


def test_the_record_is_closed_before_the_directory_is_another_process_s(tmp_path: Path) -> None:
    with lior.open(tmp_path) as qm:
        qm.create_queue(r".\private$\q")
        sent = qm.send(r".\private$\q", b"x")
    assert not (tmp_path / (FATES_FILE + "-wal")).exists()
    assert len(FateLog(tmp_path).find(Wanted(sent)).rows) == 1


def test_a_forked_process_leaves_the_record_to_its_parent(tmp_path: Path) -> None:
    with lior.open(tmp_path) as qm:
        qm.create_queue(r".\private$\q")
        sent = qm.send(r".\private$\q", b"x")
        child = os.fork()
        if child == 0:
            backend = qm.aio.backend
            assert isinstance(backend, LocalBackend)
            kept = backend.manager.core.fates
            assert isinstance(kept, Recorder)
            kept.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [entry.what for entry in qm.trace(sent)] == ["sent", "waiting"]


@looped
async def test_a_full_buffer_goes_to_the_thread_without_waiting_for_the_clock() -> None:
    log = HeldLog()
    log.go.set()
    kept = Recorder(log, FakeClock(), own)
    for number in range(CHUNK_ROWS):
        kept.arrived(position(number))
    assert await asyncio.to_thread(log.reached.wait, LONG)
    assert [await kinds(kept, number) for number in (0, CHUNK_ROWS - 1)] == [[Fate.ARRIVED], [Fate.ARRIVED]]
    kept.close()


@looped
async def test_messages_of_several_queue_managers_and_queues_are_told_apart() -> None:
    other = Queue(8, QueueType.OUTGOING, "DIRECT=OS:x\\y", QueueProperties(), identifier=GUID)
    kept = Recorder(FateLog(None), FakeClock(), own)
    for number, (lineage, queue) in enumerate(
        [(GUID, QUEUE), (UUID(int=6), other), (UUID(int=5), other), (UUID(int=6), QUEUE)]
    ):
        found = position(7, identifier=ObjectId(lineage, 7))
        found.queue, found.arrival_time = queue, float(number)
        kept.arrived(found)
    for lineage, times in ((GUID, [0.0, 2.0]), (UUID(int=6), [1.0, 3.0])):
        rows = (await kept.find(Wanted(ObjectId(lineage, 7)))).rows
        assert [row.time for row in rows] == times
    assert [(row.queue, row.queue_kind) for row in rows] == [(other.name, "outgoing"), (QUEUE.name, "private")]
    kept.close()


@looped
async def test_a_message_that_no_row_can_hold_is_counted_and_stops_nobody() -> None:
    kept = Recorder(FateLog(None), FakeClock(), own)
    kept.arrived(position(1, identifier=None))
    kept.removed(position(1, identifier=ObjectId(GUID, 1 << 40)), 0)
    kept.refused(None, Message(), 0)
    kept.arrived(position(2))
    found = await kept.find(about(2))
    assert (len(found.rows), [gap.rows for gap in found.gaps]) == (1, [3])
    kept.close()


@looped
async def test_what_was_told_keeps_no_message_alive() -> None:
    kept = Recorder(FateLog(None), FakeClock(), own)
    given = position(1)
    before = sys.getrefcount(given.message), sys.getrefcount(given.message.identifier)
    for _ in range(1000):
        kept.arrived(given)
        kept.removed(given, 0x4000)
    assert (sys.getrefcount(given.message), sys.getrefcount(given.message.identifier)) == before
    assert INTERVAL > 0
    kept.close()
