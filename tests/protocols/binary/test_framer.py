"""Whole packets out of a stream that is cut anywhere, and what ends it ([MS-MQMQ] 2.2.19.1)."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import Malformed
from lior.protocols.binary.framer import Framer
from lior.wire.headers import MAX_PACKET_SIZE, SessionHeader
from lior.wire.session_packets import with_session_header
from tests.wire import second_session_packets as second
from tests.wire.packets import FRAME_7, FRAME_8, FRAMES, frame

HEADER = SessionHeader(1, 2, 3, 4, 5).encode()
INTERNAL = [name for name in FRAMES if "ping" not in name and name != FRAME_7]
PIGGYBACK = with_session_header(frame(FRAME_7), HEADER)
STREAM = [*map(frame, INTERNAL), PIGGYBACK, frame(FRAME_7), frame(FRAME_8)]


def head(size: int, flags: int = 3) -> bytes:
    return b"\x10\0" + flags.to_bytes(2, "little") + b"LIOR" + size.to_bytes(4, "little") + b"\xff" * 4


def fed(framer: Framer, *chunks: bytes | bytearray | memoryview) -> list[bytes]:
    return [packet for chunk in chunks for packet in framer.feed(chunk)]


@pytest.mark.spec("QB-007")
def test_two_messages_split_at_every_byte_come_out_whole() -> None:
    data = PIGGYBACK + frame(FRAME_7)
    for cut in range(len(data) + 1):
        framer = Framer()
        assert fed(framer, data[:cut], data[cut:]) == [PIGGYBACK, frame(FRAME_7)]
        assert framer.pending == 0


@pytest.mark.spec("QB-007")
def test_a_session_ack_leaves_nothing_behind() -> None:
    framer = Framer()
    assert fed(framer, frame(FRAME_8) * 3) == [frame(FRAME_8)] * 3
    assert framer.pending == 0


def test_a_stream_of_every_packet_comes_out_byte_by_byte() -> None:
    framer, data = Framer(), b"".join(STREAM)
    assert fed(framer, *(data[at : at + 1] for at in range(len(data)))) == STREAM
    assert framer.pending == 0


@given(st.lists(st.sampled_from(STREAM), max_size=6), st.lists(st.integers(0, 3000), max_size=12))
def test_a_stream_cut_anywhere_gives_the_same_packets(packets: list[bytes], cuts: list[int]) -> None:
    data = b"".join(packets)
    framer, at, out = Framer(), 0, []
    for cut in cuts:
        out += fed(framer, data[at : at + cut])
        at += cut
    out += fed(framer, data[at:])
    assert out == packets == second.split(data)[0]


def test_packets_are_bytes_whatever_they_came_as() -> None:
    for kind in (bytes, bytearray, memoryview):
        framer = Framer()
        packets = fed(framer, kind(frame(FRAME_8) + frame(FRAME_7)[:100]), kind(frame(FRAME_7)[100:]))
        assert packets == [frame(FRAME_8), frame(FRAME_7)]
        assert [type(packet) for packet in packets] == [bytes, bytes]


@pytest.mark.spec("QB-007", "QB-125")
@pytest.mark.parametrize(("size", "right"), [
    (0, False), (16, False), (19, False), (20, True), (MAX_PACKET_SIZE, True), (MAX_PACKET_SIZE + 1, False),
    (0xFFFFFFFF, False)])
def test_a_packet_has_20_bytes_to_4_mebibytes(size: int, right: bool) -> None:
    framer = Framer()
    if not right:
        with pytest.raises(Malformed, match="a packet of"):
            fed(framer, head(size))
        return
    packet = head(size) + bytes(size - 16)
    assert fed(framer, packet[:1000], packet[1000:]) == [packet]


@pytest.mark.spec("QB-125", "QB-127")
@pytest.mark.parametrize("start", [
    b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b"\x10\0\x03\0LIO\0", b"\x10\0\x03\0X", b"\0", b"\x11\0\x03\0LIOR",
    head(0xFFFFFFF0).replace(b"LIOR", b"ROIL"), head(20).replace(b"LIOR", b"LIOS"), b"\x0f" + head(20)[1:]])
def test_another_protocol_is_refused_at_its_first_wrong_byte(start: bytes) -> None:
    wrong = next(at for at in range(len(start)) if start[at] != head(0)[at] and at in (0, 4, 5, 6, 7))
    framer = Framer()
    assert fed(framer, *(start[at : at + 1] for at in range(wrong))) == []
    with pytest.raises(Malformed, match="the bytes"):
        fed(framer, start[wrong : wrong + 1])
    with pytest.raises(Malformed):
        fed(Framer(), start)


def test_packets_before_the_fault_come_out() -> None:
    framer, packets = Framer(), []
    with pytest.raises(Malformed):
        for packet in framer.feed(frame(FRAME_8) * 2 + b"GET / HTTP/1.1\r\n"):
            packets.append(packet)
    assert packets == [frame(FRAME_8)] * 2


def test_a_limit_changed_between_two_packets_holds_for_the_second() -> None:
    framer, data = Framer(limit=36), frame(FRAME_8) + frame(FRAME_7)
    with pytest.raises(Malformed):
        fed(framer, data)
    framer = Framer(limit=36)
    packets = []
    for packet in framer.feed(data):
        packets.append(packet)
        framer.limit = MAX_PACKET_SIZE
    assert packets == [frame(FRAME_8), frame(FRAME_7)]


def test_a_large_size_allocates_nothing_that_did_not_come() -> None:
    framers = [Framer() for _ in range(20)]
    tracemalloc.start()
    try:
        for framer in framers:
            assert fed(framer, head(MAX_PACKET_SIZE)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000


def test_a_dribbling_peer_makes_us_hold_one_packet_and_no_more() -> None:
    framer, packet = Framer(), head(100_000) + bytes(99_984)
    tracemalloc.start()
    try:
        for at in range(0, 99_998, 2):
            assert fed(framer, packet[at : at + 2]) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert framer.pending == 99_998 and peak < 3 * len(packet)
    assert fed(framer, packet[-2:]) == [packet]


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes_frame_or_are_refused_alike_by_both_decoders(first: bytes, second_part: bytes) -> None:
    data = first + second_part
    try:
        expected, rest = second.split(data)
    except second.Refused:
        with pytest.raises(Malformed):
            fed(Framer(), first, second_part)
        return
    framer = Framer()
    try:
        assert fed(framer, first, second_part) == expected
        assert framer.pending == len(rest)
    except Malformed:  # an early refusal of what could not become a BaseHeader
        assert 0 < len(rest) < 16
        assert rest[0] != 0x10 or not b"LIOR".startswith(rest[4:8])
