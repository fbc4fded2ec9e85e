"""PDUs of connection-oriented RPC: bytes <-> structures ([C706] 12.6, [MS-RPCE] 2.2.2).

Little endian only: a PDU with another data representation is told by its header and refused by the association. A
body is read from one whole PDU; whoever frames the stream has checked `frag_length`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from lior.errors import Malformed

REQUEST, PING, RESPONSE, FAULT, WORKING, NOCALL, REJECT, ACK, CL_CANCEL, FACK, CANCEL_ACK = range(11)
BIND, BIND_ACK, BIND_NAK, ALTER_CONTEXT, ALTER_CONTEXT_RESP, AUTH_3, SHUTDOWN, CO_CANCEL, ORPHANED = range(11, 20)

# pfc_flags. 0x04 has a meaning of its own in PDUs that negotiate ([MS-RPCE] 2.2.2.3)
FIRST_FRAG, LAST_FRAG, PENDING_CANCEL, RESERVED_1 = 0x01, 0x02, 0x04, 0x08
CONC_MPX, DID_NOT_EXECUTE, MAYBE, OBJECT_UUID = 0x10, 0x20, 0x40, 0x80
SUPPORT_HEADER_SIGN: Final = 0x04
WHOLE: Final = FIRST_FRAG | LAST_FRAG

LITTLE_ENDIAN: Final = 0x00000010  # packed_drep: little-endian integers, ASCII, IEEE floating point
HEADER: Final = struct.Struct("<IIHHI")  # version, minor, PTYPE and pfc_flags as one number; drep; the rest
HEADER_SIZE: Final = 16
REQUEST_SIZE: Final = 24  # header, alloc_hint, p_cont_id, opnum
RESPONSE_SIZE: Final = 24
FAULT_SIZE: Final = 32
VERSION: Final = 0x0005  # the low half of the first number: 5.0 ([MS-RPCE] 3.3.1.5.1)
WHOLE_REQUEST: Final = VERSION | REQUEST << 16 | WHOLE << 24
WHOLE_RESPONSE: Final = VERSION | RESPONSE << 16 | WHOLE << 24
LARGEST_FRAGMENT: Final = 65528  # what fits into frag_length, as a multiple of eight
MUST_RECEIVE: Final = 1432  # [C706] 12.6.2: every implementation takes fragments of this size

REQUEST_HEAD: Final = struct.Struct("<IIHHIIHH")
RESPONSE_HEAD: Final = struct.Struct("<IIHHIIHBB")
FAULT_HEAD: Final = struct.Struct("<IIHHIIHBBII")
BODY_START: Final = struct.Struct("<IHH")  # alloc_hint, p_cont_id, opnum or cancel_count and reserved
SEC_TRAILER: Final = struct.Struct("<BBBBI")
SEC_TRAILER_SIZE: Final = 8
_BIND: Final = struct.Struct("<HHIBBH")
_ELEMENT: Final = struct.Struct("<HBB")
_SYNTAX: Final = struct.Struct("<16sI")
_BIND_ACK: Final = struct.Struct("<HHI")
_RESULT: Final = struct.Struct("<HH16sI")

# p_cont_def_result_t and p_provider_reason_t
ACCEPTANCE, USER_REJECTION, PROVIDER_REJECTION, NEGOTIATE_ACK = range(4)
REASON_NOT_SPECIFIED, ABSTRACT_SYNTAX_NOT_SUPPORTED, TRANSFER_SYNTAXES_NOT_SUPPORTED, LOCAL_LIMIT = range(4)
# reasons of bind_nak ([MS-RPCE] 2.2.2.5)
NAK_NOT_SPECIFIED, NAK_CONGESTION, NAK_LOCAL_LIMIT, NAK_VERSION = 0, 1, 2, 4
NAK_AUTHENTICATION_TYPE, NAK_INVALID_CHECKSUM = 8, 9

# auth_type and auth_level ([MS-RPCE] 2.2.1.1.7, 2.2.1.1.8)
SERVICE_NONE, SERVICE_NEGOTIATE, SERVICE_NTLM, SERVICE_KERBEROS = 0x00, 0x09, 0x0A, 0x10
SERVICE_DEFAULT: Final = 0xFF
LEVEL_DEFAULT, LEVEL_NONE, LEVEL_CONNECT, LEVEL_CALL, LEVEL_PACKET, LEVEL_INTEGRITY, LEVEL_PRIVACY = range(7)

FEATURE_CONTEXT_MULTIPLEXING, FEATURE_KEEP_ON_ORPHAN = 0x01, 0x02
_FEATURES: Final = UUID("6cb71c2c-9812-4540-0000-000000000000").bytes_le[:8]


class Syntax(NamedTuple):
    """p_syntax_id_t: an interface or a transfer syntax; the version's low half is the major number."""

    uuid: UUID
    version: int

    @property
    def major(self) -> int:
        return self.version & 0xFFFF

    @property
    def minor(self) -> int:
        return self.version >> 16

    def to_bytes(self) -> bytes:
        return _SYNTAX.pack(self.uuid.bytes_le, self.version)


