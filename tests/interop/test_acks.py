"""What the server acknowledges, when, and only once it is true: [MS-MQQB] 3.1.1.6.1, 3.1.5.8, 3.1.6.4, 3.1.7.11."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import pytest

from tests.interop.conftest import Target, new_queue
from tests.interop.daemon import Daemon, eventually
from tests.interop.second_packets import SessionAck, UserMessage
from tests.interop.second_peer import PATIENCE, Identity, Session

LONGEST_TIMEOUT = 120_000  # milliseconds, of both acknowledgement timers


@pytest.mark.spec("QB-173")
@pytest.mark.parametrize(("window", "count"), [(64, 32), (8, 4), (2, 1)])
def test_half_a_window_is_acknowledged_at_once(
    server: Daemon, me: Identity, queue: Target, window: int, count: int
) -> None:
    """By the timer alone it would take a minute, and the sender would stand still."""
    with me.open(server.address, window=window, ack_timeout=LONGEST_TIMEOUT) as session:
        for _ in range(count):
            session.express(queue.direct, b"x")
        session.until_acked(timeout=0.9 * LONGEST_TIMEOUT / 2000)
        assert session.headers[-1][1].window == 64
        assert session.headers[-1][1].recoverable_base == 0


@pytest.mark.spec("QB-173", "QB-094", "MQ-118")
def test_more_messages_than_the_counts_can_hold_pass_on_one_connection(
    server: Daemon, session: Session, queue: Target
) -> None:
    total = 66_000
    server.qm.set_queue(queue.path, quota=1 << 30)
    while session.sent < total:
        while session.sent - session.acked < 64 and session.sent < total:
            session.express(queue.direct)
        if session.sent < total:
            session.next()
    session.until_acked(total - 31)
    eventually(lambda: server.count(queue.name) == total, what="all of them in the queue")
    server.qm.purge_queue(queue.path)


@pytest.mark.spec("QB-111", "QB-172", "QB-081")
def test_one_recoverable_message_is_acknowledged_after_the_recoverable_timeout(session: Session, queue: Target) -> None:
    start = time.monotonic()
    session.recoverable(queue.direct, b"x")
    session.until_persisted()
    assert 0.3 < time.monotonic() - start < 9.0  # the other timer takes ten
    header = session.headers[-1][1]
    assert (header.ack, header.recoverable_base, header.recoverable_flags) == (1, 1, 1)
    session.nothing(0.8)  # and not again
    session.recoverable(queue.direct, b"y")
    session.until_persisted()
    header = session.headers[-1][1]
    assert (header.ack, header.recoverable_base, header.recoverable_flags) == (2, 2, 1)


@pytest.mark.spec("QB-111")
def test_the_recoverable_timeout_is_the_one_that_the_initiator_asked_for(
    server: Daemon, me: Identity, queue: Target
) -> None:
    with me.open(server.address, recoverable_ack_timeout=1500) as session:
        start = time.monotonic()
        session.express(queue.direct, b"x")
        session.recoverable(queue.direct, b"y")
        session.until_persisted()
        assert 1.2 < time.monotonic() - start < 9.0
        assert session.acked == 2


@pytest.mark.spec("QB-093", "QB-026", "QB-027")
def test_mixed_traffic_is_counted_as_the_document_counts_it(
    session: Session, queue: Target, stream_queue: Target, me: Identity
) -> None:
    for number in range(3):
        session.express(queue.direct, b"express %d" % number)
    for number in range(2):
        session.recoverable(queue.direct, b"recoverable %d" % number)
    session.transactional(stream_queue.direct, b"transactional", next(me.streams), 1)
    session.until_persisted()
    headers = [header for _, header in session.headers]
    assert [(h.ack, h.recoverable_base, h.recoverable_flags) for h in headers] == [(6, 1, 7)]


@pytest.mark.spec("QB-172")
def test_a_burst_of_recoverable_messages_is_acknowledged_in_order_with_no_gap(session: Session, queue: Target) -> None:
    for number in range(40):
        session.recoverable(queue.direct, b"%d" % number)
    session.until_persisted(timeout=9.0)
    expected = 1
    for _, header in session.headers:
        if header.recoverable_flags:
            assert header.recoverable_base == expected
            expected += header.recoverable_flags.bit_length()
            assert header.recoverable_flags & (header.recoverable_flags + 1) == 0  # no hole
    assert expected == 41
    assert any(header.recoverable_base == 1 for _, header in session.headers)
    queue.holds(*(b"%d" % number for number in range(40)))


@pytest.mark.spec("QB-081", "QB-106", "QB-172")
@pytest.mark.parametrize("stop_after", [1, 32, 150])
def test_what_was_acknowledged_as_stored_survives_a_kill(tmp_path: Path, me: Identity, stop_after: int) -> None:
    with Daemon(tmp_path / "data").prepare("q") as server:
        target = Target(server, "q")
        with me.open(server.address) as session:
            sent = 0
            while len(session.persisted) < stop_after:
                while session.sent - session.acked < 64:
                    sent += 1
                    session.recoverable(target.direct, b"%d" % sent)
                session.next()
            stored = set(session.persisted)
            server.kill()
        server.start()
        bodies = [int(body) for body in target.bodies()]
        assert bodies == sorted(set(bodies))
        assert stored <= set(bodies)


@pytest.mark.spec("QB-079", "QB-152", "QB-153")
def test_every_fate_is_counted(server: Daemon, session: Session, queue: Target, stream_queue: Target) -> None:
    missing = Target(server, "missing")
    small = new_queue(server, quota=1)
    now = int(time.time())
    session.recoverable(queue.direct, b"delivered")
    session.recoverable(missing.direct, b"no such queue")
    session.recoverable(stream_queue.direct, b"no transaction")
    session.recoverable(small.direct, b"too big" * 1000)
    session.recoverable(queue.direct, b"late", sent_time=now - 100, time_to_reach_queue=10)
    again = session.recoverable(queue.direct, b"twice")
    session.recoverable(queue.direct, b"twice", message_id=again.message_id)
    session.until_persisted()
    assert session.acked == 7
    queue.holds(b"delivered", b"twice")
    assert (stream_queue.bodies(), small.bodies()) == ([], [])


@pytest.mark.spec("QB-153", "QB-086")
@pytest.mark.parametrize("delivery", [0, 1])
def test_a_message_that_comes_again_on_another_connection_is_one_message(
    server: Daemon, me: Identity, queue: Target, delivery: int
) -> None:
    message = me.message(queue.direct, b"once", delivery=delivery)
    for _ in range(3):
        with me.open(server.address) as session:
            session.send(message)
            session.recoverable(queue.direct, b"end", message_id=message.message_id + 1_000_000)
            session.until_persisted()
            assert session.acked == 2
        queue.holds(b"once", b"end")


@pytest.mark.spec("QB-153")
def test_equal_numbers_of_two_senders_are_two_messages(server: Daemon, me: Identity, queue: Target) -> None:
    for guid in (me.guid, os.urandom(16)):
        with Identity(me.address, guid).open(server.address) as session:
            session.recoverable(queue.direct, guid, message_id=77)
            session.until_persisted()
    server.holds(queue.name, 2)


@pytest.mark.spec("QB-086", "QB-154")
def test_a_recoverable_message_that_comes_again_after_a_kill_is_one_message(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data").prepare("q") as server:
        target = Target(server, "q")
        message = me.message(target.direct, b"once", delivery=1)
        for _ in range(2):
            with me.open(server.address) as session:
                session.send(message)
                session.until_persisted()
            server.kill()
            server.start()
        target.holds(b"once")


@pytest.mark.spec("QB-114")
def test_a_number_is_forgotten_after_its_time(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data", settings={"binary.id_history_age": 1.0}).prepare("q") as server:
        target = Target(server, "q")
        with me.open(server.address) as session:
            message = me.message(target.direct, b"twice", delivery=1)
            session.send(message)
            session.until_persisted()
            session.nothing(2.5)
            session.send(message)
            session.until_persisted()
        target.holds(b"twice", b"twice")


@pytest.mark.spec("QB-144", "MQ-121")
def test_a_message_whose_counts_are_wrong_is_delivered_and_the_session_closed(
    server: Daemon, me: Identity, queue: Target
) -> None:
    with me.open(server.address) as session:
        message = me.message(queue.direct, b"delivered", delivery=1)
        session.sent, session.recoverable_sent = 1, 1
        message.session = session.honest()
        message.session.sent = 5
        session.write(message.encode())
        session.until_closed()
    queue.holds(b"delivered")
    with me.open(server.address) as session:
        session.send(me.message(queue.direct, b"delivered", delivery=1, message_id=message.message_id))
        session.until_persisted()
    queue.holds(b"delivered")


@pytest.mark.spec("QB-168", "QB-007", "QB-139")
def test_a_header_that_rides_on_a_message_counts_that_message(session: Session, queue: Target) -> None:
    for number in range(5):
        message = session.identity.message(queue.direct, b"%d" % number, delivery=number % 2)
        session.sent += 1
        session.recoverable_sent += message.recoverable
        message.session = session.honest()
        session.write(message.encode())
    session.until_persisted()
    queue.holds(b"0", b"1", b"2", b"3", b"4")


@pytest.mark.spec("QB-187", "QB-186")
def test_an_ack_that_is_nearly_due_rides_on_a_message(tmp_path: Path, me: Identity) -> None:
    """While messages go the other way all the time, none of the acks needs a packet of its own. It may ride in the
    last quarter of its time: with five seconds it is not missed on a machine that is busy."""
    settings = {"binary.shortest_recoverable_ack": 5.0}
    with Daemon(tmp_path / "data", settings=settings).prepare("q") as server, me.listen() as listener:
        inbox = rf"DIRECT=TCP:{me.address}\private$\inbox"
        server.qm.send(inbox, b"the session is the server's own", express=True)
        with listener.accept() as session:
            assert session.parameters.recoverable_ack_timeout == 5000
            session.message()
            session.recoverable(Target(server, "q").direct, b"x")
            end = time.monotonic() + PATIENCE
            while not session.persisted and time.monotonic() < end:
                server.qm.send(inbox, b"y", express=True)
                if select.select([session.socket], [], [], 0.02)[0]:
                    packet = session.next()
                    assert not isinstance(packet, SessionAck)
                    if isinstance(packet, UserMessage) and packet.session is not None:
                        break
                if session.received % 16 == 0:
                    session.acknowledge()
            assert session.persisted == {1}
            assert session.acked == 1
