"""Rows of the record of fates, packed: a few bytes each, and nothing to build an index of. Who looks for a message
searches the bytes, and unpacks only the rows that are its own.

    chunk = size of the rows in bytes (4 bytes), the rows, the tail
    row   = number of the identifier (I), lineage (H), lookup id (Q), time (d), reason (I), queue (H), kind (B);
            lineage and queue are places in lists of the tail
    tail  = JSON: "lineages" (hex), "queues" ([name, kind]), and by the offset of a row, where it has one: "labels",
            "details", "correlations" (hex)
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple
from uuid import UUID

from lior.errors import StoreCorrupt
from lior.message import NULL_CORRELATION_ID, ObjectId

ROW: Final = Struct("<IHQdIHB")
CHUNK_ROWS: Final = 8192
_TIME: Final = 3  # place of the time in a row
_KEY: Final = Struct("<IH")  # how a row begins
_HEAD: Final = Struct("<I")


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
class Rows:
    """Packed rows with what they refer to; texts by the offset of their row."""

    data: bytes = b""
    lineages: list[UUID] = field(default_factory=list)
    queues: list[tuple[str, str]] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    details: dict[int, str] = field(default_factory=dict)
    correlations: dict[int, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.data) // ROW.size

    @property
    def last(self) -> float:
        """The time of the newest row."""
        return float(ROW.unpack_from(self.data, len(self.data) - ROW.size)[_TIME]) if self.data else 0.0


def pack(rows: Rows) -> bytes:
    tail = {
        "lineages": [guid.hex for guid in rows.lineages],
        "queues": rows.queues,
        "labels": rows.labels,
        "details": rows.details,
        "correlations": {at: c.hex() for at, c in rows.correlations.items() if c != NULL_CORRELATION_ID},
    }
    return b"".join((_HEAD.pack(len(rows.data)), rows.data, json.dumps(tail, separators=(",", ":")).encode()))


class Chunk:
    """A packed chunk, to look into. Rows are named by their offset."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        try:
            (size,) = _HEAD.unpack_from(data)
        except StructError as error:
            raise StoreCorrupt("a chunk of the record without its head", where="fates.db") from error
        self._tail_at = _HEAD.size + size

    @property
    def rows(self) -> bytes:
        return self._data[_HEAD.size : self._tail_at]

    @property
    def offsets(self) -> range:
        return range(0, self._tail_at - _HEAD.size, ROW.size)

    @cached_property
    def _tail(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._data[self._tail_at :])
        return found

    def _holds(self, text: str) -> bool:
        """Whether the tail may name this: tells most chunks apart without parsing."""
        return self._data.find(json.dumps(text).encode(), self._tail_at) >= 0

    def _of(self, identifier: ObjectId) -> Iterator[int]:
        lineage = identifier.lineage.hex
        if not self._holds(lineage) or lineage not in self._tail["lineages"]:
            return
        needle = _KEY.pack(identifier.uniquifier, self._tail["lineages"].index(lineage))
        at = self._data.find(needle, _HEAD.size, self._tail_at)
        while at >= 0:
            if not (at - _HEAD.size) % ROW.size:
                yield at - _HEAD.size
            at = self._data.find(needle, at + 1, self._tail_at)

    def about(self, identifier: ObjectId) -> list[int]:
        """The rows of a message, and of those that answer it: their correlation id is its identifier."""
        found = set(self._of(identifier))
        found.update(self.correlated(identifier.to_bytes()))
        return sorted(found)

    def correlated(self, correlation_id: bytes) -> list[int]:
        return self._with("correlations", correlation_id.hex())

    def labelled(self, label: str) -> list[int]:
        return self._with("labels", label)

    def _with(self, column: str, text: str) -> list[int]:
        if not self._holds(text):
            return []
        return [int(at) for at, known in self._tail[column].items() if known == text]

    def row(self, at: int) -> FateRow:
        number, lineage, lookup_id, time, reason, queue, kind = ROW.unpack_from(self._data, _HEAD.size + at)
        tail, key = self._tail, str(at)
        name, queue_kind = tail["queues"][queue]
        correlation = tail["correlations"].get(key)
        return FateRow(
            kind, time, name, queue_kind, ObjectId(UUID(tail["lineages"][lineage]), number), lookup_id, reason,
            tail["labels"].get(key, ""), NULL_CORRELATION_ID if correlation is None else bytes.fromhex(correlation),
            tail["details"].get(key, ""),
        )  # fmt: skip

    def unpacked(self) -> Rows:
        """All of it, to be joined with others."""
        tail = self._tail
        return Rows(
            self.rows,
            [UUID(lineage) for lineage in tail["lineages"]],
            [(name, kind) for name, kind in tail["queues"]],
            {int(at): label for at, label in tail["labels"].items()},
            {int(at): detail for at, detail in tail["details"].items()},
            {int(at): bytes.fromhex(correlation) for at, correlation in tail["correlations"].items()},
        )


def joined(parts: Sequence[Rows]) -> Rows:
    """One after the other. Rows whose lists begin like those of the whole stay as they are."""
    lineages = list(dict.fromkeys(guid for part in parts for guid in part.lineages))
    queues = list(dict.fromkeys(queue for part in parts for queue in part.queues))
    whole = Rows(b"", lineages, queues)
    data: list[bytes] = []
    size = 0
    for part in parts:
        same = lineages[: len(part.lineages)] == part.lineages and queues[: len(part.queues)] == part.queues
        data.append(part.data if same else _placed_anew(part, lineages, queues))
        for name in ("labels", "details", "correlations"):
            texts = getattr(whole, name)
            texts.update((at + size, text) for at, text in getattr(part, name).items())
        size += len(part.data)
    whole.data = b"".join(data)
    return whole


def _placed_anew(part: Rows, lineages: list[UUID], queues: list[tuple[str, str]]) -> bytes:
    lineage_of = [lineages.index(guid) for guid in part.lineages]
    queue_of = [queues.index(queue) for queue in part.queues]
    return b"".join(
        ROW.pack(number, lineage_of[lineage], lookup_id, time, reason, queue_of[queue], kind)
        for number, lineage, lookup_id, time, reason, queue, kind in ROW.iter_unpack(part.data)
    )


def rows_of(given: Sequence[FateRow]) -> Rows:
    """Rows that are objects, packed."""
    lineages = list(dict.fromkeys(row.identifier.lineage for row in given))
    queues = list(dict.fromkeys((row.queue, row.queue_kind) for row in given))
    rows = Rows(b"", lineages, queues)
    data = bytearray()
    for row in given:
        for texts, text in ((rows.labels, row.label), (rows.details, row.detail)):
            if text:
                texts[len(data)] = text
        rows.correlations[len(data)] = row.correlation_id
        data += ROW.pack(
            row.identifier.uniquifier, lineages.index(row.identifier.lineage), row.lookup_id, row.time, row.reason,
            queues.index((row.queue, row.queue_kind)), row.kind,
        )  # fmt: skip
    rows.data = bytes(data)
    return rows
