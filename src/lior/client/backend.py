"""What the library needs from a queue manager, near or far. The embedded one and the RPC client have it.

Calls run on the loop; each returns an awaitable or raises. A handle is whatever `open` answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from lior.message import Message, ObjectId
from lior.security import SecurityDescriptor


@dataclass(slots=True, frozen=True)
class QueueInfo:
    """A queue as an operator sees it."""

    name: str  # path without the computer
    path: str
    format_name: str
    kind: str  # private, system, journal, subqueue, outgoing
    transactional: bool
    messages: int
    bytes: int
    journal_messages: int = 0
    journal_bytes: int = 0
    readers: int = 0
    state: str = ""  # of an outgoing queue
    oldest: float | None = None  # arrival time of the first message, unix seconds
    identifier: str = ""
    create_time: int = 0
    modify_time: int = 0
    properties: dict[str, Any] = field(default_factory=dict)
    private_name: str = ""  # PRIVATE=GUID\number, of a private queue


def info_of(figures: dict[str, Any]) -> QueueInfo:
    """The QueueInfo among more figures: those of an outgoing queue, or of a newer server."""
    return QueueInfo(**{name: value for name, value in figures.items() if name in QueueInfo.__dataclass_fields__})


class Backend(Protocol):
    def open(self, name: str, access: int, exclusive: bool) -> Awaitable[Any]: ...

    def is_transactional(self, handle: Any) -> bool | None:
        """None when only the destination knows."""
        ...

    def close_handle(self, handle: Any) -> Awaitable[None]: ...

    def send(self, handle: Any, message: Message, transaction: UUID | None) -> Awaitable[ObjectId]: ...

    def send_alone(self, handle: Any, message: Message) -> Awaitable[ObjectId]:
        """In a transaction of its own, committed when the answer comes."""
        ...

    def receive(
        self, handle: Any, timeout_ms: int, cursor: Any = None, transaction: UUID | None = None
    ) -> Awaitable[Message]: ...

    def peek(self, handle: Any, timeout_ms: int, cursor: Any = None, following: bool = False) -> Awaitable[Message]: ...

    def read_by_lookup(
        self, handle: Any, lookup_id: int, action: str, peek: bool, transaction: UUID | None = None
    ) -> Awaitable[Message]: ...

    def take(self, handle: Any, timeout_ms: int, cursor: Any = None) -> Awaitable[Any]:
        """As `receive`, but the message stays locked in its queue until `end_take`. What comes has a `message`."""
        ...

    def take_by_lookup(self, handle: Any, lookup_id: int, action: str) -> Awaitable[Any]: ...

    def end_take(self, taken: Any, take: bool) -> Awaitable[None]:
        """The message leaves its queue, or is given back."""
        ...

    def open_cursor(self, handle: Any) -> Awaitable[Any]: ...

    def close_cursor(self, cursor: Any) -> Awaitable[None]: ...

    def move(self, source: Any, lookup_id: int, target: Any, transaction: UUID | None = None) -> Awaitable[None]: ...

    def reject(self, handle: Any, lookup_id: int, transaction: UUID) -> Awaitable[None]: ...

    def begin(self) -> Awaitable[UUID]: ...

    def commit(self, transaction: UUID) -> Awaitable[None]: ...

    def abort(self, transaction: UUID) -> Awaitable[None]: ...

    def create_queue(self, path: str, properties: Mapping[str, Any]) -> Awaitable[QueueInfo]: ...

    def delete_queue(self, name: str) -> Awaitable[None]: ...

    def purge_queue(self, name: str) -> Awaitable[None]: ...

    def set_queue(self, name: str, changes: Mapping[str, Any]) -> Awaitable[None]: ...

    def get_security(self, name: str, information: int) -> Awaitable[SecurityDescriptor]: ...

    def set_security(self, name: str, information: int, descriptor: SecurityDescriptor) -> Awaitable[None]: ...

    def queue(self, name: str) -> Awaitable[QueueInfo]: ...

    def queues(self) -> Awaitable[list[QueueInfo]]: ...

    def outgoing(self) -> Awaitable[list[dict[str, Any]]]:
        """Outgoing queues: the fields of QueueInfo, next_hops, history and transfer."""
        ...

    def connections(self) -> Awaitable[list[dict[str, Any]]]:
        """Connections to other queue managers."""
        ...

    def pause(self, name: str) -> Awaitable[None]: ...

    def resume(self, name: str) -> Awaitable[None]: ...

    def set_online(self, online: bool) -> Awaitable[None]: ...

    def properties(self) -> Awaitable[dict[str, Any]]: ...

    def set_properties(self, changes: Mapping[str, Any]) -> Awaitable[None]: ...

    def transactions(self) -> Awaitable[list[dict[str, Any]]]:
        """Open and prepared transactions, for who must decide what is in doubt."""
        ...

    def trace(
        self,
        message_id: str = "",
        label: str = "",
        correlation_id: str = "",
        progress: Callable[[int, int], None] | None = None,
    ) -> Awaitable[list[dict[str, Any]]]:
        """What is known of a message, or of those with a label or correlation id: fields of TraceEntry. `progress` gets
        how much of how much was looked at, where that can be told."""
        ...

    def subscriptions(self) -> Awaitable[list[dict[str, Any]]]:
        """Readers that claim messages: what they claimed and released, and what waits for them."""
        ...

    def abandon_subscription(self, name: str) -> Awaitable[None]:
        """Give back what it claimed, and forget it."""
        ...

    def backup(self, path: str) -> Awaitable[None]: ...

    def compact(self) -> Awaitable[int]: ...

    def close(self) -> Awaitable[None]: ...


async def sent_alone(backend: Backend, handle: Any, message: Message) -> ObjectId:
    """`send_alone` of a backend that has no call for it: begin, send, commit."""
    identifier = await backend.begin()
    try:
        sent = await backend.send(handle, message, identifier)
    except BaseException:
        await backend.abort(identifier)
        raise
    await backend.commit(identifier)
    return sent
