"""Commits: by the loop itself while the disk is quick, by a writer thread when it is not.

Handing a commit to a thread and its report back costs more than a quick disk takes (docs/decisions/0003). So a
small batch that finds nothing under way is committed where it is. When commits take long, the thread has them,
and the loop goes on meanwhile; it gets them back when they are short again.

The thread takes all that is there and commits it at once. There is no delay to collect more: a lone sender
pays one sync, many senders share one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, NamedTuple, Protocol

from lior.errors import LiorError, ServiceNotAvailable, StoreUnusable
from lior.queues.change import Change
from lior.queues.ports import Operation, PutMessage

MAX_BATCH_BYTES = 8 << 20  # content in one commit; more waits for the next
MAX_BATCH_CHANGES = 512  # likewise
QUICK = 0.002  # seconds: what commits may take on average for the loop to make the next one itself
QUICK_BYTES = 256 << 10  # content of a batch that the loop commits itself


class WritableStore(Protocol):
    def prepare(self, batch: Sequence[Operation]) -> Any: ...

    def commit(self, plans: Sequence[Any]) -> None: ...

    def copy_log(self, idle: bool = True) -> None: ...

    def maintain(self, idle: bool = True) -> None: ...


class Batch(NamedTuple):
    """Changes that were ready together, and what the store made of their operations."""

    changes: list[Change]
    plan: Any  # None if they store nothing and only keep their turn
    bytes: int = 0
    alone: bool = False  # not to share its commit, and so not its failure
    parts: int = 1  # of the changes, counted as MAX_BATCH_CHANGES does


Report = Callable[[int, list[Change], BaseException | None, bool], None]


class Committer:
    """`report` gets the number of batches of a commit, their changes, the error, and whether to try them
    again one by one; `maintenance_failed` the error of work that nobody waits for.

    When a commit of several changes fails for want of room, what waits behind it is given back untried until
    a batch comes that is to be alone: tried again in the order in which they were made, no change overtakes
    one that it builds upon.
    """

    def __init__(
        self,
        store: WritableStore,
        loop: asyncio.AbstractEventLoop,
        report: Report,
        maintenance_failed: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._loop = loop
        self._report = report
        self._maintenance_failed = maintenance_failed
        self._work: SimpleQueue[Batch | Callable[[], None] | None] = SimpleQueue()
        self._given_back: BaseException | None = None  # why batches are given back untried; the thread's own
        self._stopped = False
        self._resting = False  # the thread waits for work; who gives it some says so before the thread can
        self._pace = 0.0  # seconds of a commit lately; a moment without a processor alone does not count as slow
        self._thread = threading.Thread(target=self._run, name="lior-writer", daemon=True)
        self._thread.start()

    def commit(self, batch: Batch) -> None:
        self._give(batch)

    @property
    def pace(self) -> float:
        return self._pace

    @property
    def quick(self) -> bool:
        return self._pace < QUICK

    def may_commit_here(self, batch: Batch) -> bool:
        """Whether the loop may make this commit itself. Only when no other batch is under way."""
        return self._resting and self.quick and batch.bytes <= QUICK_BYTES and not batch.alone

    def commit_here(self, batch: Batch) -> Exception | None:
        """The commit, on the loop; answers its error. An interrupt in the middle leaves nobody knowing what
        is on disk, so it is for the caller to stop serving."""
        try:
            self._timed_commit([batch.plan])
        except Exception as error:
            return error
        return None

    def maintain(self, *, idle: bool = True) -> None:
        """Checkpoint; when nothing came for a while, give space back as well."""
        self._give(partial(self._maintain, idle))

    def _give(self, work: Batch | Callable[[], None] | None) -> None:
        self._resting = False
        self._work.put(work)

    def _timed_commit(self, plans: Sequence[Any]) -> None:
        started = monotonic()
        try:
            self._store.commit(plans)
        finally:
            took = monotonic() - started
            self._pace += (took - self._pace) / 4

    async def run(self, work: Callable[[], int]) -> int:
        """Let the thread do something else than a commit."""
        if self._stopped:
            raise ServiceNotAvailable("the queue manager is closed", remedy="open it again")
        done: asyncio.Future[int] = self._loop.create_future()

        def run() -> None:
            try:
                result = work()
            except Exception as error:
                self._tell(_end, done, None, error)
            else:
                self._tell(_end, done, result, None)

        self._give(run)
        return await done

    def stop(self) -> None:
        """Finish what was handed over, then end the thread. A second call only waits."""
        if not self._stopped:
            self._stopped = True
            self._give(None)
        self._thread.join()

    def _rest(self) -> Batch | Callable[[], None] | None:
        self._resting = self._work.empty()
        work = self._work.get()
        self._resting = False
        return work

    def _run(self) -> None:
        work = self._rest()
        while work is not None:
            if not isinstance(work, Batch):
                work()
                work = self._rest()
                continue
            batches = [work]
            work = self._more(batches)
            self._commit(batches)
            if work is _NOTHING:
                self._maintain(False)  # the answers are on their way and nobody waits
                work = self._rest()

    def _more(self, batches: list[Batch]) -> Batch | Callable[[], None] | None:
        """Add what else waits and fits; returns the first piece of work that does not."""
        size, count = batches[0].bytes, batches[0].parts
        while not batches[-1].alone and size < MAX_BATCH_BYTES:
            try:
                work = self._work.get_nowait()
            except Empty:
                return _NOTHING
            if not isinstance(work, Batch) or work.alone or count + work.parts > MAX_BATCH_CHANGES:
                return work
            batches.append(work)
            size, count = size + work.bytes, count + work.parts
        return _NOTHING

    def _commit(self, batches: list[Batch]) -> None:
        changes = [change for batch in batches for change in batch.changes]
        alone = batches[0].alone
        if self._given_back is not None and not alone:
            self._tell(self._report, len(batches), changes, self._given_back, True)
            return
        error: BaseException | None = None
        self._given_back = None
        try:
            plans = [batch.plan for batch in batches if batch.plan is not None]
            if plans:
                self._timed_commit(plans)
        except BaseException as caught:
            error = caught
            if not alone and are_several(changes) and rolled_back(caught):
                self._given_back = caught
        self._tell(self._report, len(batches), changes, error, self._given_back is not None)

    def _tell(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(function, *arguments)

    def _maintain(self, idle: bool) -> None:
        try:
            self._resting = self._work.empty()  # the loop may commit meanwhile
            try:
                self._store.copy_log(idle)
            finally:
                self._resting = False
            self._store.maintain(idle)
        except Exception as error:
            self._tell(self._maintenance_failed, error)


def are_several(changes: Sequence[Change]) -> bool:
    """Whether one of them may fit where all of them do not."""
    return len(changes) > 1 or changes[0].count > 1


def count_of(changes: Sequence[Change]) -> int:
    return sum([change.count for change in changes])


def in_batches(changes: list[Change]) -> Iterator[list[Change]]:
    """In batches that are not too long for one commit; a change is never cut."""
    part: list[Change] = []
    size = count = 0
    for change in changes:
        added = sum(put.message.size for put in change.operations if isinstance(put, PutMessage))
        if part and (count + change.count > MAX_BATCH_CHANGES or size + added > MAX_BATCH_BYTES):
            yield part
            part, size, count = [], 0, 0
        part.append(change)
        size += added
        count += change.count
    if part:
        yield part


def rolled_back(error: BaseException) -> bool:
    """Nothing was stored and the store goes on: there was no room, or one value could not be stored."""
    return isinstance(error, LiorError) and not isinstance(error, StoreUnusable)


def _end(done: asyncio.Future[int], result: int | None, error: Exception | None) -> None:
    if done.done():  # who waited for it went away
        return
    if error is not None:
        done.set_exception(error)
    elif result is not None:
        done.set_result(result)


def _NOTHING() -> None:  # noqa: N802  # stands for "the queue of work is empty"
    pass
