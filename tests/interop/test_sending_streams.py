"""Transactional messages from the server: numbers, resends, rollover, and the end of each ([MS-MQQB] 3.1.5.6, .7)."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.interop.daemon import Daemon, eventually, free_address
from tests.interop.second_packets import Transaction, UserMessage, order_queue_of
from tests.interop.second_peer import Identity, Listener, Session
from tests.interop.test_sending import SYSTEM_JOURNAL, held, take, to

DEADXACT = r".\SYSTEM$;DEADXACT"
SETTINGS = {"binary.retry": 0.2}


def burst(server: Daemon, me: Identity, *bodies: bytes, **properties: Any) -> None:
    """One transaction."""
    with server.qm.transaction() as transaction:
        for body in bodies:
            transaction.send(to(me), body, **properties)


def header(message: UserMessage) -> Transaction:
    assert message.transaction is not None
    return message.transaction


def places(messages: list[UserMessage]) -> list[tuple[int, int]]:
    return [(header(message).number, header(message).previous) for message in messages]


def confirm(server: Daemon, session: Session, message: UserMessage, number: int | None = None) -> None:
    """Session ack and OrderAck for everything up to that message."""
    stream = header(message)
    session.acknowledge()
    session.order_ack(order_queue_of(server.address), stream.stream, number or stream.number)


@pytest.mark.spec("QB-184", "QB-056", "QB-055", "QB-082", "QB-097")
def test_messages_of_transactions_are_numbered_and_their_ends_marked(
    server: Daemon, me: Identity, listener: Listener
) -> None:
    burst(server, me, b"1", b"2", b"3")
    burst(server, me, b"4")
    with listener.accept() as session:
        messages = take(session, 4)
        assert [message.body for message in messages] == [b"1", b"2", b"3", b"4"]
        assert places(messages) == [(1, 0), (2, 1), (3, 2), (4, 3)]
        assert len({header(message).stream for message in messages}) == 1
        assert header(messages[0]).stream >> 32 > 0
        assert [(header(m).first, header(m).last) for m in messages] == [
            (True, False), (False, False), (False, True), (True, True),
        ]  # fmt: skip
        identifiers = [header(message).identifier for message in messages]
        assert identifiers[0] == identifiers[1] == identifiers[2] != identifiers[3]
        assert [(m.delivery, m.priority) for m in messages] == [(1, 0)] * 4
        confirm(server, session, messages[-1])
        eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-082", "QB-146", "QB-142")
@pytest.mark.parametrize("order_first", [True, False])
def test_it_takes_both_acknowledgements_to_let_one_go(
    server: Daemon, me: Identity, listener: Listener, order_first: bool
) -> None:
    burst(server, me, b"1")
    with listener.accept() as session:
        message = session.message()
        stream = header(message).stream
        if order_first:
            session.order_ack(order_queue_of(server.address), stream, 1)
        session.acknowledge()
        if not order_first:
            session.nothing(0.2)
            assert server.outgoing(me.address) == 1
            session.order_ack(order_queue_of(server.address), stream, 1)
        eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-146")
def test_an_order_ack_is_cumulative(server: Daemon, me: Identity, listener: Listener) -> None:
    burst(server, me, *(b"%d" % number for number in range(1, 11)))
    with listener.accept() as session:
        messages = take(session, 10)
        confirm(server, session, messages[3])
        eventually(lambda: server.outgoing(me.address) == 6)
        confirm(server, session, messages[1])  # an old one changes nothing
        session.nothing(0.2)
        assert server.outgoing(me.address) == 6
        confirm(server, session, messages[9])
        eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-021", "QB-020")
def test_garbage_in_the_reserved_bytes_and_other_spellings_of_the_queue_are_accepted(
    server: Daemon, me: Identity, listener: Listener
) -> None:
    burst(server, me, b"1")
    with listener.accept() as session:
        stream = header(session.message()).stream
        session.acknowledge()
        name = order_queue_of(server.address)._replace(text=f"TCP:{server.address}\\private$\\ORDER_QUEUE$")
        session.order_ack(name, stream, 1, reserved=os.urandom(20))
        eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-145", "QB-214")
def test_order_acks_of_other_streams_and_of_the_future_change_nothing(
    server: Daemon, me: Identity, listener: Listener
) -> None:
    burst(server, me, b"1", b"2")
    with listener.accept() as session:
        messages = take(session, 2)
        stream = header(messages[0]).stream
        session.acknowledge()
        for wrong, number in ((stream - 1, 2), (stream + 1, 2), (1, 2), (stream, 3), (stream, 0xFFFFFFFF)):
            session.order_ack(order_queue_of(server.address), wrong, number)
        session.nothing(0.3)
        assert server.outgoing(me.address) == 2
        confirm(server, session, messages[1])
        eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-148", "QB-145", "QB-097")
def test_a_stream_that_is_done_is_followed_by_a_greater_one(server: Daemon, me: Identity, listener: Listener) -> None:
    with listener_session(server, me, listener, b"1", b"2") as (session, messages):
        old = header(messages[0]).stream
        confirm(server, session, messages[1])
        eventually(lambda: not server.outgoing(me.address))
        burst(server, me, b"3", b"4")
        later = take(session, 2)
        new = header(later[0]).stream
        assert new > old
        assert places(later) == [(1, 0), (2, 1)]
        session.acknowledge()
        session.order_ack(order_queue_of(server.address), old, 2)  # one more of the old stream
        session.nothing(0.3)
        assert server.outgoing(me.address) == 2
        confirm(server, session, later[1])
        eventually(lambda: not server.outgoing(me.address))


class listener_session:  # noqa: N801
    """The server's session, with the messages of one transaction already here."""

    def __init__(self, server: Daemon, me: Identity, listener: Listener, *bodies: bytes, **properties: Any) -> None:
        burst(server, me, *bodies, **properties)
        self._listener, self._count = listener, len(bodies)

    def __enter__(self) -> tuple[Session, list[UserMessage]]:
        self._session = self._listener.accept()
        return self._session, take(self._session, self._count)

    def __exit__(self, *_: object) -> None:
        self._session.close()


