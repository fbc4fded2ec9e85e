"""PROPVARIANT in memory and on the wire: vectors written out from the tables, and a second reader of them."""

from typing import Any
from uuid import UUID

import pytest

from lior.errors import IllegalPropertyType, IllegalPropertyValue, LiorError, Malformed
from lior.message import Message
from lior.wire.ndr import NdrReader, NdrWriter
from lior.wire.propvariant import (
    EMPTY,
    MAX_DEPTH,
    NULL,
    VT_BLOB,
    VT_BOOL,
    VT_CLSID,
    VT_I1,
    VT_I2,
    VT_I4,
    VT_I8,
    VT_LPWSTR,
    VT_NULL,
    VT_UI1,
    VT_UI2,
    VT_UI4,
    VT_UI8,
    VT_VARIANT,
    VT_VECTOR,
    PropVariant,
    VarEnum,
    read_propvariant,
    read_propvariants,
    write_propvariant,
    write_propvariants,
)
from tests.wire import second_ndr

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
GUID_HEX = "33221100 5544 7766 8899aabbccddeeff"
EXAMPLES = [
    EMPTY, NULL, PropVariant(VT_I1, -128), PropVariant(VT_UI1, 255), PropVariant(VT_I2, -32768),
    PropVariant(VT_UI2, 65535), PropVariant(VT_I4, -2**31), PropVariant(VT_UI4, 2**32 - 1),
    PropVariant(VT_I8, -2**63), PropVariant(VT_UI8, 2**64 - 1), PropVariant(VT_BOOL, True),
    PropVariant(VT_BOOL, False), PropVariant(VT_LPWSTR, "private$\\queue"), PropVariant(VT_LPWSTR, ""),
    PropVariant(VT_LPWSTR), PropVariant(VT_CLSID, GUID), PropVariant(VT_CLSID), PropVariant(VT_BLOB, b"abc"),
    PropVariant(VT_BLOB, b""),
]
ELEMENTS = {
    VT_UI2: (1, 2, 65535), VT_I4: (-1, 0, 2**31 - 1), VT_UI4: (0, 1, 2**32 - 1), VT_UI8: (0, 1, 2**64 - 1),
    VT_CLSID: (GUID, UUID(int=0), UUID(int=1)), VT_LPWSTR: ("a", "", "long name"),
    VT_VARIANT: (PropVariant(VT_UI1, 1), NULL, PropVariant(VT_LPWSTR, "x")),
}


def encoded(*variants: Any) -> bytes:
    writer = NdrWriter()
    write_propvariants(writer, variants)
    return writer.to_bytes()


def decoded(data: bytes, count: int=1) -> tuple[PropVariant, ...]:
    reader = NdrReader(data)
    variants = read_propvariants(reader, count)
    reader.end()
    return variants


def plain(variant: PropVariant) -> tuple[int, Any]:
    """The second reader's form: pairs instead of PropVariants."""
    if variant.vt == VT_VECTOR | VT_VARIANT:
        return variant.vt, tuple(plain(element) for element in variant.value)
    return variant.vt, variant.value


def one(hexadecimal: str) -> bytes:
    """A stub of one variant: its array count and alignment, then the given bytes."""
    return bytes.fromhex("01000000 00000000" + hexadecimal)


@pytest.mark.spec("MQ-042")
def test_type_constants_are_those_of_the_table() -> None:
    assert {member.name: member.value for member in VarEnum} == {
        "VT_EMPTY": 0, "VT_NULL": 1, "VT_I2": 2, "VT_I4": 3, "VT_BOOL": 11, "VT_VARIANT": 12, "VT_I1": 16,
        "VT_UI1": 17, "VT_UI2": 18, "VT_UI4": 19, "VT_I8": 20, "VT_UI8": 21, "VT_LPWSTR": 31, "VT_BLOB": 65,
        "VT_CLSID": 72, "VT_VECTOR": 0x1000}
    assert (VT_I2, VT_I4, VT_BOOL, VT_VARIANT, VT_I1, VT_UI1, VT_UI2, VT_UI4) == (2, 3, 11, 12, 16, 17, 18, 19)
    assert (VT_I8, VT_UI8, VT_LPWSTR, VT_BLOB, VT_CLSID, VT_VECTOR) == (20, 21, 31, 65, 72, 0x1000)
    assert encoded(PropVariant(VT_VECTOR | VT_UI8, ()))[8:10] == b"\x15\x10"  # two bytes


