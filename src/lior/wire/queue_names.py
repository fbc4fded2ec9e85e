"""Names of queues as packets carry them ([MS-MQMQ] 2.2.18.1.4, 2.2.18.1.5 and 2.2.18.1.7).

A name in the UserHeader is one of eight types; a name in a MultiQueueFormatHeader is an element that says its own
type. Text is kept as it came, lone surrogates too: whether it names a queue is a question for `lior.names`.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from lior.errors import InvalidParameter, Malformed
from lior.wire.headers import NULL_GUID_BYTES

# The types of UserHeader.Flags.DQ, AQ and RQ ([MS-MQMQ] 2.2.19.2)
NO_QUEUE: Final = 0
SAME_AS_ADMINISTRATION: Final = 1
PRIVATE_ON_SOURCE: Final = 2
PRIVATE_ON_DESTINATION: Final = 3
PRIVATE_ON_ADMINISTRATION: Final = 4
PUBLIC: Final = 5
PRIVATE_ELSEWHERE: Final = 6
DIRECT: Final = 7

DESTINATION_TYPES: Final = frozenset({NO_QUEUE, PRIVATE_ON_DESTINATION, PUBLIC, DIRECT})
ADMINISTRATION_TYPES: Final = frozenset(
    {NO_QUEUE, PRIVATE_ON_SOURCE, PRIVATE_ON_DESTINATION, PUBLIC, PRIVATE_ELSEWHERE, DIRECT})
_NUMBER_ONLY: Final = frozenset({PRIVATE_ON_SOURCE, PRIVATE_ON_DESTINATION, PRIVATE_ON_ADMINISTRATION})

# MQFFormatNameElement.FormatType ([MS-MQMQ] 2.2.18.1.4)
ELEMENT_PUBLIC: Final = 1
ELEMENT_PRIVATE: Final = 2
ELEMENT_DIRECT: Final = 3
ELEMENT_DISTRIBUTION_LIST: Final = 6

SMALLEST_ELEMENT: Final = 6  # a type, one character and its NUL
MAX_DIRECT_BYTES: Final = 0xFFFE  # Count has 16 bits and is even

_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")


def padding(size: int) -> bytes:
    """What brings a size to a multiple of four."""
    return _PADDING[size & 3]


class PacketName(NamedTuple):
    """A name in the UserHeader; which of the values count depends on the type."""

    type: int = NO_QUEUE
    guid: bytes = NULL_GUID_BYTES  # PUBLIC: the queue; PRIVATE_ELSEWHERE: the queue manager
    number: int = 0  # the private types
    text: str = ""  # DIRECT: the name without DIRECT=


ABSENT: Final = PacketName()


class NameElement(NamedTuple):
    """MQFFormatNameElement."""

    format_type: int
    guid: bytes = NULL_GUID_BYTES  # the queue, queue manager or distribution list
    number: int = 0  # private
    text: str = ""  # direct


def _malformed(what: str, where: str) -> Malformed:
    return Malformed(what, where=where, remedy="the packet was cut or its sizes are wrong")


def utf16_text(data: bytes, where: str) -> str:
    """Text with exactly one NUL, at its end."""
    text = data.decode("utf-16-le", "surrogatepass")  # the callers hand in whole code units
    if text.find("\0") != len(text) - 1:
        raise _malformed("text without a single NUL at its end", where)
    return text[:-1]


def utf16_bytes(text: str, where: str) -> bytes:
    """Text and its NUL."""
    if "\0" in text:
        raise InvalidParameter("text with a NUL inside", where=where, remedy="take the NUL out")
    return (text + "\0").encode("utf-16-le", "surrogatepass")


# ---- names in the UserHeader ----------------------------------------------------------------------------------------


def decode_packet_name(name_type: int, data: bytes, at: int, end: int, origin: int) -> tuple[PacketName, int]:
    """The name of a known type at `at`, and where what follows it begins; `origin` is where its header begins."""
    if name_type == DIRECT:
        return _decode_direct(data, at, end, origin)
    if name_type in _NUMBER_ONLY:
        if end - at < 4:
            raise _malformed(f"a queue number needs 4 bytes, {end - at} are left", f"queue name at {at}")
        return PacketName(name_type, number=_U32.unpack_from(data, at)[0]), at + 4
    if name_type in (NO_QUEUE, SAME_AS_ADMINISTRATION):
        return PacketName(name_type), at
    size = 16 if name_type == PUBLIC else 20
    if end - at < size:
        raise _malformed(f"a name of type {name_type} needs {size} bytes, {end - at} are left", f"queue name at {at}")
    number = _U32.unpack_from(data, at + 16)[0] if size == 20 else 0
    return PacketName(name_type, data[at : at + 16], number), at + size


def _decode_direct(data: bytes, at: int, end: int, origin: int) -> tuple[PacketName, int]:
    """DirectQueueFormatName: Count, the text with its NUL, padding that Count leaves out."""
    where = f"DirectQueueFormatName at {at}"
    if end - at < 2:
        raise _malformed(f"Count needs 2 bytes, {end - at} are left", where)
    (count,) = _U16.unpack_from(data, at)
    stop = at + 2 + count
    after = stop + (origin - stop & 3)
    if count & 1 or count < 4 or after > end:
        raise _malformed(f"a name of {count} bytes with {end - at - 2} left", where)
    return PacketName(DIRECT, text=utf16_text(data[at + 2 : stop], where)), after


def encode_packet_name(name: PacketName) -> bytes:
    """The bytes of a name; they are a multiple of four, as is the header's size before them."""
    if name.type == NO_QUEUE:
        return b""
    if name.type == DIRECT:
        text = utf16_bytes(name.text, "DirectQueueFormatName")
        if not 4 <= len(text) <= MAX_DIRECT_BYTES:
            raise InvalidParameter(f"a direct name of {len(text)} bytes", where=name.text[:80] or "a queue name",
                                   remedy=f"it has one to {MAX_DIRECT_BYTES // 2 - 1} characters")
        return b"".join((_U16.pack(len(text)), text, padding(len(text) + 2)))
    if name.type in _NUMBER_ONLY:
        return _number(name.number)
    if name.type == SAME_AS_ADMINISTRATION:
        return b""
    if name.type == PUBLIC:
        return _guid(name.guid)
    if name.type == PRIVATE_ELSEWHERE:
        return _guid(name.guid) + _number(name.number)
    raise InvalidParameter(f"no queue name has type {name.type}", where="UserHeader")


