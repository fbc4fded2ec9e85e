"""Transactional messages to the server: in order and exactly once, [MS-MQQB] 3.1.5.8.6 and 3.1.7.17."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from lior.names import private_queue_number
from tests.interop.conftest import Target, new_queue
from tests.interop.daemon import Daemon
from tests.interop.second_packets import NULL, UserMessage, private
from tests.interop.second_peer import PATIENCE, Identity, Session, is_order_message, order_ack_of

SETTINGS = {"binary.order_ack": 0.2}


def settle(session: Session, number: int) -> UserMessage:
    """Until the OrderAck of that number."""
    while True:
        message, body = session.order_body()
        if body.number == number:
            return message


@pytest.mark.spec("QB-083", "QB-113", "QB-021", "QB-022", "QB-207")
def test_messages_in_order_are_acknowledged_as_one(session: Session, stream_queue: Target, me: Identity) -> None:
    stream = next(me.streams)
    session.send_together(me.transactional(stream_queue.direct, b"%d" % n, stream, n) for n in range(1, 6))
    message, body = session.order_body()
    assert tuple(body) == (stream, 5, 4)
    assert message.message_class == 0x00FF
    stream_queue.holds(b"1", b"2", b"3", b"4", b"5")
    session.acknowledge()
    assert not [packet for packet in session.arriving(0.7) if isinstance(packet, UserMessage)]  # once is enough


@pytest.mark.spec("QB-019", "QB-020", "QB-102", "QB-207")
def test_an_order_ack_of_a_direct_session_goes_to_the_address_of_the_peer(
    session: Session, stream_queue: Target, me: Identity
) -> None:
    session.transactional(stream_queue.direct, b"x", next(me.streams), 1)
    message = settle(session, 1)
    assert message.destination is not None
    assert message.destination.text == f"TCP:{me.address}\\PRIVATE$\\order_queue$"
    assert message.address == NULL
    assert message.source == session.remote


@pytest.mark.spec("QB-019", "QB-036", "QB-040", "QB-102", "QB-170")
def test_a_queue_is_reached_by_its_number_and_answers_to_the_number_of_the_order_queue(
    server: Daemon, me: Identity, stream_queue: Target
) -> None:
    with me.open(server.address) as probe:
        guid = probe.remote
    number = private_queue_number(stream_queue.path)
    assert number != 4
    with me.open(server.address, guid) as session:
        session.transactional(private(number), b"by number", next(me.streams), 1, address=guid)
        message = settle(session, 1)
        assert message.destination == private(4)
        assert message.address == me.guid
        assert len(message.encode()) - (16 if message.session else 0) == 192
    stream_queue.holds(b"by number")


@pytest.mark.spec("QB-083", "QB-171")
def test_gaps_and_duplicates_are_dropped_and_the_position_stays(
    session: Session, stream_queue: Target, me: Identity
) -> None:
    stream = next(me.streams)
    for number in (1, 2, 2, 4):
        session.transactional(stream_queue.direct, b"%d" % number, stream, number)
    session.transactional(stream_queue.direct, b"3", stream, 3)
    settle(session, 3)
    stream_queue.holds(b"1", b"2", b"3")
    session.transactional(stream_queue.direct, b"4", stream, 4)
    settle(session, 4)
    stream_queue.holds(b"1", b"2", b"3", b"4")


@pytest.mark.spec("QB-171", "QB-098")
def test_a_duplicate_is_answered_with_the_position_again(
    server: Daemon, session: Session, stream_queue: Target, me: Identity
) -> None:
    stream = next(me.streams)
    message = session.transactional(stream_queue.direct, b"1", stream, 1)
    settle(session, 1)
    session.send(message)
    settle(session, 1)
    with me.open(server.address) as second:
        second.send(message)
        settle(second, 1)
    stream_queue.holds(b"1")


@pytest.mark.spec("QB-171", "QB-185")
def test_a_gap_that_the_sender_bridges_is_accepted(session: Session, stream_queue: Target, me: Identity) -> None:
    stream = next(me.streams)
    session.transactional(stream_queue.direct, b"1", stream, 1)
    session.transactional(stream_queue.direct, b"3", stream, 3, previous=1)
    session.transactional(stream_queue.direct, b"9", stream, 9, previous=0)
    settle(session, 9)
    stream_queue.holds(b"1", b"3", b"9")


@pytest.mark.spec("QB-171", "QB-053")
def test_a_new_stream_begins_with_no_previous_message_and_a_greater_identifier(
    session: Session, stream_queue: Target, me: Identity
) -> None:
    old, new = 5 << 32 | 9, 6 << 32 | 1  # the later time counts more than the ordinal
    session.transactional(stream_queue.direct, b"old 1", old, 1)
    session.transactional(stream_queue.direct, b"dropped", new, 4, previous=3)
    session.transactional(stream_queue.direct, b"old 2", old, 2)
    session.transactional(stream_queue.direct, b"new 3", new, 3, previous=0)
    session.transactional(stream_queue.direct, b"dropped", old, 3)
    session.transactional(stream_queue.direct, b"new 4", new, 4)
    settle(session, 4)
    stream_queue.holds(b"old 1", b"old 2", b"new 3", b"new 4")


@pytest.mark.spec("QB-171")
def test_any_order_with_any_duplicates_arrives_once_and_in_order(
    server: Daemon, session: Session, me: Identity, seed: int
) -> None:
    """Each number is sent again and again until it is its turn, as a sender does that gets no OrderAck."""
    chance = Random(seed)
    for _ in range(8):
        target, stream = new_queue(server, transactional=True), next(me.streams)
        messages = [me.transactional(target.direct, b"%d" % n, stream, n) for n in range(1, 6)]
        for _ in messages:
            for message in chance.sample(messages, len(messages)):
                session.send(message)
            session.acknowledge()
        while target.bodies() != [b"1", b"2", b"3", b"4", b"5"]:
            settle(session, 5)
            session.acknowledge()


@pytest.mark.spec("QB-098")
def test_two_streams_to_two_queues_are_kept_apart(
    server: Daemon, session: Session, stream_queue: Target, me: Identity
) -> None:
    other = new_queue(server, transactional=True)
    streams = (next(me.streams), next(me.streams))
    for number in range(1, 11):
        for stream, target in zip(streams, (stream_queue, other), strict=True):
            session.transactional(target.direct, b"%d" % number, stream, number)
    acked: dict[int, int] = {}
    while acked != dict.fromkeys(streams, 10):
        _, body = session.order_body()
        acked[body.stream] = body.number
    for target in (stream_queue, other):
        target.holds(*(b"%d" % number for number in range(1, 11)))


@pytest.mark.spec("QB-098")
def test_two_senders_to_one_queue_are_kept_apart(server: Daemon, me: Identity, stream_queue: Target) -> None:
    others = [me, Identity(me.address, os.urandom(16))]
    with others[0].open(server.address) as one, others[1].open(server.address) as two:
        for number in range(1, 4):
            one.transactional(stream_queue.direct, b"a%d" % number, 9 << 32 | 1, number)
            two.transactional(stream_queue.direct, b"b%d" % number, 5 << 32 | 1, number)
        settle(one, 3)
        settle(two, 3)
    bodies = stream_queue.bodies()
    assert [body for body in bodies if body[:1] == b"a"] == [b"a1", b"a2", b"a3"]
    assert [body for body in bodies if body[:1] == b"b"] == [b"b1", b"b2", b"b3"]


@pytest.mark.spec("QB-098", "QB-106", "QB-083")
def test_a_stream_goes_on_after_a_kill_with_nothing_lost_or_doubled(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data", settings=SETTINGS).prepare(transactional=["t"]) as server:
        target, stream = Target(server, "t"), next(me.streams)
        numbers = itertools.count(1)
        pending: list[UserMessage] = []
        for _ in range(4):
            with me.open(server.address) as session:
                for message in pending:
                    session.send(message)
                while len(pending) < 30:
                    number = next(numbers)
                    message = me.transactional(target.direct, b"%d" % number, stream, number)
                    pending.append(session.send(message))
                _, body = session.order_body()
                pending = [m for m in pending if m.transaction and m.transaction.number > body.number]
                server.kill()
            server.start()
        with me.open(server.address) as session:
            for message in pending:
                session.send(message)
            last = next(numbers) - 1
            if pending:
                settle(session, last)
        target.holds(*(b"%d" % number for number in range(1, last + 1)))


@pytest.mark.spec("QB-113")
def test_a_steady_flow_is_acknowledged_within_the_longest_delay(tmp_path: Path, me: Identity) -> None:
    """Each message restarts the delay, so that there is not one for every message; but it is not put off for ever."""
    settings = {"binary.order_ack": 1.0, "binary.longest_order_ack_delay": 2.5}
    with Daemon(tmp_path / "data", settings=settings).prepare(transactional=["t"]) as server:
        for _ in range(8):  # a flow that stood still since the machine was busy says nothing
            acks, slowest = flowing(server, me)
            if slowest < 0.7:
                break
        assert slowest < 0.7
        assert all(2.0 < ack < 10.0 for ack in acks)


def flowing(server: Daemon, me: Identity) -> tuple[list[float], float]:
    """The times from the first message that an OrderAck tells of for the first time to that OrderAck, of two, and
    the longest time between two messages."""
    target, stream = Target(server, "t"), next(me.streams)
    sent = [time.monotonic()]
    acks: list[float] = []
    told, number = 0, 0
    with me.open(server.address) as session:
        while len(acks) < 2 and time.monotonic() < sent[0] + PATIENCE:
            number += 1
            sent.append(time.monotonic())
            session.transactional(target.direct, b"x", stream, number)
            for packet in session.arriving(0.1):
                if isinstance(packet, UserMessage) and is_order_message(packet):
                    acks.append(time.monotonic() - sent[told + 1])
                    told = order_ack_of(packet).number
            if session.received:
                session.acknowledge()
    return acks, max(b - a for a, b in itertools.pairwise(sent))


@pytest.mark.spec("QB-052")
def test_the_message_of_a_stream_is_known_by_its_sender_and_number(
    session: Session, stream_queue: Target, me: Identity
) -> None:
    message = session.transactional(stream_queue.direct, b"x", next(me.streams), 1)
    settle(session, 1)
    with stream_queue.server.qm.open_queue(stream_queue.path, "peek") as opened:
        found = opened.peek(0)
    assert found.identifier is not None
    assert found.identifier.lineage == UUID(bytes_le=me.guid)
    assert found.identifier.uniquifier == message.message_id
