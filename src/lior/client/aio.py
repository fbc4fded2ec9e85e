"""The library with asyncio: queue managers, queues, cursors and transactions.

    async with lior.aio.open("./data") as qm:
        async with await qm.open_queue(r".\\private$\\orders") as q:
            message = await q.receive(timeout=5)
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final
from uuid import UUID

from lior.client.backend import Backend, QueueInfo
from lior.client.calling import ACCESS, NO_WAIT, Closing, as_it_is, format_name, milliseconds, taken
from lior.client.formatters import Formatter
from lior.client.message import ReceivedMessage, build, received
from lior.client.signing import Identity, canonical
from lior.client.trace import TraceEntry
from lior.client.xml_identity import XmlIdentity
from lior.errors import (
    IllegalFormatName,
    IllegalPropertyValue,
    InvalidHandle,
    LiorError,
    MessageNotFound,
    QueueNotAvailable,
    QueueNotFound,
    Timeout,
    TransactionSequence,
)
from lior.message import Message, ObjectId
from lior.names import DirectName, PathName, parse_format_name
from lior.security import SecurityDescriptor, SecurityInformation

SEND_HANDLES: Final = 256  # destinations kept open for `QueueManager.send`


def _queue_properties(properties: dict[str, Any]) -> dict[str, Any]:
    """`journal=True`, as for messages, is the specification's Journaling."""
    return {"journaling" if name == "journal" else name: value for name, value in properties.items()}


