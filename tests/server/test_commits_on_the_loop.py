"""The loop commits by itself while the disk is quick, and leaves it to the writer thread when it is not."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lior.client.aio import QueueManager
from lior.embedded import EmbeddedBackend, describe
from lior.errors import LiorError, MessageStorageFailed, ServiceNotAvailable, StoreUnusable
from lior.security import local_caller
from lior.server.committer import QUICK, QUICK_BYTES
from lior.server.engine import Engine
from lior.store.sqlite import SqliteStore
from tests.server.engines import make_engine

QUEUE = r".\private$\q"


class WatchedStore(SqliteStore):
    """Notes which thread commits, and can be told to fail."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.threads: list[int] = []
        self.fails: Callable[[int], BaseException | None] = lambda rows: None

    def commit(self, plans: Sequence[Any]) -> None:
        self.threads.append(threading.get_ident())
        error = self.fails(sum(len(plan.statements) for plan in plans))
        if error is not None:
            raise error
        super().commit(plans)


async def started(directory: Path, pace: float = 0.0) -> tuple[WatchedStore, Engine, QueueManager]:
    """A queue manager with a queue, its writer thread at rest; commits have lately taken `pace` seconds."""
    store = WatchedStore(directory)
    engine = make_engine(store)
    await engine.start()
    manager = QueueManager(EmbeddedBackend(engine, store, local_caller(0, (0,), is_administrator=True), describe))
    await manager.create_queue(QUEUE)
    await rested(engine)
    engine._committer._pace = pace
    store.threads.clear()
    return store, engine, manager


def on_a_loop(test: Callable[[Path], Any]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    run.__name__ = test.__name__
    return run


async def rested(engine: Engine) -> None:
    """Until the thread has nothing to do."""
    await engine._committer.run(lambda: 0)
    while not engine._committer._resting:
        await asyncio.sleep(0)


@on_a_loop
async def test_a_quick_disk_is_used_from_the_loop(tmp_path: Path) -> None:
    store, _, manager = await started(tmp_path)
    await manager.send(QUEUE, b"one")
    assert store.threads == [threading.get_ident()]
    await manager.close()


@on_a_loop
async def test_after_a_slow_commit_the_thread_commits_until_it_is_quick_again(tmp_path: Path) -> None:
    store, engine, manager = await started(tmp_path, pace=50 * QUICK)
    await manager.send(QUEUE, b"one")
    assert threading.get_ident() not in store.threads
    count = 1
    while threading.get_ident() not in store.threads:
        await manager.send(QUEUE, b"more")
        await rested(engine)
        count += 1
        assert count < 1000, "never quick again"
    async with await manager.open_queue(QUEUE) as queue:
        assert len([message async for message in queue]) == count
    await manager.close()


@on_a_loop
async def test_a_large_batch_is_the_threads_however_quick_the_disk_is(tmp_path: Path) -> None:
    store, _, manager = await started(tmp_path)
    await manager.send(QUEUE, bytes(QUICK_BYTES + 1))
    assert threading.get_ident() not in store.threads
    await manager.close()


@on_a_loop
async def test_without_room_on_the_loop_each_change_is_tried_alone(tmp_path: Path) -> None:
    store, _, manager = await started(tmp_path)
    full = MessageStorageFailed("full")
    refused: list[int] = []

    def fails(rows: int) -> BaseException | None:
        refused.append(rows)
        return full if len(refused) in (1, 3) else None  # the whole, then the second of the three

    store.fails = fails
    results = await asyncio.gather(*(manager.send(QUEUE, b"%d" % n) for n in range(3)), return_exceptions=True)
    assert [isinstance(result, MessageStorageFailed) for result in results] == [False, True, False]
    store.fails = lambda rows: None
    async with await manager.open_queue(QUEUE) as queue:
        assert [message.body async for message in queue] == [b"0", b"2"]
    await manager.close()


@on_a_loop
async def test_a_failed_sync_on_the_loop_ends_the_service_with_one_clear_error(tmp_path: Path) -> None:
    store, _, manager = await started(tmp_path)
    store.fails = lambda rows: StoreUnusable("the disk is gone")
    with pytest.raises(StoreUnusable):
        await manager.send(QUEUE, b"lost, and said so")
    with pytest.raises(ServiceNotAvailable):
        await manager.send(QUEUE, b"refused")
    await manager.close()


def test_an_interrupt_in_the_middle_of_a_commit_stops_the_service(tmp_path: Path) -> None:
    """Nobody knows whether it is on disk: nothing is answered from memory after that."""
    loop = asyncio.new_event_loop()
    store, engine, manager = loop.run_until_complete(started(tmp_path))
    store.fails = lambda rows: KeyboardInterrupt()
    sending = loop.create_task(manager.send(QUEUE, b"x"))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(sending)
    assert isinstance(engine.broken, LiorError)
    with pytest.raises(ServiceNotAvailable):
        loop.run_until_complete(manager.send(QUEUE, b"y"))
    with pytest.raises(StoreUnusable):
        loop.run_until_complete(sending)
    loop.run_until_complete(manager.close())
    loop.close()
