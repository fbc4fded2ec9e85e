"""Making the calls of a message that passed every check: in order, on one object, each under its own context."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any

from lior.client.aio import QueueManager, Transaction
from lior.client.message import ReceivedMessage
from lior.client.sync import Queue as SyncQueue
from lior.client.sync import Transaction as SyncTransaction
from lior.components.application import PreparedCall
from lior.components.context import CurrentCall, playing
from lior.components.events import Reporter


class CallFailed(Exception):
    """A call raised; those behind it were not made. `index` is None when no object could be made for them."""

    def __init__(self, index: int | None, method: str, error: BaseException) -> None:
        super().__init__(f"call {index}, {method}: {type(error).__name__}: {error}"[:500])
        self.index = index
        self.error = error


class Stage:
    """Where one message is played: what its methods learn, and what they send with."""

    def __init__(
        self, manager: QueueManager, message: ReceivedMessage, transaction: Transaction | None, reporter: Reporter,
        *, level: int, threads: bool,
    ) -> None:  # fmt: skip
        self._manager = manager
        self._message = message
        self._transaction = transaction
        self._reporter = reporter
        self._level = level
        self._threads = threads
        self._loop = asyncio.get_running_loop()

    async def play(self, target: Any, calls: Sequence[PreparedCall]) -> None:
        """All calls, or CallFailed. Methods that are no coroutines run in a thread, together as far as they follow
        each other, so that they may block."""
        at = 0
        while at < len(calls):
            method = getattr(target, calls[at].method)
            if _waits(method):
                await self._awaited(method, calls[at])
                at += 1
                continue
            end = at + 1
            while end < len(calls) and not _waits(getattr(target, calls[end].method)):
                end += 1
            if self._threads:
                await asyncio.to_thread(self._together, target, calls[at:end])
            else:
                self._together(target, calls[at:end])
            at = end

    async def _awaited(self, method: Callable[..., Awaitable[Any]], call: PreparedCall) -> None:
        with playing(self._current(call, is_async=True)):
            began = time.perf_counter()
            failed: BaseException | None = None
            try:
                await method(*call.arguments)
            except Exception as error:
                failed = error
        self._made(call, began, failed)

    def _together(self, target: Any, calls: Sequence[PreparedCall]) -> None:
        for call in calls:
            method = getattr(target, call.method)
            with playing(self._current(call, is_async=not self._threads)):
                began = time.perf_counter()
                failed: BaseException | None = None
                try:
                    method(*call.arguments)
                except Exception as error:
                    failed = error
            self._made(call, began, failed)

    def _made(self, call: PreparedCall, began: float, failed: BaseException | None) -> None:
        name = f"{call.interface}.{call.method}"
        self._reporter.call(self._message.id, call.index, name, time.perf_counter() - began, failed)
        if failed is not None:
            raise CallFailed(call.index, name, failed) from failed

    def _current(self, call: PreparedCall, *, is_async: bool) -> CurrentCall:
        transaction: Any = self._transaction
        send: Callable[..., Any] = self._manager.send if transaction is None else transaction.send
        manager: Any = self._manager
        if not is_async:
            bridge = Bridge(self._loop)
            if transaction is not None:
                transaction = SyncTransaction(bridge, transaction)  # type: ignore[arg-type]
            send = bridge.blocking(send)
            manager = BridgedManager(bridge, self._manager)
        return CurrentCall(
            self._message, call.index, call.interface, call.method, call.caller, call.security, call.security_data,
            self._level, self._message.abort_count + 1, transaction, send, manager,
        )  # fmt: skip


def _waits(method: Callable[..., Any]) -> bool:
    return _is_coroutine_function(getattr(method, "__func__", method))


@lru_cache(maxsize=4096)
def _is_coroutine_function(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function)


class Bridge:
    """Calls into the player's loop from the thread that a method runs in."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call(self, function: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
        async def run() -> Any:
            return await function(*arguments, **options)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def blocking(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        return lambda *arguments, **options: self.call(function, *arguments, **options)


class BridgedManager:
    """As much of a queue manager as a Recorder needs."""

    def __init__(self, bridge: Bridge, manager: QueueManager) -> None:
        self._bridge = bridge
        self._manager = manager

    def open_queue(self, name: str, access: str = "send") -> SyncQueue:
        queue = self._bridge.call(self._manager.open_queue, name, access)
        return SyncQueue(self._bridge, queue)  # type: ignore[arg-type]
