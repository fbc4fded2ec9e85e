"""The library without asyncio: the same objects, each call waits for its answer.

The loop runs in a thread of its own; any number of threads may use one queue manager.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from uuid import UUID

from lior.client import aio
from lior.client.backend import QueueInfo
from lior.client.calling import NO_WAIT
from lior.client.formatters import Formatter
from lior.client.message import ReceivedMessage
from lior.client.trace import TraceEntry
from lior.errors import ServiceNotAvailable, Timeout
from lior.message import Message, ObjectId
from lior.security import SecurityDescriptor, SecurityInformation

T = TypeVar("T")
log = logging.getLogger("lior.client")


class Runner:
    """A loop in a thread, and calls into it."""

    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> None:
        self.loop = new_loop()
        self._handing = threading.Lock()  # what is handed to the loop is run, or refused
        self._ending = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="lior-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._ended:
                try:
                    self.loop.run_forever()
                except BaseException:  # sys.exit in a formatter, say: its caller gets it, the others go on
                    log.exception("a call tried to end the loop")
        finally:
            self.loop.close()

    @property
    def is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def call(self, function: Callable[..., Awaitable[T]], *arguments: Any, **options: Any) -> T:
        """Run on the loop what `function` starts, and wait for it. Ctrl-C cancels it."""
        if not self._thread.is_alive():  # nor is it in a process that was forked from its own
            raise _closed()
        if self.is_own_thread:
            raise RuntimeError("the loop's own thread cannot wait for it: use lior.aio")
        waiter: _Waiter[T] = _Waiter(self.loop)
        try:
            with self._handing:
                if self._ended:
                    raise _closed()
                self.loop.call_soon_threadsafe(waiter.start, function, arguments, options)
            waiter.wait()
        except BaseException:  # KeyboardInterrupt: do not leave a read behind that takes a message
            waiter.give_up()
            raise
        return waiter.result()

    def stop(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """End the loop, but not before what a Ctrl-C cancelled has cleaned up after itself, and `last`."""
        if not self._thread.is_alive():
            return
        ending: list[asyncio.Task[None]] = []  # the loop holds tasks only weakly
        with self._handing:
            if not self._ending:
                self._ending = True
                self.loop.call_soon_threadsafe(lambda: ending.append(self.loop.create_task(self._end(last))))
        self._thread.join()

    async def _end(self, last: Callable[[], Awaitable[None]] | None) -> None:
        try:
            await _over([task for task in _others() if task.cancelling()])
            if last is not None:
                await last()
        except Exception:
            log.exception("the queue manager did not close well")
        finally:
            await _cancel_others()
            with self._handing:
                self._ended = True
            await asyncio.sleep(0)  # what was handed over before that starts now
            await _cancel_others()
            self.loop.stop()


def _others() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


async def _over(tasks: Iterable[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


async def _cancel_others() -> None:
    while others := _others():
        for task in others:
            task.cancel()
        await _over(others)


def _closed() -> ServiceNotAvailable:
    return ServiceNotAvailable("the queue manager is closed", remedy="open it again")


class _Waiter(Generic[T]):
    """One call from another thread."""

    __slots__ = ("_done", "_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[T] | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def start(self, function: Callable[..., Awaitable[T]], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        try:
            started = function(*arguments, **options)
            future = self._loop.create_task(started) if inspect.iscoroutine(started) else started
        except Exception as error:
            future = self._loop.create_future()
            future.set_exception(error)
        assert isinstance(future, asyncio.Future)
        self._future = future
        if future.done():
            self._done.release()
        else:
            future.add_done_callback(self._finished)

    def _finished(self, future: asyncio.Future[T]) -> None:
        self._done.release()

    def wait(self) -> None:
        self._done.acquire()

    def result(self) -> T:
        assert self._future is not None
        if self._future.cancelled():  # not by its caller, so by the end of the loop
            raise _closed()
        return self._future.result()

    def give_up(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._future is not None:
            self._future.cancel()


class Closing(ABC):
    """What is closed at the end of its `with` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...


