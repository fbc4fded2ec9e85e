"""A client on scapy's DCE/RPC and the definitions of scapy-rpc: NDR and NDR64, NTLM and SPNEGO, a verification
trailer in the first request.

scapy-rpc reads `[size_is(,n)] X**` as an array of pointers, which [C706] does not: transfer buffers and sections cannot
be written or read with it. What it cannot read is given as bytes.
"""

from __future__ import annotations

import logging
from types import ModuleType, TracebackType
from typing import Any, Self

logging.getLogger("scapy").setLevel(logging.ERROR)

from msrpcs import ms_mqmp, ms_mqmr, ms_mqqp, ms_mqrr  # noqa: E402
from scapy.layers.dcerpc import DceRpc5Fault, DCERPC_Transport, NDRContextHandle, find_dcerpc_interface  # noqa: E402
from scapy.layers.msrpce.rpcclient import DCERPC_Client  # noqa: E402
from scapy.layers.ntlm import NTLMSSP  # noqa: E402
from scapy.layers.spnego import SPNEGOSSP  # noqa: E402
from scapy.packet import Packet, Raw  # noqa: E402

MODULES: dict[str, ModuleType] = {
    "qmcomm": ms_mqmp, "qmcomm2": ms_mqmp, "qm2qm": ms_mqqp, "RemoteRead": ms_mqrr, "qmmgmt": ms_mqmr,
}  # fmt: skip


class Faulted(AssertionError):
    def __init__(self, status: int) -> None:
        super().__init__(f"fault {status:#010x}")
        self.status = status


class _Wide(DCERPC_Client):  # type: ignore[misc]
    """Offers NDR64 only: offered beside NDR, servers may prefer that."""

    def _get_bind_context(self, interface: Any) -> Any:
        return super()._get_bind_context(interface)[1:]


class ScapyClient:
    """One connection and one interface of it."""

    def __init__(
        self, host: str, interface: str, *, port: int = 2103, wide: bool = False, user: str = "", password: str = "",
        level: int = 0, spnego: bool = False,
    ) -> None:  # fmt: skip
        security: Any = None
        if user:
            security = NTLMSSP(UPN=user, PASSWORD=password)
            if spnego:
                security = SPNEGOSSP([security])
        self.module, self.wide = MODULES[interface], wide
        options = {"auth_level": level} if level else {}
        kind = _Wide if wide else DCERPC_Client
        self._client = kind(DCERPC_Transport.NCACN_IP_TCP, ndr64=wide, verb=False, ssp=security, **options)
        self._client.connect(host, port=port, timeout=60)
        self.bound = bool(self._client.bind(find_dcerpc_interface(interface)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def make(self, name: str, **values: Any) -> Packet:
        """A structure of this interface in this connection's syntax."""
        return getattr(self.module, name)(**values, ndr64=self.wide)

    def handle(self, data: bytes) -> Packet:
        return NDRContextHandle(attributes=int.from_bytes(data[:4], "little"), uuid=data[4:], ndr64=self.wide)

    def call(self, method: str, **values: Any) -> Packet:
        answer = self._client.sr1_req(self.make(f"{method}_Request", **values), timeout=60)
        assert answer is not None, f"no answer to {method}"
        if DceRpc5Fault in answer:
            raise Faulted(int(answer[DceRpc5Fault].status))
        return answer

    def stub(self, method: str, **values: Any) -> bytes:
        """The answer as it came, where scapy-rpc cannot read it."""
        answer = self.call(method, **values)
        return bytes(answer[Raw].load if Raw in answer else answer)


def handle_of(packet: Packet) -> bytes:
    return int(packet.attributes).to_bytes(4, "little") + bytes(packet.uuid)
