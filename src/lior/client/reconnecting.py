"""A connection that is made again by the next who needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from lior.errors import ServiceNotAvailable


class Losable(Protocol):
    @property
    def lost(self) -> bool: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Losable)


class Reconnecting(Generic[C]):
    """One connection at a time, made by `connect`; callers that need it at once share the attempt."""

    def __init__(self, connect: Callable[[], Awaitable[C]], where: str) -> None:
        self._connect = connect
        self._where = where
        self._current: C | None = None
        self._connecting: asyncio.Task[C] | None = None
        self._closed = False

    async def get(self) -> C:
        current = self._current
        if current is not None and not current.lost:
            return current
        if self._closed:
            raise ServiceNotAvailable("the connection is closed", where=self._where, remedy="connect again")
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._again())
        return await asyncio.shield(self._connecting)

    async def _again(self) -> C:
        try:
            lost, self._current = self._current, None
            if lost is not None:
                await lost.close()
            self._current = await self._connect()
            return self._current
        finally:
            self._connecting = None

    def stop(self) -> None:
        """No attempt from now on; the one under way ends."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()

    async def close(self) -> None:
        self.stop()
        current, self._current = self._current, None
        if current is not None:
            await current.close()
