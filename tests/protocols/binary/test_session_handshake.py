"""The handshake: what is sent byte for byte, what is believed, what is refused ([MS-MQQB] 3.1.5.2.3 to 3.1.5.4)."""

import pytest

from lior.protocols.binary.session import Close, Opened, Send, Session, SessionState
from lior.protocols.binary.settings import SessionSettings
from lior.wire.session_packets import ConnectionParameters, EstablishConnection
from tests.protocols.binary.peers import (
    DEFAULTS,
    EXPRESS,
    NULL,
    OTHER,
    OWN,
    PEER,
    Link,
    acceptor,
    closed,
    connection,
    in_state,
    initiator,
    message,
    opened,
    opened_initiator,
    parameters,
    sent_by,
)
from tests.wire.packets import frame
from tests.wire.session_packet_values import agreed


def request(settings: SessionSettings = DEFAULTS, *, remote: bytes | None = PEER, pinged: bool = False,
            now: float = 0.0) -> bytes:
    (data,) = sent_by(initiator(settings, remote=remote, pinged=pinged, now=now).start(now))
    return data


# ---- requests -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-132", "QB-015", "QB-017")
def test_the_first_sixty_bytes_of_a_request() -> None:
    data = request(now=1.5)
    assert data[:60] == (b"\x10\x00\x0b\x00LIOR\x3c\x02\x00\x00\xff\xff\xff\xff" + b"\0\0\2\0" + OWN + PEER
                         + (1500).to_bytes(4, "little") + b"\x10\x01\0\0")
    assert data[60:] == b"\x5a" * 512


@pytest.mark.spec("QB-016", "QB-132")
def test_a_request_for_a_direct_format_name_leaves_the_server_open() -> None:
    assert agreed(request(remote=None))[1]["server_guid"] == agreed(request(remote=NULL))[1]["server_guid"] == NULL


@pytest.mark.spec("QB-017", "QB-132")
@pytest.mark.parametrize("pinged", [False, True])
@pytest.mark.parametrize("server", [False, True])
def test_a_request_says_whether_a_ping_went_before_and_what_we_are(pinged: bool, server: bool) -> None:
    fields = agreed(request(SessionSettings(server_class=server), pinged=pinged))[1]
    assert fields["no_ping"] == (not pinged) and fields["server_class"] == server
    assert fields["operating_system"] == 0x10 | (not pinged) << 8 | server << 9


@pytest.mark.spec("QB-016")
def test_the_time_stamp_wraps_with_32_bits_of_milliseconds() -> None:
    assert agreed(request(now=2**32 / 1000 + 0.25))[1]["time_stamp"] == 250


# ---- responses ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-011", "QB-134", "QB-016")
@pytest.mark.parametrize("server", [OWN, NULL])
def test_an_acceptor_answers_who_looks_for_it_or_for_nobody_in_particular(server: bytes) -> None:
    session = acceptor()
    effects = session.receive(connection(PEER, server, 77), 0.0)
    (data,) = sent_by(effects)
    fields = agreed(data)[1]
    assert fields["refused"] == 0 and fields["client_guid"] == PEER and fields["server_guid"] == OWN
    assert fields["time_stamp"] == 77 and fields["padding"] == b"\x5a" * 512
    assert session.state is SessionState.WAITING_CP and session.remote == PEER


@pytest.mark.spec("QB-011", "QB-134")
def test_an_acceptor_refuses_who_looks_for_somebody_else_and_closes() -> None:
    session = acceptor()
    effects = session.receive(connection(PEER, OTHER, 77), 0.0)
    (data,) = sent_by(effects)
    fields = agreed(data)[1]
    assert fields["refused"] == 1 and fields["client_guid"] == PEER and fields["server_guid"] == OWN
    assert closed(effects).refused and not closed(effects).malformed and session.state is SessionState.CLOSED
    assert session.receive(parameters(), 0.0) == []


