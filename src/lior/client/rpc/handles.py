"""What `RpcBackend.open` gives: four kinds of open queue, with one set of calls.

Each does what its protocol can; for what it cannot (`take` of a queue that was opened the old way, say) it asks the
session of the same server, or raises the documented error.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from lior.client.remote import ACTIONS, Held
from lior.client.rpc.classic import OpenQueue
from lior.client.rpc.errors import failure
from lior.client.rpc.opening import CLOSE_QUEUE
from lior.client.rpc.reading import (
    ACTION_PEEK_CURRENT,
    ACTION_PEEK_NEXT,
    ACTION_RECEIVE,
    LOOKUP_PEEK,
    LOOKUP_RECEIVE,
    QueueReader,
)
from lior.client.rpc.send_stub import send_stub
from lior.client.rpc.transfer_buffer import inexpressible, sent
from lior.errors import (
    HRESULTS,
    InvalidHandle,
    Malformed,
    TransactionUsage,
    UnsupportedOperation,
    error_from_code,
)
from lior.message import Message, ObjectId
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.remote_read import REMOTE_READ
from lior.wire.packet_format_names import guid_of

if TYPE_CHECKING:
    from lior.client.rpc.backend import RpcBackend
    from lior.client.rpc.link import Link

SEND_MESSAGE: Final = 1
CREATE_CURSOR, CLOSE_CURSOR = 4, 5  # RemoteRead
SET_USER_ACKNOWLEDGEMENT_CLASS, MOVE_MESSAGE = 14, 10
NACK_RECEIVE_REJECTED: Final = 0xC004
_SENT_SIZE: Final = 28  # referent, OBJECTID, HRESULT
_EMPTY: Final = ObjectId(UUID(int=0), 0)


class Cursor:
    """A cursor and what it belongs to."""

    __slots__ = ("number", "queue")

    def __init__(self, queue: Handle, number: Any) -> None:
        self.queue = queue
        self.number = number


class Handle:
    """An open queue. `link` is what it hangs on, and ends with."""

    __slots__ = ("backend", "link", "name", "transactional")

    def __init__(self, backend: RpcBackend, link: Link, name: str) -> None:
        self.backend = backend
        self.link = link
        self.name = name
        self.transactional: bool | None = None

    def live(self) -> Link:
        link = self.link
        if link.first.lost or (not link.multiplexes and link.lost):
            raise InvalidHandle("the connection was lost since this was opened", where=self.name,
                                remedy="open it again")
        return link

    def unsupported(self, what: str) -> UnsupportedOperation:
        return UnsupportedOperation(f"{what} is not possible through this server", where=self.name,
                                    remedy="the documented interfaces that it has offer no way")

    def wrong(self, what: str) -> Exception:
        return error_from_code(HRESULTS["MQ_ERROR_ACCESS_DENIED"], f"the handle was not opened to {what}",
                               where=self.name, remedy="open the queue for it")

    def cursor_number(self, cursor: Cursor | None) -> Any:
        if cursor is None:
            return 0
        if cursor.queue is not self:
            raise InvalidHandle("the cursor belongs to another handle", where=self.name)
        return cursor.number

    # The calls, as `lior.client.backend.Backend` has them

    def send(self, message: Message, uow: UUID | None) -> Awaitable[ObjectId]:
        raise self.wrong("send")

    def receive(self, timeout_ms: int, cursor: Cursor | None, uow: UUID | None) -> Awaitable[Message]:
        raise self.wrong("receive")

    def peek(self, timeout_ms: int, cursor: Cursor | None, following: bool) -> Awaitable[Message]:
        raise self.wrong("peek")

    def lookup(self, lookup_id: int, action: str, peek: bool, uow: UUID | None) -> Awaitable[Message]:
        raise self.wrong("read")

    def take(self, timeout_ms: int, cursor: Cursor | None) -> Awaitable[Any]:
        raise self.wrong("receive")

    def take_by_lookup(self, lookup_id: int, action: str) -> Awaitable[Any]:
        raise self.wrong("receive")

    async def open_cursor(self) -> Cursor:
        raise self.wrong("read")

    async def close_cursor(self, cursor: Cursor) -> None:
        raise self.wrong("read")

    async def move(self, lookup_id: int, target: Handle, uow: UUID | None) -> None:
        raise self.wrong("move from")

    async def reject(self, lookup_id: int, uow: UUID) -> None:
        raise self.wrong("receive")

    async def close(self) -> None:
        raise NotImplementedError


def sent_identifier(stub: bytes) -> ObjectId:
    """What rpc_ACSendMessageEx answers: the identifier, and whether it was sent."""
    code = int.from_bytes(stub[-4:], "little")
    if code & 0x80000000:
        raise failure(code)
    if len(stub) != _SENT_SIZE:
        raise Malformed(f"an answer of {len(stub)} bytes", where="rpc_ACSendMessageEx")
    return ObjectId(guid_of(stub[4:20]), int.from_bytes(stub[20:24], "little"))


class ClassicHandle(Handle):
    """By rpc_QMOpenQueueInternal: to send, and to read where there is nothing better."""

    __slots__ = ("queue",)

    def __init__(self, backend: RpcBackend, link: Link, name: str, queue: OpenQueue) -> None:
        super().__init__(backend, link, name)
        self.queue = queue

    def send(self, message: Message, uow: UUID | None) -> Awaitable[ObjectId]:
        link = self.link
        parts = send_stub(self.queue.handle, message, uow)
        if parts is None:
            return self._send_rare(message, uow)
        if link.first.lost:
            self.live()
        return link.call(QMCOMM2, SEND_MESSAGE, b"".join(parts), sent_identifier, where=self.name)

    def _send_rare(self, message: Message, uow: UUID | None) -> Awaitable[ObjectId]:
        link, lacking = self.live(), inexpressible(message)
        if link.is_lior and (lacking or message.security is not None):
            return self.backend.session_send(self, message, uow)
        if lacking:
            raise self.unsupported(f"sending a message with {lacking}")
        stub = QMCOMM2.methods[SEND_MESSAGE].request.encode((self.queue.handle, sent(message, uow), _EMPTY))
        return link.call(QMCOMM2, SEND_MESSAGE, stub, sent_identifier, where=self.name)

    def receive(self, timeout_ms: int, cursor: Cursor | None, uow: UUID | None) -> Awaitable[Message]:
        self.live()
        return self.queue.read(ACTION_RECEIVE, timeout_ms, cursor=self.cursor_number(cursor), uow=uow)

    def peek(self, timeout_ms: int, cursor: Cursor | None, following: bool) -> Awaitable[Message]:
        self.live()
        action = ACTION_PEEK_NEXT if following else ACTION_PEEK_CURRENT
        return self.queue.read(action, timeout_ms, cursor=self.cursor_number(cursor))

    def lookup(self, lookup_id: int, action: str, peek: bool, uow: UUID | None) -> Awaitable[Message]:
        raise self.unsupported("reading by lookup identifier")

    def take(self, timeout_ms: int, cursor: Cursor | None) -> Awaitable[Any]:
        raise self.unsupported("holding a message")

    def take_by_lookup(self, lookup_id: int, action: str) -> Awaitable[Any]:
        raise self.unsupported("holding a message")

    async def move(self, lookup_id: int, target: Handle, uow: UUID | None) -> None:
        raise self.unsupported("moving a message")

    async def reject(self, lookup_id: int, uow: UUID) -> None:
        raise self.unsupported("rejecting a message")

    async def open_cursor(self) -> Cursor:
        self.live()
        return Cursor(self, await self.queue.create_cursor(self.backend.dial_computer))

    async def close_cursor(self, cursor: Cursor) -> None:
        if not self.link.lost:
            await self.queue.close_cursor(cursor.number)

    async def close(self) -> None:
        if not self.link.lost:
            await self.queue.close()


class ReadHandle(Handle):
    """By R_OpenQueue of RemoteRead: two phases, lookup identifiers, moving and rejecting."""

    __slots__ = ("elsewhere", "reader")

    def __init__(
        self, backend: RpcBackend, link: Link, name: str, reader: QueueReader, *, elsewhere: bool = False
    ) -> None:
        super().__init__(backend, link, name)
        self.reader = reader
        self.elsewhere = elsewhere  # of another computer than the backend's: the link is this handle's own

    def live_for(self, uow: UUID | None) -> Link:
        if uow is not None and self.elsewhere:
            raise TransactionUsage("a queue of another computer is not read in a transaction", where=self.name,
                                   remedy="receive without a transaction, or connect to that computer")
        return self.live()

    def receive(self, timeout_ms: int, cursor: Cursor | None, uow: UUID | None) -> Awaitable[Message]:
        number = self.cursor_number(cursor)
        otherwise = None
        if self.live_for(uow).is_lior:
            otherwise = partial(self.backend.session_receive, self.reader.context, timeout_ms, number, uow)
        return self.reader.read(ACTION_RECEIVE, timeout_ms, cursor=number, uow=uow, kept=True, otherwise=otherwise)

    def peek(self, timeout_ms: int, cursor: Cursor | None, following: bool) -> Awaitable[Message]:
        number = self.cursor_number(cursor)
        otherwise = None
        if self.live().is_lior:
            otherwise = partial(self.backend.session_peek, self.reader.context, timeout_ms, number, following)
        action = ACTION_PEEK_NEXT if following else ACTION_PEEK_CURRENT
        return self.reader.read(action, timeout_ms, cursor=number, otherwise=otherwise)

    def lookup(self, lookup_id: int, action: str, peek: bool, uow: UUID | None) -> Awaitable[Message]:
        check_action(action)
        link = self.live_for(uow)
        actions = LOOKUP_PEEK if peek else LOOKUP_RECEIVE
        other = partial(self.backend.session_lookup, self.reader.context, lookup_id, action, peek, uow)
        if action in actions:
            return self.reader.read(actions[action], lookup_id=lookup_id, uow=uow, kept=not peek,
                                    otherwise=other if link.is_lior else None)
        if link.is_lior:
            return other()
        if action == "first":
            return self.reader.read(ACTION_PEEK_CURRENT if peek else ACTION_RECEIVE, 0, uow=uow, kept=not peek)
        raise self.unsupported("reading the last message")

    def take(self, timeout_ms: int, cursor: Cursor | None) -> Awaitable[Any]:
        """Through the session if there is one: RemoteRead gives a message back after a few minutes (3.1.5.1)."""
        if self.live().is_lior and cursor is None:
            return self.backend.session_take(self.reader.context, timeout_ms)
        return self.reader.read(ACTION_RECEIVE, timeout_ms, cursor=self.cursor_number(cursor), kept=True, ending=False)

    def take_by_lookup(self, lookup_id: int, action: str) -> Awaitable[Any]:
        check_action(action)
        if self.live().is_lior:
            return self.backend.session_take_by_lookup(self.reader.context, lookup_id, action)
        if action in LOOKUP_RECEIVE:
            return self.reader.read(LOOKUP_RECEIVE[action], lookup_id=lookup_id, kept=True, ending=False)
        raise self.unsupported(f"holding the {action} message")

    async def open_cursor(self) -> Cursor:
        made = await self.live().method(REMOTE_READ, CREATE_CURSOR, (self.reader.context,), where=self.name)
        return Cursor(self, made[0])

    async def close_cursor(self, cursor: Cursor) -> None:
        if not self.link.lost:
            values = (self.reader.context, cursor.number)
            await self.link.method(REMOTE_READ, CLOSE_CURSOR, values, where=self.name)

    async def move(self, lookup_id: int, target: Handle, uow: UUID | None) -> None:
        if not isinstance(target, MoveHandle):
            raise target.wrong("move to")
        values = (self.reader.context, target.move_context, lookup_id, uow or UUID(int=0))
        await self.live_for(uow).method(REMOTE_READ, MOVE_MESSAGE, values, where=self.name)

    async def reject(self, lookup_id: int, uow: UUID) -> None:
        values = (self.reader.context, lookup_id, NACK_RECEIVE_REJECTED)
        await self.live_for(uow).method(REMOTE_READ, SET_USER_ACKNOWLEDGEMENT_CLASS, values, where=self.name)

    async def close(self) -> None:
        if not self.link.lost:
            await self.link.method(REMOTE_READ, CLOSE_QUEUE, (self.reader.context,), where=self.name)
        if self.elsewhere:
            await self.link.close()


class MoveHandle(Handle):
    """By R_OpenQueueForMove: where messages are moved to."""

    __slots__ = ("context", "move_context")

    def __init__(self, backend: RpcBackend, link: Link, name: str, move_context: int, context: bytes) -> None:
        super().__init__(backend, link, name)
        self.move_context = move_context
        self.context = context

    async def close(self) -> None:
        if not self.link.lost:
            await self.link.method(REMOTE_READ, CLOSE_QUEUE, (self.context,), where=self.name)


class SessionHandle(Handle):
    """By the session: what no documented interface opens, or shows in full."""

    __slots__ = ("held",)

    def __init__(self, backend: RpcBackend, link: Link, name: str, held: Held) -> None:
        super().__init__(backend, link, name)
        self.held = held
        self.transactional = held.transactional

    def send(self, message: Message, uow: UUID | None) -> Awaitable[ObjectId]:
        return self.backend.session.send(self.held, message, uow)

    def receive(self, timeout_ms: int, cursor: Cursor | None, uow: UUID | None) -> Awaitable[Message]:
        return self.backend.session.receive(self.held, timeout_ms, self._held_cursor(cursor), uow)

    def peek(self, timeout_ms: int, cursor: Cursor | None, following: bool) -> Awaitable[Message]:
        return self.backend.session.peek(self.held, timeout_ms, self._held_cursor(cursor), following)

    def _held_cursor(self, cursor: Cursor | None) -> Held | None:
        return self.cursor_number(cursor) or None

    def lookup(self, lookup_id: int, action: str, peek: bool, uow: UUID | None) -> Awaitable[Message]:
        return self.backend.session.read_by_lookup(self.held, lookup_id, action, peek, uow)

    def take(self, timeout_ms: int, cursor: Cursor | None) -> Awaitable[Any]:
        return self.backend.session.take(self.held, timeout_ms, self._held_cursor(cursor))

    def take_by_lookup(self, lookup_id: int, action: str) -> Awaitable[Any]:
        return self.backend.session.take_by_lookup(self.held, lookup_id, action)

    async def open_cursor(self) -> Cursor:
        return Cursor(self, await self.backend.session.open_cursor(self.held))

    async def close_cursor(self, cursor: Cursor) -> None:
        await self.backend.session.close_cursor(cursor.number)

    async def move(self, lookup_id: int, target: Handle, uow: UUID | None) -> None:
        if not isinstance(target, SessionHandle):
            raise target.wrong("move to")
        await self.backend.session.move(self.held, lookup_id, target.held, uow)

    async def reject(self, lookup_id: int, uow: UUID) -> None:
        await self.backend.session.reject(self.held, lookup_id, uow)

    async def close(self) -> None:
        await self.backend.session.close_handle(self.held)


def check_action(action: str) -> None:
    """As the embedded queue manager does: a word that is none is the program's mistake."""
    if action not in ACTIONS:
        raise ValueError(f"an action is one of {', '.join(sorted(ACTIONS))}")
