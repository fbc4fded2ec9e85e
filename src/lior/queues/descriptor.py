"""What an opener holds: descriptors ([MS-MQDMPR] 3.1.1.16), their cursors (3.2) and two-phase reads."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from lior.errors import AccessDenied, IllegalCursorAction, InvalidHandle, QueueNotAvailable
from lior.queues.position import Position
from lior.queues.queue import START, Queue

if TYPE_CHECKING:
    from lior.message import Message
    from lior.names import FormatName
    from lior.security import Caller


class QueueAccessType(IntEnum):
    """[MS-MQDMPR] 3.1.1.17, with the numbers of the API."""

    RECEIVE = 0x01
    SEND = 0x02
    MOVE = 0x04
    PEEK = 0x20
    RECEIVE_ADMIN = 0x81
    PEEK_ADMIN = 0xA0


class QueueShareMode(IntEnum):
    DENY_NONE = 0
    DENY_RECEIVE = 1


class RemoteReadState(Enum):
    NONE = "none"
    OPENED = "opened"
    READY_FOR_READ = "ready for read"


class MessageSeekAction(Enum):
    FIRST = "first"
    PREVIOUS = "previous"
    CURRENT = "current"
    NEXT = "next"
    LAST = "last"


class CursorState(Enum):
    UNREAD = "unread"
    WAIT_RECEIVE = "wait receive"
    WAIT_PEEK = "wait peek"
    READ = "read"


RECEIVE_ACCESS = frozenset({QueueAccessType.RECEIVE, QueueAccessType.RECEIVE_ADMIN})
PEEK_ONLY = frozenset({QueueAccessType.PEEK, QueueAccessType.PEEK_ADMIN})
PEEK_ACCESS = RECEIVE_ACCESS | PEEK_ONLY
SEND_ACCESS = frozenset({QueueAccessType.SEND})
MOVE_SOURCE_ACCESS = RECEIVE_ACCESS | {QueueAccessType.MOVE}
MOVE_TARGET_ACCESS = frozenset({QueueAccessType.MOVE})
ADMIN_ACCESS = frozenset({QueueAccessType.RECEIVE_ADMIN, QueueAccessType.PEEK_ADMIN})


class Cursor:
    """A place in a queue. It holds a lookup id, not a message: next is the first one above it."""

    __slots__ = ("descriptor", "handle", "key", "state")

    def __init__(self, handle: int, descriptor: OpenQueueDescriptor) -> None:
        self.handle = handle
        self.descriptor = descriptor
        self.key = START
        self.state = CursorState.UNREAD

    def go_back(self, key: int, state: CursorState) -> None:
        """A receive at the cursor failed: its message is still there, ahead of the cursor or under it."""
        self.key = min(key, self.key)
        if self.state in (CursorState.READ, CursorState.UNREAD):
            self.state = state

    def require_of(self, descriptor: OpenQueueDescriptor) -> None:
        if descriptor.cursors.get(self.handle) is not self:
            raise InvalidHandle("the cursor is closed, or belongs to another handle", where=descriptor.text)

    def require_idle(self) -> None:
        if self.state is not CursorState.UNREAD:
            raise IllegalCursorAction("a read waits at this cursor already", where=self.descriptor.text)


class OpenQueueDescriptor:
    __slots__ = (
        "access",
        "caller",
        "children",
        "closed",
        "context_value",
        "cursors",
        "format_name",
        "handle",
        "queue",
        "remote_read_state",
        "share",
        "text",
    )

    def __init__(
        self,
        handle: int,
        queue: Queue | None,
        format_name: FormatName,
        access: QueueAccessType,
        share: QueueShareMode,
        caller: Caller,
        children: tuple[OpenQueueDescriptor, ...] = (),
    ) -> None:
        if children and (access is not QueueAccessType.SEND or queue is not None):
            raise AssertionError("a descriptor of several queues only sends and has no queue of its own")
        self.handle = handle
        self.context_value = handle
        self.queue = queue
        self.format_name = format_name
        self.text = str(format_name)
        self.access = access
        self.share = share
        self.caller = caller
        self.children = children
        self.cursors: dict[int, Cursor] = {}
        self.remote_read_state = RemoteReadState.NONE
        self.closed = False

    @property
    def multiple(self) -> bool:
        return bool(self.children)

    def live_queue(self) -> Queue:
        """The queue, or 0xC00E004B when it was deleted under the descriptor."""
        if self.queue is None:
            raise QueueNotAvailable(
                "the queue behind this handle was deleted",
                where=self.text,
                remedy="close the handle and open the queue again",
            )
        return self.queue

    def require(self, allowed: frozenset[QueueAccessType], doing: str) -> Queue:
        """The queue, if the access mode it was opened with allows the operation."""
        if self.access not in allowed:
            raise AccessDenied(
                f"cannot {doing}: the queue was opened with access {self.access.name.lower()}",
                where=self.text,
                remedy=f"open it with access {' or '.join(sorted(a.name.lower() for a in allowed))}",
            )
        return self.live_queue()


class TwoPhaseRead:
    """A message that was handed out and waits for the reader's word ([MS-MQDMPR] 3.1.7.1.11)."""

    __slots__ = ("_message", "descriptor", "handle", "position")

    def __init__(self, handle: int, descriptor: OpenQueueDescriptor, position: Position) -> None:
        self.handle = handle
        self.descriptor = descriptor
        self.position = position
        self._message: Message | None = None

    @property
    def message(self) -> Message:
        """The reader's own; while the position is locked nothing changes in what it is read from."""
        if self._message is None:
            self._message = self.position.read()
        return self._message
