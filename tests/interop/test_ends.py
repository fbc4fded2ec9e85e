"""How transactional messages end at the server, and that their senders hear of it: [MS-MQQB] 2.2.5, 3.1.7.2.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lior.security import Acl, SecurityDescriptor
from tests.interop.conftest import Target, new_queue
from tests.interop.daemon import Daemon, eventually
from tests.interop.second_packets import UserMessage
from tests.interop.second_peer import Identity, Listener, Session
from tests.interop.test_fates import NOT_ARRIVED, admin, notices

SETTINGS = {"binary.order_ack": 0.1}


@pytest.mark.spec("QB-156", "QB-157", "QB-174", "QB-151", "QB-023", "QB-024", "QB-025", "QB-207")
@pytest.mark.parametrize(("case", "reason"), [("missing", 0x8000), ("plain", 0x8009), ("quota", 0x8003)])
def test_a_refused_message_has_a_negative_end_and_does_not_stop_its_stream(
    server: Daemon, session: Session, me: Identity, case: str, reason: int
) -> None:
    properties: dict[str, Any] = {"transactional": case != "plain", "quota": 2}
    target = Target(server, "missing") if case == "missing" else new_queue(server, **properties)
    stream = next(me.streams)
    message = session.transactional(target.direct, b"x" * 5000, stream, 1, negative_journal=True)
    final, body = session.final_body()
    assert final.message_class == reason
    assert tuple(body) == (stream, 1, 0, me.guid, message.message_id)
    assert session.recoverable_received == 1
    session.acknowledge()
    session.transactional(target.direct, b"small", stream, 2, negative_journal=True)
    if case == "quota":
        while session.order_body()[1].number != 2:
            session.acknowledge()
        target.holds(b"small")
    else:
        assert session.final_body()[1].number == 2


@pytest.mark.spec("QB-166", "QB-203")
def test_a_sender_without_the_right_gets_a_negative_end_and_no_notice(
    server: Daemon, me: Identity, told: tuple[Session, Listener], stream_queue: Target
) -> None:
    session, listener = told
    nobody = SecurityDescriptor(dacl=Acl())
    server.qm.set_security(stream_queue.path, nobody)
    about: dict[str, Any] = {"acknowledge": NOT_ARRIVED, "admin": admin(me)}
    session.transactional(stream_queue.direct, b"x", next(me.streams), 1, **about)
    final, _ = session.final_body()
    assert final.message_class == 0x8004
    assert notices(session, listener, 0) == []
    assert stream_queue.bodies() == []


@pytest.mark.spec("QB-197", "QB-024", "QB-119", "QB-023")
@pytest.mark.parametrize(("how", "reason"), [
    ("receive", 0x4000), ("purge", 0xC001), ("delete", 0xC000), ("expire", 0xC002),
])  # fmt: skip
@pytest.mark.parametrize("wish", ["positive_journal", "negative_journal", "final_ack"])
def test_the_end_of_an_accepted_message_is_told(
    server: Daemon, session: Session, me: Identity, stream_queue: Target, how: str, reason: int, wish: str
) -> None:
    stream = next(me.streams)
    values: dict[str, Any] = {wish: True, "time_to_be_received": 2 if how == "expire" else 0xFFFFFFFF}
    message = session.transactional(stream_queue.direct, b"x", stream, 1, **values)
    if how != "expire":
        stream_queue.holds(b"x")
    if how == "receive":
        with server.qm.open_queue(stream_queue.path) as opened:
            opened.receive(60)
    elif how == "purge":
        server.qm.purge_queue(stream_queue.path)
    elif how == "delete":
        server.qm.delete_queue(stream_queue.path)
    final, body = session.final_body()
    assert final.message_class == reason
    assert tuple(body) == (stream, 1, 0, me.guid, message.message_id)


@pytest.mark.spec("QB-197")
def test_nobody_is_told_the_end_of_what_did_not_ask(
    server: Daemon, session: Session, me: Identity, stream_queue: Target, queue: Target
) -> None:
    session.transactional(stream_queue.direct, b"x", next(me.streams), 1)
    session.recoverable(queue.direct, b"y", positive_journal=True, negative_journal=True)
    stream_queue.holds(b"x")
    queue.holds(b"y")
    for target in (stream_queue, queue):
        with server.qm.open_queue(target.path) as opened:
            opened.receive(60)
    found = [p for p in session.arriving(0.5) if isinstance(p, UserMessage) and p.message_class != 0x00FF]
    assert found == []


@pytest.mark.spec("QB-197", "QB-179", "QB-106")
def test_the_end_is_told_after_a_kill_too(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data", settings=SETTINGS).prepare(transactional=["t"]) as server:
        target, stream = Target(server, "t"), next(me.streams)
        with me.open(server.address) as session:
            session.transactional(target.direct, b"x", stream, 1, positive_journal=True)
            session.order_body()
            session.acknowledge()
            with server.qm.open_queue(target.path) as opened:
                opened.receive(60)
            server.kill()
        with me.listen() as listener:
            server.start()
            with listener.accept() as session:
                final, body = session.final_body()
                assert (final.message_class, body.stream, body.number) == (0x4000, stream, 1)
                session.acknowledge()
        eventually(lambda: not server.outgoing(me.address))
