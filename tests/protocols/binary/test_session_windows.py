"""Windows, and numbers beyond 16 bits ([MS-MQQB] 3.1.1.3.1; [MS-MQMQ] 2.2.20.4, note 15)."""

import pytest

from lior.errors import InvalidParameter
from lior.protocols.binary.session import Acknowledged, Persisted, Received, Send, SessionState
from lior.protocols.binary.settings import SessionSettings
from tests.protocols.binary.peers import (
    EXPRESS,
    RECOVERABLE,
    Link,
    acknowledgement,
    acks_in,
    in_state,
    messages_in,
    opened,
    parameters,
    sent_by,
    with_sent,
)
from tests.wire.session_packet_values import agreed

# ---- windows --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-095", "MQ-122")
def test_no_more_than_a_window_of_8_is_in_flight() -> None:
    session = opened(window=8)
    for number in range(8):
        session.send(EXPRESS, number, False, 0.0)
    assert session.window == 0
    with pytest.raises(InvalidParameter):
        session.send(EXPRESS, 9, False, 0.0)
    session.receive(acknowledgement(3, window=8), 0.0)
    assert session.window == 3


@pytest.mark.spec("QB-096", "QB-139")
def test_a_smaller_window_holds_back_what_is_not_sent_yet() -> None:
    session = with_sent(express=10)
    session.receive(acknowledgement(2, window=4), 0.0)
    assert session.in_flight == 8 and session.window < 0
    session.receive(acknowledgement(7, window=4), 0.0)
    assert session.window == 1


@pytest.mark.spec("QB-096", "MQ-122")
def test_a_window_of_1_doubles_every_30_seconds_until_it_is_64_again() -> None:
    session = with_sent()
    session.receive(acknowledgement(window=1), 0.0)
    seen = []
    for now in range(0, 211, 10):
        session.tick(float(now))
        seen.append(session.window)
    assert seen == [1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64, 64]


@pytest.mark.spec("QB-096")
def test_a_window_of_zero_in_a_header_does_not_block_for_ever() -> None:
    session = with_sent()
    session.receive(acknowledgement(window=0), 0.0)
    assert session.window == 1


@pytest.mark.spec("QB-095", "QB-096")
def test_a_window_that_was_always_small_does_not_grow() -> None:
    session = opened(window=8)
    session.receive(acknowledgement(window=8), 0.0)
    session.tick(200.0)
    assert session.window == 8
    session.receive(acknowledgement(window=2), 200.0)
    for now in (231.0, 262.0, 293.0, 324.0):
        session.receive(EXPRESS, now)
        session.tick(now)
    assert session.window == 8


@pytest.mark.spec("QB-096")
def test_a_peer_that_opens_its_window_again_is_believed_at_once() -> None:
    session = with_sent()
    session.receive(acknowledgement(window=1), 0.0)
    session.receive(acknowledgement(window=64), 1.0)
    assert session.window == 64 and session.deadline == 300.0


@pytest.mark.spec("QB-096")
def test_our_own_window_is_advertised_at_once_and_in_every_header() -> None:
    session = opened()
    (ack,) = acks_in(session.set_window(1, 0.0))
    assert ack.window_size == 1 and session.window == 64
    (ack,) = acks_in(session.receive(EXPRESS, 0.0))
    assert ack.window_size == 1
    (ack,) = acks_in(session.set_window(64, 0.0))
    assert ack.window_size == 64
    for size in (0, -1, 0x10000):
        with pytest.raises(InvalidParameter):
            session.set_window(size, 0.0)


def test_a_window_set_before_the_session_is_open_is_in_its_parameters() -> None:
    session = in_state(SessionState.WAITING_CP)
    assert session.set_window(5, 0.0) == []
    assert agreed(sent_by(session.receive(parameters(), 0.0))[0])[1]["window_size"] == 5
    assert [type(effect) for effect in session.receive(EXPRESS * 2, 0.0)] == [Received, Received, Send]


@pytest.mark.spec("QB-122")
def test_a_backlog_of_500_passes_a_window_of_64() -> None:
    link, waiting = Link.opened(), list(range(500))
    assert link.left.session.window == 64  # whatever waits behind it
    while waiting:
        while waiting and link.left.session.window > 0:
            link.left.send(waiting.pop(0), True, link.now)
        link.settle()
        link.right.store(500, link.now)
        link.settle()
    assert link.right.durable == list(range(500))


# ---- 16 bits --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-094", "MQ-118")
def test_200_000_messages_pass_on_one_session() -> None:
    """Every number on the wire wraps three times, also the recoverable ones and their base."""
    link, total = Link.opened(), 200_000
    left, right = link.left.session, link.right.session
    sent = received = acknowledged = 0
    persisted: list[object] = []
    while acknowledged < total:
        out = []
        while sent < total and left.window > 0:
            sent += 1
            out.append(left.send(RECOVERABLE, sent, True, 0.0))
        if not out:
            effects = right.flush(0.0)
        else:
            effects = right.receive(b"".join(out), 0.0)
            received += len(messages_in(effects))
            effects += right.stored(right.unstored, 0.0)
        assert out or effects, "nothing moves any more"
        for effect in effects:
            if isinstance(effect, Send):
                for back in left.receive(effect.data, 0.0):
                    assert isinstance(back, Acknowledged | Persisted)
                    if isinstance(back, Persisted):
                        persisted += back.tokens
                    else:
                        acknowledged += len(back.tokens)
    assert received == total
    for effect in right.flush(0.0):
        assert isinstance(effect, Send)
        for back in left.receive(effect.data, 0.0):
            assert isinstance(back, Persisted)
            persisted += back.tokens
    assert persisted == list(range(1, total + 1))
    assert left.close("done") == [] and left.in_flight == 0


@pytest.mark.spec("QB-094")
@pytest.mark.parametrize("start", [0xFFFF])
def test_a_base_of_zero_counts_where_a_bit_says_so(start: int) -> None:
    session = opened(SessionSettings(window_size=64))
    for number in range(1, start + 3):
        session.send(RECOVERABLE, number, True, 0.0)
        session.receive(acknowledgement(number, base=number, flags=1), 0.0)
    assert session.state is SessionState.OPEN and session.close("done") == []


def test_a_peer_that_stores_nothing_is_not_sent_more_than_its_numbers_can_tell_apart() -> None:
    session, sent = opened(), 0
    while session.window > 0:
        sent += 1
        session.send(RECOVERABLE, sent, True, 0.0)
        session.receive(acknowledgement(sent), 0.0)
    assert sent == 0x4000 and session.in_flight == 0
    assert session.receive(acknowledgement(sent, base=32, flags=1), 0.0) == [Persisted(list(range(1, 33)))]
    assert session.window == 32
