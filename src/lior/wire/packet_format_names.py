"""Format names <-> the names in packets; whose private queues the numbers mean ([MS-MQMQ] 2.2.19.2)."""

import re
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from lior.errors import InvalidParameter, Malformed
from lior.names import DirectName, DistributionListName, PrivateName, PublicName, parse_format_name
from lior.names.grammar import QueueSuffix
from lior.wire.headers import NULL_GUID_BYTES
from lior.wire.queue_names import (
    ABSENT,
    DIRECT,
    ELEMENT_DIRECT,
    ELEMENT_DISTRIBUTION_LIST,
    ELEMENT_PRIVATE,
    ELEMENT_PUBLIC,
    NO_QUEUE,
    PRIVATE_ELSEWHERE,
    PRIVATE_ON_ADMINISTRATION,
    PRIVATE_ON_DESTINATION,
    PRIVATE_ON_SOURCE,
    PUBLIC,
    NameElement,
    PacketName,
)

# A direct name may hold a comma only if it is not a legal one; it is kept whole, so that its message stays readable.
_ELEMENT_START: Final = re.compile(
    r",[ \t]*(?=(?:DIRECT|PUBLIC|PRIVATE|DL|MULTICAST|MACHINE|CONNECTOR)=)", re.IGNORECASE)
_LONGEST_CACHED: Final = 256


@lru_cache(maxsize=4096)
def guid_of(data: bytes) -> UUID:
    """The same few queue managers stand in all packets of a session."""
    return UUID(bytes_le=data)


@lru_cache(maxsize=4096)
def guid_bytes(guid: UUID) -> bytes:
    return guid.bytes_le


def _element(text: str) -> NameElement | None:
    return _cached_element(text) if len(text) <= _LONGEST_CACHED else _parsed_element(text)


def _parsed_element(text: str) -> NameElement | None:
    """One format name as a list element; None for a name that has no such form, as multicast.

    A direct name goes out as it is spelled, even where `lior.names` would refuse it: the packet of a stranger that
    names an odd response queue has to be readable all the same.
    """
    if text[:7].upper() == "DIRECT=":
        return NameElement(ELEMENT_DIRECT, text=text[7:])
    name = parse_format_name(text)
    if isinstance(name, PublicName) and name.suffix is QueueSuffix.NONE:
        return NameElement(ELEMENT_PUBLIC, name.guid.bytes_le)
    if isinstance(name, PrivateName) and name.suffix is QueueSuffix.NONE:
        return NameElement(ELEMENT_PRIVATE, name.guid.bytes_le, name.number)
    if isinstance(name, DistributionListName):
        return NameElement(ELEMENT_DISTRIBUTION_LIST, name.guid.bytes_le)
    if isinstance(name, DirectName):  # blanks before it
        return NameElement(ELEMENT_DIRECT, text=name.direct_id)
    return None


_cached_element = lru_cache(maxsize=1024)(_parsed_element)


def elements_of(names: str) -> list[NameElement]:
    """The names of a list that have a form in a MultiQueueFormatHeader; the others are left out."""
    if not names:
        return []
    if "," not in names:
        element = _element(names)
        return [element] if element is not None else []
    return [element for element in map(_element, _ELEMENT_START.split(names)) if element is not None]


def element_name(element: NameElement) -> str:
    """The format name of a list element."""
    if element.format_type == ELEMENT_DIRECT:
        return f"DIRECT={element.text}"
    guid = str(guid_of(element.guid)).upper()
    if element.format_type == ELEMENT_PRIVATE:
        return f"PRIVATE={guid}\\{element.number:08X}"
    return f"PUBLIC={guid}" if element.format_type == ELEMENT_PUBLIC else f"DL={guid}"


class Hosts(NamedTuple):
    """Whose private queues the numbers in a packet mean; the raw GUIDs of three queue managers."""

    source: bytes
    destination: bytes
    administration: bytes | None = None  # None: the administration queue does not say where it is

    def of(self, name: PacketName) -> bytes | None:
        """The host of a private queue."""
        if name.type == PRIVATE_ON_SOURCE:
            return self.source
        if name.type == PRIVATE_ON_DESTINATION:
            return self.destination
        return name.guid if name.type == PRIVATE_ELSEWHERE else self.administration


def format_name(name: PacketName, hosts: Hosts) -> str:
    """The format name of a name in the UserHeader, except one that only repeats the administration queue."""
    if name.type == DIRECT:
        return f"DIRECT={name.text}"
    if name.type == NO_QUEUE:
        return ""
    if name.type == PUBLIC:
        return f"PUBLIC={str(guid_of(name.guid)).upper()}"
    host = hosts.of(name)
    if host is None:
        raise Malformed("a queue on the host of an administration queue that names no host", where="ResponseQueue",
                        remedy="the sender has to name the response queue in full")
    return f"PRIVATE={str(guid_of(host)).upper()}\\{name.number:08X}"


def packet_name(text: str, hosts: Hosts) -> PacketName:
    """The shortest form of a format name: a number where its host is known to the packet.

    Of several elements the first that has a form counts; all of them stand in a list of their own."""
    if not text:
        return ABSENT
    elements = elements_of(text)
    element = elements[0] if elements else None
    if element is None or element.format_type == ELEMENT_DISTRIBUTION_LIST:
        element = next((e for e in elements if e.format_type != ELEMENT_DISTRIBUTION_LIST), None)
    if element is None:
        if len(elements) > 1:
            return ABSENT
        raise InvalidParameter("a packet cannot name this queue", where=text[:80],
                               remedy="give a DIRECT=, PUBLIC= or PRIVATE= name without a suffix")
    if element.format_type == ELEMENT_DIRECT:
        return PacketName(DIRECT, text=element.text)
    if element.format_type == ELEMENT_PUBLIC:
        return PacketName(PUBLIC, element.guid)
    for name_type, host in ((PRIVATE_ON_SOURCE, hosts.source), (PRIVATE_ON_DESTINATION, hosts.destination),
                            (PRIVATE_ON_ADMINISTRATION, hosts.administration)):
        if element.guid == host and host != NULL_GUID_BYTES:
            return PacketName(name_type, number=element.number)
    return PacketName(PRIVATE_ELSEWHERE, element.guid, element.number)
