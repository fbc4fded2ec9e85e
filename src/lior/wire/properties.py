"""Property sets: which identifiers a class has, and whether a caller may set them so ([MS-MQMQ] 2.3, 2.4).

The tables are in `property_tables`, the rules for values in `property_rules`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from uuid import UUID

from lior.errors import (
    HRESULTS,
    IllegalPropertyId,
    IllegalPropertyType,
    InsufficientProperties,
    PropertyNotAllowed,
    TooManyProperties,
    error_from_code,
)
from lior.wire.property_tables import IGNORED, MQ_OK, PROPERTIES, UNSUPPORTED, Access, ObjectClass, Property
from lior.wire.propvariant import VT_CLSID, VT_EMPTY, VT_I4, VT_LPWSTR, VT_NULL, PropVariant, Value

MAX_PROPERTIES: Final = 128  # MQ_ERROR_TOO_MANY_PROPERTIES
DUPLICATE: Final = HRESULTS["MQ_INFORMATION_DUPLICATE_PROPERTY"]
_EMPTY_SETS: Final[dict[ObjectClass, int]] = {
    ObjectClass.QUEUE: HRESULTS["MQ_ERROR_ILLEGAL_MQQUEUEPROPS"],
    ObjectClass.MACHINE: HRESULTS["MQ_ERROR_ILLEGAL_MQQMPROPS"],
}
Values = Mapping[int, PropVariant] | Sequence[tuple[int, PropVariant]]


def property_of(object_class: ObjectClass, propid: int) -> Property:
    """The property of that identifier in that class: 3 is one thing for a machine and another for a queue."""
    entry = PROPERTIES[object_class].get(propid)
    if entry is None:
        raise IllegalPropertyId(f"{object_class.value.lower()} objects have no property {propid}",
                                where=f"PROPID {propid}", remedy="see docs/properties.md for the identifiers")
    return entry


def check_value(entry: Property, variant: PropVariant) -> None:
    """Raises unless the value is one that the property may have, given or answered; an answer may be VT_NULL."""
    if variant.vt == VT_NULL and entry.access is Access.GET:
        return
    if variant.vt != entry.vt:
        raise IllegalPropertyType(f"{variant.type_name} where {entry.type_name} belongs", where=entry.name,
                                  remedy=f"give the value as {entry.type_name}")
    variant.check()
    if entry.status != MQ_OK:
        return  # dropped anyway, and some must not be interpreted
    if variant.value is None and entry.vt in (VT_LPWSTR, VT_CLSID):
        raise error_from_code(HRESULTS["MQ_ERROR_ILLEGAL_PROPERTY_VALUE"], "a NULL pointer is no value",
                              where=entry.name, remedy=f"give a value of type {entry.type_name}")
    if entry.rule is not None:
        entry.rule.check(variant.value, entry.name)


@dataclass(frozen=True, slots=True)
class CheckedSet:
    """A property set that may be applied: what to apply, and a code for each place of the caller's array."""

    accepted: dict[int, PropVariant]
    statuses: tuple[int, ...]


def check_properties(object_class: ObjectClass, values: Values, creating: bool) -> CheckedSet:
    """Checks a whole set before anything is applied; of an identifier given twice the first counts.

    At creation the caller adds what came beside the array, the path name above all, before it asks.
    """
    pairs = list(values.items() if isinstance(values, Mapping) else values)
    if len(pairs) > MAX_PROPERTIES:
        raise TooManyProperties(f"{len(pairs)} properties in one call", where=object_class.value,
                                remedy=f"give at most {MAX_PROPERTIES}")
    accepted: dict[int, PropVariant] = {}
    seen: set[int] = set()
    statuses: list[int] = []
    for propid, variant in pairs:
        entry = property_of(object_class, propid)
        if propid in seen:
            statuses.append(DUPLICATE)
            continue
        seen.add(propid)
        _check_access(entry, creating)
        check_value(entry, variant)
        statuses.append(entry.status)
        if entry.status == MQ_OK:
            accepted[propid] = variant
    _check_whole(object_class, accepted, creating, bool(pairs))
    return CheckedSet(accepted, tuple(statuses))


