"""A queue manager with its store on the running loop, and the library's calls on it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import UUID

from lior.errors import (
    IllegalPropertyValue,
    InvalidParameter,
    LiorError,
    QueueNotFound,
    ServiceNotAvailable,
    UnsupportedOperation,
)
from lior.message import Message, ObjectId
from lior.names import parse_path_name
from lior.queues.definition import QueueProperties
from lior.queues.descriptor import (
    Cursor,
    MessageSeekAction,
    OpenQueueDescriptor,
    QueueAccessType,
    QueueShareMode,
    TwoPhaseRead,
)
from lior.queues.machine import QUEUE_MANAGER
from lior.queues.manager import QueueManager
from lior.queues.outgoing import OutgoingQueue
from lior.queues.publishing import SLICE, Item
from lior.queues.queue import Queue
from lior.queues.reading import Reading
from lior.security import Caller, SecurityDescriptor
from lior.server import figures
from lior.server.engine import Engine, EngineStore
from lior.server.fates import ALL, keep_record, recorder
from lior.server.gathering import ALONE, EXPRESS, RECOVERABLE
from lior.server.replies import FutureReply
from lior.server.runtime import RandomIds, SystemClock, fresh_properties, local_names, process_caller
from lior.server.transfer_security import install
from lior.server.whereabouts import Whereabouts, wanted_of
from lior.store.fates import DAYS, MOST_ROWS
from lior.store.memory import MemoryStore
from lior.store.sqlite import SqliteStore
from lior.store.stages import discard_all as discard_stages
from lior.store.stages import read_all as read_stages

MEMORY = ":memory:"
MOST_PUBLISHED = 1 << 30  # bytes of one batch

Info = TypeVar("Info")


class LocalBackend(Generic[Info]):
    """The calls of the library on an engine in the same loop, as one caller. `describe` makes of a queue's figures
    what the face above wants to see."""

    def __init__(
        self, engine: Engine, store: EngineStore, caller: Caller, describe: Callable[[dict[str, Any]], Info]
    ) -> None:
        self.engine = engine
        self.manager: QueueManager = engine.manager
        self._sending = engine.manager.sending
        self._store = store
        self._caller = caller
        self._describe = describe
        self.most_published = MOST_PUBLISHED

    def for_caller(self, caller: Caller) -> LocalBackend[Info]:
        """The same queue manager for somebody else."""
        return LocalBackend(self.engine, self._store, caller, self._describe)

    # Handles

    def open(self, name: str, access: int, exclusive: bool) -> Awaitable[OpenQueueDescriptor]:
        share = QueueShareMode.DENY_RECEIVE if exclusive else QueueShareMode.DENY_NONE
        return self._now(self.manager.open, name, QueueAccessType(access), share, caller=self._caller)

    def is_transactional(self, handle: OpenQueueDescriptor) -> bool | None:
        if handle.children:
            kinds = {self.is_transactional(child) for child in handle.children}
            return kinds.pop() if len(kinds) == 1 else None
        queue = handle.queue or handle.live_queue()
        return None if isinstance(queue, OutgoingQueue) else queue.main.properties.transactional

    def close_handle(self, handle: OpenQueueDescriptor) -> Awaitable[None]:
        """A handle that the queue manager's stop closed is closed: nothing to complain about."""
        return self._now(_nothing if handle.closed else self.manager.close, handle)

    def open_cursor(self, handle: OpenQueueDescriptor) -> Awaitable[Cursor]:
        return self._now(self.manager.open_cursor, handle)

    def close_cursor(self, cursor: Cursor) -> Awaitable[None]:
        return self._now(_nothing if cursor.descriptor.closed else self.manager.close_cursor, cursor)

    # Messages

    def send(self, handle: OpenQueueDescriptor, message: Message, transaction: UUID | None) -> Awaitable[ObjectId]:
        """A producer who outruns the disk waits in line. What is sent in a transaction is not: its begin was."""
        engine = self.engine
        if transaction is not None:
            return engine.call(self._sending.send, handle, message, self.manager.transactions.find(transaction))
        future = engine.future()
        kind = RECOVERABLE if message.delivery_guarantee else EXPRESS
        if engine.crowded:
            engine.line_up(partial(self._send_in_turn, kind, handle, message, future))
        elif kind == EXPRESS:
            engine.gathering.express(handle, message, future)
        else:
            engine.gathering.add(kind, handle, message, future)
        return future

    def send_alone(self, handle: OpenQueueDescriptor, message: Message) -> Awaitable[ObjectId]:
        """In a transaction of its own. To several queues that takes three calls."""
        if handle.children:
            return self._send_in_transaction(handle, message)
        engine = self.engine
        future = engine.future()
        if engine.crowded:
            engine.line_up(partial(self._send_in_turn, ALONE, handle, message, future))
        else:
            engine.gathering.add(ALONE, handle, message, future)
        return future

    def _send_in_turn(
        self, kind: int, handle: OpenQueueDescriptor, message: Message, future: asyncio.Future[ObjectId]
    ) -> None:
        if not future.done():  # else its caller went away
            self.engine.gathering.one(kind, handle, message, future)

    async def _send_in_transaction(self, handle: OpenQueueDescriptor, message: Message) -> ObjectId:
        identifier = await self.begin()
        try:
            sent = await self.send(handle, message, identifier)
        except BaseException:
            await self.abort(identifier)
            raise
        await self.commit(identifier)
        return sent

    def receive(
        self,
        handle: OpenQueueDescriptor,
        timeout_ms: int,
        cursor: Cursor | None = None,
        transaction: UUID | None = None,
    ) -> Awaitable[Message]:
        found = None if transaction is None else self.manager.transactions.find(transaction)
        read = Read(self.engine.own_loop(), self.manager.reading, handle)
        return self._start(
            read,
            self.manager.receive,
            handle,
            timeout_ms=timeout_ms,
            cursor=cursor,
            transaction=found,
            tag=read,
        )

    def peek(
        self, handle: OpenQueueDescriptor, timeout_ms: int, cursor: Cursor | None = None, following: bool = False
    ) -> Awaitable[Message]:
        call = self.manager.peek_next if following else self.manager.peek
        read = Read(self.engine.own_loop(), self.manager.reading, handle)
        return self._start(read, call, handle, timeout_ms=timeout_ms, cursor=cursor, tag=read)

    def read_by_lookup(
        self, handle: OpenQueueDescriptor, lookup_id: int, action: str, peek: bool, transaction: UUID | None = None
    ) -> Awaitable[Message]:
        return self._start(
            Read(self.engine.own_loop(), self.manager.reading, handle),
            self.manager.read_by_lookup,
            handle,
            lookup_id=lookup_id,
            action=MessageSeekAction(action),
            peek=peek,
            transaction=None if transaction is None else self.manager.transactions.find(transaction),
        )

    # Receiving in two steps: the message stays locked until its reader has it

    def take(self, handle: OpenQueueDescriptor, timeout_ms: int, cursor: Cursor | None = None) -> Awaitable[Any]:
        read = Read(self.engine.own_loop(), self.manager.reading, handle)
        return self._start(
            read, self.manager.receive, handle, timeout_ms=timeout_ms, cursor=cursor, two_phase=True, tag=read
        )

    def take_by_lookup(self, handle: OpenQueueDescriptor, lookup_id: int, action: str) -> Awaitable[Any]:
        return self._start(
            Read(self.engine.own_loop(), self.manager.reading, handle),
            self.manager.read_by_lookup,
            handle,
            lookup_id=lookup_id,
            action=MessageSeekAction(action),
            two_phase=True,
        )

    def end_take(self, read: TwoPhaseRead, take: bool) -> Awaitable[None]:
        return self._call(self.manager.receive_end, read, delete=take)

    def move(
        self,
        source: OpenQueueDescriptor,
        lookup_id: int,
        target: OpenQueueDescriptor,
        transaction: UUID | None = None,
    ) -> Awaitable[None]:
        found = None if transaction is None else self.manager.transactions.find(transaction)
        return self._call(self.manager.moving.move, source, lookup_id, target, found)

    def reject(self, handle: OpenQueueDescriptor, lookup_id: int, transaction: UUID) -> Awaitable[None]:
        return self._call(self.manager.reject, handle, lookup_id, self.manager.transactions.find(transaction))

    # Transactions

    def begin(self) -> Awaitable[UUID]:
        future = self.engine.future()
        if self.engine.crowded:
            self.engine.line_up(partial(self._begin_in_turn, future))
        else:
            self._begin_in_turn(future)
        return future

    def _begin_in_turn(self, future: asyncio.Future[UUID]) -> None:
        if future.done():
            return
        try:
            future.set_result(self.manager.begin().identifier)
        except LiorError as error:
            future.set_exception(error)

    def commit(self, transaction: UUID) -> Awaitable[None]:
        return self._call(self.manager.commit, transaction)

    def abort(self, transaction: UUID) -> Awaitable[None]:
        return self._call(self.manager.abort, transaction)

    async def transactions(self) -> list[dict[str, Any]]:
        return [figures.transaction_figures(t) for t in self.manager.core.transactions.values()]

    # Queues

    async def create_queue(self, path: str, properties: Mapping[str, Any]) -> Info:
        unknown = set(properties) - set(QueueProperties.__dataclass_fields__)
        if unknown:
            raise IllegalPropertyValue(f"unknown property {min(unknown)}", where=path)
        wanted = QueueProperties(**properties)
        queue = await self._call(self.manager.create_queue, parse_path_name(path), wanted, self._caller)
        return self._info(queue)

    def delete_queue(self, name: str) -> Awaitable[None]:
        return self._call(self.manager.delete_queue, self.manager.find_queue(name), self._caller)

    def purge_queue(self, name: str) -> Awaitable[None]:
        return self._call(self.manager.purge, self.manager.find_queue(name), self._caller)

    def set_queue(self, name: str, changes: Mapping[str, Any]) -> Awaitable[None]:
        queue = self.manager.find_queue(name)
        return self._call(self.manager.set_queue_properties, queue, dict(changes), self._caller)

    async def get_security(self, name: str, information: int) -> SecurityDescriptor:
        queue = self.manager.find_queue(name)
        return self.manager.administration.get_security(queue, information, self._caller)

    def set_security(self, name: str, information: int, descriptor: SecurityDescriptor) -> Awaitable[None]:
        queue = self.manager.find_queue(name)
        return self._call(self.manager.set_queue_security, queue, information, descriptor, self._caller)

    async def queue(self, name: str) -> Info:
        return self._info(self.manager.find_queue(name))

    async def queues(self) -> list[Info]:
        return [self._info(queue) for queue in self._listed()]

    def _listed(self) -> list[Queue]:
        """Every queue but the protocols' own and the journals, which stand beside their queues."""
        return [queue for queue in self.manager.core.queues.values() if figures.is_listed(queue)]

    def _info(self, queue: Queue) -> Info:
        return self._describe(figures.queue_figures(self.manager, queue))

    def pause(self, name: str) -> Awaitable[None]:
        return self._call(self.manager.administration.pause, self._outgoing(name), self._caller)

    def resume(self, name: str) -> Awaitable[None]:
        return self._call(self.manager.administration.resume, self._outgoing(name), self._caller)

    def _outgoing(self, name: str) -> OutgoingQueue:
        queue = self.manager.find_queue(name)
        if not isinstance(queue, OutgoingQueue):
            raise UnsupportedOperation(
                "only outgoing queues are paused and resumed", where=name, remedy="see: lior outgoing list"
            )
        return queue

    async def outgoing(self) -> list[dict[str, Any]]:
        return [figures.outgoing_figures(self.manager, queue) for queue in self.manager.core.outgoing.values()]

    async def connections(self) -> list[dict[str, Any]]:
        """To other queue managers: none without a server around the engine."""
        return []

    # Claims

    async def subscriptions(self) -> list[dict[str, Any]]:
        return [figures.subscription_figures(self.manager, log) for log in self.manager.subscriptions]

    def abandon_subscription(self, name: str) -> Awaitable[None]:
        self._check_subscription(name)
        return self._call(self.manager.subscriptions.abandon, name)

    async def subscribe(self, name: str, queues: list[str], takeover: bool, options: Mapping[str, Any]) -> Any:
        found = [self.manager.find_queue(queue) for queue in queues]
        log = await self._call(
            self.manager.subscriptions.subscribe, name, found, self._caller, takeover=takeover, **options)
        return self.manager.subscriptions.figures(log)

    def claim(self, name: str, epoch: UUID, start: int, max_rows: int, max_bytes: int) -> Awaitable[int]:
        self._check_subscription(name)
        return self._call(self.manager.subscriptions.claim, name, epoch, start, max_rows, max_bytes)

    async def plan(self, name: str, start: int, end: int, parts: int, part_bytes: int = 0) -> list[int]:
        self._check_subscription(name)
        return self.manager.subscriptions.plan(name, start, end, parts, part_bytes)

    def release(self, name: str, epoch: UUID, ordinal: int, wait: bool = True) -> Awaitable[int]:
        self._check_subscription(name)
        return self._call(self.manager.subscriptions.release, name, epoch, ordinal, wait=wait)

    def reject_claimed(self, name: str, epoch: UUID, ordinals: list[int]) -> Awaitable[int]:
        self._check_subscription(name)
        return self._call(self.manager.subscriptions.reject, name, epoch, ordinals)

    async def publish(self, writer: str, batch: int, stages: list[str]) -> int:
        """Send what was put aside under these names, once: a batch that was published before is left out."""
        directory, most = getattr(self._store, "directory", None), self.most_published
        if directory is None:
            raise UnsupportedOperation("a queue manager in memory puts nothing aside", where="publish")
        if not self._caller.is_administrator:  # nobody uses up the numbers of another's batches
            writer = f"{self._caller.sid}/{writer}"
        staged: list[Any] = []
        if not self._is_published(writer, batch):
            try:
                staged = await asyncio.to_thread(read_stages, directory, stages, most)
            except InvalidParameter:
                if not self._is_published(writer, batch):  # else meanwhile, by a call whose answer was lost
                    raise
        opened: dict[str, OpenQueueDescriptor] = {}
        try:
            for name in dict.fromkeys(each.destination for each in staged):
                opened[name] = self.manager.open(
                    name, QueueAccessType.SEND, QueueShareMode.DENY_NONE, caller=self._caller)
            sent = await self._published(writer, batch, [
                Item(opened[each.destination], each.message, each.transactional) for each in staged])
        finally:
            for handle in opened.values():
                self.manager.close(handle)
        await asyncio.to_thread(discard_stages, directory, stages)
        return sent

    async def _published(self, writer: str, batch: int, items: list[Item]) -> int:
        """In slices, between which the loop serves others."""
        future = self.engine.future()
        publication = self.manager.publishing.begin(writer, batch, FutureReply(future))
        if publication is not None:
            try:
                for at in range(0, len(items), SLICE):
                    publication.add(items[at : at + SLICE])
                    await asyncio.sleep(0)
                publication.end()
            except LiorError:
                raise
            except BaseException:
                publication.give_up(ServiceNotAvailable("the call was cancelled", where=writer))
                raise
        sent: int = await future
        return sent

    def _is_published(self, writer: str, batch: int) -> bool:
        last = self.manager.publishing.last(writer)
        return last is not None and batch <= last

    async def may_read(self, subscription: str, queue_id: int) -> None:
        """Bulk transfer reads the store itself, and asks here for its client: may he look at this queue, and at what
        this subscription has claimed?"""
        if subscription:
            self._check_subscription(subscription)
        if queue_id:
            queue = self.manager.core.queues.get(queue_id)
            if queue is None:
                raise QueueNotFound("there is no such queue here", where=str(queue_id), remedy="see: lior queue list")
            self.manager.access.check_open(self._caller, queue, QueueAccessType.PEEK)

    def _check_subscription(self, name: str) -> None:
        """Who may act for a subscription is who may take messages out of its queues."""
        for queue_id in self.manager.subscriptions.find(name).definition.queues:
            queue = self.manager.core.queues.get(queue_id)
            if queue is not None:
                self.manager.access.check_open(self._caller, queue, QueueAccessType.RECEIVE)

    # The queue manager

    def set_online(self, online: bool) -> Awaitable[None]:
        return self._call(self.manager.set_online, online, self._caller)

    async def properties(self) -> dict[str, Any]:
        return figures.manager_figures(self.manager, self._store)

    def set_properties(self, changes: Mapping[str, Any]) -> Awaitable[None]:
        return self._call(self.manager.set_manager_properties, dict(changes), self._caller)

    async def trace(
        self,
        message_id: str = "",
        label: str = "",
        correlation_id: str = "",
        progress: Callable[[int, int], None] | None = None,
    ) -> list[dict[str, Any]]:
        wanted = wanted_of(message_id, label, correlation_id)
        return await Whereabouts(self.engine, self._store, wanted).trace(self._caller, progress)

    async def backup(self, path: str) -> None:
        """A consistent copy while messages flow, made by a thread of its own."""
        await self.engine.caught_up()
        await asyncio.get_running_loop().run_in_executor(None, self._store.snapshot, os.fspath(path))

    def free_bytes(self) -> int:
        """On the disk of the store."""
        return self._store.free_bytes()

    async def compact(self) -> int:
        return await self.engine.compact(self._store.compact)

    async def close(self) -> None:
        await self.engine.close()

    # How calls are made

    def _call(self, function: Any, *arguments: Any, **options: Any) -> asyncio.Future[Any]:
        return self.engine.call(function, *arguments, **options)

    def _now(self, function: Any, *arguments: Any, **options: Any) -> asyncio.Future[Any]:
        """A call that changes memory only: answered at once."""
        future = self.engine.future()
        self.engine.gathering.stage()
        try:
            future.set_result(function(*arguments, **options))
        except LiorError as error:
            future.set_exception(error)
        return future

    def _start(self, read: Read, function: Any, *arguments: Any, **options: Any) -> Read:
        self.engine.gathering.stage()
        try:
            function(*arguments, FutureReply(read), **options)
        except LiorError as error:
            read.set_exception(error)
        return read


