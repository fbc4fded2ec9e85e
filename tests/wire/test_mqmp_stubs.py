"""Strings and property values in stubs of the client protocol, byte by byte ([MS-MQMP] 2.2, [MS-MQMQ] 2.2.13)."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from lior.errors import Malformed
from lior.wire.interfaces.qmcomm import QMCOMM
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
    VT_UI1,
    VT_UI2,
    VT_UI4,
    VT_UI8,
    VT_VARIANT,
    VT_VECTOR,
    PropVariant,
)

CREATE = QMCOMM.methods[6].request
PATH = r".\private$\q"
GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


THREE = ((104, PropVariant(VT_UI1, 1)), (105, PropVariant(VT_UI4, 7)), (106, PropVariant(VT_I2, 5)))


def creation(*pairs: tuple[int, PropVariant], path: str = PATH) -> bytes:
    return CREATE.encode([1, path, 0, None, len(pairs), [each[0] for each in pairs], [each[1] for each in pairs]])


# Strings


@pytest.mark.spec("MP-013")
def test_a_string_has_its_nul_inside_the_count() -> None:
    stub = creation((108, PropVariant(VT_LPWSTR, "x")))
    assert struct.unpack_from("<III", stub, 4) == (len(PATH) + 1, 0, len(PATH) + 1)
    assert stub[16 : 16 + 2 * len(PATH) + 2].decode("utf-16-le") == PATH + "\0"


@pytest.mark.parametrize(("at", "value"), [(4, 5), (8, 1), (12, 5), (12, 0), (16 + 2 * len(PATH), 0x41)])
@pytest.mark.spec("MP-013")
def test_a_string_without_its_nul_or_with_an_offset_is_refused(at: int, value: int) -> None:
    stub = bytearray(creation((108, PropVariant(VT_LPWSTR, "x"))))
    struct.pack_into("<I" if at < 16 else "<H", stub, at, value)
    with pytest.raises(Malformed):
        CREATE.decode(bytes(stub))


# PROPVARIANT


@pytest.mark.spec("MP-070")
def test_each_value_is_aligned_to_eight_and_has_its_tag_twice() -> None:
    stub = creation((104, PropVariant(VT_UI1, 1)), (105, PropVariant(VT_UI4, 7)), (106, PropVariant(VT_I2, -1)))
    assert struct.unpack_from("<I", stub, 0x48) == (3,)  # max_count of apVar
    for at, vt in ((0x50, VT_UI1), (0x60, VT_UI4), (0x70, VT_I2)):
        assert struct.unpack_from("<H", stub, at) == struct.unpack_from("<H", stub, at + 8) == (vt,)
    assert stub[0x50 + 10] == 1  # directly behind its tag
    assert struct.unpack_from("<I", stub, 0x60 + 12) == (7,)
    assert struct.unpack_from("<h", stub, 0x70 + 10) == (-1,)
    assert CREATE.decode(stub).ap_var[1] == PropVariant(VT_UI4, 7)


@pytest.mark.spec("MP-070")
def test_what_is_reserved_in_a_value_is_ignored_and_a_tag_of_another_type_is_not() -> None:
    stub = bytearray(creation(*THREE))
    stub[0x52:0x58] = b"\xff" * 6
    assert CREATE.decode(bytes(stub)).ap_var[0] == PropVariant(VT_UI1, 1)
    stub[0x58] = VT_UI2
    with pytest.raises(Malformed):
        CREATE.decode(bytes(stub))


VALUES = [
    EMPTY, NULL, PropVariant(VT_I1, -5), PropVariant(VT_UI1, 250), PropVariant(VT_I2, -30000),
    PropVariant(VT_UI2, 60000), PropVariant(VT_I4, -1), PropVariant(VT_UI4, 0xFFFFFFFF), PropVariant(VT_BOOL, True),
    PropVariant(VT_I8, -(1 << 62)), PropVariant(VT_UI8, 1 << 63), PropVariant(VT_LPWSTR, "text"),
    PropVariant(VT_LPWSTR, None), PropVariant(VT_BLOB, b"blob"), PropVariant(VT_CLSID, GUID),
    PropVariant(VT_VECTOR | VT_UI1, b"bytes"), PropVariant(VT_VECTOR | VT_UI2, (1, 2)),
    PropVariant(VT_VECTOR | VT_I4, (-1, 2)), PropVariant(VT_VECTOR | VT_UI4, (1, 2, 3)),
    PropVariant(VT_VECTOR | VT_UI8, (1 << 40,)), PropVariant(VT_VECTOR | VT_CLSID, (GUID, GUID)),
    PropVariant(VT_VECTOR | VT_LPWSTR, ("a", "bc")),
    PropVariant(VT_VECTOR | VT_VARIANT, (PropVariant(VT_UI4, 1), PropVariant(VT_VECTOR | VT_LPWSTR, ("x",)))),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.type_name)
@pytest.mark.spec("MP-071")
def test_every_type_of_value_goes_there_and_back(value: PropVariant) -> None:
    between = (PropVariant(VT_UI1, 9), value, PropVariant(VT_LPWSTR, "behind"))
    assert tuple(CREATE.decode(creation(*((105, each) for each in between))).ap_var) == between


@pytest.mark.parametrize("vt", [2 | 0x4000, 5, 8, 14, 30, 0x1002, 0x1008, 0xFFFF])
@pytest.mark.spec("MP-071")
def test_a_type_that_the_document_does_not_list_is_refused(vt: int) -> None:
    stub = bytearray(creation(*THREE))
    for at in (0x50, 0x58):
        struct.pack_into("<H", stub, at, vt)
    with pytest.raises(Malformed):
        CREATE.decode(bytes(stub))


def nested(depth: int) -> PropVariant:
    found = PropVariant(VT_UI4, 1)
    for _ in range(depth - 1):
        found = PropVariant(VT_VECTOR | VT_VARIANT, (found,))
    return found


@pytest.mark.spec("MP-071")
def test_values_in_values_have_a_bound() -> None:
    """Stubs deeper than anything that can be encoded are made by repeating the bytes of one layer."""
    two, three = creation((105, nested(2))), creation((105, nested(3)))
    at = len(creation((105, NULL))) - 10 + 7 & -8  # where the one value begins
    layer = three[at : at + len(three) - len(two)]
    for depth in (4, MAX_DEPTH, MAX_DEPTH + 1, 10_000):
        stub = three[:at] + layer * (depth - 3) + three[at:]
        if depth <= MAX_DEPTH:
            assert CREATE.decode(stub).ap_var[0] == nested(depth)
        else:
            with pytest.raises(Malformed):
                CREATE.decode(stub)