class QueueManager(Closing):
    """A queue manager. See `lior.client.aio.QueueManager` for what each call does."""

    def __init__(self, runner: Runner, manager: aio.QueueManager) -> None:
        self._runner = runner
        self._call = runner.call
        self.aio = manager
        atexit.register(self.close)  # a program that ends without closing loses no numbers and leaves no log behind

    @classmethod
    def start(cls, opening: Callable[[], Coroutine[Any, Any, aio.QueueManager]], runner: Runner) -> QueueManager:
        opened: list[aio.QueueManager] = []
        begun: list[asyncio.Task[Any] | None] = []

        async def keep() -> aio.QueueManager:
            begun.append(asyncio.current_task())
            opened.append(await opening())
            return opened[0]

        async def close() -> None:
            for task in filter(None, begun):
                task.cancel()
                await _over([task])
            for manager in opened:  # open, but the caller was interrupted before he had it
                await manager.close()

        try:
            return cls(runner, runner.call(keep))
        except BaseException:
            runner.stop(close)
            raise

    def close(self) -> None:
        """Commit what is pending and let go of the data directory. Closing twice is fine."""
        if self._runner.is_own_thread:
            raise RuntimeError("the loop's own thread cannot wait for its end: close from another one")
        atexit.unregister(self.close)
        try:
            with suppress(ServiceNotAvailable):  # closed before, or opened by the process that this one was forked from
                self._call(self.aio.close)
        finally:
            self._runner.stop(self.aio.close)

    def send(
        self,
        destination: str | Iterable[str],
        body: Any,
        *,
        transaction: Transaction | None = None,
        formatter: str | Formatter | None = None,
        transactional: bool | None = None,
        **properties: Any,
    ) -> ObjectId:
        return self._call(
            self.aio.send,
            destination,
            body,
            transaction=_inner(transaction),
            formatter=formatter,
            transactional=transactional,
            **properties,
        )

    def receive(self, name: str, timeout: float | None = None) -> ReceivedMessage:
        return self._call(self.aio.receive, name, timeout)

    def open_queue(self, name: str, access: str = "receive", *, exclusive: bool = False) -> Queue:
        return Queue(self._runner, self._call(self.aio.open_queue, name, access, exclusive=exclusive))

    def transaction(self) -> Transaction:
        return Transaction(self._runner, self.aio.transaction())

    def create_queue(self, path: str, **properties: Any) -> QueueInfo:
        return self._call(self.aio.create_queue, path, **properties)

    def delete_queue(self, name: str) -> None:
        self._call(self.aio.delete_queue, name)

    def purge_queue(self, name: str) -> None:
        self._call(self.aio.purge_queue, name)

    def set_queue(self, name: str, **changes: Any) -> None:
        self._call(self.aio.set_queue, name, **changes)

    def queue(self, name: str) -> QueueInfo:
        return self._call(self.aio.queue, name)

    def queues(self) -> list[QueueInfo]:
        return self._call(self.aio.queues)

    def exists(self, name: str) -> bool:
        return self._call(self.aio.exists, name)

    def get_security(
        self, name: str, information: int = SecurityInformation.OWNER | SecurityInformation.DACL
    ) -> SecurityDescriptor:
        return self._call(self.aio.get_security, name, information)

    def set_security(
        self, name: str, descriptor: SecurityDescriptor, information: int = SecurityInformation.DACL
    ) -> None:
        self._call(self.aio.set_security, name, descriptor, information)

    def properties(self) -> dict[str, Any]:
        return self._call(self.aio.properties)

    def set_properties(self, **changes: Any) -> None:
        self._call(self.aio.set_properties, **changes)

    def outgoing(self) -> list[dict[str, Any]]:
        return self._call(self.aio.outgoing)

    def connections(self) -> list[dict[str, Any]]:
        return self._call(self.aio.connections)

    def pause(self, destination: str) -> None:
        self._call(self.aio.pause, destination)

    def resume(self, destination: str) -> None:
        self._call(self.aio.resume, destination)

    def set_online(self, online: bool) -> None:
        self._call(self.aio.set_online, online)

    def transactions(self) -> list[dict[str, Any]]:
        return self._call(self.aio.transactions)

    def subscriptions(self) -> list[dict[str, Any]]:
        return self._call(self.aio.subscriptions)

    def abandon_subscription(self, name: str) -> None:
        self._call(self.aio.abandon_subscription, name)

    def decide(self, transaction: UUID, *, commit: bool) -> None:
        self._call(self.aio.decide, transaction, commit=commit)

    def trace(
        self,
        message_id: str | ObjectId = "",
        *,
        label: str = "",
        correlation_id: str | bytes | ObjectId = "",
        progress: Callable[[int, int], None] | None = None,
    ) -> list[TraceEntry]:
        return self._call(
            self.aio.trace, message_id, label=label, correlation_id=correlation_id, progress=progress
        )

    def backup(self, path: str) -> None:
        self._call(self.aio.backup, path)

    def compact(self) -> int:
        return self._call(self.aio.compact)


