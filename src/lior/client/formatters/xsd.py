"""Simple values as .NET's XmlSerializer writes them: element names, literals, arrays."""

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from lior.errors import FormatterError

T = TypeVar("T")

MAX_LITERAL: Final = 400  # no number, date or GUID is longer; converting digits takes quadratic time
_SPACES: Final = " \t\r\n"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_GUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_DATE_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,12}))?(?:(Z)|([+-])(\d\d):(\d\d))?", re.A
)
# XML 1.0, production 2: what no document can hold, not even escaped
_FORBIDDEN: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Scalar(NamedTuple):
    """One element: from a value to its literal and back."""

    write: Callable[[object], str]
    read: Callable[[str], object]


def _typed(value: object, kind: type[T], element: str) -> T:
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise FormatterError(f"{element} takes {kind.__name__}, not {type(value).__name__}", where=f"xml {element}")


def _no_literal(element: str, literal: str) -> FormatterError:
    return FormatterError(
        f"{literal[:60]!r} is no {element}", where=f"xml {element}", remedy="read the body with the 'bytes' formatter"
    )


def _write_string(value: object) -> str:
    text = _typed(value, str, "string")
    if _FORBIDDEN.search(text):
        raise FormatterError(
            "the text has a character that XML cannot hold", where="xml string", remedy="use the 'string' formatter"
        )
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("\r", "&#xD;")  # raw, every XML parser but .NET's makes it a line feed


def _write_boolean(value: object) -> str:
    return "true" if _typed(value, bool, "boolean") else "false"


def _read_boolean(literal: str) -> bool:
    if literal in ("true", "1"):
        return True
    if literal in ("false", "0"):
        return False
    raise _no_literal("boolean", literal)


def _write_integer(element: str, low: int, high: int, value: object) -> str:
    number = int(_typed(value, int, element))
    if not low <= number <= high:
        raise FormatterError(f"the integer does not fit {element}", where=f"xml {element}", remedy="use a wider type")
    return str(number)


def _read_integer(element: str, low: int, high: int, literal: str) -> int:
    if not _INTEGER.fullmatch(literal) or not low <= (number := int(literal)) <= high:
        raise _no_literal(element, literal)
    return number


def _write_char(value: object) -> str:
    """A .NET char is one UTF-16 code unit and is written as its number."""
    if isinstance(value, str) and len(value) == 1 and ord(value) <= 0xFFFF and not _is_surrogate(ord(value)):
        return str(ord(value))
    raise FormatterError("char takes one character of the basic plane", where="xml char", remedy="use string")


def _is_surrogate(code: int) -> bool:
    return 0xD800 <= code <= 0xDFFF


def _read_char(literal: str) -> str:
    code = _read_integer("char", 0, 0xFFFF, literal)
    if _is_surrogate(code):  # half a character cannot be printed, stored or sent on
        raise _no_literal("char", literal)
    return chr(code)


def _write_double(element: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatterError(f"{element} takes a float, not {type(value).__name__}", where=f"xml {element}")
    try:
        number = float(value)
    except OverflowError:
        raise FormatterError(f"the integer does not fit {element}", where=f"xml {element}") from None
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "INF" if number > 0 else "-INF"
    if element == "float" and abs(number) > 3.4028234663852886e38:
        raise FormatterError("the number does not fit float", where="xml float", remedy="use double")
    return repr(number).removesuffix(".0")


def _read_double(element: str, literal: str) -> float:
    special = {"NaN": math.nan, "INF": math.inf, "-INF": -math.inf}.get(literal)
    if special is not None:
        return special
    if not _DOUBLE.fullmatch(literal) or math.isinf(number := float(literal)):
        raise _no_literal(element, literal)
    return number


def _write_decimal(value: object) -> str:
    number = _typed(value, Decimal, "decimal")
    _, digits, exponent = number.as_tuple()
    # System.Decimal: 96 bits and up to 28 decimal places
    fits = isinstance(exponent, int) and -28 <= exponent <= 28 and len(digits) <= 29
    if not fits or int("".join(map(str, digits))) * 10 ** max(0, int(exponent)) >= 1 << 96:
        raise FormatterError(
            "the value does not fit a .NET decimal", where="xml decimal", remedy="send it as text, or quantize it"
        )
    return format(number, "f")


def _read_decimal(literal: str) -> Decimal:
    if not _DECIMAL.fullmatch(literal):
        raise _no_literal("decimal", literal)
    return Decimal(literal)


def _write_date_time(value: object) -> str:
    moment = _typed(value, datetime, "dateTime")
    text = moment.replace(tzinfo=None, microsecond=0).isoformat()
    if moment.microsecond:
        text += f".{moment.microsecond:06}".rstrip("0")
    offset = moment.utcoffset()
    if offset is None:
        return text
    if offset % timedelta(minutes=1) or abs(offset) > timedelta(hours=14):
        raise FormatterError("the offset from UTC is no XML offset", where="xml dateTime", remedy="convert it to UTC")
    if not offset:
        return text + "Z"
    minutes = abs(offset) // timedelta(minutes=1)
    return f"{text}{'-' if offset < timedelta() else '+'}{minutes // 60:02}:{minutes % 60:02}"


def _read_date_time(literal: str) -> datetime:
    match = _DATE_TIME.fullmatch(literal)
    if not match:
        raise _no_literal("dateTime", literal)
    year, month, day, hour, minute, second, fraction, utc, sign, hours, minutes = match.groups()
    zone: timezone | None = UTC if utc else None
    try:
        if sign:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            if int(minutes) > 59 or offset > timedelta(hours=14):
                raise ValueError
            zone = timezone(-offset if sign == "-" else offset)
        microsecond = int((fraction or "0")[:6].ljust(6, "0"))
        return datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), microsecond, zone)
    except ValueError:
        raise _no_literal("dateTime", literal) from None


