"""What the tests of connections share: PDUs of a client, and a connection that is bound."""

from __future__ import annotations

import struct
from typing import Any

from lior.protocols.rpc.server_association import ServerAssociation
from lior.wire import rpc_pdu as pdu
from lior.wire.rpc_pdu import NDR, Bind, PresentationContext, Syntax
from tests.protocols.rpc.peers import FIRST, Peers

NCA_PROTOCOL_ERROR = 0x1C01000B


def abstract(interface: Any, version: int | None = None) -> Syntax:
    return Syntax(interface.uuid, interface.version[0] | interface.version[1] << 16 if version is None else version)


def bind(*contexts: PresentationContext, group: int = 0, frag: int = 5840, flags: int = pdu.WHOLE,
         ptype: int = pdu.BIND) -> bytes:  # fmt: skip
    return pdu.encode(ptype, flags, 2, pdu.encode_bind(Bind(frag, frag, group, contexts)))


def first(identifier: int = 0) -> PresentationContext:
    return PresentationContext(identifier, abstract(FIRST), (NDR,))


def acknowledged(data: bytes) -> pdu.BindAck:
    assert pdu.decode_header(data).ptype in (pdu.BIND_ACK, pdu.ALTER_CONTEXT_RESP)
    return pdu.decode_bind_ack(data, len(data))


def request(call_id: int, stub: bytes = b"", flags: int = pdu.WHOLE, context_id: int = 0, opnum: int = 1) -> bytes:
    return pdu.encode(pdu.REQUEST, flags, call_id, struct.pack("<IHH", len(stub), context_id, opnum) + stub)


def fault(data: bytes) -> tuple[int, int]:
    header = pdu.decode_header(data)
    assert header.ptype == pdu.FAULT
    return header.call_id, pdu.decode_fault(data)


def bound(peers: Peers | None = None) -> ServerAssociation:
    server = (peers or Peers()).server()
    server.receive(bind(first()), 0.0)
    return server


def pdus(data: bytes) -> list[bytes]:
    found = []
    while data:
        length = pdu.decode_header(data).frag_length
        found.append(data[:length])
        data = data[length:]
    return found
