"""One real `lior serve` for a test: its own process, data directory and loopback address."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import lior
from lior.client.sync import QueueManager
from lior.message import INFINITE
from lior.testing.serving import Serving, loopback_address

# Timers of the protocol that tests do not want to wait for.
QUICK: Final = {"binary.retry": 0.2, "log.level": "info"}
PATIENCE: Final = 60.0  # seconds for anything that has to happen

T = TypeVar("T")


def free_address() -> str:
    """A loopback address for a peer of a test."""
    return loopback_address()


def eventually(value: Callable[[], T], *, timeout: float = PATIENCE, what: str = "") -> T:
    """The first true value; polled, for it is another process's."""
    end = time.monotonic() + timeout
    while True:
        found = value()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not in {timeout} s: {what or value}")
        select.select([], [], [], 0.02)


class Daemon(Serving):
    """`with Daemon(tmp_path / "data").prepare("q") as server: ...`"""

    def __init__(self, data: Path, *, address: str = "", settings: dict[str, Any] | None = None) -> None:
        super().__init__(data, address or None, {**QUICK, **(settings or {})})
        self._qm: QueueManager | None = None

    def kill(self) -> int:
        self._forget_client()
        return super().kill()

    def terminate(self) -> int:
        self._forget_client()
        return super().terminate()

    def __enter__(self) -> Self:
        return self.start()

    @property
    def qm(self) -> QueueManager:
        """A client of the running server."""
        if self._qm is None:
            self._qm = self.connect()
        return self._qm

    def _forget_client(self) -> None:
        client, self._qm = self._qm, None
        if client is not None:
            with contextlib.suppress(lior.LiorError, OSError):
                client.close()

    @contextlib.contextmanager
    def offline(self) -> Iterator[QueueManager]:
        """The same queue manager without its server: embedded here, while the server is down."""
        assert not self.running, "the server has the directory"
        with lior.open(self.data) as manager:
            yield manager

    def prepare(self, *plain: str, transactional: Iterable[str] = (), **properties: Any) -> Self:
        """Queues that are there when it starts."""
        with self.offline() as manager:
            manager.set_properties(queue_manager_quota=INFINITE)
            for name in plain:
                manager.create_queue(rf".\private$\{name}", **properties)
            for name in transactional:
                manager.create_queue(rf".\private$\{name}", transactional=True, **properties)
        return self

    def memory(self) -> int:
        """Bytes in memory of the process."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def bodies(self, queue: str) -> list[bytes]:
        """What a queue of it holds, in order; nothing is taken."""
        with self.qm.open_queue(rf".\private$\{queue}", "peek") as opened:
            return [message.body for message in opened]

    def count(self, queue: str) -> int:
        return self.qm.queue(rf".\private$\{queue}").messages

    def outgoing(self, address: str = "") -> int:
        """Messages that wait for a peer at that address, or for anybody."""
        queues = self.qm.queues()
        return sum(info.messages for info in queues if info.kind == "outgoing" and address in info.name)

    def holds(self, queue: str, count: int, timeout: float = PATIENCE) -> None:
        eventually(lambda: self.count(queue) >= count, timeout=timeout, what=f"{count} messages in {queue}")
        assert self.count(queue) == count
