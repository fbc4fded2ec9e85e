"""The free space of the store's disk, and what follows when there is little of it."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from lior.errors import LiorError
from lior.queues.core import Core

DISK_CHECK: Final = 0.25  # seconds between looks at the free space, while changes come in or are refused for it


class Disk(Protocol):
    def free_bytes(self) -> int: ...


class DiskWatch:
    """Throttles while less than `low_bytes` are free, so that what is accepted can always be taken out again
    ([MS-MQDMPR] 3.1.7.2.5). Then it looks again by the clock: no commit may come to do it."""

    def __init__(self, core: Core, disk: Disk, loop: asyncio.AbstractEventLoop, low_bytes: int) -> None:
        self.low_bytes = low_bytes
        self._core = core
        self._disk = disk
        self._loop = loop
        self._checked = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def check_if_due(self) -> None:
        """After a commit."""
        if self._loop.time() - self._checked > DISK_CHECK:
            self.check()

    def check(self) -> None:
        self._checked = self._loop.time()
        core = self._core
        try:
            free = self._disk.free_bytes()
        except LiorError as error:
            core.set_throttled(f"the free space of the disk cannot be told: {error.what}")
        else:
            if free < self.low_bytes:
                core.set_throttled(f"only {free >> 20} MB are free on the disk")
            elif core.throttled and free > 2 * self.low_bytes:
                core.set_throttled("")
        if core.throttled and self._timer is None and not self._stopped:
            self._timer = self._loop.call_later(DISK_CHECK, self._look)

    def due(self) -> None:
        """The next commit is to look, however short ago somebody did."""
        self._checked = float("-inf")

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        self.check()
