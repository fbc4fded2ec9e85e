"""The verification trailer at the end of a request ([MS-RPCE] 2.2.2.13): what the client believes it has sent."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from lior.protocols.rpc.faults import ACCESS_DENIED
from lior.wire.rpc_big_endian import BIG_ENDIAN
from lior.wire.rpc_pdu import LITTLE_ENDIAN, REQUEST, Syntax

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

TRAILER_SIGNATURE: Final = bytes.fromhex("8ae3137102f43671")
BITMASK_1, PCONTEXT, HEADER2 = 1, 2, 3
END, MUST_PROCESS, COMMAND = 0x4000, 0x8000, 0x3FFF
CLIENT_SUPPORT_HEADER_SIGNING: Final = 0x01
LONGEST: Final = 128  # three commands take 80 bytes; room for some that are not known yet

_COMMAND: Final = struct.Struct("<HH")
_HEADER2: Final = struct.Struct("<BBHIIHH")
_SIZES: Final = {BITMASK_1: 4, PCONTEXT: 40, HEADER2: 16}


def find_trailer(call: Call, header_sign: bool) -> None:
    """Set the call's `stub` to what comes before its trailer, and `trailer` to what is wrong with that.

    The stub does not tell its own length before it is decoded, and the trailer's signature may stand in a message as
    well. What looks like a trailer to the last byte is taken off, but `whole_stub` keeps it: only one of the two will
    decode (see the dispatcher)."""
    stub = call.whole_stub
    at = stub.rfind(TRAILER_SIGNATURE, max(len(stub) - LONGEST, 0))
    if at < 0 or at % 4:
        return
    commands = read_commands(stub, at + len(TRAILER_SIGNATURE))
    if commands is None:
        return
    call.stub = stub[:at]
    call.trailer = 0 if all(_holds(call, command, value, header_sign) for command, value in commands) else ACCESS_DENIED


def read_commands(stub: bytes, at: int) -> list[tuple[int, bytes]] | None:
    """The commands, which reach exactly to the end; None if they do not."""
    commands = []
    while at + _COMMAND.size <= len(stub):
        command, length = _COMMAND.unpack_from(stub, at)
        at += _COMMAND.size
        if length % 4 or at + length > len(stub):
            return None
        commands.append((command, stub[at:at + length]))
        at += length
        if command & END:
            return commands if at == len(stub) else None
    return None


def _holds(call: Call, command: int, value: bytes, header_sign: bool) -> bool:
    kind = command & COMMAND
    if kind not in _SIZES:
        return not command & MUST_PROCESS
    if len(value) != _SIZES[kind]:
        return False
    if kind == BITMASK_1:
        # header signing must not have been negotiated away on the way
        return header_sign or not int.from_bytes(value, "little") & CLIENT_SUPPORT_HEADER_SIGNING
    if kind == PCONTEXT:
        return value == call.context.abstract.to_bytes() + call.context.transfer.to_bytes()
    ptype, _, _, drep, call_id, context_id, opnum = _HEADER2.unpack(value)
    told = (ptype, drep & 0xFF, call_id, context_id, opnum)
    own = BIG_ENDIAN if call.big_endian else LITTLE_ENDIAN
    return told == (REQUEST, own, call.call_id, call.context.identifier, call.opnum)


def encode_trailer(abstract: Syntax, transfer: Syntax, header_sign: bool) -> bytes:
    """What a client puts behind the first request of a presentation context, four-aligned."""
    context = abstract.to_bytes() + transfer.to_bytes()
    if not header_sign:
        return TRAILER_SIGNATURE + _COMMAND.pack(PCONTEXT | END, len(context)) + context
    return (TRAILER_SIGNATURE + _COMMAND.pack(BITMASK_1, 4) + CLIENT_SUPPORT_HEADER_SIGNING.to_bytes(4, "little")
            + _COMMAND.pack(PCONTEXT | END, len(context)) + context)
