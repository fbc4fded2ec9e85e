"""A queue manager in another process: the library's calls over sessions of the admin API.

A connection that is lost is made again by the next call. What hung on the old one (handles, cursors,
transactions) ended with it, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID

from lior.client.backend import QueueInfo, info_of, sent_alone
from lior.client.reconnecting import Reconnecting
from lior.client.session_calls import SessionChannel
from lior.errors import InvalidHandle, OperationCancelled, TransactionSequence
from lior.message import Message, ObjectId
from lior.security import SecurityDescriptor
from lior.wire.admin_json import descriptor_from_json, message_from_json, object_id, uuid

OpenChannel = Callable[[], Awaitable[SessionChannel]]

ACTIONS: Final = frozenset({"current", "next", "previous", "first", "last"})


class Held:
    """A handle or a cursor: its number in the session that gave it, or how that knows a handle of others."""

    __slots__ = ("channel", "number", "transactional")

    def __init__(self, channel: SessionChannel, number: Any, transactional: bool | None = None) -> None:
        self.channel = channel
        self.number = number
        self.transactional = transactional

    def live(self) -> SessionChannel:
        if self.channel.lost:
            raise InvalidHandle("the connection was lost since this was opened", remedy="open it again")
        return self.channel


class Taken:
    """A message that its queue keeps locked until `end_take`."""

    __slots__ = ("channel", "message", "number")

    def __init__(self, channel: SessionChannel, number: int, message: Message) -> None:
        self.channel = channel
        self.number = number
        self.message = message


class RemoteBackend:
    """`lior.client.backend.Backend` over the sessions that `open_channel` opens, one after the other."""

    def __init__(self, open_channel: OpenChannel, where: str) -> None:
        self.where = where
        self._connection = Reconnecting(open_channel, where)
        self._transactions: dict[UUID, SessionChannel] = {}

    @classmethod
    async def connect(cls, open_channel: OpenChannel, where: str) -> RemoteBackend:
        backend = cls(open_channel, where)
        await backend.channel()
        return backend

    async def close(self) -> None:
        await self._connection.close()

    # The connection

    async def channel(self) -> SessionChannel:
        """The session that calls go to now."""
        return await self._connection.get()

    async def _call(self, call: str, /, **arguments: Any) -> Any:
        return await (await self.channel()).call(call, arguments)

    async def _rows(self, call: str, /, **arguments: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._call(call, **arguments)
        return found

    def _transaction(self, transaction: UUID | None) -> UUID | None:
        if transaction is None:
            return None
        own = self._transactions.get(transaction)
        if own is not None and own.lost:
            del self._transactions[transaction]
            raise TransactionSequence("the connection was lost, and the transaction ended with it",
                                      where=str(transaction), remedy="do everything of it again")
        return transaction

    # Handles

    async def open(self, name: str, access: int, exclusive: bool) -> Held:
        channel = await self.channel()
        found = await channel.call("open", {"name": name, "access": access, "exclusive": exclusive})
        return Held(channel, found["handle"], found["transactional"])

    def is_transactional(self, handle: Held) -> bool | None:
        return handle.transactional

    async def close_handle(self, handle: Held) -> None:
        if not handle.channel.lost:
            await handle.channel.call("close", {"handle": handle.number})

    async def open_cursor(self, handle: Held) -> Held:
        channel = handle.live()
        return Held(channel, await channel.call("open_cursor", {"handle": handle.number}))

    async def close_cursor(self, cursor: Held) -> None:
        if not cursor.channel.lost:
            await cursor.channel.call("close_cursor", {"cursor": cursor.number})

    # Messages

    def send(self, handle: Held, message: Message, transaction: UUID | None) -> Awaitable[ObjectId]:
        arguments = {"handle": handle.number, "message": message, "transaction": self._transaction(transaction)}
        return handle.live().call("send", arguments, _identifier)

    def send_alone(self, handle: Held, message: Message) -> Awaitable[ObjectId]:
        return sent_alone(self, handle, message)

    def receive(
        self, handle: Held, timeout_ms: int, cursor: Held | None = None, transaction: UUID | None = None
    ) -> Awaitable[Message]:
        arguments = {"handle": handle.number, "timeout_ms": timeout_ms, "cursor": _number(cursor),
                     "transaction": self._transaction(transaction)}  # fmt: skip
        return RemoteRead(handle.live(), "receive", arguments, kept=transaction is None)

    def peek(
        self, handle: Held, timeout_ms: int, cursor: Held | None = None, following: bool = False
    ) -> Awaitable[Message]:
        arguments = {"handle": handle.number, "timeout_ms": timeout_ms, "cursor": _number(cursor),
                     "following": following}  # fmt: skip
        return RemoteRead(handle.live(), "peek", arguments)

    def read_by_lookup(
        self, handle: Held, lookup_id: int, action: str, peek: bool, transaction: UUID | None = None
    ) -> Awaitable[Message]:
        check_action(action)
        arguments = {"handle": handle.number, "lookup_id": lookup_id, "action": action, "peek": peek,
                     "transaction": self._transaction(transaction)}  # fmt: skip
        return RemoteRead(handle.live(), "read_by_lookup", arguments, kept=not peek and transaction is None)

    def take(self, handle: Held, timeout_ms: int, cursor: Held | None = None) -> Awaitable[Taken]:
        arguments = {"handle": handle.number, "timeout_ms": timeout_ms, "cursor": _number(cursor)}
        return RemoteRead(handle.live(), "receive", arguments, kept=True, ending=False)

    def take_by_lookup(self, handle: Held, lookup_id: int, action: str) -> Awaitable[Taken]:
        check_action(action)
        arguments = {"handle": handle.number, "lookup_id": lookup_id, "action": action, "peek": False}
        return RemoteRead(handle.live(), "read_by_lookup", arguments, kept=True, ending=False)

    async def end_take(self, taken: Taken, take: bool) -> None:
        await taken.channel.call("end", {"read": taken.number, "take": take})

    async def move(self, source: Held, lookup_id: int, target: Held, transaction: UUID | None = None) -> None:
        await source.live().call("move", {"source": source.number, "lookup_id": lookup_id, "target": target.number,
                                          "transaction": self._transaction(transaction)})  # fmt: skip

    async def reject(self, handle: Held, lookup_id: int, transaction: UUID) -> None:
        await handle.live().call("reject", {"handle": handle.number, "lookup_id": lookup_id,
                                            "transaction": self._transaction(transaction)})  # fmt: skip

    # Transactions

    async def begin(self) -> UUID:
        channel = await self.channel()
        identifier = uuid(await channel.call("begin", {}), "transaction")
        self._transactions[identifier] = channel
        return identifier

    async def commit(self, transaction: UUID) -> None:
        await self._call("commit", transaction=self._transaction(transaction))
        self._transactions.pop(transaction, None)

    async def abort(self, transaction: UUID) -> None:
        own = self._transactions.pop(transaction, None)
        if own is None or not own.lost:  # one that was lost is aborted already
            await self._call("abort", transaction=transaction)

    async def transactions(self) -> list[dict[str, Any]]:
        return await self._rows("transactions")

    async def trace(
        self,
        message_id: str = "",
        label: str = "",
        correlation_id: str = "",
        progress: Callable[[int, int], None] | None = None,
    ) -> list[dict[str, Any]]:
        """How far the search is stays with the server."""
        return await self._rows("trace", message_id=message_id, label=label, correlation_id=correlation_id)

    # Queues

    async def create_queue(self, path: str, properties: Mapping[str, Any]) -> QueueInfo:
        return info_of(await self._call("create_queue", path=path, properties=properties))

    async def delete_queue(self, name: str) -> None:
        await self._call("delete_queue", name=name)

    async def purge_queue(self, name: str) -> None:
        await self._call("purge_queue", name=name)

    async def set_queue(self, name: str, changes: Mapping[str, Any]) -> None:
        await self._call("set_queue", name=name, changes=changes)

    async def get_security(self, name: str, information: int) -> SecurityDescriptor:
        channel = await self.channel()
        arguments = {"name": name, "information": information}
        found: SecurityDescriptor = await channel.call("get_security", arguments, descriptor_from_json)
        return found

    async def set_security(self, name: str, information: int, descriptor: SecurityDescriptor) -> None:
        await self._call("set_security", name=name, information=information, descriptor=descriptor)

    async def queue(self, name: str) -> QueueInfo:
        return info_of(await self._call("queue", name=name))

    async def queues(self) -> list[QueueInfo]:
        return [info_of(found) for found in await self._call("queues")]

    async def outgoing(self) -> list[dict[str, Any]]:
        return await self._rows("outgoing")

    async def connections(self) -> list[dict[str, Any]]:
        return await self._rows("connections")

    async def pause(self, name: str) -> None:
        await self._call("pause", name=name)

    async def resume(self, name: str) -> None:
        await self._call("resume", name=name)

    # Claims

    async def subscriptions(self) -> list[dict[str, Any]]:
        return await self._rows("subscriptions")

    async def abandon_subscription(self, name: str) -> None:
        await self._call("abandon_subscription", name=name)

    # The queue manager

    async def set_online(self, online: bool) -> None:
        await self._call("set_online", online=online)

    async def properties(self) -> dict[str, Any]:
        found: dict[str, Any] = await self._call("properties")
        return found

    async def set_properties(self, changes: Mapping[str, Any]) -> None:
        await self._call("set_properties", changes=changes)

    async def backup(self, path: str) -> None:
        await self._call("backup", path=path)

    async def compact(self) -> int:
        return int(await self._call("compact"))


class RemoteRead(asyncio.Future[Any]):
    """The answer to a read. Cancelling asks the server to end the wait, and what comes first counts: the read ends as
    cancelled, or the message came after all. A message that leaves its queue (`kept`) stays locked there until its
    arrival here is confirmed, and the caller has it when that is on disk: a connection that breaks loses nothing.
    Not `ending`, that is left to the caller."""

    def __init__(
        self, channel: SessionChannel, name: str, arguments: dict[str, Any], *, kept: bool = False, ending: bool = True
    ) -> None:
        super().__init__()
        self._channel = channel
        self._kept = kept
        self._ending = ending
        self._asked = False
        self._call = channel.start(name, arguments, self._kept_message if kept else _message)
        self._call.future.add_done_callback(self._answered)

    def _kept_message(self, result: Any, blobs: bytes) -> Taken:
        return Taken(self._channel, result["read"], message_from_json(result["message"], blobs, sending=False))

    def cancel(self, msg: Any | None = None) -> bool:
        if not self.done() and not self._asked:
            self._asked = True
            self._channel.cancel(self._call)
        return False

    def _answered(self, answer: asyncio.Future[Any]) -> None:
        error = answer.exception()
        if isinstance(error, OperationCancelled) and self._asked:
            super().cancel()
        elif error is not None:
            self.set_exception(error)
        elif self._kept and self._ending:
            taken: Taken = answer.result()
            end = self._channel.call("end", {"read": taken.number, "take": True})
            end.add_done_callback(lambda ended: self._ended(ended, taken.message))
        else:
            self.set_result(answer.result())

    def _ended(self, ended: asyncio.Future[Any], message: Message) -> None:
        error = ended.exception()
        if error is None:
            self.set_result(message)
        else:
            self.set_exception(error)


def check_action(action: str) -> None:
    """As the embedded queue manager does: a word that is none is the program's mistake."""
    if action not in ACTIONS:
        raise ValueError(f"an action is one of {', '.join(sorted(ACTIONS))}")


def _number(cursor: Held | None) -> Any:
    return None if cursor is None else cursor.number


def _identifier(result: Any, blobs: bytes) -> ObjectId:
    return object_id(result)


def _message(result: Any, blobs: bytes) -> Message:
    return message_from_json(result, blobs, sending=False)
