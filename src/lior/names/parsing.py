"""Format names from text ([MS-MQMQ] 2.1.2 to 2.1.7), in time linear in the length of the text."""

import re
from collections.abc import Callable
from typing import Final
from uuid import UUID

from lior.errors import IllegalFormatName
from lior.names.elements import (
    DEFAULT_PORTS,
    MAX_ELEMENTS,
    PROTOCOLS,
    ConnectorName,
    DirectName,
    DistributionListName,
    FormatName,
    MachineName,
    MulticastName,
    MultipleName,
    PrivateName,
    PublicName,
    SingleName,
)
from lior.names.grammar import SYSTEM_SUFFIXES, QueueSuffix, ascii_upper, shortened, split_tail

MAX_TEXT_LENGTH: Final = 0x10000
BLANKS: Final = " \t"

_GUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
_NUMBER = re.compile(r"[0-9A-Fa-f]{1,8}")
_HTTP_PORT = re.compile(r"[0-9]{0,5}")
_MULTICAST_PORT = re.compile(r"0|[1-9][0-9]{0,4}")
_MSMQ = re.compile(r"/[Mm][Ss][Mm][Qq][/\\]")


def parse_format_name(text: str) -> FormatName:
    """Read a format name; anything else raises IllegalFormatName.

    Blanks around the elements are ignored. One element gives a single name, more give a MultipleName."""
    if len(text) > MAX_TEXT_LENGTH:
        raise IllegalFormatName(f"a format name of {len(text)} characters", where=shortened(text),
                                remedy=f"a format name has at most {MAX_TEXT_LENGTH} characters")
    if "," not in text:
        return parse_single_name(text.strip(BLANKS))
    if text.count(",") >= MAX_ELEMENTS:
        raise IllegalFormatName(f"a format name of {text.count(',') + 1} elements", where=shortened(text),
                                remedy=f"give at most {MAX_ELEMENTS} names")
    return MultipleName(tuple(parse_single_name(element.strip(BLANKS)) for element in text.split(",")))


def parse_single_name(text: str) -> SingleName:
    """Read one element, without blanks around it."""
    prefix, equals, rest = text.partition("=")
    parse = _KINDS.get(ascii_upper(prefix)) if equals and len(prefix) <= 9 else None
    try:
        if parse is None:
            raise IllegalFormatName("a format name begins with DIRECT=, PUBLIC=, PRIVATE=, MACHINE=, CONNECTOR=, "
                                    "DL= or MULTICAST=", remedy=_remedy_for_no_prefix(text))
        return parse(rest)
    except IllegalFormatName as error:
        error.where = shortened(text)
        raise


def parse_direct_id(text: str) -> DirectName:
    """Read a direct name without DIRECT=, as packets and QUEUE_FORMAT carry it."""
    if len(text) > MAX_TEXT_LENGTH:
        raise IllegalFormatName(f"a direct name of {len(text)} characters", where=shortened(text),
                                remedy=f"a format name has at most {MAX_TEXT_LENGTH} characters")
    protocol, colon, rest = text.partition(":")
    protocol = ascii_upper(protocol) if len(protocol) <= 5 else protocol
    if not colon or protocol not in PROTOCOLS:
        raise IllegalFormatName(f"unknown protocol {shortened(protocol)!r}", where=shortened(text),
                                remedy="use TCP, OS, HTTP or HTTPS, for example DIRECT=OS:host\\private$\\queue")
    if protocol in DEFAULT_PORTS:
        return _parse_http(protocol, rest)
    host, backslash, tail_text = rest.partition("\\")
    if not backslash:
        raise IllegalFormatName("no backslash between computer and queue", where=shortened(text),
                                remedy=f"write DIRECT={protocol}:host\\private$\\queue")
    if host.startswith("[") and protocol in ("TCP", "OS"):
        host = _without_brackets(host)
    tail = split_tail(tail_text, IllegalFormatName)
    return DirectName(protocol, host, None, tail.is_private, tail.queue, tail.subqueue, tail.suffix, tail.is_system)


def _parse_http(protocol: str, text: str) -> DirectName:
    """//Host[:Port]/MSMQ and the queue, with slashes or backslashes after MSMQ."""
    end = text.find("/", 2)
    found = _MSMQ.match(text, end) if text.startswith("//") and end > 2 else None
    if found is None:
        raise IllegalFormatName("an HTTP name needs //host/msmq/ before the queue", where=shortened(text),
                                remedy=f"write DIRECT={protocol}://host/msmq/private$/queue")
    host, port = _split_port(text[2:end])
    tail = split_tail(text[found.end() :], IllegalFormatName, separators="/\\")
    return DirectName(protocol, host, port, tail.is_private, tail.queue, tail.subqueue, tail.suffix, tail.is_system)


