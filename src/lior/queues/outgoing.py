"""Queues of messages on their way to other queue managers ([MS-MQDMPR] 3.1.1.3 to 3.1.1.5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from struct import Struct
from typing import Final
from uuid import UUID

from lior.errors import InvalidParameter
from lior.message import INFINITE, Message
from lior.names import DirectName, MulticastName, SingleName
from lior.queues.definition import QueueProperties, QueueType
from lior.queues.expiry import in_transit_end
from lior.queues.ports import SEQUENCE_MASK, PutQueue, PutState
from lior.queues.position import Position
from lior.queues.queue import ContentCache, Queue
from lior.queues.stream import OutgoingStream

INCOMING: Final = "incoming"  # the kind under which the store keeps streams from elsewhere
NOWHERE: Final = 0  # in place of a queue, in the keys of streams to queues that are not there
HISTORY: Final = 32  # connection attempts remembered for each outgoing queue

_PLACE: Final = Struct("<16sQIdIH")  # of a stream: its five numbers, and the length of the first of two names


class OutgoingState(Enum):
    CONNECTED = "CONNECTED"
    DISCONNECTED = "DISCONNECTED"
    DISCONNECTING = "DISCONNECTING"
    INACTIVE = "INACTIVE"
    LOCKED = "LOCKED"
    NEED_VALIDATION = "NEED VALIDATION"
    WAITING = "WAITING"
    ON_HOLD = "ONHOLD"


S = OutgoingState
# The changes of state that the data model and the transfer protocols ask for; others are defects.
TRANSITIONS: Final[dict[OutgoingState, frozenset[OutgoingState]]] = {
    S.INACTIVE: frozenset({S.WAITING, S.NEED_VALIDATION, S.CONNECTED, S.DISCONNECTED, S.ON_HOLD, S.LOCKED}),
    S.WAITING: frozenset({S.INACTIVE, S.NEED_VALIDATION, S.CONNECTED, S.DISCONNECTED, S.ON_HOLD, S.LOCKED}),
    S.NEED_VALIDATION: frozenset({S.WAITING, S.INACTIVE, S.CONNECTED, S.DISCONNECTED, S.ON_HOLD, S.LOCKED}),
    S.CONNECTED: frozenset({S.DISCONNECTING, S.DISCONNECTED, S.INACTIVE, S.WAITING, S.ON_HOLD, S.LOCKED}),
    S.DISCONNECTING: frozenset({S.DISCONNECTED, S.INACTIVE, S.WAITING, S.ON_HOLD, S.LOCKED}),
    S.DISCONNECTED: frozenset({S.INACTIVE, S.WAITING, S.NEED_VALIDATION, S.CONNECTED, S.ON_HOLD, S.LOCKED}),
    S.ON_HOLD: frozenset({S.INACTIVE, S.LOCKED}),
    S.LOCKED: frozenset({S.WAITING}),
}


class ConnectionStatus(IntEnum):
    """[MS-MQMQ] 2.3.12.25"""

    IN_PROGRESS = 0x00000000
    ESTABLISH_PACKET_RECEIVED = 0x00000001
    READY = 0x00000002
    UNKNOWN_FAILURE = 0x80000000
    PING_FAILURE = 0x80000001
    CREATE_SOCKET_FAILURE = 0x80000002
    BIND_SOCKET_FAILURE = 0x80000003
    CONNECT_SOCKET_FAILURE = 0x80000004
    TCP_NOT_ENABLED = 0x80000005
    SEND_FAILURE = 0x80000006
    NOT_READY_FAILURE = 0x80000007
    DNS_FAILURE = 0x80000008
    COULD_NOT_VALIDATE_SERVER_CERTIFICATE = 0x80000009
    CONNECTION_LIMIT = 0x8000000A
    CONNECTION_REFUSED = 0x8000000B
    NO_DIRECTORY_SERVER = 0x8000000C
    LOW_MEMORY = 0x8000000D


@dataclass(slots=True, frozen=True)
class ConnectionHistoryEntry:
    status: ConnectionStatus
    time: float
    error: int = 0
    addresses: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class SequenceInfo:
    """SEQUENCE_INFO ([MS-MQMQ] 2.2.5)"""

    sequence_id: int = 0
    sequence_number: int = 0
    previous_number: int = 0


@dataclass(slots=True)
class OutgoingTransferInfo:
    """Where the exactly-once stream stands ([MS-MQDMPR] 3.1.1.4)."""

    eod_first_non_ack: SequenceInfo = field(default_factory=SequenceInfo)
    eod_last_ack: SequenceInfo = field(default_factory=SequenceInfo)
    eod_last_non_ack: SequenceInfo = field(default_factory=SequenceInfo)
    eod_next_seq: SequenceInfo = field(default_factory=SequenceInfo)
    eod_last_ack_count: int = 0
    eod_no_ack_count: int = 0
    eod_no_read_count: int = 0
    eod_resend_count: int = 0
    eod_resend_interval: int = 0  # seconds
    eod_resend_time: float = 0.0
    eod_last_ack_time: float = 0.0


@dataclass(slots=True)
class IncomingTransactionalTransferInfo:
    """Where a sender's stream into one of our queues stands ([MS-MQDMPR] 3.1.1.5).

    Changes to it belong into the same change as the message they speak of (DM-027).
    """

    format_name: str
    sender: UUID
    sequence_id: int = 0
    last_sequence_number: int = 0
    last_access_time: float = 0.0
    reject_count: int = 0
    acknowledge_to: str = ""  # format name of the order queue that acknowledgements go to
    tracking: object = field(default=None, repr=False, compare=False)  # IncomingStreams'

    def key(self, queue_id: int) -> str:
        return f"{queue_id}/{self.sender}/{self.format_name.casefold()}"

    def record(self, queue_id: int) -> PutState:
        """For the change that holds the message of `last_sequence_number`."""
        return PutState(INCOMING, self.key(queue_id), self.to_bytes())

    def to_bytes(self) -> bytes:
        name = self.format_name.encode()
        return b"".join(
            (
                _PLACE.pack(
                    self.sender.bytes_le,
                    self.sequence_id,
                    self.last_sequence_number,
                    self.last_access_time,
                    self.reject_count & INFINITE,
                    len(name),
                ),
                name,
                self.acknowledge_to.encode(),
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> IncomingTransactionalTransferInfo:
        sender, sequence_id, number, time, rejections, length = _PLACE.unpack_from(data)
        names = data[_PLACE.size :]
        name, acknowledge_to = names[:length].decode(), names[length:].decode()
        return cls(name, UUID(bytes_le=sender), sequence_id, number, time, rejections, acknowledge_to)


class OutgoingQueue(Queue):
    """Messages for one distinct destination format name."""

    def __init__(
        self,
        queue_id: int,
        destination: SingleName,
        *,
        identifier: UUID,
        hardened: bool = False,
        state: OutgoingState | None = None,
        create_time: int = 0,
        cache: ContentCache | None = None,
    ) -> None:
        properties = QueueProperties(label=str(destination)[:124])
        super().__init__(
            queue_id,
            QueueType.OUTGOING,
            str(destination),
            properties,
            identifier=identifier,
            create_time=create_time,
            cache=cache,
        )
        self.destination = destination
        self.multicast = isinstance(destination, MulticastName)
        self.next_hops: tuple[str, ...] = ()
        self.connection_history: deque[ConnectionHistoryEntry] = deque(maxlen=HISTORY)
        self.transfer_info = OutgoingTransferInfo()
        self.state = state or OutgoingState.INACTIVE
        self._after_lock = OutgoingState.WAITING
        self.follow_hardened_security(hardened)
        self.awaited = False  # whoever sends looks at it anyway: no need to be told of each message
        self.stream: OutgoingStream | None = None  # of messages that are sent exactly once, if there are any

    def lock(self, position: Position, owner: object) -> None:
        super().lock(position, owner)
        if self.stream is not None:
            self.stream.learn(position)

    def delete(self, position: Position) -> None:
        super().delete(position)
        if self.stream is not None:
            self.stream.forget(position)

    def delete_all(self, positions: Sequence[Position]) -> None:
        super().delete_all(positions)
        if self.stream is not None:
            self.stream.forget_all(positions)

    def must_outlast(self, position: Position) -> bool:
        """The first message of a stream over HTTP, with others behind it: no receiver takes those without it, so it is
        sent though its time is over, and expires there ([MC-MQSRM] 3.1.7.2.1; docs/spec-notes.md, SR-185)."""
        transaction = position.message.transaction
        if transaction is None or transaction.sequence_number != 1 or not self.is_http:
            return False
        counts = {} if self.stream is None else self.stream.counts
        behind = counts.get(transaction.sequence_identifier, 0) > 1
        return behind or self.available.after(position.lookup_id) is not None

    @property
    def is_http(self) -> bool:
        return isinstance(self.destination, DirectName) and self.destination.is_http

    @property
    def transactional(self) -> bool:
        return False  # takes both kinds; the destination decides

    def end_of(self, message: Message) -> int:
        return in_transit_end(message)

    @property
    def active(self) -> bool:
        return bool(self.descriptors) or self.message_count > 0

    def definition(self) -> PutQueue:
        data = {"identifier": str(self.identifier), "destination": self.name, "create_time": self.create_time}
        state = self._after_lock if self.state is OutgoingState.LOCKED else self.state
        data["on_hold"] = state is OutgoingState.ON_HOLD
        return PutQueue(self.queue_id, self.kind.value, self.name, data)

    def change_state(self, state: OutgoingState) -> bool:
        """False if it is in that state already."""
        if state is self.state:
            return False
        if state not in TRANSITIONS[self.state]:
            raise InvalidParameter(
                f"an outgoing queue cannot go from {self.state.value} to {state.value}",
                where=self.name,
                remedy="resume it first" if self.state is OutgoingState.ON_HOLD else "",
            )
        self.state = state
        return True

    def follow_hardened_security(self, hardened: bool) -> None:
        """[MS-MQDMPR] 3.1.3: lock or unlock by the queue manager's mode. A pause outlasts the lock."""
        locked = self.state is OutgoingState.LOCKED
        if locked and not hardened:
            self.state = self._after_lock
        elif hardened and not locked and not self.is_http:
            paused = self.state is OutgoingState.ON_HOLD
            self._after_lock = OutgoingState.ON_HOLD if paused else OutgoingState.WAITING
            self.state = OutgoingState.LOCKED

    def record_connection(self, entry: ConnectionHistoryEntry) -> None:
        self.connection_history.append(entry)

    @property
    def may_transmit(self) -> bool:
        return self.state not in (OutgoingState.ON_HOLD, OutgoingState.LOCKED)

    def head_priority(self) -> int | None:
        """Priority of the first message that waits, from its lookup id."""
        head = self.available.first()
        return None if head is None else 7 - (head >> 56)


def dispatch_order(queues: Iterable[OutgoingQueue], connection_active: bool) -> list[OutgoingQueue]:
    """The outgoing queues that have something to send, most urgent first.

    [MS-MQDMPR] 3.1.7.1.28 keeps an entry for each message, ordered by base priority + priority; the head of
    a queue is its most urgent message, so ordering the queues by their heads gives the same order. Its rule
    of one message in progress for the whole queue manager is an order, not a limit: see docs/spec-notes.md.
    """
    if not connection_active:
        return []
    waiting = [q for q in queues if q.may_transmit and q.head_priority() is not None]
    return sorted(waiting, key=_urgency, reverse=True)


def _urgency(queue: OutgoingQueue) -> tuple[int, int]:
    head, priority = queue.available.first(), queue.head_priority()
    assert head is not None and priority is not None
    return queue.properties.base_priority + priority, -(head & SEQUENCE_MASK)
