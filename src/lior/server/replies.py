"""How those who wait on the loop are told."""

from __future__ import annotations

import asyncio
from typing import Any

from lior.errors import LiorError


class FutureReply:
    """An asyncio future as a reply that may be told although its caller has gone away in the meantime."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future

    def cancelled(self) -> bool:
        return self._future.done()

    def set_result(self, value: Any, /) -> None:
        if not self._future.done():
            self._future.set_result(value)

    def set_exception(self, error: LiorError, /) -> None:
        if not self._future.done():
            self._future.set_exception(error)