def _split_port(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        address, bracket, rest = text.partition("]")
        host = _without_brackets(address + bracket)
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = text.partition(":")
    if colon not in ("", ":") or not _HTTP_PORT.fullmatch(port):
        raise IllegalFormatName("the port is not a number", where=shortened(text),
                                remedy="write //host:port/msmq/, the port from 1 to 65535")
    return host, int(port) if port else None


def _without_brackets(text: str) -> str:
    """[fe80::1] is how some peers write an IPv6 address; the grammar of [MS-MQQB] 2.2.4 has no brackets."""
    if not text.endswith("]") or ":" not in text:
        raise IllegalFormatName("brackets enclose an IPv6 address", where=shortened(text),
                                remedy="write for example DIRECT=TCP:[fe80::1]\\private$\\queue")
    return text[1:-1]


def _parse_guid(text: str) -> UUID:
    if not _GUID.fullmatch(text):
        raise IllegalFormatName("not a GUID", where=shortened(text),
                                remedy="write 8-4-4-4-12 hexadecimal digits without braces")
    return UUID(text)


def _split_suffix(text: str, suffixes: dict[str, QueueSuffix]) -> tuple[str, QueueSuffix]:
    value, semicolon, word = text.partition(";")
    if not semicolon:
        return value, QueueSuffix.NONE
    suffix = suffixes.get(ascii_upper(word[:16]))
    if suffix is None:
        raise IllegalFormatName(f"unknown suffix {shortened(word)!r}", where=shortened(text),
                                remedy=f"allowed here: {', '.join(suffixes)}")
    return value, suffix


_JOURNAL: Final = {"JOURNAL": QueueSuffix.JOURNAL}
_XACTONLY: Final = {"XACTONLY": QueueSuffix.XACTONLY}


def _parse_public(text: str) -> PublicName:
    guid, suffix = _split_suffix(text, _JOURNAL)
    return PublicName(_parse_guid(guid), suffix)


def _parse_private(text: str) -> PrivateName:
    value, suffix = _split_suffix(text, _JOURNAL)
    guid, backslash, number = value.partition("\\")
    if not backslash or not _NUMBER.fullmatch(number):
        raise IllegalFormatName("a private name is a GUID, a backslash and 1 to 8 hexadecimal digits",
                                where=shortened(text), remedy="write PRIVATE=guid\\0000000A")
    return PrivateName(_parse_guid(guid), int(number, 16), suffix)


def _parse_machine(text: str) -> MachineName:
    guid, suffix = _split_suffix(text, SYSTEM_SUFFIXES)
    return MachineName(_parse_guid(guid), suffix)


def _parse_connector(text: str) -> ConnectorName:
    guid, suffix = _split_suffix(text, _XACTONLY)
    return ConnectorName(_parse_guid(guid), suffix is QueueSuffix.XACTONLY)


def _parse_distribution_list(text: str) -> DistributionListName:
    guid, at, domain = text.partition("@")
    if at and not domain:
        raise IllegalFormatName("no domain after the @", where=shortened(text), remedy="take the @ out")
    return DistributionListName(_parse_guid(guid), domain)


def _parse_multicast(text: str) -> MulticastName:
    address, _, port = text.partition(":")
    if not _MULTICAST_PORT.fullmatch(port):
        raise IllegalFormatName("a multicast name is an address, a colon and a port", where=shortened(text),
                                remedy="write for example MULTICAST=234.1.1.1:8001")
    return MulticastName(address, int(port))


def _remedy_for_no_prefix(text: str) -> str:
    if "\\" in text and "=" not in text:
        return f"this looks like a path name: write DIRECT=OS:{shortened(text)}"
    return "write for example DIRECT=OS:host\\private$\\queue"


_KINDS: Final[dict[str, Callable[[str], SingleName]]] = {
    "DIRECT": parse_direct_id,
    "PUBLIC": _parse_public,
    "PRIVATE": _parse_private,
    "MACHINE": _parse_machine,
    "CONNECTOR": _parse_connector,
    "DL": _parse_distribution_list,
    "MULTICAST": _parse_multicast,
}
