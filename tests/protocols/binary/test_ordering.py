"""The calculators of transactional streams ([MS-MQQB] 3.1.2.6, 3.1.2.7, 3.1.5.8.6)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.protocols.binary.ordering import NEVER, OrderAckSchedule, ResendLadder, accept
from lior.protocols.binary.settings import SessionSettings

SCALED = SessionSettings(resend_short=1.0, resend_medium=2.0, resend_long=3.0, resend_final=4.0)
DEFAULTS = SessionSettings()
STREAM = 7 << 32 | 1


# ---- the test of a message ------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-171")
@pytest.mark.parametrize(("message", "right"), [
    ((STREAM, 6, 5), True), ((STREAM, 9, 5), True), ((STREAM, 9, 2), True),  # gaps are what expired
    ((STREAM, 6, 6), False), ((STREAM, 7, 6), False), ((STREAM, 5, 4), False), ((STREAM, 1, 0), False),
    ((STREAM + 1, 1, 0), True), ((STREAM + 1, 4, 0), True), ((STREAM + 1, 4, 3), False),
    ((8 << 32 | 1, 1, 0), True), ((STREAM - 1, 6, 5), False), ((STREAM - 1, 1, 0), False),
    ((6 << 32 | 9, 1, 0), False)])
def test_a_message_is_the_next_of_its_stream_or_it_is_not(message: tuple[int, int, int], right: bool) -> None:
    assert accept(STREAM, 5, *message) is right


@pytest.mark.spec("QB-171")
def test_the_first_message_of_a_first_stream_is_accepted() -> None:
    assert accept(0, 0, STREAM, 1, 0) and accept(0, 0, STREAM, 3, 0)
    assert not accept(0, 0, STREAM, 2, 1)


@pytest.mark.spec("QB-171", "QB-053")
def test_any_order_with_duplicates_lets_one_to_five_through_in_order_and_once() -> None:
    for arrivals in itertools.permutations(range(1, 6)):
        position, taken = (0, 0), []
        for number in [*arrivals, *arrivals[:2]] * 5:  # the sender sends everything again
            if accept(*position, STREAM, number, number - 1):
                position = STREAM, number
                taken.append(number)
        assert taken == [1, 2, 3, 4, 5]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(0, 5)), max_size=40))
def test_a_position_never_goes_back(messages: list[tuple[int, int, int]]) -> None:
    position = (0, 0)
    for stream, number, previous in messages:
        if previous < number and accept(*position, stream, number, previous):
            assert (stream, number) > position
            position = stream, number


# ---- sending again --------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-088", "QB-112")
def test_the_gaps_between_resends_are_three_of_each_and_then_the_last_for_ever() -> None:
    ladder, now = ResendLadder(SCALED.resend_table), 100.0
    gaps: list[float] = []
    ladder.sent(now)
    while len(gaps) < 14:
        due = ladder.deadline
        assert not ladder.timed_out(due - 0.01)
        assert ladder.timed_out(due)
        gaps.append(due - now)
        now = due
    assert gaps == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4]


@pytest.mark.spec("QB-088")
def test_the_table_has_ten_entries() -> None:
    assert DEFAULTS.resend_table == (30, 30, 30, 300, 300, 300, 1800, 1800, 1800, 21600)


@pytest.mark.spec("QB-147")
def test_acknowledgements_leave_the_interval_at_30_seconds_and_timeouts_move_it() -> None:
    ladder, now = ResendLadder(DEFAULTS.resend_table), 0.0
    ladder.sent(now)
    for _ in range(10):
        now += 1.0
        ladder.acknowledged(True, now)
        assert ladder.interval == 30.0 and ladder.deadline == now + 30.0
    for interval in (30, 30, 300, 300):
        assert ladder.timed_out(ladder.deadline)
        assert ladder.interval == interval
    ladder.acknowledged(True, 5000.0)
    assert ladder.interval == 30.0 and ladder.index == 0


@pytest.mark.spec("QB-147")
def test_the_index_stays_inside_the_table_and_can_be_kept_over_a_restart() -> None:
    for index, interval in ((-1, 30.0), (0, 30.0), (3, 300.0), (9, 21600.0), (10, 21600.0), (99, 21600.0)):
        ladder = ResendLadder(DEFAULTS.resend_table, index)
        assert ladder.interval == interval
        ladder.sent(0.0)
        assert ladder.deadline == interval


def test_what_is_sent_behind_the_first_message_or_again_does_not_move_the_timer() -> None:
    ladder = ResendLadder(DEFAULTS.resend_table)
    for now in (0.0, 10.0, 29.9):
        ladder.sent(now)
        assert ladder.deadline == 30.0
    assert ladder.timed_out(30.0)
    ladder.sent(30.0)
    assert ladder.deadline == 60.0


def test_an_empty_stream_has_no_timer() -> None:
    ladder = ResendLadder(DEFAULTS.resend_table)
    assert ladder.deadline == NEVER and not ladder.timed_out(1e12)
    ladder.sent(5.0)
    assert ladder.deadline == 35.0
    ladder.acknowledged(False, 6.0)
    assert ladder.deadline == NEVER
    ladder.sent(7.0)
    ladder.stop()
    assert ladder.deadline == NEVER


# ---- order acknowledgements -----------------------------------------------------------------------------------------


def sent_at(arrivals: list[float], end: float) -> list[float]:
    schedule, out, now = OrderAckSchedule(DEFAULTS, 0.0), [], 0.0
    for now in [*arrivals, end]:
        while schedule.deadline <= now:
            due = schedule.deadline
            assert schedule.due(due)
            out.append(due)
        if now != end:
            schedule.received(now)
    return out


@pytest.mark.spec("QB-113")
def test_a_single_message_is_acknowledged_after_half_a_second() -> None:
    assert sent_at([3.0], 100.0) == [3.5]
    assert sent_at([50.0], 100.0) == [50.5]


@pytest.mark.spec("QB-113")
def test_a_row_of_messages_is_acknowledged_together() -> None:
    assert sent_at([1.0, 1.4, 1.8, 2.2], 100.0) == [2.7]


@pytest.mark.spec("QB-113")
def test_messages_every_200_milliseconds_are_acknowledged_every_ten_and_a_half_seconds_at_least() -> None:
    out = sent_at([i * 0.2 for i in range(150)], 100.0)
    assert len(out) >= 3
    for before, after in itertools.pairwise([0.0, *out]):
        assert after - before <= 10.7 + 1e-9
    assert out[-1] == pytest.approx(29.8 + 0.5)


def test_nothing_is_due_where_nothing_came() -> None:
    schedule = OrderAckSchedule(DEFAULTS, 0.0)
    assert not schedule.due(1e12) and schedule.deadline == NEVER
