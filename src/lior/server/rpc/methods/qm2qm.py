"""qm2qm: how other queue managers read queues here, in the older way ([MS-MQQP] 3.1.4).

A client opens the queue with R_QMOpenRemoteQueue; its queue manager comes with RemoteQMOpenQueue and the number that
the client was given. From then on the numbers in these calls belong to that queue manager.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lior.errors import HRESULTS, InvalidHandle, InvalidParameter, LiorError, error_from_code
from lior.message import Message
from lior.protocols.rpc.call import PENDING
from lior.protocols.rpc.faults import RpcFault
from lior.queues.descriptor import (
    RECEIVE_ACCESS,
    Cursor,
    MessageSeekAction,
    RemoteReadState,
    TwoPhaseRead,
)
from lior.server.rpc.methods.answers import OK, Done, Values, answer, code_only
from lior.server.rpc.methods.machine import port_of
from lior.server.rpc.methods.packets import sequence_of, user_message_packet
from lior.server.rpc.methods.queues import require_reader
from lior.server.rpc.methods.service import QueueService, method
from lior.server.rpc.methods.tables import NULL_HANDLE, REMOTE_READ, SESSION, OpenRemote, Owner

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

STATUS_INVALID_PARAMETER: Final = 0xC000000D
REMOTE_CANCELED_BY_CLIENT: Final = 0x400E03E9  # MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT
MQ_ERROR: Final = HRESULTS["MQ_ERROR"]
NACK, ACK = 1, 2
RETURNED_BY_SERVER: Final = 1  # REMOTEREADDESC.Reserved
VERSION: Final = (6, 1, 7601)  # what RemoteQmGetVersion answers

RECEIVE, PEEK_CURRENT, PEEK_NEXT = 0x00000000, 0x80000000, 0x80000001
# Actions by lookup identifier: (peek, where from)
LOOKUPS: Final = {
    0x40000010: (True, MessageSeekAction.CURRENT), 0x40000011: (True, MessageSeekAction.NEXT),
    0x40000012: (True, MessageSeekAction.PREVIOUS), 0x40000020: (False, MessageSeekAction.CURRENT),
    0x40000021: (False, MessageSeekAction.NEXT), 0x40000022: (False, MessageSeekAction.PREVIOUS),
}  # fmt: skip
LAST: Final = 0xFFFFFFFFFFFFFFFF


def seek_of(action: int, lookup_id: int) -> tuple[bool, MessageSeekAction]:
    """0 is before the first message, and all ones behind the last ([MS-MQQP] 3.1.4.11)."""
    if action not in LOOKUPS:
        raise InvalidParameter(f"action 0x{action:08X}", where="ulAction")
    peek, seek = LOOKUPS[action]
    if seek is MessageSeekAction.NEXT and lookup_id == 0:
        return peek, MessageSeekAction.FIRST
    if seek is MessageSeekAction.PREVIOUS and lookup_id == LAST:
        return peek, MessageSeekAction.LAST
    if lookup_id == 0:
        raise InvalidParameter("no lookup identifier", where="LookupId", remedy="name a message")
    return peek, seek


# ---- Sessions --------------------------------------------------------------------------------------------------------


def _open_failed(request: Any, code: int) -> Values:
    return (NULL_HANDLE, code)


def _open(service: QueueService, call: Call, request: Any) -> Values:
    """RemoteQMOpenQueue. The queue is ready for reading now, so the client's own handle may go (MP-080)."""
    number = request.dwp_context
    if not request.p_queue or not number or request.p_queue != number:
        raise InvalidParameter("pQueue and dwpContext are to be the same number", where="dwpContext")
    entry = service.remote_open(number)
    if entry is None or entry.descriptor.closed or entry.session_owner is not None:
        raise InvalidParameter("no queue was opened under this number", where="dwpContext",
                               remedy="call R_QMOpenRemoteQueue first")
    require_reader(service, call, entry)
    handle = call.group.handles.open(SESSION, entry, partial(close_session, service, entry), call.caller)
    entry.session_owner = Owner.of(call)
    entry.descriptor.remote_read_state = RemoteReadState.READY_FOR_READ
    return (handle, OK)


