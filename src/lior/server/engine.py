"""One queue manager on an asyncio loop: its changes to the writer thread, its timers to the loop."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any, Final, Protocol
from weakref import WeakSet

from lior.errors import InvalidParameter, LiorError, StoreUnusable
from lior.queues.change import Change
from lior.queues.manager import QueueManager
from lior.queues.ports import Store, TransactionOutcomes
from lior.server.committer import (
    MAX_BATCH_BYTES,
    MAX_BATCH_CHANGES,
    Batch,
    Committer,
    WritableStore,
    are_several,
    count_of,
    in_batches,
    rolled_back,
)
from lior.server.disk_watch import DiskWatch
from lior.server.gathering import Gathering
from lior.server.replies import FutureReply
from lior.store.search import Step, Wanted

log = logging.getLogger("lior.engine")

IDLE_MAINTENANCE: Final = 1.0  # seconds without a commit before the store tidies up
LONGEST_SLEEP: Final = 30.0  # seconds: wall clocks are set and computers sleep, so look again
TIDY_BYTES: Final = 4 << 20  # after so much committed by the loop the thread looks whether the log is due
MOST_CHANGES: Final = 4096  # that wait for their commit; who sends more waits in line
LAZY: Final = 0.02  # seconds that a change which nobody waits for waits for one to go with
MOST_BYTES: Final = 32 << 20  # of messages that wait for their commit, likewise


_engines: WeakSet[Engine] = WeakSet()


def _disown() -> None:
    """In a forked process: the threads of the engines stayed in the parent."""
    for engine in _engines:
        engine._thread = 0


os.register_at_fork(after_in_child=_disown)


class EngineStore(Store, WritableStore, Protocol):
    """What the engine asks of a store besides what the queues and the committer do."""

    commits_quickly: bool  # as a rule, so that a commit on the loop is worth a try

    def compact(self) -> int: ...

    def search(self, wanted: Wanted) -> Iterator[Step]: ...


class Engine:
    """Owns the manager. Everything here runs on the loop; only the committer's thread does not."""

    def __init__(self, manager: QueueManager, store: EngineStore, *, low_disk_bytes: int = 64 << 20) -> None:
        self.manager = manager
        self._store = store
        self._loop = asyncio.get_running_loop()
        self.disk = DiskWatch(manager.core, store, self._loop, low_disk_bytes)
        self._thread = get_ident()
        _engines.add(self)
        self._committer = Committer(store, self._loop, self._reported, self._maintenance_failed)
        self.commits = 0  # since the start, each on disk
        self.failed_commits = 0
        self._under_way = 0  # batches that the writer has not reported on
        self._with_writer = 0  # changes in them
        self._may_block = store.commits_quickly  # the loop may commit while the disk is quick
        self._bytes_here = 0  # committed by the loop since the store was last tidied
        self._again: list[Change] = []  # of commits that failed as a whole: next, and one by one
        self._turn_planned = False
        self.crowded = False  # so much waits for its commit that whoever sends has to line up
        self._line: deque[Callable[[], None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._maintenance: asyncio.TimerHandle | None = None
        self._quiet: asyncio.Future[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._finished = False
        self.gathering = Gathering(manager, self._loop, self._wake)
        self.at_end: list[Callable[[], None]] = []  # called before the store is closed
        manager.core.wake = self._wake
        manager.core.wake_later = self._wake_later
        manager.core.on_many = self._look_at_the_crowd

    async def start(self, outcomes: TransactionOutcomes | None = None) -> None:
        """Load, and make the first change durable before anybody is served."""
        self.disk.check()
        self.manager.start(outcomes)
        await self.settle()
        if self.manager.core.broken is not None:
            raise self.manager.core.broken

    async def close(self) -> None:
        """End waits, commit what is pending, stop the thread, close the store. Once begun it is finished,
        however often it is called and whether or not its callers wait for the end."""
        if self._finished or self._loop.is_closed():
            self._finish()  # nobody waits for answers any more
            return
        self.own_loop()
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            if self._timer is not None:
                self._timer.cancel()  # an expiry after the counters are given back would use numbers twice
            self.gathering.stage()
            self.manager.stop()
            self._let_in(everybody=True)  # to learn that the queue manager stopped
            await self.settle()
            self.manager.give_back_counters()
            await self.settle()
            await self._committer.run(_nothing)  # long work of the thread, before it is joined
        finally:
            self._finish()

    async def abandon(self) -> None:
        """Give up a start that failed: nothing is committed any more."""
        self._finish()

    def _finish(self) -> None:
        """The end of everything; what comes later is refused."""
        if self._finished:
            return
        self._finished = True
        for timer in (self._timer, self._maintenance):
            if timer is not None:
                timer.cancel()
        self.disk.stop()
        self._committer.stop()
        for end in self.at_end:
            end()
        self._store.close()
        core = self.manager.core
        closed = StoreUnusable("the queue manager is closed", remedy="open it again")
        left = [*self._again, *core.take_pending()]
        if left and not self._loop.is_closed():
            self.manager.failed(left, core.broken or closed)
        core.broken = core.broken or closed

    async def compact(self, work: Callable[[], int]) -> int:
        """Long work of the store's writer, between two commits."""
        self.own_loop()
        return await self._committer.run(work)

    async def caught_up(self) -> None:
        """Until what was begun before is on disk, whatever comes in meanwhile."""
        self.gathering.stage()
        change = Change()
        change.ordered = True
        future = self.future()
        change.answer(FutureReply(future))
        self.manager.core.submit(change)
        await future

    async def settle(self) -> None:
        """Until nothing is pending and no commit runs. While others go on sending that may be never."""
        while self.manager.core.pending or self._under_way or self._again or self.gathering:
            if self._quiet is None:
                self._quiet = self._loop.create_future()
            self._wake_now()
            await asyncio.shield(self._quiet)

    # Commits

    def _wake(self) -> None:
        if not self._turn_planned:
            self._turn_planned = True
            self._loop.call_soon(self._turn)

    def _wake_later(self) -> None:
        self._loop.call_later(LAZY, self._wake_now)

    def _wake_now(self) -> None:
        """Whatever is pending is to be committed, though nobody may wait for it."""
        core = self.manager.core
        core.awaited = bool(core.pending)
        self._wake()

    def _look_at_the_crowd(self) -> None:
        self.crowded = self._is_crowded()

    def _turn(self) -> None:
        """At the end of a loop turn: everything that its calls changed is committed together."""
        self._turn_planned = False
        self.gathering.stage()
        self._hand_over_pending(here=True)
        self._arm_timer()
        self._say_quiet()

    def _hand_over_pending(self, *, here: bool = False) -> None:
        """Not while older changes are to be tried again: who builds upon them must come after them."""
        if self._again or self._finished:
            return
        if here and self._under_way and self._may_block and self._committer.quick:
            return  # soon the loop can do it again: then all together
        count = self.manager.core.pending_count
        changes = self.manager.take_pending()
        if count <= MAX_BATCH_CHANGES and self.manager.core.staged_bytes <= MAX_BATCH_BYTES:
            self._hand_over(changes, here=here)
            return
        for part in in_batches(changes):
            self._hand_over(part)

    def _hand_over(self, changes: list[Change], *, alone: bool = False, here: bool = False) -> None:
        if not changes:
            return
        operations = [operation for change in changes for operation in change.operations]
        if not operations and not self._under_way:
            self._committed(changes)  # they only waited for their turn
            return
        try:
            plan = self._store.prepare(operations) if operations else None
        except Exception as error:  # a value that cannot be stored: its change fails, the others go on
            self._prepare_one_by_one(changes, error, alone)
            return
        batch = Batch(changes, plan, getattr(plan, "bytes", 0), alone, count_of(changes))
        self._under_way += 1
        self._with_writer += batch.parts
        may = here and plan is not None and self._under_way == 1 and self._may_block
        if may and self._committer.may_commit_here(batch):
            self._commit_here(batch)
        else:
            self._committer.commit(batch)

    def _commit_here(self, batch: Batch) -> None:
        try:
            error = self._committer.commit_here(batch)
        except BaseException:  # an interrupt: nobody knows what is on disk
            interrupted = StoreUnusable("a commit was interrupted", remedy="open the data again")
            self._reported(1, batch.changes, interrupted, False)
            raise
        again = error is not None and are_several(batch.changes) and rolled_back(error)
        self._reported(1, batch.changes, error, again)
        self._bytes_here += batch.bytes
        if self._bytes_here > TIDY_BYTES and not self._under_way:
            self._bytes_here = 0
            self._committer.maintain(idle=False)

    def _prepare_one_by_one(self, changes: list[Change], error: Exception, alone: bool) -> None:
        parts = [part for change in changes for part in change.parts()]
        if len(parts) > 1:
            for part in parts:
                self._hand_over([part], alone=alone)
            return
        if not isinstance(error, LiorError):
            log.error("a change cannot be stored", exc_info=error)
            error = InvalidParameter(f"a value that the store cannot hold: {error!r}")
        self.manager.failed(changes, error)

    def _reported(self, batches: int, changes: list[Change], error: BaseException | None, again: bool) -> None:
        """A commit ended. What waits for the writer goes first, then the answers of this one. It still counts
        as under way until then, so that what only waits for its turn does not come before its answers."""
        if again:
            self._again += changes
        elif self.manager.core.awaited and not (self._may_block and self._committer.quick):
            self._hand_over_pending()
        if error is None:
            self.commits += 1
            self._committed(changes)
            self._after_commit()
        else:
            self._failed(changes, error, again)
        self._under_way -= batches
        self._with_writer -= count_of(changes)
        if self._again and not self._under_way:
            self._try_again()
        if self.crowded:
            self._let_in()
        if self.manager.core.awaited:
            self._wake()
        self._arm_timer()
        self._say_quiet()

    def _committed(self, changes: list[Change]) -> None:
        """They are on disk. If a step after that fails it is a defect of ours, and memory is not to be trusted
        any more: the others get their answers, then the queue manager stops serving."""
        try:
            self.manager.committed(changes)
        except Exception as error:
            log.critical("what follows a commit failed", exc_info=error)
            self._stop_serving(StoreUnusable(f"a defect in Lior, please report it: {error!r}", remedy="restart it"))

    def _say_quiet(self) -> None:
        if self._quiet is not None and not (
            self._under_way or self._again or self.manager.core.pending or self.gathering
        ):
            self._quiet.set_result(None)
            self._quiet = None

    def _failed(self, changes: list[Change], error: BaseException, again: bool) -> None:
        """A commit failed as a whole. If there was no room for it, each change gets a chance of its own:
        one that only deletes may fit, and one that cannot must not take the others with it."""
        self.failed_commits += 1
        log.error("a commit of %d changes failed: %s", len(changes), error)
        if not again:
            self.manager.failed(changes, error if isinstance(error, Exception) else StoreUnusable(str(error)))
        self.disk.check()

    def _try_again(self) -> None:
        for change in self._again:
            for part in change.parts():
                self._hand_over([part], alone=True)
        self._again = []

    def _maintenance_failed(self, error: BaseException) -> None:
        self._stop_serving(error if isinstance(error, LiorError) else StoreUnusable(str(error)))

    def _stop_serving(self, error: LiorError) -> None:
        log.critical("the queue manager stops serving: %s", error)
        self.manager.failed([], error)

    # Who has to wait before anything is done for him

    def _is_crowded(self) -> bool:
        """Only while something is under way: its report lets the line go on."""
        core = self.manager.core
        waiting = self._with_writer + core.pending_count
        return waiting > 0 and (waiting >= MOST_CHANGES or core.staged_bytes >= MOST_BYTES)

    def line_up(self, call: Callable[[], None]) -> None:
        """Run the call, which answers for itself, when it is less crowded; first come, first served."""
        self._line.append(call)

    def _let_in(self, *, everybody: bool = False) -> None:
        while self._line and (everybody or not self._is_crowded()):
            self._line.popleft()()
        self.crowded = bool(self._line) or self._is_crowded()

    def _after_commit(self) -> None:
        self.disk.check_if_due()
        if self._maintenance is not None:
            self._maintenance.cancel()
        if self._finished:
            return
        self._maintenance = self._loop.call_later(IDLE_MAINTENANCE, self._maintain)

    def _maintain(self) -> None:
        self._maintenance = None
        if self.manager.core.broken is None and not self._under_way:
            self._committer.maintain()

    # Timers

    def _arm_timer(self) -> None:
        """One loop timer for the earliest of the waits (monotonic) and the expiries (wall)."""
        if self._closing is not None or self._finished:
            return
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
        if self._closing is not None or self._finished:
            return
        try:
            self.manager.tick()
        finally:
            self._turn()

    # Calls

    def own_loop(self) -> asyncio.AbstractEventLoop:
        """The loop that runs now, which must be the engine's: calls from another one would change the same
        memory at the same time and wait for ever, and in a forked process there is no writer. Asked for
        every message, so without asyncio.get_running_loop, which makes a system call each time."""
        if get_ident() != self._thread or not self._loop.is_running():
            raise RuntimeError("this queue manager belongs to another event loop: use lior.open with threads")
        return self._loop

    def future(self) -> asyncio.Future[Any]:
        if get_ident() != self._thread or not self._loop.is_running():
            self.own_loop()  # tells what is wrong
        return self._loop.create_future()

    def call(self, function: Callable[..., None], *arguments: Any, **options: Any) -> asyncio.Future[Any]:
        """Start a call of the manager; its reply, the last positional argument, is the future returned."""
        future = self.future()
        self.gathering.stage()  # what was sent before comes before
        try:
            function(*arguments, FutureReply(future), **options)
        except LiorError as error:
            future.set_exception(error)
        return future

    @property
    def commit_seconds(self) -> float:
        """What a commit takes lately."""
        return self._committer.pace

    @property
    def broken(self) -> LiorError | None:
        return self.manager.core.broken


def _nothing() -> int:
    return 0