def check_set(object_class: ObjectClass, values: Values, creating: bool) -> dict[int, int]:
    """As check_properties; the codes of those properties that were not simply taken, by identifier."""
    checked = check_properties(object_class, values, creating)
    propids = list(values) if isinstance(values, Mapping) else [propid for propid, _ in values]
    return {propid: status for propid, status in zip(propids, checked.statuses, strict=True) if status != MQ_OK}


def check_get(object_class: ObjectClass, propids: Iterable[int], types: Iterable[int] = ()) -> tuple[int, ...]:
    """Codes for a property query. `types` are the VARTYPEs that came with it: each the property's own, or VT_NULL.

    [MS-MQMP] 3.1.4.9 answers a query although some identifiers in it are unknown or repeated.
    """
    wanted, given = list(propids), list(types)
    if len(wanted) > MAX_PROPERTIES:
        raise TooManyProperties(f"{len(wanted)} properties in one call", where=object_class.value,
                                remedy=f"ask for at most {MAX_PROPERTIES}")
    table = PROPERTIES[object_class]
    seen: set[int] = set()
    statuses: list[int] = []
    for index, propid in enumerate(wanted):
        entry = table.get(propid)
        if entry is None:
            statuses.append(UNSUPPORTED)
            continue
        vt = given[index] if index < len(given) else VT_NULL
        if vt not in (entry.vt, VT_NULL, VT_EMPTY):
            raise IllegalPropertyType(f"VARTYPE 0x{vt:04X} where {entry.type_name} belongs", where=entry.name,
                                      remedy="ask with VT_NULL or the type of the property")
        statuses.append(DUPLICATE if propid in seen else MQ_OK)
        seen.add(propid)
    return tuple(statuses)


def _check_access(entry: Property, creating: bool) -> None:
    allowed = (Access.CREATE, Access.BOTH) if creating else (Access.SET, Access.BOTH)
    if entry.access not in allowed:
        moment = "at creation" if creating else "on an object that exists"
        raise PropertyNotAllowed(f"cannot be set {moment}: settable {entry.access.value}", where=entry.name,
                                 remedy="leave it out")


def _check_whole(object_class: ObjectClass, accepted: dict[int, PropVariant], creating: bool, any_given: bool) -> None:
    if creating:
        for entry in PROPERTIES[object_class].values():
            if entry.required and entry.propid not in accepted:
                raise InsufficientProperties(f"{entry.name} is needed to create the object", where=object_class.value,
                                             remedy=f"give {entry.name}")
    if not any_given and not creating:
        raise error_from_code(_EMPTY_SETS.get(object_class, HRESULTS["MQ_ERROR_INSUFFICIENT_PROPERTIES"]),
                              "no properties given", where=object_class.value, remedy="give at least one")
    if object_class is ObjectClass.QUEUE and _value(accepted, 113) == 1 and _value(accepted, 125):
        raise error_from_code(HRESULTS["MQ_ERROR_PROPERTIES_CONFLICT"],
                              "a transactional queue cannot listen to a multicast address",
                              where="PROPID_Q_MULTICAST_ADDRESS", remedy="leave out one of the two")


def _value(accepted: dict[int, PropVariant], propid: int) -> Value:
    return accepted[propid].value if propid in accepted else None


def time_value(seconds: float) -> PropVariant:
    """A time in unix seconds as VT_I4. After January 2038 it goes on as an unsigned number in the same 32 bits."""
    low = int(seconds) & 0xFFFFFFFF
    return PropVariant(VT_I4, low - (low >> 31 << 32))


def time_of(variant: PropVariant) -> int:
    """The unix seconds of such a value; no queue was created before 1970."""
    return int(variant.value) & 0xFFFFFFFF


# ---- management strings and numbers ---------------------------------------------------------------------------------


class ConnectedState(StrEnum):
    """PROPID_MGMT_MSMQ_CONNECTED ([MS-MQMQ] 2.3.11.4)."""

    MSMQ_CONNECTED = "CONNECTED"
    MSMQ_DISCONNECTED = "DISCONNECTED"


