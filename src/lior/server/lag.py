"""How late the loop is: the time between when a timer was due and when it ran."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

INTERVAL: Final = 0.5  # seconds between two measurements
KEPT: Final = 120  # measurements: a minute


class LoopLag:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._measured: deque[float] = deque([0.0], maxlen=KEPT)
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._due = self._loop.time() + INTERVAL
        self._timer = self._loop.call_at(self._due, self._measure)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _measure(self) -> None:
        self._measured.append(max(0.0, self._loop.time() - self._due))
        self.start()

    @property
    def last(self) -> float:
        return self._measured[-1]

    @property
    def longest(self) -> float:
        """Of the last minute."""
        return max(self._measured)
