"""One queue manager on an asyncio loop: its changes to the writer thread, its timers to the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from lior.errors import LiorError, StoreUnusable
from lior.queues.change import Change
from lior.queues.manager import QueueManager
from lior.queues.ports import Store, TransactionOutcomes
from lior.server.committer import Batch, Committer, WritableStore

log = logging.getLogger("lior.engine")

IDLE_MAINTENANCE = 1.0  # seconds without a commit before the store tidies up
DISK_CHECK = 2.0  # seconds between looks at the free space while changes come in
LONGEST_SLEEP = 3600.0  # seconds: wall clocks are set, so look again


class EngineStore(Store, WritableStore, Protocol):
    """What the engine asks of a store besides what the queues do."""


class Engine:
    """Owns the manager. Everything here runs on the loop; only the committer's thread does not."""

    def __init__(self, manager: QueueManager, store: EngineStore, *, low_disk_bytes: int = 64 << 20) -> None:
        self.manager = manager
        self._store = store
        self._low_disk_bytes = low_disk_bytes
        self._loop = asyncio.get_running_loop()
        self._committer = Committer(store, self._loop, self._reported, self._maintenance_failed)
        self._under_way = 0  # batches that the writer has not reported on
        self._turn_planned = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._maintenance: asyncio.TimerHandle | None = None
        self._disk_checked = 0.0
        self._quiet: asyncio.Future[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        manager.core.wake = self._wake
        manager.core.hurry = self._hurry

    async def start(self, outcomes: TransactionOutcomes | None = None) -> None:
        """Load, and make the first change durable before anybody is served."""
        self.check_disk()
        self.manager.start(outcomes)
        await self.settle()
        if self.manager.core.broken is not None:
            raise self.manager.core.broken

    async def close(self) -> None:
        """End waits, commit what is pending, stop the thread, close the store. Once begun it is finished,
        however often it is called and whether or not its callers wait for the end."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()  # an expiry after the counters are given back would use numbers twice
        self.manager.stop()
        await self.settle()
        self.manager.give_back_counters()
        await self.settle()
        for timer in (self._timer, self._maintenance):
            if timer is not None:
                timer.cancel()
        self._committer.stop()
        self._store.close()

    async def abandon(self) -> None:
        """Give up a start that failed: nothing is committed any more."""
        self._committer.stop()
        self._store.close()

    async def compact(self, work: Callable[[], int]) -> int:
        """Long work of the store's writer, between two commits."""
        await self.settle()
        return await self._committer.run(work)

    async def settle(self) -> None:
        """Until nothing is pending and no commit runs."""
        while self.manager.core.pending or self._under_way:
            if self._quiet is None:
                self._quiet = self._loop.create_future()
            self._wake()
            await asyncio.shield(self._quiet)

    # Commits

    def _wake(self) -> None:
        if not self._turn_planned:
            self._turn_planned = True
            self._loop.call_soon(self._turn)

    def _hurry(self) -> None:
        if not self._under_way:
            self._hand_over(self.manager.take_pending())

    def _turn(self) -> None:
        """At the end of a loop turn: everything that its calls changed goes to the writer together."""
        self._turn_planned = False
        self._hand_over(self.manager.take_pending())
        self._arm_timer()
        self._say_quiet()

    def _hand_over(self, changes: list[Change], *, alone: bool = False) -> None:
        if not changes:
            return
        operations = [operation for change in changes for operation in change.operations]
        if not operations and not self._under_way:
            self.manager.committed(changes)  # they only waited for their turn
            return
        try:
            plan = self._store.prepare(operations) if operations else None
        except LiorError as error:  # a value that cannot be stored: its change fails, the others go on
            self._prepare_one_by_one(changes, error)
            return
        self._under_way += 1
        self._committer.commit(Batch(changes, plan, getattr(plan, "bytes", 0), alone))

    def _prepare_one_by_one(self, changes: list[Change], error: LiorError) -> None:
        if len(changes) == 1:
            self.manager.failed(changes, error)
            return
        for change in changes:
            self._hand_over([change])

    def _reported(self, batches: int, changes: list[Change], error: BaseException | None) -> None:
        """A commit ended. What waits for the writer goes first, then the answers of this one. It still counts
        as under way when they go, so that what only waits for its turn does not come before its answers."""
        self._hand_over(self.manager.take_pending())
        self._under_way -= batches
        if error is None:
            self.manager.committed(changes)
            self._after_commit()
        else:
            self._failed(changes, error)
        if self.manager.core.pending:
            self._wake()
        self._arm_timer()
        self._say_quiet()

    def _say_quiet(self) -> None:
        if self._quiet is not None and not self._under_way and not self.manager.core.pending:
            self._quiet.set_result(None)
            self._quiet = None

    def _failed(self, changes: list[Change], error: BaseException) -> None:
        """A commit failed as a whole. If there was no room for it, each change gets a chance of its own:
        one that only deletes may fit, and one that cannot must not take the others with it."""
        log.error("a commit of %d changes failed: %s", len(changes), error)
        if len(changes) > 1 and isinstance(error, LiorError) and not isinstance(error, StoreUnusable):
            for change in changes:
                self._hand_over([change], alone=True)
            return
        self.manager.failed(changes, error if isinstance(error, Exception) else StoreUnusable(str(error)))
        self.check_disk()

    def _maintenance_failed(self, error: BaseException) -> None:
        log.critical("the store cannot be used any more: %s", error)
        self.manager.failed([], error if isinstance(error, Exception) else StoreUnusable(str(error)))

    def _after_commit(self) -> None:
        now = self._loop.time()
        if now - self._disk_checked > DISK_CHECK:
            self.check_disk()
        if self._maintenance is not None:
            self._maintenance.cancel()
        self._maintenance = self._loop.call_later(IDLE_MAINTENANCE, self._maintain)

    def _maintain(self) -> None:
        self._maintenance = None
        if self.manager.core.broken is None and not self._under_way:
            self._committer.maintain()

    # The disk

    def check_disk(self) -> None:
        """Throttle while the disk is nearly full, so that what is accepted can always be taken out
        again ([MS-MQDMPR] 3.1.7.2.5)."""
        self._disk_checked = self._loop.time()
        free = self._store.free_bytes()
        core = self.manager.core
        if free < self._low_disk_bytes:
            core.set_throttled(f"only {free >> 20} MB are free on the disk")
        elif core.throttled and free > 2 * self._low_disk_bytes:
            core.set_throttled("")

    # Timers

    def _arm_timer(self) -> None:
        """One loop timer for the earliest of the waits (monotonic) and the expiries (wall)."""
        manager = self.manager
        clock = manager.core.clock
        delay = LONGEST_SLEEP
        wait = manager.next_wait_deadline()
        if wait is not None:
            delay = min(delay, wait - clock.monotonic())
        expiry = manager.next_expiry()
        if expiry is not None:
            delay = min(delay, expiry - clock.wall())
        at = self._loop.time() + max(delay, 0.0)
        if self._timer is not None:
            if abs(at - self._timer_at) < 0.0005 or at > self._timer_at > self._loop.time():
                return
            self._timer.cancel()
        if wait is None and expiry is None:
            self._timer = None
            return
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._closing is not None:
            return
        self.manager.tick()
        self._hand_over(self.manager.take_pending())
        self._arm_timer()
        self._say_quiet()

    # Calls

    def future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    def call(self, function: Callable[..., None], *arguments: Any, **options: Any) -> asyncio.Future[Any]:
        """Start a call of the manager; its reply, the last positional argument, is the future returned."""
        future = self.future()
        try:
            function(*arguments, FutureReply(future), **options)
        except LiorError as error:
            future.set_exception(error)
        return future

    @property
    def broken(self) -> LiorError | None:
        return self.manager.core.broken


class FutureReply:
    """An asyncio future as a reply; its caller may have gone away in the meantime."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future

    @property
    def gone(self) -> bool:
        return self._future.done()

    def set_result(self, value: Any, /) -> None:
        if not self._future.done():
            self._future.set_result(value)

    def set_exception(self, error: LiorError, /) -> None:
        if not self._future.done():
            self._future.set_exception(error)
