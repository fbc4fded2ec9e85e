"""Packets of a session and pings: the frames of [MS-MQQB] 4.1, a second decoder, and what has to be refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import InvalidParameter, Malformed
from lior.wire import session_packets as p
from lior.wire.headers import IN, SH, BaseHeader, SessionHeader
from lior.wire.packet_format_names import guid_of
from lior.wire.session_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    InternalHeader,
    Ping,
    SessionAck,
)
from lior.wire.user_message import UserMessage
from tests.wire import second_session_packets as second
from tests.wire.packets import FRAME_7, FRAME_8, SESSIONS, frame, frame_fields
from tests.wire.session_packet_values import KINDS, Internal, agreed, put, same_verdict, session_values, values

EC_REQUEST, EC_RESPONSE = "frame3_establish_connection_request", "frame4_establish_connection_response"
CP_REQUEST, CP_RESPONSE = "frame5_connection_parameters_request", "frame6_connection_parameters_response"
PING_REQUEST, PING_RESPONSE = "frame1_ping_request", "frame2_ping_response"
INTERNAL = (EC_REQUEST, EC_RESPONSE, CP_REQUEST, CP_RESPONSE, FRAME_8)


def parts_of(packet: Internal | Ping) -> dict[str, Any]:
    if isinstance(packet, Ping):
        return {"ping": packet}
    parts: dict[str, Any] = {"base_header": packet.base, "internal_header": packet.internal}
    if isinstance(packet, SessionAck):
        return parts | {"session_header": packet.session}
    name = "establish_connection" if isinstance(packet, EstablishConnection) else "connection_parameters"
    return parts | {name: packet.header}


# ---- the frames -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-209", "QB-210", "QB-211", "QB-213", "QB-012", "QB-013", "QB-015", "QB-016", "QB-026", "QB-027",
                  "QB-009", "QB-005")
@pytest.mark.parametrize("name", INTERNAL)
def test_a_frame_reads_as_its_bytes_say_and_writes_back(name: str) -> None:
    kind, expected = frame_fields(name)
    packet = KINDS[kind].decode(frame(name))
    for header, part in parts_of(packet).items():
        for field, value in expected.get(header, {}).items():
            if field == "padding_size":
                assert len(part.padding) == value
                continue
            actual = getattr(part, field)
            assert (actual.hex().upper() if isinstance(actual, bytes) else actual) == value, (header, field)
    assert packet.encode() == frame(name)
    assert agreed(frame(name))[0] == kind


@pytest.mark.spec("QB-028", "QB-029", "QB-208")
@pytest.mark.parametrize("name", [PING_REQUEST, PING_RESPONSE])
def test_a_ping_frame_reads_as_its_bytes_say_and_writes_back(name: str) -> None:
    _, expected = frame_fields(name)
    ping = Ping.decode(frame(name))
    for field, value in expected["ping"].items():
        actual = getattr(ping, field)
        assert (actual.hex().upper() if isinstance(actual, bytes) else actual) == value
    assert ping.encode() == frame(name)
    assert second.ping(frame(name))["cookie"] == 4
    assert ping.flags & 3 == p.RC


@pytest.mark.spec("QB-004")
def test_the_guid_of_frame_3_is_the_one_that_the_rules_of_byte_order_give() -> None:
    client = EstablishConnection.decode(frame(EC_REQUEST)).header.client_guid
    assert str(guid_of(client)) == "557358d1-9150-9595-4997-b6e611ea26c6"


@pytest.mark.spec("QB-017")
def test_the_system_flags_of_frame_3_are_in_front_of_the_reserved_field() -> None:
    header = EstablishConnection.decode(frame(EC_REQUEST)).header
    assert header.operating_system == p.RE | p.SE | p.OS and header.reserved == 0


@pytest.mark.parametrize("name", INTERNAL)
def test_a_packet_is_refused_at_every_other_length(name: str) -> None:
    kind, _ = frame_fields(name)
    data = frame(name)
    for size in range(len(data)):
        cut = data[:size]
        with pytest.raises(Malformed):
            KINDS[kind].decode(cut)
        if size >= 16:
            with pytest.raises(Malformed):
                KINDS[kind].decode(put(cut, 8, size.to_bytes(4, "little")))
    for extra in (1, 4, 16):
        longer = put(data + bytes(extra), 8, (len(data) + extra).to_bytes(4, "little"))
        for packet in (data + bytes(extra), longer):
            with pytest.raises(Malformed):
                KINDS[kind].decode(packet)
            assert not same_verdict(packet)


@pytest.mark.spec("QB-030")
@pytest.mark.parametrize("size", [*range(24), 25, 48])
def test_a_ping_of_another_length_or_signature_is_refused(size: int) -> None:
    with pytest.raises(Malformed):
        Ping.decode((frame(PING_REQUEST) * 2)[:size])
    with pytest.raises(Malformed):
        Ping.decode(put(frame(PING_REQUEST), 2, b"\x48\x54"))


# ---- what is refused, what is ignored -------------------------------------------------------------------------------


@pytest.mark.spec("QB-005", "QB-127")
@pytest.mark.parametrize("bit", range(40))
def test_any_changed_bit_of_version_or_signature_is_refused(bit: int) -> None:
    at = 0 if bit < 8 else 4 + bit // 8 - 1
    for name in INTERNAL:
        data = frame(name)
        with pytest.raises(Malformed):
            KINDS[frame_fields(name)[0]].decode(put(data, at, bytes([data[at] ^ 1 << bit % 8])))


@pytest.mark.spec("QB-006", "QB-009", "QB-013", "QB-016", "QB-017", "QB-018", "QB-027")
@pytest.mark.parametrize(("name", "at"), [
    *[(name, at) for name in INTERNAL for at in (1, 16, 17)],  # BaseHeader.Reserved, InternalHeader.Reserved
    (EC_REQUEST, 58), (EC_REQUEST, 59), (EC_REQUEST, 60), (EC_REQUEST, 571), (EC_REQUEST, 57),
    (CP_REQUEST, 28), (CP_REQUEST, 29), (FRAME_8, 34), (FRAME_8, 35)])
def test_what_is_reserved_is_ignored_and_kept(name: str, at: int) -> None:
    data = frame(name)
    changed = put(data, at, bytes([data[at] ^ 0xFC]))
    assert agreed(changed)[0] == frame_fields(name)[0]


@pytest.mark.spec("QB-009", "QB-006")
def test_unused_bits_are_ignored_and_kept() -> None:
    for name in INTERNAL:
        data = frame(name)
        agreed(put(data, 18, bytes([data[18] | 0xE0, 0xFF])))
        agreed(put(data, 2, bytes([data[2] | 0xC0, 0xFE])))
        agreed(put(data, 2, bytes([data[2] & ~7])))  # priority 0 is as good as 3


@pytest.mark.spec("QB-006", "QB-126")
@pytest.mark.parametrize("name", INTERNAL)
def test_flags_that_do_not_belong_to_a_packet_are_refused(name: str) -> None:
    data = frame(name)
    low, high = data[2:4]
    for flags in ((low ^ IN, high), (low ^ SH, high), (low | 0x20, high), (low, high | 1)):
        packet = put(data, 2, bytes(flags))
        with pytest.raises(Malformed):
            KINDS[frame_fields(name)[0]].decode(packet)
        assert not same_verdict(packet)


@pytest.mark.spec("QB-010")
@pytest.mark.parametrize("packet_type", [0, *range(4, 16)])
def test_no_other_packet_type_is_taken(packet_type: int) -> None:
    for name in INTERNAL:
        assert not same_verdict(put(frame(name), 18, bytes([packet_type])))


def test_a_session_ack_that_refuses_a_connection_is_refused() -> None:
    with pytest.raises(Malformed, match="refusal of a connection"):
        SessionAck.decode(put(frame(FRAME_8), 18, b"\x11"))
    assert EstablishConnection.decode(put(frame(EC_RESPONSE), 18, b"\x12")).refused
    assert ConnectionParameters.decode(put(frame(CP_RESPONSE), 18, b"\x13")).refused
    assert not EstablishConnection.decode(frame(EC_RESPONSE)).refused


@pytest.mark.spec("QB-017")
@pytest.mark.parametrize("low", [0x00, 0x11, 0x20, 0xFF])
def test_the_reserved_byte_of_the_operating_system_is_0x10(low: int) -> None:
    packet = put(frame(EC_REQUEST), 56, bytes([low]))
    with pytest.raises(Malformed):
        EstablishConnection.decode(packet)
    assert not same_verdict(packet)


@pytest.mark.spec("QB-013", "QB-014")
@pytest.mark.parametrize(("recoverable", "ack", "right"), [
    (500, 20000, True), (120000, 120000, True), (499, 20000, False), (120001, 20000, False), (500, 19999, False),
    (500, 120001, False), (0, 0, False), (500, 0, False), (500, 0xFFFFFFFF, False), (0xFFFFFFFF, 20000, False)])
def test_timeouts_have_a_range(recoverable: int, ack: int, right: bool) -> None:
    data = put(frame(CP_REQUEST), 20, recoverable.to_bytes(4, "little") + ack.to_bytes(4, "little"))
    assert same_verdict(data) is right
    parameters = ConnectionParameters(ConnectionParametersHeader(recoverable, ack, 0, 64))
    if right:
        assert second.decode(parameters.encode())[1]["ack_timeout"] == ack
    else:
        with pytest.raises(InvalidParameter):
            parameters.encode()


@pytest.mark.parametrize("window", [0, 1, 0xFFFF])
def test_any_window_is_a_window(window: int) -> None:
    header = ConnectionParametersHeader(window_size=window)
    assert agreed(ConnectionParameters(header).encode())[1]["window_size"] == window


# ---- what is sent ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-008", "QB-018", "QB-006")
def test_what_we_send_has_no_junk_and_no_time_limit() -> None:
    for packet in (EstablishConnection(EstablishConnectionHeader()), SessionAck(SessionHeader()),
                   ConnectionParameters(ConnectionParametersHeader())):
        data = packet.encode()
        assert data[12:16] == b"\xff" * 4 and data[1] == 0 and data[16:18] == b"\0\0"
        assert data[2] & IN and data[3] == 0
        assert agreed(data)[1]["base.packet_size"] == len(data) == packet.SIZE
    assert EstablishConnection(EstablishConnectionHeader()).encode()[60:] == b"\x5a" * 512


def test_a_number_that_does_not_fit_is_refused_before_it_is_sent() -> None:
    for header in (EstablishConnectionHeader(time_stamp=1 << 32), EstablishConnectionHeader(client_guid=b"short")):
        with pytest.raises(InvalidParameter):
            EstablishConnection(header).encode()


@pytest.mark.spec("QB-007")
def test_a_session_header_behind_a_message_is_not_in_its_packet_size() -> None:
    header = SessionHeader(7, 3, 0b101, 9, 4, 32)
    packet = p.with_session_header(frame(FRAME_7), header.encode())
    assert BaseHeader.decode(packet).packet_size == len(packet) - 16 == len(frame(FRAME_7))
    message = UserMessage.decode(packet)
    assert message.session == header
    assert second.split(packet + frame(FRAME_8)) == ([packet, frame(FRAME_8)], b"")
    assert session_values(header) == second.session_header(packet[-16:])


# ---- any bytes ------------------------------------------------------------------------------------------------------

SIZES = {"EstablishConnection": 572, "ConnectionParameters": 32, "SessionAck": 36}


@st.composite
def near_packets(draw: st.DrawFn) -> bytes:
    """A frame with some of its first bytes changed."""
    data = bytearray(frame(draw(st.sampled_from(INTERNAL))))
    for _ in range(draw(st.integers(0, 4))):
        data[draw(st.integers(0, min(63, len(data) - 1)))] = draw(st.integers(0, 255))
    return bytes(data)


@given(near_packets() | st.binary(max_size=40))
def test_both_decoders_are_of_one_opinion(data: bytes) -> None:
    same_verdict(data)


@given(st.builds(EstablishConnectionHeader, st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16),
                 st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFF).map(lambda high: high << 8 | 0x10),
                 st.integers(0, 0xFFFF), st.binary(min_size=512, max_size=512)),
       st.integers(0, 0xFFFF), st.integers(0, 0xFFF))
def test_any_establish_connection_comes_back(header: EstablishConnectionHeader, reserved: int, unused: int) -> None:
    packet = EstablishConnection(header, InternalHeader(reserved, unused << 4 | 2))
    assert EstablishConnection.decode(packet.encode()) == packet
    assert agreed(packet.encode())[1] == values(packet)


@given(SESSIONS)
def test_any_session_ack_comes_back(header: SessionHeader) -> None:
    packet = SessionAck(header)
    assert SessionAck.decode(packet.encode()) == packet
    assert agreed(packet.encode())[1] == values(packet)


@given(st.builds(Ping, st.integers(0, 0xFFFF), st.just(0x5548), st.integers(0, 0xFFFFFFFF),
                 st.binary(min_size=16, max_size=16)))
def test_any_ping_comes_back(ping: Ping) -> None:
    assert Ping.decode(ping.encode()) == ping
    fields = second.ping(ping.encode())
    assert (fields["flags"], fields["cookie"], fields["qm_guid"]) == (ping.flags, ping.cookie, ping.qm_guid)
