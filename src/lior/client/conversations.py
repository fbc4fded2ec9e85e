"""Sessions and acknowledgements in what was captured: who talked to whom, and what was said of which message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from lior.client.capture import Captured
from lior.errors import LiorError
from lior.message import NULL_CORRELATION_ID, NULL_GUID, MessageClass, ObjectId
from lior.wire.session_packets import ConnectionParameters, EstablishConnection, SessionAck

MOST: Final = 100_000  # sessions of one capture
SESSION_ACK: Final = "session ack"


@dataclass(slots=True)
class Session:
    """Both directions between two ends. The client is who sent first, in a session that was seen from its begin."""

    client: str
    server: str
    transport: str
    began: float
    ended: float = 0.0
    client_qm: UUID | None = None
    server_qm: UUID | None = None
    window_size: int | None = None
    packets: int = 0
    messages: int = 0
    acknowledgements: int = 0
    damaged: int = 0
    bytes: int = 0
    refused: bool = False
    kinds: dict[str, int] = field(default_factory=dict)


def sessions(given: Iterable[Captured]) -> Iterator[Session]:
    """One for each pair of ends; another when they establish a connection again."""
    known: dict[frozenset[str], Session] = {}
    for each in given:
        key = frozenset((each.source, each.target))
        found = known.get(key)
        if found is None or _begins_again(found, each):
            if found is not None:
                yield known.pop(key)
            elif len(known) >= MOST:
                yield known.pop(next(iter(known)))
            transport = "mqqb" if each.packet[4:8] == b"LIOR" else "srmp"
            found = known[key] = Session(each.source, each.target, transport, each.time)
        _count(found, each)
    yield from known.values()


def _begins_again(found: Session, each: Captured) -> bool:
    """A request to establish, after an answer came to the one before."""
    asks = each.kind == "establish connection" and each.source == found.client
    return asks and "connection parameters" in found.kinds


def _count(found: Session, each: Captured) -> None:
    found.ended = max(found.ended, each.time)
    found.packets += 1
    found.bytes += len(each.packet)
    found.kinds[each.kind] = found.kinds.get(each.kind, 0) + 1
    if each.error is not None:
        found.damaged += 1
    elif each.message is not None and each.message.message_class == MessageClass.NORMAL:
        found.messages += 1
    elif each.message is not None or each.kind == SESSION_ACK:
        found.acknowledgements += 1
    try:
        if each.kind == "establish connection":
            header = EstablishConnection.decode(each.packet)
            found.client_qm = found.client_qm or _guid(header.header.client_guid)
            found.server_qm = _guid(header.header.server_guid) or found.server_qm
            found.refused = found.refused or header.refused
        elif each.kind == "connection parameters":
            parameters = ConnectionParameters.decode(each.packet)
            found.window_size = parameters.header.window_size
            found.refused = found.refused or parameters.refused
    except LiorError:
        found.damaged += 1


def _guid(value: bytes) -> UUID | None:
    found = UUID(bytes_le=value)
    return None if found == NULL_GUID else found


def acknowledgements(given: Iterable[Captured]) -> Iterator[dict[str, Any]]:
    """Session acknowledgements speak of numbers of packets; the others of a message, by its identifier."""
    for each in given:
        row: dict[str, Any] = {"captured_at": round(each.time * 1e6), "source": each.source, "target": each.target,
                               "kind": each.kind}  # fmt: skip
        message = each.message
        if each.kind == SESSION_ACK:
            try:
                session = SessionAck.decode(each.packet).session
            except LiorError as error:
                yield row | {"_error": str(error)}
                continue
            yield row | {"acknowledged": session.ack_sequence_number, "flags": session.recoverable_msg_ack_flags,
                         "recoverable": session.recoverable_msg_ack_seq_number}  # fmt: skip
        elif message is not None and message.message_class != MessageClass.NORMAL:
            of = None
            if message.correlation_id != NULL_CORRELATION_ID:
                of = str(ObjectId.from_bytes(message.correlation_id))
            yield row | {"message_id": of, "message_class": message.message_class,
                         "reason": class_name(message.message_class), "queue": message.destination_queue or None}


def class_name(number: int) -> str:
    try:
        return MessageClass(number).name
    except ValueError:
        return f"0x{number:04X}"
