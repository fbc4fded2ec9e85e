"""An engine over a real store whose commits wait for a word, or fail on command."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from lior.client import aio
from lior.embedded import EmbeddedBackend, describe
from lior.errors import LiorError, MessageStorageFailed
from lior.queues.core import Clock
from lior.queues.manager import QueueManager
from lior.queues.ports import Operation
from lior.server.engine import Engine
from lior.server.runtime import RandomIds, SystemClock, fresh_properties, local_names, process_caller
from lior.store.sqlite import SqliteStore

LONG = 120  # seconds: more than any test needs
QUEUE = r".\private$\work"


class HeldStore(SqliteStore):
    """`hold` stops the writer thread inside its next commit until `let_go`; `fails` is asked before each commit
    for the error to raise instead of it, `refuses` likewise before a batch is prepared."""

    commits_quickly = False  # what is held must be the thread, never the loop

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._gate = threading.Event()
        self._gate.set()
        self._reached = threading.Semaphore(0)
        self.fails: Callable[[list[Operation]], BaseException | None] = lambda operations: None
        self.refuses: Callable[[Sequence[Operation]], Exception | None] = lambda operations: None
        self.committed: list[list[Operation]] = []
        self.free: int | LiorError | None = None

    def hold(self) -> None:
        self._gate.clear()

    def let_go(self) -> None:
        self._gate.set()

    async def reached(self) -> None:
        """Until the writer stands at the gate."""
        assert await asyncio.to_thread(self._reached.acquire, timeout=LONG)

    def prepare(self, batch: Sequence[Operation]) -> Any:
        error = self.refuses(batch)
        if error is not None:
            raise error
        plan: Any = super().prepare(batch)
        plan.made_of = list(batch)
        return plan

    def commit(self, plans: Sequence[Any]) -> None:
        operations = [operation for plan in plans for operation in plan.made_of]
        if not self._gate.is_set():
            self._reached.release()
            assert self._gate.wait(LONG)
        error = self.fails(operations)
        if error is not None:
            raise error
        super().commit(plans)
        self.committed.append(operations)

    def free_bytes(self) -> int:
        if isinstance(self.free, LiorError):
            raise self.free
        return super().free_bytes() if self.free is None else self.free


class Running:
    def __init__(self, engine: Engine, store: HeldStore) -> None:
        self.engine = engine
        self.store = store
        self.manager = engine.manager
        self.core = engine.manager.core
        self.qm = aio.QueueManager(EmbeddedBackend(engine, store, process_caller(), describe))

    async def count(self, queue: str = QUEUE) -> int:
        return (await self.qm.queue(queue)).messages


def make_engine(store: SqliteStore, clock: Clock | None = None, *, cache_bytes: int = 64 << 20, low: int = 0) -> Engine:
    properties = fresh_properties(RandomIds().guid(), "host")
    names = local_names(properties, ["127.0.0.1"])
    manager = QueueManager(properties, names, store, clock or SystemClock(), RandomIds(), cache_bytes=cache_bytes)
    return Engine(manager, store, low_disk_bytes=low)


@asynccontextmanager
async def running(directory: Path, clock: Clock | None = None, **options: int) -> AsyncIterator[Running]:
    store = HeldStore(directory)
    engine = make_engine(store, clock, **options)
    await engine.start()
    found = Running(engine, store)
    if not await found.qm.exists(QUEUE):
        await found.qm.create_queue(QUEUE)
    store.committed.clear()
    try:
        yield found
    finally:
        store.let_go()
        await asyncio.wait_for(engine.close(), LONG)


async def turns(count: int = 5) -> None:
    """Let the loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


def no_room() -> MessageStorageFailed:
    return MessageStorageFailed("the disk is full", where="test")


def once(error: BaseException) -> Callable[[list[Operation]], BaseException | None]:
    left = [error]
    return lambda operations: left.pop() if left else None


def looped(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that runs on a loop of its own."""

    @wraps(test)
    def run(*arguments: Any, **options: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **options), 4 * LONG))

    return run
