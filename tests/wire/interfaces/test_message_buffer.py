"""CACTransferBuffer and its companions ([MS-MQMP] 2.2.3): their bytes, written out by hand, and what is refused."""

import struct
import tracemalloc
from typing import Any
from uuid import UUID

import pytest

from lior.errors import InvalidParameter, LiorError, Malformed
from lior.message import ObjectId
from lior.names import QueueFormat, QueueFormatType
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.structures import (
    CACCreateRemoteCursor,
    CACTransferBufferV1,
    CACTransferBufferV2,
    ObjectFormat,
    Receive,
    Send,
)
from lior.wire.ndr import NULL
from lior.wire.ndr_types import NULL_HANDLE

HANDLE = bytes(range(20))
GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
ID = ObjectId(GUID, 7)
SEND = QMCOMM2.methods[1]
RECEIVE = QMCOMM2.methods[2]
OPEN = QMCOMM.methods[19]
DIRECT = QueueFormat(QueueFormatType.DIRECT, direct_id="OS:h")
FIXED = 240  # MP-037: the members of a CACTransferBufferV2 with the arm CACTB_SEND




def sent(**members: Any) -> bytes:
    return SEND.request.encode((HANDLE, CACTransferBufferV2(0, Send(), **members), None))


def send_of(stub: bytes) -> CACTransferBufferV2:
    buffer: CACTransferBufferV2 = SEND.request.decode(stub).ptb
    return buffer


def patched(stub: bytes, at: int, number: int, code: str = "<I") -> bytes:
    changed = bytearray(stub)
    struct.pack_into(code, changed, at, number)
    return bytes(changed)


@pytest.mark.spec("MP-037")
@pytest.mark.parametrize(("kind", "arm", "size"), [
    (0, Send(), 240), (1, Receive(), 296), (2, CACCreateRemoteCursor(), 244)])
def test_has_the_size_of_its_arm(kind: int, arm: Any, size: int) -> None:
    empty = RECEIVE.response.encode((CACTransferBufferV2(kind, arm), 0))
    assert len(empty) == size + 4
    old = QMCOMM.methods[4].request.encode((CACTransferBufferV1(kind, arm), 0))
    assert len(old) == size - 12 + 4


@pytest.mark.spec("MP-037")
@pytest.mark.spec("MP-064")
def test_every_number_stands_where_the_idl_has_it() -> None:
    numbers = {
        "ul_body_buffer_size_in_bytes": 60, "ul_alloc_body_buffer_in_bytes": 64, "ul_title_buffer_size_in_wchars": 76,
        "ul_absolute_time_to_queue": 84, "ul_relative_time_to_live": 92, "ul_auth_level": 120,
        "ul_sender_cert_len": 140, "ul_prov_name_len": 152, "f_default_provider": 164, "ul_symm_keys_size": 172,
        "b_encrypted": 180, "b_authenticated": 181, "u_sender_id_len": 182, "ul_signature_size": 188,
        "ul_msg_extension_buffer_in_bytes": 208,
    }
    for name, at in numbers.items():
        stub = sent(**{name: 1})[20:]
        assert [index for index in range(FIXED) if stub[index]] == [at], name


@pytest.mark.spec("MP-037")
@pytest.mark.spec("MP-038")
def test_pointees_follow_in_the_order_of_the_members() -> None:
    buffer = CACTransferBufferV2(
        0, Send(p_response_queue_format=DIRECT), 3, 5, p_class=0x8000, pp_message_id=ID, p_priority=4, p_delivery=1,
        pp_body=b"abc", p_body_size=3, pp_xact_id=NULL)
    stub = SEND.request.encode((HANDLE, buffer, None))
    fixed, rest = stub[20:20 + FIXED], stub[20 + FIXED:]
    referents = struct.unpack("<60I", fixed)
    assert {index * 4: value for index, value in enumerate(referents) if value} == {
        12: 0x20000, 16: 0x20004, 20: 0x20008, 36: 0x2000C, 40: 0x20010, 56: 0x20014, 60: 3, 64: 5, 68: 0x20018,
        236: 0x2001C}
    assert rest == bytes.fromhex(
        "03 00 0000 03 000000 20000200 05000000 00000000 05000000 4f00 5300 3a00 6800 0000"  # response queue
        "0080 24000200 33221100 5544 7766 8899aabbccddeeff 07000000"  # class; pointer and message identifier
        "04 01 0000 28000200 05000000 00000000 03000000 616263 00"  # priority, delivery, body
        "03000000 00000000"  # body size, a pointer to NULL
        "00000000")  # pMessageID
    assert send_of(stub) == buffer


