"""Bodies of every body type through every formatter; what is read is written and read again."""

from lior.client.formatters import FORMATTERS, BodyType
from lior.errors import FormatterError, LiorError

_TYPES = [int(each) for each in BodyType]


def target(data: bytes) -> None:
    """The first byte chooses the formatter, the next four the body type; the rest is the body."""
    if len(data) < 5:
        return
    formatter = list(FORMATTERS.values())[data[0] % len(FORMATTERS)]
    number = int.from_bytes(data[1:5], "little")
    body_type = number if data[0] & 0x80 else _TYPES[number % len(_TYPES)]
    try:
        value = formatter.decode(data[5:], body_type)
    except LiorError as error:
        if type(error) is not FormatterError:
            raise AssertionError(f"{type(error).__name__} instead of FormatterError") from error
        return
    try:
        body, written = formatter.encode(value)
    except FormatterError:
        return  # more can be read than written: an OLE date with ticks, a decimal of many digits
    again = formatter.decode(body, written)
    if repr(again) != repr(value):  # NaN is no equal of itself
        raise AssertionError(f"{value!r} was read back as {again!r}")


if __name__ == "__main__":
    from harness import run

    run(target)