@pytest.mark.spec("QB-011")
def test_an_acceptor_that_is_full_refuses_everybody() -> None:
    effects = acceptor(refuse=True).receive(connection(), 0.0)
    (data,) = sent_by(effects)
    assert agreed(data)[1]["refused"] == 1 and closed(effects).refused


@pytest.mark.spec("QB-017", "QB-134")
@pytest.mark.parametrize("system", [0x0010, 0x0110, 0x0210, 0x0310, 0xFF10])
def test_an_acceptor_sends_back_what_the_initiator_says_of_itself(system: int) -> None:
    (data,) = sent_by(acceptor().receive(connection(system=system), 0.0))
    assert agreed(data)[1]["operating_system"] == system & 0x0310


@pytest.mark.spec("QB-018")
def test_any_padding_of_a_request_will_do() -> None:
    assert [type(e) for e in acceptor().receive(connection()[:60] + bytes(range(256)) * 2, 0.0)] == [Send]


@pytest.mark.spec("QB-209", "QB-210", "QB-135")
def test_frame_4_is_no_answer_to_frame_3() -> None:
    client, server = (frame("frame3_establish_connection_request")[at : at + 16] for at in (20, 36))
    session = Session(DEFAULTS, own=client, initiator=True, remote=server, now=0.0)
    session.start(0.0)
    assert closed(session.receive(frame("frame4_establish_connection_response"), 0.1)).malformed


@pytest.mark.spec("QB-135")
@pytest.mark.parametrize(("remote", "response", "refused"), [
    (PEER, connection(OTHER, PEER), False), (PEER, connection(OWN, OTHER), False), (PEER, connection(OWN, NULL), False),
    (None, connection(OWN, NULL), False), (PEER, connection(OWN, PEER, refused=True), True),
    (None, connection(OWN, OTHER, refused=True), True)])
def test_an_initiator_closes_on_a_response_that_is_not_its_own(remote: bytes | None, response: bytes,
                                                               refused: bool) -> None:
    session = initiator(remote=remote)
    session.start(0.0)
    effects = session.receive(response, 0.1)
    assert [type(e) for e in effects] == [Close]
    assert closed(effects).refused is refused and closed(effects).malformed is not refused


@pytest.mark.spec("QB-135")
def test_a_direct_format_name_takes_the_identity_that_answers() -> None:
    session = initiator(remote=None)
    session.start(0.0)
    session.receive(connection(OWN, OTHER), 0.1)
    effects = session.receive(parameters(), 0.2)
    assert effects == [Opened(OTHER)] and session.remote == OTHER and session.direct


@pytest.mark.spec("QB-135", "QB-012")
@pytest.mark.parametrize(("round_trip", "timeout"), [
    (0.187, 1496), (0.0001, 500), (0.0625, 500), (0.07, 560), (14.9, 119200), (15.1, 120000), (59.0, 120000)])
def test_the_recoverable_timeout_is_eight_round_trips_within_bounds(round_trip: float, timeout: int) -> None:
    session = initiator(now=1000.0)
    session.start(1000.0)
    (data,) = sent_by(session.receive(connection(OWN, PEER, 1_000_000), 1000.0 + round_trip))
    assert data[:20] == b"\x10\x00\x0b\x00LIOR\x20\x00\x00\x00\xff\xff\xff\xff\0\0\3\0"
    fields = agreed(data)[1]
    assert fields["recoverable_ack_timeout"] == timeout
    assert fields["ack_timeout"] == 20000 and fields["window_size"] == 64


