"""What a server's answer means to the caller: HRESULTs and faults as the errors of `lior.errors`.

RPC carries a number and no text, so the text is the client's: what it was about, and the usual remedy.
"""

from __future__ import annotations

from typing import Final

from lior.errors import (
    ERROR_RANGE,
    HRESULTS,
    RANGE_MASK,
    AccessDenied,
    InvalidHandle,
    LiorError,
    OperationCancelled,
    ServiceNotAvailable,
    UnsupportedOperation,
    error_from_code,
    succeeded,
)
from lior.protocols.rpc import faults
from lior.protocols.rpc.faults import RpcFault

CANCELLED: Final = HRESULTS["MQ_ERROR_OPERATION_CANCELLED"]
_TEXTS: Final[dict[str, tuple[str, str]]] = {
    "MQ_ERROR": ("the server refused the call and does not say why", "its log may"),
    "MQ_ERROR_ACCESS_DENIED": ("the queue does not give this user the right", "ask the owner of the queue"),
    "MQ_ERROR_ILLEGAL_CURSOR_ACTION": ("the cursor has no current message", "peek the current message first"),
    "MQ_ERROR_ILLEGAL_PROPERTY_VALUE": ("a property has a value that it cannot have", "check the properties"),
    "MQ_ERROR_INSUFFICIENT_RESOURCES": ("the quota of the queue or of the queue manager is reached",
                                        "receive from the queue, or raise the quota"),
    "MQ_ERROR_INVALID_HANDLE": ("the handle is closed", "open it again"),
    "MQ_ERROR_INVALID_PARAMETER": ("the server takes this call for wrong", "check what was given"),
    "MQ_ERROR_IO_TIMEOUT": ("no message came in time", "wait longer, or come again"),
    "MQ_ERROR_MESSAGE_ALREADY_RECEIVED": ("another reader took the message under the cursor",
                                          "go on with the next message"),
    "MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION": ("the message is held by a transaction or another reader",
                                                  "try again when its transaction ended"),
    "MQ_ERROR_MESSAGE_NOT_FOUND": ("there is no such message", "somebody may have taken it"),
    "MQ_ERROR_NO_DS": ("there is no directory service", "use a direct or a private format name"),
    "MQ_ERROR_OPERATION_CANCELLED": ("the call was cancelled", "its handle was closed, or the queue manager stops"),
    "MQ_ERROR_QUEUE_DELETED": ("the queue was deleted", "create it again"),
    "MQ_ERROR_QUEUE_EXISTS": ("there is a queue of this name", "open it, or choose another name"),
    "MQ_ERROR_QUEUE_NOT_AVAILABLE": ("the queue is out of reach", "see whether its computer serves"),
    "MQ_ERROR_QUEUE_NOT_FOUND": ("there is no such queue", "see: lior queue list"),
    "MQ_ERROR_SERVICE_NOT_AVAILABLE": ("the queue manager is stopping, or not ready yet", "try again when it is back"),
    "MQ_ERROR_SHARING_VIOLATION": ("the queue is open in a way that excludes this", "wait until it is closed"),
    "MQ_ERROR_TRANSACTION_SEQUENCE": ("there is no such transaction", "begin one; it ends with its connection"),
    "MQ_ERROR_TRANSACTION_USAGE": ("the queue and the call do not agree on transactions",
                                   "send to a transactional queue in a transaction, to others without"),
    "MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE": ("the computer of the queue is out of reach", "see whether it serves"),
    "MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION": ("names of this kind cannot be used so", "use another name"),
}  # fmt: skip
_BY_CODE: Final = {HRESULTS[symbol]: texts for symbol, texts in _TEXTS.items() if symbol in HRESULTS}


def failure(code: int, where: str = "") -> LiorError:
    """The error of an HRESULT that is one."""
    if succeeded(code):
        return UnsupportedOperation(f"an answer of 0x{code:08X} to this call", where=where)
    what, remedy = _BY_CODE.get(code, ("", ""))
    return error_from_code(code, what, where=where, remedy=remedy)


def faulted(status: int, where: str = "") -> LiorError:
    """The error of a fault."""
    if status & RANGE_MASK == ERROR_RANGE or status in _BY_CODE:
        return failure(status, where)
    if status == faults.ACCESS_DENIED:
        return AccessDenied("the server refuses this caller", where=where,
                            remedy="give user and password, or a higher level of authentication")
    if status == faults.CONTEXT_MISMATCH:
        return InvalidHandle("the server does not know the handle any more", where=where, remedy="open it again")
    if status == faults.CANCELLED:
        return OperationCancelled("the call was cancelled", where=where)
    if status in (faults.OPERATION_RANGE, faults.UNKNOWN_INTERFACE):
        return UnsupportedOperation("the server has no such method", where=where,
                                    remedy="this server does not offer it")
    if status in (faults.TOO_BUSY, faults.OUT_OF_MEMORY):
        return ServiceNotAvailable(str(RpcFault(status)), where=where, remedy="try again later")
    return RpcFault(status, where=where)