class Queue(Closing):
    """An open queue. See `lior.client.aio.Queue`."""

    def __init__(self, runner: Runner, queue: aio.Queue) -> None:
        self._runner = runner
        self._call = runner.call
        self.aio = queue
        self.format_name = queue.format_name

    def close(self) -> None:
        self._call(self.aio.close)

    def send(
        self,
        body: Any,
        *,
        transaction: Transaction | None = None,
        formatter: str | Formatter | None = None,
        transactional: bool | None = None,
        **properties: Any,
    ) -> ObjectId:
        return self._call(
            self.aio.send,
            body,
            transaction=_inner(transaction),
            formatter=formatter,
            transactional=transactional,
            **properties,
        )

    def receive(self, timeout: float | None = None, *, transaction: Transaction | None = None) -> ReceivedMessage:
        return self._call(self.aio.receive, timeout, transaction=_inner(transaction))

    def peek(self, timeout: float | None = None) -> ReceivedMessage:
        return self._call(self.aio.peek, timeout)

    def receive_by_lookup_id(
        self, lookup_id: int, action: str = "current", *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        return self._call(self.aio.receive_by_lookup_id, lookup_id, action, transaction=_inner(transaction))

    def peek_by_lookup_id(self, lookup_id: int, action: str = "current") -> ReceivedMessage:
        return self._call(self.aio.peek_by_lookup_id, lookup_id, action)

    def receive_by_correlation_id(
        self, correlation_id: bytes | ObjectId, timeout: float | None = None, *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        return self._call(self.aio.receive_by_correlation_id, correlation_id, timeout, transaction=_inner(transaction))

    def receive_by_id(
        self, identifier: ObjectId | str, timeout: float | None = None, *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        return self._call(self.aio.receive_by_id, identifier, timeout, transaction=_inner(transaction))

    @contextmanager
    def hold(self, timeout: float | None = None, *, lookup_id: int | None = None) -> Iterator[ReceivedMessage]:
        holding = self.aio.hold(timeout, lookup_id=lookup_id)
        message = self._call(holding.__aenter__)
        try:
            yield message
        except BaseException as error:
            self._call(holding.__aexit__, type(error), error, error.__traceback__)
            raise
        self._call(holding.__aexit__, None, None, None)

    def cursor(self) -> Cursor:
        return Cursor(self._runner, self._call(self.aio.cursor))

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Peek at the messages that are there, in order; they stay in the queue."""
        with self.cursor() as cursor:
            step = cursor.current
            while True:
                try:
                    message = step(NO_WAIT)
                except Timeout:
                    return
                step = cursor.next
                yield message

    def move(self, message: Message | int, subqueue: str, *, transaction: Transaction | None = None) -> None:
        self._call(self.aio.move, message, subqueue, transaction=_inner(transaction))

    def reject(self, message: Message, *, transaction: Transaction) -> None:
        self._call(self.aio.reject, message, transaction=transaction.aio)

    def purge(self) -> None:
        self._call(self.aio.purge)

    def is_transactional(self) -> bool:
        return self._call(self.aio.is_transactional)

    def info(self) -> QueueInfo:
        return self._call(self.aio.info)


class Cursor(Closing):
    """A place in a queue. See `lior.client.aio.Cursor`."""

    def __init__(self, runner: Runner, cursor: aio.Cursor) -> None:
        self._call = runner.call
        self.aio = cursor

    def close(self) -> None:
        self._call(self.aio.close)

    def current(self, timeout: float | None = None) -> ReceivedMessage:
        return self._call(self.aio.current, timeout)

    def next(self, timeout: float | None = None) -> ReceivedMessage:
        return self._call(self.aio.next, timeout)

    def receive(self, timeout: float | None = None, *, transaction: Transaction | None = None) -> ReceivedMessage:
        return self._call(self.aio.receive, timeout, transaction=_inner(transaction))


class Transaction:
    """Sends and receives that happen together or not at all: `with qm.transaction() as tx:`."""

    def __init__(self, runner: Runner, transaction: aio.Transaction) -> None:
        self._call = runner.call
        self.aio = transaction

    def begin(self) -> Transaction:
        self._call(self.aio.begin)
        return self

    def __enter__(self) -> Transaction:
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self.aio.__aexit__, kind, error, trace)

    def send(self, destination: str | Iterable[str], body: Any, **properties: Any) -> ObjectId:
        return self._call(self.aio.send, destination, body, **properties)

    def receive(self, name: str, timeout: float | None = None) -> ReceivedMessage:
        return self._call(self.aio.receive, name, timeout)

    def commit(self) -> None:
        self._call(self.aio.commit)

    def abort(self) -> None:
        self._call(self.aio.abort)


def _inner(transaction: Transaction | None) -> aio.Transaction | None:
    return None if transaction is None else transaction.aio
