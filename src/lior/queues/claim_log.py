"""A subscription's claims in memory and as rows of the store.

An ordinal stands for one message, for ever: rows hold the messages of consecutive ordinals. Ordinals begin at 1 and
have no gaps. The reader is done with everything up to `released`; up to `gone` it is gone from its queue.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import accumulate, compress
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from uuid import UUID

from lior.errors import InvalidParameter
from lior.queues.change import Reply
from lior.queues.ports import PutState

if TYPE_CHECKING:
    from lior.queues.releasing import Window

SUBSCRIPTION: Final = "subscription"  # the kind under which the store keeps what a subscription is
CLAIMS: Final = "claims"  # and that of the rows of its claims
ROW: Final = 4096  # claims in one row
MOST_ROWS_CLAIMED: Final = 1_000_000  # by default
MOST_BYTES_CLAIMED: Final = 4 << 30
_BOUNDS: Final = {  # of what a subscription's maker may choose
    "max_rows": (1, 10 * MOST_ROWS_CLAIMED), "max_bytes": (1, 1 << 40), "claim_timeout": (0.0, 10 * 366 * 86400.0),
    "store_express": (False, True),
}  # fmt: skip

_HEAD: Final = Struct("<QI")  # the first ordinal, how many
_REJECTED: Final = 0  # in place of a queue id: the message was moved away


def check_options(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in _BOUNDS:
            raise InvalidParameter(f"a subscription has no option {name!r:.60}", where="options",
                                   remedy=f"there are {', '.join(_BOUNDS)}")
        low, high = _BOUNDS[name]
        kinds = {bool} if name == "store_express" else {int, float} if name == "claim_timeout" else {int}
        if type(value) not in kinds or not low <= value <= high:
            raise InvalidParameter(f"{value!r:.60} is no {name}", where="options", remedy=f"use {low} to {high}")


class Claim(NamedTuple):
    ordinal: int
    queue_id: int
    lookup_id: int
    size: int


@dataclass(slots=True)
class Definition:
    """What is stored of a subscription besides its claims."""

    name: str
    epoch: str  # a UUID: who knows it may claim, fetch and release
    queues: list[int]
    last: int = 0  # the highest ordinal given
    released: int = 0
    gone: int = -1  # at most `released`; what lies between goes in steps. -1 in what older versions wrote: the same
    max_rows: int = MOST_ROWS_CLAIMED
    max_bytes: int = MOST_BYTES_CLAIMED
    claim_timeout: float = 0.0  # seconds after which claims are given back; 0: never
    store_express: bool = True  # claiming an express message stores it; else it is left to others
    created: float = 0.0
    touched: float = 0.0  # when somebody last claimed, fetched or released

    def __post_init__(self) -> None:
        if self.gone < 0:
            self.gone = self.released

    def record(self, **changed: Any) -> PutState:
        """With what will have `changed` when it is on disk."""
        return PutState(SUBSCRIPTION, self.name.casefold(), json.dumps(asdict(self) | changed).encode())

    @classmethod
    def from_bytes(cls, value: bytes) -> Self:
        known = {name: each for name, each in json.loads(value).items() if name in cls.__dataclass_fields__}
        return cls(**known)


class Part(NamedTuple):
    """Claims that are there, beside each other."""

    ordinals: list[int]
    queue_ids: list[int]
    lookup_ids: list[int]
    ends: list[int]  # bytes up to each and with it

    def cut(self, at: int, rows: int, size: int) -> int:
        """Where a batch from `at` on ends that has at most so many rows, and bytes, but one row at least."""
        before = self.ends[at - 1] if at else 0
        return max(at + 1, min(at + rows, bisect_right(self.ends, before + size)))


class Row:
    """Consecutive ordinals. Rejected ones stay as gaps, so that the others keep theirs."""

    __slots__ = ("first", "lookup_ids", "queue_ids", "sizes")

    def __init__(self, first: int) -> None:
        self.first = first
        self.queue_ids: array[int] = array("Q")
        self.lookup_ids: array[int] = array("Q")
        self.sizes: array[int] = array("I")

    @property
    def last(self) -> int:
        return self.first + len(self.queue_ids) - 1

    def append(self, queue_id: int, lookup_id: int, size: int) -> None:
        self.queue_ids.append(queue_id)
        self.lookup_ids.append(lookup_id)
        self.sizes.append(size)

    def claims(self, low: int, high: int) -> Iterator[Claim]:
        """Those with ordinals from `low` to `high` that are there."""
        for at in range(max(low - self.first, 0), min(high - self.first + 1, len(self.queue_ids))):
            if self.queue_ids[at] != _REJECTED:
                yield Claim(self.first + at, self.queue_ids[at], self.lookup_ids[at], self.sizes[at])

    def part(self, low: int, high: int) -> Part:
        """As `claims`, for ordinals above `low`."""
        of = slice(max(low + 1 - self.first, 0), max(high + 1 - self.first, 0))
        ordinals = list(range(self.first, self.last + 1))[of]
        queue_ids, lookup_ids, sizes = self.queue_ids[of].tolist(), self.lookup_ids[of].tolist(), self.sizes[of]
        if _REJECTED in queue_ids:
            there = [queue_id != _REJECTED for queue_id in queue_ids]
            ordinals, lookup_ids = list(compress(ordinals, there)), list(compress(lookup_ids, there))
            sizes = array("I", compress(sizes, there))
            queue_ids = list(compress(queue_ids, there))
        return Part(ordinals, queue_ids, lookup_ids, list(accumulate(sizes)))

    def drop(self, ordinal: int) -> None:
        at = ordinal - self.first
        self.queue_ids[at] = _REJECTED
        self.sizes[at] = 0

    def without(self, ordinals: Set[int]) -> Row:
        """A copy that has gaps for these."""
        copy = Row.from_bytes(self.record("").value)
        for ordinal in ordinals:
            if copy.first <= ordinal <= copy.last:
                copy.drop(ordinal)
        return copy

    def key(self, name: str) -> str:
        return f"{name.casefold()}/{self.first:020}"

    def record(self, name: str) -> PutState:
        head = _HEAD.pack(self.first, len(self.queue_ids))
        arrays = (self.queue_ids, self.lookup_ids, self.sizes)
        return PutState(CLAIMS, self.key(name), head + b"".join(each.tobytes() for each in arrays))

    @classmethod
    def from_bytes(cls, value: bytes) -> Self:
        first, count = _HEAD.unpack_from(value)
        row, at = cls(first), _HEAD.size
        for each in (row.queue_ids, row.lookup_ids, row.sizes):
            size = count * each.itemsize
            each.frombytes(value[at : at + size])
            at += size
        return row


class ClaimLog:
    """One subscription."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.rows: deque[Row] = deque()
        self.count = 0
        self.bytes = 0
        self.busy = False  # a claim, the begin of a release, a rejection or an abandonment is under way
        self.window: Window | None = None  # of a release that goes on
        self.waiting: list[Reply] = []  # for its end

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def epoch(self) -> UUID:
        return UUID(self.definition.epoch)

    def extend(self, claims: Sequence[tuple[int, int, int]]) -> list[Row]:
        """New rows for (queue, lookup id, size); not counted as claims of the log before `adopt`."""
        rows: list[Row] = []
        ordinal = self.definition.last
        for at in range(0, len(claims), ROW):
            row = Row(ordinal + at + 1)
            for claim in claims[at : at + ROW]:
                row.append(*claim)
            rows.append(row)
        return rows

    def adopt(self, row: Row) -> None:
        self.rows.append(row)
        live = [claim.size for claim in row.claims(self.definition.gone + 1, row.last)]
        self.count += len(live)
        self.bytes += sum(live)

    def left(self, count: int, size: int) -> None:
        """So many messages are gone, or given back."""
        self.count -= count
        self.bytes -= size

    def ended(self, to: int) -> None:
        """Nothing is left of the claims up to `to`."""
        self.definition.gone = to
        while self.rows and self.rows[0].last <= to:
            self.rows.popleft()

    def rejected(self, claims: Sequence[Claim]) -> None:
        """Single ones ended; the others keep their ordinals."""
        for claim in claims:
            row = self.row_of(claim.ordinal)
            if row is not None:
                row.drop(claim.ordinal)
        self.count -= len(claims)
        self.bytes -= sum(claim.size for claim in claims)

    @property
    def overdue_at(self) -> float | None:
        definition = self.definition
        if not definition.claim_timeout or not self.count or self.busy or self.window is not None:
            return None
        return definition.touched + definition.claim_timeout

    def between(self, low: int, high: int) -> Iterator[Claim]:
        """Claims with ordinals above `low`, up to `high`."""
        for row in self.rows:
            if row.first > high:
                return
            if row.last > low:
                yield from row.claims(low + 1, high)

    def row_of(self, ordinal: int) -> Row | None:
        firsts = [row.first for row in self.rows]
        at = bisect_right(firsts, ordinal) - 1
        return self.rows[at] if at >= 0 and ordinal <= self.rows[at].last else None
