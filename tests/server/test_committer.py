"""The writer thread: what shares a commit, what is given back, and how the thread ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lior.errors import MessageStorageFailed, ServiceNotAvailable, StoreUnusable
from lior.queues.change import Change
from lior.server.committer import MAX_BATCH_BYTES, QUICK, Batch, Committer
from tests.server.engines import LONG, looped, turns


class PlanStore:
    """A store whose plans are names. Each commit waits at the gate while that is closed."""

    def __init__(self) -> None:
        self.commits: list[list[str]] = []
        self.fails: Callable[[list[str]], BaseException | None] = lambda plans: None
        self.maintained: list[bool] = []
        self.maintenance_error: Exception | None = None
        self.copying: Callable[[], None] = lambda: None
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Semaphore(0)

    def prepare(self, batch: Sequence[Any]) -> Any:
        raise NotImplementedError("the loop's side")

    def commit(self, plans: Sequence[Any]) -> None:
        if not self.gate.is_set():
            self.reached.release()
            assert self.gate.wait(LONG)
        error = self.fails(list(plans))
        if error is not None:
            raise error
        self.commits.append(list(plans))

    def copy_log(self, idle: bool = True) -> None:
        self.copying()

    def maintain(self, idle: bool = True) -> None:
        if self.maintenance_error is not None:
            raise self.maintenance_error
        self.maintained.append(idle)


class Reports:
    def __init__(self) -> None:
        self.seen: list[tuple[int, list[Change], BaseException | None, bool]] = []
        self.broken: list[BaseException] = []
        self._more = asyncio.Event()

    def add(self, batches: int, changes: list[Change], error: BaseException | None, again: bool) -> None:
        self.seen.append((batches, changes, error, again))
        self._more.set()

    def maintenance_failed(self, error: BaseException) -> None:
        self.broken.append(error)
        self._more.set()

    async def until(self, enough: Callable[[], bool]) -> None:
        while not enough():
            self._more.clear()
            await asyncio.wait_for(self._more.wait(), LONG)

    async def of(self, batches: int) -> None:
        await self.until(lambda: sum(report[0] for report in self.seen) >= batches)


class Writer:
    """A committer with its store and reports; `held` makes batches wait so that they can be gathered."""

    def __init__(self) -> None:
        self.store = PlanStore()
        self.reports = Reports()
        loop = asyncio.get_running_loop()
        self.committer = Committer(self.store, loop, self.reports.add, self.reports.maintenance_failed)
        self._count = 0

    def put(self, plan: str | None, changes: int = 1, size: int = 0, alone: bool = False) -> None:
        self.committer.commit(Batch([Change() for _ in range(changes)], plan, size, alone))

    async def hold(self) -> None:
        """The thread stands inside a commit."""
        self.store.gate.clear()
        self.put("first")
        assert await asyncio.to_thread(self.store.reached.acquire, timeout=LONG)




def stops(test: Callable[[Writer], Any]) -> Callable[[], None]:
    async def run() -> None:
        writer = Writer()
        try:
            await test(writer)
        finally:
            writer.store.gate.set()
            writer.committer.stop()

    run.__name__ = test.__name__
    found = looped(run)
    del found.__wrapped__  # type: ignore[attr-defined]
    return found


@stops
async def test_what_waited_for_a_commit_shares_the_next_one(writer: Writer) -> None:
    await writer.hold()
    for plan in "abc":
        writer.put(plan)
    writer.store.gate.set()
    await writer.reports.of(4)
    assert writer.store.commits == [["first"], ["a", "b", "c"]]
    assert [report[0] for report in writer.reports.seen] == [1, 3]


@stops
async def test_changes_that_store_nothing_keep_their_turn(writer: Writer) -> None:
    await writer.hold()
    for plan in ("a", None, "b"):
        writer.put(plan)
    writer.store.gate.set()
    await writer.reports.of(4)
    assert writer.store.commits == [["first"], ["a", "b"]]
    assert len(writer.reports.seen[1][1]) == 3
    writer.put(None)
    await writer.reports.of(5)
    assert len(writer.store.commits) == 2


@stops
async def test_a_commit_is_not_gathered_beyond_its_limit(writer: Writer) -> None:
    await writer.hold()
    writer.put("a", 1, MAX_BATCH_BYTES)
    writer.put("b")
    writer.store.gate.set()
    await writer.reports.of(3)
    assert writer.store.commits == [["first"], ["a"], ["b"]]


@stops
async def test_what_is_to_be_alone_shares_no_commit(writer: Writer) -> None:
    await writer.hold()
    writer.put("a")
    writer.put("b", alone=True)
    writer.put("c")
    writer.store.gate.set()
    await writer.reports.of(4)
    assert writer.store.commits == [["first"], ["a"], ["b"], ["c"]]


@stops
async def test_after_a_commit_without_room_the_later_ones_come_back_untried(writer: Writer) -> None:
    await writer.hold()
    full = MessageStorageFailed("full")
    writer.store.fails = lambda plans: full if plans == ["a"] else None
    writer.put("a", 2, MAX_BATCH_BYTES)  # so that the next is not in the same commit
    writer.put("b")
    writer.put(None)
    writer.store.gate.set()
    await writer.reports.of(4)
    assert writer.store.commits == [["first"]]
    assert all(report[2:] == (full, True) for report in writer.reports.seen[1:])
    assert sum(len(report[1]) for report in writer.reports.seen[1:]) == 4
    writer.put("c")
    writer.put("d", alone=True)
    writer.put("e")
    await writer.reports.of(7)
    assert writer.store.commits == [["first"], ["d"], ["e"]]


@stops
async def test_a_change_that_is_alone_fails_for_good_and_alone(writer: Writer) -> None:
    await writer.hold()
    full = MessageStorageFailed("full")
    writer.store.fails = lambda plans: full if "a" in plans else None
    writer.put("a", alone=True)
    writer.put("b")
    writer.store.gate.set()
    await writer.reports.of(3)
    assert writer.reports.seen[1][2:] == (full, False)
    assert writer.store.commits == [["first"], ["b"]]


@pytest.mark.parametrize("error", [StoreUnusable("gone"), OSError("odd"), SystemExit(1), MemoryError()])
def test_an_error_that_is_no_lack_of_room_is_not_tried_again_and_leaves_the_thread_alive(error: BaseException) -> None:
    async def run(writer: Writer) -> None:
        writer.store.fails = lambda plans: error if "a" in plans else None
        writer.put("a", changes=2)
        await writer.reports.of(1)
        assert writer.reports.seen[0][2:] == (error, False)
        writer.put("b")
        await writer.reports.of(2)
        assert writer.store.commits == [["b"]]

    stops(run)()


@stops
async def test_other_work_has_its_turn_between_commits(writer: Writer) -> None:
    await writer.hold()
    order: list[int] = []
    writer.put("a")

    def work() -> int:
        order.append(len(writer.store.commits))
        return 7

    running = asyncio.create_task(writer.committer.run(work))
    await turns()
    writer.put("b")
    writer.store.gate.set()
    assert await asyncio.wait_for(running, LONG) == 7
    await writer.reports.of(3)
    assert order == [2]
    assert writer.store.commits == [["first"], ["a"], ["b"]]


@stops
async def test_an_error_of_other_work_goes_to_who_asked_for_it(writer: Writer) -> None:
    def work() -> int:
        raise StoreUnusable("no")

    with pytest.raises(StoreUnusable):
        await asyncio.wait_for(writer.committer.run(work), LONG)
    writer.put("a")
    await writer.reports.of(1)


@stops
async def test_who_gave_up_waiting_for_other_work_is_not_told(writer: Writer) -> None:
    await writer.hold()
    running = asyncio.create_task(writer.committer.run(lambda: 1))
    await turns()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    writer.store.gate.set()
    assert await asyncio.wait_for(writer.committer.run(lambda: 2), LONG) == 2
    assert not complaints


@stops
async def test_the_loop_may_commit_while_the_log_is_copied_and_not_while_it_is_maintained(writer: Writer) -> None:
    may: list[bool] = []
    batch = Batch([Change()], "a")
    maintain = writer.store.maintain

    def look(idle: bool = True) -> None:
        may.append(writer.committer.may_commit_here(batch))
        maintain(idle)

    writer.store.copying = lambda: may.append(writer.committer.may_commit_here(batch))
    writer.store.maintain = look  # type: ignore[method-assign]
    writer.committer.maintain()
    await asyncio.wait_for(writer.committer.run(lambda: 0), LONG)
    assert may in ([True, False], [False, False])  # the second when `run` came before the copy began


@stops
async def test_what_comes_while_the_log_is_copied_goes_in_turn(writer: Writer) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def copying() -> None:
        begun.set()
        assert go_on.wait(LONG)

    writer.store.copying = copying
    writer.committer.maintain()
    assert await asyncio.to_thread(begun.wait, LONG)
    assert writer.committer.may_commit_here(Batch([Change()], "here"))
    writer.put("a")
    assert not writer.committer.may_commit_here(Batch([Change()], "b"))
    go_on.set()
    await writer.reports.of(1)
    assert writer.store.commits == [["a"]]


@stops
async def test_one_slow_commit_is_not_a_slow_disk(writer: Writer) -> None:
    writer.store.fails = lambda plans: time.sleep(QUICK)
    took = float("inf")
    while took > 3 * QUICK:  # another program had the processor
        writer.committer._pace = QUICK / 4
        assert writer.committer.quick
        start = time.monotonic()
        assert writer.committer.commit_here(Batch([Change()], "a")) is None
        took = time.monotonic() - start
    assert writer.committer.quick
    writer.store.fails = lambda plans: time.sleep(20 * QUICK)
    assert writer.committer.commit_here(Batch([Change()], "b")) is None
    assert not writer.committer.quick


@stops
async def test_maintenance_that_fails_is_reported_and_commits_go_on(writer: Writer) -> None:
    writer.store.maintenance_error = StoreUnusable("no")
    writer.committer.maintain()
    await writer.reports.until(lambda: bool(writer.reports.broken))
    writer.store.maintenance_error = None
    writer.put("a")
    await writer.reports.of(1)
    writer.committer.maintain()
    await asyncio.wait_for(writer.committer.run(lambda: 0), LONG)
    assert True in writer.store.maintained


@stops
async def test_stopping_finishes_what_was_handed_over(writer: Writer) -> None:
    await writer.hold()
    writer.put("a")
    threading.Timer(0, writer.store.gate.set).start()
    writer.committer.stop()
    assert writer.store.commits == [["first"], ["a"]]
    writer.committer.stop()
    await writer.reports.of(2)


@stops
async def test_other_work_after_the_end_is_refused_instead_of_awaited_for_ever(writer: Writer) -> None:
    writer.committer.stop()
    with pytest.raises(ServiceNotAvailable):
        await asyncio.wait_for(writer.committer.run(lambda: 1), LONG)


def test_the_thread_survives_the_end_of_its_loop() -> None:
    async def begin() -> Writer:
        writer = Writer()
        await writer.hold()
        return writer

    writer = asyncio.run(begin())
    writer.store.gate.set()
    writer.put("late")
    writer.committer.stop()
    assert writer.store.commits[-1][-1] == "late"
