"""One timer of the loop for many deadlines."""

import asyncio
from collections.abc import Callable
from typing import Final

NEVER: Final = float("inf")


class Alarm:
    """Calls once, at the earliest of the moments that it was told since it last did."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        self._loop = loop
        self._call = call
        self._handle: asyncio.TimerHandle | None = None

    def at(self, moment: float) -> None:
        if moment == NEVER or (self._handle is not None and self._handle.when() <= moment):
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_at(moment, self._ring)

    def _ring(self) -> None:
        self._handle = None
        self._call()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