class QueueType(StrEnum):
    """PROPID_MGMT_QUEUE_TYPE ([MS-MQMQ] 2.3.12.3)."""

    PUBLIC = "PUBLIC"
    PRIVATE = "PRIVATE"
    MACHINE = "MACHINE"
    CONNECTOR = "CONNECTOR"
    MULTICAST = "MULTICAST"


class QueueLocation(StrEnum):
    """PROPID_MGMT_QUEUE_LOCATION ([MS-MQMQ] 2.3.12.4)."""

    LOCAL = "LOCAL"
    REMOTE = "REMOTE"


class ThreeValued(StrEnum):
    """PROPID_MGMT_QUEUE_XACT and PROPID_MGMT_QUEUE_FOREIGN ([MS-MQMQ] 2.3.12.5, 2.3.12.6)."""

    UNKNOWN = "UNKNOWN"
    YES = "YES"
    NO = "NO"


class QueueState(StrEnum):
    """PROPID_MGMT_QUEUE_STATE ([MS-MQMQ] 2.3.12.11); LOCKED is of [MS-MQMR]."""

    LOCAL = "LOCAL CONNECTION"
    NONACTIVE = "INACTIVE"
    WAITING = "WAITING"
    NEED_VALIDATE = "NEED VALIDATION"
    ONHOLD = "ONHOLD"
    CONNECTED = "CONNECTED"
    DISCONNECTING = "DISCONNECTING"
    DISCONNECTED = "DISCONNECTED"
    LOCKED = "LOCKED"


class ConnectionStatus(IntEnum):
    """The first column of PROPID_MGMT_QUEUE_CONNECTION_HISTORY ([MS-MQMQ] 2.3.12.25)."""

    IN_PROGRESS = 0x00000000
    ESTABLISH_PACKET_RECEIVED = 0x00000001
    READY = 0x00000002
    UNKNOWN_FAILURE = 0x80000000
    PING_FAILURE = 0x80000001
    CREATE_SOCKET_FAILURE = 0x80000002
    BIND_SOCKET_FAILURE = 0x80000003
    CONNECT_SOCKET_FAILURE = 0x80000004
    TCP_NOT_ENABLED = 0x80000005
    SEND_FAILURE = 0x80000006
    NOT_READY_FAILURE = 0x80000007
    DNS_FAILURE = 0x80000008
    CERTIFICATE_VALIDATION_FAILURE = 0x80000009
    CONNECTION_LIMIT_REACHED = 0x8000000A
    CONNECTION_REFUSED = 0x8000000B
    NO_DIRECTORY_SERVER = 0x8000000C
    LOW_MEMORY = 0x8000000D


def next_hop(address: IPv4Address | IPv6Address | UUID) -> str:
    """An element of PROPID_MGMT_QUEUE_NEXTHOPS ([MS-MQMQ] 2.3.12.12)."""
    if isinstance(address, UUID):
        return f"FOREIGN={str(address).upper()}"
    return f"IPv6={address}" if address.version == 6 else f"IP={address}"


# NT 4 and Windows 2000 insist on this form of PROPID_QM_MACHINE_TYPE (note 30); later versions take an empty string.
_MACHINE_TYPE: Final = re.compile(
    r"Windows [ -~]* [0-9]*\.[0-9]* \(Build [0-9]*, [ -~]*\) - MSMQ [0-9]*\.[0-9]* \(Build [0-9]*\)")


def is_old_machine_type(text: str) -> bool:
    """Whether MSMQ 1.0 and 2.0 would take this PROPID_QM_MACHINE_TYPE ([MS-MQMQ] 2.3.2.15)."""
    return _MACHINE_TYPE.fullmatch(text) is not None


__all__ = [
    "DUPLICATE",
    "IGNORED",
    "MAX_PROPERTIES",
    "MQ_OK",
    "PROPERTIES",
    "UNSUPPORTED",
    "Access",
    "CheckedSet",
    "ConnectedState",
    "ConnectionStatus",
    "ObjectClass",
    "Property",
    "QueueLocation",
    "QueueState",
    "QueueType",
    "ThreeValued",
    "check_get",
    "check_properties",
    "check_set",
    "check_value",
    "is_old_machine_type",
    "next_hop",
    "property_of",
    "time_of",
    "time_value",
]