@pytest.mark.spec("QB-112", "QB-147", "QB-088", "QB-082")
def test_the_ladder_of_resends(tmp_path: Path, me: Identity) -> None:
    """Three times each of the short, medium and long interval, then the final one for ever; same numbers each time."""
    settings = {
        "binary.resend_short": 0.3, "binary.resend_medium": 0.5, "binary.resend_long": 0.7, "binary.resend_final": 0.9,
    }  # fmt: skip
    wanted = [pytest.approx(gap, abs=0.18) for gap in [0.3] * 3 + [0.5] * 3 + [0.7] * 3 + [0.9] * 2]
    with Daemon(tmp_path / "data", settings=settings).prepare() as server, me.listen() as listener:
        for _ in range(8):  # a ladder that the machine was too busy for says nothing
            gaps, last = climbed(server, me, listener, len(wanted) + 1)
            if gaps == wanted and last < 0.75:
                break
        assert [round(gap, 3) for gap in gaps] == wanted
        assert last < 0.75  # progress: back to the first step of the ladder


def climbed(server: Daemon, me: Identity, listener: Listener, count: int) -> tuple[list[float], float]:
    """The times between so many comings of two messages, and that from an acknowledgement of the first to the next."""
    burst(server, me, b"1", b"2")
    with listener.accept() as session:
        moments: list[float] = []
        seen: list[tuple[Transaction, Transaction]] = []
        while len(moments) < count:
            first, second = take(session, 2)
            moments.append(time.monotonic())
            seen.append((header(first), header(second)))
            session.acknowledge()
        assert all(pair == seen[0] for pair in seen)
        session.order_ack(order_queue_of(server.address), seen[0][0].stream, 1)
        start = time.monotonic()
        assert session.message().body == b"2"
        last = time.monotonic() - start
        session.acknowledge()
        session.order_ack(order_queue_of(server.address), seen[0][0].stream, 2)
        eventually(lambda: not server.outgoing(me.address))
        session.acknowledge()
        late = list(itertools.islice(session.arriving(0.6), 2))
        assert len(late) < 2  # one may have been under way when the acknowledgement came
    return [b - a for a, b in itertools.pairwise(moments)], last


