"""Acknowledgements, both ways: numbers, bits and counts ([MS-MQQB] 3.1.5.5, 3.1.5.8.7)."""

import pytest

from lior.errors import InvalidParameter
from lior.protocols.binary.session import Acknowledged, Close, Persisted, Received, SessionState
from lior.protocols.binary.settings import SessionSettings
from tests.protocols.binary.peers import (
    EXPRESS,
    RECOVERABLE,
    Link,
    acknowledgement,
    acks_in,
    check_emitted,
    closed,
    message,
    messages_in,
    opened,
    piggyback,
    sent_by,
    with_body,
    with_sent,
)
from tests.wire.packets import FRAME_8, frame

LARGE = with_body(300_000)


# ---- what an acknowledgement gives back -----------------------------------------------------------------------------


@pytest.mark.spec("QB-140", "QB-139", "MQ-119")
def test_of_ten_in_flight_an_acknowledgement_of_four_frees_four() -> None:
    session = with_sent(express=10)
    assert session.receive(acknowledgement(4), 1.0) == [Acknowledged([1, 2, 3, 4])]
    assert session.in_flight == 6 and session.window == 58
    assert session.receive(acknowledgement(4), 1.0) == []
    assert session.close("done") == [5, 6, 7, 8, 9, 10]


@pytest.mark.spec("QB-140")
@pytest.mark.parametrize("ack", [11, 12, 0x7FFF, 0xFFFF])
def test_an_acknowledgement_beyond_what_was_sent_ends_the_session(ack: int) -> None:
    session = with_sent(express=10)
    assert closed(session.receive(acknowledgement(ack), 1.0)).malformed
    assert session.close("done") == list(range(1, 11))


@pytest.mark.spec("QB-140")
def test_an_acknowledgement_that_goes_back_ends_the_session() -> None:
    session = with_sent(express=10)
    session.receive(acknowledgement(4), 1.0)
    assert closed(session.receive(acknowledgement(3), 1.0)).malformed


@pytest.mark.spec("QB-140", "QB-141")
def test_an_acknowledgement_of_nothing_touches_nothing() -> None:
    session = with_sent(recoverable=3)
    assert session.receive(acknowledgement(0), 1.0) == []
    assert session.close("done") == [1, 2, 3]


@pytest.mark.spec("QB-141", "QB-080")
def test_a_recoverable_message_is_not_given_back_as_stored_by_the_count_alone() -> None:
    session = with_sent(recoverable=5)
    assert session.receive(acknowledgement(5), 1.0) == [Acknowledged([1, 2, 3, 4, 5])]
    assert session.window == 64
    assert session.close("the peer went") == [1, 2, 3, 4, 5]


@pytest.mark.spec("QB-142", "MQ-120")
def test_base_3_and_flags_101_give_1_2_3_and_5_back() -> None:
    session = with_sent(recoverable=5)
    effects = session.receive(acknowledgement(5, base=3, flags=0b101), 1.0)
    assert effects == [Acknowledged([1, 2, 3, 4, 5]), Persisted([1, 2, 3, 5])]
    assert session.close("done") == [4]


@pytest.mark.spec("QB-142")
def test_a_hole_is_filled_later_and_no_token_comes_twice() -> None:
    session = with_sent(recoverable=8)
    assert session.receive(acknowledgement(8, base=2, flags=0b10101), 1.0)[1] == Persisted([1, 2, 4, 6])
    assert session.receive(acknowledgement(8, base=1, flags=0b111111), 1.0) == [Persisted([3, 5])]
    assert session.receive(acknowledgement(8, base=1, flags=0b1111), 1.0) == []
    assert session.receive(acknowledgement(8, base=8, flags=1), 1.0) == [Persisted([7, 8])]
    assert session.close("done") == []


@pytest.mark.spec("QB-142")
def test_what_is_below_the_base_is_stored_and_the_base_itself_only_with_its_bit() -> None:
    session = with_sent(recoverable=5)
    effects = session.receive(acknowledgement(5, base=3, flags=0b10), 1.0)
    assert effects[1] == Persisted([1, 2, 4])
    assert session.close("done") == [3, 5]


