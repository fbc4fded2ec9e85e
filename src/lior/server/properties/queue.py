"""Queue properties ([MS-MQMQ] 2.3.1) of a queue that lives here, and their setting ([MS-MQMP] 3.1.1.12).

Reading checks no rights: who answers a caller asks for GET_QUEUE_PROPERTIES first, and for GET_PERMISSIONS when
a descriptor is among the properties.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from lior.errors import HRESULTS, IllegalSecurityDescriptor, LiorError, UnsupportedOperation, error_from_code
from lior.names import PathName, parse_path_name
from lior.queues.change import Reply
from lior.queues.definition import QueueProperties, QueueType
from lior.queues.manager import QueueManager
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue
from lior.security import Caller, SecurityDescriptor, SecurityInformation
from lior.server.properties.reading import (
    READABLE,
    Readers,
    descriptor_bytes,
    nt4_descriptor_bytes,
    read_values,
    seconds,
)
from lior.wire.dtyp import decode_security_descriptor
from lior.wire.properties import ObjectClass, Values, check_properties
from lior.wire.propvariant import PropVariant, Value

PATHNAME: Final = 103
SECURITY: Final = 1101
OBJ_SECURITY: Final = 1102
SECURITY_INFORMATION: Final = 1103

# What an owner sets: the attribute behind the identifier, and the form its value has there.
_ATTRIBUTES: Final[dict[int, tuple[str, type | None]]] = {
    102: ("type", None),
    104: ("journaling", bool),
    105: ("quota", None),
    107: ("journal_quota", None),
    108: ("label", None),
    111: ("authentication", bool),
    112: ("privacy_level", None),
    113: ("transactional", bool),
    125: ("multicast_address", None),
}


class _Subject(NamedTuple):
    manager: QueueManager
    queue: Queue
    information: int

    @property
    def properties(self) -> QueueProperties:
        """A subqueue has those of its queue."""
        return self.queue.main.properties

    @property
    def security(self) -> SecurityDescriptor | None:
        """System queues have none: the rights on them are the queue manager's."""
        if self.queue.kind is QueueType.SYSTEM:
            return None
        return self.manager.access.descriptor_of(self.queue)


def _path(subject: _Subject) -> Value:
    return None if subject.queue.path is None else str(subject.queue.path)


def _path_dns(subject: _Subject) -> Value:
    local = subject.manager.core.local
    if subject.queue.path is None or not local.qualified_name:
        return None
    return str(local.qualified_path(subject.queue.path))


def _obj_security(subject: _Subject) -> Value:
    return None if subject.security is None else descriptor_bytes(subject.security, subject.information)


def _security(subject: _Subject) -> Value:
    return None if subject.security is None else nt4_descriptor_bytes(subject.security, subject.information)


# Not here: what only directories keep (PARTITIONID, SEQNUM, the reserved hash keys, FULL_PATH, NAME_SUFFIX, ADS_PATH)
_READERS: Final[Readers[_Subject]] = {
    101: lambda s: s.queue.identifier,
    102: lambda s: s.properties.type,
    103: _path,
    104: lambda s: int(s.properties.journaling),
    105: lambda s: s.properties.quota,
    106: lambda s: s.properties.base_priority,
    107: lambda s: s.properties.journal_quota,
    108: lambda s: s.properties.label,
    109: lambda s: seconds(s.queue.create_time),
    110: lambda s: seconds(s.queue.modify_time),
    111: lambda s: int(s.properties.authentication),
    112: lambda s: s.properties.privacy_level,
    113: lambda s: int(s.queue.transactional),
    114: lambda s: int(s.queue.scope),
    115: lambda s: s.manager.core.properties.identifier,
    124: _path_dns,
    125: lambda s: s.properties.multicast_address,
    SECURITY: _security,
    OBJ_SECURITY: _obj_security,
    SECURITY_INFORMATION: lambda s: s.information,
}


