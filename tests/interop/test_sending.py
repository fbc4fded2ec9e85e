"""What the server sends, keeps, sends again and lets go: [MS-MQQB] 3.1.5.5 to 3.1.5.7 and 3.1.7.1."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import Target
from tests.interop.daemon import Daemon, eventually
from tests.interop.second_packets import NULL, Establish, UserMessage
from tests.interop.second_peer import Gone, Identity, Listener, Session, Silence

SETTINGS = {"binary.retry": 0.2}
SYSTEM_JOURNAL, DEAD_LETTER = r".\SYSTEM$;JOURNAL", r".\SYSTEM$;DEADLETTER"


def to(me: Identity, name: str = "inbox") -> str:
    return rf"DIRECT=TCP:{me.address}\private$\{name}"


def held(server: Daemon, queue: str, body: bytes) -> bool:
    """Whether a system queue has that message."""
    with server.qm.open_queue(queue, "peek") as opened:
        return any(message.body == body for message in opened)


def take(session: Session, count: int) -> list[UserMessage]:
    return [session.message() for _ in range(count)]


# Every kind


@pytest.mark.spec("QB-034", "QB-043", "QB-182", "QB-008", "QB-092", "QB-085", "QB-033", "MQ-084", "MQ-099")
def test_a_message_leaves_with_everything_that_it_was_given(server: Daemon, me: Identity, listener: Listener) -> None:
    now = time.time()
    identifier = server.qm.send(
        to(me), b"body", label="lábel", priority=6, application_tag=77, correlation_id=bytes(range(20)),
        extension=b"ext", body_type=8, time_to_be_received=500, response_queue=to(me, "answers"), dead_letter=True,
    )  # fmt: skip
    with listener.accept() as session:
        message = session.message()
        assert message.destination is not None
        assert message.destination.text == rf"TCP:{me.address}\private$\inbox"
        assert (message.body, message.label, message.priority, message.tag) == (b"body", "lábel", 6, 77)
        assert (message.correlation, message.extension, message.body_type) == (bytes(range(20)), b"ext", 8)
        assert (message.time_to_be_received, message.time_to_reach_queue) == (500, 345600)
        assert (message.address, message.source, message.hops) == (NULL, session.remote, 0)
        assert (message.delivery, message.negative_journal, message.positive_journal) == (1, True, False)
        assert message.response is not None
        assert message.response.text == rf"TCP:{me.address}\private$\answers"
        assert message.message_id == identifier.uniquifier
        assert now - 1 < message.sent_time <= time.time()
        assert message.message_class == 0
        session.acknowledge()
    eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-078")
def test_an_express_message_is_gone_with_its_acknowledgement(server: Daemon, me: Identity, listener: Listener) -> None:
    server.qm.send(to(me), b"1", express=True)
    server.qm.send(to(me), b"2", express=True)
    with listener.accept() as session:
        take(session, 2)
        assert server.outgoing(me.address) == 2
        session.acknowledge(ack=1)
        eventually(lambda: server.outgoing(me.address) == 1)
    with listener.accept() as session:
        assert session.message().body == b"2"
        session.acknowledge()
        eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-080", "QB-099", "QB-141", "QB-142")
def test_a_recoverable_message_stays_until_it_is_said_to_be_stored(
    server: Daemon, me: Identity, listener: Listener
) -> None:
    for number in range(1, 6):
        server.qm.send(to(me), b"%d" % number)
    with listener.accept() as session:
        first = take(session, 5)
        session.acknowledge(recoverable_base=0, recoverable_flags=0)
        session.nothing(0.2)
        assert server.outgoing(me.address) == 5
        session.acknowledge(recoverable_base=3, recoverable_flags=0b101)  # those before 3 too: 1, 2, 3 and 5
        eventually(lambda: server.outgoing(me.address) == 1)
    with listener.accept() as session:
        again = session.message()
        assert (again.body, again.message_id) == (b"4", first[3].message_id)
        session.nothing(0.2)
        session.acknowledge()
        eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-143", "MQ-086")
def test_a_copy_is_kept_when_a_message_with_a_journal_is_stored_there(
    server: Daemon, me: Identity, listener: Listener
) -> None:
    body = os.urandom(8)
    server.qm.send(to(me), body, journal=True)
    with listener.accept() as session:
        assert session.message().positive_journal
        session.acknowledge(recoverable_base=0, recoverable_flags=0)
        session.nothing(0.2)
        assert not held(server, SYSTEM_JOURNAL, body)
        session.acknowledge()
        eventually(lambda: held(server, SYSTEM_JOURNAL, body))


@pytest.mark.spec("QB-078", "QB-080", "QB-106", "QB-123", "QB-085")
def test_a_kill_loses_the_express_messages_only(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data").prepare() as server:
        for number in range(3):
            server.qm.send(to(me), b"express", express=True)
            server.qm.send(to(me), b"%d" % number)
        server.kill()
        server.start()
        with me.listen() as listener, listener.accept() as session:  # unprompted
            kept = take(session, 3)
            assert [message.body for message in kept] == [b"0", b"1", b"2"]
            session.nothing(0.2)
            session.acknowledge()
            later = server.qm.send(to(me), b"later").uniquifier
            assert later not in {message.message_id for message in kept}
            assert session.message().message_id == later
            session.acknowledge()


# The connection


@pytest.mark.spec("QB-076", "QB-129", "QB-201", "QB-109")
def test_a_peer_that_is_not_there_is_tried_again_until_it_is(server: Daemon, me: Identity) -> None:
    for number in range(3):
        server.qm.send(to(me), b"%d" % number)
    for _ in range(3):
        with me.listen() as listener:
            start = time.monotonic()
            listener.connection().reset()
            assert time.monotonic() - start < 4.5  # five seconds if nobody sets it
    with me.listen() as listener, listener.accept() as session:
        assert [message.body for message in take(session, 3)] == [b"0", b"1", b"2"]
        session.acknowledge()
        eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-198", "QB-179", "QB-194", "QB-075")
@pytest.mark.parametrize("how", ["close", "reset"])
def test_what_was_in_flight_when_the_connection_ended_comes_again(
    server: Daemon, me: Identity, listener: Listener, how: str
) -> None:
    for number in range(10):
        server.qm.send(to(me), b"%d" % number)
    session = listener.accept()
    first = take(session, 10)
    session.acknowledge(ack=6, recoverable_base=1, recoverable_flags=0b1111)
    eventually(lambda: server.outgoing(me.address) == 6)
    getattr(session, how)()
    with listener.accept() as again:
        second = take(again, 6)
        assert [m.message_id for m in second] == [m.message_id for m in first[4:]]
        again.acknowledge()
        eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-110")
def test_a_peer_that_never_acknowledges_is_left_and_tried_again(tmp_path: Path, me: Identity) -> None:
    """After one to two periods of the timer, which is a multiple of 20 s on direct sessions: here a tenth."""
    with (
        Daemon(tmp_path / "data", settings={"binary.direct_ack_wait_multiplier": 0.1}).prepare() as server,
        me.listen() as listener,
    ):
        server.qm.send(to(me), b"x")
        start = time.monotonic()
        with listener.accept() as session:
            session.message()
            assert session.until_closed() == []
            assert 1.9 < time.monotonic() - start < 20.0
        with listener.accept() as session:
            assert session.message().body == b"x"
            for _ in range(10):  # whoever shows that he lives is left alone
                session.nothing(0.5)
                session.acknowledge(ack=0, recoverable_base=0, recoverable_flags=0)
            session.acknowledge()
            session.nothing(0.3)


@pytest.mark.spec("QB-108", "QB-201")
def test_an_idle_session_ends_and_the_next_message_opens_another(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data", settings={"binary.cleanup": 0.5}).prepare() as server, me.listen() as listener:
        for number in range(2):
            server.qm.send(to(me), b"%d" % number)
            with listener.accept() as session:
                assert session.message().body == b"%d" % number
                session.acknowledge()
                start = time.monotonic()
                session.until_closed()
                assert time.monotonic() - start < 30.0  # five minutes if nobody sets it


@pytest.mark.spec("QB-202")
def test_a_paused_destination_gets_nothing_until_it_is_resumed(
    server: Daemon, me: Identity, listener: Listener
) -> None:
    server.qm.send(to(me), b"0")
    with listener.accept() as session:
        session.message()
        session.acknowledge()
        server.qm.pause(to(me))
        for number in range(1, 4):
            server.qm.send(to(me), b"%d" % number)
        assert not [p for p in session.arriving(0.4) if isinstance(p, UserMessage)]
        server.qm.resume(to(me))
        try:
            assert [message.body for message in take(session, 3)] == [b"1", b"2", b"3"]
            session.acknowledge()
        except Gone:  # it may have left while it was on hold
            with listener.accept() as again:
                assert [message.body for message in take(again, 3)] == [b"1", b"2", b"3"]
                again.acknowledge()
    eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-124")
def test_a_stop_closes_the_sessions_without_a_word(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data").prepare() as server, me.open(server.address) as session:
        server.terminate()
        assert session.until_closed() == []
        server.start()


@pytest.mark.spec("QB-001", "QB-104")
def test_both_sides_send_on_one_connection(server: Daemon, me: Identity, listener: Listener, queue: Target) -> None:
    server.qm.send(to(me), b"there")
    with listener.accept() as session:
        assert session.message().body == b"there"
        session.recoverable(queue.direct, b"back")
        session.acknowledge()
        session.until_persisted()
        with pytest.raises(Silence):
            listener.connection(0.2)
    queue.holds(b"back")


@pytest.mark.spec("QB-183", "QB-169", "MQ-086")
def test_a_message_that_cannot_arrive_in_time_is_a_dead_letter_that_says_why(server: Daemon, me: Identity) -> None:
    server.qm.create_queue(rf".\private$\admin{me.guid.hex()}")
    admin = rf".\private$\admin{me.guid.hex()}"
    body = os.urandom(8)
    options: dict[str, Any] = {"admin_queue": rf"DIRECT=TCP:{server.address}\private$\admin{me.guid.hex()}"}
    server.qm.send(to(me), body, time_to_reach_queue=1, acknowledge=4, **options)
    eventually(lambda: held(server, DEAD_LETTER, body))
    with server.qm.open_queue(DEAD_LETTER, "peek") as dead:
        letter = next(message for message in dead if message.body == body)
    assert letter.failure_reason == 0x8002
    assert me.address in letter.failed_destination
    with server.qm.open_queue(admin) as queue:
        assert queue.receive(60).message_class == 0x8002
    with me.listen() as listener, pytest.raises(Silence):
        listener.connection(0.6)


@pytest.mark.spec("QB-107")
def test_a_handshake_that_hangs_is_given_up_and_repeated(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data", settings={"binary.initialisation": 2.0}).prepare() as server:
        server.qm.send(to(me), b"x")
        with me.listen() as listener:
            for _ in range(2):
                with listener.connection() as session:
                    session.take(Establish)
                    assert session.until_closed() == []
            with listener.accept() as session:
                assert session.message().body == b"x"
                session.acknowledge()