@pytest.mark.spec("QB-135")
@pytest.mark.parametrize("stamp", [0, 1, 1_000_001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_forged_time_stamp_changes_nothing(stamp: int) -> None:
    session = initiator(now=1000.0)
    session.start(1000.0)
    (data,) = sent_by(session.receive(connection(OWN, PEER, stamp), 1000.1))
    assert agreed(data)[1]["recoverable_ack_timeout"] == 800


def test_our_parameters_with_the_values_of_frame_5_are_frame_5() -> None:
    session = initiator(SessionSettings(ack_wait=120.0))
    session.start(0.0)
    (data,) = sent_by(session.receive(connection(OWN, PEER), 0.187))
    expected = frame("frame5_connection_parameters_request")
    assert data[:1] + data[2:] == expected[:1] + expected[2:]


# ---- parameters -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-136", "QB-103")
def test_an_acceptor_takes_the_times_of_the_initiator_and_answers_with_its_own_window() -> None:
    session = in_state(SessionState.WAITING_CP, SessionSettings(window_size=10))
    effects = session.receive(parameters(1496, 120000, 64), 0.0)
    fields = agreed(sent_by(effects)[0])[1]
    assert (fields["recoverable_ack_timeout"], fields["ack_timeout"], fields["window_size"]) == (1496, 120000, 10)
    assert effects[-1] == Opened(PEER) and session.state is SessionState.OPEN and session.window == 10
    session.receive(message(1), 0.0)
    assert session.deadline == 60.0  # half of AckTimeout
    session.receive(message(2, recoverable=True), 1.0)
    session.stored(1, 1.0)
    assert session.deadline == 1.0 + 1.496


@pytest.mark.spec("QB-137")
def test_an_initiator_does_not_read_the_times_again() -> None:
    session = in_state(SessionState.WAITING_CPR)
    assert session.receive(parameters(120000, 120000, 7), 0.0) == [Opened(PEER)]
    assert session.window == 7
    session.receive(message(1), 1.0)
    assert session.deadline == 11.0
    session.receive(message(2, recoverable=True), 1.0)
    session.stored(1, 1.0)
    assert session.deadline == 1.5


@pytest.mark.spec("QB-014")
@pytest.mark.parametrize("ack", [0, 19999, 120001, 0xFFFFFFFF])
@pytest.mark.parametrize("state", [SessionState.WAITING_CP, SessionState.WAITING_CPR])
def test_parameters_out_of_range_end_the_session_and_arm_nothing(state: SessionState, ack: int) -> None:
    session = in_state(state)
    assert closed(session.receive(parameters(500, ack), 0.0)).malformed
    assert session.deadline is None


@pytest.mark.parametrize("state", [SessionState.WAITING_CP, SessionState.WAITING_CPR])
def test_parameters_that_refuse_end_the_session(state: SessionState) -> None:
    assert closed(in_state(state).receive(parameters(refused=True), 0.0)).refused


@pytest.mark.spec("QB-014")
def test_a_window_of_zero_still_lets_one_message_through_at_a_time() -> None:
    session = opened(window=0)
    assert session.window == 1
    session.send(EXPRESS, 1, False, 1.0)
    assert session.window == 0


@pytest.mark.spec("QB-095")
@pytest.mark.parametrize(("ours", "theirs"), [(64, 64), (64, 8), (8, 64), (1, 64), (64, 1)])
def test_the_smaller_window_counts(ours: int, theirs: int) -> None:
    settings = SessionSettings(window_size=ours)
    assert opened(settings, window=theirs).window == min(ours, theirs)
    assert opened_initiator(settings, window=theirs).window == min(ours, theirs)


@pytest.mark.spec("QB-102")
def test_a_session_is_direct_once_a_message_to_a_direct_name_came() -> None:
    session = opened()
    session.receive(message(1), 0.0)
    assert not session.direct
    session.receive(message(2, direct=True), 0.0)
    assert session.direct
    assert not opened_initiator().direct and opened_initiator(remote=None).direct


@pytest.mark.spec("QB-074")
def test_two_sessions_find_each_other_and_send_both_ways() -> None:
    link = Link.opened()
    assert link.left.session.remote == PEER and link.right.session.remote == OWN
    for side, other in ((link.left, link.right), (link.right, link.left)):
        side.send(1, False, 0.0)
        link.settle()
        assert other.received == [1]
    link.advance(10.0)
    assert link.left.acknowledged == link.right.acknowledged == [1]


def test_the_packets_of_a_handshake_have_the_sizes_of_the_document() -> None:
    assert len(request()) == EstablishConnection.SIZE == 572
    assert ConnectionParameters.SIZE == 32