class QueueManager(Closing):
    """A queue manager, embedded or reached over a protocol."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._send_handles: OrderedDict[str, Any] = OrderedDict()
        self._itself: tuple[UUID, str] | None = None  # identifier and computer name, which signatures cover

    async def close(self) -> None:
        await self.backend.close()

    # Messages

    async def send(
        self,
        destination: str | Iterable[str],
        body: Any,
        *,
        transaction: Transaction | None = None,
        formatter: str | Formatter | None = None,
        transactional: bool | None = None,
        **properties: Any,
    ) -> ObjectId:
        """Send a message; returns its identifier once it is as safe as it asks to be.

        `body` is bytes, a value that the formatter writes, or a Message. To a transactional queue on this
        queue manager a send without a transaction is a transaction of its own; for a queue elsewhere say
        `transactional=True`, for only its owner knows. `sign=Identity` signs the message, `privacy=True` has its
        body encrypted on the way: docs/message-security.md.
        """
        signer = properties.pop("sign", None) if properties else None
        message = build(body, formatter, properties)
        name = destination if isinstance(destination, str) else ",".join(format_name(d) for d in destination)
        handle = self._send_handles.get(name) or await self._open_to_send(name)
        if signer is not None:
            await self._sign(signer, message, format_name(name), handle, transaction, transactional)
        try:
            return await self._send(handle, message, transaction, transactional)
        except (QueueNotAvailable, InvalidHandle):
            # the queue was deleted since; perhaps there is a new one of that name
            self._send_handles.pop(name, None)
            handle = await self._open_to_send(name)
            return await self._send(handle, message, transaction, transactional)

    async def _open_to_send(self, name: str) -> Any:
        handle = await self.backend.open(format_name(name), ACCESS["send"], False)
        self._send_handles[name] = handle
        if len(self._send_handles) > SEND_HANDLES:
            await self.backend.close_handle(self._send_handles.popitem(last=False)[1])
        return handle

    async def _send(
        self, handle: Any, message: Message, transaction: Transaction | None, transactional: bool | None
    ) -> ObjectId:
        if transaction is not None:
            return await self.backend.send(handle, message, transaction.identifier)
        if transactional is None:
            transactional = self.backend.is_transactional(handle)
        if not transactional:
            return await self.backend.send(handle, message, None)
        return await self.backend.send_alone(handle, message)

    async def _sign(
        self,
        signer: Identity | XmlIdentity,
        message: Message,
        destination: str,
        handle: Any,
        transaction: Transaction | None,
        transactional: bool | None,
    ) -> None:
        if not isinstance(signer, Identity | XmlIdentity):
            raise IllegalPropertyValue(f"{type(signer).__name__} instead of Identity", where="sign")
        if self._itself is None:
            figures = await self.backend.properties()
            self._itself = UUID(str(figures["identifier"])), str(figures["computer_name"])
        guid, computer_name = self._itself
        if transactional is None:
            transactional = self.backend.is_transactional(handle)
        in_transaction = transaction is not None or bool(transactional)
        signer.sign(message, canonical(destination, computer_name), queue_manager=guid, transactional=in_transaction)

    async def receive(self, name: str, timeout: float | None = None, **options: Any) -> ReceivedMessage:
        """Receive one message. To receive many, open the queue."""
        async with await self.open_queue(name) as queue:
            return await queue.receive(timeout, **options)

    async def open_queue(self, name: str, access: str = "receive", *, exclusive: bool = False) -> Queue:
        """Open a queue for "receive" (which includes peeking), "peek", "send" or "move"."""
        if access not in ACCESS:
            raise ValueError(f"access is one of {', '.join(ACCESS)}")
        full = format_name(name)
        return Queue(self, full, await self.backend.open(full, ACCESS[access], exclusive), access)

    def transaction(self) -> Transaction:
        """`async with qm.transaction() as tx:` commits at the end, aborts on an exception."""
        return Transaction(self)

    # Queues

    async def create_queue(self, path: str, **properties: Any) -> QueueInfo:
        """Properties: label, transactional, journal, quota, ...; docs/command-line.md lists them."""
        return await self.backend.create_queue(path, _queue_properties(properties))

    async def delete_queue(self, name: str) -> None:
        await self.backend.delete_queue(name)

    async def purge_queue(self, name: str) -> None:
        await self.backend.purge_queue(name)

    async def set_queue(self, name: str, **changes: Any) -> None:
        await self.backend.set_queue(name, _queue_properties(changes))

    async def queue(self, name: str) -> QueueInfo:
        return await self.backend.queue(name)

    async def queues(self) -> list[QueueInfo]:
        return await self.backend.queues()

    async def exists(self, name: str) -> bool:
        try:
            await self.backend.queue(name)
        except QueueNotFound:
            return False
        return True

    async def get_security(
        self, name: str, information: int = SecurityInformation.OWNER | SecurityInformation.DACL
    ) -> SecurityDescriptor:
        return await self.backend.get_security(name, information)

    async def set_security(
        self, name: str, descriptor: SecurityDescriptor, information: int = SecurityInformation.DACL
    ) -> None:
        await self.backend.set_security(name, information, descriptor)

    # Operation

    async def properties(self) -> dict[str, Any]:
        return await self.backend.properties()

    async def set_properties(self, **changes: Any) -> None:
        await self.backend.set_properties(changes)

    async def outgoing(self) -> list[dict[str, Any]]:
        """Queues to other queue managers: as in `queues`, with next hops, connection history, and how far the
        transactional stream got."""
        return await self.backend.outgoing()

    async def connections(self) -> list[dict[str, Any]]:
        """Connections to other queue managers; an embedded queue manager has none."""
        return await self.backend.connections()

    async def pause(self, destination: str) -> None:
        await self.backend.pause(destination)

    async def resume(self, destination: str) -> None:
        await self.backend.resume(destination)

    async def set_online(self, online: bool) -> None:
        await self.backend.set_online(online)

    async def transactions(self) -> list[dict[str, Any]]:
        return await self.backend.transactions()

    async def subscriptions(self) -> list[dict[str, Any]]:
        """Readers that claim messages, with what they claimed and released, and what waits for them."""
        return await self.backend.subscriptions()

    async def abandon_subscription(self, name: str) -> None:
        """Give back to the queues what a subscription has claimed, and forget it. Its reader is locked out."""
        await self.backend.abandon_subscription(name)

    async def decide(self, transaction: UUID, *, commit: bool) -> None:
        """End a transaction in doubt: one that was prepared, and whose coordinator does not answer."""
        known = {UUID(str(found["identifier"])): found["state"] for found in await self.backend.transactions()}
        if known.get(transaction) != "prepared":
            raise TransactionSequence(
                "no transaction in doubt has this identifier",
                where=str(transaction),
                remedy="see: lior transaction list",
            )
        await (self.backend.commit(transaction) if commit else self.backend.abort(transaction))

    async def trace(
        self,
        message_id: str | ObjectId = "",
        *,
        label: str = "",
        correlation_id: str | bytes | ObjectId = "",
        progress: Callable[[int, int], None] | None = None,
    ) -> list[TraceEntry]:
        """Where a message is now and what became of it, in time order; or the newest messages with a label or a
        correlation id, one after the other. Nothing known: an empty list. docs/trace.md."""
        correlation = correlation_id.hex() if isinstance(correlation_id, bytes) else str(correlation_id)
        found = await self.backend.trace(str(message_id), label, correlation, progress)
        return [TraceEntry(**entry) for entry in found]

    async def backup(self, path: str) -> None:
        await self.backend.backup(path)

    async def compact(self) -> int:
        return await self.backend.compact()


class Queue(Closing):
    """An open queue."""

    def __init__(self, manager: QueueManager, name: str, handle: Any, access: str) -> None:
        self._manager = manager
        self._backend = manager.backend
        self.format_name = name
        self._handle: Any = handle
        self._transactional = access == "send" and self._backend.is_transactional(handle)

    async def close(self) -> None:
        """Close the handle; reads that wait on it end as cancelled. Closing twice is fine."""
        handle, self._handle = self._handle, None
        if handle is not None:
            await self._backend.close_handle(handle)

    @property
    def handle(self) -> Any:
        if self._handle is None:
            raise InvalidHandle("the queue is closed", where=self.format_name, remedy="open it again")
        return self._handle

    async def send(
        self,
        body: Any,
        *,
        transaction: Transaction | None = None,
        formatter: str | Formatter | None = None,
        transactional: bool | None = None,
        **properties: Any,
    ) -> ObjectId:
        """As `QueueManager.send`, to the queue that was opened with access "send"."""
        signer = properties.pop("sign", None) if properties else None
        message = build(body, formatter, properties)
        if signer is not None:
            await self._manager._sign(signer, message, self.format_name, self.handle, transaction, transactional)
        if transaction is None and not (self._transactional if transactional is None else transactional):
            return await self._backend.send(self.handle, message, None)
        if transaction is None:
            return await self._backend.send_alone(self.handle, message)
        return await self._backend.send(self.handle, message, transaction.identifier)

    async def receive(
        self, timeout: float | None = None, *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        """Take the next message; wait `timeout` seconds for one, None for ever, 0 not at all. Raises
        lior.errors.Timeout when none came. Cancelled, it takes nothing, or returns what it took already."""
        identifier = None if transaction is None else transaction.identifier
        receive = self._backend.receive
        return await taken(lambda: receive(self.handle, milliseconds(timeout), transaction=identifier), received)

    async def peek(self, timeout: float | None = None) -> ReceivedMessage:
        return received(await self._backend.peek(self.handle, milliseconds(timeout)))

    async def receive_by_lookup_id(
        self, lookup_id: int, action: str = "current", *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        """action: current, next, previous, first or last; the last two ignore the lookup id."""
        identifier = None if transaction is None else transaction.identifier
        read = self._backend.read_by_lookup
        return await taken(lambda: read(self.handle, lookup_id, action, False, identifier), received)

    async def peek_by_lookup_id(self, lookup_id: int, action: str = "current") -> ReceivedMessage:
        return received(await self._backend.read_by_lookup(self.handle, lookup_id, action, True))

    async def receive_by_correlation_id(
        self, correlation_id: bytes | ObjectId, timeout: float | None = None, *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        """Take the first message with this correlation id, waiting for it if need be."""
        wanted = correlation_id.to_bytes() if isinstance(correlation_id, ObjectId) else correlation_id
        return await self._receive_where(lambda m: m.correlation_id == wanted, timeout, transaction)

    async def receive_by_id(
        self, identifier: ObjectId | str, timeout: float | None = None, *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        """Take the message with this identifier, waiting for it if need be."""
        wanted = str(identifier).upper()
        return await self._receive_where(lambda m: str(m.identifier).upper() == wanted, timeout, transaction)

    async def _receive_where(
        self, wanted: Callable[[Message], bool], timeout: float | None, transaction: Transaction | None
    ) -> ReceivedMessage:
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        async with await self.cursor() as cursor:
            step = cursor.current
            while True:
                message = await step(None if end is None else max(0.0, end - loop.time()))
                step = cursor.next
                if not wanted(message):
                    continue
                with suppress(MessageNotFound):  # somebody was faster: look further
                    return await self.receive_by_lookup_id(message.lookup_identifier, transaction=transaction)

    @asynccontextmanager
    async def hold(
        self, timeout: float | None = None, *, lookup_id: int | None = None
    ) -> AsyncIterator[ReceivedMessage]:
        """`async with queue.hold(timeout=5) as message:` keeps the next message, or that with the lookup id, from
        other readers. It leaves the queue when the block ends, and stays there if the block raises."""
        backend = self._backend
        if lookup_id is None:
            wait = milliseconds(timeout)
            held = await taken(lambda: backend.take(self.handle, wait), as_it_is)
        else:
            held = await taken(lambda: backend.take_by_lookup(self.handle, lookup_id, "current"), as_it_is)
        try:
            yield received(held.message)
        except BaseException:
            with suppress(LiorError):  # a closed queue gave it back already
                await backend.end_take(held, False)
            raise
        await backend.end_take(held, True)

    async def cursor(self) -> Cursor:
        return Cursor(self, await self._backend.open_cursor(self.handle))

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Peek at the messages that are there, in order; they stay in the queue."""
        async with await self.cursor() as cursor:
            step = cursor.current
            with suppress(Timeout):
                while True:
                    message = await step(NO_WAIT)
                    step = cursor.next
                    yield message

    async def move(self, message: Message | int, subqueue: str, *, transaction: Transaction | None = None) -> None:
        """Move a message into a subqueue of this queue, or from a subqueue back with an empty name."""
        lookup_id = message if isinstance(message, int) else message.lookup_identifier
        target = await self._backend.open(self._sibling(subqueue), ACCESS["move"], False)
        try:
            identifier = None if transaction is None else transaction.identifier
            await self._backend.move(self.handle, lookup_id, target, identifier)
        finally:
            await self._backend.close_handle(target)

    def _sibling(self, subqueue: str) -> str:
        name = parse_format_name(self.format_name)
        if not isinstance(name, DirectName):
            raise IllegalFormatName(
                "only a direct format name has subqueues", where=self.format_name, remedy="open DIRECT=OS:host\\queue"
            )
        path: PathName = name.path.without_subqueue()
        return str(DirectName.from_path(path.with_subqueue(subqueue) if subqueue else path, name.protocol))

    async def reject(self, message: Message, *, transaction: Transaction) -> None:
        """Refuse a message received in the transaction: when that commits, the sender learns of it."""
        await self._backend.reject(self.handle, message.lookup_identifier, transaction.identifier)

    async def purge(self) -> None:
        await self._backend.purge_queue(self.format_name)

    async def is_transactional(self) -> bool:
        """Whether it takes messages in transactions only. Over RPC a handle does not say, and the queue's properties
        do; of a queue of another computer nobody here can tell."""
        known = self._backend.is_transactional(self.handle)
        return (await self.info()).transactional if known is None else known

    async def info(self) -> QueueInfo:
        return await self._backend.queue(self.format_name)


