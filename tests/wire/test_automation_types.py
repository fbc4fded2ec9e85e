"""Automation types in NDR, beside a second hand: [MS-OAUT] 2.2.23 to 2.2.31, [C706] 14."""

# ruff: noqa: DTZ001  # a DATE has no time zone

import math
import random
import struct
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest

from lior.errors import InvalidParameter
from lior.wire import automation as at
from lior.wire import automation_types as types
from lior.wire.automation import SCode, Variant
from lior.wire.automation_arrays import SafeArrayType
from lior.wire.automation_types import AutomationReader, AutomationType, AutomationWriter
from lior.wire.automation_variants import ANY, variant_of
from tests.wire.automation_checks import LONGS, laid_down, read, refuses, written
from tests.wire.second_recorded_call import Parameters

# ---- numbers --------------------------------------------------------------------------------------------------------

INTEGERS = [(types.I1, "b"), (types.UI1, "B"), (types.I2, "h"), (types.UI2, "H"), (types.I4, "i"), (types.UI4, "I"),
            (types.INT, "i"), (types.UINT, "I"), (types.I8, "q"), (types.UI8, "Q")]  # fmt: skip


@pytest.mark.spec("QC-067", "QC-066")
@pytest.mark.parametrize(("kind", "code"), INTEGERS, ids=lambda each: str(each))
def test_integers_have_their_width_alignment_and_bounds(kind: AutomationType, code: str) -> None:
    bits = 8 * struct.calcsize("<" + code)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if code.islower() else (0, (1 << bits) - 1)
    for value in (low, high, 0, 1):
        assert written(kind, value) == struct.pack("<" + code, value)
        writer = AutomationWriter()
        writer.u8(0x55)
        kind.write(writer, value)
        assert writer.data == b"\x55" + bytes(kind.alignment - 1) + struct.pack("<" + code, value)
        reader = AutomationReader(b"\x55" + b"\xCC" * (kind.alignment - 1) + struct.pack("<" + code, value))
        reader.u8()
        assert kind.read_parameter(reader) == value
    bad: list[Any] = [low - 1, high + 1, 1 << 80, True, 1.0, "1", None]
    for wrong in bad:
        with pytest.raises(InvalidParameter):
            written(kind, wrong)


@pytest.mark.spec("QC-067")
def test_a_status_code_may_be_given_signed_or_unsigned() -> None:
    for value in (0x8002000E, 0x8002000E - (1 << 32)):
        assert written(types.ERROR, value) == bytes.fromhex("0E000280")
    found = read(types.ERROR, bytes.fromhex("0E000280"))
    assert found == 0x8002000E
    assert isinstance(found, SCode)
    with pytest.raises(InvalidParameter):
        written(types.ERROR, 1 << 32)


@pytest.mark.spec("QC-068")
@pytest.mark.parametrize("octets", [
    "0000000000000080", "000000000000F07F", "000000000000F0FF", "0100000000000000", "FFFFFFFFFFFFEF7F",
    "0123456789ABF8FF",
])  # fmt: skip
def test_doubles_keep_every_bit(octets: str) -> None:
    data = bytes.fromhex(octets)
    assert written(types.R8, read(types.R8, data)) == data


@pytest.mark.spec("QC-068")
@pytest.mark.parametrize("octets", ["00000080", "0000807F", "000080FF", "01000000", "FFFF7F7F", "0123C5FF"])
def test_floats_keep_every_bit(octets: str) -> None:
    data = bytes.fromhex(octets)
    assert written(types.R4, read(types.R4, data)) == data
    with pytest.raises(InvalidParameter):
        written(types.R4, 1e300)


@pytest.mark.spec("QC-069")
def test_a_boolean_is_two_octets_all_ones_or_none() -> None:
    assert written(types.BOOL, True) == b"\xFF\xFF"
    assert written(types.BOOL, False) == b"\0\0"
    for octets in (b"\xFF\xFF", b"\1\0", b"\0\1"):
        assert read(types.BOOL, octets) is True
    assert read(types.BOOL, b"\0\0") is False
    for value in (1, 0, None, "yes"):
        with pytest.raises(InvalidParameter):
            written(types.BOOL, value)
    assert written(types.PLAIN_BOOL, True) == b"\1"
    assert read(types.PLAIN_BOOL, b"\2") is True


