"""Lior for asyncio programs: `async with lior.aio.open("./data") as qm`."""

from __future__ import annotations

import os
from collections.abc import Generator
from types import TracebackType
from typing import Any

from lior import embedded
from lior.client.aio import Cursor, Queue, QueueManager, Transaction

__all__ = ["Cursor", "Queue", "QueueManager", "Transaction", "open"]


def open(data: str | os.PathLike[str], **options: Any) -> Opening:
    """An embedded queue manager on the running loop. Await it, or use it with `async with`."""
    return Opening(data, options)


class Opening:
    def __init__(self, data: str | os.PathLike[str], options: dict[str, Any]) -> None:
        self._data = data
        self._options = options
        self._manager: QueueManager | None = None

    async def _open(self) -> QueueManager:
        self._manager = QueueManager(await embedded.start(self._data, **self._options))
        return self._manager

    def __await__(self) -> Generator[Any, None, QueueManager]:
        return self._open().__await__()

    async def __aenter__(self) -> QueueManager:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._manager is not None:
            await self._manager.close()
