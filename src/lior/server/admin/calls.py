"""The calls of the admin API: one for each verb of the library's backend, and a few for who comes with plain HTTP.

A call that needs a session (handles, cursors, transactions) works over a WebSocket only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from lior.errors import AccessDenied, InsufficientResources, InvalidParameter, LiorError, Timeout, TransactionSequence
from lior.message import INFINITE, Message
from lior.names import DirectName, parse_format_name, parse_path_name
from lior.queues.descriptor import Cursor, MessageSeekAction, OpenQueueDescriptor, QueueAccessType, TwoPhaseRead
from lior.queues.transaction import TransactionState
from lior.server.admin.arguments import Argument

if TYPE_CHECKING:
    from lior.server.admin.session import ClientSession

BROWSE: Final = 1000  # messages in one answer, at most
BROWSE_BYTES: Final = 8 << 20  # likewise
RECEIVE: Final = QueueAccessType.RECEIVE
SEND: Final = QueueAccessType.SEND
PEEK: Final = QueueAccessType.PEEK


class Call(NamedTuple):
    run: Callable[..., Any]
    arguments: tuple[Argument, ...] = ()
    session: bool = False  # holds something for its client
    reads: bool = False  # changes nothing: GET will do
    administrator: bool = False
    about: str = ""


class Failed(NamedTuple):
    """One of several that did not succeed."""

    error: LiorError


# Handles


def open_(s: ClientSession, name: str, access: int, exclusive: bool) -> dict[str, Any]:
    s.require_room()
    try:
        QueueAccessType(access)
    except ValueError:
        raise InvalidParameter(f"{access} is no access mode", where="access") from None
    handle = s.now(s.backend.open(name, access, exclusive))
    s.handles[handle.handle] = handle
    return {"handle": handle.handle, "transactional": s.backend.is_transactional(handle)}


def close(s: ClientSession, handle: OpenQueueDescriptor) -> None:
    del s.handles[handle.handle]
    for cursor in list(handle.cursors):
        s.cursors.pop(cursor, None)
    for number, read in list(s.reads.items()):
        if read.descriptor is handle:
            del s.reads[number]
    s.now(s.backend.close_handle(handle))


def open_cursor(s: ClientSession, handle: OpenQueueDescriptor) -> int:
    s.require_room()
    cursor = s.now(s.backend.open_cursor(handle))
    s.cursors[cursor.handle] = cursor
    return int(cursor.handle)


def close_cursor(s: ClientSession, cursor: Cursor) -> None:
    del s.cursors[cursor.handle]
    s.now(s.backend.close_cursor(cursor))


# Messages


def send(s: ClientSession, handle: OpenQueueDescriptor, message: Message, transaction: UUID | None) -> Awaitable[Any]:
    return s.backend.send(handle, message, s.own(transaction))


async def send_many(
    s: ClientSession, handle: OpenQueueDescriptor, messages: list[Message], transaction: UUID | None
) -> list[Any]:
    """Without a transaction each message succeeds or fails for itself; to a transactional queue all or none."""
    transaction = s.own(transaction)
    if transaction is not None or not s.backend.is_transactional(handle):
        futures = [s.backend.send(handle, message, transaction) for message in messages]
        return [await _settled(future) for future in futures]
    own = await s.backend.begin()
    try:
        sent = [await s.backend.send(handle, message, own) for message in messages]
        await s.backend.commit(own)
    except BaseException:
        with suppress(LiorError):
            await s.backend.abort(own)
        raise
    return sent


async def _settled(future: Awaitable[Any]) -> Any:
    try:
        return await future
    except LiorError as error:
        return Failed(error)


def receive(
    s: ClientSession, handle: OpenQueueDescriptor, timeout_ms: int, cursor: Cursor | None, transaction: UUID | None
) -> Awaitable[Any]:
    """Outside a transaction the message stays locked until the client says with `end` that it has it."""
    if transaction is not None:
        return s.backend.receive(handle, timeout_ms, cursor, s.own(transaction))
    return s.backend.take(handle, timeout_ms, cursor)


def end(s: ClientSession, read: TwoPhaseRead, take: bool) -> Awaitable[Any]:
    del s.reads[read.handle]
    return s.backend.end_take(read, take)


def peek(
    s: ClientSession, handle: OpenQueueDescriptor, timeout_ms: int, cursor: Cursor | None, following: bool
) -> Awaitable[Any]:
    if following and cursor is None:
        raise InvalidParameter("the following message is that of a cursor", where="cursor")
    return s.backend.peek(handle, timeout_ms, cursor, following)


def read_by_lookup(
    s: ClientSession, handle: OpenQueueDescriptor, lookup_id: int, action: str, peek: bool, transaction: UUID | None
) -> Awaitable[Any]:
    if action not in MessageSeekAction._value2member_map_:
        raise InvalidParameter(f"{action!r} is no action", where="action",
                               remedy="current, next, previous, first or last")
    if peek or transaction is not None:
        return s.backend.read_by_lookup(handle, lookup_id, action, peek, s.own(transaction))
    return s.backend.take_by_lookup(handle, lookup_id, action)


def move(
    s: ClientSession, source: OpenQueueDescriptor, lookup_id: int, target: OpenQueueDescriptor,
    transaction: UUID | None,
) -> Awaitable[Any]:  # fmt: skip
    return s.backend.move(source, lookup_id, target, s.own(transaction))


def reject(s: ClientSession, handle: OpenQueueDescriptor, lookup_id: int, transaction: UUID) -> Awaitable[Any]:
    own = s.own(transaction)
    assert own is not None
    return s.backend.reject(handle, lookup_id, own)


# Transactions


async def begin(s: ClientSession) -> UUID:
    s.require_room()
    identifier: UUID = await s.backend.begin()
    s.began(identifier)
    return identifier


async def commit(s: ClientSession, transaction: UUID) -> None:
    _require_decider(s, transaction)
    await s.backend.commit(transaction)
    s.transactions.discard(transaction)


async def abort(s: ClientSession, transaction: UUID) -> None:
    _require_decider(s, transaction)
    await s.backend.abort(transaction)
    s.transactions.discard(transaction)


def _require_decider(s: ClientSession, transaction: UUID) -> None:
    """A client ends its own transactions; an administrator those in doubt, too."""
    if transaction in s.transactions:
        return
    if s.caller.is_administrator:
        known = s.backend.manager.core.transactions.get(transaction)
        if known is not None and known.state is TransactionState.PREPARED:
            return
    raise TransactionSequence("this session has no such transaction", where=str(transaction),
                              remedy="begin one; transactions end with the session that began them")


# For who has no session: plain HTTP


async def send_to(s: ClientSession, queue: str, messages: list[Message]) -> list[Any]:
    handle = s.now(s.backend.open(_format_name(queue), SEND, False))
    try:
        return await send_many(s, handle, messages, None)
    finally:
        s.now(s.backend.close_handle(handle))


async def receive_from(s: ClientSession, queue: str, timeout_ms: int) -> Message:
    """The message is the client's when its answer leaves; one whose client went away before stays in the queue."""
    handle = s.now(s.backend.open(_format_name(queue), RECEIVE, False))
    try:
        taken: TwoPhaseRead = await s.backend.take(handle, timeout_ms)
        await s.backend.end_take(taken, True)
        return taken.message
    finally:
        s.now(s.backend.close_handle(handle))


