"""What the queue manager tells the protocol adapters, journals of operation and metrics.

Events are sent after the commit that they speak of. A listener only observes: it must not raise and must
not call back into the queue manager before it returned.
"""

from dataclasses import dataclass
from uuid import UUID

from lior.message import Message
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue
from lior.security import Caller


@dataclass(slots=True, frozen=True)
class QueueManagerStarted:
    identifier: UUID


@dataclass(slots=True, frozen=True)
class QueueManagerStopped:
    identifier: UUID


@dataclass(slots=True, frozen=True)
class MessageAvailable:
    queue: Queue
    lookup_id: int


@dataclass(slots=True, frozen=True)
class MessageDeleted:
    """A message left its queue; `reason` is a message class ([MS-MQDMPR] 3.1.7.2.1)."""

    queue: Queue
    message: Message
    reason: int


@dataclass(slots=True, frozen=True)
class MessageAwaitsTransfer:
    """An outgoing queue has something to send ([MS-MQDMPR] 3.1.7.1.28)."""

    queue: OutgoingQueue


@dataclass(slots=True, frozen=True)
class QueueChanged:
    """Created, changed or deleted."""

    queue: Queue
    what: str


@dataclass(slots=True, frozen=True)
class OutgoingStateChanged:
    queue: OutgoingQueue
    state: str


@dataclass(slots=True, frozen=True)
class ConnectivityChanged:
    active: bool


@dataclass(slots=True, frozen=True)
class SupportChanged:
    """SrmpHttpSupport and SrmpPgmSupport, as they are now."""

    http: bool
    pgm: bool


@dataclass(slots=True, frozen=True)
class ThrottledChanged:
    throttled: bool
    why: str


@dataclass(slots=True, frozen=True)
class AccessAudited:
    """An access check was refused, or granted where the descriptor asks for an audit."""

    caller: Caller
    where: str
    wanted: int
    denied: int


@dataclass(slots=True, frozen=True)
class MessageDropped:
    """A copy or an acknowledgement could not be kept: a full journal, an unusable administration queue."""

    message: Message
    where: str
    why: str


@dataclass(slots=True, frozen=True)
class StorageFailed:
    why: str


Event = (
    QueueManagerStarted
    | QueueManagerStopped
    | MessageAvailable
    | MessageDeleted
    | MessageAwaitsTransfer
    | QueueChanged
    | OutgoingStateChanged
    | ConnectivityChanged
    | SupportChanged
    | ThrottledChanged
    | AccessAudited
    | MessageDropped
    | StorageFailed
)
