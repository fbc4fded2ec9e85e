"""Recorded messages from any bytes: played up to the calls, or refused by one of the checks; no call is ever made.

What decodes is written and decoded again. The application has every kind of parameter; its methods, its loaders of
other data than their own and its object must not be reached.
"""

from dataclasses import dataclass
from typing import Any

from lior.client.message import ReceivedMessage
from lior.components import (
    Application,
    ByRef,
    Currency,
    Date,
    Dec,
    Long,
    Object,
    Short,
    Variant,
    dispid,
    interface,
    record,
    value_class,
)
from lior.components.application import Rejected
from lior.errors import LiorError
from lior.wire import recorded_call
from lior.wire.recorded_call import EXTENSION

CLASS = "5d1c3a70-9b24-4e6f-8a51-c0de0a11ce01"


@record("{11111111-2222-3333-4444-555555555555}")
@dataclass
class Line:
    article: str | None
    count: Short
    price: float


@value_class("{0b5e57ac-1e00-4a11-9e1d-5eed0fb1c0de}")
@dataclass
class Parcel:
    octets: bytes

    def dump(self) -> bytes:
        return b"\x07" + self.octets

    @classmethod
    def load(cls, octets: bytes) -> "Parcel":
        if octets[:1] != b"\x07":
            raise ValueError("no parcel")
        return cls(octets[1:])


@interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f31}")
class ISink:
    @dispid(1)
    def place_order(self, order_id: Long, customer: str | None, amount: float) -> None: ...

    @dispid(7)
    def add_lines(self, warehouse: Short, quantities: list[Long], urgent: bool) -> None: ...

    def send(self, parcel: Parcel | None, other: Object) -> None: ...

    def sample(self, one: Variant, two: Any, three: Variant, four: Variant) -> None: ...

    def more(self, day: Date, money: Currency, number: Dec, lines: list[Line], texts: list[str], nested: list[Any],
             grid: list[list[float]], line: Line) -> None: ...  # fmt: skip

    @dispid(9)
    def ship(self, what: str, weight: ByRef[float], *rest: Any) -> None: ...


class Reached(BaseException):
    """Application code ran."""


app = Application("fuzz", values=(Parcel, Line))


@app.serves(CLASS, ISink)
class Sink:
    def __init__(self) -> None:
        raise Reached

    def _call(self, *_: Any) -> None:
        raise Reached

    place_order = add_lines = send = sample = more = ship = _call


def target(data: bytes) -> None:
    message = ReceivedMessage(body=data, extension=EXTENSION)
    try:
        app.prepare(message)
    except Rejected as error:
        assert isinstance(error.error, LiorError)
    try:
        found = recorded_call.decode(data)
    except LiorError:
        return
    again = recorded_call.decode(recorded_call.encode(found))
    assert [call[:4] for call in again.calls] == [call[:4] for call in found.calls]
    assert again.class_id == found.class_id


if __name__ == "__main__":
    from harness import run

    run(target)
