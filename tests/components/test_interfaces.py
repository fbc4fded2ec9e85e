"""Interfaces are checked when they are defined: [MC-COMQC] 2.2.6.1, [MS-OAUT] 2.2.49.3."""

# ruff: noqa: DTZ001, UP045

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from typing import Annotated, Any, Optional, Protocol
from uuid import UUID

import pytest

from lior.components import (
    MISSING,
    BStr,
    ByRef,
    Byte,
    Char,
    Currency,
    Date,
    Dec,
    DispatchObject,
    Enum16,
    Enum32,
    Hyper,
    Locale,
    Long,
    Object,
    PlainBoolean,
    SCode,
    Short,
    Single,
    UHyper,
    ULong,
    UShort,
    Variant,
    dispid,
    interface,
    interface_of,
    opnum,
    propput,
    record,
    value_class,
)
from lior.components.annotations import OpenScope, scope_of, type_of
from lior.errors import NotQueueable
from lior.wire import automation_types as types
from lior.wire.automation_types import AutomationReader, AutomationWriter

IID = "{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f31}"
SCOPE = OpenScope()


class Colour(IntEnum):
    RED = 1
    BLUE = 2


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
        return self.octets

    @classmethod
    def load(cls, octets: bytes) -> "Parcel":
        return cls(octets)


TYPES: list[tuple[Any, Any, bytes | None]] = [
    (int, 1, b"\1\0\0\0"), (Char, -1, b"\xFF"), (Byte, 255, b"\xFF"), (Short, -2, b"\xFE\xFF"), (UShort, 2, b"\2\0"),
    (Long, 3, b"\3\0\0\0"), (ULong, 3, b"\3\0\0\0"), (Hyper, 1, b"\1" + bytes(7)), (UHyper, 1, b"\1" + bytes(7)),
    (float, 249.5, bytes.fromhex("0000000000306F40")), (Single, 1.5, bytes.fromhex("0000C03F")),
    (bool, True, b"\xFF\xFF"), (PlainBoolean, True, b"\1"), (SCode, SCode(5), b"\5\0\0\0"),
    (Currency, Decimal("5.25"), bytes.fromhex("14CD000000000000")), (Dec, Decimal("-1.5"), None),
    (Date, datetime(1900, 1, 4, 6), bytes.fromhex("0000000000001540")), (datetime, datetime(2026, 1, 1), None),
    (str, "Zoë", None), (str | None, None, None), (Optional[str], "x", None), (BStr, b"abc", None),
    (bytes, b"octets", None), (list[Long], [1, 2], None), (list[str], ["a", "b"], None),
    (list[Long] | None, None, bytes(4)), (list[list[float]], [[1.0, 2.0], [3.0, 4.0]], None),
    (list[Any], [1, "x"], None), (list[Enum32[Colour]], [Colour.RED], None), (Line, Line("a", 1, 2.0), None),
    (Any, [1, None], None), (Variant, Variant(3, 1), None), (Enum16[Colour], Colour.BLUE, b"\2\0"),
    (Enum32[Colour], Colour.BLUE, b"\2\0\0\0"),
    (list[Line], [Line("a", 1, 2.0)], None), (Parcel, Parcel(b"x"), None), (Parcel | None, None, bytes(4)),
    (Object, None, bytes(4)), (DispatchObject, None, bytes(4)), (list[Parcel], [Parcel(b"x")], None),
]  # fmt: skip


@pytest.mark.spec("QC-096", "QC-069", "QC-070")
@pytest.mark.parametrize(("annotation", "value", "octets"), TYPES, ids=[str(each[0]) for each in TYPES])
def test_each_automation_type_has_an_annotation_and_travels_both_ways(
    annotation: Any, value: Any, octets: bytes | None
) -> None:
    kind = type_of(annotation, "here")
    writer = AutomationWriter(SCOPE)
    kind.write_parameter(writer, value)
    if octets is not None:
        assert writer.to_bytes() == octets
    scope = scope_of([kind])
    assert kind.read_parameter(AutomationReader(writer.to_bytes(), scope)) == value


@pytest.mark.spec("QC-096", "QC-070", "QC-065")
@pytest.mark.parametrize("annotation", [
    Decimal, Colour, dict, dict[str, int], set[int], tuple[int, int], object, complex, int | None, float | None,
    bool | None, int | str, list[Dec], list[Decimal], type(None), memoryview, Annotated[int, "short"], Enum16[int],
    list[Colour], "nonsense", Protocol, Ellipsis,
], ids=str)  # fmt: skip
def test_refuses_an_annotation_that_no_message_carries(annotation: Any) -> None:
    with pytest.raises(NotQueueable):
        type_of(annotation, "here")


@pytest.mark.spec("QC-067")
def test_64_bit_integers_are_marked_as_an_extension() -> None:
    @interface(IID)
    class IWide:
        def wide(self, one: Hyper, two: Long, three: UHyper) -> None: ...

    assert interface_of(IWide).methods[3].extensions == ["one", "three"]