@pytest.mark.spec("QB-142")
def test_a_base_without_a_bit_says_nothing() -> None:
    session = with_sent(recoverable=5)
    assert session.receive(acknowledgement(5, base=4, flags=0), 1.0) == [Acknowledged([1, 2, 3, 4, 5])]
    assert session.close("done") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("ack", "base", "flags"), [
    (5, 6, 1), (5, 5, 0b11), (5, 0, 1), (5, 0xFFFF, 1), (3, 4, 1), (3, 3, 0b10), (0, 1, 1), (5, 1, 0xFFFFFFFF)])
def test_a_message_that_was_not_received_cannot_be_stored(ack: int, base: int, flags: int) -> None:
    session = with_sent(recoverable=5)
    assert closed(session.receive(acknowledgement(ack, base, flags), 1.0)).malformed
    assert session.state is SessionState.CLOSED


def test_express_and_recoverable_messages_keep_their_own_numbers() -> None:
    session = opened()
    for number in range(1, 7):
        session.send(EXPRESS, number, number % 2 == 0, 0.0)
    assert session.receive(acknowledgement(5, base=1, flags=0b11), 1.0) == [
        Acknowledged([1, 2, 3, 4, 5]), Persisted([2, 4])]
    assert session.close("done") == [6]


def test_what_is_left_comes_back_in_the_order_of_sending() -> None:
    session = opened()
    for number in range(1, 9):
        session.send(EXPRESS, number, number % 2 == 0, 0.0)
    session.receive(acknowledgement(5, base=2, flags=1), 1.0)
    assert session.close("done") == [6, 7, 8]
    session = opened()
    for number in range(1, 9):
        session.send(EXPRESS, number, number % 2 == 0, 0.0)
    session.receive(acknowledgement(7, base=1, flags=0b100), 1.0)
    assert session.close("done") == [2, 4, 8]


@pytest.mark.spec("QB-139", "QB-168")
def test_standing_alone_or_riding_on_a_message_an_acknowledgement_does_the_same() -> None:
    alone, riding = with_sent(express=2, recoverable=3), with_sent(express=2, recoverable=3)
    one = alone.receive(acknowledgement(4, base=1, flags=0b11, window=9), 1.0)
    other = riding.receive(piggyback(message(7), 4, 1, 0b11, 1, window=9), 1.0)
    assert one == other[:2] == [Acknowledged([1, 2, 3, 4]), Persisted([3, 4])]
    assert messages_in(other) == [7] and isinstance(other[2], Received)
    assert alone.window == riding.window == 8 and alone.close("") == riding.close("") == [5]


# ---- counts ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-144")
@pytest.mark.parametrize(("sent", "recoverable"), [(2, 1), (4, 1), (3, 0), (3, 2), (0, 0)])
def test_a_count_that_is_off_ends_the_session(sent: int, recoverable: int) -> None:
    session = opened()
    session.receive(EXPRESS * 2 + RECOVERABLE, 1.0)
    assert session.receive(acknowledgement(sent=3, recoverable=1), 1.0) == []
    assert closed(session.receive(acknowledgement(sent=sent, recoverable=recoverable), 1.0)).malformed


@pytest.mark.spec("QB-168")
def test_a_header_on_a_message_counts_its_own_message() -> None:
    session = opened()
    effects = session.receive(piggyback(RECOVERABLE, sent=1, recoverable=1) + piggyback(EXPRESS, sent=2, recoverable=1),
                              1.0)
    assert [type(effect) for effect in effects] == [Received, Received]


@pytest.mark.spec("QB-144", "MQ-121")
@pytest.mark.parametrize("counts", [(0, 0), (2, 0), (1, 1)])
def test_a_message_with_a_wrong_count_is_delivered_before_the_session_ends(counts: tuple[int, int]) -> None:
    session = opened()
    effects = session.receive(piggyback(message(5), sent=counts[0], recoverable=counts[1]) + EXPRESS, 1.0)
    assert [type(effect) for effect in effects] == [Received, Close] and messages_in(effects) == [5]
    assert closed(effects).malformed


# ---- what we acknowledge --------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-093", "MQ-119")
def test_three_express_two_recoverable_and_a_transactional_message_are_acknowledged_together() -> None:
    session = opened()
    session.receive(EXPRESS * 3 + RECOVERABLE * 3, 0.0)
    session.stored(3, 0.0)
    (ack,) = acks_in(session.tick(0.5))
    assert (ack.ack_sequence_number, ack.recoverable_msg_ack_seq_number, ack.recoverable_msg_ack_flags) == (6, 1, 7)