def close_session(service: QueueService, entry: OpenRemote) -> None:
    """3.1.4.4, 3.1.6.1: reads that wait end, what was handed out goes back."""
    service.close_remote_open(entry)


def _close(service: QueueService, call: Call, request: Any) -> Values:
    handles = call.group.handles
    entry = handles.find(request.pph_context, SESSION, call.caller)
    handles.close(request.pph_context)
    close_session(service, entry)
    return (NULL_HANDLE, OK)


def _session(service: QueueService, call: Call, number: int, error: type[LiorError] = InvalidParameter) -> OpenRemote:
    """The queue behind the number, for the queue manager that opened the session."""
    entry = service.remote_open(number)
    if entry is None or entry.session_owner is None or entry.session_owner != Owner.of(call):
        raise error("no session has a queue under this number", where="hRemoteQueue",
                    remedy="call RemoteQMOpenQueue first")
    return entry


# ---- Reading ---------------------------------------------------------------------------------------------------------


class _Read:
    """RemoteReadEntry (3.1.1.2): a read that waits; the tag of its wait."""

    __slots__ = ("call", "cursor", "cut_short", "desc", "entry", "extra", "place", "request", "service")

    def __init__(self, service: QueueService, call: Call, entry: OpenRemote, request: Any, desc: Any, extra: Any,
                 cursor: Cursor | None) -> None:
        self.service = service
        self.call = call
        self.entry = entry
        self.request = request
        self.desc = desc
        self.extra = extra  # the REMOTEREADDESC2 around it, if it came in one
        self.cursor = cursor
        self.place = None if cursor is None else (cursor.key, cursor.state)
        self.cut_short = 0  # what RemoteQMCancelReceive has it answer

    @property
    def waits(self) -> bool:
        return self.entry.reads.get(self.desc.dw_request_id) is self

    def start(self) -> None:
        self.entry.reads[self.desc.dw_request_id] = self
        self.call.on_cancel = self.cancel

    def over(self) -> None:
        if self.waits:
            del self.entry.reads[self.desc.dw_request_id]

    def cancel(self, call: Call | None) -> None:
        queue = self.entry.descriptor.queue
        if queue is not None:
            self.service.manager.reading.cancel_quietly(queue, self)

    # The queue manager's reply

    def cancelled(self) -> bool:
        return self.call.cancelled

    def set_result(self, value: Any, /) -> None:
        self.over()
        answer(self.call, lambda: self._handed(value))

    def set_exception(self, error: LiorError, /) -> None:
        self.over()
        code = self.cut_short or error.code
        answer(self.call, lambda: _read_failed(self.request, code))

    def _handed(self, value: TwoPhaseRead | Message) -> Values:
        """The packet and, of a receive, the handle to end it with. If it cannot be handed over it goes back."""
        read = value if isinstance(value, TwoPhaseRead) else None
        message = value.message if isinstance(value, TwoPhaseRead) else value
        try:
            packet = user_message_packet(message, self.service.core.properties.identifier)
            handle = NULL_HANDLE
            if read is not None:
                handles = self.call.group.handles
                handle = handles.open(REMOTE_READ, read, partial(give_back, self.service, read), self.call.caller)
        except LiorError:  # a queue takes what no packet has a place for, a response queue that is no name, say
            if read is not None:
                self._return(read)
            return _read_failed(self.request, HRESULTS["MQ_ERROR_UNSUPPORTED_OPERATION"])
        except Exception:
            if read is not None:
                self._return(read)
            raise
        if read is not None and self.call.cancelled:
            self.call.group.handles.close(handle)
            self._return(read)
            return _read_failed(self.request, HRESULTS["MQ_ERROR_OPERATION_CANCELLED"])
        desc = self.desc
        desc.lp_buffer, desc.dw_size = packet, len(packet)
        desc.dw_arrive_time = int(message.arrival_time) & 0xFFFFFFFF
        desc.reserved = RETURNED_BY_SERVER
        if self.extra is not None:
            self.extra.sequential_id = sequence_of(message)
            return (handle, self.extra, OK)
        return (handle, desc, OK)

    def _return(self, read: TwoPhaseRead) -> None:
        if self.cursor is not None and self.place is not None:
            self.cursor.key, self.cursor.state = self.place
        give_back(self.service, read)


