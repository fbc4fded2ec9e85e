"""Another's server, for our client: scapy's, with NTLM and SPNEGO. A program of its own: KIND PASSWORD. It
says its port, and ends with its standard input."""

from __future__ import annotations

import socket
import sys
from typing import Any
from uuid import UUID

import scapy.layers.msrpce.all  # noqa: F401 - registers what it describes
from scapy.config import conf
from scapy.layers.dcerpc import (
    DCERPC_Transport,
    DceRpcOp,
    NDRIntField,
    NDRPacket,
    register_dcerpc_interface,
)
from scapy.layers.msrpce.rpcserver import DCERPC_Server
from scapy.layers.ntlm import NTLMSSP, MD4le
from scapy.layers.spnego import SPNEGOSSP


class AddRequest(NDRPacket):  # type: ignore[misc]
    fields_desc = [NDRIntField("a", 0), NDRIntField("b", 0)]  # noqa: RUF012 - scapy's way


class AddResponse(NDRPacket):  # type: ignore[misc]
    fields_desc = [NDRIntField("result", 0)]  # noqa: RUF012


TEST = register_dcerpc_interface("test", UUID("11111111-2222-3333-4444-555555555555"), "1.0",
                                 {0: DceRpcOp(AddRequest, AddResponse)})


class Server(DCERPC_Server):  # type: ignore[misc]  # scapy has no types
    @DCERPC_Server.answer(AddRequest)  # type: ignore[untyped-decorator]
    def add(self, request: Any) -> Any:
        given = request[AddRequest]
        return AddResponse(result=given.a + given.b, ndr64=self.ndr64)


def main(kind: str, password: str) -> None:
    conf.iface = "lo"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ntlm = NTLMSSP(IDENTITIES={"joe": MD4le(password)}, DOMAIN_NB_NAME="SCAPY", COMPUTER_NB_NAME="HOST")
    ssp = {"none": None, "ntlm": ntlm, "spnego": SPNEGOSSP([ntlm])}[kind]
    listening = Server.spawn(DCERPC_Transport.NCACN_IP_TCP, iface="lo", port=port, bg=True, verb=False, ssp=ssp,
                             ndr64=False)
    print(port, flush=True)
    sys.stdin.read()
    listening.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
