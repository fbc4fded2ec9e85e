"""Values of the requests and responses of every method, drawn from the descriptions of the types.

`plain` turns them into what the second reading (second_rpc.py) takes: dicts with the names of the IDL.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from lior.message import ObjectId
from lior.names import QueueFormat, QueueFormatType, QueueSuffix
from lior.wire.interfaces.endpoint_mapper import ENDPOINT_MAPPER, TOWER, EptEntry, RpcIfId
from lior.wire.interfaces.management import QMMGMT, MgmtObject
from lior.wire.interfaces.qm2qm import QM2QM
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.remote_read import REMOTE_READ
from lior.wire.interfaces.rpc_management import RPC_MANAGEMENT
from lior.wire.interfaces.structures import CACTransferBufferV1
from lior.wire.ndr import NULL
from lior.wire.ndr_arrays import CHARACTERS, OCTETS, PROPVARIANT, VIEW, Array
from lior.wire.ndr_pointers import Unique
from lior.wire.ndr_structure import Structure, Union
from lior.wire.ndr_types import (
    CONTEXT_HANDLE,
    GUID,
    OBJECTID,
    QUEUE_FORMAT,
    STRING,
    XACTUOW,
    Number,
    Ranged,
    Type,
)
from lior.wire.propvariant import VT_LPWSTR, VT_UI4, VT_VECTOR, PropVariant
from lior.wire.rpc_interface import Codec, Interface, Method

INTERFACES: tuple[Interface, ...] = (
    QMCOMM, QMCOMM2, QM2QM, REMOTE_READ, QMMGMT, ENDPOINT_MAPPER, RPC_MANAGEMENT)
METHODS: dict[tuple[str, int], Method] = {
    (interface.name, opnum): method for interface in INTERFACES for opnum, method in interface.methods.items()}
SYNTAXES = {interface.name: interface.syntaxes for interface in INTERFACES}

WIDTHS = {"B": (0, 0xFF), "H": (0, 0xFFFF), "I": (0, 0xFFFFFFFF), "i": (-0x80000000, 0x7FFFFFFF),
          "Q": (0, 0xFFFFFFFFFFFFFFFF)}
LARGEST = 40  # elements of an array
TEXTS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=12).filter(
    lambda text: text != "null")  # which is how second_rpc.py writes a NULL behind a pointer
GUIDS = st.uuids()
HANDLES = st.binary(min_size=20, max_size=20)
NAMES = st.builds(
    lambda kind, suffix, flags, guid, number, text, address: _queue_format(
        kind, suffix, flags, guid, number, text, address),
    st.sampled_from(list(QueueFormatType)), st.sampled_from(list(QueueSuffix)), st.sampled_from([0, 0x80]), GUIDS,
    st.integers(0, 0xFFFFFFFF), TEXTS, st.ip_addresses(v=4).map(str))
VARIANTS = st.one_of(
    st.integers(0, 0xFFFFFFFF).map(lambda value: PropVariant(VT_UI4, value)),
    TEXTS.map(lambda value: PropVariant(VT_LPWSTR, value)),
    st.lists(st.integers(0, 0xFFFFFFFF), min_size=1, max_size=4).map(
        lambda values: PropVariant(VT_VECTOR | VT_UI4, tuple(values))))


def _queue_format(kind: QueueFormatType, suffix: QueueSuffix, flags: int, guid: Any, number: int, text: str,
                  address: str) -> QueueFormat:
    named = {QueueFormatType.DIRECT, QueueFormatType.SUBQUEUE}
    with_guid = {QueueFormatType.PUBLIC, QueueFormatType.PRIVATE, QueueFormatType.MACHINE, QueueFormatType.CONNECTOR,
                 QueueFormatType.DL}
    return QueueFormat(
        kind, suffix, flags, guid if kind in with_guid else None, number if kind == QueueFormatType.PRIVATE else 0,
        text if kind in named else "", text if kind == QueueFormatType.DL else "",
        address if kind == QueueFormatType.MULTICAST else "", number if kind == QueueFormatType.MULTICAST else 0)


# ---- drawing --------------------------------------------------------------------------------------------------------


def _array(type: Type) -> Array | None:
    while isinstance(type, Unique):
        type = type.target
    return type if isinstance(type, Array) else None


def _counts(draw: Any, members: Sequence[tuple[str, Type]], given: Mapping[str, int]) -> dict[str, int]:
    """A value for each member that counts."""
    types = dict(members)
    counts: dict[str, int] = {}
    arrays = [array for array in map(_array, types.values()) if array is not None]
    for array in arrays:
        for name in (array.size, array.length):
            if isinstance(name, str) and name not in counts and name not in given:
                bounds = types[name]
                low, high = (bounds.low, bounds.high) if isinstance(bounds, Ranged) else (0, LARGEST)
                known: Mapping[Any, int] = {**given, **counts}
                top = known.get(array.size, LARGEST) if name == array.length else LARGEST
                counts[name] = draw(st.integers(min(low, top), min(high, top)))
    return counts


def draw_members(draw: Any, members: Sequence[tuple[str, Type]], given: Mapping[str, int] = {},
                 small: frozenset[str] = frozenset()) -> dict[str, Any]:
    counts = _counts(draw, members, given)
    known = {**given, **counts}
    found: dict[str, Any] = {}
    for name, type in members:
        if name in counts:
            found[name] = counts[name]
        elif isinstance(type, Union):
            found[type.switch] = tag = draw(st.sampled_from(sorted(type.arms)))
            found[name] = _draw(draw, type.arms[tag], known)
        elif name not in found:
            found[name] = draw(st.integers(1, LARGEST)) if name in small else _draw(draw, type, known)
    return found


def _draw(draw: Any, type: Type, counts: Mapping[str, int]) -> Any:
    if isinstance(type, Unique):
        return _draw_pointer(draw, type, counts)
    if isinstance(type, Array):
        return _draw_array(draw, type, counts)
    if isinstance(type, Structure):
        found = draw_members(draw, type.members)
        return type.make(**{each.name: found[each.name] for each in fields(type.make)})
    if isinstance(type, Ranged):
        return draw(st.integers(type.low, type.high))
    if isinstance(type, Number):
        return draw(st.integers(*WIDTHS[type.code]))
    simple = {id(GUID): GUIDS, id(XACTUOW): GUIDS, id(CONTEXT_HANDLE): HANDLES, id(STRING): TEXTS,
              id(QUEUE_FORMAT): NAMES, id(TOWER): st.binary(max_size=40),
              id(OBJECTID): st.builds(ObjectId, GUIDS, st.integers(0, 0xFFFFFFFF))}
    if id(type) in simple:
        return draw(simple[id(type)])
    name, size = type.__class__.__name__, getattr(type, "size", "")
    if name == "_IfIdVector":
        return tuple(draw(st.lists(st.builds(
            RpcIfId, GUIDS, st.integers(0, 0xFFFF), st.integers(0, 0xFFFF)), max_size=4)))
    if name == "_CharString":
        return draw(st.binary(max_size=max(counts[size] - 1, 0)).map(lambda text: text.replace(b"\0", b".")))
    raise AssertionError(type)


def _draw_pointer(draw: Any, type: Unique, counts: Mapping[str, int]) -> Any:
    array = type.target if isinstance(type.target, Array) else None
    if array is not None and _count(array.size, counts):
        return _draw_array(draw, array, counts)  # NULL would not do
    if draw(st.booleans()):
        return None
    found = _draw(draw, type.target, counts)
    return NULL if found is None else found


def _count(name: str | int, counts: Mapping[str, int]) -> int:
    return name if isinstance(name, int) else counts[name]


def _draw_array(draw: Any, array: Array, counts: Mapping[str, int]) -> Any:
    count = _count(array.size if array.length is None else array.length, counts)
    if array.element in (OCTETS, VIEW):
        return draw(st.binary(min_size=count, max_size=count))
    if array.element is CHARACTERS:
        return draw(st.binary(min_size=2 * count, max_size=2 * count)).decode("utf-16-le", "surrogatepass")
    if array.element is PROPVARIANT:
        return tuple(draw(VARIANTS) for _ in range(count))
    if array.element.__class__.__name__ == "_Entry":
        return tuple(EptEntry(draw(GUIDS), draw(st.none() | st.binary(max_size=40)),
                              draw(st.binary(max_size=63)).replace(b"\0", b".")) for _ in range(count))
    assert isinstance(array.element, Type)
    return tuple(_draw(draw, array.element, counts) for _ in range(count))


def parameters(codec: Codec) -> Sequence[tuple[str, Type]]:
    return codec._parameters


@st.composite
def calls(draw: Any, method: Method) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A request and a response to it."""
    asked = parameters(method.request)
    arrays = [array for array in (_array(type) for _, type in parameters(method.response)) if array is not None]
    counting = frozenset(name for array in arrays for name in (array.size, array.length) if isinstance(name, str))
    small = counting | {"princ_name_size"}
    request = draw_members(draw, asked, small=small)
    names = {name for name, _ in parameters(method.response)}
    given = {name: value for name, value in request.items() if name not in names and isinstance(value, int)}
    response = draw_members(draw, parameters(method.response), given)
    return tuple(request[name] for name in method.request.fields), tuple(
        response[name] for name in method.response.fields)


