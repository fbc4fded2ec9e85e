"""RemoteRead for many messages at a time: the usual R_StartReceive and R_EndReceive that came together.

Usual is a receive of the first message, without a cursor, and the word that it has arrived. What a batch handler does
for a run of them is what `remote_read` would do for each; it stops at the first that is not usual.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from lior.errors import LiorError
from lior.protocols.rpc.faults import UNSPECIFIED, RpcFault
from lior.queues.descriptor import TwoPhaseRead
from lior.server.rpc.methods.answers import OK
from lior.server.rpc.methods.packets import SEQUENCE
from lior.server.rpc.methods.qm2qm import ACK, RECEIVE
from lior.server.rpc.methods.quick_reads import END_RECEIVE, START_RECEIVE, started_stub, whole_packet
from lior.server.rpc.methods.remote_read import Opened, Pending, find
from lior.server.rpc.methods.service import QueueService
from lior.wire.ndr import NDR

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

log = logging.getLogger("lior.rpc")

Batch = Callable[[Sequence["Call"], int], int]
MOST: Final = 64


def read_batches(service: QueueService) -> dict[int, Batch]:
    return {START_RECEIVE: _starts(service), END_RECEIVE: _ends(service)}


def _opened(call: Call) -> Opened | None:
    try:
        return find(call, call.request.ph_context) if call.context.syntax is NDR else None
    except RpcFault:
        return None


def _starts(service: QueueService) -> Batch:
    def start(calls: Sequence[Call], at: int) -> int:
        first = calls[at]
        opened = _opened(first)
        if opened is None:
            return at
        context, security, presentation = first.request.ph_context, first.security, first.context
        known, numbers = opened.pending, set()
        for call in calls[at : at + MOST]:
            request = call.request
            number = request.dw_request_id
            if (
                request.ul_action != RECEIVE or request.lookup_id or request.h_cursor or number in known
                or number in numbers or request.ph_context != context or call.security is not security
                or call.context is not presentation or call.cancelled
            ):  # fmt: skip
                break
            numbers.add(number)
        reads = service.manager.receive_first(opened.descriptor, len(numbers)) if numbers else []
        if reads:
            _hand_out(service, opened, calls[at : at + len(reads)], reads)
        return at + len(reads)

    return start


def _hand_out(service: QueueService, opened: Opened, calls: Sequence[Call], reads: Sequence[TwoPhaseRead]) -> None:
    identifier, subqueue, known = service.core.properties.identifier, opened.subqueue, opened.pending
    handed: list[Pending] = []
    unusual: list[tuple[Pending, TwoPhaseRead]] = []
    for call, read in zip(calls, reads, strict=True):
        request, position = call.request, read.position
        message = position.message
        pending = Pending(service, call, request, opened, None, None)
        known[request.dw_request_id] = pending
        packet = b""
        if request.dw_max_body_size >= len(message.body):
            try:
                packet = whole_packet(
                    message, identifier, subqueue,
                    (position.abort_count, position.move_count, position.last_move_time),
                )  # fmt: skip
            except Exception:  # the general way says what is wrong, and puts it back
                packet = b""
        if not packet:
            unusual.append((pending, read))
            continue
        pending.read, pending.position = read, position
        handed.append(pending)
        stub = started_stub(int(position.arrival_time) & 0xFFFFFFFF, position.lookup_id & SEQUENCE, packet)
        call.association.host.answer_stub(call, stub)
    if handed:
        service.handed_out.add_all(handed)
    for pending, read in unusual:
        pending.set_result(read)


def _ends(service: QueueService) -> Batch:
    def end(calls: Sequence[Call], at: int) -> int:
        first = calls[at]
        opened = _opened(first)
        if opened is None:
            return at
        context, security, presentation = first.request.ph_context, first.security, first.context
        found: dict[int, Pending] = {}
        reads: list[TwoPhaseRead] = []
        for call in calls[at : at + MOST]:
            request = call.request
            number = request.dw_request_id
            pending = opened.pending.get(number)
            if (
                pending is None or pending.read is None or request.dw_ack != ACK or number in found
                or request.ph_context != context or call.security is not security or call.context is not presentation
            ):  # fmt: skip
                break
            found[number] = pending
            reads.append(pending.read)
        if not reads or not service.manager.receive_end_all(reads, calls[at : at + len(reads)], _told):
            return at
        for pending in found.values():
            pending.forget()
        return at + len(reads)

    return end


_OK: Final = OK.to_bytes(4, "little")


def _told(calls: Sequence[Any], reads: Sequence[Any], error: LiorError | None) -> None:
    """Their messages are gone, on disk; or they are not. Nothing may be raised into the queue manager's own steps."""
    stub = _OK if error is None else error.code.to_bytes(4, "little")
    for call in calls:
        try:
            call.association.host.answer_stub(call, stub)
        except Exception:
            log.exception("an answer could not be made")
            call.fault(UNSPECIFIED)