@pytest.mark.spec("QB-026", "QB-213")
def test_the_acknowledgement_of_one_express_message_is_frame_8() -> None:
    session = opened()
    session.receive(EXPRESS, 0.0)
    (data,) = sent_by(session.tick(10.0))
    expected = frame(FRAME_8)
    assert data[:1] + data[2:] == expected[:1] + expected[2:]


@pytest.mark.spec("QB-173")
def test_half_a_window_is_acknowledged_at_once() -> None:
    session = opened()
    assert acks_in(session.receive(EXPRESS * 31, 0.0)) == []
    (ack,) = acks_in(session.receive(EXPRESS, 0.0))
    assert ack.ack_sequence_number == 32
    (ack,) = acks_in(session.receive(EXPRESS * 40, 0.0))  # one for a chunk
    assert ack.ack_sequence_number == 72


@pytest.mark.spec("QB-173")
@pytest.mark.parametrize(("ours", "theirs", "count"), [(64, 8, 4), (8, 64, 4), (64, 1, 1), (1, 64, 1), (3, 64, 1)])
def test_the_smaller_window_decides_what_half_is(ours: int, theirs: int, count: int) -> None:
    session = opened(SessionSettings(window_size=ours), window=theirs)
    assert acks_in(session.receive(EXPRESS * (count - 1), 0.0)) == []
    assert len(acks_in(session.receive(EXPRESS, 0.0))) == 1


def test_large_messages_are_acknowledged_before_half_a_window_of_them_has_passed() -> None:
    session, seen = opened(), []
    for _ in range(8):
        for at in range(0, len(LARGE), 65536):
            seen += [ack.ack_sequence_number for ack in acks_in(session.receive(LARGE[at : at + 65536], 0.0))]
    assert seen == [4, 8]


@pytest.mark.spec("QB-173")
def test_ten_thousand_express_messages_pass_without_a_timer() -> None:
    link = Link.opened()
    number = 0
    while number < 10_000:
        while link.left.session.window > 0 and number < 10_000:
            number += 1
            link.left.out += link.left.session.send(EXPRESS, number, False, 0.0)
        link.settle()
    assert len(link.right.received) == 10_000 and len(link.left.acknowledged) > 9_960
    assert link.now == 0.0


@pytest.mark.spec("QB-172", "QB-081", "MQ-120")
def test_no_bit_is_set_before_the_message_is_stored() -> None:
    session = opened()
    session.receive(RECOVERABLE * 3, 0.0)
    (ack,) = acks_in(session.tick(10.0))
    assert (ack.ack_sequence_number, ack.recoverable_msg_ack_seq_number, ack.recoverable_msg_ack_flags) == (3, 0, 0)
    session.stored(2, 10.0)
    (ack,) = acks_in(session.tick(10.5))
    assert (ack.recoverable_msg_ack_seq_number, ack.recoverable_msg_ack_flags) == (1, 0b11)
    session.stored(1, 11.0)
    (ack,) = acks_in(session.tick(11.5))
    assert (ack.recoverable_msg_ack_seq_number, ack.recoverable_msg_ack_flags) == (3, 1)


@pytest.mark.spec("QB-172", "MQ-120")
def test_forty_recoverable_messages_are_acknowledged_32_and_8() -> None:
    session = opened(SessionSettings(window_size=200), window=200)
    assert acks_in(session.receive(RECOVERABLE * 40, 0.0)) == []
    (ack,) = acks_in(session.stored(40, 0.0))
    assert (ack.ack_sequence_number, ack.recoverable_msg_ack_seq_number, ack.recoverable_msg_ack_flags) == (
        40, 1, 0xFFFFFFFF)
    assert session.deadline == 0.5
    (ack,) = acks_in(session.tick(0.5))
    assert (ack.recoverable_msg_ack_seq_number, ack.recoverable_msg_ack_flags) == (33, 0xFF)
    assert acks_in(session.tick(100.0)) == []


@pytest.mark.spec("QB-172")
def test_the_32nd_stored_message_is_acknowledged_at_once() -> None:
    session = opened(SessionSettings(window_size=200), window=200)
    session.receive(RECOVERABLE * 33, 0.0)
    assert acks_in(session.stored(31, 0.0)) == []
    (ack,) = acks_in(session.stored(1, 0.0))
    assert ack.recoverable_msg_ack_flags == 0xFFFFFFFF