class Colour(IntEnum):
    RED = 1
    BLUE = 0x7FFF


@pytest.mark.spec("QC-070")
def test_an_enumeration_has_16_bits_or_32() -> None:
    small, large = types.Enumeration(16, Colour), types.Enumeration(32, Colour)
    assert written(small, Colour.BLUE) == b"\xFF\x7F"
    assert written(large, Colour.BLUE) == b"\xFF\x7F\0\0"
    assert read(small, b"\1\0") is Colour.RED
    assert read(large, b"\1\0\0\0") is Colour.RED
    assert variant_of(Colour.RED) == Variant(at.VT_I4, 1)
    for kind in (small, large):
        refuses(kind, b"\2\0\0\0")
        with pytest.raises(InvalidParameter):
            written(kind, 2)

    class Wide(IntEnum):
        HUGE = 0x8000

    with pytest.raises(InvalidParameter):
        types.Enumeration(16, Wide)
    array = SafeArrayType(large)
    assert read(array, written(array, [Colour.RED, Colour.BLUE])) == [Colour.RED, Colour.BLUE]


@pytest.mark.spec("QC-071")
def test_currency_counts_ten_thousandths() -> None:
    assert written(types.CY, Decimal("5.25")) == bytes.fromhex("14CD000000000000")
    lowest, highest = Decimal("-922337203685477.5808"), Decimal("922337203685477.5807")
    for value in (lowest, highest, Decimal(0), Decimal("-0.0001"), Decimal("1E+3"), Decimal("1.00000")):
        assert read(types.CY, written(types.CY, value)) == value
    step = Decimal("0.0001")
    for bad in (lowest - step, highest + step, Decimal("0.00001"), Decimal("NaN"), Decimal("Infinity"), 1.5, True,
                Decimal("1E+90")):  # fmt: skip
        with pytest.raises(InvalidParameter):
            written(types.CY, bad)


@pytest.mark.spec("QC-072")
def test_a_date_counts_days_and_its_fraction_runs_forward_even_before_the_epoch() -> None:
    for days, date in ((5.25, datetime(1900, 1, 4, 6)), (-1.25, datetime(1899, 12, 29, 6)),
                       (0.0, datetime(1899, 12, 30)), (0.5, datetime(1899, 12, 30, 12)),
                       (-657434.0, datetime(100, 1, 1)), (2958465.0, datetime(9999, 12, 31))):  # fmt: skip
        assert written(types.DATE, date) == struct.pack("<d", days)
        assert read(types.DATE, struct.pack("<d", days)) == date
    for exact in (datetime(2026, 11, 19, 20, 38, 41, 123456), datetime(2500, 1, 1, 0, 0, 0, 999000)):
        assert read(types.DATE, written(types.DATE, exact)) == exact
    for days in (math.nan, math.inf, -657435.0, 2958466.0, 1e300):
        refuses(types.DATE, struct.pack("<d", days))
    for bad in (datetime(99, 1, 1), datetime(2500, 1, 1, 0, 0, 0, 1), datetime(2026, 1, 1).astimezone(), "today"):
        with pytest.raises(InvalidParameter):
            written(types.DATE, bad)


@pytest.mark.spec("QC-073")
def test_a_decimal_has_96_bits_a_scale_and_a_sign() -> None:
    for value, (negative, number, scale) in (
        (Decimal("-1234.567"), (True, 1234567, 3)), (Decimal(0), (False, 0, 0)), (Decimal("-0.0"), (True, 0, 1)),
        (Decimal((1 << 96) - 1), (False, (1 << 96) - 1, 0)), (Decimal("1E-28"), (False, 1, 28)),
        (Decimal("1E+28"), (False, 10**28, 0)), (Decimal("1.000000000000000000000000000000"), (False, 10**28, 28)),
    ):
        data = written(types.DECIMAL, value)
        assert data == laid_down(lambda out: out.decimal(negative, number, scale))  # noqa: B023
        assert read(types.DECIMAL, data) == value
        assert read(types.DECIMAL, b"\xCC\xCC" + data[2:]) == value
    for bad in (Decimal(1 << 96), Decimal("1E-29"), Decimal("1E+29"), Decimal("Infinity"), Decimal("NaN"), 1.5):
        with pytest.raises(InvalidParameter):
            written(types.DECIMAL, bad)
    good = bytearray(written(types.DECIMAL, Decimal(1)))
    for at_, octet in ((2, 29), (2, 255), (3, 1), (3, 0x7F), (3, 0xFF)):
        bad_octets = bytearray(good)
        bad_octets[at_] = octet
        refuses(types.DECIMAL, bytes(bad_octets))
    with pytest.raises(InvalidParameter):
        SafeArrayType(types.DECIMAL)


