"""A queue manager behind its RPC interfaces: the library's calls over [MS-MQMP] and [MS-MQRR] (docs/decisions/0007).

A connection that is lost is made again by the next call. What hung on the old one (handles, cursors, transactions)
ended with it, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from uuid import UUID, uuid4

from lior.client.backend import QueueInfo, sent_alone
from lior.client.reconnecting import Reconnecting
from lior.client.remote import Held, RemoteBackend
from lior.client.rpc import objects
from lior.client.rpc.classic import give_up
from lior.client.rpc.handles import ClassicHandle, Cursor, Handle, MoveHandle, ReadHandle, SessionHandle
from lior.client.rpc.link import Dial, Link
from lior.client.rpc.opening import (
    MOVE_ACCESS,
    is_several,
    open_queue,
    open_through,
    open_to_move,
    open_to_read,
    queue_manager_of,
    single,
)
from lior.client.rpc.reading import Taken
from lior.client.rpc.tunnel import Tunnel
from lior.client.session_calls import SessionChannel
from lior.errors import (
    LiorError,
    QueueNotFound,
    ServiceNotAvailable,
    SharingViolation,
    TransactionSequence,
    UnsupportedOperation,
)
from lior.message import Message, ObjectId
from lior.names import QueueSuffix
from lior.security import SecurityDescriptor
from lior.wire.interfaces.lior_session import LIOR
from lior.wire.interfaces.management import QMMGMT
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.remote_read import REMOTE_READ

INTERFACES: Final = (QMCOMM, QMCOMM2, REMOTE_READ, QMMGMT, LIOR)
ELSEWHERE: Final = (QMCOMM, REMOTE_READ)  # of another computer; a session with ours is of no use there
SEND, ADMIN = 0x02, 0x80  # access
ENLIST, COMMIT, ABORT = 16, 17, 18
DialComputer = Callable[[str, Sequence[Any]], Awaitable[Link]]


P = ParamSpec("P")
T = TypeVar("T")


def _by_session(
    call: Callable[Concatenate[RemoteBackend, P], Awaitable[T]], what: str
) -> Callable[Concatenate[RpcBackend, P], Coroutine[Any, Any, T]]:
    """A method that is the session's; `what` it does says the error of a server that has none."""

    async def method(backend: RpcBackend, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await call(await backend.lior(what), *arguments, **named)

    method.__name__ = method.__qualname__ = call.__name__
    return method


class RpcBackend:
    """`lior.client.backend.Backend`. `dial` makes connections to the server, `dial_other` links to other computers."""

    def __init__(self, dial: Dial, dial_other: DialComputer, where: str) -> None:
        self.where = where
        self.session = RemoteBackend(self._open_session, where)
        self._connection = Reconnecting(lambda: Link.open(dial, INTERFACES), where)
        self._dial_other = dial_other
        self._transactions: dict[UUID, tuple[Link, bytes]] = {}

    @classmethod
    async def connect(cls, dial: Dial, dial_other: DialComputer, where: str) -> RpcBackend:
        backend = cls(dial, dial_other, where)
        await backend.link()
        return backend

    async def close(self) -> None:
        self._connection.stop()
        await self.session.close()
        await self._connection.close()

    # The connection

    async def link(self) -> Link:
        """What calls go over now."""
        return await self._connection.get()

    async def _open_session(self) -> SessionChannel:
        return await Tunnel.open(await self.link())

    async def lior(self, what: str) -> RemoteBackend:
        """The session, for what only it can do."""
        link = await self.link()
        if not link.is_lior:
            raise UnsupportedOperation(f"{what} is not possible through this server", where=self.where,
                                       remedy="it is not a Lior queue manager; use its own tools")
        return self.session

    async def dial_computer(self, computer: str) -> Link:
        return await self._dial_other(computer, (QMCOMM,))

    # Handles

    async def open(self, name: str, access: int, exclusive: bool) -> Handle:
        link = await self.link()
        if link.is_lior and (is_several(name) or access & ADMIN or _shows_more(name)):
            return SessionHandle(self, link, name, await self.session.open(name, access, exclusive))
        if access == SEND:
            return await self._open_to_send(link, name)
        if access == MOVE_ACCESS:
            return MoveHandle(self, link, name, *await open_to_move(link, name))
        if not access & ADMIN and link.offers(REMOTE_READ):
            try:
                reader = await open_to_read(link, name, access, exclusive, queue_manager_of(name))
            except LiorError as error:
                if not give_up(error):
                    raise
            else:
                return ReadHandle(self, link, name, reader)
        opened = await open_queue(link, name, access, exclusive)
        if isinstance(opened, str):
            return await self._open_elsewhere(link, opened, name, access, exclusive)
        return ClassicHandle(self, link, name, opened)

    async def _open_elsewhere(self, link: Link, computer: str, name: str, access: int, exclusive: bool) -> Handle:
        """A queue of another computer: directly over RemoteRead, which is better, or through the server over qm2qm
        where that is not offered."""
        there = await self._dial_other(computer, ELSEWHERE)
        try:
            if there.offers(REMOTE_READ):
                reader = await open_to_read(there, name, access, exclusive, queue_manager_of(name))
                return ReadHandle(self, there, name, reader, elsewhere=True)
            queue = await open_through(link, there, computer, name, access, exclusive)
        except BaseException:
            await there.close()
            raise
        await there.close()
        return ClassicHandle(self, link, name, queue)

    async def _open_to_send(self, link: Link, name: str) -> ClassicHandle:
        asked = asyncio.ensure_future(objects.is_transactional(link, name))
        try:
            queue = await open_queue(link, name, SEND, False)
        except BaseException:
            asked.cancel()
            raise
        if isinstance(queue, str):  # a server hints to where queues are read, never to where they are sent to
            asked.cancel()
            raise QueueNotFound("the server does not send to this queue", where=name)
        handle = ClassicHandle(self, link, name, queue)
        handle.transactional = await asked
        return handle

    def is_transactional(self, handle: Handle) -> bool | None:
        return handle.transactional

    async def close_handle(self, handle: Handle) -> None:
        with suppress(ServiceNotAvailable):  # the connection ended meanwhile, and the handle with it
            await handle.close()

    async def open_cursor(self, handle: Handle) -> Cursor:
        return await handle.open_cursor()

    async def close_cursor(self, cursor: Cursor) -> None:
        with suppress(ServiceNotAvailable):
            await cursor.queue.close_cursor(cursor)

    # Messages

    def send(self, handle: Handle, message: Message, transaction: UUID | None) -> Awaitable[ObjectId]:
        return handle.send(message, None if transaction is None else self._own(transaction))

    def send_alone(self, handle: Handle, message: Message) -> Awaitable[ObjectId]:
        return sent_alone(self, handle, message)

    def receive(
        self, handle: Handle, timeout_ms: int, cursor: Cursor | None = None, transaction: UUID | None = None
    ) -> Awaitable[Message]:
        return handle.receive(timeout_ms, cursor, self._own(transaction))

    def peek(
        self, handle: Handle, timeout_ms: int, cursor: Cursor | None = None, following: bool = False
    ) -> Awaitable[Message]:
        return handle.peek(timeout_ms, cursor, following)

    def read_by_lookup(
        self, handle: Handle, lookup_id: int, action: str, peek: bool, transaction: UUID | None = None
    ) -> Awaitable[Message]:
        return handle.lookup(lookup_id, action, peek, self._own(transaction))

    def take(self, handle: Handle, timeout_ms: int, cursor: Cursor | None = None) -> Awaitable[Any]:
        return handle.take(timeout_ms, cursor)

    def take_by_lookup(self, handle: Handle, lookup_id: int, action: str) -> Awaitable[Any]:
        return handle.take_by_lookup(lookup_id, action)

    async def end_take(self, taken: Any, take: bool) -> None:
        if isinstance(taken, Taken):
            await taken.end(take)
        else:
            await self.session.end_take(taken, take)

    async def move(self, source: Handle, lookup_id: int, target: Handle, transaction: UUID | None = None) -> None:
        await source.move(lookup_id, target, self._own(transaction))

    async def reject(self, handle: Handle, lookup_id: int, transaction: UUID) -> None:
        own = self._own(transaction)
        assert own is not None
        await handle.reject(lookup_id, own)

    # What a handle asks of the session

    async def session_send(self, handle: Handle, message: Message, uow: UUID | None) -> ObjectId:
        """Through a handle of the session's own: that of a documented interface is to send only what that can say."""
        held = await self.session.open(handle.name, SEND, False)
        try:
            return await self.session.send(held, message, uow)
        finally:
            await self.session.close_handle(held)

    def session_lookup(
        self, context: bytes, lookup_id: int, action: str, peek: bool, uow: UUID | None
    ) -> Awaitable[Message]:
        return self._by_context(context, lambda held: self.session.read_by_lookup(held, lookup_id, action, peek, uow))

    def session_receive(self, context: bytes, timeout_ms: int, cursor: int, uow: UUID | None) -> Awaitable[Message]:
        return self._by_context(
            context, lambda held: self.session.receive(held, timeout_ms, _cursor(held, cursor), uow))

    def session_peek(self, context: bytes, timeout_ms: int, cursor: int, following: bool) -> Awaitable[Message]:
        return self._by_context(
            context, lambda held: self.session.peek(held, timeout_ms, _cursor(held, cursor), following))

    def session_take(self, context: bytes, timeout_ms: int) -> Awaitable[Any]:
        return self._by_context(context, lambda held: self.session.take(held, timeout_ms))

    def session_take_by_lookup(self, context: bytes, lookup_id: int, action: str) -> Awaitable[Any]:
        return self._by_context(context, lambda held: self.session.take_by_lookup(held, lookup_id, action))

    async def _by_context(self, context: bytes, call: Callable[[Held], Awaitable[Any]]) -> Any:
        """On a queue that a documented interface opened."""
        channel = await self.session.channel()
        return await call(Held(channel, {"rpc": context.hex()}))

    # Transactions ([MS-MQMP] 4.5)

    def _own(self, transaction: UUID | None) -> UUID | None:
        if transaction is None:
            return None
        known = self._transactions.get(transaction)
        if known is not None and known[0].lost:
            del self._transactions[transaction]
            raise TransactionSequence("the connection was lost, and the transaction ended with it",
                                      where=str(transaction), remedy="do everything of it again")
        return transaction

    async def begin(self) -> UUID:
        link = await self.link()
        uow = uuid4()
        enlisted = await link.method(QMCOMM, ENLIST, (uow,), undo=lambda done: self._forget(link, done.ph_int_xact))
        self._transactions[uow] = link, enlisted.ph_int_xact
        return uow

    def _forget(self, link: Link, handle: bytes) -> None:
        link.method(QMCOMM, ABORT, (handle,)).add_done_callback(_ignore)

    async def commit(self, transaction: UUID) -> None:
        self._own(transaction)
        known = self._transactions.pop(transaction, None)
        if known is None:
            await (await self.lior("deciding a transaction")).commit(transaction)
            return
        link, handle = known
        await link.method(QMCOMM, COMMIT, (handle,), where=str(transaction))

    async def abort(self, transaction: UUID) -> None:
        known = self._transactions.pop(transaction, None)
        if known is None:
            await (await self.lior("deciding a transaction")).abort(transaction)
            return
        link, handle = known
        if not link.lost:  # one that was lost is aborted already
            await link.method(QMCOMM, ABORT, (handle,), where=str(transaction))

    # Queues

    async def create_queue(self, path: str, properties: Mapping[str, Any]) -> QueueInfo:
        link = await self.link()
        if not objects.expressible(properties, creating=True):
            return await (await self.lior("a property of Lior's own")).create_queue(path, properties)
        await objects.create(link, path, properties)
        return await self.queue(path)

    async def delete_queue(self, name: str) -> None:
        link = await self.link()
        if link.is_lior and not objects.is_object(name):
            await self.session.delete_queue(name)
        else:
            await objects.delete(link, name)

    async def purge_queue(self, name: str) -> None:
        link = await self.link()
        try:
            await objects.purge(link, name)
        except LiorError as error:  # one that somebody has open for himself is not opened, but may be purged
            if not link.is_lior or not isinstance(error, SharingViolation | UnsupportedOperation):
                raise
            await self.session.purge_queue(name)

    async def set_queue(self, name: str, changes: Mapping[str, Any]) -> None:
        link = await self.link()
        if objects.expressible(changes, creating=False):
            await objects.change(link, name, changes)
        else:
            await (await self.lior("a property of Lior's own")).set_queue(name, changes)

    async def get_security(self, name: str, information: int) -> SecurityDescriptor:
        link = await self.link()
        if link.is_lior and not objects.is_object(name):
            return await self.session.get_security(name, information)
        return await objects.security(link, name, information)

    async def set_security(self, name: str, information: int, descriptor: SecurityDescriptor) -> None:
        link = await self.link()
        if link.is_lior and not objects.is_object(name):
            await self.session.set_security(name, information, descriptor)
        else:
            await objects.set_security(link, name, information, descriptor)

    async def queue(self, name: str) -> QueueInfo:
        link = await self.link()
        return await self.session.queue(name) if link.is_lior else await objects.info(link, name)

    async def properties(self) -> dict[str, Any]:
        link = await self.link()
        return await self.session.properties() if link.is_lior else await objects.machine(link)

    # What no documented interface has

    transactions = _by_session(RemoteBackend.transactions, "listing transactions")
    queues = _by_session(RemoteBackend.queues, "listing queues")
    outgoing = _by_session(RemoteBackend.outgoing, "listing outgoing queues")
    connections = _by_session(RemoteBackend.connections, "listing connections")
    pause = _by_session(RemoteBackend.pause, "pausing an outgoing queue")
    resume = _by_session(RemoteBackend.resume, "resuming an outgoing queue")
    set_online = _by_session(RemoteBackend.set_online, "connecting to the network")
    set_properties = _by_session(RemoteBackend.set_properties, "setting properties of the queue manager")
    trace = _by_session(RemoteBackend.trace, "tracing messages")
    subscriptions = _by_session(RemoteBackend.subscriptions, "listing subscriptions")
    abandon_subscription = _by_session(RemoteBackend.abandon_subscription, "abandoning a subscription")
    backup = _by_session(RemoteBackend.backup, "a backup")
    compact = _by_session(RemoteBackend.compact, "compacting the store")


def _cursor(held: Held, number: int) -> Held | None:
    """A cursor of the handle that a documented interface gave."""
    return Held(held.channel, held.number | {"cursor": number}) if number else None


def _shows_more(name: str) -> bool:
    """Dead letters and journal copies have a reason and a destination, which no documented structure carries."""
    return single(name).suffix in (QueueSuffix.JOURNAL, QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT)


def _ignore(future: Any) -> None:
    if not future.cancelled():
        future.exception()
