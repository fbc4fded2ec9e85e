"""What bulk transfer says of a message in each of its columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple
from uuid import UUID

from lior.errors import LiorError
from lior.message import (
    INFINITE,
    NULL_CORRELATION_ID,
    NULL_GUID,
    Message,
    MessageSecurity,
    MessageTransaction,
    ObjectId,
)
from lior.wire import bulk
from lior.wire.user_message import rejoin

_NO_SECURITY: Final = MessageSecurity()
_NO_TRANSACTION: Final = MessageTransaction()


class StoredRow(NamedTuple):
    ordinal: int | None
    queue: str
    lookup_id: int
    size: int
    expires: int
    arrival_time: float
    abort_count: int
    move_count: int
    header: bytes
    body: bytes


Getter = Callable[[StoredRow, Message], Any]


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
    over_http = message.soap is not None and message.soap.envelope != ""
    return "srmp" if over_http else "mqqb" if message.packet else "local"


def _text(value: str) -> str:
    """Labels come from UTF-16 and may hold halves of pairs, which no column of text can."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


OF_ROW: Final[dict[str, Callable[[StoredRow], Any]]] = {
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


OF_MESSAGE: Final[dict[str, Getter]] = {
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
