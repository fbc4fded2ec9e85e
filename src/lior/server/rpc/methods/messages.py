"""qmcomm2: send, receive, cursors ([MS-MQMP] 3.1.5)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lior.errors import (
    HRESULTS,
    AccessDenied,
    IllegalCursorAction,
    InvalidParameter,
    LiorError,
    TransactionUsage,
    error_from_code,
)
from lior.message import Message
from lior.protocols.rpc.call import PENDING
from lior.protocols.rpc.faults import UNSPECIFIED, RpcFault
from lior.queues.change import Reply
from lior.queues.descriptor import PEEK_ONLY, SEND_ACCESS, Cursor, TwoPhaseRead
from lior.queues.transaction import Transaction
from lior.server.rpc.methods.answers import OK, Values, answer
from lior.server.rpc.methods.received_buffer import fill, not_received, receive_of, shortage
from lior.server.rpc.methods.remote_proxy import create_remote_cursor, receive_remotely
from lior.server.rpc.methods.send_stub import SendRequests, SendResponses, UsualSend
from lior.server.rpc.methods.sent_buffer import to_message
from lior.server.rpc.methods.service import Handler, QueueService, method
from lior.server.rpc.methods.tables import QUEUE, OpenQueue, RemoteProxy
from lior.wire.interfaces.structures import (
    MQ_ACTION_PEEK_CURRENT,
    MQ_ACTION_PEEK_NEXT,
    MQ_ACTION_RECEIVE,
    CACTransferBufferV2,
    Receive,
)
from lior.wire.rpc_interface import Interface, Method

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

log = logging.getLogger("lior.rpc")
ILLEGAL_OPERATION: Final = HRESULTS["MQ_ERROR_ILLEGAL_OPERATION"]


# ---- Send (3.1.5.2) --------------------------------------------------------------------------------------------------


def _not_sent(request: Any, code: int) -> Values:
    return (None, code)


class Sent:
    """The reply to a send: the answer goes out when the message is as safe as it asks to be."""

    __slots__ = ("_call", "_wants_identifier")

    def __init__(self, call: Call, wants_identifier: bool) -> None:
        self._call = call
        self._wants_identifier = wants_identifier

    def cancelled(self) -> bool:
        return False  # its client waits for it

    def set_result(self, value: Any, /) -> None:
        try:
            self._call.answer((value if self._wants_identifier else None, OK))
        except Exception as error:
            _defect(self._call, error)

    def set_exception(self, error: LiorError, /) -> None:
        try:
            self._call.answer((None, error.code))
        except Exception as error:
            _defect(self._call, error)


def _defect(call: Call, error: Exception) -> None:
    """Nothing may be raised into the queue manager's own steps, which would take it for a failure of theirs."""
    log.error("an answer could not be made", exc_info=error)
    call.fault(UNSPECIFIED)


def send_handler(service: QueueService) -> Handler:
    """rpc_ACSendMessageEx. This is the call that comes most often: nothing is made for it but the message and its
    reply."""
    send, engine, core = service.sending.send, service.engine, service.core
    local = core.local

    def handle(call: Call, request: Any) -> Any:
        caller = call.security.caller
        entry = call.association.group.handles.find(request.h_queue, QUEUE, caller)  # type: ignore[union-attr]
        try:
            if not core.properties.supporting_server:
                service.require_supporting_server(call)
            if not isinstance(entry, OpenQueue):
                raise AccessDenied("the queue was opened for remote reading", where=entry.format_name)
            descriptor = entry.descriptor
            if descriptor.access not in SEND_ACCESS:
                descriptor.require(SEND_ACCESS, "send")
            if type(request) is UsualSend:
                message, uow = request.message, request.uow
                reply = Sent(call, request.wants_identifier)
            else:
                ptb = request.ptb
                message, uow = to_message(ptb, entry.caller, entry.sender_sid, local, direct=entry.direct), ptb.p_uow
                if message.security is not None:
                    _decrypt_here(service, entry, ptb, message)
                reply = Sent(call, request.p_message_id is not None)
            transaction = None if uow is None else service.transaction_of(uow, call)
            if engine.crowded and transaction is None:
                engine.line_up(partial(_send_in_turn, service, entry, message, reply))
            else:
                send(descriptor, message, transaction, reply)
        except RpcFault:
            raise
        except LiorError as error:
            return None, error.code
        return PENDING

    return handle


def _send_in_turn(service: QueueService, entry: OpenQueue, message: Message, reply: Sent) -> None:
    """A producer who outruns the disk waits in line."""
    try:
        service.sending.send(entry.descriptor, message, None, reply)
    except LiorError as error:
        reply.set_exception(error)


