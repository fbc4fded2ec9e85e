"""Rows of the store as Arrow batches. Needs pyarrow.

Columns of the table are taken as they are. Those of the header come from groups of headers that have the same fields
(store/headers.py): no message is made of a row unless its fields are rare ones, or damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from lior.errors import LiorError
from lior.message import INFINITE, NULL_CORRELATION_ID, NULL_GUID, Message
from lior.store.headers import NUMBER, Group, grouped
from lior.store.record import checksum, decode, decode_header
from lior.wire import bulk
from lior.wire.bulk_rows import OF_MESSAGE, OF_ROW, StoredRow

TYPES: Final[dict[str, pa.DataType]] = {
    bulk.STRING: pa.string(),
    bulk.BIGINT: pa.int64(),
    bulk.INT: pa.int32(),
    bulk.TINYINT: pa.int8(),
    bulk.BOOLEAN: pa.bool_(),
    bulk.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    bulk.BINARY: pa.binary(),
}



_DEFAULTS: Final = Message()
_NUMBERS: Final = {  # column: tag of store/record.py, attribute of a message
    "message_class": (6, "message_class"), "priority": (7, "priority"), "delivery_mode": (8, "delivery_guarantee"),
    "app_tag": (4, "application_tag"), "body_type": (2, "body_type"), "acknowledge": (9, "acknowledgements_requested"),
    "hop_count": (23, "hop_count"),
}  # fmt: skip
_TEXTS: Final = {"admin_queue": (14,), "response_queue": (15,), "destination": (17, 16), "failed_destination": (29,)}
_SOURCE, _SECURITY, _TRANSACTION, _SOAP, _PACKET = 40, 25, 26, 27, 30
_OF_TRANSACTION: Final = _TRANSACTION << 8
# Columns that want a whole message where it has one of these fields, and are null or false or the like where not.
_RARE: Final = {
    **dict.fromkeys(("authenticated", "hash_algorithm", "privacy_level", "encryption_algorithm", "sender_id",
                     "sender_cert", "signature"), _SECURITY),
    "soap_envelope": _SOAP, "raw": _PACKET,
}  # fmt: skip
OF_BODY: Final = frozenset({"body", "raw", "_error"})  # who wants none of them needs no body


class Chunk(NamedTuple):
    """Rows of the store that become a batch."""

    ordinals: Sequence[int] | None
    queues: Sequence[tuple[str, int]]  # runs: of so many rows
    rows: Sequence[tuple[Any, ...]]  # l, n, e, t, a, v, hdr, and body, or its length if nobody wants it
    with_bodies: bool

    def __len__(self) -> int:
        return len(self.rows)


def schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(name, TYPES[bulk.COLUMNS[name]]) for name in columns])


def batch_of(chunk: Chunk, columns: Sequence[str]) -> pa.RecordBatch:
    """A row whose record is damaged has what the store knows of it, and says why in `_error`."""
    table = _Table(chunk)
    if set(columns) - OF_ROW.keys():
        table.look_at_headers()
    return pa.record_batch([table.column(name) for name in columns], schema=schema(columns))


class _Table:
    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        (self._lookup_ids, _, self._expires, self._arrivals, self._aborts, self._moves, self._headers,
         self._bodies) = zip(*chunk.rows, strict=True)  # fmt: skip
        self._groups: list[Group] = []
        self._messages: dict[int, Message | None] = {}  # by row; None for a damaged one
        self._errors: dict[int, str] = {}
        self._alone: list[int] = []  # rows that are in no group
        self._order: pa.Array | None = None  # where the rows are, one group behind the other

    def look_at_headers(self) -> None:
        self._groups, self._alone = grouped(self._headers)
        if self._chunk.with_bodies:
            self._groups = [intact for group in self._groups if (intact := self._intact(group)).rows]
            self._alone.sort()
        for row in self._alone:
            self._message(row)
        order = [row for group in self._groups for row in group.rows] + self._alone
        if len(self._groups) + bool(self._alone) > 1:
            places = [0] * len(order)
            for at, row in enumerate(order):
                places[row] = at
            self._order = pa.array(places, pa.int32())

    def _intact(self, group: Group) -> Group:
        headers, bodies = self._headers, self._bodies
        bad = {row for row, expected in zip(group.rows, group.checksums, strict=True)
               if checksum(headers[row], bodies[row]) != expected}  # fmt: skip
        self._alone += bad
        return group.without(bad) if bad else group

    def _message(self, row: int) -> Message | None:
        """For the few that need one."""
        if row not in self._messages:
            header, body = self._headers[row], self._bodies[row]
            try:
                self._messages[row] = decode(header, body) if self._chunk.with_bodies else decode_header(header)
            except LiorError as error:
                self._messages[row] = None
                self._errors[row] = str(error)
        return self._messages[row]

    # Columns

    def column(self, name: str) -> pa.Array:
        kind = TYPES[bulk.COLUMNS[name]]
        if name in OF_ROW:
            return self._of_row(name, kind)
        if name == "_error":
            if not self._errors:
                return pa.nulls(len(self._chunk), kind)
            return pa.array([self._errors.get(row) for row in range(len(self._chunk))], kind)
        parts = [self._of_group(name, group, kind) for group in self._groups]
        if self._alone:
            parts.append(self._decoded(name, self._alone, kind))
        whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        return whole if self._order is None else whole.take(self._order)

    def _of_row(self, name: str, kind: pa.DataType) -> pa.Array:
        chunk, count = self._chunk, len(self._chunk)
        if name == "ordinal":
            return pa.nulls(count, kind) if chunk.ordinals is None else pa.array(chunk.ordinals, kind)
        if name == "queue":
            return pa.concat_arrays([pa.repeat(pa.scalar(queue, kind), rows) for queue, rows in chunk.queues])
        if name == "arrived_at":
            return _moments(self._arrivals)
        if name == "expires_at":
            return pa.array([second * 1_000_000 or None for second in self._expires], kind)
        if name == "body_size":
            return pa.array(list(map(len, self._bodies)) if chunk.with_bodies else self._bodies, kind)
        values = {"lookup_id": self._lookup_ids, "body": self._bodies, "abort_count": self._aborts,
                  "move_count": self._moves}  # fmt: skip
        return pa.array(values[name], kind)

    def _of_group(self, name: str, group: Group, kind: pa.DataType) -> pa.Array:
        rare = _RARE.get(name)
        if rare is not None:
            if rare in group.fields:
                return self._decoded(name, group.rows, kind)
            return _constant(OF_MESSAGE[name](_NO_ROW, _DEFAULTS), len(group.rows), kind)
        return _GROUPED[name](group, kind)

    def _decoded(self, name: str, rows: Sequence[int], kind: pa.DataType) -> pa.Array:
        get = OF_MESSAGE[name]
        return pa.array([None if (m := self._message(row)) is None else get(self._stored(row), m) for row in rows],
                        kind)  # fmt: skip

    def _stored(self, row: int) -> StoredRow:
        body = self._bodies[row] if self._chunk.with_bodies else b""
        return StoredRow._make((None, "", *self._chunk.rows[row][:-1], body))


_NO_ROW: Final = StoredRow(None, "", 0, 0, 0, 0.0, 0, 0, b"", b"")


def _constant(value: Any, count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def _same(values: Sequence[Any]) -> bool:
    return values.count(values[0]) == len(values)


def _moments(seconds: Sequence[float]) -> pa.Array:
    """Microseconds; a time that is not known is null."""
    plain = pa.array(seconds, pa.float64())
    whole = pc.cast(pc.round(pc.multiply(plain, 1e6)), pa.int64())
    known = pc.if_else(pc.equal(plain, 0.0), pa.scalar(None, pa.int64()), whole)
    return known.cast(TYPES[bulk.TIMESTAMP])


def _strings(values: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    """Labels come from UTF-16 and may hold halves of pairs, which no column of text can."""
    if _same(values):
        return _constant(_text(values[0]), len(values), kind)
    try:
        return pa.array(values, pa.binary()).cast(kind)
    except pa.ArrowInvalid:
        return pa.array(list(map(_text, values)), kind)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass").encode("utf-8", "replace").decode()


@lru_cache(maxsize=4096)
def _guid(value: bytes) -> str | None:
    found = UUID(bytes=value)
    return None if found == NULL_GUID else str(found)


@lru_cache(maxsize=4096)
def _lineage(value: bytes) -> str:
    return f"{{{str(UUID(bytes=value)).upper()}}}\\"


def _number(tag: int, default: int, group: Group, kind: pa.DataType) -> pa.Array:
    values = group.fields.get(tag)
    return _constant(default, len(group.rows), kind) if values is None else pa.array(values, kind)


def _finite(tag: int, default: int, group: Group, kind: pa.DataType) -> pa.Array:
    values = group.fields.get(tag)
    if values is None or _same(values):
        value = default if values is None else values[0]
        return _constant(None if value == INFINITE else value, len(group.rows), kind)
    return pa.array([None if value == INFINITE else value for value in values], kind)


def _flag(tag: int, group: Group, kind: pa.DataType) -> pa.Array:
    values = group.fields.get(tag)
    return _constant(False, len(group.rows), kind) if values is None else pa.array(list(map(bool, values)), kind)


def _named(tags: Sequence[int], group: Group, kind: pa.DataType) -> pa.Array:
    """The first that there is; an empty one is none."""
    for tag in tags:
        values = group.fields.get(tag)
        if values is not None and values[0]:
            return _strings(values, kind)
    return pa.nulls(len(group.rows), kind)


def _guids(tag: int, group: Group, kind: pa.DataType) -> pa.Array:
    values = group.fields.get(tag)
    if values is None or _same(values):
        return _constant(None if values is None else _guid(values[0]), len(group.rows), kind)
    return pa.array(list(map(_guid, values)), kind)


def _message_id(group: Group, kind: pa.DataType) -> pa.Array:
    lineages = group.fields.get(19)
    if lineages is None:
        return pa.nulls(len(group.rows), kind)
    numbers = group.fields[NUMBER]
    if _same(lineages):
        before = _lineage(lineages[0])
        return pa.array([f"{before}{number}" for number in numbers], kind)
    return pa.array([f"{_lineage(lineage)}{number}" for lineage, number in zip(lineages, numbers, strict=True)], kind)


def _label(group: Group, kind: pa.DataType) -> pa.Array:
    values = group.fields.get(1)
    return _constant("", len(group.rows), kind) if values is None else _strings(values, kind)


def _sent_at(group: Group, kind: pa.DataType) -> pa.Array:
    values = group.fields.get(20)
    return pa.nulls(len(group.rows), kind) if values is None else _moments(values)


def _correlation_id(group: Group, kind: pa.DataType) -> pa.Array:
    values = group.fields.get(5)
    if values is None:
        return pa.nulls(len(group.rows), kind)
    return pa.array([None if value == NULL_CORRELATION_ID else value for value in values], kind)


def _extension(group: Group, kind: pa.DataType) -> pa.Array:
    values = group.fields.get(3)
    return pa.nulls(len(group.rows), kind) if values is None else pa.array([each or None for each in values], kind)


def _journal(group: Group, kind: pa.DataType) -> pa.Array:
    count = len(group.rows)
    copies = group.fields.get(10, [_DEFAULTS.positive_journaling_requested] * count)
    dead = group.fields.get(11, [_DEFAULTS.negative_journaling_requested] * count)
    return pa.array([(bulk.JOURNAL_DEAD_LETTER if one else 0) | (bulk.JOURNAL_COPY if other else 0)
                     for one, other in zip(dead, copies, strict=True)], kind)  # fmt: skip


def _failure_reason(group: Group, kind: pa.DataType) -> pa.Array:
    values = group.fields.get(28)
    return pa.nulls(len(group.rows), kind) if values is None else pa.array([each or None for each in values], kind)


def _transport(group: Group, kind: pa.DataType) -> pa.Array:
    packets = group.fields.get(_PACKET)
    value = "srmp" if _SOAP in group.fields else "mqqb" if packets is not None and packets[0] else "local"
    return _constant(value, len(group.rows), kind)


def _transactional(group: Group, kind: pa.DataType) -> pa.Array:
    return _constant(_TRANSACTION in group.fields, len(group.rows), kind)


def _transaction_id(group: Group, kind: pa.DataType) -> pa.Array:
    """By its index at its source, or the transaction's own identifier."""
    count = len(group.rows)
    if _TRANSACTION not in group.fields:
        return pa.nulls(count, kind)
    sources = group.fields.get(_SOURCE, [NULL_GUID.bytes] * count)
    indexes = group.fields.get(_OF_TRANSACTION | 5, [0] * count)
    identifiers = group.fields.get(_OF_TRANSACTION | 1, [NULL_GUID.bytes] * count)
    return pa.array([f"{_lineage(source)}{index}" if index else _guid(identifier)
                     for source, index, identifier in zip(sources, indexes, identifiers, strict=True)],
                    kind)  # fmt: skip


_GROUPED: Final[dict[str, Callable[[Group, pa.DataType], pa.Array]]] = {
    **{name: partial(_number, tag, getattr(_DEFAULTS, attribute)) for name, (tag, attribute) in _NUMBERS.items()},
    **{name: partial(_named, tags) for name, tags in _TEXTS.items()},
    "message_id": _message_id,
    "label": _label,
    "transactional": _transactional,
    "sent_at": _sent_at,
    "correlation_id": _correlation_id,
    "extension": _extension,
    "journal": _journal,
    "time_to_reach_queue": partial(_finite, 12, _DEFAULTS.time_to_reach_queue),
    "time_to_be_received": partial(_finite, 13, _DEFAULTS.time_to_be_received),
    "source_qm": partial(_guids, _SOURCE),
    "connector_type": partial(_guids, 22),
    "transaction_id": _transaction_id,
    "first_in_transaction": partial(_flag, _OF_TRANSACTION | 6),
    "last_in_transaction": partial(_flag, _OF_TRANSACTION | 7),
    "traced": partial(_flag, 21),
    "failure_reason": _failure_reason,
    "transport": _transport,
}