def _number(value: int) -> bytes:
    if not 0 <= value <= 0xFFFFFFFF:
        raise InvalidParameter(f"private queue number {value}", remedy="the number has 32 bits")
    return _U32.pack(value)


def _guid(value: bytes) -> bytes:
    if len(value) != 16:
        raise InvalidParameter(f"a GUID of {len(value)} bytes", where="a queue name", remedy="it has 16")
    return value


# ---- names in a MultiQueueFormatHeader ------------------------------------------------------------------------------


def element_alignment(format_type: int) -> int:
    """Where an element's name may start, counted from the start of its MQFAddressHeader.

    2.2.18.1.4 gives 2 for direct names and 4 for private ones and distribution lists, and nothing for public names:
    4, as for the other GUIDs, until the packet of another implementation says otherwise. Nor does it say where the
    counting begins; the enclosing header is where 2.2.18.1.5.2 counts from.
    """
    return 2 if format_type == ELEMENT_DIRECT else 4


def decode_elements(data: bytes, at: int, end: int, origin: int, count: int) -> tuple[list[NameElement], int]:
    """`count` elements from `at`, and where they end."""
    if count * SMALLEST_ELEMENT > end - at:
        raise _malformed(f"{count} names in {end - at} bytes", f"FormatNameList at {at}")
    elements: list[NameElement] = []
    for _ in range(count):
        where = f"MQFFormatNameElement at {at}"
        if end - at < 2:
            raise _malformed("no room for a type", where)
        (format_type,) = _U16.unpack_from(data, at)
        at += 2
        at += -(at - origin) & (element_alignment(format_type) - 1)
        if format_type == ELEMENT_DIRECT:
            stop = _end_of_text(data, at, end, where)
            element = NameElement(format_type, text=data[at : stop - 2].decode("utf-16-le", "surrogatepass"))
        elif format_type in (ELEMENT_PUBLIC, ELEMENT_DISTRIBUTION_LIST, ELEMENT_PRIVATE):
            stop = at + (20 if format_type == ELEMENT_PRIVATE else 16)
            if stop > end:
                raise _malformed(f"a name of type {format_type} needs {stop - at} bytes, {max(end - at, 0)} are left",
                                 where)
            number = _U32.unpack_from(data, at + 16)[0] if format_type == ELEMENT_PRIVATE else 0
            element = NameElement(format_type, data[at : at + 16], number)
        else:
            raise _malformed(f"no format name has type {format_type}", where)
        elements.append(element)
        at = stop
    return elements, at


def _end_of_text(data: bytes, at: int, end: int, where: str) -> int:
    """Behind the NUL that ends the text at `at`; the search never leaves the header."""
    found = data.find(b"\0\0", at, end)
    while found >= 0 and found - at & 1:  # two halves of neighbours
        found = data.find(b"\0\0", found + 1, end)
    if found <= at:
        raise _malformed("a direct name that is empty or has no NUL", where)
    return found + 2


def encode_elements(elements: Sequence[NameElement], offset: int) -> bytes:
    """The list of names, `offset` bytes behind the start of its header; not padded at the end."""
    parts: list[bytes] = []
    for element in elements:
        head = _U16.pack(element.format_type)
        gap = bytes(-(offset + 2) & (element_alignment(element.format_type) - 1))
        if element.format_type == ELEMENT_DIRECT:
            name = utf16_bytes(element.text, "MQFDirectQueueFormatName")
            if len(name) < 4:
                raise InvalidParameter("an empty direct name", where="MQFDirectQueueFormatName")
        elif element.format_type == ELEMENT_PRIVATE:
            name = _guid(element.guid) + _number(element.number)
        elif element.format_type in (ELEMENT_PUBLIC, ELEMENT_DISTRIBUTION_LIST):
            name = _guid(element.guid)
        else:
            raise InvalidParameter(f"no format name has type {element.format_type}", where="MQFFormatNameElement")
        parts += (head, gap, name)
        offset += len(head) + len(gap) + len(name)
    return b"".join(parts)
