"""Arguments of the dispatch form are mapped and converted, or refused with their code: [MS-OAUT] 3.1.4.4.1 to 4."""

# ruff: noqa: DTZ001

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from lior.components import (
    MISSING,
    ByRef,
    Currency,
    Date,
    Enum32,
    Locale,
    Long,
    Short,
    dispid,
    interface,
    interface_of,
    propput,
)
from lior.components.dispatching import arguments_of
from lior.wire import automation_dispatch as dispatch
from lior.wire.automation import EMPTY, Bound, SafeArray, SCode, Variant
from lior.wire.automation_dispatch import METHOD, PROPERTY_GET, PROPERTY_PUT, DispatchRefused, Invocation
from lior.wire.automation_types import NOTHING
from tests.components.test_interfaces import Colour

FIRST, NONE = datetime(2000, 1, 1), Variant(0)
TEXT, LONG, DOUBLE, MISSED = Variant(8, "x"), Variant(3, 5), Variant(5, 2.5), Variant(10, SCode(0x80020004))


@interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f50}", base="IDispatch")
class IDesk:
    @dispid(1)
    def take(self, text: str, number: Long, size: Short = 7) -> None: ...

    @dispid(2)
    @propput
    def priority(self, index: Long, value: Long) -> None: ...

    @dispid(3)
    def log(self, text: str, *more: Any) -> None: ...

    @dispid(4)
    def localised(self, lcid: Locale, text: str) -> None: ...

    @dispid(5)
    def optional(self, text: str = MISSING, anything: Any = MISSING) -> None: ...  # type: ignore[assignment]

    @dispid(6)
    def kinds(self, real: float = 0, money: Currency = Decimal(0), day: Date = FIRST, truth: bool = False,
              colour: Enum32[Colour] = Colour.RED, items: Any = MISSING, longs: list[Long] | None = None,
              back: ByRef[Long] = 0, anything: Any = None, typed: Variant = NONE) -> None: ...


def mapped(name: str, *arguments: Variant, named: tuple[int, ...] = (), flags: int = METHOD,
           references: tuple[tuple[int, Variant], ...] = (), lcid: int = 0x409) -> tuple[Any, ...]:
    """`arguments` as they stand on the wire."""
    method = interface_of(IDesk).by_name[name]
    assert method.dispid is not None
    return arguments_of(method, Invocation(method.dispid, flags, arguments, named, references, lcid), NOTHING)


def refused(code: int, name: str, *arguments: Variant, **options: Any) -> None:
    with pytest.raises(DispatchRefused) as caught:
        mapped(name, *arguments, **options)
    assert caught.value.code == code, caught.value


@pytest.mark.spec("QC-099", "QC-104")
def test_positional_arguments_stand_in_reverse_and_named_ones_in_front() -> None:
    assert mapped("take", LONG, TEXT) == ("x", 5, 7)
    assert mapped("take", Variant(2, 9), LONG, TEXT) == ("x", 5, 9)
    assert mapped("take", Variant(2, 9), LONG, TEXT, named=(2, 1)) == ("x", 5, 9)
    assert mapped("take", TEXT, Variant(2, 9), LONG, named=(0, 2, 1)) == ("x", 5, 9)
    assert mapped("take", Variant(2, 9), TEXT, LONG, named=(2, 0, 1)) == ("x", 5, 9)


@pytest.mark.spec("QC-106")
def test_each_mistake_has_its_code() -> None:
    refused(dispatch.BAD_PARAMETER_COUNT, "take", LONG, LONG, LONG, TEXT)
    refused(dispatch.PARAMETER_NOT_OPTIONAL, "take", TEXT)
    refused(dispatch.PARAMETER_NOT_OPTIONAL, "take")
    refused(dispatch.PARAMETER_NOT_OPTIONAL, "take", LONG, MISSED)
    refused(dispatch.PARAMETER_NOT_FOUND, "take", LONG, LONG, TEXT, named=(9,))
    refused(dispatch.PARAMETER_NOT_FOUND, "take", LONG, LONG, TEXT, named=(2, 2))
    refused(dispatch.PARAMETER_NOT_FOUND, "take", LONG, LONG, TEXT, named=(-3,))
    refused(dispatch.BAD_PARAMETER_COUNT, "take", LONG, LONG, TEXT, named=(0,))
    refused(dispatch.MEMBER_NOT_FOUND, "take", LONG, TEXT, flags=PROPERTY_PUT)
    refused(dispatch.MEMBER_NOT_FOUND, "take", LONG, TEXT, flags=PROPERTY_GET)
    refused(dispatch.TYPE_MISMATCH, "take", Variant(8, "many"), TEXT)
    refused(dispatch.TYPE_MISMATCH, "take", Variant(1), TEXT)
    refused(dispatch.OVERFLOW, "take", Variant(20, 1 << 40), TEXT)
    refused(dispatch.OVERFLOW, "take", Variant(3, 40_000), LONG, TEXT)
    refused(dispatch.NO_NAMED_ARGUMENTS, "log", Variant(0x200C, SafeArray(12, (), (Bound(0),))), TEXT, named=(0,))
    refused(dispatch.BAD_PARAMETER_COUNT, "log", TEXT)
    refused(dispatch.BAD_PARAMETER_COUNT, "log")