def test_a_hundred_stored_at_once_take_three_headers_now_and_one_later() -> None:
    session = opened(SessionSettings(window_size=400), window=400)
    session.receive(RECOVERABLE * 100, 0.0)
    acks = acks_in(session.stored(100, 0.0))
    assert [ack.recoverable_msg_ack_seq_number for ack in acks] == [1, 33, 65]
    (last,) = acks_in(session.flush(0.1))
    assert (last.recoverable_msg_ack_seq_number, last.recoverable_msg_ack_flags) == (97, 0b1111)
    assert session.flush(0.1) == []


def test_more_cannot_be_stored_than_was_received() -> None:
    session = opened()
    session.receive(RECOVERABLE * 2 + EXPRESS, 0.0)
    for count in (3, -1):
        with pytest.raises(InvalidParameter):
            session.stored(count, 0.0)
    session.stored(2, 0.0)
    with pytest.raises(InvalidParameter):
        session.stored(1, 0.0)


def test_a_peer_whose_messages_are_not_stored_yet_is_not_invited_to_send_more() -> None:
    session = opened()
    assert len(acks_in(session.receive(RECOVERABLE * 64, 0.0))) == 1
    assert session.unstored == 64
    assert acks_in(session.receive(RECOVERABLE * 64, 0.0)) == []
    (ack, *more) = acks_in(session.stored(64, 0.0))
    assert ack.ack_sequence_number == 128 and ack.recoverable_msg_ack_flags == 0xFFFFFFFF and more


def test_an_acknowledgement_that_waited_for_the_store_leaves_as_soon_as_a_window_is_enough() -> None:
    session = opened()
    assert len(acks_in(session.receive(RECOVERABLE * 33, 0.0))) == 1
    assert acks_in(session.receive(RECOVERABLE * 33, 0.0)) == []
    assert acks_in(session.stored(1, 0.0)) == []
    (ack,) = acks_in(session.stored(1, 0.0))
    assert ack.ack_sequence_number == 66 and ack.recoverable_msg_ack_flags == 0b11


# ---- riding on messages ---------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-187", "QB-186", "QB-007")
def test_an_acknowledgement_rides_on_a_message_once_three_quarters_of_its_time_are_over() -> None:
    session = opened()
    session.receive(EXPRESS, 0.0)
    assert session.send(RECOVERABLE, 1, True, 7.5) == RECOVERABLE
    data = session.send(RECOVERABLE, 2, True, 7.6)
    check_emitted(data)
    assert len(data) == len(RECOVERABLE) + 16 and data[8:12] == RECOVERABLE[8:12] and data[2] == RECOVERABLE[2] | 0x10
    assert data[-16:] == bytes.fromhex("0100 0000 00000000 0200 0200 4000 0000")
    assert session.tick(10.0) == []
    assert session.send(RECOVERABLE, 3, True, 10.0) == RECOVERABLE


@pytest.mark.spec("QB-187")
def test_nothing_rides_where_nothing_is_to_acknowledge() -> None:
    session = opened()
    for now in (0.0, 9.0, 100.0):
        assert session.send(EXPRESS, 1, False, now) == EXPRESS


@pytest.mark.spec("QB-186")
def test_a_riding_header_carries_the_bits_and_clears_them() -> None:
    session = opened()
    session.receive(RECOVERABLE * 3, 0.0)
    session.stored(2, 0.0)
    data = session.send(EXPRESS, 1, False, 0.45)
    assert data[-16:] == bytes.fromhex("0300 0100 03000000 0100 0000 4000 0000")
    session.stored(1, 0.5)
    (ack,) = acks_in(session.tick(1.0))
    assert (ack.recoverable_msg_ack_seq_number, ack.recoverable_msg_ack_flags) == (3, 1)


@pytest.mark.spec("QB-187")
def test_traffic_both_ways_loses_no_acknowledgement() -> None:
    link = Link.opened()
    for number in range(1, 400):
        link.advance(0.3)
        for side in (link.left, link.right):
            side.send(number, number % 3 == 0, link.now)
        link.settle()
        for side in (link.left, link.right):
            side.store(2, link.now)
        link.settle()
    link.advance(11.0)
    for side in (link.left, link.right):
        assert side.close is None and side.acknowledged == side.sent
        assert side.persisted == [number for number in range(1, 400) if number % 3 == 0]
