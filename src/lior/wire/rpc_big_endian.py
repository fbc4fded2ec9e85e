"""PDUs of big-endian clients ([C706] 14.1): whoever receives makes it right. Only the frame is turned round here; a
stub stays as it came, for the reader of NDR to understand."""

from __future__ import annotations

import struct
from typing import Final
from uuid import UUID

from lior.errors import Malformed
from lior.wire.rpc_pdu import (
    ALTER_CONTEXT,
    BIND,
    HEADER_SIZE,
    LITTLE_ENDIAN,
    OBJECT_UUID,
    REQUEST,
    REQUEST_SIZE,
    SEC_TRAILER_SIZE,
)

BIG_ENDIAN: Final = 0x00  # the first octet of packed_drep: big-endian integers, ASCII
_LENGTHS: Final = (struct.Struct(">HHI"), struct.Struct("<HHI"))
_BIND: Final = (struct.Struct(">HHI"), struct.Struct("<HHI"))
_REQUEST: Final = (struct.Struct(">IHH"), struct.Struct("<IHH"))
_NUMBER: Final = (struct.Struct(">I"), struct.Struct("<I"))
_SHORT: Final = (struct.Struct(">H"), struct.Struct("<H"))


def frag_length(data: bytes, at: int) -> int:
    return int.from_bytes(data[at + 8:at + 10], "big")


def turned(pdu: bytes) -> bytes:
    """The PDU as a little-endian client would have framed it."""
    out = bytearray(pdu)
    try:
        _turn(out, 8, _LENGTHS)
        ptype, flags = out[2], out[3]
        auth_length = int.from_bytes(out[10:12], "little")
        if auth_length:
            at = len(out) - auth_length - SEC_TRAILER_SIZE
            if at < HEADER_SIZE:
                raise Malformed("no room for the authentication it announces", where="sec_trailer")
            _turn(out, at + 4, _NUMBER)
        if ptype == REQUEST:
            _turn(out, HEADER_SIZE, _REQUEST)
            if flags & OBJECT_UUID:
                _turn_uuid(out, REQUEST_SIZE)
        elif ptype in (BIND, ALTER_CONTEXT):
            _turn_contexts(out)
    except struct.error:
        raise Malformed("cut", where="PDU", remedy="the peer sent a broken PDU") from None
    out[4] = LITTLE_ENDIAN
    return bytes(out)


def _turn(out: bytearray, at: int, form: tuple[struct.Struct, struct.Struct]) -> None:
    form[1].pack_into(out, at, *form[0].unpack_from(out, at))


def _turn_uuid(out: bytearray, at: int) -> None:
    if at + 16 > len(out):
        raise Malformed("cut", where="UUID", remedy="the peer sent a broken PDU")
    out[at:at + 16] = UUID(bytes=bytes(out[at:at + 16])).bytes_le


def _turn_contexts(out: bytearray) -> None:
    _turn(out, HEADER_SIZE, _BIND)
    at = HEADER_SIZE + 12
    for _ in range(out[HEADER_SIZE + 8] if len(out) > HEADER_SIZE + 8 else 0):
        _turn(out, at, _SHORT)
        if at + 4 > len(out):
            raise Malformed("cut", where="p_cont_elem_t", remedy="the peer sent a broken PDU")
        syntaxes = out[at + 2] + 1
        at += 4
        for _ in range(syntaxes):
            _turn_uuid(out, at)
            _turn(out, at + 16, _NUMBER)
            at += 20