def _decrypt_here(service: QueueService, entry: OpenQueue, ptb: CACTransferBufferV2, message: Message) -> None:
    """A body that was encrypted for this queue manager is stored clear; for another it goes on as it is (MP-160)."""
    security = message.security
    if security is None or not (ptb.b_encrypted and security.symmetric_key):
        return
    if not service.core.local.designates_me(entry.name):
        return
    now = service.core.clock.monotonic()
    clear = None if service.decrypt is None else service.decrypt(message, entry.descriptor.text, now)
    if clear is None:
        raise error_from_code(HRESULTS["MQ_ERROR_CORRUPTED_SECURITY_DATA"], "the body cannot be decrypted",
                              where="ppSymmKeys", remedy="encrypt the key with the public key of this queue manager")
    message.body = clear
    security.symmetric_key = b""


def _send_internal(service: QueueService, call: Call, request: Any) -> Values:
    """QMSendMessageInternalEx: opnum 1 never asks for it (3.1.5.1)."""
    return (None, ILLEGAL_OPERATION)


# ---- Receive and peek (3.1.5.3) --------------------------------------------------------------------------------------


class _Reading:
    """One receive or peek. It is the tag of its wait, and what a client that goes away cancels."""

    __slots__ = ("call", "cursor", "entry", "place", "request", "service", "transaction")

    def __init__(self, service: QueueService, call: Call, request: Any, entry: OpenQueue, cursor: Cursor | None,
                 transaction: Transaction | None) -> None:
        self.service = service
        self.call = call
        self.request = request
        self.entry = entry
        self.cursor = cursor
        self.transaction = transaction
        # where the cursor goes back to if the message does not fit
        self.place = None if cursor is None else (cursor.key, cursor.state)

    def cancel(self, call: Call) -> None:
        """Its client is gone or asks for it: a wait ends, and takes nothing with it."""
        queue = self.entry.descriptor.queue
        if queue is not None:
            self.service.manager.reading.cancel_quietly(queue, self)

    def go_back(self) -> None:
        """The message stays, so it must stay ahead of the cursor, or under it."""
        cursor = self.cursor
        if cursor is not None and self.place is not None:
            cursor.key, cursor.state = self.place

    def received(self, message: Message) -> None:
        ptb = self.request.ptb
        fill(ptb, message, self.service.core.clock.wall())
        self.call.answer((ptb, OK))

    def failed(self, code: int) -> None:
        self.call.answer(not_received(self.request, code))


class _Reply:
    """The reply of the queue manager to a read. `got` says what to do with what came."""

    __slots__ = ("_got", "_reading", "_takes")

    def __init__(self, reading: _Reading, got: Callable[[_Reading, Any], None], *, takes: bool) -> None:
        self._reading = reading
        self._got = got
        self._takes = takes

    def cancelled(self) -> bool:
        """A message that waits for its reader is not handed to one who is gone. Once it is taken, the answer goes."""
        return self._takes and self._reading.call.cancelled

    def set_result(self, value: Any, /) -> None:
        try:
            self._got(self._reading, value)
        except LiorError as error:
            self.set_exception(error)
        except Exception as error:
            _defect(self._reading.call, error)

    def set_exception(self, error: LiorError, /) -> None:
        code = error.code
        answer(self._reading.call, lambda: not_received(self._reading.request, code))


def _receive(service: QueueService, call: Call, request: Any) -> Any:
    """rpc_ACReceiveMessageEx"""
    ptb: CACTransferBufferV2 = request.ptb
    receive = receive_of(ptb)
    action = receive.action
    if action not in (MQ_ACTION_RECEIVE, MQ_ACTION_PEEK_CURRENT, MQ_ACTION_PEEK_NEXT):
        raise InvalidParameter(f"action 0x{action:08X}", where="Receive.Action",
                               remedy="use 0, 0x80000000 or 0x80000001")
    transaction = None if ptb.p_uow is None else service.transaction_of(ptb.p_uow, call)
    entry = service.opened_by(request.h_qm_context, call)
    if isinstance(entry, RemoteProxy):
        if transaction is not None:
            raise TransactionUsage("a queue of another computer is not read in a transaction", where=entry.format_name,
                                   remedy="receive without a transaction")
        return receive_remotely(service, call, request, entry)
    cursor = entry.cursors.find(receive.cursor) if receive.cursor else None
    reading = _Reading(service, call, request, entry, cursor, transaction)
    if action == MQ_ACTION_RECEIVE:
        return _take(reading, receive)
    return _peek(reading, receive)


