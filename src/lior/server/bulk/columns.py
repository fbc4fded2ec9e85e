"""Rows of the store as Arrow batches, and Arrow batches as messages to send. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from lior.errors import InvalidParameter, LiorError
from lior.message import (
    INFINITE,
    NULL_CORRELATION_ID,
    NULL_GUID,
    Message,
    MessageSecurity,
    MessageTransaction,
    ObjectId,
)
from lior.names import parse_format_name
from lior.server.bulk.rows import StoredRow
from lior.store.record import decode
from lior.store.stages import Staged
from lior.wire import bulk
from lior.wire.user_message import rejoin

TYPES: Final[dict[str, pa.DataType]] = {
    bulk.STRING: pa.string(),
    bulk.BIGINT: pa.int64(),
    bulk.INT: pa.int32(),
    bulk.TINYINT: pa.int8(),
    bulk.BOOLEAN: pa.bool_(),
    bulk.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    bulk.BINARY: pa.binary(),
}
_NO_SECURITY: Final = MessageSecurity()
_NO_TRANSACTION: Final = MessageTransaction()
Getter = Callable[[StoredRow, Message], Any]


def schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(name, TYPES[bulk.COLUMNS[name]]) for name in columns])


def _moment(seconds: float) -> int | None:
    """Microseconds; a time that is not known is null."""
    return round(seconds * 1e6) if seconds else None


def _guid(value: UUID | None) -> str | None:
    return None if value is None or value == NULL_GUID else str(value)


def _finite(value: int) -> int | None:
    return None if value == INFINITE else value


def _transaction_id(message: Message) -> str | None:
    transaction = message.transaction
    if transaction is None:
        return None
    if transaction.index:
        return str(ObjectId(message.source_queue_manager, transaction.index))
    return _guid(transaction.transaction_identifier)


def _raw(row: StoredRow, message: Message) -> bytes | None:
    if not message.packet:
        return None
    try:
        return rejoin(message.packet, message.body)
    except LiorError:
        return message.packet


def _transport(row: StoredRow, message: Message) -> str:
    return "srmp" if message.soap is not None else "mqqb" if message.packet else "local"


def _text(value: str) -> str:
    """Labels come from UTF-16 and may hold halves of pairs, which no column of text can."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


_OF_ROW: Final[dict[str, Callable[[StoredRow], Any]]] = {
    "ordinal": lambda row: row.ordinal,
    "queue": lambda row: row.queue,
    "lookup_id": lambda row: row.lookup_id,
    "arrived_at": lambda row: _moment(row.arrival_time),
    "expires_at": lambda row: row.expires * 1_000_000 or None,
    "body_size": lambda row: len(row.body),
    "body": lambda row: row.body,
    "abort_count": lambda row: row.abort_count,
    "move_count": lambda row: row.move_count,
}


def _security(name: str) -> Getter:
    return lambda row, message: getattr(message.security or _NO_SECURITY, name)


_OF_MESSAGE: Final[dict[str, Getter]] = {
    "message_id": lambda row, m: None if m.identifier is None else str(m.identifier),
    "label": lambda row, m: _text(m.label),
    "priority": lambda row, m: m.priority,
    "message_class": lambda row, m: m.message_class,
    "delivery_mode": lambda row, m: m.delivery_guarantee,
    "transactional": lambda row, m: m.transaction is not None,
    "sent_at": lambda row, m: _moment(m.sent_time),
    "app_tag": lambda row, m: m.application_tag,
    "correlation_id": lambda row, m: None if m.correlation_id == NULL_CORRELATION_ID else m.correlation_id,
    "body_type": lambda row, m: m.body_type,
    "extension": lambda row, m: m.extension or None,
    "acknowledge": lambda row, m: m.acknowledgements_requested,
    "journal": lambda row, m: (bulk.JOURNAL_DEAD_LETTER if m.negative_journaling_requested else 0)
    | (bulk.JOURNAL_COPY if m.positive_journaling_requested else 0),
    "time_to_reach_queue": lambda row, m: _finite(m.time_to_reach_queue),
    "time_to_be_received": lambda row, m: _finite(m.time_to_be_received),
    "admin_queue": lambda row, m: m.administration_queue or None,
    "response_queue": lambda row, m: m.response_queue or None,
    "destination": lambda row, m: m.destination_multi_queue or m.destination_queue or None,
    "source_qm": lambda row, m: _guid(m.source_queue_manager),
    "connector_type": lambda row, m: _guid(m.connector_type),
    "transaction_id": lambda row, m: _transaction_id(m),
    "first_in_transaction": lambda row, m: (m.transaction or _NO_TRANSACTION).first_in_transaction,
    "last_in_transaction": lambda row, m: (m.transaction or _NO_TRANSACTION).last_in_transaction,
    "authenticated": lambda row, m: m.security is not None and m.security.authentication_level != 0,
    "hash_algorithm": lambda row, m: m.security.hash_algorithm if m.security and m.security.signature else None,
    "privacy_level": _security("privacy_level"),
    "encryption_algorithm": lambda row, m: m.security.encryption_algorithm if m.security and m.is_encrypted else None,
    "sender_id": lambda row, m: (m.security or _NO_SECURITY).sender_identifier or None,
    "sender_cert": lambda row, m: (m.security or _NO_SECURITY).sender_certificate or None,
    "signature": lambda row, m: (m.security or _NO_SECURITY).signature or None,
    "traced": lambda row, m: m.tracing_requested,
    "hop_count": lambda row, m: m.hop_count,
    "failure_reason": lambda row, m: m.failure_reason or None,
    "failed_destination": lambda row, m: m.failed_destination or None,
    "transport": _transport,
    "soap_envelope": lambda row, m: None if m.soap is None else _text(m.soap.envelope),
    "raw": _raw,
}