@pytest.mark.spec("MQ-043")
@pytest.mark.parametrize("vt", [0, 1])
def test_empty_and_null_end_behind_the_union_tag(vt: int) -> None:
    data = encoded(PropVariant(vt))
    assert data == one(f"{vt:02x}00 00 00 00000000 {vt:02x}00")
    assert decoded(data) == (PropVariant(vt),)
    with pytest.raises(IllegalPropertyValue):
        PropVariant(vt, 1).check()


@pytest.mark.spec("MQ-044")
def test_a_bare_variant_type_is_refused() -> None:
    with pytest.raises(IllegalPropertyType) as caught:
        encoded(PropVariant(VT_VARIANT, ()))
    assert caught.value.code == 0xC00E0019
    with pytest.raises(Malformed):
        decoded(one("0c00 00 00 00000000 0c00 0000 00000000 00000000"))


@pytest.mark.parametrize("body_type", [8, 30, 0xDEADBEEF])
def test_a_body_type_need_not_be_a_property_type(body_type: int) -> None:
    message = Message(body=b"x", body_type=body_type)
    assert message.copy().body_type == body_type
    with pytest.raises(IllegalPropertyType):
        PropVariant(body_type & 0xFFFF, b"x").check()


@pytest.mark.spec("MQ-046")
@pytest.mark.parametrize("reserved", ["00 00 00000000", "ff 7f cdcdcdcd"])
def test_reserved_fields_of_the_header_are_not_looked_at(reserved: str) -> None:
    assert decoded(one(f"1300 {reserved} 1300 0000 07000000")) == (PropVariant(VT_UI4, 7),)
    assert encoded(PropVariant(VT_UI4, 7)) == one("1300 00 00 00000000 1300 0000 07000000")


@pytest.mark.spec("MQ-047")
@pytest.mark.parametrize(("variant", "arm"), [
    (PropVariant(VT_I1, -2), "1000 00 00 00000000 1000 fe"),
    (PropVariant(VT_UI1, 2), "1100 00 00 00000000 1100 02"),
    (PropVariant(VT_I2, -2), "0200 00 00 00000000 0200 feff"),
    (PropVariant(VT_UI2, 2), "1200 00 00 00000000 1200 0200"),
    (PropVariant(VT_I4, -2), "0300 00 00 00000000 0300 0000 feffffff"),
    (PropVariant(VT_UI4, 2), "1300 00 00 00000000 1300 0000 02000000"),
    (PropVariant(VT_I8, -2), "1400 00 00 00000000 1400 000000000000 feffffffffffffff"),
    (PropVariant(VT_UI8, 2), "1500 00 00 00000000 1500 000000000000 0200000000000000"),
    (PropVariant(VT_BOOL, True), "0b00 00 00 00000000 0b00 ffff"),
    (PropVariant(VT_CLSID, GUID), f"4800 00 00 00000000 4800 0000 00000200 {GUID_HEX}"),
    (PropVariant(VT_LPWSTR, "a"), "1f00 00 00 00000000 1f00 0000 00000200 02000000 00000000 02000000 6100 0000"),
    (PropVariant(VT_LPWSTR), "1f00 00 00 00000000 1f00 0000 00000000"),
    (PropVariant(VT_BLOB, b"abc"), "4100 00 00 00000000 4100 0000 03000000 00000200 03000000 616263"),
])
def test_each_single_arm_stands_at_its_own_alignment(variant: PropVariant, arm: str) -> None:
    assert encoded(variant) == one(arm)
    assert decoded(one(arm)) == (variant,)


@pytest.mark.spec("MQ-048", "MQ-052")
@pytest.mark.parametrize("base", list(ELEMENTS))
@pytest.mark.parametrize("count", [0, 1, 3])
def test_each_vector_round_trips_with_any_count(base: int, count: int) -> None:
    variant = PropVariant(VT_VECTOR | base, ELEMENTS[base][:count])
    data = encoded(variant)
    assert decoded(data) == (variant,)
    assert second_ndr.variants(second_ndr.Stub(data), 1) == [plain(variant)]


