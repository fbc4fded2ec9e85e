"""Lior for asyncio programs: `async with lior.aio.open("./data") as qm`, or `lior.aio.connect("./data")`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any

from lior.client.aio import Cursor, Queue, QueueManager, Transaction
from lior.client.backend import Backend

__all__ = ["Cursor", "Queue", "QueueManager", "Transaction", "connect", "open"]


def open(data: str | os.PathLike[str], **options: Any) -> Opening:
    """An embedded queue manager on the running loop. Await it, or use it with `async with`."""

    async def start() -> Backend:
        from lior import embedded  # a whole queue manager, which a program that connects to one does not import

        return await embedded.start(data, **options)

    return Opening(start)


def connect(
    target: str | os.PathLike[str] | None = None,
    *,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    authentication: str | None = None,
    level: str | None = None,
) -> Opening:
    """A queue manager that `lior serve` runs, or another one of the same protocols: named by its data directory, by
    host or host:port, or by a URL; without a name the one with its data in a default directory. A host wants a `user`
    with his `password` (or LIOR_USER and LIOR_PASSWORD_FILE), or the server's token (`token`, LIOR_TOKEN, or the file
    that LIOR_TOKEN_FILE names); docs/server.md says more. Await it, or use it with `async with`."""

    async def start() -> Backend:
        from lior.client.connecting import connected  # what it takes to connect takes a while to import

        return await connected(target, token=token, user=user, password=password, authentication=authentication,
                               level=level)  # fmt: skip

    return Opening(start)


class Opening:
    def __init__(self, start: Callable[[], Awaitable[Backend]]) -> None:
        self._start = start
        self._manager: QueueManager | None = None

    async def _open(self) -> QueueManager:
        self._manager = QueueManager(await self._start())
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
