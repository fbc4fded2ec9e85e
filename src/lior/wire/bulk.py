"""What bulk transfer carries: the columns of a message, and the tickets and actions around them.

Both ends agree on these names; Arrow and Spark make their types of the kinds. Unsigned 32-bit numbers are `bigint`, for
Spark has no unsigned types; a lookup id fits a signed one because its high byte is at most 7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lior.errors import InvalidParameter, Malformed

STRING, BIGINT, INT, TINYINT = "string", "bigint", "int", "tinyint"
BOOLEAN, TIMESTAMP, BINARY = "boolean", "timestamp", "binary"

COLUMNS: Final[dict[str, str]] = {
    "ordinal": BIGINT,  # null where nothing was claimed
    "queue": STRING,
    "lookup_id": BIGINT,
    "message_id": STRING,
    "label": STRING,
    "priority": TINYINT,
    "message_class": INT,
    "delivery_mode": TINYINT,
    "transactional": BOOLEAN,
    "sent_at": TIMESTAMP,
    "arrived_at": TIMESTAMP,
    "expires_at": TIMESTAMP,
    "app_tag": BIGINT,
    "correlation_id": BINARY,
    "body_type": BIGINT,
    "body_size": BIGINT,
    "body": BINARY,
    "extension": BINARY,
    "acknowledge": TINYINT,
    "journal": TINYINT,
    "time_to_reach_queue": BIGINT,  # null: without end
    "time_to_be_received": BIGINT,
    "admin_queue": STRING,
    "response_queue": STRING,
    "destination": STRING,
    "source_qm": STRING,
    "connector_type": STRING,
    "transaction_id": STRING,
    "first_in_transaction": BOOLEAN,
    "last_in_transaction": BOOLEAN,
    "authenticated": BOOLEAN,
    "hash_algorithm": INT,
    "privacy_level": INT,
    "encryption_algorithm": INT,
    "sender_id": BINARY,
    "sender_cert": BINARY,
    "signature": BINARY,
    "traced": BOOLEAN,
    "hop_count": INT,
    "abort_count": INT,
    "move_count": INT,
    "failure_reason": INT,
    "failed_destination": STRING,
    "transport": STRING,
    "soap_envelope": STRING,
    "raw": BINARY,
    "_error": STRING,
}
ON_REQUEST: Final = frozenset({"raw"})  # not among the columns that nobody named
USUAL: Final = tuple(name for name in COLUMNS if name not in ON_REQUEST)
MUST_BE_THERE: Final = frozenset({"queue", "lookup_id"})  # never null, with or without an error

# What a row that is written may say; a column with another name is refused.
WRITABLE: Final[dict[str, str]] = {
    "destination": STRING,
    "body": BINARY,
    "label": STRING,
    "priority": TINYINT,
    "delivery_mode": TINYINT,
    "transactional": BOOLEAN,
    "app_tag": BIGINT,
    "correlation_id": BINARY,
    "body_type": BIGINT,
    "extension": BINARY,
    "acknowledge": TINYINT,
    "journal": TINYINT,  # 1: keep a copy when it cannot be delivered; 2: when it was; 3: both
    "time_to_reach_queue": BIGINT,
    "time_to_be_received": BIGINT,
    "admin_queue": STRING,
    "response_queue": STRING,
    "message_class": INT,
}

JOURNAL_DEAD_LETTER: Final = 1
JOURNAL_COPY: Final = 2

# Actions that are calls of the admin API under the same name, and what each takes.
ACTIONS: Final = (
    "subscriptions", "subscribe", "claim", "plan", "release", "reject_claimed", "abandon_subscription", "publish",
    "queues", "queue",
)  # fmt: skip
DISCARD: Final = "discard"  # and one that is not: stages that nobody will publish
LONGEST_TICKET: Final = 1 << 20


def checked_columns(wanted: Sequence[str] | None) -> tuple[str, ...]:
    """In the order asked for; all the usual ones if none are named."""
    if not wanted:
        return USUAL
    for name in wanted:
        if name not in COLUMNS:
            raise InvalidParameter(f"a message has no column {name!r:.60}", where="columns",
                                   remedy=f"there are {', '.join(COLUMNS)}")
    if len(set(wanted)) != len(wanted):
        raise InvalidParameter("a column is named twice", where="columns")
    return tuple(wanted)


def encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def decode(data: bytes, where: str) -> dict[str, Any]:
    if len(data) > LONGEST_TICKET:
        raise Malformed(f"more than {LONGEST_TICKET} bytes", where=where)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"this is no JSON: {error}", where=where) from None
    if not isinstance(found, dict):
        raise Malformed("this is no JSON object", where=where)
    return found