class Cursor(Closing):
    """A place in a queue."""

    def __init__(self, queue: Queue, handle: Any) -> None:
        self._queue = queue
        self._backend = queue._backend
        self._handle = handle

    async def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None and self._queue._handle is not None:
            await self._backend.close_cursor(handle)

    async def current(self, timeout: float | None = None) -> ReceivedMessage:
        """Peek at the cursor's message."""
        return received(await self._backend.peek(self._queue.handle, milliseconds(timeout), self._handle))

    async def next(self, timeout: float | None = None) -> ReceivedMessage:
        """Go to the following message and peek at it."""
        return received(await self._backend.peek(self._queue.handle, milliseconds(timeout), self._handle, True))

    async def receive(
        self, timeout: float | None = None, *, transaction: Transaction | None = None
    ) -> ReceivedMessage:
        """Take the cursor's message."""
        identifier = None if transaction is None else transaction.identifier
        handle, receive = self._queue.handle, self._backend.receive
        return await taken(lambda: receive(handle, milliseconds(timeout), self._handle, identifier), received)


class Transaction:
    """Sends and receives that happen together or not at all."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._identifier: UUID | None = None

    async def begin(self) -> Transaction:
        if self._identifier is None:
            self._identifier = await self._manager.backend.begin()
        return self

    @property
    def identifier(self) -> UUID:
        if self._identifier is None:
            raise InvalidHandle("the transaction has not begun", remedy="use: async with qm.transaction() as tx")
        return self._identifier

    async def __aenter__(self) -> Transaction:
        return await self.begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._identifier is None:
            return
        if kind is None:
            await self.commit()
        else:
            await self.abort()

    async def send(self, destination: str | Iterable[str], body: Any, **properties: Any) -> ObjectId:
        return await self._manager.send(destination, body, transaction=self, **properties)

    async def receive(self, name: str, timeout: float | None = None) -> ReceivedMessage:
        return await self._manager.receive(name, timeout, transaction=self)

    async def commit(self) -> None:
        identifier, self._identifier = self.identifier, None
        await self._manager.backend.commit(identifier)

    async def abort(self) -> None:
        identifier, self._identifier = self.identifier, None
        await self._manager.backend.abort(identifier)

