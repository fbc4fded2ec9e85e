"""What every packet has in common, what a start brings back and forgets, and reports on the way of a message."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from uuid import UUID

import pytest

from tests.interop.conftest import Target, new_queue
from tests.interop.daemon import Daemon, eventually
from tests.interop.second_packets import INFINITE, INTERNAL, UserMessage
from tests.interop.second_peer import PATIENCE, Identity, Listener, Session
from tests.interop.test_sending import to

ARRIVED_OVER_HTTP = 1 << 25  # UserHeader.Flags.AH
REPORT = 0x0001  # MessageClass


def overheard(session: Session) -> list[bytes]:
    """Every packet that comes over the session from now on, as it came."""
    packets: list[bytes] = []
    read = session.read

    def noted(timeout: float = PATIENCE) -> bytes:
        packets.append(read(timeout))
        return packets[-1]

    session.read = noted  # type: ignore[method-assign]
    return packets


@pytest.mark.spec("MQ-075", "MQ-078")
def test_only_packets_of_the_session_are_internal_and_only_messages_have_little_time(
    server: Daemon, me: Identity, listener: Listener, stream_queue: Target
) -> None:
    plain = new_queue(server)
    with me.connect(server.address) as session:
        accepted = overheard(session)
        session.initiate()
        session.recoverable(plain.direct, b"acknowledged")
        session.until_persisted()
        session.transactional(stream_queue.direct, b"taken", next(me.streams), 1)
        session.order_body()
        session.transactional(plain.direct, b"refused", next(me.streams), 1, negative_journal=True)
        session.final_body()
        session.acknowledge()
    server.qm.send(to(me), b"x", time_to_reach_queue=77)
    with listener.connection() as session:
        initiated = overheard(session)
        session.accept()
        assert session.message().body == b"x"
        session.acknowledge()
    eventually(lambda: not server.outgoing(me.address))
    kinds: dict[object, set[int]] = {}
    for packet in accepted + initiated:
        flags, _, _, seconds = struct.unpack_from("<HIII", packet, 2)
        kind: object = packet[18] & 15 if flags & INTERNAL else "message"
        if kind == "message" and "QM Ordering Ack".encode("utf-16-le") in packet:
            kind = "order message"
        kinds.setdefault(kind, set()).add(seconds)
    assert kinds == {1: {INFINITE}, 2: {INFINITE}, 3: {INFINITE}, "order message": {INFINITE}, "message": {77}}


@pytest.mark.spec("MQ-083")
def test_messages_are_numbered_one_by_one_and_say_when_they_were_sent(
    server: Daemon, me: Identity, listener: Listener
) -> None:
    start = int(time.time())
    for number in range(3):
        server.qm.send(to(me), b"%d" % number, journal=True)
    with listener.accept() as session:
        messages = [session.message() for _ in range(3)]
        session.acknowledge()
    assert len({message.message_id for message in messages}) == 3
    assert all(start <= message.sent_time <= time.time() for message in messages)
    assert not any(message.extra_flags & ARRIVED_OVER_HTTP for message in messages)
    eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-120", "QB-086", "QB-114")
def test_what_was_received_before_a_kill_is_known_after_it_for_a_while(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data", settings={"binary.id_history_age": 8.0}).prepare("q") as server:
        target = Target(server, "q")
        with me.open(server.address) as session:
            sent = [session.recoverable(target.direct, b"%d" % number) for number in range(3)]
            session.until_persisted()
        server.kill()
        server.start()

        def again() -> int:
            with me.open(server.address) as session:
                for message in sent:
                    session.send(message)
                session.until_persisted()
            return server.count("q")

        assert again() == 3
        eventually(lambda: again() == 6, what="an end of the memory")  # each time within its age but the last
        assert again() == 6


# Reports


def traced(me: Identity, target: Target, queue: UUID) -> UserMessage:
    debug = b"\1\0\0\0" + queue.bytes_le
    return me.message(target.direct, b"x", delivery=1, debug=debug, base_flags=0x100)


@pytest.mark.spec("MQ-140", "QB-177")
@pytest.mark.parametrize("enabled", [False, True])
def test_reports_are_sent_only_where_somebody_switched_them_on(tmp_path: Path, me: Identity, enabled: bool) -> None:
    where = UUID(bytes=os.urandom(16))
    settings = {f"trace_queues.{where}": r"DIRECT=OS:.\private$\reports"} if enabled else {}
    with Daemon(tmp_path / "data", settings=settings).prepare("q", "reports") as server:
        target = Target(server, "q")
        with me.open(server.address) as session:
            session.send(traced(me, target, where))
            session.send(traced(me, target, UUID(int=7)))  # nobody said which queue that is
            session.until_persisted()
        target.holds(b"x", b"x")
        if enabled:
            server.holds("reports", 1)
        with server.qm.open_queue(r".\private$\reports", "peek") as reports:
            assert [message.message_class for message in reports] == ([REPORT] if enabled else [])
