"""What the queues need from outside: a store, identifiers, a coordinator (core has the clock).

A batch is a list of the operations below. The store applies a batch whole or not at all, and it is on
disk when `apply` returns; batches are applied in the order they were made.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from lior.message import Message, ObjectId

SEQUENCE_MASK: Final = (1 << 56) - 1  # the part of a lookup id that a counter gives; above it is 7 - priority
COUNTER: Final = "counter"  # kind of the state that says how far numbers are reserved
LOOKUP_IDS: Final = "lookup"  # its key for lookup ids, which the store must never find above the counter


class PutMessage(NamedTuple):
    """Insert a message. `expires` is unix seconds (ceiling), 0 for never."""

    queue_id: int
    lookup_id: int
    message: Message
    arrival_time: float
    expires: int = 0
    abort_count: int = 0
    move_count: int = 0
    last_move_time: float = 0.0


class DeleteMessage(NamedTuple):
    queue_id: int
    lookup_id: int


class DeleteMessages(NamedTuple):
    """Many of one queue."""

    queue_id: int
    lookup_ids: Sequence[int]


class MoveMessage(NamedTuple):
    """Give the message another queue or lookup id; content and arrival time stay unless given."""

    queue_id: int
    lookup_id: int
    target_queue_id: int
    target_lookup_id: int
    abort_count: int
    move_count: int
    last_move_time: float
    arrival_time: float | None = None


class SetCounts(NamedTuple):
    queue_id: int
    lookup_id: int
    abort_count: int


class PutQueue(NamedTuple):
    """Insert or replace the definition of a queue; `definition` is JSON-compatible."""

    queue_id: int
    kind: str  # "private", "system", "journal", "subqueue", "outgoing", ...
    name: str
    definition: dict[str, Any]


class DeleteQueue(NamedTuple):
    """Forget a queue and every message still in it."""

    queue_id: int


class PutState(NamedTuple):
    """One small durable value: counters, sequences, prepared transactions, settings."""

    kind: str
    key: str
    value: bytes


class DeleteState(NamedTuple):
    kind: str
    key: str


class ExpectState(NamedTuple):
    """The batch is refused unless this value is there, None for none. For a change that builds upon an earlier one
    which may have failed: then nothing of it may be stored either."""

    kind: str
    key: str
    value: bytes | None


class Packed(NamedTuple):
    """Operations as the store has prepared them already (`Store.pack`): a large change is prepared in pieces."""

    content: Any


Operation = (
    PutMessage
    | DeleteMessage
    | DeleteMessages
    | MoveMessage
    | SetCounts
    | PutQueue
    | DeleteQueue
    | PutState
    | DeleteState
    | ExpectState
    | Packed
)


class StoredMessage(NamedTuple):
    """A message as it comes back, with what its position remembers."""

    lookup_id: int
    message: Message
    arrival_time: float
    abort_count: int
    move_count: int
    last_move_time: float


class Outline(NamedTuple):
    """What the header of a stored message says of it, as far as leaving a queue asks: a fraction of the message."""

    lookup_id: int
    identifier: ObjectId | None
    label: str
    correlation_id: bytes
    source_queue_manager: UUID
    transactional: bool
    answered: bool  # it names an administration queue


class IndexEntry(NamedTuple):
    """One stored message in the index that is loaded at start."""

    queue_id: int
    lookup_id: int
    size: int
    expires: int


@dataclass(slots=True)
class LoadedState:
    """Everything a queue manager needs at start but the messages' content."""

    queues: list[PutQueue] = field(default_factory=list)
    state: dict[tuple[str, str], bytes] = field(default_factory=dict)


class Store(Protocol):
    def load(self) -> LoadedState: ...

    def load_index(self) -> Iterable[IndexEntry]:
        """Every stored message, ordered by (queue_id, lookup_id); plain tuples will do."""
        ...

    def apply(self, batch: Sequence[Operation]) -> None:
        """Make the batch durable, all of it or nothing. Raises MessageStorageFailed when there is no
        room (nothing changed, the store stays usable), StoreUnusable when durability can no longer be
        promised (the store must not be used again)."""
        ...

    def pack(self, operations: Sequence[Operation]) -> Packed:
        """Do now what there is to do for these before they are applied. Packed ones are applied in the order in which
        they were packed."""
        ...

    def fetch(self, queue_id: int, lookup_id: int) -> StoredMessage | None:
        """Read one committed message; callable from the loop thread while a commit runs in the writer."""
        ...

    def scan(self, queue_id: int, after_lookup_id: int, limit: int) -> list[StoredMessage]:
        """Up to `limit` committed messages with lookup ids above `after_lookup_id`, in order."""
        ...

    def fetch_all(self, queue_id: int, lookup_ids: Sequence[int]) -> list[StoredMessage]:
        """Those of them that are committed, in the order asked for."""
        ...

    def outlines(self, queue_id: int, lookup_ids: Sequence[int]) -> list[Outline]:
        """As `fetch_all`, without reading a body."""
        ...

    def sizes(self, queue_id: int, first: int, last: int) -> list[tuple[int, int]]:
        """Lookup ids from `first` to `last` of committed messages, with their sizes, in order."""
        ...

    def snapshot(self, path: str) -> None:
        """Write a consistent copy of the whole store to `path` while it is in use."""
        ...

    def free_bytes(self) -> int:
        """Room left on the store's disk."""
        ...

    def close(self) -> None: ...


class Ids(Protocol):
    """Where identifiers come from; made in server/runtime, seeded in tests."""

    def guid(self) -> UUID: ...


class TransactionOutcomes(Protocol):
    """Who knows the outcome of a prepared transaction after a restart ([MS-MQDMPR] 3.1.4.9-11)."""

    def outcome(self, transaction: UUID) -> bool | None:
        """True to commit, False to abort, None while it is not known."""
        ...