@pytest.mark.spec("MQ-048")
@pytest.mark.parametrize("base", [0, 1, VT_I1, VT_I2, VT_I8, VT_BOOL, VT_BLOB, 8, 30])
def test_no_other_vector_exists(base: int) -> None:
    with pytest.raises(IllegalPropertyType):
        PropVariant(VT_VECTOR | base, ()).check()
    with pytest.raises(Malformed):
        vt = f"{base:02x}10"
        decoded(one(f"{vt} 00 00 00000000 {vt} 0000 00000000 00000000"))


@pytest.mark.spec("MQ-048", "MQ-052")
@pytest.mark.parametrize("data", [b"", b"a", b"abc"])
def test_a_vector_of_octets_is_bytes(data: bytes) -> None:
    assert decoded(encoded(PropVariant(VT_VECTOR | VT_UI1, data))) == (PropVariant(VT_VECTOR | VT_UI1, data),)


@pytest.mark.spec("MQ-049")
def test_an_array_aligns_its_elements_to_eight_and_defers_its_pointees() -> None:
    data = encoded(PropVariant(VT_UI4, 9), PropVariant(VT_LPWSTR, "ab"), PropVariant(VT_VECTOR | VT_LPWSTR, ("c", "")))
    assert data == bytes.fromhex(
        "03000000 00000000"
        "1300 00 00 00000000 1300 0000 09000000"
        "1f00 00 00 00000000 1f00 0000 00000200"
        "1f10 00 00 00000000 1f10 0000 02000000 04000200"
        "03000000 00000000 03000000 6100 6200 0000"  # the string of the second
        "0000"
        "02000000 08000200 0c000200"  # the pointers of the third, then their strings
        "02000000 00000000 02000000 6300 0000"
        "01000000 00000000 01000000 0000")
    assert second_ndr.variants(second_ndr.Stub(data), 3) == [(19, 9), (31, "ab"), (0x101F, ("c", ""))]


@pytest.mark.spec("MQ-049")
def test_the_elements_of_a_create_call_stand_where_another_implementation_puts_them() -> None:
    """R_QMCreateObjectInternal, .\\private$\\q, three properties: count at 0x48, elements at 0x50, 0x60, 0x70."""
    writer = NdrWriter()
    writer.u32(1)
    writer.wide_string(".\\private$\\q")
    writer.u32(0)
    writer.unique(None, NdrWriter.raw)
    writer.u32(3)
    writer.u32(3)
    writer.numbers("I", (103, 104, 105))
    assert len(writer.data) == 0x48
    write_propvariants(writer, (PropVariant(VT_LPWSTR, "x"), PropVariant(VT_UI1, 1), PropVariant(VT_UI4, 5)))
    data = writer.to_bytes()
    assert [data[at] for at in (0x48, 0x50, 0x58, 0x60, 0x68, 0x6A, 0x70, 0x78, 0x7C)] == [
        3, 0x1F, 0x1F, 0x11, 0x11, 1, 0x13, 0x13, 5]


@pytest.mark.spec("MQ-049")
def test_refuses_a_union_tag_that_differs_from_the_type() -> None:
    with pytest.raises(Malformed):
        decoded(one("1300 00 00 00000000 0300 0000 07000000"))


@pytest.mark.spec("MQ-050")
def test_true_is_all_ones_and_anything_but_zero_is_true() -> None:
    assert encoded(PropVariant(VT_BOOL, True))[-2:] == b"\xff\xff"
    assert encoded(PropVariant(VT_BOOL, False))[-2:] == b"\0\0"
    for value, expected in (("0000", False), ("0100", True), ("ffff", True), ("0080", True)):
        assert decoded(one(f"0b00 00 00 00000000 0b00 {value}")) == (PropVariant(VT_BOOL, expected),)
    with pytest.raises(IllegalPropertyValue):
        PropVariant(VT_BOOL, 1).check()
    with pytest.raises(IllegalPropertyValue):
        PropVariant(VT_UI1, True).check()