# ---- as the second reading has them ---------------------------------------------------------------------------------


def snake(name: str) -> str:
    """The name that Lior gives to a name of the IDL."""
    name = name.replace("WCHARs", "Wchars").replace("QMID", "QmId")
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name))
    return "result" if name == "return" else name.lower()


_SECOND = Path(__file__).with_name("second_rpc.py").read_text()
IDL_NAMES = {snake(name): name for name in (
    *re.findall(r'"(\w+)"', _SECOND),
    *(text.format(kind) for text in ("ul{}FormatNameLen", "pp{}FormatName", "pul{}FormatNameLenProp")
      for kind in ("Response", "Admin", "Dest", "Ordering")))}


def plain(value: Any) -> Any:
    if value is NULL:
        return "null"
    if isinstance(value, QueueFormat):
        return _plain_queue_format(value)
    if isinstance(value, MgmtObject):
        inside = plain(value.object)
        if value.type != 2:
            inside = {f"Reserved{1 if value.type == 1 else 2}": inside["Reserved"]}
        return {"type": value.type, **inside}
    if isinstance(value, EptEntry):
        return value.object, value.tower, value.annotation
    if isinstance(value, RpcIfId):
        return value.uuid, value.vers_major, value.vers_minor
    if isinstance(value, memoryview):
        return bytes(value)
    if hasattr(value, "__dataclass_fields__"):
        members = {each.name: getattr(value, each.name) for each in fields(value)}
        found = {} if not isinstance(value, CACTransferBufferV1) else plain(members.pop("transfer"))
        found |= {IDL_NAMES.get(name, name): _units(name, each) for name, each in members.items() if each is not None}
        return found
    if isinstance(value, tuple) and not isinstance(value, ObjectId):
        return tuple(plain(each) for each in value)
    return value


def _units(name: str, value: Any) -> Any:
    """Members that are WCHARs but no strings are their bytes there."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass")
    return plain(value)


def plain_call(codec: Codec, values: Sequence[Any]) -> dict[str, Any]:
    found = {}
    for (name, type), value in zip(parameters(codec), values, strict=True):
        array = _array(type)
        wide = array is not None and array.element is CHARACTERS
        found[IDL_NAMES[name]] = _units(name, value) if wide else plain(value)
    return {name: value for name, value in found.items() if value is not None}


def _plain_queue_format(value: QueueFormat) -> Any:
    kind = int(value.format_type)
    content: Any = value.guid
    if kind == 2:
        content = (value.guid, value.number)
    elif kind in (3, 8):
        content = value.direct_id
    elif kind == 6:
        content = (value.guid, value.domain or None)
    elif kind == 7:
        content = (bytes(map(int, value.address.split("."))), value.port)
    return kind, value.suffix_and_flags, content