def give_back(service: QueueService, read: TwoPhaseRead) -> None:
    """3.1.6.2: as RemoteQMEndReceive with a negative acknowledgement."""
    if read.handle in service.manager.reading.two_phase:
        service.manager.receive_end(read, _Nobody(), delete=False)


class _Nobody:
    def cancelled(self) -> bool:
        return False

    def set_result(self, value: Any, /) -> None:
        pass

    def set_exception(self, error: LiorError, /) -> None:
        pass


def _read_failed(request: Any, code: int) -> Values:
    """Nothing is handed out, and nothing of the server's goes back."""
    whole = getattr(request, "lp_remote_read_desc", None)
    if whole is None:
        whole = request.lp_remote_read_desc2
    desc = getattr(whole, "p_remote_read_desc", whole)
    if desc is not None:
        desc.lp_buffer, desc.dw_size = None, 0
    return (NULL_HANDLE, whole, code)


def _checked(service: QueueService, call: Call, desc: Any) -> OpenRemote:
    if not desc.dw_queue or desc.dw_queue != desc.h_remote_queue:
        raise InvalidParameter("dwQueue and hRemoteQueue are to be the same number", where="dwQueue")
    entry = _session(service, call, desc.h_remote_queue)
    if desc.dw_request_id in entry.reads:
        raise InvalidParameter(f"request {desc.dw_request_id} waits already", where="dwRequestID",
                               remedy="use a number of its own for each request")
    return entry


def _start(service: QueueService, call: Call, request: Any, desc: Any, extra: Any) -> Any:
    """RemoteQMStartReceive, RemoteQMStartReceive2"""
    if not desc.h_cursor and desc.ul_action == PEEK_NEXT and desc.dw_queue and desc.dw_queue == desc.h_remote_queue:
        raise error_from_code(STATUS_INVALID_PARAMETER, "the next message is that of a cursor", where="hCursor")
    entry = _checked(service, call, desc)
    if desc.ul_action not in (RECEIVE, PEEK_CURRENT, PEEK_NEXT):
        raise InvalidParameter(f"action 0x{desc.ul_action:08X}", where="ulAction")
    cursor = None
    if desc.h_cursor:
        try:
            cursor = entry.cursors.find(desc.h_cursor)
        except InvalidHandle as error:
            raise error_from_code(STATUS_INVALID_PARAMETER, error.what, where=error.where) from None
    read = _Read(service, call, entry, request, desc, extra, cursor)
    manager, descriptor, timeout = service.manager, entry.descriptor, desc.ul_timeout
    read.start()
    try:
        if desc.ul_action == RECEIVE:
            manager.receive(descriptor, read, timeout_ms=timeout, cursor=cursor, two_phase=True, tag=read)
        elif desc.ul_action == PEEK_NEXT and cursor is not None:
            manager.peek_next(descriptor, read, cursor=cursor, timeout_ms=timeout, tag=read)
        else:
            manager.peek(descriptor, read, timeout_ms=timeout, cursor=cursor, tag=read)
    except LiorError:
        read.over()
        raise
    return PENDING


def _start_receive(service: QueueService, call: Call, request: Any) -> Any:
    return _start(service, call, request, request.lp_remote_read_desc, None)


def _inner(request: Any) -> tuple[Any, Any]:
    whole = request.lp_remote_read_desc2
    if whole.p_remote_read_desc is None:
        raise InvalidHandle("no REMOTEREADDESC", where="pRemoteReadDesc")
    return whole.p_remote_read_desc, whole


