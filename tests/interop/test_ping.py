"""The ping service over UDP: [MS-MQQB] 2.2.7, 3.1.5.2.2, 3.1.7.6 to 3.1.7.9 and frames 1 and 2."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.daemon import Daemon
from tests.interop.second_packets import Establish
from tests.interop.second_peer import PATIENCE, Identity, Silence
from tests.interop.test_second_peer import frame
from tests.interop.test_sending import to

PORT = 3527
SETTINGS = {"ping.port": PORT}


@pytest.fixture
def udp(me: Identity) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind((me.address, PORT))
        opened.settimeout(PATIENCE)
        yield opened


def ping(flags: int = 0, signature: int = 0x5548, cookie: int = 1, guid: bytes = bytes(16)) -> bytes:
    return struct.pack("<HHI16s", flags, signature, cookie, guid)


def silent(udp: socket.socket, seconds: float = 0.3) -> bool:
    return not select.select([udp], [], [], seconds)[0]


@pytest.mark.spec("QB-003", "QB-028", "QB-029", "QB-200", "QB-208")
def test_the_ping_of_the_document_gets_one_answer(server: Daemon, me: Identity, udp: socket.socket) -> None:
    with me.open(server.address) as session:
        guid = session.remote
    udp.sendto(frame("frame1_ping_request"), (server.address, PORT))
    answer, source = udp.recvfrom(1000)
    assert source == (server.address, PORT)
    flags, signature, cookie, found = struct.unpack("<HHI16s", answer)
    assert (signature, cookie, found) == (0x5548, 4, guid)
    assert flags & 1 == 1  # RC as it came
    assert not flags & 2  # RF: it would not refuse
    assert answer[2:8] == frame("frame2_ping_response")[2:8]
    assert silent(udp)


@pytest.mark.spec("QB-029", "QB-030")
@pytest.mark.parametrize("flags", [0, 1, 0x7D00, 0xFFFD])
def test_the_answer_copies_cookie_and_class(server: Daemon, udp: socket.socket, flags: int) -> None:
    cookie = struct.unpack("<I", os.urandom(4))[0]
    udp.sendto(ping(flags, cookie=cookie), (server.address, PORT))
    found = struct.unpack("<HHI16s", udp.recv(1000))
    assert (found[0] & 3, found[2]) == (flags & 1, cookie)


@pytest.mark.spec("QB-003", "QB-030")
def test_nothing_else_is_answered(server: Daemon, udp: socket.socket) -> None:
    others = [b"", ping()[:23], ping() + b"\0", ping(signature=0x5549), frame("frame8_session_ack"), bytes(2000)]
    for datagram in others:
        udp.sendto(datagram, (server.address, PORT))
    assert silent(udp)


@pytest.mark.spec("QB-003")
@pytest.mark.parametrize("answers", [True, False])
def test_pings_are_answered_without_being_told_so_and_not_with_port_0(
    tmp_path: Path, udp: socket.socket, answers: bool
) -> None:
    """Systems that ping connect only to who answers: without an answer their messages would never come."""
    with Daemon(tmp_path / "data", settings={} if answers else {"ping.port": 0}).prepare() as server:
        udp.sendto(frame("frame1_ping_request"), (server.address, PORT))
        assert bool(select.select([udp], [], [], 30 if answers else 0.5)[0]) == answers


@pytest.mark.spec("QB-003")
def test_who_is_not_told_to_pings_nobody_and_says_so(tmp_path: Path, me: Identity, udp: socket.socket) -> None:
    with Daemon(tmp_path / "data").prepare() as server, me.listen() as listener:
        server.qm.send(to(me), b"x")
        with listener.connection() as session:
            assert session.take(Establish).operating_system & 0x100  # SE
            assert silent(udp, 0)


@pytest.mark.spec("QB-003", "QB-017", "QB-084", "QB-091", "QB-131")
def test_who_is_told_to_ping_first_does_so_and_says_so(tmp_path: Path, me: Identity, udp: socket.socket) -> None:
    settings = {"ping.before_connecting": True, "ping.response_timeout": PATIENCE}
    with Daemon(tmp_path / "data", settings=settings).prepare() as server, me.listen() as listener:
        server.qm.send(to(me), b"x")
        request, source = udp.recvfrom(1000)
        flags, signature, cookie, _ = struct.unpack("<HHI16s", request)
        assert source[0] == server.address
        assert (signature, cookie, flags & 2) == (0x5548, 1, 0)
        with pytest.raises(Silence):
            listener.connection(0.2)
        udp.sendto(ping(flags & 1, cookie=cookie, guid=me.guid), source)
        with listener.connection() as session:
            assert not session.take(Establish).operating_system & 0x100  # SE


@pytest.mark.spec("QB-030", "QB-115", "QB-131", "QB-084")
@pytest.mark.parametrize("answer", ["none", "refused", "another cookie", "another address"])
def test_a_ping_without_the_right_answer_fails_after_a_second(
    tmp_path: Path, me: Identity, udp: socket.socket, answer: str
) -> None:
    """The attempt that follows the retry interval goes straight to TCP."""
    settings = {"ping.before_connecting": True, "binary.retry": 0.4}
    with Daemon(tmp_path / "data", settings=settings).prepare() as server, me.listen() as listener:
        start = time.monotonic()
        server.qm.send(to(me), b"x")
        request, source = udp.recvfrom(1000)
        flags, _, cookie, _ = struct.unpack("<HHI16s", request)
        if answer == "refused":
            udp.sendto(ping(flags & 1 | 2, cookie=cookie, guid=me.guid), source)
        elif answer == "another cookie":
            udp.sendto(ping(flags & 1, cookie=cookie - 1, guid=me.guid), source)
        elif answer == "another address":
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.bind((server.address, 0))
                stranger.sendto(ping(flags & 1, cookie=cookie, guid=me.guid), source)
        with listener.connection() as session:
            waited = time.monotonic() - start
            assert (0.3 if answer == "refused" else 1.2) < waited < 20.0
            assert session.take(Establish).operating_system & 0x100