def batch_of(rows: Sequence[StoredRow], columns: Sequence[str]) -> pa.RecordBatch:
    """A row whose record is damaged has what the store knows of it, and says why in `_error`."""
    decoded: list[Message | None] = []
    errors: list[str | None] = []
    if set(columns) - set(_OF_ROW):
        for row in rows:
            try:
                decoded.append(decode(row.header, row.body))
                errors.append(None)
            except LiorError as error:
                decoded.append(None)
                errors.append(str(error))
    return pa.record_batch([_array(name, rows, decoded, errors) for name in columns], schema=schema(columns))


def _array(name: str, rows: Sequence[StoredRow], decoded: list[Message | None], errors: list[str | None]) -> pa.Array:
    kind = TYPES[bulk.COLUMNS[name]]
    if name == "_error":
        return pa.array(errors, kind)
    of_row = _OF_ROW.get(name)
    if of_row is not None:
        return pa.array(list(map(of_row, rows)), kind)
    get = _OF_MESSAGE[name]
    return pa.array([None if m is None else get(row, m) for row, m in zip(rows, decoded, strict=True)], kind)


# The other way


def messages_of(batch: pa.RecordBatch, defaults: dict[str, Any]) -> Iterator[Staged]:
    """A message for each row: its columns, then `defaults`, then what a message has by itself."""
    names = batch.schema.names
    for name in (*names, *defaults):
        if name not in bulk.WRITABLE:
            raise InvalidParameter(f"a message to send has no column {name!r:.60}", where="columns",
                                   remedy=f"select some of {', '.join(bulk.WRITABLE)}")
    if "body" not in names:
        raise InvalidParameter("there is no column body", where="columns", remedy="select one as body")
    columns = {name: _values(batch, name) for name in names}
    given = {name: repeat(value) for name, value in defaults.items() if value is not None and name not in columns}
    every = {**columns, **given}
    for values in zip(*every.values(), strict=False):
        said = {name: value for name, value in zip(every, values, strict=True) if value is not None}
        for name, value in defaults.items():
            if value is not None:
                said.setdefault(name, value)
        yield _staged(said)


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    column = batch.column(name)
    wanted = TYPES[bulk.WRITABLE[name]]
    try:
        if name == "body" and pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        return column.cast(wanted).to_pylist()  # type: ignore[no-any-return]
    except pa.ArrowInvalid as error:
        raise InvalidParameter(f"{error}"[:200], where=name, remedy=f"the column has the type {wanted}") from None
    except pa.ArrowNotImplementedError:
        raise InvalidParameter(f"{column.type} instead of {wanted}", where=name, remedy="cast the column") from None


_DIRECT: Final = {
    "label": "label", "priority": "priority", "app_tag": "application_tag", "correlation_id": "correlation_id",
    "body_type": "body_type", "extension": "extension", "acknowledge": "acknowledgements_requested",
    "time_to_reach_queue": "time_to_reach_queue", "time_to_be_received": "time_to_be_received",
    "admin_queue": "administration_queue", "response_queue": "response_queue", "message_class": "message_class",
}  # fmt: skip


def _staged(said: dict[str, Any]) -> Staged:
    destination = said.get("destination")
    if not destination:
        raise InvalidParameter("a message without a destination", where="destination",
                               remedy="give the option queue, or a column destination")
    message = Message(said.get("body", b""), delivery_guarantee=1, negative_journaling_requested=True)
    for name, attribute in _DIRECT.items():
        if name in said:
            setattr(message, attribute, said[name])
    if "delivery_mode" in said:
        message.delivery_guarantee = said["delivery_mode"]
    if "journal" in said:
        message.negative_journaling_requested = bool(said["journal"] & bulk.JOURNAL_DEAD_LETTER)
        message.positive_journaling_requested = bool(said["journal"] & bulk.JOURNAL_COPY)
    _check(message)
    return Staged(format_name_of(destination), message, bool(said.get("transactional", False)))


def _check(message: Message) -> None:
    bounds = {"priority": 7, "delivery_guarantee": 1, "application_tag": INFINITE, "body_type": INFINITE,
              "acknowledgements_requested": 15, "time_to_reach_queue": INFINITE, "time_to_be_received": INFINITE,
              "message_class": 0xFFFF}  # fmt: skip
    for name, highest in bounds.items():
        value = getattr(message, name)
        if not 0 <= value <= highest:
            raise InvalidParameter(f"{value} is out of range", where=name, remedy=f"use 0 to {highest}")
    if len(message.correlation_id) != len(NULL_CORRELATION_ID):
        raise InvalidParameter(f"a correlation id has 20 bytes, not {len(message.correlation_id)}",
                               where="correlation_id")


_names: dict[str, str] = {}


def format_name_of(text: str) -> str:
    """A format name as it is, and a path of this computer (`private$\\orders`) as the name that opens it."""
    found = _names.get(text)
    if found is None:
        if "=" in text:
            parse_format_name(text)
            found = text
        else:
            found = "DIRECT=OS:.\\" + text.replace("/", "\\").removeprefix(".\\")
            parse_format_name(found)
        if len(_names) > 10_000:
            _names.clear()
        _names[text] = found
    return found