@pytest.mark.spec("MQ-051")
def test_a_null_blob_has_no_bytes() -> None:
    head = "4100 00 00 00000000 4100 0000"
    assert decoded(one(f"{head} 00000000 00000000")) == (PropVariant(VT_BLOB, b""),)
    assert decoded(one(f"{head} 00000000 00000200 00000000")) == (PropVariant(VT_BLOB, b""),)
    with pytest.raises(Malformed):
        decoded(one(f"{head} 03000000 00000000"))
    with pytest.raises(Malformed):
        decoded(one(f"{head} 03000000 00000200 04000000 61626364"))


@pytest.mark.spec("MQ-052")
@pytest.mark.parametrize(("base", "size"), [(VT_UI1, 1), (VT_UI2, 2), (VT_I4, 4), (VT_UI4, 4)])
def test_refuses_a_counted_array_with_another_maximum_or_too_few_bytes(base: int, size: int) -> None:
    head = f"{base:02x}10 00 00 00000000 {base:02x}10 0000 02000000 00000200"
    decoded(one(f"{head} 02000000" + "00" * 2 * size))
    with pytest.raises(Malformed):
        decoded(one(f"{head} 03000000" + "00" * 3 * size))
    with pytest.raises(Malformed):
        decoded(one(f"{head} 02000000" + "00" * (2 * size - 1)))
    with pytest.raises(Malformed):
        decoded(one(f"{base:02x}10 00 00 00000000 {base:02x}10 0000 ffffffff 00000200 ffffffff 00"))


@pytest.mark.spec("MQ-052")
def test_a_vector_of_i4_is_signed() -> None:
    assert decoded(one("0310 00 00 00000000 0310 0000 01000000 00000200 01000000 ffffffff"))[0].value == (-1,)


@pytest.mark.spec("MQ-053")
def test_64_bit_elements_align_to_eight_and_guids_to_four() -> None:
    both = encoded(PropVariant(VT_LPWSTR, "ab"), PropVariant(VT_VECTOR | VT_UI8, (2,)),
                   PropVariant(VT_VECTOR | VT_CLSID, (GUID,)))
    assert both == bytes.fromhex(
        "03000000 00000000"
        "1f00 00 00 00000000 1f00 0000 00000200"
        "1510 00 00 00000000 1510 0000 01000000 04000200 00000000"
        "4810 00 00 00000000 4810 0000 01000000 08000200"
        "03000000 00000000 03000000 6100 6200 0000 0000"
        "01000000 00000000 0200000000000000"  # the count ends at 0x5c, so four bytes of padding
        f"01000000 {GUID_HEX}")
    assert second_ndr.variants(second_ndr.Stub(both), 3) == [(31, "ab"), (0x1015, (2,)), (0x1048, (GUID,))]


@pytest.mark.spec("MQ-054")
def test_a_vector_of_strings_holds_pointers_first_and_may_hold_null() -> None:
    head = "1f10 00 00 00000000 1f10 0000 03000000 00000200 03000000"
    strings = "01000000 00000000 01000000 0000 0000 03000000 00000000 03000000 6100 6200 0000"
    data = one(f"{head} 04000200 00000000 08000200 {strings}")
    variant = PropVariant(VT_VECTOR | VT_LPWSTR, ("", None, "ab"))
    assert encoded(variant) == data
    assert decoded(data) == (variant,)


@pytest.mark.spec("MQ-055")
def test_a_vector_of_vectors_round_trips() -> None:
    history = PropVariant(VT_VECTOR | VT_VARIANT, (
        PropVariant(VT_VECTOR | VT_UI4, (0x80000004, 2)), PropVariant(VT_VECTOR | VT_I4, (1, 2)),
        PropVariant(VT_VECTOR | VT_I4, (-1, 0)),
        PropVariant(VT_VECTOR | VT_VARIANT, (PropVariant(VT_VECTOR | VT_LPWSTR, ("10.0.0.1", "10.0.0.2")),
                                             PropVariant(VT_VECTOR | VT_LPWSTR, ())))))
    data = encoded(history, PropVariant(VT_UI4, 1))
    assert decoded(data, 2) == (history, PropVariant(VT_UI4, 1))
    assert second_ndr.variants(second_ndr.Stub(data), 2) == [plain(history), (19, 1)]


