"""rpc_ACSendMessageEx for many messages at a time: the usual ones that came together, to one queue.

What the batch handler does for a run of them is what `send_handler` would do for each; it stops at the first that is
not usual.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from lior.errors import LiorError
from lior.protocols.rpc.faults import UNSPECIFIED, RpcFault
from lior.queues.position import Position
from lior.server.rpc.methods.answers import OK
from lior.server.rpc.methods.send_stub import UsualSend, identified
from lior.server.rpc.methods.service import QueueService
from lior.server.rpc.methods.tables import QUEUE, OpenQueue
from lior.wire.ndr import NDR

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

log = logging.getLogger("lior.rpc")

SEND_MESSAGE: Final = 1
MOST: Final = 64


def send_batches(service: QueueService) -> dict[int, Callable[[Sequence[Call], int], int]]:
    core, engine, manager = service.core, service.engine, service.manager

    def send(calls: Sequence[Call], at: int) -> int:
        first = calls[at]
        if type(first.request) is not UsualSend or not core.properties.supporting_server or engine.crowded \
                or first.context.syntax is not NDR:
            return at
        handle, security, presentation = first.request.h_queue, first.security, first.context
        try:
            entry = first.group.handles.find(handle, QUEUE, security.caller)
        except RpcFault:
            return at
        if not isinstance(entry, OpenQueue):
            return at
        run: list[Call] = []
        for call in calls[at : at + MOST]:
            request = call.request
            if type(request) is not UsualSend or request.uow is not None or request.h_queue != handle \
                    or not request.wants_identifier or call.security is not security \
                    or call.context is not presentation:  # fmt: skip
                break
            run.append(call)
        if not run or not manager.send_all(entry.descriptor, [call.request.message for call in run], run, _sent):
            return at
        return at + len(run)

    return {SEND_MESSAGE: send}


def _sent(calls: Sequence[Call], positions: Sequence[Position], error: LiorError | None) -> None:
    """They are as safe as they ask to be; or they are not there. Nothing may be raised into the queue manager's own
    steps."""
    for call, position in zip(calls, positions, strict=True):
        try:
            identifier = position.message.identifier
            if error is None and identifier is not None:
                call.association.host.answer_stub(call, identified(identifier, OK))
            elif error is not None:
                call.answer((None, error.code))
        except Exception:
            log.exception("an answer could not be made")
            call.fault(UNSPECIFIED)