def _start_receive2(service: QueueService, call: Call, request: Any) -> Any:
    desc, whole = _inner(request)
    return _start(service, call, request, desc, whole)


def _start_receive_by_lookup(service: QueueService, call: Call, request: Any) -> Any:
    desc, whole = _inner(request)
    if not desc.h_remote_queue or desc.ul_timeout or desc.h_cursor:
        raise InvalidParameter("a read by lookup identifier has no cursor and does not wait", where="lpRemoteReadDesc2")
    entry = _session(service, call, desc.h_remote_queue)
    peek, seek = seek_of(desc.ul_action, request.lookup_id)
    read = _Read(service, call, entry, request, desc, whole, None)
    service.manager.read_by_lookup(entry.descriptor, read, lookup_id=request.lookup_id, action=seek, peek=peek,
                                   two_phase=not peek)
    return PENDING


def _end_failed(request: Any, code: int) -> Values:
    return (NULL_HANDLE, code)


def _end(service: QueueService, call: Call, request: Any) -> Any:
    """RemoteQMEndReceive: the message is gone with an acknowledgement, back without."""
    handles = call.group.handles
    read: TwoPhaseRead = handles.find(request.pph_context, REMOTE_READ, call.caller)
    handles.close(request.pph_context)
    service.manager.receive_end(read, Done(call, request, (NULL_HANDLE, OK), _end_failed), delete=request.dw_ack == ACK)
    return PENDING


def _cancel(service: QueueService, call: Call, request: Any) -> Values:
    """RemoteQMCancelReceive: the waiting call is answered as cancelled, the message stays."""
    if not request.p_queue or request.p_queue != request.h_queue:
        raise InvalidParameter("pQueue and hQueue are to be the same number", where="pQueue")
    entry = _session(service, call, request.h_queue, InvalidHandle)
    if not entry.reads:
        raise InvalidHandle("no read waits at this queue", where="hQueue")
    read = entry.reads.get(request.dw_request_id)
    if not isinstance(read, _Read):
        raise error_from_code(MQ_ERROR, "no read has this number", where="dwRequestID")
    read.cut_short = REMOTE_CANCELED_BY_CLIENT
    service.manager.cancel(entry.descriptor.live_queue(), read)
    return (OK,)


# ---- Cursors, purging, the server ------------------------------------------------------------------------------------


def _close_cursor(service: QueueService, call: Call, request: Any) -> Values:
    entry = _session(service, call, request.h_queue, InvalidHandle)
    service.manager.close_cursor(entry.cursors.take(request.h_cursor))
    return (OK,)


def _purge(service: QueueService, call: Call, request: Any) -> Any:
    """RemoteQMPurgeQueue: for who opened the queue to receive, though the text does not say so."""
    entry = _session(service, call, request.h_queue, InvalidHandle)
    queue = entry.descriptor.require(RECEIVE_ACCESS, "purge the queue")
    service.manager.purge(queue, entry.descriptor.caller, Done(call, request, (OK,), code_only))
    return PENDING


def _port(service: QueueService, call: Call, request: Any) -> Values:
    return (port_of(service, request.dw_port_type),)


def _version(service: QueueService, call: Call, request: Any) -> Values:
    return VERSION


def _raised(request: Any, code: int) -> Values:
    raise RpcFault(code)


METHODS: Final = {
    0: method(_start_receive, _read_failed, gated=False),
    1: method(_end, _end_failed, gated=False),
    2: method(_open, _open_failed, gated=False),
    3: method(_close, _end_failed, gated=False),
    4: method(_close_cursor, gated=False),
    5: method(_cancel, gated=False),
    6: method(_purge, gated=False),
    7: method(_port, lambda request, code: (0,), gated=False),
    8: method(_version, _raised, gated=False),
    9: method(_start_receive2, _read_failed, gated=False),
    10: method(_start_receive_by_lookup, _read_failed, gated=False),
}