@pytest.mark.spec("MP-029")
@pytest.mark.parametrize(("discriminant", "tag"), [(3, 3), (0, 1), (1, 0), (0xFFFFFFFF, 0xFFFFFFFF)])
def test_refuses_a_transfer_type_without_an_arm_or_with_another_tag(discriminant: int, tag: int) -> None:
    with pytest.raises(Malformed):
        send_of(patched(patched(sent(), 20, discriminant), 24, tag))


@pytest.mark.spec("MP-029")
@pytest.mark.parametrize(("kind", "arm"), [
    (0, Send(DIRECT, None)), (1, Receive(1000, 0x80000001, 1, 2)), (2, CACCreateRemoteCursor(1, 2, 3))])
def test_each_transfer_type_has_its_arm(kind: int, arm: Any) -> None:
    stub = RECEIVE.request.encode((9, CACTransferBufferV2(kind, arm)))
    assert struct.unpack_from("<II", stub, 4) == (kind, kind)
    assert RECEIVE.request.decode(stub).ptb.transfer == arm


@pytest.mark.spec("MP-042")
@pytest.mark.parametrize("name", ["response", "admin", "dest", "ordering"])
def test_a_format_name_buffer_has_up_to_1024_characters(name: str) -> None:
    def call(length: int) -> bytes:
        return RECEIVE.request.encode((9, CACTransferBufferV2(1, Receive(**{  # type: ignore[arg-type]
            f"ul_{name}_format_name_len": length, f"pp_{name}_format_name": "x" * length}))))

    stub = call(1024)
    assert getattr(RECEIVE.request.decode(stub).ptb.transfer, f"pp_{name}_format_name") == "x" * 1024
    at = stub.index((1024).to_bytes(4, "little"))
    with pytest.raises(Malformed, match="range"):
        RECEIVE.request.decode(patched(stub, at, 1025))
    with pytest.raises(InvalidParameter):
        call(1025)


ARRAYS: list[tuple[dict[str, Any], int]] = [
    ({"pp_body": b"abc", "ul_body_buffer_size_in_bytes": 3, "ul_alloc_body_buffer_in_bytes": 4}, 64),
    ({"pp_body": b"abc", "ul_body_buffer_size_in_bytes": 3, "ul_alloc_body_buffer_in_bytes": 4}, 60),
    ({"pp_title": "ab\0", "ul_title_buffer_size_in_wchars": 3}, 76),
    ({"pp_sender_cert": b"abc", "ul_sender_cert_len": 3}, 140),
    ({"ppwcs_prov_name": "abc", "ul_prov_name_len": 3}, 152),
    ({"pp_symm_keys": b"abc", "ul_symm_keys_size": 3}, 172),
    ({"pp_signature": b"abc", "ul_signature_size": 3}, 188),
    ({"pp_msg_extension": b"abc", "ul_msg_extension_buffer_in_bytes": 3}, 208),
]


@pytest.mark.spec("MP-052")
@pytest.mark.parametrize(("members", "at"), ARRAYS)
@pytest.mark.parametrize("change", [-1, 1, 0x7FFFFF00, -4])
def test_refuses_an_array_that_is_not_as_long_as_announced(members: dict[str, Any], at: int, change: int) -> None:
    stub = sent(**members)
    assert send_of(stub) == CACTransferBufferV2(0, Send(), **members)
    count = struct.unpack_from("<I", stub, 20 + at)[0]
    with pytest.raises(Malformed):
        send_of(patched(stub, 20 + at, max(0, count + change)))


def test_a_sender_identifier_is_as_long_as_its_16_bit_size() -> None:
    stub = sent(pp_sender_id=b"s" * 28, u_sender_id_len=28)
    assert send_of(stub).pp_sender_id == b"s" * 28
    with pytest.raises(Malformed):
        send_of(patched(stub, 20 + 182, 27, "<H"))


@pytest.mark.spec("MP-052")
def test_refuses_a_body_longer_than_its_allocation_though_all_counts_agree() -> None:
    stub = sent(pp_body=b"abcde", ul_body_buffer_size_in_bytes=5, ul_alloc_body_buffer_in_bytes=5)
    assert send_of(stub).pp_body == b"abcde"
    with pytest.raises(Malformed):
        send_of(patched(patched(stub, 20 + 64, 3), 20 + FIXED + 4, 3))


