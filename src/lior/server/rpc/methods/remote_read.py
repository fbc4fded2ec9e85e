"""RemoteRead: how other queue managers read queues here ([MS-MQRR] 3.1.4).

A receive has two steps: R_StartReceive hands the message out and keeps it locked, R_EndReceive says whether it arrived.
Without that word it goes back after a while, or when the client is gone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lior.errors import (
    HRESULTS,
    InvalidHandle,
    InvalidParameter,
    LiorError,
    MessageNotFound,
    QueueNotFound,
    TransactionUsage,
    error_from_code,
)
from lior.message import Message
from lior.names import ConnectorName, DirectName, DistributionListName, MulticastName, SingleName
from lior.protocols.rpc.call import PENDING
from lior.protocols.rpc.faults import RpcFault
from lior.queues.descriptor import (
    RECEIVE_ACCESS,
    Cursor,
    OpenQueueDescriptor,
    QueueAccessType,
    TwoPhaseRead,
)
from lior.queues.outgoing import OutgoingQueue
from lior.queues.position import Position
from lior.queues.transaction import Transaction
from lior.server.rpc.methods.answers import OK, Done, Values, answer, code_only
from lior.server.rpc.methods.machine import IP_HANDSHAKE, port_of
from lior.server.rpc.methods.packets import FULL_PACKET, Section, sections, sequence_of
from lior.server.rpc.methods.qm2qm import ACK, LOOKUPS, PEEK_CURRENT, PEEK_NEXT, RECEIVE, give_back
from lior.server.rpc.methods.queues import READ_ACCESS, access_of, share_of
from lior.server.rpc.methods.quick_reads import whole_packet
from lior.server.rpc.methods.service import QueueService, method, name_of
from lior.server.rpc.methods.tables import NULL_HANDLE, QUEUE_CONTEXT, Cursors, Owner, uow_of
from lior.wire.interfaces.remote_read import SectionBuffer

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

STATUS_INVALID_HANDLE: Final = 0xC0000008
STATUS_INVALID_PARAMETER: Final = 0xC000000D
STATUS_ACCESS_DENIED: Final = 0xC0000022
REJECTED: Final = 0xC004  # MQMSG_CLASS_NACK_RECEIVE_REJECTED
MOVE: Final = QueueAccessType.MOVE


class Opened:
    """What a QUEUE_CONTEXT_HANDLE stands for, with its part of the PendingRequestTable (3.1.1.3)."""

    __slots__ = ("closed", "cursors", "descriptor", "move_context", "owner", "pending", "subqueue")

    def __init__(self, descriptor: OpenQueueDescriptor, owner: Owner, cursors: Cursors, subqueue: str) -> None:
        self.descriptor = descriptor
        self.owner = owner
        self.cursors = cursors
        self.subqueue = subqueue
        self.pending: dict[int, Pending] = {}  # by dwRequestId
        self.move_context = 0
        self.closed = False


class Pending:
    """PendingRequestEntry (3.1.1.2): a read that waits, or a message that was handed out. It is the tag of its wait and
    the reply of the queue manager."""

    __slots__ = ("call", "cursor", "opened", "place", "position", "read", "request", "service", "transaction")

    def __init__(self, service: QueueService, call: Call, request: Any, opened: Opened, cursor: Cursor | None,
                 transaction: Transaction | None) -> None:
        self.service = service
        self.call = call
        self.request = request
        self.opened = opened
        self.cursor = cursor
        self.transaction = transaction
        self.place = None if cursor is None else (cursor.key, cursor.state)
        self.read: TwoPhaseRead | None = None
        self.position: Position | None = None  # of a message that was handed out

    @property
    def number(self) -> int:
        return int(self.request.dw_request_id)

    def keep(self) -> None:
        self.opened.pending[self.number] = self
        self.call.on_cancel = self.cancel

    def forget(self) -> None:
        self.service.handed_out.discard(self)
        if self.opened.pending.get(self.number) is self:
            del self.opened.pending[self.number]

    def cancel(self, call: Call | None) -> None:
        """Its client is gone, or gives the call up."""
        queue = self.opened.descriptor.queue
        if queue is not None:
            self.service.manager.reading.cancel_quietly(queue, self)

    # The queue manager's reply

    def cancelled(self) -> bool:
        return self.call.cancelled

    def set_result(self, value: Any, /) -> None:
        answer(self.call, lambda: self._handed(value))

    def set_exception(self, error: LiorError, /) -> None:
        self.forget()
        code = error.code
        answer(self.call, lambda: read_failed(self.request, code))

    def _handed(self, value: TwoPhaseRead | Message) -> Values:
        if isinstance(value, TwoPhaseRead):
            self.read, self.position, message = value, value.position, value.message
        else:
            message = value
            if self.transaction is not None:
                self.position = self.opened.descriptor.live_queue().positions[message.lookup_identifier]
        try:
            parts = self._sections(message)
        except LiorError:  # a queue takes what no packet has a place for, a response queue that is no name, say
            self.put_back()
            return read_failed(self.request, HRESULTS["MQ_ERROR_UNSUPPORTED_OPERATION"])
        except Exception:
            self.put_back()
            raise
        if self.call.cancelled and self.position is not None:
            self.put_back()
            return read_failed(self.request, HRESULTS["MQ_ERROR_OPERATION_CANCELLED"])
        if self.position is not None:
            self.opened.pending[self.number] = self
            self.service.handed_out.add(self)
        else:
            self.forget()
        arrived = int(message.arrival_time) & 0xFFFFFFFF
        return (arrived, sequence_of(message), len(parts), tuple(map(_buffer, parts)), OK)

    def _sections(self, message: Message) -> list[Section]:
        request, subqueue = self.request, self.opened.subqueue
        most = request.dw_max_body_size
        identifier = self.service.core.properties.identifier
        if most >= len(message.body):
            whole = whole_packet(message, identifier, subqueue)
            if whole:
                return [Section(FULL_PACKET, len(whole), whole)]
        return sections(message, identifier, most, request.dw_max_compound_message_size, subqueue)

    def put_back(self) -> None:
        """3.1.5.1, or a message that could not be handed over: it stays in the queue."""
        self.forget()
        if self.cursor is not None and self.place is not None and not self.opened.closed:
            self.cursor.key, self.cursor.state = self.place
        if self.read is not None:
            give_back(self.service, self.read)
        elif self.transaction is not None and self.position is not None:
            self.service.manager.transactions.give_back(self.transaction, self.position)


def _buffer(section: Section) -> SectionBuffer:
    return SectionBuffer(section.type, section.allocated, len(section.data), section.data)


def read_failed(request: Any, code: int) -> Values:
    return (0, 0, 0, None, code)


# ---- Opening and closing (3.1.4.2, 3.1.4.3, 3.1.4.11) ----------------------------------------------------------------


def _raised(request: Any, code: int) -> Values:
    """These methods throw their HRESULT."""
    raise RpcFault(code)


def _name(service: QueueService, queue_format: Any) -> SingleName:
    name = service.core.local.expand_dot(name_of(queue_format))
    if isinstance(name, DistributionListName | MulticastName | ConnectorName) or (
        isinstance(name, DirectName) and name.protocol not in ("TCP", "OS")
    ):
        raise InvalidParameter("a queue is named by PUBLIC, PRIVATE, MACHINE, DIRECT=OS or DIRECT=TCP",
                               where="pQueueFormat")
    return name


def _opened(service: QueueService, call: Call, name: SingleName, access: QueueAccessType, share: int) -> Opened:
    owner = Owner.of(call)
    service.hold(owner)
    try:
        descriptor = service.manager.open(name, access, share_of(share), caller=call.caller)
    except LiorError:
        service.let_go(owner)
        raise
    if isinstance(descriptor.queue, OutgoingQueue):
        service.manager.close(descriptor)
        service.let_go(owner)
        raise QueueNotFound("the queue is on another computer", where=str(name))
    subqueue = name.subqueue if isinstance(name, DirectName) else ""
    return Opened(descriptor, owner, Cursors(service.numbers, service.settings.max_cursors), subqueue)


def _handle(service: QueueService, call: Call, opened: Opened) -> bytes:
    try:
        return call.group.handles.open(QUEUE_CONTEXT, opened, partial(close_opened, service, opened), call.caller)
    except LiorError:
        close_opened(service, opened)
        raise


def close_opened(service: QueueService, opened: Opened) -> None:
    """3.1.4.3, 3.1.6.1, 3.1.6.2: waits end, what was handed out goes back, cursors go."""
    if opened.closed:
        return
    opened.closed = True
    service.move_targets.pop(opened.move_context, None)
    service.let_go(opened.owner)
    if not opened.descriptor.closed:
        service.manager.close(opened.descriptor)  # waits first, or they would take what goes back
    for pending in list(opened.pending.values()):
        pending.put_back()


def _open(service: QueueService, call: Call, request: Any) -> Values:
    try:
        access = access_of(request.dw_access, READ_ACCESS)
        name = _name(service, request.p_queue_format)
    except LiorError as error:
        raise InvalidParameter(error.what, where=error.where, remedy=error.remedy) from error
    return (_handle(service, call, _opened(service, call, name, access, request.dw_share_mode)),)


def _open_for_move(service: QueueService, call: Call, request: Any) -> Values:
    if request.dw_access != MOVE or request.dw_share_mode:
        raise InvalidParameter("access 4 and share mode 0 open a queue to move to", where="dwAccess")
    opened = _opened(service, call, _name(service, request.p_queue_format), MOVE, 0)
    handle = _handle(service, call, opened)
    opened.move_context = service.numbers.free(service.move_targets) << 32 | service.numbers.free(())
    service.move_targets[opened.move_context] = opened
    return (opened.move_context, handle)


def find(call: Call, handle: bytes) -> Opened:
    opened: Opened = call.group.handles.find(handle, QUEUE_CONTEXT, call.caller)
    return opened


def _close_failed(request: Any, code: int) -> Values:
    return (request.pph_context, code)


def _close(service: QueueService, call: Call, request: Any) -> Values:
    opened = find(call, request.pph_context)
    call.group.handles.close(request.pph_context)
    close_opened(service, opened)
    return (NULL_HANDLE, OK)


# ---- Cursors, purging ------------------------------------------------------------------------------------------------


def _cursor_failed(request: Any, code: int) -> Values:
    return (0, code)


def _create_cursor(service: QueueService, call: Call, request: Any) -> Values:
    opened = find(call, request.ph_context)
    opened.cursors.require_room()
    opened.descriptor.live_queue()
    return (opened.cursors.add(service.manager.open_cursor(opened.descriptor)), OK)


def _close_cursor(service: QueueService, call: Call, request: Any) -> Values:
    opened = find(call, request.ph_context)
    service.manager.close_cursor(opened.cursors.take(request.h_cursor))
    return (OK,)


def _purge(service: QueueService, call: Call, request: Any) -> Any:
    descriptor = find(call, request.ph_context).descriptor
    if descriptor.access not in RECEIVE_ACCESS:
        raise error_from_code(STATUS_ACCESS_DENIED, "the queue was opened to peek", where=descriptor.text)
    service.manager.purge(descriptor.live_queue(), descriptor.caller, Done(call, request, (OK,), code_only))
    return PENDING


# ---- Reading (3.1.4.7 to 3.1.4.9, 3.1.4.13, 3.1.4.15) ----------------------------------------------------------------


def _check(request: Any) -> None:
    """What may stand together (3.1.4.7): a lookup identifier, a cursor, or neither."""
    action = request.ul_action
    if action in LOOKUPS:
        wrong = not request.lookup_id or request.h_cursor or request.ul_timeout
    elif action in (RECEIVE, PEEK_CURRENT, PEEK_NEXT):
        wrong = request.lookup_id or (action == PEEK_NEXT and not request.h_cursor)
    else:
        raise InvalidParameter(f"action 0x{action:08X}", where="ulAction")
    if wrong:
        raise InvalidParameter("lookup identifier, cursor, time-out and action do not fit", where="ulAction",
                               remedy="see [MS-MQRR] 3.1.4.7")


def _start(service: QueueService, call: Call, request: Any, transaction: Transaction | None) -> Any:
    opened = find(call, request.ph_context)
    if request.dw_request_id in opened.pending:
        raise InvalidParameter(f"request {request.dw_request_id} is under way", where="dwRequestId",
                               remedy="use a number of its own for each request")
    cursor = None
    if request.h_cursor:
        try:
            cursor = opened.cursors.find(request.h_cursor)
        except InvalidHandle as error:
            raise error_from_code(STATUS_INVALID_HANDLE, error.what, where=error.where) from None
    manager, descriptor, action = service.manager, opened.descriptor, request.ul_action
    pending = Pending(service, call, request, opened, cursor, transaction)
    pending.keep()
    two_phase = transaction is None
    try:
        if action in LOOKUPS:
            peek, seek = LOOKUPS[action]
            manager.read_by_lookup(descriptor, pending, lookup_id=request.lookup_id, action=seek, peek=peek,
                                   transaction=transaction, two_phase=two_phase and not peek)
        elif action == RECEIVE:
            manager.receive(descriptor, pending, timeout_ms=request.ul_timeout, cursor=cursor,
                            transaction=transaction, two_phase=two_phase, tag=pending)
        elif action == PEEK_NEXT and cursor is not None:
            manager.peek_next(descriptor, pending, cursor=cursor, timeout_ms=request.ul_timeout, tag=pending)
        else:
            manager.peek(descriptor, pending, timeout_ms=request.ul_timeout, cursor=cursor, tag=pending)
    except LiorError:
        pending.forget()
        raise
    return PENDING


def _start_receive(service: QueueService, call: Call, request: Any) -> Any:
    _check(request)
    return _start(service, call, request, None)


def _start_transactional(service: QueueService, call: Call, request: Any) -> Any:
    """R_StartTransactionalReceive. The document makes a transaction of a unit of work that it does not know, which
    nobody could end: that would keep the message for ever, so it is refused (docs/spec-notes.md)."""
    _check(request)
    uow = uow_of(request.p_transaction_id) if request.p_transaction_id is not None else None
    if uow is None or uow.int == 0:
        return _start(service, call, request, None)
    descriptor = find(call, request.ph_context).descriptor
    action = request.ul_action
    if not descriptor.live_queue().transactional or (action in LOOKUPS and LOOKUPS[action][0]) or action in (
            PEEK_CURRENT, PEEK_NEXT):  # fmt: skip
        raise TransactionUsage("messages of transactional queues are received in transactions, and none is peeked",
                               where=descriptor.text)
    return _start(service, call, request, service.transaction_of(uow, call))


def _taken_out(call: Call, request: Any) -> Pending:
    """The message that was handed out under this number."""
    opened = find(call, request.ph_context)
    if not opened.pending:
        raise InvalidHandle("nothing was handed out from this queue", where="phContext")
    pending = opened.pending.get(request.dw_request_id)
    if pending is None or pending.position is None:
        raise InvalidParameter(f"no message was handed out under {request.dw_request_id}", where="dwRequestId")
    return pending


def _end(service: QueueService, call: Call, request: Any) -> Any:
    pending = _taken_out(call, request)
    if pending.read is None:
        raise InvalidParameter("the receive was transactional", where="dwRequestId",
                               remedy="call R_EndTransactionalReceive")
    pending.forget()
    if request.dw_ack != ACK:
        pending.put_back()
        return (OK,)
    service.manager.receive_end(pending.read, Done(call, request, (OK,), code_only), delete=True)
    return PENDING


def _end_transactional(service: QueueService, call: Call, request: Any) -> Any:
    """The message leaves with its transaction; without the acknowledgement it goes back and the transaction goes on."""
    pending = _taken_out(call, request)
    if pending.transaction is None:
        return _end(service, call, request)
    pending.forget()
    if request.dw_ack != ACK:
        pending.put_back()
    return (OK,)


def _cancel(service: QueueService, call: Call, request: Any) -> Values:
    """R_CancelReceive: the call that waits is answered with MQ_ERROR_OPERATION_CANCELLED."""
    opened = find(call, request.ph_context)
    pending = opened.pending.get(request.dw_request_id)
    if pending is None or pending.position is not None:
        raise InvalidParameter(f"no read waits under {request.dw_request_id}", where="dwRequestId")
    service.manager.cancel(opened.descriptor.live_queue(), pending)
    return (OK,)


# ---- Moving, rejecting, transactions of a coordinator (3.1.4.10, 3.1.4.12, 3.1.4.14) ---------------------------------


def _move(service: QueueService, call: Call, request: Any) -> Any:
    source = find(call, request.ph_context_from).descriptor
    target = service.move_targets.get(request.ull_context_to)
    if target is None or target.owner != Owner.of(call) or target.descriptor.closed:
        raise InvalidHandle("no queue was opened to move to under this number", where="ullContextTo",
                            remedy="call R_OpenQueueForMove first")
    uow = uow_of(request.p_transaction_id)
    transaction = None
    if uow.int:
        if not target.descriptor.live_queue().transactional:
            raise TransactionUsage("the queue is not transactional", where=target.descriptor.text)
        transaction = service.transaction_of(uow, call)
    if source.live_queue().main is not target.descriptor.live_queue().main or source.queue is target.descriptor.queue:
        raise error_from_code(STATUS_INVALID_PARAMETER, "messages move between a queue and its subqueues",
                              where=target.descriptor.text)
    service.manager.move(source, request.lookup_id, target.descriptor, Done(call, request, (OK,), code_only),
                         transaction)
    return PENDING


def _enlist(service: QueueService, call: Call, request: Any) -> Values:
    """R_QMEnlistRemoteTransaction needs a coordinator, as R_QMEnlistTransaction does."""
    if service.coordinator is None:
        raise error_from_code(HRESULTS["MQ_ERROR_DTC_CONNECT"], "no transaction coordinator is configured",
                              where="MS DTC", remedy="use an internal transaction")
    raise error_from_code(HRESULTS["MQ_ERROR_TRANSACTION_ENLIST"], "propagation tokens are not understood here",
                          where="pbPropagationToken", remedy="enlist with R_QMEnlistTransaction")


def _set_class(service: QueueService, call: Call, request: Any) -> Any:
    """R_SetUserAcknowledgementClass: the message that the transaction received is refused."""
    descriptor = find(call, request.ph_context).descriptor
    if request.us_class not in (0, REJECTED):
        raise InvalidParameter(f"class 0x{request.us_class:04X}", where="usClass", remedy="use 0 or 0xC004")
    queue = descriptor.live_queue()
    if request.lookup_id not in queue:
        raise MessageNotFound(f"no message has the lookup id {request.lookup_id}", where=descriptor.text)
    position = queue.positions.get(request.lookup_id)
    owner = None if position is None else position.owner
    if not isinstance(owner, Transaction):
        raise TransactionUsage("the message was not received in a transaction", where=descriptor.text)
    service.transaction_of(owner.identifier, call)
    if request.us_class == 0:
        return (OK,)
    service.manager.reject(descriptor, request.lookup_id, owner, Done(call, request, (OK,), code_only))
    return PENDING


def _port(service: QueueService, call: Call, request: Any) -> Values:
    return (port_of(service, IP_HANDSHAKE),)


METHODS: Final = {
    0: method(_port, lambda request, code: (0,), gated=False),
    2: method(_open, _raised, gated=False),
    3: method(_close, _close_failed, gated=False),
    4: method(_create_cursor, _cursor_failed, gated=False),
    5: method(_close_cursor, gated=False),
    6: method(_purge, gated=False),
    7: method(_start_receive, read_failed, gated=False),
    8: method(_cancel, gated=False),
    9: method(_end, gated=False),
    10: method(_move, gated=False),
    11: method(_open_for_move, _raised, gated=False),
    12: method(_enlist, gated=False),
    13: method(_start_transactional, read_failed, gated=False),
    14: method(_set_class, gated=False),
    15: method(_end_transactional, gated=False),
}
