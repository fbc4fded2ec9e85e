"""Our session packets as plain values, in the form of second_session_packets.decode, and the two held together."""

from typing import Any

from lior.errors import Malformed
from lior.wire.headers import BaseHeader, SessionHeader
from lior.wire.session_packets import ConnectionParameters, EstablishConnection, InternalHeader, SessionAck
from tests.wire import second_session_packets as second

Internal = EstablishConnection | ConnectionParameters | SessionAck
KINDS: dict[str, type[Internal]] = {
    "SessionAck": SessionAck, "EstablishConnection": EstablishConnection, "ConnectionParameters": ConnectionParameters}


def put(packet: bytes, at: int, data: bytes) -> bytes:
    return packet[:at] + data + packet[at + len(data) :]


def session_values(header: SessionHeader) -> dict[str, Any]:
    return {"ack_sequence_number": header.ack_sequence_number,
            "recoverable_msg_ack_seq_number": header.recoverable_msg_ack_seq_number,
            "recoverable_msg_ack_flags": header.recoverable_msg_ack_flags,
            "user_msg_sequence_number": header.user_msg_sequence_number,
            "recoverable_msg_seq_number": header.recoverable_msg_seq_number,
            "window_size": header.window_size, "session.reserved": header.reserved}


def _headers(base: BaseHeader, internal: InternalHeader) -> dict[str, Any]:
    flags = base.flags
    return {"base.priority": flags & 7, "base.internal": flags >> 3 & 1, "base.session_header": flags >> 4 & 1,
            "base.debug": flags >> 5 & 1, "base.tracing": flags >> 8 & 1, "base.flags": flags,
            "base.reserved": base.reserved, "base.packet_size": base.packet_size,
            "base.time_to_reach_queue": base.time_to_reach_queue, "internal.reserved": internal.reserved,
            "internal.flags": internal.flags, "refused": internal.flags >> 4 & 1}


def values(packet: Internal) -> dict[str, Any]:
    out = _headers(packet.base, packet.internal)
    if isinstance(packet, SessionAck):
        return out | session_values(packet.session)
    if isinstance(packet, ConnectionParameters):
        header = packet.header
        return out | {"recoverable_ack_timeout": header.recoverable_ack_timeout, "ack_timeout": header.ack_timeout,
                      "reserved": header.reserved, "window_size": header.window_size}
    connection = packet.header
    system = connection.operating_system
    return out | {"client_guid": connection.client_guid, "server_guid": connection.server_guid,
                  "time_stamp": connection.time_stamp, "no_ping": system >> 8 & 1, "server_class": system >> 9 & 1,
                  "operating_system": system, "reserved": connection.reserved, "padding": connection.padding}


def agreed(data: bytes) -> tuple[str, dict[str, Any]]:
    """What both decoders say of an internal packet; ours writes it back."""
    kind, expected = second.decode(data)
    packet = KINDS[kind].decode(data)
    assert values(packet) == expected
    assert packet.encode() == data
    return kind, expected


def same_verdict(data: bytes) -> bool:
    """Whether this is an internal packet; the two decoders have to be of one opinion."""
    try:
        kind, expected = second.decode(data)
    except second.Refused:
        for cls in KINDS.values():
            try:
                cls.decode(data)
            except Malformed:
                continue
            raise AssertionError(f"only we take {data.hex()} for {cls.__name__}") from None
        return False
    assert values(KINDS[kind].decode(data)) == expected
    return True
