"""How calls of the library are made: names and times as they go to a queue manager, and what a cancellation may not
lose."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from lior.message import INFINITE
from lior.names import DirectName, parse_format_name, parse_path_name

ACCESS: Final = {
    "receive": 0x01,
    "send": 0x02,
    "move": 0x04,
    "peek": 0x20,
    "receive-admin": 0x81,
    "peek-admin": 0xA0,
}
NO_WAIT: Final = 0.0


def format_name(name: str) -> str:
    """What to open: format names as they are, path names as direct format names."""
    if "=" in name:
        return str(parse_format_name(name))
    return str(DirectName.from_path(parse_path_name(name)))


def milliseconds(timeout: float | None) -> int:
    """None waits for ever, 0 does not wait."""
    if timeout is None:
        return INFINITE
    if not timeout >= 0:  # nor is it NaN
        raise ValueError("a timeout is None or not negative")
    return round(min(INFINITE - 1, timeout * 1000)) if timeout == 0 or timeout * 1000 >= 1 else 1


T = TypeVar("T")

_owed: dict[asyncio.Task[Any], int] = {}  # whom a cancellation is owed, and how often it was cancelled before


async def taken(receive: Callable[[], Awaitable[Any]], shown: Callable[[Any], T]) -> T:
    """What a receive answers. A cancellation that finds the message on its way out of the queue would lose
    it: the caller gets the message, and the cancellation at its next await unless a timeout was the cause."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    if task in _owed and before > _owed.pop(task):
        raise asyncio.CancelledError
    future = asyncio.ensure_future(receive())
    try:
        return shown(await future)
    except asyncio.CancelledError:
        if not future.done() or future.cancelled() or future.exception() is not None:
            raise
        _owed[task] = before
        asyncio.get_running_loop().call_soon(_cancel_again, task)
        return shown(future.result())


def as_it_is(held: Any) -> Any:
    return held


def _cancel_again(task: asyncio.Task[Any]) -> None:
    before = _owed.pop(task, None)
    if before is not None and not task.done() and task.cancelling() > before:  # timeouts take theirs back
        task.cancel()
        task.uncancel()


class Closing(ABC):
    """What is closed at the end of its `async with` block."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None: ...