@pytest.mark.spec("QB-121", "QB-184", "QB-106", "QB-097")
def test_a_message_keeps_its_number_over_connections_and_kills(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data").prepare() as server, me.listen() as listener:
        burst(server, me, b"1", b"2", b"3")
        with listener.accept() as session:
            before = [(header(m).stream, header(m).number, m.message_id, m.body) for m in take(session, 3)]
        with listener.accept() as session:
            again = [(header(m).stream, header(m).number, m.message_id, m.body) for m in take(session, 3)]
            session.acknowledge()
        assert again == before
        server.kill()
        server.start()
        with listener.accept() as session:
            messages = take(session, 3)
            assert [(header(m).stream, header(m).number, m.message_id, m.body) for m in messages] == before
            confirm(server, session, messages[2])
            eventually(lambda: not server.outgoing(me.address))
            server.kill()
            server.start()
        burst(server, me, b"4")
        with listener.accept() as session:
            message = session.message()
            assert (message.body, header(message).number) == (b"4", 1)
            assert header(message).stream > before[0][0]
            confirm(server, session, message)
            eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-185")
def test_a_message_that_expired_is_bridged_when_the_others_come_again(
    server: Daemon, me: Identity, listener: Listener
) -> None:
    burst(server, me, b"1")
    burst(server, me, b"2", time_to_reach_queue=5)
    burst(server, me, b"3")
    with listener.accept() as session:
        assert places(take(session, 3)) == [(1, 0), (2, 1), (3, 2)]
    eventually(lambda: server.outgoing(me.address) == 2, what="the second to expire")
    listener.connection().reset()
    with listener.accept() as session:
        messages = take(session, 2)
        assert places(messages) == [(1, 0), (3, 1)]
        assert [message.body for message in messages] == [b"1", b"3"]
        confirm(server, session, messages[1])
        eventually(lambda: not server.outgoing(me.address))


# Final acknowledgements


@pytest.mark.spec("QB-150", "QB-143", "QB-023", "QB-025", "QB-100")
def test_a_positive_end_puts_a_copy_into_the_journal(server: Daemon, me: Identity, listener: Listener) -> None:
    body = os.urandom(8)
    with listener_session(server, me, listener, body, journal=True) as (session, (message,)):
        confirm(server, session, message)
        session.nothing(0.3)
        assert not held(server, SYSTEM_JOURNAL, body)  # delivered is not yet consumed
        session.final_ack(order_queue_of(server.address), message, 0x4000)
        eventually(lambda: held(server, SYSTEM_JOURNAL, body))
        session.final_ack(order_queue_of(server.address), message, 0x4000)
        session.final_ack(order_queue_of(server.address), message, 0x8000)
        session.until_persisted()
        assert not held(server, DEADXACT, body)
        eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-150", "QB-024")
@pytest.mark.parametrize("reason", [0x8000, 0x8003, 0x8004, 0x8005, 0x8009, 0xC000, 0xC001, 0xC002, 0xC004])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_negative_end_makes_a_dead_letter_that_says_why(
    server: Daemon, me: Identity, listener: Listener, reason: int, ordered: bool
) -> None:
    body = os.urandom(8)
    with listener_session(server, me, listener, body, dead_letter=True) as (session, (message,)):
        assert message.negative_journal
        if ordered:
            confirm(server, session, message)
        session.final_ack(order_queue_of(server.address), message, reason)
        session.acknowledge()
        eventually(lambda: held(server, DEADXACT, body))
        with server.qm.open_queue(DEADXACT, "peek") as dead:
            letter = next(found for found in dead if found.body == body)
        assert letter.failure_reason == reason
        eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-150")
def test_an_end_that_nobody_asked_for_leaves_nothing(server: Daemon, me: Identity, listener: Listener) -> None:
    body = os.urandom(8)
    with listener_session(server, me, listener, body, dead_letter=False) as (session, (message,)):
        assert not message.negative_journal
        confirm(server, session, message)
        session.final_ack(order_queue_of(server.address), message, 0x8003)
        session.until_persisted()
        eventually(lambda: not server.outgoing(me.address))
        assert not held(server, DEADXACT, body)


@pytest.mark.spec("QB-150", "QB-214")
@pytest.mark.parametrize("wrong", [{"source": os.urandom(16)}, {"message_id": 0x7FFFFFFF}])
def test_a_forged_end_changes_nothing(server: Daemon, me: Identity, listener: Listener, wrong: dict[str, Any]) -> None:
    body = os.urandom(8)
    with listener_session(server, me, listener, body, dead_letter=True) as (session, (message,)):
        session.final_ack(order_queue_of(server.address), message, 0x8003, **wrong)
        session.until_persisted()
        assert not held(server, DEADXACT, body)
        assert server.outgoing(me.address) == 1
        confirm(server, session, message)
        session.final_ack(order_queue_of(server.address), message, 0x4000)
        session.until_persisted()


@pytest.mark.spec("QB-100", "QB-106")
def test_an_end_that_comes_after_a_kill_is_still_understood(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data").prepare() as server, me.listen() as listener:
        with listener_session(server, me, listener, b"body", dead_letter=True) as (session, (message,)):
            confirm(server, session, message)
            eventually(lambda: not server.outgoing(me.address))
            server.kill()
        server.start()
        with me.open(server.address) as session:
            session.final_ack(order_queue_of(server.address), message, 0xC002)
            session.until_persisted()
        eventually(lambda: held(server, DEADXACT, b"body"))


@pytest.mark.spec("QB-145", "QB-207")
def test_behind_a_router_the_destination_may_answer_on_a_way_of_its_own(tmp_path: Path, me: Identity) -> None:
    """The messages go to a router; the order acknowledgement comes from their destination itself."""
    destination = Identity(free_address(), os.urandom(16))
    settings = {**SETTINGS, f"routes.{destination.address}": me.address}
    with Daemon(tmp_path / "data", settings=settings).prepare() as server, me.listen() as router:
        burst(server, destination, b"1", b"2")
        with router.accept() as session, destination.open(server.address) as back:
            messages = take(session, 2)
            session.acknowledge()
            back.order_ack(order_queue_of(server.address), header(messages[0]).stream, 2)
            eventually(lambda: not server.outgoing(destination.address))
