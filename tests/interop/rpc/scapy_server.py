"""A queue manager on scapy's DCE/RPC server with NTLM and SPNEGO: it answers from a table, for clients of ours."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from msrpcs import ms_mqmp
from scapy.config import conf
from scapy.layers.dcerpc import (
    RPC_C_AUTHN_LEVEL,
    DceRpc5Request,
    DCERPC_Transport,
    DceRpcSession,
    NDRContextHandle,
    find_dcerpc_interface,
)
from scapy.layers.gssapi import SSP
from scapy.layers.msrpce.rpcserver import DCERPC_Server
from scapy.layers.ntlm import NTLMSSP, MD4le
from scapy.layers.spnego import SPNEGOSSP

from lior.testing.serving import loopback_address


class _Session(DceRpcSession):  # type: ignore[misc]
    """scapy takes the last interface of a bind for that of all requests; ours are for qmcomm."""

    @property
    def rpc_bind_interface(self) -> Any:
        return find_dcerpc_interface("qmcomm")

    @rpc_bind_interface.setter
    def rpc_bind_interface(self, value: Any) -> None:
        pass

    def in_pkt(self, pkt: Any, commit: bool = True) -> Any:
        """At the level `integrity` scapy does not verify a request without stub data, as a call without parameters is,
        and then holds every signature that follows for wrong, for NTLM's cipher is one place behind. (At `privacy` such
        a request is not empty when it comes, for its verification trailer is encrypted.) So that is done here."""
        verifier = pkt.auth_verifier
        protected = self.auth_level == RPC_C_AUTHN_LEVEL.PKT_INTEGRITY and verifier and verifier.is_protected()
        if protected and conf.raw_layer not in pkt.payload:
            signed = SSP.MIC_MSG(sign=True, data=pkt.original[: -pkt.auth_len])
            self.ssp.GSS_VerifyMICEx(self.sspcontext, [signed], verifier.auth_value)
        return super().in_pkt(pkt, commit=commit)


class ScapyServer:
    """`answers` are what the three methods say; `calls` are the names of what came, with their fields."""

    def __init__(self, users: Mapping[str, str], answers: Mapping[str, Any], port: int = 2103) -> None:
        self.host, self.port = loopback_address(), port
        self.calls: list[tuple[str, Any]] = []
        self.problems: list[BaseException] = []
        self._hashes = {user: MD4le(password) for user, password in users.items()}
        self._answers = answers
        self._listener = socket.create_server((self.host, port))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
            stream.close()
        if error is None:
            assert not self.problems, self.problems

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                stream, _ = self._listener.accept()
                self._open.append(stream)
                threading.Thread(target=self._serve, args=(stream,), daemon=True).start()

    def _serve(self, stream: socket.socket) -> None:
        security = SPNEGOSSP([NTLMSSP(IDENTITIES=self._hashes)])
        server = _handlers(self)(
            DCERPC_Transport.NCACN_IP_TCP, ndr64=False, verb=False, ssp=security, port=self.port, local_ip=self.host
        )
        server.session = _Session(ssp=security)
        try:
            while pdu := _whole(stream):
                server.recv(pdu)
                while answer := server.get_response():
                    stream.sendall(bytes(answer))
        except OSError:
            pass  # the client went away
        except Exception as error:
            self.problems.append(error)
        finally:
            stream.close()

    def told(self, name: str, request: Any) -> Any:
        self.calls.append((name, request))
        return self._answers[name]


def _whole(stream: socket.socket) -> bytes:
    """One PDU: scapy's server takes what a read brought for one."""
    header = stream.recv(16, socket.MSG_WAITALL)
    if len(header) < 16:
        return b""
    return header + stream.recv(int.from_bytes(header[8:10], "little") - 16, socket.MSG_WAITALL)


def _handlers(owner: ScapyServer) -> type[DCERPC_Server]:
    class Handlers(DCERPC_Server):  # type: ignore[misc]
        @DCERPC_Server.answer(ms_mqmp.R_QMGetRTQMServerPort_Request)  # type: ignore[untyped-decorator]
        def port(self, request: Any) -> Any:
            return ms_mqmp.R_QMGetRTQMServerPort_Response(status=owner.told("port", request), ndr64=False)

        @DCERPC_Server.answer(ms_mqmp.rpc_ACCloseHandle_Request)  # type: ignore[untyped-decorator]
        def close(self, request: Any) -> Any:
            packet = request[ms_mqmp.rpc_ACCloseHandle_Request]
            null = NDRContextHandle(attributes=0, uuid=bytes(16), ndr64=False)
            return ms_mqmp.rpc_ACCloseHandle_Response(phQueue=null, status=owner.told("close", packet), ndr64=False)

        @DCERPC_Server.answer(ms_mqmp.rpc_QMOpenQueueInternal_Request)  # type: ignore[untyped-decorator]
        def open(self, request: Any) -> Any:
            packet = request[DceRpc5Request].payload
            handle = NDRContextHandle(attributes=0, uuid=owner.told("open", packet), ndr64=False)
            return ms_mqmp.rpc_QMOpenQueueInternal_Response(
                lplpRemoteQueueName=None, pdwQMContext=77, phQueue=handle, status=0, ndr64=False)  # fmt: skip

    return Handlers
