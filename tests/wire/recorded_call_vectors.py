"""The six example messages: A is the worked example of the design note, octet by octet; the others are the
second hand's."""

from pathlib import Path
from uuid import UUID

from tests.wire.second_recorded_call import (
    Data,
    caller,
    extension,
    message,
    meth,
    object_reference,
    part,
    secd,
    secr,
    smth,
)

CLASS = "5d1c3a70-9b24-4e6f-8a51-c0de0a11ce01"
INTERFACE = "3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f31"
IDISPATCH = "00020400-0000-0000-C000-000000000046"
GLOBAL = "41E90F3E-56C1-4633-81C3-6E8BAC8BDD70"
PARCEL = "0b5e57ac-1e00-4a11-9e1d-5eed0fb1c0de"  # class of a by-value object
CLASS_ID, INTERFACE_ID, PARCEL_ID = UUID(CLASS), UUID(INTERFACE), UUID(PARCEL)
CLERK, SYSTEM = "S-1-5-21-1000-2000-3000-1104", "S-1-5-18"
CONTEXT_A, CONTEXT_B = extension(caller(CLERK)), extension(caller(SYSTEM, level=6), minimum=6)

FILE = Path(__file__).resolve().parent.parent / "vectors" / "comqc" / "worked_example.hex"
A = bytes.fromhex("".join(line.partition("#")[0] for line in FILE.read_text().splitlines()))


def place_order(order: int, customer: str | None, amount: float, referent: int = 0x20000) -> Data:
    data = Data(referent)
    data.put("i", order)
    data.bstr(customer)
    data.put("d", amount)
    return data


def add_lines(warehouse: int, quantities: list[int], urgent: bool, referent: int = 0x20000) -> Data:
    data = Data(referent)
    data.put("h", warehouse)
    data.array(3, quantities)
    data.put("H", 0xFFFF if urgent else 0)
    return data


def slack() -> bytes:
    """A, with what Windows leaves behind the parameters and in the padding."""
    one = place_order(1001, "Zoë", 249.5)
    two = add_lines(-2, [10, 20, -30], True, one.referent)
    data = two.octets + b"\xAA" * 37
    return message(CLASS, part(GLOBAL), secd(CONTEXT_A),
                   meth(INTERFACE, 3, one.octets + bytes(range(1, 42)), b"\xEE" * 7), smth(4, data))


def security_switch() -> bytes:
    """Contexts A, B, A, A: in full, in full, by reference, not said again."""
    at = 200
    calls = [place_order(number, None, 0.0).octets for number in range(4)]
    first = secd(CONTEXT_A)
    parts = [first, meth(INTERFACE, 3, calls[0]), secd(CONTEXT_B), smth(3, calls[1]), secr(at), smth(3, calls[2]),
             smth(3, calls[3])]
    return message(CLASS, *parts)


def dispatch() -> bytes:
    """Ship(7): a text, a reference to a double, an array of longs; then the property 9 is set to 4."""
    one = Data()
    one.invoke(7, [(0x2003, [1, 2, 3]), (0, None), (8, "Zoë")], references=((1, 0x4005, 3.25),))
    two = Data(one.referent)
    two.invoke(9, [(3, 4)], named=(-3,), flags=0xE0004)
    return message(CLASS, part(GLOBAL), secd(CONTEXT_A), meth(IDISPATCH, 6, one.octets), smth(6, two.octets))


def by_value_object() -> bytes:
    """Send(parcel, NULL)."""
    data = Data()
    data.pointer()
    data.objects(object_reference(PARCEL, b"\x07parcel"))
    data.put("I", 0)
    return message(CLASS, secd(CONTEXT_A), meth(INTERFACE, 5, data.octets))


def sampler() -> bytes:
    """A VARIANT of each interesting kind."""
    data = Data()
    for vt, value in (
        (7, 5.25), (7, -1.25), (14, (True, 1234567, 3)), (6, 52500),
        (0x2005, ([0.0, 10.0, 1.0, 11.0, 2.0, 12.0], [(2, 0), (3, 0)])),
        (0x2008, (["a", "", None], [(3, 1)])),
        (0x200C, [(3, 1), (8, "x"), (1, None), (5, 2.5)]),
        (0x400C, (8, "nested")), (0, None), (10, 0x80020004 - (1 << 32)), (11, -1), (20, -5),
    ):
        data.variant(vt, value)
    return message(CLASS, secd(CONTEXT_A), meth(INTERFACE, 6, data.octets))


B, C, D, E, F = slack(), security_switch(), dispatch(), by_value_object(), sampler()
ALL = {"A": A, "B": B, "C": C, "D": D, "E": E, "F": F}