@pytest.mark.spec("QC-103")
def test_the_value_of_a_property_is_its_last_parameter() -> None:
    assert mapped("priority", Variant(3, 4), Variant(3, 1), named=(-3,), flags=PROPERTY_PUT) == (1, 4)
    refused(dispatch.PARAMETER_NOT_OPTIONAL, "priority", Variant(3, 4), named=(-3,), flags=PROPERTY_PUT)
    refused(dispatch.MEMBER_NOT_FOUND, "priority", Variant(3, 4), Variant(3, 1))


@pytest.mark.spec("QC-104")
def test_markers_become_the_defaults_and_the_rest_its_places() -> None:
    assert mapped("take", MISSED, LONG, TEXT) == ("x", 5, 7)
    assert mapped("optional") == (MISSING, MISSING)
    assert mapped("optional", MISSED, TEXT) == ("x", MISSING)
    more = SafeArray(12, (Variant(3, 1), Variant(8, "two"), Variant(1)), (Bound(3),))
    assert mapped("log", Variant(0x200C, more), TEXT) == ("x", (1, "two", None))
    assert mapped("localised", TEXT, lcid=0x0407) == (0x0407, "x")


CONVERSIONS: list[tuple[str, Variant, Any]] = [
    ("real", LONG, 5.0), ("real", Variant(8, "2.5"), 2.5), ("real", Variant(11, True), -1.0),
    ("real", Variant(6, Decimal("1.5")), 1.5), ("real", Variant(7, datetime(1900, 1, 4, 6)), 5.25),
    ("money", LONG, Decimal(5)), ("money", DOUBLE, Decimal("2.5")), ("money", Variant(8, "1.25"), Decimal("1.25")),
    ("day", Variant(5, 5.25), datetime(1900, 1, 4, 6)), ("day", Variant(8, "2000-01-01"), FIRST),
    ("truth", LONG, True), ("truth", Variant(3, 0), False), ("truth", Variant(8, "True"), True),
    ("truth", Variant(8, "false"), False), ("truth", Variant(8, "0"), False), ("colour", Variant(2, 2), Colour.BLUE),
    ("longs", Variant(0x2003, SafeArray(3, (1, 2), (Bound(2),))), [1, 2]),
    ("longs", Variant(0x200C, SafeArray(12, (Variant(3, 1), Variant(2, 2)), (Bound(2),))), [1, 2]),
    ("back", Variant(0x4003, 9), 9), ("back", Variant(0x400C, Variant(3, 9)), 9), ("back", Variant(0x4002, 9), 9),
    ("anything", Variant(0), EMPTY), ("anything", TEXT, "x"), ("typed", TEXT, TEXT),
]  # fmt: skip


@pytest.mark.spec("QC-106")
@pytest.mark.parametrize(("name", "variant", "value"), CONVERSIONS, ids=str)
def test_a_value_of_another_type_is_converted(name: str, variant: Variant, value: Any) -> None:
    names = [each.name for each in interface_of(IDesk).by_name["kinds"].parameters]
    found = mapped("kinds", variant, named=(names.index(name),))[names.index(name)]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.spec("QC-106")
@pytest.mark.parametrize(("name", "variant"), [
    ("real", TEXT), ("day", TEXT), ("day", Variant(5, 1e9)), ("truth", TEXT), ("colour", Variant(3, 77)),
    ("longs", LONG),
    ("longs", Variant(0x2008, SafeArray(8, ("a",), (Bound(1),)))), ("money", Variant(8, "much")),
    ("money", Variant(5, float("nan"))), ("real", Variant(1)),
    ("real", Variant(0x2003, SafeArray(3, (1,), (Bound(1),)))),
])  # fmt: skip
def test_what_cannot_be_converted_is_refused(name: str, variant: Variant) -> None:
    names = [each.name for each in interface_of(IDesk).by_name["kinds"].parameters]
    with pytest.raises(DispatchRefused) as caught:
        mapped("kinds", variant, named=(names.index(name),))
    assert caught.value.code in (dispatch.TYPE_MISMATCH, dispatch.OVERFLOW)