def _take(reading: _Reading, receive: Receive) -> Any:
    descriptor, service = reading.entry.descriptor, reading.service
    if descriptor.access in PEEK_ONLY:
        raise AccessDenied("the queue was opened to peek", where=descriptor.text, remedy="open it to receive")
    reading.call.on_cancel = reading.cancel
    if reading.transaction is not None:
        service.manager.receive(
            descriptor, _Reply(reading, _taken_in_transaction, takes=True), timeout_ms=receive.request_timeout,
            cursor=reading.cursor, transaction=reading.transaction, tag=reading,
        )  # fmt: skip
    elif not _take_first(reading):
        service.manager.receive(
            descriptor, _Reply(reading, _taken, takes=True), timeout_ms=receive.request_timeout,
            cursor=reading.cursor, two_phase=True, tag=reading,
        )  # fmt: skip
    return PENDING


def _take_first(reading: _Reading) -> bool:
    """The usual receive: the first message is there, and whether it fits is seen before it leaves. False if not so."""
    descriptor, service = reading.entry.descriptor, reading.service
    queue = descriptor.queue
    if queue is None or reading.cursor is not None:
        return False
    first = queue.available.first()
    if first is None:
        return False
    position = queue.read_ahead(first, service.core.store)
    code = shortage(reading.request.ptb, position.message)
    if code:
        reading.failed(code)
        return True
    service.manager.receive(descriptor, _Reply(reading, _Reading.received, takes=False), timeout_ms=0)
    return True


def _taken(reading: _Reading, read: TwoPhaseRead) -> None:
    """A message is locked for this reader: see whether it fits, then take it or give it back (MP-169)."""
    code = shortage(reading.request.ptb, read.message)
    manager = reading.service.manager
    if code or reading.call.cancelled:
        reading.go_back()
        manager.receive_end(read, _Ignore(), delete=False)
        reading.failed(code or HRESULTS["MQ_ERROR_OPERATION_CANCELLED"])
        return
    end = _Reply(reading, lambda reading, _: reading.received(read.message), takes=False)
    manager.receive_end(read, end, delete=True)


def _taken_in_transaction(reading: _Reading, message: Message) -> None:
    code = shortage(reading.request.ptb, message)
    transaction = reading.transaction
    assert transaction is not None
    if code or reading.call.cancelled:
        reading.go_back()
        position = reading.entry.descriptor.live_queue().positions[message.lookup_identifier]
        reading.service.manager.transactions.give_back(transaction, position)
        reading.failed(code or HRESULTS["MQ_ERROR_OPERATION_CANCELLED"])
        return
    reading.received(message)


def _peek(reading: _Reading, receive: Receive) -> Any:
    manager, descriptor = reading.service.manager, reading.entry.descriptor
    reply: Reply = _Reply(reading, _peeked, takes=True)
    timeout = receive.request_timeout
    reading.call.on_cancel = reading.cancel
    if receive.action == MQ_ACTION_PEEK_NEXT:
        cursor = reading.cursor
        if cursor is None:
            raise IllegalCursorAction("the next message is that of a cursor", where=descriptor.text,
                                      remedy="peek the current message with a cursor first")
        manager.peek_next(descriptor, reply, cursor=cursor, timeout_ms=timeout, tag=reading)
    else:
        manager.peek(descriptor, reply, cursor=reading.cursor, timeout_ms=timeout, tag=reading)
    return PENDING


def _peeked(reading: _Reading, message: Message) -> None:
    code = shortage(reading.request.ptb, message)
    if code:
        reading.go_back()  # the next try shows the same message
        reading.failed(code)
        return
    fill(reading.request.ptb, message, reading.service.core.clock.wall())
    reading.call.answer((reading.request.ptb, OK))


class _Ignore:
    def cancelled(self) -> bool:
        return False

    def set_result(self, value: Any, /) -> None:
        pass

    def set_exception(self, error: LiorError, /) -> None:
        log.warning("a message that was not taken could not be given back: %s", error)


# ---- Cursors (3.1.5.4) -----------------------------------------------------------------------------------------------


def _no_cursor(request: Any, code: int) -> Values:
    return (request.pcc, code)


def _create_cursor(service: QueueService, call: Call, request: Any) -> Any:
    entry = call.group.handles.find(request.h_queue, QUEUE, call.caller)
    pcc = request.pcc
    if isinstance(entry, RemoteProxy):
        return create_remote_cursor(service, call, request, entry)
    entry.cursors.require_room()
    entry.descriptor.live_queue()
    pcc.h_cursor = entry.cursors.add(service.manager.open_cursor(entry.descriptor))
    return (pcc, OK)


def usual_sends(qmcomm2: Interface) -> Interface:
    """The interface as a server registers it: with the codecs for the sends that come most often."""
    general = qmcomm2.methods[1]
    quick: Any = Method(1, general.name, SendRequests(general.request), SendResponses(general.response))  # type: ignore[arg-type]
    return replace(qmcomm2, methods={**qmcomm2.methods, 1: quick})


METHODS: Final = {
    0: method(_send_internal, _not_sent),
    1: send_handler,
    2: method(_receive, not_received),
    3: method(_create_cursor, _no_cursor),
}
