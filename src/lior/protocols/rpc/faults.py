"""Faults: how a call fails at the level of RPC ([C706] appendix E and N.2, [MS-RPCE] 3.3.3)."""

from __future__ import annotations

from typing import Final

from lior.errors import ERROR_RANGE, HRESULTS, RANGE_MASK, LiorError

ACCESS_DENIED: Final = 0x00000005  # also: more stub data than the server takes ([MS-RPCE] 3.3.3.5.4)
PROTOCOL_ERROR: Final = 0x000006C0  # RPC_S_PROTOCOL_ERROR: too many security contexts (3.3.1.5.4)
BAD_STUB_DATA: Final = 0x000006F7  # stub data that does not decode (3.1.1.5.3)
SECURITY_PACKAGE: Final = 0x00000721  # RPC_S_SEC_PKG_ERROR
INVALID_CHECKSUM: Final = 0x1C00001F  # nca_s_fault_... of a signature that does not fit
CANCELLED: Final = 0x1C00000D  # nca_s_fault_cancel
CONTEXT_MISMATCH: Final = 0x1C00001A  # nca_s_fault_context_mismatch: no such context handle here
OUT_OF_MEMORY: Final = 0x1C00001B  # nca_s_fault_remote_no_memory
UNSPECIFIED: Final = 0x1C000012  # nca_s_fault_unspec
OPERATION_RANGE: Final = 0x1C010002  # nca_s_op_rng_error
UNKNOWN_INTERFACE: Final = 0x1C010003  # nca_s_unk_if
NCA_PROTOCOL_ERROR: Final = 0x1C01000B  # nca_s_proto_error (3.3.3.5.7)
TOO_BUSY: Final = 0x1C010014  # nca_s_server_too_busy
SERVICE_NOT_AVAILABLE: Final = 0xC00E000B  # MQ_ERROR_SERVICE_NOT_AVAILABLE: the queue manager stops
UNSUPPORTED_AUTHENTICATION: Final = 0x1C00001D  # nca_s_unsupported_authn_level

# [MS-RPCE] 3.3.3.5.1: a server never sends these
FORBIDDEN: Final = frozenset({
    0x00000000, 0x80000001, 0x80000002, 0x80000003, 0xC0000005, 0xC0000006, 0xC000001D, 0xC0000096, 0xC00000AA,
    0xC00000FD, 0xC0000194, 0xC0000235, 0xC0000409, 0xC0000420,
})  # fmt: skip

NAMES: Final = {
    ACCESS_DENIED: "access denied",
    PROTOCOL_ERROR: "protocol error",
    BAD_STUB_DATA: "bad stub data",
    SECURITY_PACKAGE: "security package error",
    CANCELLED: "call cancelled",
    CONTEXT_MISMATCH: "no such context handle",
    OUT_OF_MEMORY: "server out of memory",
    UNSPECIFIED: "the server failed",
    OPERATION_RANGE: "no such operation",
    UNKNOWN_INTERFACE: "no such interface",
    NCA_PROTOCOL_ERROR: "protocol error",
    TOO_BUSY: "server too busy",
}


class RpcFault(LiorError):
    """A call ends in a fault PDU with this status: raised by a handler, and by the client of one."""

    def __init__(self, status: int, what: str = "", *, where: str = "", remedy: str = "") -> None:
        super().__init__(what or NAMES.get(status, f"fault 0x{status:08X}"), where=where, remedy=remedy)
        self.status = status
        # An HRESULT travels as it is (MP-022); what RPC itself says has no code among ours
        self.code = status if status & RANGE_MASK == ERROR_RANGE else HRESULTS["MQ_ERROR"]

    def __str__(self) -> str:
        return f"{super().__str__()} [fault 0x{self.status:08X}]"

    def __reduce__(self) -> tuple[object, ...]:
        return RpcFault, (self.status, self.what)
