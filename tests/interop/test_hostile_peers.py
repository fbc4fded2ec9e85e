"""Peers that lie, stutter or shout: each loses its own connection, and nothing else changes."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import socket
import struct
from pathlib import Path
from random import Random

import pytest

from tests.interop.conftest import ALLOWED_GROWTH, Target, Witness, new_queue
from tests.interop.daemon import Daemon, eventually, free_address
from tests.interop.second_packets import MAXIMUM, Establish, order_queue_of
from tests.interop.second_peer import Gone, Identity, Listener, Session
from tests.interop.test_sending_streams import burst, header

SETTINGS = {"binary.initialisation": 3.0, "binary.max_sessions": 20000}
MEGABYTE = 1 << 20

# What is no packet at all


GARBAGE: dict[str, bytes] = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "RPC": bytes.fromhex("05000b03100000004800000001000000b810b81000000000") + bytes(48),
    "zeros": bytes(5000),
    "ones": b"\xff" * 5000,
    "text": b"hello\n" * 20,
}


@pytest.mark.spec("QB-127", "QB-128")
@pytest.mark.parametrize("what", GARBAGE)
@pytest.mark.parametrize("opened", [False, True])
def test_other_protocols_are_shown_the_door(
    server: Daemon, me: Identity, witness: Witness, what: str, opened: bool
) -> None:
    with me.open(server.address) if opened else me.connect(server.address) as session:
        session.write(GARBAGE[what])
        assert session.until_closed() == []
    witness.check()


@pytest.mark.spec("QB-127", "QB-128")
def test_random_bytes_and_mutated_packets_end_in_a_close(
    server: Daemon, me: Identity, queue: Target, witness: Witness, seed: int
) -> None:
    chance = Random(seed)
    print(f"seed {seed}")
    for number in range(150):
        with me.open(server.address) as session:
            data = bytearray(me.message(queue.direct, b"body", delivery=1, label="label").encode())
            for _ in range(chance.randrange(1, 4)):
                data[chance.randrange(len(data))] = chance.choice((0, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            session.write(bytes(data) if number % 3 else chance.randbytes(chance.randrange(16, 400)))
            with contextlib.suppress(OSError):  # it may be closed by now
                session.socket.shutdown(socket.SHUT_WR)
            session.until_closed()
        if number % 25 == 0:
            witness.check()
    witness.check()


@pytest.mark.spec("QB-194")
@pytest.mark.parametrize("end", ["close", "reset"])
def test_an_interrupted_packet_is_nothing(
    server: Daemon, me: Identity, queue: Target, witness: Witness, end: str
) -> None:
    data = me.message(queue.direct, b"b" * 1000, delivery=1).encode()
    for length in (1, 8, 15, 16, 17, 60, 64, 70, len(data) // 2, len(data) - 1):
        session = me.open(server.address)
        session.recoverable(queue.direct, b"whole %d" % length)
        session.write(data[:length])
        session.until_persisted()
        getattr(session, end)()
    witness.check()
    assert len(queue.bodies()) == 10
    with me.open(server.address) as session:  # it was not taken for seen
        session.send(me.message(queue.direct, b"after all", delivery=1, message_id=next(me.numbers)))
        session.until_persisted()
    assert queue.bodies()[-1] == b"after all"


# Too much, too slowly


@pytest.mark.spec("QB-007", "QB-182")
def test_the_largest_packet_arrives_and_one_byte_more_does_not(server: Daemon, me: Identity, witness: Witness) -> None:
    target = new_queue(server)
    empty = len(me.message(target.direct, b"").encode())
    body = os.urandom(MAXIMUM - empty)
    with me.open(server.address) as session:
        session.recoverable(target.direct, body)
        session.until_persisted()
    assert target.bodies() == [body]
    with me.open(server.address) as session:
        session.write(me.message(target.direct, body + b"1234").encode()[:100])
        assert session.until_closed() == []
    witness.check()
    server.qm.purge_queue(target.path)


@pytest.mark.spec("QB-107")
def test_a_handshake_one_byte_at_a_time_is_not_waited_for(server: Daemon, me: Identity, witness: Witness) -> None:
    packet = Establish(me.guid).encode()
    with me.connect(server.address) as session:
        try:
            for at in range(len(packet)):
                session.write(packet[at : at + 1])
                if select.select([session.socket], [], [], 0.02)[0]:
                    break
        except Gone:
            pass
        assert at < len(packet) - 1
        assert session.until_closed() == []
    witness.check()


def test_a_message_one_byte_at_a_time_arrives(session: Session, queue: Target) -> None:
    data = session.identity.message(queue.direct, b"slow", delivery=1).encode()
    session.sent = session.recoverable_sent = 1
    for at in range(len(data)):
        session.write(data[at : at + 1])
    session.until_persisted()
    queue.holds(b"slow")


@pytest.mark.spec("QB-128", "QB-214")
def test_announced_bytes_cost_nothing_until_they_come(server: Daemon, witness: Witness) -> None:
    before = server.memory()
    sessions = []
    for _ in range(200):
        session = Identity(free_address(), os.urandom(16)).open(server.address)
        session.write(struct.pack("<BBHIII", 0x10, 0, 3, 0x524F494C, MAXIMUM, 0xFFFFFFFF) + bytes(100))
        sessions.append(session)
    witness.check()
    assert server.memory() - before < 64 * MEGABYTE
    for session in sessions:
        session.close()
    witness.check()


def crowd(server: Daemon, witness: Witness, count: int) -> None:
    """Silent connections from many addresses, a part of them half through the handshake."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 1000)), hard))
    descriptors, memory = server.descriptors(), server.memory()
    connections: list[Session] = []
    try:
        for number in range(count):
            if number % 50 == 0:
                who = Identity(free_address(), os.urandom(16))
            session = who.connect(server.address)
            connections.append(session)
            if number % 2:
                session.write(Establish(who.guid).encode())
            if number % (count // 10) == 0:
                witness.check()
        witness.check()
        assert server.memory() - memory < max(ALLOWED_GROWTH, count * 32 * 1024)
    finally:
        for session in connections:
            session.close()
    eventually(lambda: server.descriptors() < descriptors + 20, what="the descriptors to be closed")
    witness.check()


@pytest.mark.spec("QB-138", "QB-214", "QB-107")
def test_a_crowd_of_silent_connections_stops_nobody(server: Daemon, witness: Witness) -> None:
    crowd(server, witness, 1000)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.spec("QB-138", "QB-214")
def test_ten_thousand_silent_connections_stop_nobody(server: Daemon, witness: Witness) -> None:
    crowd(server, witness, 10_000)


@pytest.mark.spec("QB-138")
def test_one_address_has_a_bounded_number_of_unfinished_handshakes(
    tmp_path: Path, me: Identity
) -> None:
    settings = {"binary.initialisation": 600.0}  # so that it is not the timer of the handshake that closes any
    with Daemon(tmp_path / "data", settings=settings).prepare() as server:
        sessions = [me.connect(server.address) for _ in range(100)]

        def closed() -> int:
            return sum(bool(select.select([s.socket], [], [], 0)[0]) for s in sessions)

        eventually(lambda: closed() >= 36, what="the end of the connections over the bound")
        Witness(server).check()
        assert closed() < 100
        for session in sessions:
            session.close()


# Acknowledgements by those who do not owe them


@pytest.mark.spec("QB-145", "QB-214")
def test_a_stranger_cannot_acknowledge_the_stream_of_another(
    server: Daemon, me: Identity, listener: Listener, witness: Witness
) -> None:
    burst(server, me, b"1", b"2")
    stranger = Identity(free_address(), os.urandom(16))
    with listener.accept() as session:
        messages = [session.message(), session.message()]
        stream = header(messages[0]).stream
        session.acknowledge()
        with stranger.open(server.address) as other:
            other.order_ack(order_queue_of(server.address), stream, 2)
            other.nothing(0.3)
        assert server.outgoing(me.address) == 2
        session.order_ack(order_queue_of(server.address), stream, 2)
        eventually(lambda: not server.outgoing(me.address))
    witness.check()


@pytest.mark.spec("QB-214")
def test_a_flood_of_forged_acknowledgements_changes_nothing(
    server: Daemon, session: Session, witness: Witness, seed: int
) -> None:
    chance = Random(seed)
    message = session.identity.transactional(witness.target.direct, b"", 1 << 32 | 1, 1)
    for _ in range(200):
        session.order_ack(order_queue_of(server.address), chance.getrandbits(64), chance.randrange(1, 1 << 32))
        session.final_ack(
            order_queue_of(server.address),
            message,
            0x8003,
            source=chance.randbytes(16),
            message_id=chance.getrandbits(32),
        )
        while session.sent - session.acked >= 60:
            session.next()
    session.until_persisted()
    witness.check()
    assert not any(info.messages for info in server.qm.queues() if info.name.startswith("system$"))