def nested(depth: int) -> PropVariant:
    variant = PropVariant(VT_UI1, 1)
    for _ in range(depth - 1):
        variant = PropVariant(VT_VECTOR | VT_VARIANT, (variant,))
    return variant


@pytest.mark.spec("MQ-055")
def test_nesting_ends_at_the_cap_in_both_directions() -> None:
    deepest = nested(MAX_DEPTH)
    assert decoded(encoded(deepest)) == (deepest,)
    with pytest.raises(IllegalPropertyValue):
        encoded(nested(MAX_DEPTH + 1))
    level, innermost = "0c10 00 00 00000000 0c10 0000 01000000 00000200 01000000", "1100 00 00 00000000 1100 01"
    assert decoded(one(level * (MAX_DEPTH - 1) + innermost)) == (deepest,)
    for levels in (MAX_DEPTH, 1000):
        with pytest.raises(Malformed, match="nested"):
            decoded(one(level * levels + innermost))


@pytest.mark.parametrize("variant", EXAMPLES, ids=str)
def test_the_second_reader_agrees_on_every_example(variant: PropVariant) -> None:
    data = encoded(variant)
    assert decoded(data) == (variant,)
    assert second_ndr.variants(second_ndr.Stub(data), 1) == [plain(variant)]


def test_every_example_cut_at_any_length_is_malformed() -> None:
    data = encoded(*EXAMPLES, PropVariant(VT_VECTOR | VT_LPWSTR, ("a", "b")))
    for cut in range(len(data)):
        with pytest.raises(Malformed):
            decoded(data[:cut], len(EXAMPLES) + 1)


def test_refuses_an_array_of_another_length_than_announced() -> None:
    with pytest.raises(Malformed):
        decoded(encoded(NULL, NULL), 1)
    with pytest.raises(Malformed):
        decoded(bytes.fromhex("ffffffff"), 0xFFFFFFFF)
    assert decoded(bytes.fromhex("00000000"), 0) == ()


def test_a_single_variant_is_placed_when_its_pointee_has_come() -> None:
    writer = NdrWriter()
    write_propvariant(writer, PropVariant(VT_LPWSTR, "a"))
    writer.flush()
    found: list[Any] = []
    reader = NdrReader(writer.to_bytes())
    read_propvariant(reader, found.append)
    assert found == []
    reader.flush()
    assert found == [PropVariant(VT_LPWSTR, "a")]


@pytest.mark.parametrize("variant", [
    PropVariant(VT_UI1, 256), PropVariant(VT_UI1, -1), PropVariant(VT_I4, 2**31), PropVariant(VT_UI8, 2**64),
    PropVariant(VT_LPWSTR, b"a"), PropVariant(VT_LPWSTR, "a\0b"), PropVariant(VT_LPWSTR, "\ud800"),
    PropVariant(VT_CLSID, str(GUID)), PropVariant(VT_BLOB, "a"), PropVariant(VT_VECTOR | VT_UI1, (1,)),
    PropVariant(VT_VECTOR | VT_UI2, (65536,)), PropVariant(VT_VECTOR | VT_LPWSTR, (1,)),
    PropVariant(VT_VECTOR | VT_CLSID, (None,)), PropVariant(VT_VECTOR | VT_VARIANT, (1,)),
    PropVariant(VT_VECTOR | VT_VARIANT, (PropVariant(VT_UI1, 256),)),
], ids=str)
def test_refuses_to_write_a_value_that_does_not_fit_its_type(variant: PropVariant) -> None:
    with pytest.raises(IllegalPropertyValue):
        encoded(variant)


def test_names_types_as_the_document_does() -> None:
    assert PropVariant(VT_VECTOR | VT_UI4, ()).type_name == "VT_VECTOR | VT_UI4"
    assert PropVariant(VT_NULL).type_name == "VT_NULL"
    assert PropVariant(7).type_name == "0x0007"
    assert issubclass(IllegalPropertyType, LiorError)