# ---- BSTR -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QC-075", "QC-076")
@pytest.mark.parametrize("text", ["Zoë", "", None, b"abc", "\ud800", "a\0b", "😀", "x" * 1000])
def test_text_travels_with_its_length_and_null_is_not_empty(text: str | bytes | None) -> None:
    data = written(types.BSTR, text)
    assert data == laid_down(lambda out: out.bstr(text))
    assert read(types.BSTR, data) == text
    assert Parameters(data).read("bstr") == [text]


@pytest.mark.spec("QC-075")
def test_counts_of_a_text_stand_in_front_and_nothing_ends_it() -> None:
    assert written(types.BSTR, "Zoë")[4:] == bytes.fromhex("0300000006000000030000005A006F00EB00")


@pytest.mark.spec("QC-076")
def test_null_text_has_three_forms_of_which_two_are_read() -> None:
    assert written(types.BSTR, None)[4:] == bytes.fromhex("00000000FFFFFFFF00000000")
    assert read(types.BSTR, bytes(4)) is None
    assert read(types.BSTR, b"\1\0\0\0" + bytes(12)) == ""
    assert read(types.BSTR, written(types.BSTR, b"abc")[:-1] + b"\xCC") == b"abc"


@pytest.mark.spec("QC-077", "QC-127")
@pytest.mark.parametrize("counts", [
    (2, 6, 3), (3, 6, 2), (3, 5, 2), (3, 7, 3), (3, 4, 3), (0, 0xFFFFFFFF, 1), (1, 0xFFFFFFFF, 0),
    (0x7FFFFFFF, 0xFFFFFFFE, 0x7FFFFFFF), (4, 8, 4), (0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF),
])  # fmt: skip
def test_refuses_counts_of_a_text_that_disagree_or_lead_beyond_the_end(counts: tuple[int, int, int]) -> None:
    refuses(types.BSTR, struct.pack("<IIII", 1, *counts) + bytes(6))


# ---- pointers -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QC-074")
def test_identifiers_of_pointers_say_nothing_but_null(seed: int) -> None:
    rng = random.Random(seed)
    kind = SafeArrayType(ANY)
    value = [1, "x", [b"\1\2", None, "y"], 2.5]
    data = written(kind, value)
    referents = sorted({at_ for at_ in range(0, len(data) - 3, 4)
                        if 0x20000 <= struct.unpack_from("<I", data, at_)[0] < 0x20100})  # fmt: skip
    assert len(referents) > 10
    for _ in range(50):
        changed = bytearray(data)
        for place in referents:
            struct.pack_into("<I", changed, place, rng.randrange(1, 1 << 32))
        assert read(kind, bytes(changed)) == value


@pytest.mark.spec("QC-074")
def test_a_ref_pointer_of_zero_is_no_null() -> None:
    kind = SafeArrayType(types.BSTR)
    data = bytearray(written(kind, ["a", "b"]))
    assert struct.unpack_from("<I", data, 32)[0] >= 0x20000
    data[32:36] = bytes(4)
    assert read(kind, bytes(data)) == ["a", "b"]


@pytest.mark.spec("QC-066")
def test_octets_of_a_gap_say_nothing() -> None:
    writer = AutomationWriter()
    types.I2.write(writer, -2)
    LONGS.write_parameter(writer, [1])
    types.R8.write(writer, 2.5)
    data = bytearray(writer.to_bytes())
    assert data[2:4] == b"\0\0"
    data[2:4] = b"\xCC\xCC"
    reader = AutomationReader(bytes(data))
    assert [types.I2.read_parameter(reader), LONGS.read_parameter(reader), types.R8.read_parameter(reader)] == [
        -2, [1], 2.5]  # fmt: skip
