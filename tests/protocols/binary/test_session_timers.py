"""The timers of a session, with a clock that moves when told ([MS-MQQB] 3.1.2.1 to 3.1.2.5, 3.1.6.2 to 3.1.6.4)."""

import pytest

from lior.protocols.binary.session import Session, SessionState
from lior.protocols.binary.settings import SessionSettings
from tests.protocols.binary.peers import (
    EXPRESS,
    OWN,
    PEER,
    RECOVERABLE,
    Link,
    acceptor,
    acknowledgement,
    acks_in,
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


def ticked_until_closed(session: Session, limit: float) -> float:
    """When the session ends, if only its own deadlines wake it."""
    while (due := session.deadline) is not None and due <= limit:
        effects = session.tick(due)
        if session.state is SessionState.CLOSED:
            assert not closed(effects).malformed
            return due
        assert session.deadline is not None and session.deadline > due, "a deadline that never passes"
    raise AssertionError(f"open at {limit}")


# ---- initialisation -------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-107", "QB-070")
def test_a_silent_connection_is_closed_60_seconds_after_its_own_beginning() -> None:
    for start in (0.0, 0.5, 1234.0):
        assert ticked_until_closed(acceptor(now=start), start + 1000) == start + 60


@pytest.mark.spec("QB-107")
@pytest.mark.parametrize("state", [SessionState.WAITING_ECR, SessionState.WAITING_CP, SessionState.WAITING_CPR])
def test_a_handshake_that_stops_half_way_is_closed(state: SessionState) -> None:
    assert ticked_until_closed(in_state(state), 1000) == 60


@pytest.mark.spec("QB-107", "QB-132")
def test_an_initiator_counts_from_its_request() -> None:
    session = initiator(now=0.0)
    session.start(40.0)
    assert ticked_until_closed(session, 1000) == 100


@pytest.mark.spec("QB-107")
def test_a_slow_line_gets_two_round_trips_more() -> None:
    assert ticked_until_closed(acceptor(SessionSettings(round_trip_delay=7.0)), 1000) == 74


@pytest.mark.spec("QB-107")
def test_one_handshake_does_not_move_the_deadline_of_another() -> None:
    slow, quick = acceptor(now=0.0), acceptor(now=30.0)
    quick.receive(connection(), 50.0)
    assert slow.deadline == 60.0 and quick.deadline == 90.0


@pytest.mark.spec("QB-136", "QB-137")
def test_an_open_session_has_no_initialisation_timer() -> None:
    for session in (opened(), opened_initiator()):
        assert session.deadline == 300.0
        assert session.tick(60.0) == []


# ---- cleanup --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-108")
def test_an_idle_session_is_closed_after_one_period() -> None:
    assert ticked_until_closed(opened(), 1000) == 300


@pytest.mark.spec("QB-108")
@pytest.mark.parametrize("send", [False, True])
def test_a_message_either_way_keeps_a_session_for_another_period(send: bool) -> None:
    session = opened(SessionSettings(cleanup=2.0))
    for second in range(20):
        if send:
            session.send(EXPRESS, second, False, second + 0.5)
            session.receive(acknowledgement(second + 1), second + 0.6)
        else:
            session.receive(EXPRESS, second + 0.5)
        session.tick(second + 1.0)
    assert session.state is SessionState.OPEN
    assert 20 <= ticked_until_closed(session, 100) <= 24


@pytest.mark.spec("QB-108")
def test_acknowledgements_do_not_keep_a_session() -> None:
    session = opened(SessionSettings(cleanup=2.0))
    session.receive(acknowledgement(), 1.0)
    assert ticked_until_closed(session, 100) == 2.0


# ---- waiting for acknowledgements -----------------------------------------------------------------------------------


@pytest.mark.spec("QB-110", "QB-102")
@pytest.mark.parametrize(("remote", "low", "high"), [(PEER, 20, 40), (None, 40, 80)])
def test_a_peer_that_acknowledges_nothing_is_given_up(remote: bytes | None, low: float, high: float) -> None:
    session = opened_initiator(remote=remote)
    session.receive(acknowledgement(), 0.0)  # something was heard just before
    session.send(EXPRESS, 1, False, 1.0)
    assert low < ticked_until_closed(session, 1000) - 1.0 <= high
    assert session.close("") == [1] and "nothing" in session.reason


@pytest.mark.spec("QB-110")
def test_a_silent_peer_is_given_up_after_one_period() -> None:
    session = opened_initiator()
    session.tick(25.0)
    session.send(EXPRESS, 1, False, 50.0)
    assert session.deadline == 70.0
    session.tick(70.0)  # the handshake was heard since the last time
    assert ticked_until_closed(session, 1000) == 90.0


@pytest.mark.spec("QB-110", "QB-125")
def test_any_packet_from_the_peer_keeps_a_session_that_waits() -> None:
    for packet in (EXPRESS, acknowledgement(sent=0)):
        session = opened_initiator(SessionSettings(cleanup=10_000.0))
        session.send(EXPRESS, 1, False, 0.0)
        count = 0
        for now in range(5, 200, 15):
            session.receive(packet if packet is EXPRESS else acknowledgement(sent=count), float(now))
            session.tick(float(now))
        assert session.state is SessionState.OPEN
        assert 200 < ticked_until_closed(session, 1000) < 245


def test_a_large_packet_on_a_slow_line_is_a_sign_of_life_while_it_comes() -> None:
    session = opened_initiator()
    session.send(EXPRESS, 1, False, 0.0)
    for now in range(len(EXPRESS) - 1):
        session.receive(EXPRESS[now : now + 1], float(now))
        session.tick(float(now))
    assert session.state is SessionState.OPEN and len(EXPRESS) > 80
    assert ticked_until_closed(session, 1000) <= len(EXPRESS) + 40


@pytest.mark.spec("QB-110", "QB-144")
def test_the_timer_runs_from_the_first_message_and_again_from_an_acknowledgement_that_leaves_some() -> None:
    session = opened_initiator()
    session.send(EXPRESS, 1, False, 1.0)
    session.send(EXPRESS, 2, False, 10.0)
    assert session.deadline == 21.0
    session.receive(acknowledgement(1), 15.0)
    assert session.deadline == 35.0
    session.receive(acknowledgement(2), 16.0)
    assert session.deadline == 300.0  # stopped
    session.send(EXPRESS, 3, False, 100.0)
    assert session.deadline == 120.0


@pytest.mark.spec("QB-136", "QB-103")
def test_the_acceptor_waits_as_long_as_the_initiator_says() -> None:
    session = opened(ack=50_000)
    session.send(EXPRESS, 1, False, 0.0)
    assert session.deadline == 50.0


@pytest.mark.spec("QB-110", "QB-102")
def test_the_multipliers_are_settings() -> None:
    settings = SessionSettings(ack_wait_multiplier=3.0, direct_ack_wait_multiplier=5.0)
    for remote, expected in ((PEER, 60.0), (None, 100.0)):
        session = opened_initiator(settings, remote=remote)
        session.send(EXPRESS, 1, False, 0.0)
        assert session.deadline == expected
    session = opened(settings)
    session.receive(message(direct=True), 0.0)
    session.tick(10.0)
    session.send(EXPRESS, 1, False, 10.0)
    assert session.deadline == 110.0


# ---- sending acknowledgements ---------------------------------------------------------------------------------------


@pytest.mark.spec("QB-111")
def test_one_express_message_is_acknowledged_after_10_seconds() -> None:
    session = opened()
    session.receive(EXPRESS, 3.0)
    assert session.deadline == 13.0 and session.tick(12.9) == []
    session.receive(EXPRESS, 5.0)  # runs already
    assert session.deadline == 13.0
    (ack,) = acks_in(session.tick(13.0))
    assert ack.ack_sequence_number == 2
    assert session.deadline == 300.0


@pytest.mark.spec("QB-111", "QB-081")
def test_one_recoverable_message_is_acknowledged_half_a_second_after_it_is_stored() -> None:
    session = opened()
    session.receive(RECOVERABLE, 3.0)
    assert session.deadline == 13.0
    session.stored(1, 4.0)
    assert session.deadline == 4.5
    (ack,) = acks_in(session.tick(4.5))
    assert (ack.ack_sequence_number, ack.recoverable_msg_ack_seq_number, ack.recoverable_msg_ack_flags) == (1, 1, 1)
    assert session.deadline == 300.0


@pytest.mark.spec("QB-111")
def test_more_stored_messages_do_not_put_the_acknowledgement_off() -> None:
    session = opened()
    session.receive(RECOVERABLE * 10, 0.0)
    for now in (1.0, 1.2, 1.4):
        session.stored(1, now)
        assert session.deadline == 1.5


@pytest.mark.spec("QB-111")
def test_a_recoverable_message_never_lengthens_the_delay() -> None:
    session = opened(recoverable=60_000)
    session.receive(EXPRESS + RECOVERABLE, 0.0)
    session.stored(1, 9.0)
    assert session.deadline == 10.0


@pytest.mark.spec("QB-111")
def test_a_message_stored_after_it_was_counted_is_acknowledged_as_well() -> None:
    session = opened()
    session.receive(RECOVERABLE, 0.0)
    assert len(acks_in(session.tick(10.0))) == 1
    assert session.deadline == 300.0
    session.stored(1, 50.0)
    assert session.deadline == 50.5
    (ack,) = acks_in(session.tick(50.5))
    assert ack.recoverable_msg_ack_flags == 1


def test_a_late_tick_does_everything_that_is_due_once() -> None:
    session = opened()
    session.receive(EXPRESS, 0.0)
    session.receive(acknowledgement(sent=1, window=1), 0.0)
    assert len(sent_by(session.tick(250.0))) == 1
    assert session.window == 2 and session.tick(250.0) == []


def test_a_link_that_is_cut_gives_everything_back_that_was_not_acknowledged() -> None:
    """The first half arrives, the second is lost, and so are the acknowledgements."""
    link = Link.opened()
    for number in range(20):
        link.left.send(number, True, link.now)
    link.move(link.left, len(RECOVERABLE) * 10 + 5)
    link.right.store(10, link.now)
    link.left.out.clear()
    link.right.out.clear()
    assert link.right.received == list(range(10))
    assert link.left.session.close("the link was cut") == list(range(20))
    assert link.right.session.close("the link was cut") == []
    assert Link.opened().left.session.window == 64


@pytest.mark.spec("QB-093", "MQ-118")
def test_a_new_session_counts_from_one_whatever_the_old_one_did() -> None:
    old = opened()
    old.send(EXPRESS, 1, True, 0.0)
    left = old.close("cut")
    new = opened()
    for token in left:
        new.send(EXPRESS, token, True, 0.0)
    effects = new.receive(acknowledgement(1, base=1, flags=1), 0.0)
    assert len(effects) == 2 and new.close("") == []


def test_parameters_of_another_window_do_not_disturb_a_later_session() -> None:
    session = Session(SessionSettings(), own=OWN, initiator=False, now=0.0)
    session.receive(connection() + parameters(window=1), 0.0)
    assert session.window == 1 and opened().window == 64