def _write_guid(value: object) -> str:
    return str(_typed(value, UUID, "guid"))


def _read_guid(literal: str) -> UUID:
    if not _GUID.fullmatch(literal):
        raise _no_literal("guid", literal)
    return UUID(literal)


def _write_base64(value: object) -> str:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise FormatterError(f"base64Binary takes bytes, not {type(value).__name__}", where="xml base64Binary")
    return base64.b64encode(bytes(value)).decode("ascii")


def _read_base64(literal: str) -> bytes:
    try:
        return base64.b64decode(literal.translate(_NO_SPACES), validate=True)
    except (binascii.Error, ValueError):
        raise _no_literal("base64Binary", literal) from None


_NO_SPACES: Final = str.maketrans("", "", _SPACES)
_RANGES: Final = {
    "byte": (-0x80, 0x7F), "unsignedByte": (0, 0xFF),
    "short": (-0x8000, 0x7FFF), "unsignedShort": (0, 0xFFFF),
    "int": (-0x80000000, 0x7FFFFFFF), "unsignedInt": (0, 0xFFFFFFFF),
    "long": (-(1 << 63), (1 << 63) - 1), "unsignedLong": (0, (1 << 64) - 1),
}
SCALARS: Final[dict[str, Scalar]] = {
    "string": Scalar(_write_string, str),
    "boolean": Scalar(_write_boolean, _read_boolean),
    "char": Scalar(_write_char, _read_char),
    "float": Scalar(partial(_write_double, "float"), partial(_read_double, "float")),
    "double": Scalar(partial(_write_double, "double"), partial(_read_double, "double")),
    "decimal": Scalar(_write_decimal, _read_decimal),
    "dateTime": Scalar(_write_date_time, _read_date_time),
    "guid": Scalar(_write_guid, _read_guid),
    "base64Binary": Scalar(_write_base64, _read_base64),
    **{
        element: Scalar(partial(_write_integer, element, low, high), partial(_read_integer, element, low, high))
        for element, (low, high) in _RANGES.items()
    },
}
ARRAYS: Final = {f"ArrayOf{element[0].upper()}{element[1:]}": element for element in SCALARS}


def write_scalar(element: str, value: object) -> str:
    """The literal of a value, escaped for element content."""
    return SCALARS[element].write(value)


def read_scalar(element: str, text: str) -> object:
    """The value of an element's content; all but a string may have white space around it."""
    if element == "string":
        return text
    if element != "base64Binary" and len(text := text.strip(_SPACES)) > MAX_LITERAL:
        raise _no_literal(element, text)
    return SCALARS[element].read(text)


_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (str, "string"), (bool, "boolean"), (float, "double"), (Decimal, "decimal"), (datetime, "dateTime"),
    (UUID, "guid"), (bytes, "base64Binary"), (bytearray, "base64Binary"), (memoryview, "base64Binary"),
)


def element_name(value: object) -> str:
    """The element for a value, as XmlSerializer names the nearest .NET type."""
    if isinstance(value, list | tuple):
        return _array_name(value)
    if isinstance(value, int) and not isinstance(value, bool):
        for element in ("int", "long", "unsignedLong"):
            if _RANGES[element][0] <= value <= _RANGES[element][1]:
                return element
        raise FormatterError("the integer does not fit 64 bits", where="xml", remedy="send it as text")
    for kind, element in _NAMES:
        if isinstance(value, kind):
            return element
    raise FormatterError(f"{type(value).__name__} has no XML element", where="xml", remedy="use the 'json' formatter")


def _array_name(values: list[object] | tuple[object, ...]) -> str:
    names = {element_name(value) for value in values if value is not None}
    if any(isinstance(value, list | tuple) for value in values):
        raise FormatterError("an array holds no arrays", where="xml", remedy="use the 'json' formatter")
    if names == {"int", "long"}:
        names = {"long"}
    if len(names) > 1:
        raise FormatterError("the items have several types", where="xml", remedy="use the 'json' formatter")
    if None in values and not names <= {"string", "base64Binary"}:
        raise FormatterError("only strings and bytes may be None", where="xml", remedy="use the 'json' formatter")
    element = names.pop() if names else "string"
    return f"ArrayOf{element[0].upper()}{element[1:]}"