def _nothing(handle: OpenQueueDescriptor | Cursor) -> None:
    pass


class Read(asyncio.Future[Any]):
    """The answer to a read. A read that waits can be cancelled, and then takes nothing. One that has its
    message cannot, for that is leaving the queue: `cancel` declines, and the message comes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reading: Reading, handle: OpenQueueDescriptor) -> None:
        super().__init__(loop=loop)
        self._reading = reading
        self._descriptor = handle

    def cancel(self, msg: Any | None = None) -> bool:
        queue = self._descriptor.queue
        if queue is None or self.done() or not any(wait.tag is self for wait in queue.waiters):
            return False
        super().cancel(msg)
        self._reading.cancel_quietly(queue, self)
        return True


async def open_local(
    data: str | os.PathLike[str],
    *,
    describe: Callable[[dict[str, Any]], Info],
    name: str = "",
    caller: Caller | None = None,
    cache_bytes: int = 64 << 20,
    low_disk_bytes: int = 64 << 20,
    create: bool = True,
    addresses: Iterable[str] | None = None,
    record: str = ALL,
    record_rows: int = MOST_ROWS,
    record_days: float = DAYS,
) -> LocalBackend[Info]:
    """Open the data directory (or ":memory:") and bring its queue manager up on the running loop.
    Without `create`, a directory that holds no store is an error. `addresses` are the queue manager's own; None
    for all that the computer has. `record` says what is written down of the fates of messages, and for how long."""
    store: EngineStore = MemoryStore() if data == MEMORY else SqliteStore(Path(data), create=create)
    try:
        ids = RandomIds()
        known = store.load().state.get((QUEUE_MANAGER, "properties"))
        identifier = ids.guid() if known is None else figures.identifier_of(known)
        properties = fresh_properties(identifier, name)
        manager = QueueManager(
            properties, local_names(properties, addresses), store, SystemClock(), ids, cache_bytes=cache_bytes
        )
        engine = Engine(manager, store, low_disk_bytes=low_disk_bytes)
        directory, core = None if data == MEMORY else Path(data), manager.core
        keep_record(engine, recorder(record, directory, core.clock, lambda: core.properties.identifier,
                                     most_rows=record_rows, days=record_days))  # fmt: skip
        install(manager, None if data == MEMORY else data)
    except BaseException:
        store.close()
        raise
    try:
        await engine.start()
    except BaseException:
        await engine.abandon()
        raise
    return LocalBackend(engine, store, caller or process_caller(), describe)