@pytest.mark.spec("MP-046")
def test_a_correlation_identifier_has_twenty_bytes() -> None:
    stub = sent(pp_correlation_id=HANDLE)
    assert stub[260:260 + 36] == struct.pack("<IIII", 0x20004, 20, 0, 20) + HANDLE
    for at in (264, 268, 272):
        with pytest.raises(Malformed):
            send_of(patched(stub, at, 21))
    with pytest.raises(InvalidParameter):
        sent(pp_correlation_id=bytes(21))


@pytest.mark.spec("MP-038")
@pytest.mark.parametrize(("members", "at"), ARRAYS[1:])
def test_only_the_outer_pointer_of_an_announced_array_may_be_null(members: dict[str, Any], at: int) -> None:
    array = next(name for name in members if name.startswith("pp"))
    ignored = members | {array: None}
    assert send_of(sent(**ignored)) == CACTransferBufferV2(0, Send(), **ignored)
    empty = dict.fromkeys(members, 0) | {array: NULL}
    assert getattr(send_of(sent(**empty)), array) is NULL
    stub = sent(**members)
    with pytest.raises(Malformed):
        send_of(patched(stub, 20 + FIXED, 0))  # the inner pointer
    with pytest.raises(InvalidParameter):
        sent(**(members | {array: NULL}))


def test_a_short_array_is_filled_with_zeros_when_it_is_written() -> None:
    found = send_of(sent(pp_title="ab", ul_title_buffer_size_in_wchars=4, pp_body=b"x", ul_body_buffer_size_in_bytes=3,
                         ul_alloc_body_buffer_in_bytes=8))
    assert found.pp_title == "ab\0\0"
    assert found.pp_body == b"x\0\0"


@pytest.mark.parametrize("members", [
    {"pp_body": b"abc", "ul_body_buffer_size_in_bytes": 2, "ul_alloc_body_buffer_in_bytes": 8},
    {"pp_body": b"abc", "ul_body_buffer_size_in_bytes": 3, "ul_alloc_body_buffer_in_bytes": 2},
    {"pp_title": "abc", "ul_title_buffer_size_in_wchars": 2},
    {"p_priority": 256}, {"p_class": -1}, {"b_encrypted": 300}, {"ul_auth_level": "1"}, {"pp_title": b"ab"},
    {"pp_message_id": 5}, {"p_uow": b"x" * 16}, {"transfer": Receive()}, {"u_transfer_type": 9}])
def test_refuses_to_write_what_does_not_fit(members: dict[str, Any]) -> None:
    every: dict[str, Any] = {"u_transfer_type": 0, "transfer": Send(), **members}
    buffer = CACTransferBufferV2(**every)
    with pytest.raises(InvalidParameter):
        SEND.request.encode((HANDLE, buffer, None))


def test_characters_behind_the_nul_of_a_buffer_are_kept_whatever_they_are() -> None:
    title = b"a\0\0\0\0\xd8\xff\xff".decode("utf-16-le", "surrogatepass")
    assert send_of(sent(pp_title=title, ul_title_buffer_size_in_wchars=4)).pp_title == title


@pytest.mark.spec("MP-030")
def test_a_unit_of_work_is_sixteen_bytes_without_alignment() -> None:
    stub = sent(p_priority=1, p_uow=GUID)
    assert stub[260:] == b"\x01" + GUID.bytes_le + b"\0\0\0" + bytes(4)
    assert send_of(stub).p_uow == GUID


@pytest.mark.spec("MP-035")
def test_an_object_format_holds_a_queue_and_nothing_else() -> None:
    delete = QMCOMM.methods[9].request
    stub = delete.encode((ObjectFormat(1, QueueFormat(QueueFormatType.PUBLIC, guid=GUID)),))
    assert stub == bytes.fromhex("01000000 01000000 00000200 01 00 0000 01 000000") + GUID.bytes_le
    assert delete.decode(bytes.fromhex("01000000 01000000 00000000")).p_object_format == ObjectFormat(1, None)
    for broken in ("02000000 02000000 00000000", "01000000 02000000 00000000", "02000000 01000000 00000000",
                   "00000000 00000000 00000000", "03000000 03000000 00000000"):
        with pytest.raises(Malformed):
            delete.decode(bytes.fromhex(broken))


@pytest.mark.spec("MP-028")
def test_a_context_handle_is_twenty_bytes() -> None:
    close = QMCOMM.methods[20]
    assert close.request.encode((HANDLE,)) == HANDLE
    assert close.response.encode((NULL_HANDLE, 0)) == bytes(24)
    for size in (0, 19, 21):
        with pytest.raises(InvalidParameter):
            close.request.encode((bytes(size),))


