"""[MS-MQQB] 3.1.5.3 to 3.1.5.8: every kind of packet in every state in which it may not come, and what may."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.interop.conftest import Target
from tests.interop.daemon import Daemon
from tests.interop.second_packets import (
    ORDER_ACK,
    Establish,
    FinalBody,
    OrderBody,
    Parameters,
    SessionAck,
    SessionHeader,
    order_queue_of,
)
from tests.interop.second_peer import Identity, Listener, Session

STREAM = 5 << 32 | 1


def _order(me: Identity, target: Target, body: bytes, message_class: int) -> bytes:
    to = order_queue_of(target.server.address)
    return me.order_message(to, body, message_class, recoverable=message_class != ORDER_ACK).encode()


KINDS: dict[str, Callable[[Identity, Target], bytes]] = {
    "EstablishConnection": lambda me, target: Establish(me.guid, me.guid).encode(),
    "ConnectionParameters": lambda me, target: Parameters().encode(),
    "SessionAck": lambda me, target: SessionAck(SessionHeader()).encode(),
    "OrderAck": lambda me, target: _order(me, target, OrderBody(STREAM, 1, 0).encode(), ORDER_ACK),
    "FinalAck": lambda me, target: _order(me, target, FinalBody(STREAM, 1, 0, me.guid, 1).encode(), 0x4000),
    "UserMessage": lambda me, target: me.message(target.direct, b"too early", delivery=1).encode(),
}
LEGAL = {
    "WAITING_EC": {"EstablishConnection"},
    "WAITING_CP": {"ConnectionParameters"},
    "OPEN": {"SessionAck", "OrderAck", "FinalAck", "UserMessage"},
    "WAITING_ECR": {"EstablishConnection"},
    "WAITING_CPR": {"ConnectionParameters"},
}
ILLEGAL = [(state, kind) for state in LEGAL for kind in KINDS if kind not in LEGAL[state]]


def in_state(state: str, server: Daemon, me: Identity, listener: Listener) -> Session:
    """A connection on which the server is in that state."""
    if state == "OPEN":
        return me.open(server.address)
    if state in ("WAITING_EC", "WAITING_CP"):
        session = me.connect(server.address)
        if state == "WAITING_CP":
            session.write(Establish(me.guid).encode())
            session.take(Establish)
        return session
    server.qm.send(rf"DIRECT=TCP:{me.address}\private$\inbox", b"waits", express=True)
    session = listener.connection()
    request = session.take(Establish)
    if state == "WAITING_CPR":
        session.write(Establish(request.client, me.guid, request.time_stamp, request.operating_system).encode())
        session.take(Parameters)
    return session


@pytest.mark.spec("QB-133", "QB-070", "QB-071", "QB-072", "QB-073", "QB-074", "QB-077")
@pytest.mark.parametrize(("state", "kind"), ILLEGAL)
def test_what_may_not_come_closes_the_connection_and_changes_nothing(
    server: Daemon, me: Identity, listener: Listener, queue: Target, state: str, kind: str
) -> None:
    with in_state(state, server, me, listener) as session:
        packet = KINDS[kind](me, queue)
        session.write(packet)
        assert session.until_closed() == []
    assert queue.bodies() == []
    if state in ("WAITING_ECR", "WAITING_CPR"):  # the message was not lost with the connection
        with listener.accept() as again:
            assert again.message().body == b"waits"
            again.acknowledge()


def test_the_matrix_has_the_combinations_that_the_ledger_counts() -> None:
    assert len(KINDS) * len(LEGAL) == 30
    assert len(ILLEGAL) == 22


@pytest.mark.spec("QB-074", "QB-126")
@pytest.mark.parametrize("kind", sorted(LEGAL["OPEN"]))
def test_what_may_come_in_an_open_session_leaves_it_open(
    server: Daemon, session: Session, me: Identity, queue: Target, kind: str
) -> None:
    if kind == "OrderAck":  # of a stream that it never sent
        session.order_ack(order_queue_of(server.address), STREAM, 1)
    elif kind == "FinalAck":
        message = me.transactional(queue.direct, b"", STREAM, 1)
        session.final_ack(order_queue_of(server.address), message, 0x4000)
    elif kind == "UserMessage":
        session.recoverable(queue.direct, b"body")
    else:
        session.acknowledge()
    session.nothing(0.1)
    session.recoverable(queue.direct, b"after")
    session.until_persisted()
    queue.holds(*([b"body"] if kind == "UserMessage" else []), b"after")


@pytest.mark.spec("QB-126", "QB-020")
def test_what_is_no_acknowledgement_never_gets_into_the_order_queue(
    server: Daemon, session: Session, queue: Target
) -> None:
    session.recoverable(order_queue_of(server.address), b"class NORMAL")
    session.recoverable(order_queue_of(server.address), b"x" * 36, label="QM Ordering Ack", message_class=0x0123)
    session.recoverable(queue.direct, b"after")
    session.until_persisted()
    queue.holds(b"after")
    assert not any("order_queue" in info.name and info.messages for info in server.qm.queues())


@pytest.mark.spec("QB-010", "QB-009")
@pytest.mark.parametrize("kind", [0, 4, 15])
def test_an_unknown_internal_packet_closes_an_open_session(server: Daemon, session: Session, kind: int) -> None:
    packet = bytearray(SessionAck(SessionHeader()).encode())
    packet[18] = kind
    session.write(bytes(packet))
    assert session.until_closed() == []


@pytest.mark.spec("QB-005", "QB-127")
@pytest.mark.parametrize(("at", "value"), [(0, 0x11), (0, 0), (4, 0x4D), (5, 0), (7, 0x53)])
def test_a_bad_version_or_signature_closes_the_session(
    server: Daemon, me: Identity, session: Session, queue: Target, at: int, value: int
) -> None:
    packet = bytearray(me.message(queue.direct, b"bad").encode())
    packet[at] = value
    session.write(bytes(packet))
    assert session.until_closed() == []
    assert queue.bodies() == []


@pytest.mark.spec("QB-214")
def test_a_refusal_outside_a_handshake_closes_the_session(server: Daemon, session: Session) -> None:
    packet = bytearray(SessionAck(SessionHeader()).encode())
    packet[18] |= 0x10  # CS
    session.write(bytes(packet))
    assert session.until_closed() == []


def test_a_quiet_connection_of_another_peer_lives_on_beside_all_that(server: Daemon, queue: Target) -> None:
    other = Identity("127.0.0.1", os.urandom(16))
    with other.open(server.address) as session:
        session.recoverable(queue.direct, b"one")
        session.until_persisted()
    queue.holds(b"one")