def queue_values(
    manager: QueueManager, queue: Queue, propids: Iterable[int], information: int = READABLE
) -> dict[int, PropVariant]:
    """`information` says which parts the descriptors have ([MS-MQMQ] 2.2.3)."""
    if isinstance(queue, OutgoingQueue):
        raise UnsupportedOperation(
            "an outgoing queue has no properties of its own",
            where=queue.name,
            remedy="ask the queue manager that has the queue, or ask for management properties",
        )
    return read_values(ObjectClass.QUEUE, _READERS, _Subject(manager, queue, information), propids)


class NewQueue(NamedTuple):
    """What `create_queue` takes, and a code for each property that was given."""

    path: PathName
    properties: QueueProperties
    statuses: tuple[int, ...]


def queue_properties_from(values: Values) -> NewQueue:
    """From the properties of a creation call; the path name is one of them."""
    checked = check_properties(ObjectClass.QUEUE, values, creating=True)
    accepted = checked.accepted
    attributes = _attributes(accepted)
    if SECURITY in accepted or OBJ_SECURITY in accepted:
        descriptor, information = _descriptor(accepted)
        attributes["security"] = descriptor.select(information)
    path = parse_path_name(accepted[PATHNAME].value)
    return NewQueue(path, QueueProperties(**attributes).checked(), checked.statuses)


def set_queue_values(
    manager: QueueManager, queue: Queue, values: Values, caller: Caller, reply: Reply
) -> tuple[int, ...]:
    """Everything is checked before anything changes. Gives a code for each property, informational ones for what
    was dropped; the reply comes when the change is on disk."""
    checked = check_properties(ObjectClass.QUEUE, values, creating=False)
    accepted = checked.accepted
    attributes = _attributes(accepted)
    rights = accepted.keys() & {SECURITY, OBJ_SECURITY, SECURITY_INFORMATION}
    if rights and attributes:
        raise _conflict("rights and other properties are different changes", "set them in two calls")
    if rights:
        descriptor, information = _descriptor(accepted)
        manager.set_queue_security(queue, information, descriptor, caller, reply)
    else:
        manager.set_queue_properties(queue, attributes, caller, reply)
    return checked.statuses


def _attributes(accepted: Mapping[int, PropVariant]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for propid, variant in accepted.items():
        if propid in _ATTRIBUTES:
            name, form = _ATTRIBUTES[propid]
            found[name] = variant.value if form is None else form(variant.value)
    return found


def _descriptor(accepted: Mapping[int, PropVariant]) -> tuple[SecurityDescriptor, int]:
    """The descriptor, and the parts of it that are meant: those it has, unless SECURITY_INFORMATION says."""
    given = [propid for propid in (SECURITY, OBJ_SECURITY) if propid in accepted]
    if len(given) != 1:
        raise _conflict(f"{len(given)} security descriptors were given", "give one of the two")
    descriptor = decode_security_descriptor(accepted[given[0]].value)
    if SECURITY_INFORMATION in accepted:
        information = int(accepted[SECURITY_INFORMATION].value)
    else:
        information = _parts(descriptor)
    if not information:
        raise IllegalSecurityDescriptor(
            "no owner, group or list is to be set", where="PROPID_Q_SECURITY", remedy="give the parts that are"
        )
    return descriptor, information


def _parts(descriptor: SecurityDescriptor) -> int:
    present = {
        SecurityInformation.OWNER: descriptor.owner is not None,
        SecurityInformation.GROUP: descriptor.group is not None,
        SecurityInformation.DACL: descriptor.has_dacl,
        SecurityInformation.SACL: descriptor.sacl is not None,
    }
    return sum(int(part) for part, given in present.items() if given)


def _conflict(what: str, remedy: str) -> LiorError:
    return error_from_code(
        HRESULTS["MQ_ERROR_PROPERTIES_CONFLICT"], what, where="PROPID_Q_SECURITY", remedy=remedy
    )
