"""The writer thread: one commit for everything that came while the last one ran.

The loop hands over changes; the thread applies their operations as one batch and reports back on the loop.
There is no delay to collect more: a lone sender pays one sync, many senders share one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol

from lior.queues.change import Change
from lior.queues.ports import Operation

MAX_BATCH_BYTES = 16 << 20  # content in one commit; more waits for the next


class WritableStore(Protocol):
    def apply(self, batch: Sequence[Operation]) -> None: ...

    def maintain(self, idle: bool = True) -> None: ...


Report = Callable[[list[Change], BaseException | None], None]


class Committer:
    def __init__(self, store: WritableStore, loop: asyncio.AbstractEventLoop, report: Report) -> None:
        self._store = store
        self._loop = loop
        self._report = report
        self._work: SimpleQueue[list[Change] | Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lior-writer", daemon=True)
        self._thread.start()

    def commit(self, changes: list[Change]) -> None:
        self._work.put(changes)

    def maintain(self) -> None:
        """Nothing came for a while: checkpoint, give space back."""
        self._work.put([])

    async def run(self, work: Callable[[], int]) -> int:
        """Let the thread do something else than a commit."""
        done: asyncio.Future[int] = self._loop.create_future()

        def run() -> None:
            try:
                result = work()
            except Exception as error:
                self._loop.call_soon_threadsafe(done.set_exception, error)
            else:
                self._loop.call_soon_threadsafe(done.set_result, result)

        self._work.put(run)
        return await done

    def stop(self) -> None:
        """Finish what was handed over, then end the thread."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (changes := self._work.get()) is not None:
            if callable(changes):
                changes()
                continue
            error: BaseException | None = None
            try:
                if changes:
                    self._store.apply([op for change in changes for op in change.operations])
                else:
                    self._store.maintain(True)
            except BaseException as caught:
                error = caught
            try:
                self._loop.call_soon_threadsafe(self._report, changes, error)
            except RuntimeError:
                return  # the loop is closed: nobody is left to tell
            if changes and error is None:
                self._after_commit()

    def _after_commit(self) -> None:
        """Between commits, once the answers are on their way: keep the log from growing."""
        try:
            self._store.maintain(False)
        except Exception:
            return  # the store remembers, and the next commit reports it
