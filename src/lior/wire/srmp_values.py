"""The data types of SRMP's elements ([MC-MQSRM] 2.2.1): dates, numbers, GUIDs, and what is made of them."""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from calendar import timegm
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from lior.message import ObjectId
from lior.wire.srmp_elements import LAST_DATE, StreamId
from lior.wire.strict_xml import XML_SPACE, malformed

U16: Final = 0xFFFF
U32: Final = 0xFFFFFFFF
U64: Final = 0xFFFFFFFFFFFFFFFF

_NUMBER: Final = re.compile(r"[0-9]{1,40}")
_DATE: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})")
_GUID: Final = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_IDENTIFIER: Final = re.compile(r"uuid:([0-9]{1,40})@(.*)", re.DOTALL)
_STREAM: Final = re.compile(r"uid:([^\\]*)\\(.*)", re.DOTALL)
# XML 1.0 2.2: what a document may hold. A lone surrogate cannot be encoded, either.
_UNSPEAKABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff￾￿]")


def shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def number(text: str, most: int, what: str, least: int = 0) -> int:
    """xs:unsignedLong, which the field behind it may make smaller: refused, never cut."""
    text = text.strip(XML_SPACE)
    if not _NUMBER.fullmatch(text) or not least <= (value := int(text)) <= most:
        raise malformed(f"{what} {shown(text)}, which is no number from {least} to {most}")
    return value


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
    moment = datetime.fromtimestamp(min(max(int(seconds), 0), LAST_DATE), UTC)
    return moment.strftime("%Y%m%dT%H%M%S")


def guid(text: str, what: str) -> UUID:
    text = text.strip(XML_SPACE)
    if not _GUID.fullmatch(text):
        raise malformed(f"{what} {shown(text)}, which is no GUID")
    return UUID(text)


def identifier(text: str, what: str = "id") -> ObjectId:
    """uuid:INDEX@GUID ([MC-MQSRM] 2.2.4.3)."""
    found = _IDENTIFIER.fullmatch(text.strip(XML_SPACE))
    if found is None:
        raise malformed(f"{what} {shown(text)}, which is not like uuid:1@GUID")
    return ObjectId(guid(found.group(2), what), number(found.group(1), U32, what))


def format_identifier(value: ObjectId) -> str:
    return f"uuid:{value.uniquifier}@{value.lineage}"


def stream_id(text: str) -> StreamId:
    """uid:GUID\\NUMBER ([MC-MQSRM] 2.2.5.3.1)."""
    found = _STREAM.fullmatch(text.strip(XML_SPACE))
    if found is None:
        raise malformed(f"streamId {shown(text)}, which is not like uid:GUID\\1")
    return StreamId(guid(found.group(1), "streamId"), number(found.group(2), U64, "streamId"))


def correlation(text: str) -> bytes:
    """An OBJECTID in base64 (2.2.6.5)."""
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
    text = _UNSPEAKABLE.sub("�", text)
    # A carriage return in the source is read as a line feed, so it is written by its number.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")
