"""qmcomm: private queues as objects, created, changed, asked and deleted ([MS-MQMP] 3.1.4.5 to 3.1.4.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lior.errors import (
    HRESULTS,
    AccessDenied,
    IllegalQueuePathname,
    IllegalSecurityDescriptor,
    InvalidParameter,
    PropertyNotAllowed,
    QueueNotFound,
    error_from_code,
)
from lior.names import PathKind, PathName, PrivateName, QueueFormatType, parse_path_name, to_queue_format
from lior.names.grammar import QueueSuffix
from lior.protocols.rpc.call import PENDING
from lior.queues.access import rights_to_change
from lior.queues.definition import QueueType
from lior.queues.events import AccessAudited
from lior.queues.queue import Queue
from lior.security import Caller, QueueAccess, SecurityDescriptor, SecurityInformation
from lior.server.properties import queue_properties_from, queue_values, set_queue_values
from lior.server.rpc.methods.answers import OK, Done, Then, Values, code_only
from lior.server.rpc.methods.service import QueueService, method
from lior.wire.dtyp import decode_security_descriptor, encode_security_descriptor
from lior.wire.interfaces.structures import ObjectFormat
from lior.wire.property_tables import PROPERTIES, ObjectClass
from lior.wire.propvariant import VT_LPWSTR, VT_NULL, PropVariant

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

QUEUE_OBJECT: Final = 1
PATHNAME: Final = 103
# The columns of 3.1.1.12
CREATE: Final = frozenset({102, 103, 104, 105, 106, 107, 108, 111, 112, 113, 125})
SET: Final = frozenset({102, 104, 105, 106, 107, 108, 111, 112, 125})
GET: Final = frozenset({101, *range(102, 114), 124, 125, 126})
INFORMATION: Final = 0x0F  # SECURITY_INFORMATION ([MS-MQMQ] 2.2.3)
SACL: Final = int(SecurityInformation.SACL)


def _pairs(a_prop: Any, ap_var: Any, allowed: frozenset[int]) -> list[tuple[int, PropVariant]]:
    """Only the identifiers that 3.1.1.12 has for the method, and both arrays as long as they say."""
    if not a_prop or not ap_var or len(a_prop) != len(ap_var):
        raise InvalidParameter("the arrays of identifiers and values differ in length", where="cp")
    for propid in a_prop:
        if propid not in allowed:
            raise PropertyNotAllowed(f"property {propid} has no place in this call", where=f"PROPID {propid}",
                                     remedy="see docs/properties.md for the identifiers")
    return list(zip(a_prop, ap_var, strict=True))


def _object_of(request: Any) -> Any:
    """pQueueFormat of an OBJECT_FORMAT; ObjType 2 is local-only and does not decode."""
    queue_format = request.p_object_format.p_queue_format
    if queue_format is None:
        raise InvalidParameter("no QUEUE_FORMAT was given", where="pObjectFormat.pQueueFormat")
    return queue_format


# ---- Create (3.1.4.5) and delete (3.1.4.8) ---------------------------------------------------------------------------


def _create(service: QueueService, call: Call, request: Any) -> Any:
    if request.dw_object_type != QUEUE_OBJECT:
        raise InvalidParameter(f"object type {request.dw_object_type}", where="dwObjectType", remedy="use 1")
    path = _own_private_path(service, request.lpwcs_path_name)
    descriptor = _descriptor(request) if request.p_security_descriptor is not None else None
    pairs = _pairs(request.a_prop, request.ap_var, CREATE)
    given = dict(pairs).get(PATHNAME)
    if given is None:
        pairs.append((PATHNAME, PropVariant(VT_LPWSTR, request.lpwcs_path_name)))
    elif given.vt == VT_LPWSTR and given.value is not None and service.core.local.own_path(
            parse_path_name(given.value)) != path:  # fmt: skip
        raise IllegalQueuePathname("PROPID_Q_PATHNAME is another path", where=str(given.value),
                                   remedy="give the same path twice")
    new = queue_properties_from(pairs)
    properties = new.properties if descriptor is None else new.properties.changed(security=descriptor)
    service.manager.create_queue(path, properties, call.caller, Done(call, request, (OK,), code_only))
    return PENDING


def _own_private_path(service: QueueService, text: str) -> PathName:
    path = service.core.local.expand_dot(parse_path_name(text))
    ordinary = path.kind is PathKind.PRIVATE and not path.subqueue and path.suffix is QueueSuffix.NONE
    if not ordinary or not service.core.local.is_local(path.computer):
        raise IllegalQueuePathname("not a private queue of this computer", where=text,
                                   remedy=r"write .\private$\name")
    return service.core.local.own_path(path)


def _descriptor(request: Any) -> SecurityDescriptor:
    return decode_security_descriptor(bytes(request.p_security_descriptor))


def _delete(service: QueueService, call: Call, request: Any) -> Any:
    queue = service.queue_of(_object_of(request))
    service.manager.delete_queue(queue, call.caller, Done(call, request, (OK,), code_only))
    return PENDING


# ---- Security (3.1.4.6, 3.1.4.7) -------------------------------------------------------------------------------------


def _set_security(service: QueueService, call: Call, request: Any) -> Any:
    queue = service.queue_of(_object_of(request))
    information = _information(request.security_information)
    if request.p_security_descriptor is None:
        raise IllegalSecurityDescriptor("no security descriptor", where="pSecurityDescriptor")
    descriptor = _descriptor(request)
    caller = call.caller
    if information & SACL and not caller.is_administrator:
        raise error_from_code(HRESULTS["MQ_ERROR_PRIVILEGE_NOT_HELD"], "audit lists are for administrators",
                              where="SecurityInformation", remedy="leave the SACL out")
    _check_owner(caller, descriptor, information)

    def changed(_: Any) -> Values:
        service.core.emit(AccessAudited(caller, queue.name, rights_to_change(information), 0))
        return (OK,)

    service.manager.set_queue_security(queue, information, descriptor, caller, Then(call, request, changed, code_only))
    return PENDING


def _check_owner(caller: Caller, descriptor: SecurityDescriptor, information: int) -> None:
    if not information & SecurityInformation.OWNER:
        return
    if descriptor.owner is None or not caller.may_own(descriptor.owner):
        raise error_from_code(HRESULTS["MQ_ERROR_INVALID_OWNER"], "the caller may not make that one the owner",
                              where="pSecurityDescriptor", remedy="name yourself, or ask an administrator")


def _information(value: int) -> int:
    if not value or value & ~INFORMATION:
        raise InvalidParameter(f"security information 0x{value:X}", where="SecurityInformation",
                               remedy="use the bits 1, 2, 4 and 8")
    return value


def _no_security(request: Any, code: int) -> Values:
    return (b"", 0, code)


def _get_security(service: QueueService, call: Call, request: Any) -> Values:
    """Every part that was asked for, though the text chains the bits with "Else If" (MP-107)."""
    queue = service.queue_of(_object_of(request))
    information = _information(request.requested_information)
    if information & SACL and not call.caller.is_administrator:
        raise error_from_code(HRESULTS["MQ_ERROR_PRIVILEGE_NOT_HELD"], "audit lists are for administrators",
                              where="RequestedInformation", remedy="ask without the SACL")
    descriptor = service.manager.administration.get_security(queue, information, call.caller)
    data = encode_security_descriptor(descriptor)
    if len(data) > request.n_length:
        return (b"", len(data), HRESULTS["MQ_ERROR_SECURITY_DESCRIPTOR_TOO_SMALL"])
    return (data, len(data), OK)


# ---- Properties (3.1.4.9, 3.1.4.10) ----------------------------------------------------------------------------------


def _properties_failed(request: Any, code: int) -> Values:
    """The array is [in,out]: it goes back as it came."""
    return (request.ap_var, code)


def _get_properties(service: QueueService, call: Call, request: Any) -> Values:
    queue = service.queue_of(_object_of(request))
    pairs = _pairs(request.a_prop, request.ap_var, GET)
    table = PROPERTIES[ObjectClass.QUEUE]
    for propid, variant in pairs:
        if variant.vt not in (VT_NULL, table[propid].vt):
            raise error_from_code(HRESULTS["MQ_ERROR_PROPERTY"], f"{variant.type_name} for {table[propid].name}",
                                  where=table[propid].name, remedy="ask with VT_NULL")
    service.manager.access.check_queue(call.caller, queue, QueueAccess.GET_QUEUE_PROPERTIES)
    values = queue_values(service.manager, queue, [propid for propid, _ in pairs])
    return (tuple(values[propid] for propid, _ in pairs), OK)


def _set_properties(service: QueueService, call: Call, request: Any) -> Any:
    """All or nothing: everything is checked before anything changes."""
    queue = service.queue_of(_object_of(request))
    pairs = _pairs(request.a_prop, request.ap_var, SET)
    table = PROPERTIES[ObjectClass.QUEUE]
    for propid, variant in pairs:
        if variant.vt != table[propid].vt:
            raise error_from_code(HRESULTS["MQ_ERROR_PROPERTY"], f"{variant.type_name} for {table[propid].name}",
                                  where=table[propid].name, remedy=f"give it as {table[propid].type_name}")
    set_queue_values(service.manager, queue, pairs, call.caller, Done(call, request, (OK,), code_only))
    return PENDING


# ---- Names (3.1.4.11) ------------------------------------------------------------------------------------------------


def _format_failed(request: Any, code: int) -> Values:
    return (request.p_object_format, code)


def _path_to_format(service: QueueService, call: Call, request: Any) -> Values:
    """R_QMObjectPathToObjectFormat. Who may not see the queue learns nothing of it (MP-116)."""
    if _object_of(request).format_type is not QueueFormatType.UNKNOWN:
        raise InvalidParameter("the QUEUE_FORMAT is to be filled", where="pObjectFormat", remedy="pass type 0")
    path = service.core.local.expand_dot(parse_path_name(request.lpwcs_path_name))
    if path.kind is PathKind.PUBLIC:
        raise error_from_code(HRESULTS["MQ_ERROR_UNSUPPORTED_OPERATION"],
                              "public queues are published in a directory service, and this queue manager has none",
                              where=str(path), remedy="use a private queue")
    queue = _visible(service, call, path)
    if queue is None:
        raise QueueNotFound("there is no such queue here", where=str(path), remedy="see: lior queue list")
    name = PrivateName(service.core.properties.identifier, queue.private_number)
    return (ObjectFormat(p_queue_format=to_queue_format(name)), OK)


def _visible(service: QueueService, call: Call, path: PathName) -> Queue | None:
    if not service.core.local.is_local(path.computer):
        return None
    queue = service.manager.routing.by_path(path)
    if queue is None or queue.deleted or queue.kind is not QueueType.PRIVATE:
        return None
    try:
        service.manager.access.check_queue(call.caller, queue, QueueAccess.GET_QUEUE_PROPERTIES)
    except AccessDenied:
        return None
    return queue


METHODS: Final = {
    6: method(_create),
    7: method(_set_security),
    8: method(_get_security, _no_security),
    9: method(_delete),
    10: method(_get_properties, _properties_failed),
    11: method(_set_properties),
    12: method(_path_to_format, _format_failed),
}
