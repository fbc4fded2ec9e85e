"""Never more in flight than the window allows, and never stuck: [MS-MQQB] 3.1.7.1 and 3.1.1.6.1."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import Target
from tests.interop.daemon import Daemon, eventually
from tests.interop.second_packets import UserMessage
from tests.interop.second_peer import Identity, Listener, Session

QUIET = 0.3  # seconds without a packet that show that none comes


def fill(server: Daemon, me: Identity, count: int, **properties: Any) -> None:
    """Messages for this peer, numbered."""
    with server.qm.open_queue(rf"DIRECT=TCP:{me.address}\private$\inbox", "send") as queue:
        for number in range(count):
            queue.send(b"%d" % number, **properties)


def numbers(session: Session) -> list[int]:
    return [int(message.body) for message in session.messages]


def arrived(session: Session, count: int) -> bool:
    """Whether exactly so many messages come: they do, and then it is quiet."""
    for _ in range(count):
        session.message()
    return not any(isinstance(packet, UserMessage) for packet in session.arriving(QUIET))


@pytest.mark.spec("QB-181", "QB-122", "QB-140", "MQ-119")
@pytest.mark.parametrize("express", [True, False])
def test_a_silent_peer_gets_exactly_a_window_and_each_ack_lets_as_many_out(
    server: Daemon, me: Identity, listener: Listener, express: bool
) -> None:
    fill(server, me, 200, express=express)
    with listener.accept() as session:
        assert arrived(session, 64)
        session.acknowledge(ack=10, recoverable_base=0, recoverable_flags=0)
        assert arrived(session, 10)
        session.acknowledge(ack=74, recoverable_base=0, recoverable_flags=0)
        assert arrived(session, 64)
        session.acknowledge(ack=138, recoverable_base=0, recoverable_flags=0)
        assert arrived(session, 62)
        assert numbers(session) == list(range(200))
        while session.recoverable_acked < session.recoverable_received:
            session.acknowledge()
        session.acknowledge()
    nothing_left(server, me)


def nothing_left(server: Daemon, me: Identity) -> None:
    eventually(lambda: not server.outgoing(me.address), what="an empty outgoing queue")


@pytest.mark.spec("QB-095", "QB-181", "MQ-122")
@pytest.mark.parametrize("window", [1, 8, 63])
def test_a_smaller_window_of_the_peer_is_obeyed(server: Daemon, me: Identity, listener: Listener, window: int) -> None:
    fill(server, me, 3 * window, express=True)
    with listener.accept(window=window) as session:
        for step in range(3):
            assert arrived(session, window)
            session.acknowledge(ack=(step + 1) * window)
        assert numbers(session) == list(range(3 * window))


@pytest.mark.spec("QB-095")
def test_a_larger_window_of_the_peer_does_not_widen_its_own(server: Daemon, me: Identity, listener: Listener) -> None:
    fill(server, me, 100, express=True)
    with listener.accept(window=0xFFFF) as session:
        assert arrived(session, 64)
        session.acknowledge()
        assert arrived(session, 36)
        session.acknowledge()


@pytest.mark.spec("QB-014")
def test_a_window_of_zero_means_one_at_a_time(server: Daemon, me: Identity, listener: Listener) -> None:
    fill(server, me, 3, express=True)
    with listener.accept(window=0) as session:
        for number in range(3):
            assert int(session.message().body) == number
            session.nothing(0.1)
            session.acknowledge()


@pytest.mark.spec("QB-096", "MQ-122")
def test_a_window_that_shrinks_is_obeyed_and_doubles_by_and_by(tmp_path: Path, me: Identity) -> None:
    settings = {"binary.window_recovery": 0.4}
    with Daemon(tmp_path / "data", settings=settings).prepare() as server, me.listen() as listener:
        fill(server, me, 200, express=True)
        with listener.accept() as session:
            assert arrived(session, 64)
            start = time.monotonic()
            session.acknowledge(window=1)
            assert isinstance(session.next(), UserMessage)
            moments = []
            while len(session.messages) < 64 + 64:
                session.next()
                moments.append(time.monotonic() - start)
            # 1, 2, 4 ... 64: six doublings, one each 0.4 s
            assert 0.3 < moments[0] < 20.0  # thirty seconds if nobody sets it
            assert 1.9 < moments[-1] < 20.0
            session.nothing(QUIET)
            session.acknowledge()
            assert arrived(session, 64)
            session.acknowledge()


@pytest.mark.spec("QB-140", "QB-214")
def test_an_ack_of_more_than_was_sent_closes_the_session(server: Daemon, me: Identity, listener: Listener) -> None:
    fill(server, me, 10, express=True)
    with listener.accept() as session:
        assert arrived(session, 10)
        session.acknowledge(ack=4)
        session.acknowledge(ack=11)
        assert session.until_closed() == []
    with listener.accept() as session:  # four were acknowledged, six come again
        assert arrived(session, 6)
        assert numbers(session) == list(range(4, 10))
        session.acknowledge()
    nothing_left(server, me)


@pytest.mark.spec("QB-144")
@pytest.mark.parametrize("wrong", [{"sent": 1}, {"recoverable_sent": 1}, {"sent": 0xFFFF}])
def test_counts_that_do_not_match_close_the_session_and_lose_nothing(
    server: Daemon, me: Identity, listener: Listener, wrong: dict[str, int]
) -> None:
    fill(server, me, 5)
    with listener.accept() as session:
        assert arrived(session, 5)
        session.acknowledge(ack=0, recoverable_base=0, recoverable_flags=0, **wrong)
        assert session.until_closed() == []
    with listener.accept() as session:
        assert arrived(session, 5)
        assert numbers(session) == list(range(5))
        session.acknowledge()
    nothing_left(server, me)


@pytest.mark.spec("QB-206")
def test_a_peer_that_acknowledges_nothing_does_not_delay_another(
    server: Daemon, me: Identity, listener: Listener, queue: Target
) -> None:
    fill(server, me, 100, express=True)
    with listener.accept() as blocked:
        assert arrived(blocked, 64)
        other = Identity(f"{me.address.rpartition('.')[0]}.251", me.guid[::-1])
        with other.listen() as there:
            fill(server, other, 100, express=True)
            with there.accept() as free:
                while len(free.messages) < 100:
                    free.next()
                    free.acknowledge()
        blocked.nothing(0.1)
        blocked.acknowledge()
        assert arrived(blocked, 36)
        blocked.acknowledge()