NDR: Final = Syntax(UUID("8a885d04-1ceb-11c9-9fe8-08002b104860"), 2)
NDR64: Final = Syntax(UUID("71710533-beba-4937-8319-b5dbef9ccc36"), 1)
NO_SYNTAX: Final = Syntax(UUID(int=0), 0)


def features(mask: int) -> Syntax:
    """The transfer syntax that stands for bind time feature negotiation ([MS-RPCE] 3.3.1.5.3)."""
    return Syntax(UUID(bytes_le=_FEATURES + mask.to_bytes(8, "little")), 1)


def feature_mask(syntax: Syntax) -> int | None:
    """What a client offers; None for a transfer syntax proper."""
    raw = syntax.uuid.bytes_le
    if raw[:8] != _FEATURES or syntax.version != 1:
        return None
    return int.from_bytes(raw[8:], "little")


class Header(NamedTuple):
    """The sixteen bytes that every PDU starts with."""

    version: int  # major and minor: 0x0005 is 5.0
    ptype: int
    flags: int
    drep: int
    frag_length: int
    auth_length: int
    call_id: int


def decode_header(data: bytes | bytearray | memoryview, at: int = 0) -> Header:
    try:
        first, drep, frag_length, auth_length, call_id = HEADER.unpack_from(data, at)
    except struct.error:
        raise _cut("header") from None
    return Header(first & 0xFFFF, first >> 16 & 0xFF, first >> 24, drep, frag_length, auth_length, call_id)


class PresentationContext(NamedTuple):
    """p_cont_elem_t"""

    identifier: int
    abstract: Syntax
    transfers: tuple[Syntax, ...]


class Bind(NamedTuple):
    """The body of bind and alter_context."""

    max_xmit_frag: int
    max_recv_frag: int
    assoc_group_id: int
    contexts: tuple[PresentationContext, ...]


class Result(NamedTuple):
    """p_result_t"""

    result: int
    reason: int = 0
    transfer: Syntax = NO_SYNTAX


class BindAck(NamedTuple):
    """The body of bind_ack and alter_context_resp."""

    max_xmit_frag: int
    max_recv_frag: int
    assoc_group_id: int
    secondary_address: str
    results: tuple[Result, ...]


class Authentication(NamedTuple):
    """sec_trailer and the token behind it ([MS-RPCE] 2.2.2.11)."""

    service: int
    level: int
    pad_length: int
    context_id: int
    token: bytes


def _cut(what: str) -> Malformed:
    return Malformed("cut", where=what, remedy="the peer sent a broken PDU")


def _syntax(data: bytes, at: int) -> Syntax:
    raw, version = _SYNTAX.unpack_from(data, at)
    return Syntax(UUID(bytes_le=raw), version)


def decode_authentication(pdu: bytes, auth_length: int, body_at: int = HEADER_SIZE) -> Authentication:
    """What protects a PDU: at frag_length - auth_length - 8. `body_at` is where its padding cannot reach back over."""
    at = len(pdu) - auth_length - SEC_TRAILER_SIZE
    if at < body_at:
        raise Malformed("no room for the authentication it announces", where="sec_trailer",
                        remedy="the peer sent a broken PDU")
    service, level, pad, _, context_id = SEC_TRAILER.unpack_from(pdu, at)
    if at - pad < body_at:
        raise Malformed("more padding than body", where="sec_trailer", remedy="the peer sent a broken PDU")
    return Authentication(service, level, pad, context_id, pdu[at + SEC_TRAILER_SIZE:])


def decode_bind(pdu: bytes, end: int) -> Bind:
    """bind and alter_context; `end` is where the authentication starts."""
    try:
        xmit, recv, group, count, _, _ = _BIND.unpack_from(pdu, HEADER_SIZE)
        at = HEADER_SIZE + _BIND.size
        contexts = []
        for _ in range(count):
            identifier, transfers, _ = _ELEMENT.unpack_from(pdu, at)
            at += _ELEMENT.size
            if at + _SYNTAX.size * (transfers + 1) > end:
                raise _cut("p_cont_elem_t")
            syntaxes = [_syntax(pdu, at + _SYNTAX.size * n) for n in range(transfers + 1)]
            at += _SYNTAX.size * (transfers + 1)
            contexts.append(PresentationContext(identifier, syntaxes[0], tuple(syntaxes[1:])))
    except struct.error:
        raise _cut("bind") from None
    return Bind(xmit, recv, group, tuple(contexts))


