"""Rows of the record of fates, packed by column: a few calls into C for thousands of rows, and nothing to build an
index of. Who looks for a message searches the bytes, and unpacks only the rows that are its own.

    chunk = rows (4 bytes), then for each row: time (d), lookup id (Q), number of the identifier (I), reason (I),
            lineage (H) and queue (H) as places in lists of the tail, kind (B); then the tail
    tail  = JSON: "lineages" (hex), "queues" ([name, kind]), "labels", and by row, where there is one, "details" and
            "correlations" (hex)
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple
from uuid import UUID

from lior.errors import StoreCorrupt
from lior.message import NULL_CORRELATION_ID, ObjectId

CHUNK_ROWS: Final = 8192
_COLUMNS: Final = "dQIIHHB"
_WIDTHS: Final = tuple(Struct("<" + code).size for code in _COLUMNS)
_ROWS: Final = Struct("<I")


class FateRow(NamedTuple):
    """One thing that happened to a message."""

    kind: int
    time: float
    queue: str
    queue_kind: str
    identifier: ObjectId
    lookup_id: int
    reason: int  # a message class
    label: str
    correlation_id: bytes
    detail: str


@dataclass(slots=True)
class FateColumns:
    """Rows as they are gathered, all of one length. `queues` are places in `names`: (name, kind)."""

    kinds: Sequence[int]
    times: Sequence[float]
    queues: Sequence[int]
    names: Sequence[tuple[str, str]]
    identifiers: Sequence[ObjectId]
    lookup_ids: Sequence[int]
    reasons: Sequence[int]
    labels: Sequence[str]
    correlation_ids: Sequence[bytes]
    details: Sequence[str]

    def __len__(self) -> int:
        return len(self.kinds)


def pack(rows: FateColumns) -> bytes:
    count = len(rows)
    parts: list[Any] = list(chain.from_iterable(rows.identifiers))
    lineages, places = _numbered(parts[0::2])
    columns = (rows.times, rows.lookup_ids, parts[1::2], rows.reasons, places, rows.queues, rows.kinds)
    correlated = rows.correlation_ids.count(NULL_CORRELATION_ID) != count
    tail = {
        "lineages": [guid.hex for guid in lineages],
        "queues": rows.names,
        "labels": list(rows.labels) if any(rows.labels) else [],
        "details": {at: text for at, text in enumerate(rows.details) if text} if any(rows.details) else {},
        "correlations": {at: c.hex() for at, c in enumerate(rows.correlation_ids) if c != NULL_CORRELATION_ID}
        if correlated
        else {},
    }
    packed = [Struct(f"<{count}{code}").pack(*column) for code, column in zip(_COLUMNS, columns, strict=True)]
    return b"".join((_ROWS.pack(count), *packed, json.dumps(tail, separators=(",", ":")).encode()))


def _numbered(guids: list[UUID]) -> tuple[list[UUID], Sequence[int]]:
    """The distinct ones, and which of them each is. By identity first: hashing a GUID runs Python code, and nearly
    all of them are one object."""
    if not guids:
        return [], []
    keys = list(map(id, guids))
    if keys.count(keys[0]) == len(keys):
        return guids[:1], bytes(len(keys))
    known = dict(zip(keys, guids, strict=True))
    distinct = list(dict.fromkeys(known.values()))
    places = {guid: place for place, guid in enumerate(distinct)}
    place_of = {key: places[guid] for key, guid in known.items()}
    return distinct, [place_of[key] for key in keys]


class Chunk:
    """A packed chunk, to look into."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        try:
            (self.count,) = _ROWS.unpack_from(data)
        except StructError as error:
            raise StoreCorrupt("a chunk of the record without its head", where="fates.db") from error
        starts = [_ROWS.size]
        for width in _WIDTHS:
            starts.append(starts[-1] + width * self.count)
        *self._starts, self._tail_at = starts

    @cached_property
    def _tail(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._data[self._tail_at :])
        return found

    def _holds(self, text: str) -> bool:
        """Whether the tail may name this: tells most chunks apart without parsing."""
        return self._data.find(json.dumps(text).encode(), self._tail_at) >= 0

    def _of(self, identifier: ObjectId) -> Iterator[int]:
        lineage = identifier.lineage.hex
        if not self._holds(lineage):
            return
        place = self._tail["lineages"].index(lineage) if lineage in self._tail["lineages"] else -1
        needle, start, end = identifier.uniquifier.to_bytes(4, "little"), self._starts[2], self._starts[3]
        at = self._data.find(needle, start, end)
        while at >= 0:
            row, odd = divmod(at - start, 4)
            if not odd and self._number(4, row) == place:
                yield row
            at = self._data.find(needle, at + 1, end)

    def about(self, identifier: ObjectId) -> list[int]:
        """The rows of a message, and of those that answer it: their correlation id is its identifier."""
        found = set(self._of(identifier))
        found.update(self.correlated(identifier.to_bytes()))
        return sorted(found)

    def correlated(self, correlation_id: bytes) -> list[int]:
        wanted = correlation_id.hex()
        if not self._holds(wanted):
            return []
        return [int(row) for row, known in self._tail["correlations"].items() if known == wanted]

    def labelled(self, label: str) -> list[int]:
        if not self._holds(label):
            return []
        return [row for row, known in enumerate(self._tail["labels"]) if known == label]

    def _number(self, column: int, row: int) -> Any:
        return Struct("<" + _COLUMNS[column]).unpack_from(self._data, self._starts[column] + _WIDTHS[column] * row)[0]

    def row(self, at: int) -> FateRow:
        time, lookup_id, number, reason, lineage, queue, kind = (self._number(c, at) for c in range(len(_COLUMNS)))
        tail = self._tail
        name, queue_kind = tail["queues"][queue]
        correlation = tail["correlations"].get(str(at))
        return FateRow(
            kind, time, name, queue_kind, ObjectId(UUID(tail["lineages"][lineage]), number), lookup_id, reason,
            tail["labels"][at] if tail["labels"] else "",
            NULL_CORRELATION_ID if correlation is None else bytes.fromhex(correlation),
            tail["details"].get(str(at), ""),
        )  # fmt: skip


def columns_of(rows: Sequence[FateRow]) -> FateColumns:
    """Rows that were unpacked, to be packed again."""
    names = list(dict.fromkeys((row.queue, row.queue_kind) for row in rows))
    places = {name: place for place, name in enumerate(names)}
    return FateColumns(
        [row.kind for row in rows],
        [row.time for row in rows],
        [places[row.queue, row.queue_kind] for row in rows],
        names,
        [row.identifier for row in rows],
        [row.lookup_id for row in rows],
        [row.reason for row in rows],
        [row.label for row in rows],
        [row.correlation_id for row in rows],
        [row.detail for row in rows],
    )
