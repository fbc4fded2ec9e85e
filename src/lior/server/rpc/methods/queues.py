"""qmcomm: opening, closing, cursors and purging of queues ([MS-MQMP] 3.1.4.2 to 3.1.4.4, 3.1.4.17 to 3.1.4.22)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lior.errors import (
    HRESULTS,
    AccessDenied,
    InvalidHandle,
    InvalidParameter,
    LiorError,
    QueueNotFound,
    UnsupportedAccessMode,
    UnsupportedFormatNameOperation,
)
from lior.names import ConnectorName, DirectName, DistributionListName, MachineName, MulticastName, SingleName
from lior.names.grammar import SYSTEM_SUFFIXES
from lior.protocols.rpc.call import PENDING
from lior.protocols.rpc.faults import RpcFault
from lior.queues.descriptor import PEEK_ACCESS, RECEIVE_ACCESS, QueueAccessType, QueueShareMode, RemoteReadState
from lior.queues.outgoing import OutgoingQueue
from lior.server.rpc.methods.answers import OK, Done, Values, code_only
from lior.server.rpc.methods.remote_proxy import (
    close_remote_cursor,
    close_remotely,
    not_opened,
    null_name,
    open_remotely,
    path_of,
    purge_remotely,
)
from lior.server.rpc.methods.service import QueueService, method, name_of
from lior.server.rpc.methods.tables import (
    NULL_HANDLE,
    OPEN_REMOTE,
    QUEUE,
    Cursors,
    OpenQueue,
    OpenRemote,
    Owner,
    RemoteProxy,
)

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

READ_ACCESS: Final = frozenset({QueueAccessType.RECEIVE, QueueAccessType.PEEK})
OPEN_ACCESS: Final = READ_ACCESS | {QueueAccessType.SEND, QueueAccessType.RECEIVE_ADMIN, QueueAccessType.PEEK_ADMIN}
NOT_FOUND: Final = HRESULTS["MQ_ERROR_QUEUE_NOT_FOUND"]
NO_CURSOR: Final = 0x0000000B  # rpc_ACCloseCursor takes no action for it


def access_of(value: int, allowed: frozenset[QueueAccessType]) -> QueueAccessType:
    for access in allowed:
        if access == value:
            return access
    raise UnsupportedAccessMode(f"access mode 0x{value:X}", where="dwDesiredAccess",
                                remedy="use " + ", ".join(hex(each) for each in sorted(allowed)))


def share_of(value: int) -> QueueShareMode:
    if value not in (0, 1):
        raise UnsupportedAccessMode(f"share mode 0x{value:X}", where="dwShareMode", remedy="use 0 or 1")
    return QueueShareMode(value)


# ---- Opening a queue (3.1.4.17) --------------------------------------------------------------------------------------


def _open(service: QueueService, call: Call, request: Any) -> Any:
    """rpc_QMOpenQueueInternal: here, or a hint to another computer, or (at the second call) through a proxy."""
    name = service.core.local.expand_dot(name_of(request.p_queue_format))
    access = access_of(request.dw_desired_access, OPEN_ACCESS)
    share = share_of(request.dw_share_mode)
    check_kind(name, access, share)
    if request.h_remote_queue:
        if access not in READ_ACCESS:
            raise UnsupportedAccessMode("a queue of another computer is only read", where="dwDesiredAccess")
        if not request.dwp_queue or not request.dwp_remote_context:
            raise InvalidParameter("hRemoteQueue without the rest of what R_QMOpenRemoteQueue gave", where="dwpQueue",
                                   remedy="pass on dwpQueue and pdwContext")
        return open_remotely(service, call, request, name)
    owner = Owner.of(call)
    service.hold(owner)
    try:
        descriptor = service.manager.open(name, access, share, caller=call.caller)
    except LiorError as error:
        service.let_go(owner)
        if error.code == NOT_FOUND and access in READ_ACCESS:
            return _hint(service, request, name, owner, error)
        raise
    entry = service.add_open_queue(descriptor, name, call.caller, owner)
    try:
        handle = call.group.handles.open(QUEUE, entry, partial(service.close_open_queue, entry), call.caller)
    except LiorError:
        service.close_open_queue(entry)
        raise
    return (null_name(request), entry.context, handle, OK)


def check_kind(name: SingleName, access: QueueAccessType, share: QueueShareMode) -> None:
    """What a kind of name can be opened for (MP-129, MP-130), with the code that [MS-MQDMPR] 3.1.7.1.5 has for it."""
    sends = access is QueueAccessType.SEND
    if sends and share is not QueueShareMode.DENY_NONE:
        raise UnsupportedAccessMode("a queue that is sent to is not opened exclusively", where="dwShareMode",
                                    remedy="use 0")
    if sends:
        subqueue = isinstance(name, DirectName) and bool(name.subqueue)
        read_only = isinstance(name, MachineName | ConnectorName) or name.suffix in SYSTEM_SUFFIXES.values()
        if subqueue or read_only:
            raise UnsupportedFormatNameOperation("the queue can only be read", where=str(name),
                                                 remedy="open it to receive")
    elif isinstance(name, MulticastName) or (isinstance(name, DirectName) and name.is_http):
        raise UnsupportedFormatNameOperation("HTTP and multicast names can only be sent to", where=str(name),
                                             remedy="use DIRECT=OS:host\\queue to read")


def _hint(service: QueueService, request: Any, name: SingleName, owner: Owner, error: LiorError) -> Values:
    """The queue may be on another computer: tell which. Never for a queue that would be here, or the client comes
    back for ever (MP-133)."""
    if service.core.local.designates_me(name):
        raise error
    if isinstance(name, DistributionListName | MulticastName):
        raise error
    computer, path = path_of(service, name)
    if service.core.local.is_local(computer):
        raise error
    if request.lplp_remote_queue_name is None:
        raise InvalidParameter("the queue is on another computer, and there is no place to say so",
                               where="lplpRemoteQueueName", remedy="pass a pointer to a NULL string")
    service.hinted(owner, name)
    return (path, 0, NULL_HANDLE, OK)


# ---- Closing, names, purging -----------------------------------------------------------------------------------------


def _handle_failed(request: Any, code: int) -> Values:
    return (request.ph_queue, code)


def _close(service: QueueService, call: Call, request: Any) -> Values:
    """rpc_ACCloseHandle: the handle is gone whatever comes of it."""
    handles = call.group.handles
    entry = handles.find(request.ph_queue, QUEUE, call.caller)
    handles.close(request.ph_queue)
    if isinstance(entry, RemoteProxy):
        close_remotely(service, entry)
    else:
        service.close_open_queue(entry)
    return (NULL_HANDLE, OK)


def find_open(call: Call, handle: bytes) -> OpenQueue | RemoteProxy:
    entry: OpenQueue | RemoteProxy = call.group.handles.find(handle, QUEUE, call.caller)
    return entry


def _close_cursor(service: QueueService, call: Call, request: Any) -> Any:
    entry = find_open(call, request.h_queue)
    if request.h_cursor == NO_CURSOR:
        return (OK,)
    if isinstance(entry, RemoteProxy):
        return close_remote_cursor(service, call, request, entry)
    service.manager.close_cursor(entry.cursors.take(request.h_cursor))
    return (OK,)


def _set_cursor_properties(service: QueueService, call: Call, request: Any) -> Values:
    """Obsolete (3.1.4.20): the code is returned, not raised, and nothing happens."""
    find_open(call, request.h_proxy)
    return (HRESULTS["MQ_ERROR_ILLEGAL_OPERATION"],)


def _name_failed(request: Any, code: int) -> Values:
    return (None if request.lpwcs_format_name is None else "", request.pdw_length, code)


def _handle_to_format_name(service: QueueService, call: Call, request: Any) -> Values:
    entry = find_open(call, request.h_queue)
    room = request.dw_format_name_rpc_buffer_len
    if request.pdw_length != room:
        raise InvalidParameter(f"pdwLength is {request.pdw_length}, the buffer {room}", where="pdwLength",
                               remedy="give the length of the buffer twice")
    text = entry.format_name if isinstance(entry, RemoteProxy) else str(entry.name)
    units = text.encode("utf-16-le", "surrogatepass")
    needed = len(units) // 2 + 1
    if request.lpwcs_format_name is None:
        return (None, needed, HRESULTS["MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL"])
    if needed <= room:
        return (text, needed, OK)
    shown = units[: 2 * max(room - 1, 0)].decode("utf-16-le", "ignore")
    return (shown, needed, HRESULTS["MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL"])


def _purge(service: QueueService, call: Call, request: Any) -> Any:
    """rpc_ACPurgeQueue: what receiving is allowed for is allowed here (MP-145)."""
    entry = find_open(call, request.h_queue)
    if isinstance(entry, RemoteProxy):
        return purge_remotely(service, call, request, entry)
    queue = entry.descriptor.require(RECEIVE_ACCESS, "purge the queue")
    service.manager.purge(queue, entry.caller, Done(call, request, (OK,), code_only))
    return PENDING


# ---- Opening for another queue manager (3.1.4.2 to 3.1.4.4) ----------------------------------------------------------


def _remote_failed(request: Any, code: int) -> Values:
    return (NULL_HANDLE, 0, 0, 0, code)


def _open_remote(service: QueueService, call: Call, request: Any) -> Values:
    """R_QMOpenRemoteQueue. The three DWORDs are one number, as [MS-MQQP] 3.1.4.1 and 3.1.4.3 compare them."""
    if request.p_queue_format is None:
        raise InvalidParameter("no queue was named", where="pQueueFormat")
    name = service.core.local.expand_dot(name_of(request.p_queue_format))
    access = access_of(request.dw_desired_access, READ_ACCESS)
    share = share_of(request.dw_share_mode)
    if isinstance(name, DistributionListName | MulticastName) or (isinstance(name, DirectName) and name.is_http):
        raise UnsupportedFormatNameOperation("this kind of name cannot be read", where=str(name),
                                             remedy="use DIRECT=OS:host\\queue or a PRIVATE= name")
    owner = Owner.of(call)
    service.hold(owner)
    try:
        descriptor = service.manager.open(name, access, share, caller=call.caller)
    except LiorError:
        service.let_go(owner)
        raise
    if isinstance(descriptor.queue, OutgoingQueue):
        service.manager.close(descriptor)
        service.let_go(owner)
        raise QueueNotFound("the queue is on another computer", where=str(name))
    descriptor.remote_read_state = RemoteReadState.OPENED
    number = service.numbers.free(service.remote_opened)
    entry = OpenRemote(number, descriptor, owner, Cursors(service.numbers, service.settings.max_cursors))
    service.remote_opened[number] = entry
    try:
        handle = call.group.handles.open(OPEN_REMOTE, entry, partial(_run_down_remote, service, entry), call.caller)
    except LiorError:
        service.close_remote_open(entry)
        raise
    return (handle, number, number, number, OK)


def _run_down_remote(service: QueueService, entry: OpenRemote) -> None:
    """3.1.4.3, 3.1.7.2: once the reader has come, the queue is open for it and not for this client."""
    if entry.descriptor.remote_read_state is RemoteReadState.OPENED:
        service.close_remote_open(entry)


def _close_remote(service: QueueService, call: Call, request: Any) -> Values:
    handles = call.group.handles
    entry = handles.find(request.pph_context, OPEN_REMOTE, call.caller)
    handles.close(request.pph_context)
    _run_down_remote(service, entry)
    return (NULL_HANDLE,)


def _create_remote_cursor(service: QueueService, call: Call, request: Any) -> Values:
    """R_QMCreateRemoteCursor. Its caller is the queue manager that reads, on another computer than who opened the
    queue: the number alone is not enough, so it must have the right to read, or be who opened it (MP-099)."""
    entry = service.remote_open(request.h_queue)
    if entry is None or entry.descriptor.closed:
        raise InvalidHandle("no queue was opened under this number", where="hQueue",
                            remedy="pass phQueue of R_QMOpenRemoteQueue")
    require_reader(service, call, entry)
    entry.cursors.require_room()
    entry.descriptor.require(PEEK_ACCESS, "open a cursor")
    return (entry.cursors.add(service.manager.open_cursor(entry.descriptor)), OK)


def require_reader(service: QueueService, call: Call, entry: OpenRemote) -> None:
    """Who may use a queue that was opened for remote reading: who opened it, its queue manager (the same computer),
    who reads it already, or whoever may read the queue anyway."""
    owner = Owner.of(call)
    if owner == entry.session_owner or (entry.session_owner is None and owner.host == entry.owner.host):
        return
    queue = entry.descriptor.live_queue()
    try:
        service.manager.access.check_open(call.caller, queue, entry.descriptor.access)
    except AccessDenied as error:
        raise AccessDenied("the queue was opened by another client", where=entry.descriptor.text,
                           remedy="open it with R_QMOpenRemoteQueue") from error


def _cursor_failed(request: Any, code: int) -> Values:
    return (0, code)


def _remote_queue_name(service: QueueService, call: Call, request: Any) -> Values:
    """R_QMGetRemoteQueueName is obsolete and raises (3.1.4.1)."""
    raise RpcFault(HRESULTS["MQ_ERROR_ILLEGAL_OPERATION"], "R_QMGetRemoteQueueName is obsolete")


def _raised(request: Any, code: int) -> Values:
    raise RpcFault(code)


METHODS: Final = {
    1: method(_remote_queue_name, _raised),
    2: method(_open_remote, _remote_failed, gated=False),
    3: method(_close_remote, lambda request, code: (NULL_HANDLE,), gated=False),
    4: method(_create_remote_cursor, _cursor_failed, gated=False),
    19: method(_open, not_opened),
    20: method(_close, _handle_failed),
    22: method(_close_cursor),
    23: method(_set_cursor_properties),
    26: method(_handle_to_format_name, _name_failed),
    27: method(_purge),
}