@pytest.mark.spec("MP-126")
def test_opening_a_queue_answers_with_36_bytes_when_there_is_no_name() -> None:
    stub = OPEN.response.encode((NULL, 5, HANDLE, 0))
    assert stub == bytes.fromhex("00000200 00000000 05000000") + HANDLE + bytes(4)
    assert OPEN.response.decode(stub) == (NULL, 5, HANDLE, 0)
    request = OPEN.request.encode((DIRECT, 1, 0, 0, NULL, 0, GUID, "client", 0, 0))
    assert struct.pack("<II", 0x20004, 0) in request  # the outer pointer, then the inner NULL
    assert OPEN.request.decode(request) == (DIRECT, 1, 0, 0, NULL, 0, GUID, "client", 0, 0)


def test_sending_answers_with_an_identifier_or_without() -> None:
    assert SEND.response.encode((ID, 0)) == bytes.fromhex("00000200") + ID.to_bytes() + bytes(4)
    assert SEND.response.encode((None, 0xC00E0025)) == bytes.fromhex("00000000 25000ec0")
    assert SEND.response.decode(bytes.fromhex("00000000 25000ec0")) == (None, 0xC00E0025)


@pytest.mark.spec("MP-143")
def test_an_out_buffer_is_as_long_as_the_request_says() -> None:
    whereabouts = QMCOMM.methods[14]
    request = whereabouts.request.decode(whereabouts.request.encode((8,)))
    stub = whereabouts.response.encode((b"abc", 3, 0), request)
    assert stub == bytes.fromhex("08000000 6162630000000000 03000000 00000000")
    assert whereabouts.response.decode(stub, request) == (b"abc" + bytes(5), 3, 0)
    with pytest.raises(Malformed):
        whereabouts.response.decode(stub, (9,))
    with pytest.raises(InvalidParameter):
        whereabouts.response.encode((bytes(9), 9, 0), request)
    name = QMCOMM.methods[26]
    asked = name.request.decode(name.request.encode((HANDLE, 6, "\0" * 6, 6)))
    assert name.response.decode(name.response.encode(("abc", 4, 0), asked), asked) == ("abc\0\0\0", 4, 0)


@pytest.mark.spec("MP-143")
def test_a_buffer_of_the_announced_length_must_be_there() -> None:
    name = QMCOMM.methods[26].request
    assert name.decode(name.encode((HANDLE, 0, None, 0))).lpwcs_format_name is None
    with pytest.raises(Malformed):
        name.decode(HANDLE + struct.pack("<III", 5, 0, 5))
    with pytest.raises(InvalidParameter):
        name.encode((HANDLE, 5, None, 5))
    with pytest.raises(Malformed):
        name.decode(HANDLE + struct.pack("<III", 524289, 0, 5))


def test_a_huge_announced_buffer_costs_nothing() -> None:
    """The allocation that a reader asks for is a number: what is there counts."""
    stub = RECEIVE.request.encode((9, CACTransferBufferV2(1, Receive(), 0, 0xFFFFFFFF, pp_body=b"")))
    tracemalloc.start()
    found = RECEIVE.request.decode(stub)
    broken = patched(stub, stub.index(struct.pack("<IIII", 0x20004, 0xFFFFFFFF, 0, 0)) + 12, 0xFFFFFFFF)
    with pytest.raises(LiorError):
        RECEIVE.request.decode(broken)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.ptb.ul_alloc_body_buffer_in_bytes, found.ptb.pp_body) == (0xFFFFFFFF, b"")
    assert peak < 200_000


@pytest.mark.parametrize("size", [4095, 4096, 4097, 4098, 4099, 4100, 4101, 4102, 4103, 65536, 4 << 20])
def test_a_large_body_is_not_copied_on_its_way(size: int) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    request = (HANDLE, CACTransferBufferV2(0, Send(), size, size, pp_body=body, p_body_size=size, p_priority=3), ID)
    stub = SEND.request.encode(request)
    found = SEND.request.decode(stub)
    assert found == request
    assert isinstance(found.ptb.pp_body, memoryview)
    assert found.ptb.pp_body.obj is stub
    parts = SEND.request.encode_parts(request)
    assert b"".join(parts) == stub
    if size > 4096:
        assert any(isinstance(part, memoryview) and part.obj is body for part in parts)