@pytest.mark.spec("QC-059")
def test_numbers_follow_the_source_from_three_or_from_seven() -> None:
    @interface(IID)
    class IPlain:
        def first(self) -> None: ...
        def second(self) -> None: ...

    @interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f32}")
    class IDerived(IPlain):
        def third(self) -> None: ...

    @interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f33}", base="IDispatch")
    class IDual:
        def first(self) -> None: ...
        @opnum(12)
        def second(self) -> None: ...
        def third(self) -> None: ...

    assert {number: each.name for number, each in interface_of(IPlain).methods.items()} == {3: "first", 4: "second"}
    assert [each.number for each in interface_of(IDerived).methods.values()] == [3, 4, 5]
    assert [each.number for each in interface_of(IDual).methods.values()] == [7, 12, 13]
    assert interface_of(IDerived).iid == UUID("3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f32")


def refused(define: Callable[[], None]) -> str:
    with pytest.raises(NotQueueable) as caught:
        define()
    return str(caught.value)


@pytest.mark.spec("QC-065")
def test_results_and_arguments_that_come_back_are_refused() -> None:
    def result() -> None:
        @interface(IID)
        class IBad:
            def total(self) -> int: ...  # type: ignore[empty-body]

    def no_annotation() -> None:
        @interface(IID)
        class IBad:
            def total(self): ...  # type: ignore[no-untyped-def]

    def out() -> None:
        @interface(IID)
        class IBad:
            def total(self, value: ByRef[float]) -> None: ...

    assert "no result" in refused(result)
    assert "no result" in refused(no_annotation)
    assert "dispatch form only" in refused(out)


@pytest.mark.spec("QC-059", "QC-096")
def test_other_mistakes_in_an_interface_are_refused() -> None:  # noqa: C901  # one small class for each
    def pinned_twice() -> None:
        @interface(IID)
        class IBad:
            @opnum(4)
            def one(self) -> None: ...
            @opnum(4)
            def two(self) -> None: ...

    def below_three() -> None:
        @interface(IID)
        class IBad:
            @opnum(2)
            def one(self) -> None: ...

    def same_dispid() -> None:
        @interface(IID)
        class IBad:
            @dispid(4)
            def one(self) -> None: ...
            @dispid(4)
            def two(self) -> None: ...

    def keyword_only() -> None:
        @interface(IID)
        class IBad:
            def one(self, *, two: int) -> None: ...

    def unannotated() -> None:
        @interface(IID)
        class IBad:
            def one(self, two) -> None: ...  # type: ignore[no-untyped-def]

    def raw_array() -> None:
        @interface(IID)
        class IBad:
            def one(self, two: tuple[int, ...]) -> None: ...

    def empty() -> None:
        @interface(IID)
        class IBad:
            pass

    def no_guid() -> None:
        @interface("orders")
        class IBad:
            def one(self) -> None: ...

    def dispatch_itself() -> None:
        @interface("{00020400-0000-0000-C000-000000000046}")
        class IBad:
            def one(self) -> None: ...

    def put_without_value() -> None:
        @interface(IID)
        class IBad:
            @dispid(1)
            @propput
            def one(self) -> None: ...

    def unknown_name() -> None:
        @interface(IID)
        class IBad:
            def one(self, two: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for define in (pinned_twice, below_three, same_dispid, keyword_only, unannotated, raw_array, empty, no_guid,
                   dispatch_itself, put_without_value, unknown_name):  # fmt: skip
        refused(define)
    with pytest.raises(NotQueueable):
        interface_of(int)


def test_records_and_value_classes_are_checked_when_they_are_defined() -> None:
    for bad in (lambda: record(IID)(int), lambda: value_class(IID)(int), lambda: record("x")(Line),
                lambda: value_class("x")(Parcel)):  # fmt: skip
        with pytest.raises(NotQueueable):
            bad()

    @dataclass
    class Holder:
        parcel: Parcel

    with pytest.raises(NotQueueable, match="no objects"):
        record(IID)(Holder)


@pytest.mark.spec("QC-130", "QC-110")
def test_a_scope_for_reading_knows_what_its_types_lead_to_and_nothing_else() -> None:
    scope = scope_of([type_of(list[Line], ""), type_of(Any, "")])
    assert list(scope.records) == [UUID("11111111-2222-3333-4444-555555555555")]
    assert not scope.objects
    assert list(scope_of([], [Parcel]).objects) == [UUID("0b5e57ac-1e00-4a11-9e1d-5eed0fb1c0de")]


def test_arguments_are_bound_as_python_binds_them() -> None:
    @interface(IID)
    class ICall:
        @dispid(1)
        def ship(self, what: str, weight: float = 1.5, note: Any = MISSING, *more: Any) -> None: ...
        @dispid(2)
        def localised(self, text: str, lcid: Locale) -> None: ...

    ship = interface_of(ICall).by_name["ship"]
    assert ship.bind(("a",), {}) == ("a", 1.5, MISSING, [])
    assert ship.bind(("a", 2.0, None, 1, 2), {}) == ("a", 2.0, None, [1, 2])
    assert ship.bind((), {"what": "b", "note": 7}) == ("b", 1.5, 7, [])
    for arguments, named in (((), {}), (("a",), {"what": "b"}), (("a",), {"colour": 1})):
        with pytest.raises(TypeError):
            ship.bind(arguments, named)
    localised = interface_of(ICall).by_name["localised"]
    assert localised.bind(("a",), {}) == ("a", 0x409)
    with pytest.raises(TypeError):
        localised.bind(("a", 1, 2), {})
    assert types.BSTR.nullable
