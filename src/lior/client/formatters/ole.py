"""VT_DATE and VT_CY: OLE dates, .NET ticks and currency <-> datetime and Decimal."""

import math
import struct
from datetime import datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Final, Literal

from lior.client.formatters.body_type import RAW_REMEDY
from lior.errors import FormatterError

Dates = Literal["ole", "ticks"]

# None of these dates has a time zone, on the wire or here.
OLE_EPOCH: Final = datetime(1899, 12, 30)  # noqa: DTZ001
OLE_FIRST: Final = datetime(100, 1, 1)  # noqa: DTZ001
TICKS_EPOCH: Final = datetime(1, 1, 1)  # noqa: DTZ001
MAX_TICKS: Final = 3_155_378_975_999_999_999  # 9999-12-31T23:59:59.9999999
DAY: Final = 86_400_000_000  # microseconds
# A double below 65536 days (until 2079) tells microseconds apart; above, only milliseconds are sure.
MICROSECOND_DAYS: Final = 65536.0
_EXACT: Final = Context(prec=60, traps=[Inexact, InvalidOperation])


def encode_date(value: object, dates: Dates) -> bytes:
    """A naive datetime as 8 bytes: an OLE date as COM writes it, or ticks as .NET's ActiveXMessageFormatter does."""
    if not isinstance(value, datetime):
        raise FormatterError(f"VT_DATE takes a datetime, not {type(value).__name__}", where="VT_DATE")
    if value.tzinfo is not None:
        raise FormatterError(
            "VT_DATE has no time zone, the datetime has one",
            where="VT_DATE",
            remedy="decide which clock the reader expects: value.astimezone(zone).replace(tzinfo=None)",
        )
    if dates == "ticks":
        return struct.pack("<q", ((value - TICKS_EPOCH) // timedelta(microseconds=1)) * 10)
    if value < OLE_FIRST:
        raise FormatterError("an OLE date begins with the year 100", where="VT_DATE", remedy="send the date as text")
    days, time = divmod((value - OLE_EPOCH) // timedelta(microseconds=1), DAY)
    # Before the epoch the sign belongs to the day; the fraction still counts forward from midnight.
    number = (days * DAY + time) / DAY if days >= 0 else -((-days * DAY + time) / DAY)
    body = struct.pack("<d", number)
    if number == 2958466.0 or decode_date(body, "ole") != value:
        raise FormatterError(
            "an OLE date before 1720 or after 2079 has milliseconds, the datetime has microseconds",
            where="VT_DATE",
            remedy="drop them: value.replace(microsecond=value.microsecond // 1000 * 1000)",
        )
    return body


def decode_date(body: bytes, dates: Dates) -> datetime:
    """Eight bytes of either form.

    Ticks read as a double are below 1e-97 days, which no OLE date is, and an OLE date read as ticks is beyond the
    year 9999; only eight zero bytes are both (1899-12-30 or 0001-01-01), and there `dates` decides.
    """
    (ticks,) = struct.unpack("<q", body)
    if 0 < ticks <= MAX_TICKS or (ticks == 0 and dates == "ticks"):
        return TICKS_EPOCH + timedelta(microseconds=ticks // 10)
    (number,) = struct.unpack("<d", body)
    if not math.isfinite(number) or not -657435.0 < number < 2958466.0:
        raise FormatterError("the date is outside the years 100 to 9999", where="VT_DATE", remedy=RAW_REMEDY)
    days = math.trunc(number)
    time = round(abs(number - days) * DAY)
    if abs(number) >= MICROSECOND_DAYS:
        time = round(time / 1000) * 1000
    try:
        return OLE_EPOCH + timedelta(days=days, microseconds=time)
    except OverflowError:
        raise FormatterError("the date is after the year 9999", where="VT_DATE", remedy=RAW_REMEDY) from None


def encode_currency(value: object) -> bytes:
    """A Decimal as an int64 of ten-thousandths; a value with more digits is refused, not rounded."""
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        raise FormatterError(f"VT_CY takes a Decimal or an int, not {type(value).__name__}", where="VT_CY")
    try:
        if isinstance(value, Decimal) and not value.is_finite():
            raise InvalidOperation
        return struct.pack("<q", int(_EXACT.quantize(Decimal(value), Decimal("0.0001")).scaleb(4, _EXACT)))
    except Inexact:
        raise FormatterError(
            "VT_CY holds four decimal places, the value has more",
            where="VT_CY",
            remedy="quantize it, or send it as text or with the 'xml' formatter",
        ) from None
    except (InvalidOperation, struct.error):
        raise FormatterError(
            "the value is outside the currency range of +-922337203685477.5807",
            where="VT_CY",
            remedy="send it as text or with the 'xml' formatter",
        ) from None


def decode_currency(body: bytes) -> Decimal:
    (number,) = struct.unpack("<q", body)
    return Decimal(number).scaleb(-4, _EXACT)