async def browse(s: ClientSession, queue: str, limit: int, after: int) -> list[Message]:
    """The messages that are there, in order, after the lookup id `after`; they stay."""
    handle = s.now(s.backend.open(_format_name(queue), PEEK, False))
    found: list[Message] = []
    size = 0
    try:
        cursor = s.now(s.backend.open_cursor(handle))
        if after:
            cursor.key = after
        following = False
        with suppress(Timeout):
            while len(found) < min(limit, BROWSE) and size < BROWSE_BYTES:
                found.append(await s.backend.peek(handle, 0, cursor, following))
                size += found[-1].size
                following = True
        return found
    finally:
        s.now(s.backend.close_handle(handle))


def _format_name(name: str) -> str:
    return str(parse_format_name(name) if "=" in name else DirectName.from_path(parse_path_name(name)))


# Queues and the queue manager


def verb(name: str) -> Callable[..., Any]:
    """The backend's call of that name, with the same arguments."""

    def run(s: ClientSession, **arguments: Any) -> Any:
        return getattr(s.backend, name)(**arguments)

    return run


def connections(s: ClientSession) -> list[dict[str, Any]]:
    return s.service.connections()


NAME: Final = Argument("name", "text")
HANDLE: Final = Argument("handle", "handle")
TIMEOUT: Final = Argument("timeout_ms", "milliseconds", INFINITE)
NO_TIMEOUT: Final = Argument("timeout_ms", "milliseconds", 0)
CURSOR: Final = Argument("cursor", "cursor", None)
IN_TRANSACTION: Final = Argument("transaction", "uuid", None)
TRANSACTION: Final = Argument("transaction", "uuid")
LOOKUP_ID: Final = Argument("lookup_id", "whole", 0)
QUEUE: Final = Argument("queue", "text")
EPOCH: Final = Argument("epoch", "uuid")
CHANGES: Final = Argument("changes", "object")

