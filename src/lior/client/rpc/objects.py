"""Queues as objects: created, changed, asked, purged and deleted by qmcomm ([MS-MQMP] 3.2.4.1 to 3.2.4.6, 3.2.4.9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from lior.client.backend import QueueInfo
from lior.client.rpc.opening import single
from lior.errors import (
    HRESULTS,
    IllegalPropertyValue,
    IllegalQueuePathname,
    LiorError,
    Malformed,
    QueueNotFound,
    UnsupportedFormatNameOperation,
)
from lior.names import (
    DirectName,
    PrivateName,
    QueueFormat,
    QueueFormatType,
    QueueSuffix,
    from_queue_format,
    parse_path_name,
    to_queue_format,
)
from lior.security import SecurityDescriptor
from lior.wire.dtyp import decode_security_descriptor, encode_security_descriptor
from lior.wire.interfaces.management import MGMT_QUEUE, QMMGMT, MgmtObject, QueueReference
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.structures import ObjectFormat
from lior.wire.propvariant import NULL, VT_CLSID, VT_I2, VT_LPWSTR, VT_UI1, VT_UI4, PropVariant

if TYPE_CHECKING:
    from lior.client.rpc.link import Link

CREATE, SET_SECURITY, GET_SECURITY, DELETE, GET_PROPERTIES, SET_PROPERTIES = 6, 7, 8, 9, 10, 11
PATH_TO_FORMAT, OPEN, CLOSE, PURGE, QUERY = 12, 19, 20, 27, 28
QUEUE_OBJECT: Final = 1
GET_INFO: Final = 0  # of qmmgmt
_COUNTS: Final = (7, 8)  # PROPID_MGMT_QUEUE_MESSAGE_COUNT, PROPID_MGMT_QUEUE_BYTES_IN_QUEUE
RECEIVE: Final = 1
PATHNAME, TRANSACTION = 103, 113
SIZES: Final = 4  # of a descriptor that grows while it is asked for
MOST_DESCRIPTOR: Final = 0x80000
FIRST_DESCRIPTOR: Final = 512
TOO_SMALL: Final = HRESULTS["MQ_ERROR_SECURITY_DESCRIPTOR_TOO_SMALL"]

# Properties of a queue, and how they travel ([MS-MQMP] 3.1.1.12, [MS-MQMQ] 2.3.1)
_PROPERTIES: Final[dict[str, tuple[int, int]]] = {
    "type": (102, VT_CLSID),
    "journaling": (104, VT_UI1),
    "quota": (105, VT_UI4),
    "base_priority": (106, VT_I2),
    "journal_quota": (107, VT_UI4),
    "label": (108, VT_LPWSTR),
    "authentication": (111, VT_UI1),
    "privacy_level": (112, VT_UI4),
    "transactional": (TRANSACTION, VT_UI1),
    "multicast_address": (125, VT_LPWSTR),
}
_AT_CREATION: Final = frozenset({"transactional", "security"})
_IDENTIFIER, _CREATED, _MODIFIED = 101, 109, 110


def expressible(properties: Mapping[str, Any], *, creating: bool) -> bool:
    """Whether the documented properties are all that is given; `max_aborts`, say, is Lior's own. Neither can they take
    a value back: a multicast address of "" is none."""
    known = _PROPERTIES.keys() | {"security"} if creating else _PROPERTIES.keys() - _AT_CREATION
    return properties.keys() <= known and all(
        value is not None and (name != "multicast_address" or value) for name, value in properties.items()
    )


def is_object(name: str) -> bool:
    """A private queue itself, and not its journal or a subqueue (3.2.4.2)."""
    try:
        parsed = single(_format_name(name))
    except LiorError:
        return False
    if parsed.suffix is not QueueSuffix.NONE:
        return False
    return isinstance(parsed, PrivateName) or (isinstance(parsed, DirectName) and not parsed.subqueue)


def _format_name(name: str) -> str:
    return name if "=" in name else str(DirectName.from_path(parse_path_name(name)))


def object_format(name: str) -> ObjectFormat:
    """OBJECT_FORMAT, for the private and direct names that it may have."""
    parsed = single(_format_name(name))
    if not isinstance(parsed, PrivateName | DirectName):
        raise UnsupportedFormatNameOperation("only private queues of the server are objects here", where=name,
                                             remedy="use a private or a direct format name")
    return ObjectFormat(p_queue_format=to_queue_format(parsed))


def _variant(name: str, value: Any) -> PropVariant:
    _, vt = _PROPERTIES[name]
    made = int(value) if vt == VT_UI1 and isinstance(value, bool) else value
    if vt == VT_CLSID and isinstance(made, str):
        made = UUID(made)
    variant = PropVariant(vt, made)
    try:
        variant.check()
    except LiorError:
        raise IllegalPropertyValue(f"{value!r} is no value of this property", where=name) from None
    return variant


def _arrays(properties: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[PropVariant, ...]]:
    names = [name for name in properties if name != "security"]
    return tuple(_PROPERTIES[name][0] for name in names), tuple(_variant(name, properties[name]) for name in names)


async def create(link: Link, path: str, properties: Mapping[str, Any]) -> None:
    """3.2.4.1: at least one property, which then is the path."""
    if "=" in path:
        raise IllegalQueuePathname("a queue is created by its path", where=path, remedy=r"write .\private$\name")
    security = properties.get("security")
    descriptor = None if security is None else encode_security_descriptor(security)
    propids, variants = _arrays(properties)
    if not propids:
        propids, variants = (PATHNAME,), (PropVariant(VT_LPWSTR, path),)
    values = (QUEUE_OBJECT, path, len(descriptor or b""), descriptor, len(propids), propids, variants)
    await link.method(QMCOMM, CREATE, values, where=path)


async def delete(link: Link, name: str) -> None:
    await link.method(QMCOMM, DELETE, (object_format(name),), where=name)


async def change(link: Link, name: str, changes: Mapping[str, Any]) -> None:
    if not changes:
        return
    propids, variants = _arrays(changes)
    await link.method(QMCOMM, SET_PROPERTIES, (object_format(name), len(propids), propids, variants), where=name)


async def security(link: Link, name: str, information: int) -> SecurityDescriptor:
    """3.2.4.4: again with the room that it needs, but not for ever."""
    room, method = FIRST_DESCRIPTOR, QMCOMM.methods[GET_SECURITY]
    for _ in range(SIZES):
        values = (object_format(name), information, room)
        request = method.request.encode(values)
        answer = await link.call(QMCOMM, GET_SECURITY, request, _decoding(method, values), where=name)
        if answer.result == TOO_SMALL and room < answer.lpn_length_needed <= MOST_DESCRIPTOR:
            room = answer.lpn_length_needed
            continue
        from lior.client.rpc.errors import failure

        if answer.result & 0x80000000:
            raise failure(answer.result, name)
        return decode_security_descriptor(bytes(answer.p_security_descriptor)[: answer.lpn_length_needed])
    raise Malformed("the server asks for more room each time", where=name)


def _decoding(method: Any, values: tuple[Any, ...]) -> Any:
    return lambda stub: method.response.decode(stub, values)


async def set_security(link: Link, name: str, information: int, descriptor: SecurityDescriptor) -> None:
    data = encode_security_descriptor(descriptor)
    await link.method(QMCOMM, SET_SECURITY, (object_format(name), information, len(data), data), where=name)


async def properties(link: Link, name: str, propids: tuple[int, ...]) -> dict[int, Any]:
    values = (object_format(name), len(propids), propids, (NULL,) * len(propids))
    answer = await link.method(QMCOMM, GET_PROPERTIES, values, where=name)
    return {propid: variant.value for propid, variant in zip(propids, answer.ap_var, strict=True)}


async def format_name_of(link: Link, path: str) -> str:
    """3.2.4.13: the format name of a path name. The structure is there on the way in, and empty."""
    empty = ObjectFormat(p_queue_format=QueueFormat(QueueFormatType.UNKNOWN))
    answer = await link.method(QMCOMM, PATH_TO_FORMAT, (path, empty), where=path)
    found = answer.p_object_format.p_queue_format
    if found is None:
        raise Malformed("no format name", where="R_QMObjectPathToObjectFormat")
    return str(from_queue_format(found))


async def is_transactional(link: Link, name: str) -> bool | None:
    """None where the server does not know or does not say: a queue elsewhere, or one whose properties are secret."""
    if not is_object(name):
        return None
    try:
        found = (await properties(link, name, (TRANSACTION,)))[TRANSACTION]
    except LiorError:
        return None
    return None if found is None else bool(found)


async def purge(link: Link, name: str) -> None:
    """3.2.4.9, on a handle that is open for the purpose."""
    from lior.client.rpc.opening import open_queue

    queue = await open_queue(link, _format_name(name), RECEIVE, False)
    if isinstance(queue, str):
        raise QueueNotFound("the queue is on another computer", where=name, remedy=f"connect to {queue}")
    try:
        await link.method(QMCOMM, PURGE, (queue.handle,), where=name)
    finally:
        await queue.close()


async def info(link: Link, name: str) -> QueueInfo:
    """What a foreign server tells of a queue."""
    propids = (_IDENTIFIER, PATHNAME, _CREATED, _MODIFIED, *(propid for propid, _ in _PROPERTIES.values()))
    found = await properties(link, name, propids)
    known = {attribute: found[propid] for attribute, (propid, _) in _PROPERTIES.items() if found[propid] is not None}
    path = str(found[PATHNAME] or name)
    messages, size = await _figures(link, name)
    return QueueInfo(
        name=path.partition("\\")[2], path=path, format_name=_format_name(name), kind="private",
        transactional=bool(found[TRANSACTION]), messages=messages, bytes=size, identifier=str(found[_IDENTIFIER] or ""),
        create_time=found[_CREATED] or 0, modify_time=found[_MODIFIED] or 0, properties=known,
        private_name=await _private_name(link, path),
    )  # fmt: skip


async def _figures(link: Link, name: str) -> tuple[int, int]:
    """Messages and their bytes, by R_QMMgmtGetInfo ([MS-MQMR] 3.1.4.1); 0 where the server does not say."""
    if not link.offers(QMMGMT):
        return 0, 0
    subject = MgmtObject(MGMT_QUEUE, QueueReference(object_format(name).p_queue_format))
    found = []
    for propid in _COUNTS:  # one by one: the second one came later than the first
        try:
            answer = await link.method(QMMGMT, GET_INFO, (subject, 1, (propid,), (NULL,)), where=name)
            found.append(int(answer.ap_var[0].value or 0))
        except LiorError:  # only what is nice to know
            found.append(0)
    return found[0], found[1]


async def _private_name(link: Link, path: str) -> str:
    try:
        return await format_name_of(link, path)
    except LiorError:  # only what is nice to know
        return ""


async def machine(link: Link) -> dict[str, Any]:
    """What R_QMQueryQMRegistryInternal tells: enough to sign messages with, and to see who answers."""
    found: dict[str, Any] = {"computer_name": link.where}
    for query, name in ((4, "identifier"), (3, "queue_manager_version"), (1, "default_time_to_reach_queue")):
        answer = await link.method(QMCOMM, QUERY, (query,), where=name)
        found[name] = answer.lplp_mqis_server
    return found
