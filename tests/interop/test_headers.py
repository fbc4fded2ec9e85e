"""Optional headers that come and go, names of every kind, and security headers that nobody can verify."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import lior
from tests.interop.conftest import Target, new_queue
from tests.interop.daemon import Daemon, eventually
from tests.interop.second_packets import Security, UserMessage, private
from tests.interop.second_peer import Gone, Identity, Listener, Session
from tests.interop.test_fates import NOT_ARRIVED, admin, notices
from tests.interop.test_malformed_packets import SID, addresses, soap
from tests.interop.test_sending import to

SETTINGS = {"binary.order_ack": 0.1}


def named(*names: str) -> bytes:
    """A FormatNameList of direct names; each string starts on two bytes, as the type in front of it ends."""
    return b"".join(struct.pack("<H", 3) + (name + "\0").encode("utf-16-le") for name in names)


def multi_queue(*names: str) -> bytes:
    listed = named(*names)
    header = addresses(count=len(names), names=listed)
    return header + bytes(-len(header) % 4) + addresses(0xC8) + addresses(0x12C) + struct.pack("<HHI", 0x15E, 0, 0)


@pytest.mark.spec("QB-033", "QB-062", "QB-063", "QB-064", "QB-066", "QB-067", "QB-059", "QB-007")
def test_a_message_with_every_optional_header_arrives(session: Session, queue: Target, stream_queue: Target) -> None:
    both = multi_queue(f"{stream_queue.direct.text}", f"{queue.direct.text}")
    message = session.identity.transactional(
        stream_queue.direct, b"everything", next(session.identity.streams), 1, connector=os.urandom(16),
        security=Security(1, (SID, b"", b"", b"", b"")), extension=b"ext", label="all",
        debug=b"\1\0\0\0" + os.urandom(16),
    )  # fmt: skip
    message.extra_flags = 1 << 28
    message.multi_queue = soap(1) + both  # in this order behind the DebugHeader
    session.send(message, piggyback=True)
    session.until_persisted()
    stream_queue.holds(b"everything")


@pytest.mark.spec("QB-067")
@pytest.mark.parametrize("debug", [b"\0\0\0\0", b"\1\0\0\0" + bytes(range(16)), b"\xfc\xff\xff\xff"])
def test_a_debug_header_of_either_length_is_read_over(session: Session, queue: Target, debug: bytes) -> None:
    session.recoverable(queue.direct, b"x", debug=debug)
    session.until_persisted()
    queue.holds(b"x")


@pytest.mark.spec("QB-062", "QB-063", "QB-064", "QB-065", "MQ-113")
def test_a_message_to_three_queues_is_three_packets_that_list_them_all(
    server: Daemon, me: Identity, listener: Listener
) -> None:
    names = [rf"TCP:{me.address}\private$\{name}" for name in ("one", "two", "three")]
    server.qm.send([f"DIRECT={name}" for name in names], b"to all")
    with listener.accept() as session:
        messages = [session.message() for _ in names]
        assert sorted(m.destination.text for m in messages if m.destination) == sorted(names)
        assert len({message.multi_queue for message in messages}) == 1
        for message in messages:
            header = message.multi_queue
            assert header is not None
            size, identifier, _, count = struct.unpack_from("<IHHI", header)
            assert (identifier, count) == (0x64, 3)
            listed = header[12:size].rstrip(b"\0")
            for name in names:
                assert (name + "\0").encode("utf-16-le").rstrip(b"\0") in listed + b"\0"
            assert header.endswith(bytes.fromhex("5e01000000000000"))
        session.acknowledge()
    eventually(lambda: not server.outgoing(me.address))


# Security headers


@pytest.mark.spec("QB-058", "QB-166")
def test_a_message_that_calls_itself_authenticated_is_not(server: Daemon, session: Session, queue: Target) -> None:
    forged = Security(1 | 0x10 | 0x300, (SID, b"", b"", b"", b""))  # AU, AS=3, and no signature
    session.recoverable(queue.direct, b"x", security=forged)
    session.until_persisted()
    with server.qm.open_queue(queue.path) as opened:
        security = opened.receive(60).security
    assert security is None or security.authentication_level == 0


@pytest.mark.spec("QB-048", "QB-049")
def test_algorithms_of_a_message_that_uses_none_do_not_matter(session: Session, queue: Target) -> None:
    session.recoverable(queue.direct, b"x", hash_algorithm=0, encryption=0)
    session.recoverable(queue.direct, b"y", hash_algorithm=0x8005, encryption=0x6601)
    session.until_persisted()
    queue.holds(b"x", b"y")


SIGNED = Security(1 | 0x40, (SID, b"", b"\x01" * 128, b"\x30\x03\x02\x01\x00", b""))  # DE; no certificate at all
BROKEN: dict[str, tuple[int, dict[str, Any]]] = {
    "a certificate that is none": (0x8006, {"security": SIGNED}),
    "a hash that there is not": (0x8006, {"security": SIGNED, "hash_algorithm": 0x8005}),
    "a privacy level that there is not": (0x8007, {"security": Security(0x20, (b"", b"k" * 140, b"", b"", b"")),
                                                   "privacy": 2, "encryption": 0x6610}),
    "a cipher that there is not": (0x8007, {"security": Security(0x20, (b"", b"k" * 140, b"", b"", b"")),
                                            "privacy": 5, "encryption": 0x6601}),
    "a key of which we have no half": (0x800B, {"security": Security(0x20, (b"", b"k" * 140, b"", b"", b"")),
                                    "privacy": 5, "encryption": 0x6610}),
}  # fmt: skip


@pytest.mark.spec("QB-061", "QB-162", "QB-165", "QB-047", "QB-048", "QB-049", "QB-203")
@pytest.mark.parametrize("what", BROKEN)
def test_what_cannot_be_verified_is_refused_and_only_its_end_is_told(
    me: Identity, told: tuple[Session, Listener], stream_queue: Target, what: str
) -> None:
    session, listener = told
    reason, values = BROKEN[what]
    about: dict[str, Any] = {"acknowledge": NOT_ARRIVED, "admin": admin(me), **values}
    session.transactional(stream_queue.direct, bytes(16), next(me.streams), 1, **about)
    final, _ = session.final_body()
    assert final.message_class == reason
    assert notices(session, listener, 0) == []
    assert stream_queue.bodies() == []


@pytest.mark.spec("QB-167")
def test_a_queue_for_signed_messages_takes_no_others(server: Daemon, session: Session, me: Identity) -> None:
    target = new_queue(server, transactional=True, authentication=True)
    session.transactional(target.direct, b"unsigned", next(me.streams), 1)
    assert session.final_body()[0].message_class == 0x8006
    private_only = new_queue(server, transactional=True, privacy_level=2)
    session.acknowledge()
    session.transactional(private_only.direct, b"clear", next(me.streams), 1)
    assert session.final_body()[0].message_class == 0x8007
    assert target.bodies() == private_only.bodies() == []


# Names


@pytest.mark.spec("QB-199", "QB-036", "QB-182")
def test_a_queue_manager_that_was_met_is_found_by_its_guid(server: Daemon, me: Identity, listener: Listener) -> None:
    with me.open(server.address):
        pass
    server.qm.send(rf"PRIVATE={UUID(bytes_le=me.guid)}\00000005", b"by guid")
    with listener.connection() as session:
        request = session.accept()
        assert request.server == me.guid  # not a direct name: it knows whom it wants
        message = session.message()
        assert (message.destination, message.address) == (private(5), me.guid)
        session.acknowledge()
    eventually(lambda: not server.outgoing(str(UUID(bytes_le=me.guid)).upper()))


@pytest.mark.spec("QB-199", "QB-104")
def test_a_session_from_the_right_address_with_another_queue_manager_is_not_for_its_messages(
    server: Daemon, me: Identity
) -> None:
    """Several may share an address: a name by GUID means one of them."""
    with me.open(server.address):
        pass
    server.qm.send(rf"PRIVATE={UUID(bytes_le=me.guid)}\00000005", b"for one of two")
    with Identity(me.address, os.urandom(16)).open(server.address) as other:
        other.nothing(0.6)
    with me.open(server.address) as session:
        assert session.message().body == b"for one of two"
        session.acknowledge()
        eventually(lambda: not server.outgoing(str(UUID(bytes_le=me.guid)).upper()))


@pytest.mark.spec("QB-216")
def test_a_queue_manager_that_nobody_knows_cannot_be_written_to(server: Daemon) -> None:
    with pytest.raises(lior.LiorError):
        server.qm.send(rf"PRIVATE={UUID(bytes=os.urandom(16))}\00000005", b"to nobody")


@pytest.mark.spec("QB-104", "QB-202")
def test_an_outgoing_queue_says_how_it_stands(server: Daemon, me: Identity, listener: Listener) -> None:
    def state() -> str:
        return server.qm.queue(to(me)).state.upper()

    server.qm.send(to(me), b"x")
    with listener.accept() as session:
        session.message()
        session.acknowledge()
        assert eventually(lambda: state() == "CONNECTED")
        server.qm.pause(to(me))
        assert state() == "ONHOLD"
    server.qm.resume(to(me))
    assert state() != "ONHOLD"


@pytest.mark.spec("QB-104", "QB-206")
def test_an_outgoing_queue_that_joins_an_open_session_shows_it(
    server: Daemon, me: Identity, listener: Listener
) -> None:
    server.qm.send(to(me, "first"), b"x")
    with listener.accept() as session:
        session.message()
        server.qm.send(to(me, "second"), b"y")
        assert session.message().body == b"y"
        queues = [queue for queue in server.qm.outgoing() if me.address in queue["name"]]
        assert len(queues) == 2
        for queue in queues:
            assert (queue["next_hops"], queue["state"].upper()) == ([f"IP={me.address}"], "CONNECTED")
            assert queue["history"][-1]["status"] == "READY"
        session.acknowledge()
    eventually(lambda: not server.outgoing(me.address))


@pytest.mark.spec("QB-216", "QB-002")
@pytest.mark.parametrize(
    "name", [f"PUBLIC={UUID(int=7)}", f"DL={UUID(int=7)}", r"DIRECT=IPX:00000012:00aa00bb\q", r"DIRECT=SPX:1:2\q"]
)
def test_names_that_need_what_is_not_here_fail_at_once(server: Daemon, name: str) -> None:
    with pytest.raises(lior.LiorError):
        server.qm.send(name, b"x")


# What cannot be stored now


@pytest.mark.spec("QB-175", "QB-154")
def test_what_cannot_be_stored_now_is_neither_acknowledged_nor_taken_for_seen(tmp_path: Path, me: Identity) -> None:
    with Daemon(tmp_path / "data").prepare("q", transactional=["t"]) as server:
        plain, stream_target = Target(server, "q"), Target(server, "t")
        server.qm.set_properties(queue_manager_quota=8)
        pending: list[UserMessage] = [me.message(plain.direct, b"%d" % n + bytes(2000), delivery=1) for n in range(8)]
        stream = next(me.streams)
        pending += [me.transactional(stream_target.direct, b"%d" % n + bytes(2000), stream, n) for n in range(1, 5)]
        with me.open(server.address) as session:
            try:
                for message in pending:
                    session.send(message)
                session.until_closed()
            except Gone:
                pass
            assert len(session.persisted) < 8
        server.qm.set_properties(queue_manager_quota=1 << 20)
        with me.open(server.address) as session:
            for message in pending:
                session.send(message)
            session.until_persisted()
        assert [body.rstrip(b"\0") for body in plain.bodies()] == [b"%d" % n for n in range(8)]
        assert [body.rstrip(b"\0") for body in stream_target.bodies()] == [b"%d" % n for n in range(1, 5)]
