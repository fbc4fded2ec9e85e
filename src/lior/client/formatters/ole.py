"""VT_DATE and VT_CY: OLE dates, .NET ticks and currency <-> datetime and Decimal."""

import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, TypeVar

from lior.client.formatters.body_type import RAW_REMEDY
from lior.errors import FormatterError, InvalidParameter
from lior.wire.automation import currency_from_int, currency_to_int, date_to_days, days_to_date

Dates = Literal["ole", "ticks"]

# Neither kind of date has a time zone, on the wire or here.
TICKS_EPOCH: Final = datetime(1, 1, 1)  # noqa: DTZ001
MAX_TICKS: Final = 3_155_378_975_999_999_999  # 9999-12-31T23:59:59.9999999

T = TypeVar("T")


def _converted(convert: Callable[[Any], T], value: object) -> T:
    try:
        return convert(value)
    except InvalidParameter as error:
        remedy = error.remedy or "send it as text or with the 'xml' formatter"
        raise FormatterError(error.what, where=error.where, remedy=remedy) from None


def encode_date(value: object, dates: Dates) -> bytes:
    """A naive datetime as 8 bytes: an OLE date as COM writes it, or ticks as .NET's ActiveXMessageFormatter does."""
    if dates == "ticks" and isinstance(value, datetime) and value.tzinfo is None:
        return struct.pack("<q", ((value - TICKS_EPOCH) // timedelta(microseconds=1)) * 10)
    return struct.pack("<d", _converted(date_to_days, value))


def decode_date(body: bytes, dates: Dates) -> datetime:
    """Eight bytes of either form.

    Ticks read as a double are below 1e-97 days, which no OLE date is, and an OLE date read as ticks is beyond the
    year 9999; only eight zero bytes are both (1899-12-30 or 0001-01-01), and there `dates` decides.
    """
    (ticks,) = struct.unpack("<q", body)
    if 0 < ticks <= MAX_TICKS or (ticks == 0 and dates == "ticks"):
        return TICKS_EPOCH + timedelta(microseconds=ticks // 10)
    date = days_to_date(*struct.unpack("<d", body))
    if date is None:
        raise FormatterError("the date is outside the years 100 to 9999", where="VT_DATE", remedy=RAW_REMEDY)
    return date


def encode_currency(value: object) -> bytes:
    """A Decimal as an int64 of ten-thousandths; a value with more digits is refused, not rounded."""
    return struct.pack("<q", _converted(currency_to_int, value))


def decode_currency(body: bytes) -> Decimal:
    return currency_from_int(*struct.unpack("<q", body))