CALLS: Final[dict[str, Call]] = {
    "open": Call(open_, (NAME, Argument("access", "whole"), Argument("exclusive", "flag", False)), session=True,
                 about="Open a queue; access 1 receive, 2 send, 4 move, 32 peek, 129 and 160 for outgoing queues."),
    "close": Call(close, (HANDLE,), session=True, about="Close a handle, with its cursors."),
    "open_cursor": Call(open_cursor, (HANDLE,), session=True, about="Open a cursor."),
    "close_cursor": Call(close_cursor, (Argument("cursor", "cursor"),), session=True, about="Close a cursor."),
    "send": Call(send, (HANDLE, Argument("message", "message"), IN_TRANSACTION), session=True,
                 about="Send a message; answers its identifier when it is as safe as it asks to be."),
    "send_many": Call(send_many, (HANDLE, Argument("messages", "messages"), IN_TRANSACTION), session=True,
                      about="Send several messages; answers an identifier or an error for each."),
    "receive": Call(receive, (HANDLE, TIMEOUT, CURSOR, IN_TRANSACTION), session=True,
                    about="Wait for the next message and take it; outside a transaction `end` completes it."),
    "end": Call(end, (Argument("read", "read"), Argument("take", "flag", True)), session=True,
                about="Complete a receive: take the message, or give it back."),
    "peek": Call(peek, (HANDLE, TIMEOUT, CURSOR, Argument("following", "flag", False)), session=True,
                 about="Look at the first message, that of a cursor, or the one after it."),
    "read_by_lookup": Call(read_by_lookup, (HANDLE, LOOKUP_ID, Argument("action", "text", "current"),
                                            Argument("peek", "flag", False), IN_TRANSACTION), session=True,
                           about="Take or look at the message with a lookup id, or one beside it."),
    "move": Call(move, (Argument("source", "handle"), LOOKUP_ID, Argument("target", "handle"), IN_TRANSACTION),
                 session=True, about="Move a message between a queue and its subqueues."),
    "reject": Call(reject, (HANDLE, LOOKUP_ID, TRANSACTION), session=True,
                   about="Refuse a message received in a transaction."),
    "begin": Call(begin, session=True, about="Begin a transaction."),
    "commit": Call(commit, (TRANSACTION,), about="Commit a transaction of the session, or one in doubt."),
    "abort": Call(abort, (TRANSACTION,), about="Abort a transaction of the session, or one in doubt."),
    "send_to": Call(send_to, (QUEUE, Argument("messages", "messages")), about="Open, send several messages, close."),
    "receive_from": Call(receive_from, (QUEUE, NO_TIMEOUT), about="Open, receive one message, close."),
    "browse": Call(browse, (QUEUE, Argument("limit", "whole", 100), Argument("after", "whole", 0)), reads=True,
                   about="The messages of a queue, which stay there."),
    "create_queue": Call(verb("create_queue"), (Argument("path", "text"),
                                                Argument("properties", "queue properties", {})),
                         about="Create a private queue."),
    "delete_queue": Call(verb("delete_queue"), (NAME,), about="Delete a queue with its messages."),
    "purge_queue": Call(verb("purge_queue"), (NAME,), about="Remove every message of a queue."),
    "set_queue": Call(verb("set_queue"), (NAME, Argument("changes", "queue properties")),
                      about="Change properties of a queue."),
    "get_security": Call(verb("get_security"), (NAME, Argument("information", "whole", 5)), reads=True,
                         about="Owner and rights of a queue."),
    "set_security": Call(verb("set_security"), (NAME, Argument("information", "whole", 4),
                                                Argument("descriptor", "security descriptor")),
                         about="Change owner and rights of a queue."),
    "queue": Call(verb("queue"), (NAME,), reads=True, about="Figures and properties of a queue."),
    "queues": Call(verb("queues"), reads=True, about="Figures and properties of every queue."),
    "outgoing": Call(verb("outgoing"), reads=True,
                     about="Outgoing queues with state, next hops, history and where their streams stand."),
    "connections": Call(connections, reads=True, administrator=True, about="Connections to other queue managers."),
    "pause": Call(verb("pause"), (NAME,), about="Send nothing to a destination until it is resumed."),
    "resume": Call(verb("resume"), (NAME,), about="Send to a destination again."),
    "set_online": Call(verb("set_online"), (Argument("online", "flag"),), about="Connect to the network, or not."),
    "properties": Call(verb("properties"), reads=True, about="Properties and figures of the queue manager."),
    "set_properties": Call(verb("set_properties"), (CHANGES,), about="Change properties of the queue manager."),
    "transactions": Call(verb("transactions"), reads=True, administrator=True,
                         about="Open and prepared transactions."),
    "trace": Call(verb("trace"), (Argument("message_id", "text", ""), Argument("label", "text", ""),
                                  Argument("correlation_id", "text", "")), reads=True,
                  about="Where a message is and what became of it, or the messages with a label or correlation id."),
    "subscriptions": Call(verb("subscriptions"), reads=True,
                          about="Readers that claim messages: claimed, released, and what waits for them."),
    "subscribe": Call(verb("subscribe"), (NAME, Argument("queues", "texts"), Argument("takeover", "flag", False),
                                          Argument("options", "object", {})),
                      about="Make a subscription over queues, or take it over; answers its epoch."),
    "claim": Call(verb("claim"), (NAME, EPOCH, Argument("start", "whole"), Argument("max_rows", "whole"),
                                  Argument("max_bytes", "whole")),
                  about="Claim the messages that come next; answers the last ordinal."),
    "plan": Call(verb("plan"), (NAME, Argument("start", "whole"), Argument("end", "whole"),
                                Argument("parts", "whole"), Argument("part_bytes", "whole", 0)), reads=True,
                 about="Ordinals at which ranges of about the same size end: so many, or more if each would be larger "
                 "than `part_bytes`."),
    "release": Call(verb("release"), (NAME, EPOCH, Argument("ordinal", "whole"), Argument("wait", "flag", True)),
                    about="Claimed messages up to an ordinal are received; without `wait` it answers as soon as that "
                    "is sure, not when it is done."),
    "reject_claimed": Call(verb("reject_claimed"), (NAME, EPOCH, Argument("ordinals", "numbers")),
                           about="Move claimed messages to the subqueue poison."),
    "publish": Call(verb("publish"), (Argument("writer", "text"), Argument("batch", "whole"),
                                      Argument("stages", "texts")),
                    about="Send what was put aside by bulk transfer; answers how many, 0 for a batch of before."),
    "may_read": Call(verb("may_read"), (Argument("subscription", "text", ""), Argument("queue_id", "whole", 0)),
                     about="Whether the caller may look at a queue, or at what a subscription has claimed."),
    "abandon_subscription": Call(verb("abandon_subscription"), (NAME,),
                                 about="Give back what a subscription claimed, and forget it."),
    "backup": Call(verb("backup"), (Argument("path", "text"),), administrator=True,
                   about="Write a copy of the store to a new file of the queue manager's computer."),
    "compact": Call(verb("compact"), administrator=True, about="Give free space back to the disk."),
}  # fmt: skip


def require_administrator(s: ClientSession, name: str) -> None:
    if not s.caller.is_administrator:
        raise AccessDenied("this is for administrators of the queue manager", where=name,
                           remedy="run it as root or as the user of the queue manager")


def too_many(what: str, limit: int) -> InsufficientResources:
    return InsufficientResources(f"the session has {limit} {what} already", where="session",
                                 remedy=f"close some, or raise admin.max_{what}")
