"""A second reading of the packets of a session, for comparison: from the tables of [MS-MQQB] 2.2 and [MS-MQMQ] 2.2.19.

It shares nothing with src/lior and favours obviousness over speed. What is not such a packet raises Refused.
"""

from typing import Any

from tests.wire.second_user_message import Refused, bits, require

Fields = dict[str, Any]


def number(data: bytes, at: int, size: int) -> int:
    require(at + size <= len(data), f"{size} bytes at {at}")
    return sum(octet << 8 * place for place, octet in enumerate(data[at : at + size]))


def base_header(data: bytes) -> Fields:
    """[MS-MQMQ] 2.2.19.1"""
    require(len(data) >= 16, "BaseHeader")
    require(data[0] == 0x10, "VersionNumber")
    require(data[4:8] == bytes([0x4C, 0x49, 0x4F, 0x52]), "Signature")
    flags = number(data, 2, 2)
    return {"priority": bits(flags, 0, 2), "internal": bits(flags, 3, 3), "session_header": bits(flags, 4, 4),
            "debug": bits(flags, 5, 5), "tracing": bits(flags, 8, 8), "flags": flags, "reserved": data[1],
            "packet_size": number(data, 8, 4), "time_to_reach_queue": number(data, 12, 4)}


def split(stream: bytes) -> tuple[list[bytes], bytes]:
    """Whole packets, and what is left of the stream."""
    packets = []
    while len(stream) >= 16:
        base = base_header(stream)
        size = base["packet_size"]
        require(20 <= size <= 4 * 1024 * 1024, "PacketSize")
        if base["session_header"] and not base["internal"]:
            size += 16
        if len(stream) < size:
            break
        packets.append(stream[:size])
        stream = stream[size:]
    return packets, stream


def decode(data: bytes) -> tuple[str, Fields]:
    """An internal packet: what it is, and its fields."""
    base = base_header(data)
    require(base["internal"] == 1, "IN")
    require(base["packet_size"] == len(data), "length")
    require(len(data) >= 20, "InternalHeader")
    require(base["debug"] == 0 and base["tracing"] == 0, "DH or TR")
    internal = number(data, 18, 2)
    kind = {1: "SessionAck", 2: "EstablishConnection", 3: "ConnectionParameters"}.get(bits(internal, 0, 3))
    require(kind is not None, "PT")
    fields = {f"base.{name}": value for name, value in base.items()}
    fields |= {"internal.reserved": number(data, 16, 2), "internal.flags": internal, "refused": bits(internal, 4, 4)}
    if kind == "SessionAck":
        require(len(data) == 36 and base["session_header"] == 1, "SessionAck")
        require(fields["refused"] == 0, "CS")
        return kind, fields | session_header(data[20:])
    require(base["session_header"] == 0, "SH")
    if kind == "EstablishConnection":
        return kind, fields | establish_connection(data)
    return "ConnectionParameters", fields | connection_parameters(data)


def establish_connection(data: bytes) -> Fields:
    """2.2.3.1"""
    require(len(data) == 572, "EstablishConnection")
    system = number(data, 56, 2)
    require(bits(system, 0, 7) == 0x10, "RE")
    return {"client_guid": data[20:36], "server_guid": data[36:52], "time_stamp": number(data, 52, 4),
            "no_ping": bits(system, 8, 8), "server_class": bits(system, 9, 9), "operating_system": system,
            "reserved": number(data, 58, 2), "padding": data[60:]}


def connection_parameters(data: bytes) -> Fields:
    """2.2.2.1"""
    require(len(data) == 32, "ConnectionParameters")
    recoverable, ack = number(data, 20, 4), number(data, 24, 4)
    require(500 <= recoverable <= 120000, "RecoverableAckTimeout")
    require(20000 <= ack <= 120000, "AckTimeout")
    return {"recoverable_ack_timeout": recoverable, "ack_timeout": ack, "reserved": number(data, 28, 2),
            "window_size": number(data, 30, 2)}


def session_header(data: bytes) -> Fields:
    """[MS-MQMQ] 2.2.20.4"""
    require(len(data) == 16, "SessionHeader")
    return {"ack_sequence_number": number(data, 0, 2), "recoverable_msg_ack_seq_number": number(data, 2, 2),
            "recoverable_msg_ack_flags": number(data, 4, 4), "user_msg_sequence_number": number(data, 8, 2),
            "recoverable_msg_seq_number": number(data, 10, 2), "window_size": number(data, 12, 2),
            "session.reserved": number(data, 14, 2)}


def ping(data: bytes) -> Fields:
    """2.2.7"""
    require(len(data) == 24, "length")
    require(number(data, 2, 2) == 0x5548, "Signature")
    flags = number(data, 0, 2)
    return {"not_a_server": bits(flags, 0, 0), "refused": bits(flags, 1, 1), "flags": flags,
            "cookie": number(data, 4, 4), "qm_guid": data[8:24]}


def order_ack(body: bytes) -> Fields:
    """2.2.4.1"""
    require(len(body) == 36, "length")
    require(number(body, 8, 4) >= 1, "TxSequenceNumber")
    return {"ordinal": number(body, 0, 4), "time_stamp": number(body, 4, 4), "tx_sequence_number": number(body, 8, 4),
            "tx_previous_sequence_number": number(body, 12, 4), "reserved": body[16:]}


def final_ack(body: bytes) -> Fields:
    """2.2.5.1"""
    require(len(body) == 36, "length")
    require(number(body, 8, 4) >= 1, "TxSequenceNumber")
    return {"ordinal": number(body, 0, 4), "time_stamp": number(body, 4, 4), "tx_sequence_number": number(body, 8, 4),
            "tx_previous_sequence_number": number(body, 12, 4), "source_guid": body[16:32],
            "message_id": number(body, 32, 4)}


__all__ = ["Refused", "base_header", "decode", "final_ack", "order_ack", "ping", "session_header", "split"]
