"""A queue manager for each test, driven by hand."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lior.queues.ports import Store
from lior.store.memory import MemoryStore
from lior.store.sqlite import SqliteStore
from lior.testing.engine import ManualEngine


@pytest.fixture
def engine() -> ManualEngine:
    """A fresh queue manager over a memory store; nothing is committed until the test says so."""
    return ManualEngine()


class Host:
    """A computer whose queue manager can die. `crash` starts another one on what the store kept."""

    def __init__(self, again: Callable[[Store | None], Store]) -> None:
        self._again = again
        self.engine = ManualEngine(again(None))

    def crash(self, **options: Any) -> ManualEngine:
        """What was not committed is gone, and so is everything that only the memory held."""
        self.engine.store = self._again(self.engine.store)
        self.engine = self.engine.restart(**options)
        return self.engine


@pytest.fixture(params=["memory", "sqlite"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    """A queue manager over each kind of store, for tests that restart it."""

    def memory(store: Store | None) -> Store:
        return MemoryStore() if store is None else store

    def sqlite(store: Store | None) -> Store:
        if store is not None:
            store.close()
        return SqliteStore(tmp_path / "data")

    host = Host(memory if request.param == "memory" else sqlite)
    yield host
    host.engine.store.close()
