"""The engine: commit, visible, wake, answer; retries in order; bounds; timers; the end."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import weakref
from pathlib import Path
from typing import Any

import pytest

import lior
from lior.errors import (
    InsufficientResources,
    InvalidParameter,
    LiorError,
    MessageStorageFailed,
    OperationCancelled,
    ServiceNotAvailable,
    StoreUnusable,
    Timeout,
)
from lior.queues.change import Change
from lior.queues.events import Event, MessageDeleted, ThrottledChanged
from lior.queues.ports import PutMessage, PutQueue, PutState
from lior.server import engine as engine_module
from lior.server.engine import MOST_CHANGES
from lior.server.replies import FutureReply
from lior.testing.clock import FakeClock
from tests.server.engines import LONG, QUEUE, HeldStore, Running, looped, make_engine, no_room, once, running, turns


def bodies(operations: list[Any]) -> list[bytes]:
    return [put.message.body for put in operations if isinstance(put, PutMessage)]


# Durability


@looped
async def test_a_send_is_answered_and_seen_only_after_its_commit(tmp_path: Path) -> None:
    async with running(tmp_path) as run, await run.qm.open_queue(QUEUE) as q:
        run.store.hold()
        sending = asyncio.create_task(run.qm.send(QUEUE, b"x"))
        waiting = asyncio.create_task(q.peek(LONG))
        await run.store.reached()
        await turns()
        assert not sending.done() and not waiting.done()
        with pytest.raises(Timeout):
            await q.peek(0)
        run.store.let_go()
        await asyncio.wait_for(asyncio.gather(sending, waiting), LONG)
        assert bodies(run.store.committed[0]) == [b"x"]


@looped
async def test_a_receive_is_answered_only_after_its_message_is_deleted_on_the_disk(tmp_path: Path) -> None:
    async with running(tmp_path) as run, await run.qm.open_queue(QUEUE) as q:
        await run.qm.send(QUEUE, b"x")
        run.store.hold()
        receiving = asyncio.create_task(q.receive(LONG))
        await run.store.reached()
        await turns()
        assert not receiving.done()
        run.store.let_go()
        assert (await asyncio.wait_for(receiving, LONG)).body == b"x"


@looped
async def test_an_express_message_keeps_its_place_behind_a_durable_one_whose_commit_runs(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        run.store.hold()
        first = asyncio.create_task(run.qm.send(QUEUE, b"1"))
        await run.store.reached()
        second = asyncio.create_task(run.qm.send(QUEUE, b"2", express=True))
        await turns()
        assert not second.done()
        run.store.let_go()
        await asyncio.wait_for(asyncio.gather(first, second), LONG)


# Commits that fail


@looped
async def test_changes_that_are_tried_again_are_not_overtaken_by_later_ones(tmp_path: Path) -> None:
    """Each definition holds what the one before it changed: the last answered must be the last on disk."""
    async with running(tmp_path) as run:
        run.store.hold()
        first = [asyncio.create_task(run.qm.set_queue(QUEUE, label=text)) for text in ("1", "2")]
        await run.store.reached()
        last = asyncio.create_task(run.qm.set_queue(QUEUE, label="3"))
        await turns()
        run.store.fails = once(no_room())
        run.store.let_go()
        await asyncio.wait_for(asyncio.gather(*first, last), LONG)
        labels = [
            put.definition["properties"]["label"]
            for operations in run.store.committed
            for put in operations
            if isinstance(put, PutQueue)
        ]
        assert labels == ["1", "2", "3"]
    async with running(tmp_path) as run:
        assert (await run.qm.queue(QUEUE)).properties["label"] == "3"


@looped
async def test_what_comes_while_changes_are_tried_again_comes_after_them(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        run.store.hold()
        tasks = [asyncio.create_task(run.qm.send(QUEUE, b"%d" % n)) for n in range(40)]
        await run.store.reached()
        run.store.fails = once(no_room())
        tasks += [asyncio.create_task(run.qm.send(QUEUE, b"%d" % n)) for n in range(40, 80)]
        await turns()
        run.store.let_go()
        await asyncio.wait_for(asyncio.gather(*tasks), LONG)
        assert [body for operations in run.store.committed for body in bodies(operations)] == [
            b"%d" % n for n in range(80)
        ]
        async with await run.qm.open_queue(QUEUE) as q:
            assert [int(m.body) async for m in q] == list(range(80))


@looped
async def test_a_message_without_room_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        run.store.fails = lambda operations: no_room() if b"bad" in bodies(operations) else None
        sends = [run.qm.send(QUEUE, body) for body in (b"1", b"bad", b"2")]
        answers = await asyncio.wait_for(asyncio.gather(*sends, return_exceptions=True), LONG)
        assert isinstance(answers[1], MessageStorageFailed)
        assert await run.count() == 2
        assert run.core.staged_bytes == 0


@pytest.mark.parametrize("error", [ValueError("odd"), InvalidParameter("odd")])
@looped
async def test_a_value_that_cannot_be_prepared_fails_its_own_change_only(tmp_path: Path, error: Exception) -> None:
    async with running(tmp_path) as run:
        run.store.refuses = lambda operations: error if b"bad" in bodies(list(operations)) else None
        sends = [run.qm.send(QUEUE, body) for body in (b"1", b"bad", b"2")]
        answers = await asyncio.wait_for(asyncio.gather(*sends, return_exceptions=True), LONG)
        assert [type(answer) for answer in answers] == [lior.ObjectId, InvalidParameter, lior.ObjectId]
        assert await run.count() == 2


@pytest.mark.parametrize("error", [StoreUnusable("the sync failed"), OSError("odd"), MemoryError()])
@looped
async def test_after_a_failed_sync_everything_is_refused_and_nobody_waits_on(tmp_path: Path, error: Exception) -> None:
    async with running(tmp_path) as run, await run.qm.open_queue(QUEUE) as q:
        other = r".\private$\other"
        await run.qm.create_queue(other)
        waiting = asyncio.create_task(q.receive())
        run.store.hold()
        first = asyncio.create_task(run.qm.send(other, b"1"))
        await run.store.reached()
        second = asyncio.create_task(run.qm.send(other, b"2"))
        await turns()
        run.store.fails = lambda operations: error
        run.store.let_go()
        answers = await asyncio.wait_for(asyncio.gather(first, second, waiting, return_exceptions=True), LONG)
        assert all(isinstance(answer, StoreUnusable) for answer in answers), answers
        with pytest.raises(ServiceNotAvailable):
            await run.qm.send(other, b"late")
        assert await run.count(other) == 0


@looped
async def test_maintenance_that_fails_stops_the_service(tmp_path: Path) -> None:
    async with running(tmp_path) as run, await run.qm.open_queue(QUEUE) as q:
        waiting = asyncio.create_task(q.receive())
        await turns()

        def maintain(idle: bool = True) -> None:
            raise StoreUnusable("the checkpoint failed")

        run.store.maintain = maintain  # type: ignore[method-assign]
        run.engine._maintain()
        with pytest.raises(StoreUnusable):
            await asyncio.wait_for(waiting, LONG)


# Defects of others and of ours


@looped
async def test_a_listener_that_fails_keeps_nobody_from_his_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as run:

        def listener(event: Event) -> None:
            raise RuntimeError("a listener's defect")

        run.manager.subscribe(listener)
        await asyncio.wait_for(asyncio.gather(*(run.qm.send(QUEUE, b"%d" % n) for n in range(3))), LONG)
        assert await run.count() == 3


@looped
async def test_a_defect_after_a_commit_leaves_the_other_answers_and_ends_the_service(tmp_path: Path) -> None:
    async with running(tmp_path) as run:

        def defect() -> None:
            raise AssertionError("a defect")

        run.store.hold()
        first = asyncio.create_task(run.qm.send(QUEUE, b"1"))
        await run.store.reached()
        change, future = Change(), run.engine.future()
        change.ordered = True
        change.then(defect)
        change.answer(FutureReply(future))
        run.core.submit(change)
        second = asyncio.create_task(run.qm.send(QUEUE, b"2"))
        await turns()
        run.store.let_go()
        answers = await asyncio.wait_for(asyncio.gather(first, second, future, return_exceptions=True), LONG)
        assert [type(answer) for answer in answers] == [lior.ObjectId, lior.ObjectId, StoreUnusable]
        assert run.engine.broken is not None
    async with running(tmp_path) as run:
        assert await run.count() == 2


@looped
async def test_a_damaged_message_does_not_keep_others_from_expiring(tmp_path: Path) -> None:
    clock = FakeClock()
    async with running(tmp_path, clock, cache_bytes=0) as run:
        gone: asyncio.Queue[bytes] = asyncio.Queue()
        run.manager.subscribe(lambda e: gone.put_nowait(e.message.body) if isinstance(e, MessageDeleted) else None)
        for n in range(3):
            await run.qm.send(QUEUE, b"%d" % n, time_to_be_received=10)
        other = sqlite3.connect(run.store.path)
        other.execute("UPDATE m SET body=x'ff' WHERE l=(SELECT l FROM m WHERE body=x'31')")
        other.commit()
        other.close()
        clock.set_wall(clock.wall() + 100)
        await run.qm.send(QUEUE, b"now")
        assert {await asyncio.wait_for(gone.get(), LONG) for _ in range(2)} == {b"0", b"2"}
        assert await run.count() == 2


# Bounds


@looped
async def test_a_producer_that_outruns_the_disk_waits_in_line_and_keeps_its_order(tmp_path: Path) -> None:
    count = 2 * MOST_CHANGES + 500
    async with running(tmp_path) as run:
        run.store.hold()
        sends = [asyncio.create_task(run.qm.send(QUEUE, b"%d" % n)) for n in range(count)]
        await run.store.reached()
        await turns()
        accepted = run.engine._with_writer + run.core.pending_count
        assert accepted < MOST_CHANGES + 64
        assert run.engine.crowded
        late = asyncio.create_task(run.qm.send(QUEUE, b"%d" % count))
        await turns()
        run.store.let_go()
        await asyncio.wait_for(asyncio.gather(*sends, late), LONG)
        await run.qm.send(QUEUE, b"%d" % (count + 1))
        assert not run.engine.crowded and not run.engine._line
        assert max(len(bodies(operations)) for operations in run.store.committed) <= engine_module.MAX_BATCH_CHANGES
        async with await run.qm.open_queue(QUEUE) as q:
            assert [int(m.body) async for m in q] == list(range(count + 2))


@looped
async def test_large_messages_wait_in_line_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(engine_module, "MAX_BATCH_BYTES", 1 << 19)
    body = bytes(64 << 10)
    async with running(tmp_path) as run:
        run.store.hold()
        sends = [asyncio.create_task(run.qm.send(QUEUE, body)) for n in range(200)]
        await run.store.reached()
        await turns()
        assert run.core.staged_bytes <= (1 << 20) + 33 * len(body)
        run.store.let_go()
        await asyncio.wait_for(asyncio.gather(*sends), LONG)
        assert run.core.staged_bytes == 0
        assert await run.count() == 200


@looped
async def test_transactions_wait_in_line_too(tmp_path: Path) -> None:
    queue, count = r".\private$\exact", MOST_CHANGES + 300
    async with running(tmp_path) as run:
        await run.qm.create_queue(queue, transactional=True)
        run.store.hold()
        sends = [asyncio.create_task(run.qm.send(queue, b"%d" % n)) for n in range(count)]
        await run.store.reached()
        await turns()
        assert len(run.core.transactions) < MOST_CHANGES + 64
        run.store.let_go()
        await asyncio.wait_for(asyncio.gather(*sends), LONG)
        assert await run.count(queue) == count


@looped
async def test_who_gives_up_in_the_line_sends_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        run.store.hold()
        sends = [asyncio.create_task(run.qm.send(QUEUE, b"x")) for _ in range(MOST_CHANGES + 64)]
        await run.store.reached()
        await turns()
        in_line = len(run.engine._line)
        assert in_line
        for task in sends[-in_line:]:
            task.cancel()
        run.store.let_go()
        await asyncio.wait_for(asyncio.gather(*sends, return_exceptions=True), LONG)
        assert await run.count() == len(sends) - in_line


@looped
async def test_who_gives_up_while_his_message_is_committed_does_not_disturb_the_others(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        run.store.hold()
        sends = [asyncio.create_task(run.qm.send(QUEUE, b"x")) for _ in range(6)]
        await run.store.reached()
        for task in sends[1::2]:
            task.cancel()
        await turns()
        run.store.let_go()
        answers = await asyncio.wait_for(asyncio.gather(*sends, return_exceptions=True), LONG)
        assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [False, True] * 3
        assert run.engine.broken is None
        assert await run.count() == len(sends)


@looped
async def test_who_stands_in_line_when_the_queue_manager_closes_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        run.store.hold()
        sends = [asyncio.create_task(run.qm.send(QUEUE, b"x")) for _ in range(MOST_CHANGES + 64)]
        await run.store.reached()
        await turns()
        closing = asyncio.create_task(run.engine.close())
        await turns()
        run.store.let_go()
        await asyncio.wait_for(closing, LONG)
        answers = await asyncio.wait_for(asyncio.gather(*sends, return_exceptions=True), LONG)
        sent = sum(not isinstance(answer, LiorError) for answer in answers)
        assert 0 < sent < len(sends)
    async with running(tmp_path) as run:
        assert await run.count() == sent


@looped
async def test_reads_that_ended_before_their_deadline_leave_nothing_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as run, await run.qm.open_queue(QUEUE) as q:
        seen: list[weakref.ref[Any]] = []
        other = r".\private$\other"
        await run.qm.create_queue(other)
        sooner = asyncio.create_task(run.qm.receive(other, 1800))  # its deadline is in front of all the others
        for n in range(300):
            waiting = asyncio.ensure_future(q.receive(3600))
            await turns(2)
            await run.qm.send(QUEUE, b"%d" % n, express=True)
            seen.append(weakref.ref(waiting))
            assert (await waiting).body == b"%d" % n
        del waiting
        gc.collect()
        assert len(run.core.waits._deadlines) <= 128
        assert all(entry[2].tag is None for entry in run.core.waits._deadlines if entry[2].done)
        assert not any(ref() for ref in seen[:-1])
        sooner.cancel()
        await asyncio.gather(sooner, return_exceptions=True)


@looped
async def test_messages_that_were_read_leave_no_expiry_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as run, await run.qm.open_queue(QUEUE) as q:
        run.core.expiries._many = 64
        await run.qm.send(QUEUE, b"stays", time_to_be_received=5000, priority=0)
        for n in range(300):
            await run.qm.send(QUEUE, b"%d" % n, express=True, time_to_be_received=4000)
            await q.receive(0)
        run.core.expiries._sweep()
        assert len(run.core.expiries) == 1


@looped
async def test_a_backup_and_a_compaction_end_while_others_go_on_sending(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as run:
        over = False

        async def send() -> None:
            while not over:
                await run.qm.send(QUEUE, b"x" * 100)

        senders = [asyncio.create_task(send()) for _ in range(8)]
        await turns()
        await asyncio.wait_for(run.qm.backup(str(tmp_path / "copy")), LONG)
        await asyncio.wait_for(run.qm.compact(), LONG)
        over = True
        await asyncio.wait_for(asyncio.gather(*senders), LONG)


# The disk


async def throttle_changes(run: Running) -> asyncio.Queue[bool]:
    seen: asyncio.Queue[bool] = asyncio.Queue()
    run.manager.subscribe(lambda e: seen.put_nowait(e.throttled) if isinstance(e, ThrottledChanged) else None)
    return seen


@pytest.mark.parametrize("free", [10, StoreUnusable("the disk is gone")])
@looped
async def test_sends_are_taken_again_when_the_disk_has_room_though_no_commit_came(
    tmp_path: Path, free: int | LiorError
) -> None:
    async with running(tmp_path, low=1000) as run:
        seen = await throttle_changes(run)
        run.store.free = free
        run.engine.disk.check()
        assert await seen.get() is True
        with pytest.raises(InsufficientResources):
            await run.qm.send(QUEUE, b"x")
        run.store.free = 1 << 30
        assert await asyncio.wait_for(seen.get(), LONG) is False
        await run.qm.send(QUEUE, b"x")


@looped
async def test_what_is_there_can_be_received_while_the_disk_is_full(tmp_path: Path) -> None:
    async with running(tmp_path, low=1000) as run, await run.qm.open_queue(QUEUE) as q:
        await run.qm.send(QUEUE, b"x")
        run.store.free = StoreUnusable("the disk is gone")
        run.engine.disk.due()
        assert (await asyncio.wait_for(q.receive(0), LONG)).body == b"x"


# Clocks


@looped
async def test_expiry_follows_a_wall_clock_that_is_set_forward_and_back(tmp_path: Path) -> None:
    clock = FakeClock()
    start = clock.wall()
    async with running(tmp_path, clock) as run:
        gone: asyncio.Queue[bytes] = asyncio.Queue()
        run.manager.subscribe(lambda e: gone.put_nowait(e.message.body) if isinstance(e, MessageDeleted) else None)
        loop = asyncio.get_running_loop()
        await run.qm.send(QUEUE, b"old", time_to_be_received=1_000_000)
        assert run.engine._timer is not None
        assert run.engine._timer.when() - loop.time() <= 60  # or a clock that is set would go unseen
        clock.set_wall(start - 1_000_000)
        run.engine._tick()
        assert await run.count() == 1
        assert run.engine._timer is not None and run.engine._timer.when() > loop.time()  # it does not spin
        clock.set_wall(start + 1_000_001)
        run.engine._tick()
        assert await asyncio.wait_for(gone.get(), LONG) == b"old"


@looped
async def test_many_waits_end_each_at_its_time(tmp_path: Path) -> None:
    async with running(tmp_path) as run, await run.qm.open_queue(QUEUE) as q:
        waits = [asyncio.ensure_future(q.receive(timeout)) for timeout in (0.001, 0.002, 4_000_000, None) * 200]
        await asyncio.wait_for(asyncio.wait(waits[0::4] + waits[1::4]), LONG)
        assert all(isinstance(wait.exception(), Timeout) for wait in waits[0::4] + waits[1::4])
        assert not any(wait.done() for wait in waits[2::4] + waits[3::4])
        await run.engine.close()
        for ended in await asyncio.gather(*waits[2::4], *waits[3::4], return_exceptions=True):
            assert isinstance(ended, OperationCancelled)


# The end


@looped
async def test_a_start_that_failed_leaves_the_directory_free_and_no_timer(tmp_path: Path) -> None:
    store = HeldStore(tmp_path)
    store.fails = lambda operations: StoreUnusable("the disk is read-only")
    engine = make_engine(store)
    with pytest.raises(StoreUnusable):
        await engine.start()
    await engine.abandon()
    await turns()
    assert engine._timer is None and not engine._under_way
    async with running(tmp_path) as run:
        await run.qm.send(QUEUE, b"x")


@looped
async def test_what_is_asked_of_a_closed_engine_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        q = await run.qm.open_queue(QUEUE)
        await run.engine.close()
        await run.engine.close()
        for call in (run.qm.send(QUEUE, b"x"), run.qm.compact(), run.qm.backup(str(tmp_path / "b")), q.send(b"x")):
            with pytest.raises(LiorError):
                await asyncio.wait_for(call, LONG)
        change, future = Change(), run.engine.future()
        change.ordered = True
        change.answer(FutureReply(future))
        run.core.submit(change)
        with pytest.raises(LiorError):
            await asyncio.wait_for(future, LONG)
        await asyncio.wait_for(run.engine.settle(), LONG)


@looped
async def test_a_close_that_is_killed_frees_the_directory(tmp_path: Path) -> None:
    """As when asyncio.run cancels every task: what was not answered may be lost, the directory is not."""
    async with running(tmp_path) as run:
        run.store.hold()
        sending = asyncio.create_task(run.qm.send(QUEUE, b"x"))
        await run.store.reached()
        closing = asyncio.create_task(run.engine.close())
        await turns()
        assert run.engine._closing is not None
        run.engine._closing.cancel()
        asyncio.get_running_loop().call_soon(run.store.let_go)
        run.store.let_go()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await asyncio.gather(sending, return_exceptions=True)
        async with running(tmp_path) as again:
            assert await again.count() == 1


def test_a_queue_manager_is_closed_after_its_loop_is_gone(tmp_path: Path) -> None:
    qm = asyncio.run(opened(tmp_path))

    async def use() -> None:
        with pytest.raises(RuntimeError):
            await qm.send(QUEUE, b"x")
        with pytest.raises(RuntimeError):
            await qm.open_queue(QUEUE)
        await qm.close()

    asyncio.run(use())
    with lior.open(tmp_path) as again:
        assert again.exists(QUEUE)


async def opened(directory: Path) -> lior.aio.QueueManager:
    qm = await lior.aio.open(directory)
    await qm.create_queue(QUEUE)
    return qm


@looped
async def test_calls_from_another_loop_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as run, await run.qm.open_queue(QUEUE) as q:

        def elsewhere() -> None:
            for call in (
                lambda: run.qm.send(QUEUE, b"x"),
                lambda: q.receive(0),
                lambda: q.peek(0),
                lambda: q.cursor(),
                lambda: run.qm.purge_queue(QUEUE),
                lambda: run.qm.compact(),
                lambda: run.qm.close(),
            ):
                with pytest.raises(RuntimeError):
                    asyncio.run(call())

        await asyncio.to_thread(elsewhere)
        assert await run.count() == 0


@looped
async def test_two_queue_managers_share_a_process(tmp_path: Path) -> None:
    async with running(tmp_path / "a") as a, running(tmp_path / "b") as b:
        a.store.hold()
        held = asyncio.create_task(a.qm.send(QUEUE, b"a"))
        await a.store.reached()
        await asyncio.wait_for(b.qm.send(QUEUE, b"b"), LONG)
        assert not held.done()
        a.store.let_go()
        await held
        assert await a.count() == await b.count() == 1


@looped
async def test_a_change_that_nobody_waits_for_goes_with_the_next_one_or_after_a_moment(tmp_path: Path) -> None:
    def lazy(name: str) -> Change:
        change = Change()
        change.lazy = True
        change.operations.append(PutState("test", name, b""))
        change.then(done.append, name)
        return change

    done: list[str] = []
    async with running(tmp_path) as run:
        commits = run.engine.commits
        run.core.submit(lazy("first"))
        await turns()
        assert not done and run.engine.commits == commits
        await run.qm.send(QUEUE, b"with it")
        assert done == ["first"] and run.engine.commits == commits + 1
        run.core.submit(lazy("second"))
        while "second" not in done:
            await asyncio.sleep(engine_module.LAZY)
        run.core.submit(lazy("third"))
        await run.engine.settle()
        assert done == ["first", "second", "third"]
        run.core.submit(lazy("at the end"))
    assert done[-1] == "at the end"
