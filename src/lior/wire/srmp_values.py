"""The data types of SRMP's elements ([MC-MQSRM] 2.2.1): dates, numbers, GUIDs, and what is made of them."""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from calendar import timegm
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit
from uuid import UUID

from lior.errors import LiorError
from lior.message import ObjectId
from lior.names import MulticastName, parse_format_name
from lior.wire.srmp_elements import LABEL_PREFIX, LAST_DATE, MULTICAST_PREFIX, NAME_PREFIX, StreamId
from lior.wire.strict_xml import XML_SPACE, malformed

MAX_LABEL: Final = 249  # [MS-MQMQ] 2.2.19.3, UTF-16 code units
MAX_URL: Final = 2048
MOST_REMEMBERED: Final = 256  # of each kind
LONGEST_REMEMBERED: Final = 256  # characters
U16: Final = 0xFFFF
U32: Final = 0xFFFFFFFF
U64: Final = 0xFFFFFFFFFFFFFFFF

_NUMBER: Final = re.compile(r"[0-9]{1,40}")
_DATE: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})")
_GUID: Final = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_IDENTIFIER: Final = re.compile(r"uuid:([0-9]{1,40})@(.*)", re.DOTALL)
_STREAM: Final = re.compile(r"uid:([^\\]*)\\(.*)", re.DOTALL)
_NO_CORRELATION: Final = 27 * "A" + "="
# XML 1.0 2.2: what a document may hold. A lone surrogate cannot be encoded, either.
_UNSPEAKABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff￾￿]")


T = TypeVar("T")


def remembered(read: Callable[[str, str], T]) -> Callable[[str, str], T]:
    """The same texts come again and again: dates of one second, names, who sends."""
    known = lru_cache(MOST_REMEMBERED)(read)

    def look(text: str, what: str, /) -> T:
        return known(text, what) if len(text) <= LONGEST_REMEMBERED else read(text, what)

    return look


_SPECIAL: Final = re.compile(_UNSPEAKABLE.pattern[:-1] + "&<>\r]")


def shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def number(text: str, most: int, what: str, least: int = 0) -> int:
    """xs:unsignedLong, which the field behind it may make smaller: refused, never cut."""
    text = text.strip(XML_SPACE)
    if not _NUMBER.fullmatch(text) or not least <= (value := int(text)) <= most:
        raise malformed(f"{what} {shown(text)}, which is no number from {least} to {most}")
    return value


@remembered
def date(text: str, what: str) -> int:
    text = text.strip(XML_SPACE)
    found = _DATE.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        year, month, day, hour, minute, second = (int(part) for part in found.groups())
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise malformed(f"{what} {shown(text)}, which is no date like 20070609T164419") from None
    return timegm(moment.timetuple())


def format_date(seconds: float) -> str:
    """Of a moment that 31 bits do not hold: the last one that they do, which stands for infinite."""
    return _format_second(min(max(int(seconds), 0), LAST_DATE))


@lru_cache(MOST_REMEMBERED)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y%m%dT%H%M%S")


@remembered
def guid(text: str, what: str) -> UUID:
    text = text.strip(XML_SPACE)
    if not _GUID.fullmatch(text):
        raise malformed(f"{what} {shown(text)}, which is no GUID")
    return UUID(text)


def identifier(text: str, what: str = "id", source: UUID | None = None) -> ObjectId:
    """uuid:INDEX@GUID ([MC-MQSRM] 2.2.4.3). The GUID of SourceQmGuid counts if they differ (note 7)."""
    found = _IDENTIFIER.fullmatch(text.strip(XML_SPACE))
    if found is None:
        raise malformed(f"{what} {shown(text)}, which is not like uuid:1@GUID")
    given = guid(found.group(2), what)
    return ObjectId(given if source is None else source, number(found.group(1), U32, what))


def format_identifier(value: ObjectId) -> str:
    return f"uuid:{value.uniquifier}@{value.lineage}"


@remembered
def stream_id(text: str, what: str) -> StreamId:
    """uid:GUID\\NUMBER ([MC-MQSRM] 2.2.5.3.1)."""
    found = _STREAM.fullmatch(text.strip(XML_SPACE))
    if found is None:
        raise malformed(f"{what} {shown(text)}, which is not like uid:GUID\\1")
    return StreamId(guid(found.group(1), what), number(found.group(2), U64, what))


def label(action: str) -> str | None:
    """None: the action has no MSMQ: in front (2.2.4.1)."""
    if not action.startswith(LABEL_PREFIX):
        return None
    text = action.removeprefix(LABEL_PREFIX)
    if len(text) > MAX_LABEL or len(text.encode("utf-16-le", "surrogatepass")) > 2 * MAX_LABEL:
        raise malformed(f"a label of more than {MAX_LABEL} characters")
    return text


@remembered
def destination(text: str, what: str) -> str:
    """A URL, or MSMQ:MULTICAST=address:port (2.2.4.2)."""
    if not text.upper().startswith(MULTICAST_PREFIX):
        return url(text, what)
    name = text[len(NAME_PREFIX) :]
    if not isinstance(_format_name(name, what), MulticastName):
        raise malformed(f"to {shown(text)}, which is no multicast address")
    return NAME_PREFIX + name


@remembered
def queue_name(text: str, what: str) -> str:
    """A URL, or a format name behind MSMQ: (2.2.4.4)."""
    if text[: len(NAME_PREFIX)].upper() != NAME_PREFIX:
        return url(text, what)
    _format_name(text[len(NAME_PREFIX) :], what)
    return text


def _format_name(name: str, what: str) -> object:
    try:
        return parse_format_name(name)
    except LiorError as error:
        raise malformed(f"{what} {shown(name)}: {error.what}") from None


@remembered
def url(text: str, what: str) -> str:
    if not 0 < len(text) <= MAX_URL or any(character in XML_SPACE or character < " " for character in text):
        raise malformed(f"{what} {shown(text)}, which is no URL")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise malformed(f"{what} {shown(text)}, which is no URL") from None
    allowed = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and not parts.fragment
    steps = unquote(parts.path).replace("\\", "/").split("/")
    if not allowed or port == 0 or "." in steps or ".." in steps:  # a server would take steps for another place
        raise malformed(f"{what} {shown(text)}, which is no http:// or https:// URL of a queue")
    return text


def correlation(text: str) -> bytes:
    """An OBJECTID in base64 (2.2.6.5)."""
    if text == _NO_CORRELATION:
        return bytes(20)
    try:
        value = b64decode("".join(text.split()), validate=True)
    except (Base64Error, ValueError):
        raise malformed(f"Correlation {shown(text)}, which is not base64") from None
    if len(value) != 20:
        raise malformed(f"Correlation of {len(value)} octets instead of 20")
    return value


def format_correlation(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def escape(text: str) -> str:
    """As content of an element. What XML 1.0 cannot carry becomes U+FFFD."""
    if not _SPECIAL.search(text):
        return text
    text = _UNSPEAKABLE.sub("�", text)
    # A carriage return in the source is read as a line feed, so it is written by its number.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")