def encode_bind(bind: Bind) -> bytes:
    parts = [_BIND.pack(bind.max_xmit_frag, bind.max_recv_frag, bind.assoc_group_id, len(bind.contexts), 0, 0)]
    for each in bind.contexts:
        parts.append(_ELEMENT.pack(each.identifier, len(each.transfers), 0) + each.abstract.to_bytes())
        parts.extend(syntax.to_bytes() for syntax in each.transfers)
    return b"".join(parts)


def decode_bind_ack(pdu: bytes, end: int) -> BindAck:
    try:
        xmit, recv, group = _BIND_ACK.unpack_from(pdu, HEADER_SIZE)
        at = HEADER_SIZE + _BIND_ACK.size
        (length,) = struct.unpack_from("<H", pdu, at)
        at += 2
        address = pdu[at:at + length]
        at = (at + length + 3) & -4
        if at + 4 > end:
            raise _cut("bind_ack")
        count = pdu[at]
        at += 4
        if at + _RESULT.size * count > end:
            raise _cut("p_result_list_t")
        results = []
        for n in range(count):
            result, reason, raw, version = _RESULT.unpack_from(pdu, at + _RESULT.size * n)
            results.append(Result(result, reason, Syntax(UUID(bytes_le=raw), version)))
    except struct.error:
        raise _cut("bind_ack") from None
    return BindAck(xmit, recv, group, address.rstrip(b"\0").decode("ascii", "replace"), tuple(results))


def encode_bind_ack(ack: BindAck) -> bytes:
    address = ack.secondary_address.encode("ascii") + b"\0" if ack.secondary_address else b""
    head = _BIND_ACK.pack(ack.max_xmit_frag, ack.max_recv_frag, ack.assoc_group_id)
    head += struct.pack("<H", len(address)) + address
    parts = [head, bytes(-(HEADER_SIZE + len(head)) % 4), struct.pack("<BBH", len(ack.results), 0, 0)]
    parts.extend(_RESULT.pack(each.result, each.reason, each.transfer.uuid.bytes_le, each.transfer.version)
                 for each in ack.results)
    return b"".join(parts)


def decode_bind_nak(pdu: bytes) -> int:
    """The reason. The versions and the extended error information behind it are not looked at."""
    if len(pdu) < HEADER_SIZE + 2:
        raise _cut("bind_nak")
    return int.from_bytes(pdu[HEADER_SIZE:HEADER_SIZE + 2], "little")


def encode_bind_nak(reason: int, versions: Sequence[tuple[int, int]] = ((5, 0),)) -> bytes:
    return struct.pack("<HB", reason, len(versions)) + b"".join(bytes(each) for each in versions)


def encode(ptype: int, flags: int, call_id: int, body: bytes, authentication: Authentication | None = None) -> bytes:
    """A whole PDU. In those that negotiate the sec_trailer is aligned to four bytes, as everybody has it and impacket
    needs it; the sixteen of 2.2.2.11 hold for requests and responses."""
    first = VERSION | ptype << 16 | flags << 24
    if authentication is None:
        return HEADER.pack(first, LITTLE_ENDIAN, HEADER_SIZE + len(body), 0, call_id) + body
    padding = bytes(-len(body) % 4)
    trailer = SEC_TRAILER.pack(authentication.service, authentication.level, len(padding), 0,
                               authentication.context_id)
    tail = padding + trailer + authentication.token
    head = HEADER.pack(first, LITTLE_ENDIAN, HEADER_SIZE + len(body) + len(tail), len(authentication.token), call_id)
    return head + body + tail


def encode_fault(call_id: int, context_id: int, status: int, flags: int = WHOLE, cancels: int = 0) -> bytes:
    """No stub data, and never a status of 0 ([MS-RPCE] 2.2.2.8)."""
    return FAULT_HEAD.pack(VERSION | FAULT << 16 | flags << 24, LITTLE_ENDIAN, FAULT_SIZE, 0, call_id, FAULT_SIZE,
                           context_id, cancels, 0, status, 0)


def decode_fault(pdu: bytes) -> int:
    """The status: what stands behind it is ignored (2.2.2.8)."""
    if len(pdu) < FAULT_SIZE - 4:
        raise _cut("fault")
    status: int = struct.unpack_from("<I", pdu, RESPONSE_SIZE)[0]
    return status
