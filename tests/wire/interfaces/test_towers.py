"""Protocol towers and what carries them ([C706] appendices I, L and O, [MS-RPCE] 2.2.1.2)."""

import struct
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import InvalidParameter, Malformed
from lior.wire.interfaces.endpoint_mapper import ENDPOINT_MAPPER, EptEntry, RpcIfId
from lior.wire.interfaces.rpc_management import RPC_MANAGEMENT
from lior.wire.interfaces.towers import Tower, decode_floors, encode_floors
from lior.wire.ndr import NDR
from lior.wire.ndr_types import NULL_HANDLE

INTERFACE = UUID("fdb3a030-065f-11d1-bb9b-00a024ea5525")
TOWER = Tower(INTERFACE, (1, 0), NDR.uuid, NDR.version, 2103, IPv4Address("127.0.0.5"))
BYTES = bytes.fromhex(
    "0500"
    "1300 0d 30a0b3fd5f06d111bb9b00a024ea5525 0100 0200 0000"
    "1300 0d 045d888aeb1cc9119fe808002b104860 0200 0200 0000"
    "0100 0b 0200 0000"
    "0100 07 0200 0837"
    "0100 09 0400 7f000005")
LOOKUP, MAP = ENDPOINT_MAPPER.methods[2], ENDPOINT_MAPPER.methods[3]


def test_a_tower_of_rpc_over_tcp_has_five_floors() -> None:
    assert TOWER.encode() == BYTES
    assert Tower.decode(BYTES) == TOWER
    assert Tower.decode(memoryview(BYTES)) == TOWER


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=30), st.binary(max_size=30)), max_size=8))
def test_floors_come_back_as_they_went(floors: list[tuple[bytes, bytes]]) -> None:
    assert decode_floors(encode_floors(floors)) == floors


def test_refuses_a_tower_cut_anywhere_or_with_more_behind_it() -> None:
    for cut in range(len(BYTES)):
        with pytest.raises(Malformed):
            Tower.decode(BYTES[:cut])
    with pytest.raises(Malformed):
        Tower.decode(BYTES + b"\0")


@pytest.mark.parametrize("at", [2, 23, 27, 48, 52, 59])
def test_refuses_a_floor_of_another_size(at: int) -> None:
    changed = bytearray(BYTES)
    changed[at] += 1
    with pytest.raises(Malformed):
        Tower.decode(bytes(changed))


@pytest.mark.parametrize("floors", [
    [(b"\x0d" + bytes(17), b"\0\0"), (b"\x0d" + bytes(18), b"\0\0"), (b"\x0b", b"\0\0"), (b"\x07", b"\0\0"),
     (b"\x09", bytes(4))],
    [(b"\x0d" + bytes(18), b"\0\0"), (b"\x0d" + bytes(18), b"\0"), (b"\x0b", b"\0\0"), (b"\x07", b"\0\0"),
     (b"\x09", bytes(4))],
    [(b"\x0d" + bytes(18), b"\0\0"), (b"\x0d" + bytes(18), b"\0\0"), (b"\x0b", b"\0\0"), (b"\x07", b"\0"),
     (b"\x09", bytes(4))],
    [(b"", b"")],
    [(b"\x01", b"")] * 17,
])
def test_refuses_floors_that_say_less_than_they_must(floors: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Malformed):
        Tower.decode(encode_floors(floors))


def test_a_tower_of_another_protocol_is_none_of_ours() -> None:
    named_pipe = [*decode_floors(BYTES)[:3], (b"\x0f", b"\\pipe\\x\0"), (b"\x11", b"\\\\host\0")]
    assert Tower.decode(encode_floors(named_pipe)) is None


def test_a_tower_is_preceded_by_its_length_twice() -> None:
    stub = MAP.request.encode((None, BYTES, NULL_HANDLE, 4))
    assert stub == struct.pack("<IIII", 0, 0x20000, 75, 75) + BYTES + b"\0" + NULL_HANDLE + struct.pack("<I", 4)
    assert MAP.request.decode(stub) == (None, BYTES, NULL_HANDLE, 4)
    for length in (74, 76, 2001):
        with pytest.raises(Malformed):
            MAP.request.decode(stub[:12] + struct.pack("<I", length) + stub[16:])
    long = struct.pack("<IIII", 0, 0x20000, 2001, 2001) + bytes(2003) + NULL_HANDLE + struct.pack("<I", 4)
    with pytest.raises(Malformed):
        MAP.request.decode(long)
    with pytest.raises(InvalidParameter):
        MAP.request.encode((None, bytes(2001), NULL_HANDLE, 4))


@pytest.mark.parametrize("count", [501, 0xFFFFFFFF])
def test_nobody_asks_for_more_than_500_towers(count: int) -> None:
    stub = MAP.request.encode((None, None, NULL_HANDLE, 4))[:-4] + struct.pack("<I", count)
    with pytest.raises(Malformed):
        MAP.request.decode(stub)


def test_not_more_towers_than_were_asked_for() -> None:
    request = (None, None, NULL_HANDLE, 1)
    assert MAP.response.encode((NULL_HANDLE, 1, (None,), 0), request)
    with pytest.raises(InvalidParameter):
        MAP.response.encode((NULL_HANDLE, 2, (None, None), 0), request)
    with pytest.raises(InvalidParameter):
        MAP.response.encode((NULL_HANDLE, 0, (None,), 0), request)


def answer(**changed: Any) -> bytes:
    entry = EptEntry(**({"object": INTERFACE, "tower": None, "annotation": b"x"} | changed))
    return LOOKUP.response.encode((NULL_HANDLE, 1, (entry,), 0), (0, None, None, 1, NULL_HANDLE, 10))


@pytest.mark.parametrize("annotation", [b"a\0b", bytes(64), b"x" * 64])
def test_refuses_to_write_an_annotation_that_does_not_fit(annotation: bytes) -> None:
    with pytest.raises(InvalidParameter):
        answer(annotation=annotation)


@pytest.mark.parametrize(("offset", "count"), [(1, 2), (0, 1), (0, 3), (0, 0), (0, 65), (0, 0xFFFFFFFF)])
def test_refuses_an_annotation_without_its_one_terminator(offset: int, count: int) -> None:
    stub = answer()
    at = stub.index(struct.pack("<II", 0, 2) + b"x\0")
    with pytest.raises(Malformed):
        LOOKUP.response.decode(stub[:at] + struct.pack("<II", offset, count) + stub[at + 8:])


def test_a_vector_of_interfaces_has_its_count_twice() -> None:
    method = RPC_MANAGEMENT.methods[0]
    stub = method.response.encode(((RpcIfId(INTERFACE, 1, 0),), 0))
    assert stub == struct.pack("<IIII", 0x20000, 1, 1, 0x20004) + INTERFACE.bytes_le + struct.pack("<HHI", 1, 0, 0)
    for at in (4, 8):
        with pytest.raises(Malformed):
            method.response.decode(stub[:at] + struct.pack("<I", 2) + stub[at + 4:])


def test_a_principal_name_fits_in_the_room_for_it() -> None:
    method = RPC_MANAGEMENT.methods[4]
    assert method.response.decode(method.response.encode((b"abc", 0), (10, 4)), (10, 4)) == (b"abc", 0)
    for name in (b"abcd", b"a\0b"):
        with pytest.raises(InvalidParameter):
            method.response.encode((name, 0), (10, 4))
    stub = struct.pack("<III", 4, 0, 3) + b"abc\0" + bytes(4)
    with pytest.raises(Malformed):
        method.response.decode(stub, (10, 4))
