"""qmmgmt: what monitoring asks and what an operator does ([MS-MQMR] 3.1.4)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from lior.errors import (
    AccessDenied,
    IllegalPropertyId,
    InvalidParameter,
    LiorError,
    UnsupportedOperation,
)
from lior.names import MultipleName
from lior.protocols.rpc.call import PENDING
from lior.queues.definition import QueueType
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue
from lior.security import QueueAccess, QueueManagerAccess
from lior.server.properties import management_machine_values, management_queue_values
from lior.server.rpc.methods.answers import OK, Done, Values, answer, code_only
from lior.server.rpc.methods.service import QueueService, method, name_of
from lior.wire.interfaces.management import MGMT_MACHINE, MGMT_QUEUE
from lior.wire.property_tables import PROPERTIES, ObjectClass

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

WHERE: Final = "lpwszAction"


def _info_failed(request: Any, code: int) -> Values:
    """The values are [in,out]: they go back as they came."""
    return (request.ap_var, code)


def _queue(service: QueueService, mgmt_object: Any) -> Queue:
    name = service.core.local.expand_dot(name_of(mgmt_object.object.p_queue_format))
    if isinstance(name, MultipleName):
        raise InvalidParameter("one queue at a time", where="pQueueFormat")
    return service.manager.find_queue(name)


def _get_info(service: QueueService, call: Call, request: Any) -> Values:
    """R_QMMgmtGetInfo. Reading figures is no reading of messages, so the right to read properties is enough; the
    document opens the queue to receive, which would refuse monitoring where another reader is alone."""
    subject, access = request.p_object_format, service.manager.access
    propids = list(request.a_prop)
    if len(propids) != len(request.ap_var):
        raise InvalidParameter("the arrays of identifiers and values differ in length", where="cp")
    if subject.type == MGMT_MACHINE:
        _require_known(ObjectClass.MANAGEMENT_MACHINE, propids)
        access.check_manager(call.caller, QueueManagerAccess.GET_PROPERTIES, "queue manager")
        values = management_machine_values(service.manager, propids)
    elif subject.type == MGMT_QUEUE:
        _require_known(ObjectClass.MANAGEMENT_QUEUE, propids)
        queue = _queue(service, subject)
        if isinstance(queue, OutgoingQueue) or queue.kind is QueueType.SYSTEM:
            access.check_manager(call.caller, QueueManagerAccess.GET_PROPERTIES, queue.name)
        else:
            access.check_queue(call.caller, queue, QueueAccess.GET_QUEUE_PROPERTIES)
        values = management_queue_values(service.manager, queue, propids)
    else:
        raise InvalidParameter(f"management object of type {subject.type}", where="pObjectFormat",
                               remedy="use 1 for the queue manager, 2 for a queue")
    return (tuple(values[propid] for propid in propids), OK)


def _require_known(object_class: ObjectClass, propids: list[int]) -> None:
    table = PROPERTIES[object_class]
    for propid in propids:
        if propid not in table:
            raise IllegalPropertyId(f"{object_class.value.lower()} objects have no property {propid}",
                                    where=f"PROPID {propid}", remedy="see docs/properties.md for the identifiers")


def _action(service: QueueService, call: Call, request: Any) -> Any:
    """R_QMMgmtAction"""
    subject = request.p_object_format
    action = request.lpwsz_action.upper()
    done = Done(call, request, (OK,), code_only)
    manager = service.manager
    if subject.type == MGMT_MACHINE and action in ("CONNECT", "DISCONNECT"):
        manager.set_online(action == "CONNECT", call.caller, done)
    elif subject.type == MGMT_MACHINE and action == "TIDY":
        _tidy(service, call)
    elif subject.type == MGMT_QUEUE and action in ("PAUSE", "RESUME", "EOD_RESEND"):
        queue = _queue(service, subject)
        if not isinstance(queue, OutgoingQueue):
            raise UnsupportedOperation("only outgoing queues are paused, resumed and sent again", where=queue.name)
        if action == "PAUSE":
            manager.administration.pause(queue, call.caller, done)
        elif action == "RESUME":
            manager.administration.resume(queue, call.caller, done)
        else:
            manager.access.check_manager(call.caller, QueueManagerAccess.SET_PROPERTIES, queue.name)
            service.resend(queue)
            return (OK,)
    else:
        raise InvalidParameter(f"{request.lpwsz_action!r} is no action of this object", where=WHERE,
                               remedy="CONNECT, DISCONNECT, TIDY; PAUSE, RESUME, EOD_RESEND")
    return PENDING


def _tidy(service: QueueService, call: Call) -> None:
    """Give room back to the disk. 3.1.4.2 has it purge every queue, which is not what its own table says the action
    is for, and would lose every message (docs/spec-notes.md)."""
    if not call.caller.is_administrator:
        raise AccessDenied("this is for administrators of the queue manager", where=WHERE)
    if service.compact is None:
        raise UnsupportedOperation("the store of this queue manager is not compacted", where=WHERE)
    task = service.start(service.compact())
    task.add_done_callback(lambda done: answer(call, lambda: (_code(done),)))


def _code(task: asyncio.Task[Any]) -> int:
    error = None if task.cancelled() else task.exception()
    if error is None:
        return OK
    return error.code if isinstance(error, LiorError) else 0xC00E0001


METHODS: Final = {0: method(_get_info, _info_failed, gated=False), 1: method(_action, gated=False)}
