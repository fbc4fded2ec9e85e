"""[MS-MQQB] 3.1.5.2 to 3.1.5.4 and the frames of 4.1, byte by byte, against a real server."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from tests.interop.conftest import Target
from tests.interop.daemon import Daemon
from tests.interop.second_packets import NULL, Establish, Packet, Parameters, UserMessage, decode
from tests.interop.second_peer import Gone, Identity, Listener, Session, Silence
from tests.interop.test_second_peer import frame

SETTINGS = {"binary.initialisation": 3.0}


def outgoing(server: Daemon, me: Identity) -> str:
    return rf"DIRECT=TCP:{me.address}\private$\inbox"


@pytest.mark.spec("QB-001", "QB-012", "QB-134", "QB-136", "QB-209", "QB-211")
def test_the_frames_of_the_document_open_a_session(server: Daemon, me: Identity) -> None:
    request = bytearray(frame("frame3_establish_connection_request"))
    request[36:52] = NULL  # that ServerGuid is another's; zero is everybody's
    with me.connect(server.address) as session:
        session.write(bytes(request))
        data = session.read()
        assert len(data) == 572
        assert data[:1] == b"\x10"
        assert struct.unpack_from("<H", data, 2)[0] & ~7 == 8  # IN
        assert data[4:16] == request[4:16]  # signature, size, time
        assert data[16:20] == b"\0\0\2\0"
        assert data[20:36] == request[20:36]  # ClientGuid
        assert data[36:52] != NULL
        assert data[52:56] == request[52:56]  # TimeStamp
        assert data[56] == 0x10
        assert data[57] & 1 == request[57] & 1  # SE
        assert data[58:60] == bytes(2)
        assert data[60:] == b"\x5a" * 512
        request = bytearray(frame("frame5_connection_parameters_request"))
        session.write(bytes(request))
        answer = session.read()
        assert answer[4:] == frame("frame6_connection_parameters_response")[4:]


@pytest.mark.spec("QB-213", "QB-212", "QB-037", "QB-026", "QB-111")
def test_the_message_of_the_document_is_acknowledged_as_the_document_shows(
    server: Daemon, me: Identity, queue: Target
) -> None:
    """After half the AckTimeout, which is 20 seconds at the least."""
    message = decode(frame("frame7_user_message"))
    assert isinstance(message, UserMessage)
    message.destination, message.sent_time = queue.direct, int(time.time())
    with me.open(server.address) as session:
        start = time.monotonic()
        session.send(message)
        ack = session.read()
        waited = time.monotonic() - start
        expected = frame("frame8_session_ack")
        assert ack[0:1] + ack[4:] == expected[0:1] + expected[4:]
        assert struct.unpack_from("<H", ack, 2)[0] & ~7 == 0x18  # IN, SH
        assert 9.0 < waited < 18.0
    queue.holds(b"a\0" * 1000)
    with server.qm.open_queue(queue.path) as opened:
        received = opened.receive(0)
        assert received.label == "mqsender label"
        assert (received.priority, received.body_type) == (message.priority, 8)


@pytest.mark.spec("QB-011", "QB-134")
def test_refuses_who_asks_for_another_queue_manager_and_closes(server: Daemon, me: Identity) -> None:
    with me.connect(server.address) as session:
        answer = session.initiate(os.urandom(16))
        assert answer.refused
        assert session.until_closed() == []


@pytest.mark.spec("QB-011", "QB-134", "QB-004")
def test_accepts_who_asks_for_it_by_its_own_guid(server: Daemon, me: Identity) -> None:
    with me.open(server.address) as first:
        guid = first.remote
    assert guid not in (NULL, me.guid)
    with me.open(server.address, guid) as second:
        assert second.remote == guid
    assert UUID(str(server.qm.properties()["identifier"])).bytes_le == guid


@pytest.mark.spec("QB-018", "QB-017")
@pytest.mark.parametrize("system", [0x0010, 0x0110, 0x0310, 0x0710, 0xF910])
def test_echoes_the_ping_bit_and_ignores_padding(server: Daemon, me: Identity, system: int) -> None:
    with me.connect(server.address) as session:
        session.write(Establish(me.guid, operating_system=system, padding=os.urandom(512)).encode())
        answer = session.take(Establish)  # with a padding of 5A, which is checked
        assert answer.operating_system & 0x100 == system & 0x100


@pytest.mark.spec("QB-014")
@pytest.mark.parametrize(
    ("recoverable", "ack"), [(499, 20000), (120001, 20000), (500, 19999), (500, 120001), (0, 0), (0xFFFFFFFF,) * 2]
)
def test_closes_on_timeouts_out_of_range(server: Daemon, me: Identity, recoverable: int, ack: int) -> None:
    with me.connect(server.address) as session:
        session.write(Establish(me.guid).encode())
        session.take(Establish)
        session.write(Parameters(recoverable, ack).encode())
        assert session.until_closed() == []


@pytest.mark.spec("QB-013", "QB-136")
@pytest.mark.parametrize(
    ("recoverable", "ack", "window"), [(500, 20000, 1), (120000, 120000, 0xFFFF), (1496, 20000, 0)]
)
def test_echoes_timeouts_and_tells_its_own_window(
    server: Daemon, me: Identity, recoverable: int, ack: int, window: int
) -> None:
    with me.open(server.address, recoverable_ack_timeout=recoverable, ack_timeout=ack, window=window) as session:
        assert session.window == 64


# As the initiator


@pytest.mark.spec("QB-132", "QB-135", "QB-015", "QB-016", "QB-103", "QB-137")
def test_its_request_is_the_one_of_the_document(server: Daemon, me: Identity, listener: Listener) -> None:
    server.qm.send(outgoing(server, me), b"x", express=True)
    with listener.connection() as session:
        data = session.read()
        assert len(data) == 572
        assert struct.unpack_from("<BxHIII", data)[0:1] == (0x10,)
        assert data[4:16] == frame("frame3_establish_connection_request")[4:16]
        assert data[16:20] == b"\0\0\2\0"
        request = decode(data)
        assert isinstance(request, Establish)
        assert request.server == NULL  # a direct name
        assert request.operating_system in (0x0110, 0x0310)
        assert request.padding == b"\x5a" * 512
        with pytest.raises(Silence):
            session.read(0.2)  # nothing before the answer
        session.write(replace(request, server=me.guid).encode())
        parameters = session.take(Parameters)
        assert (parameters.recoverable_ack_timeout, parameters.ack_timeout, parameters.window) == (500, 20000, 64) or (
            500 <= parameters.recoverable_ack_timeout < 8 * 1000
        )
        with pytest.raises(Silence):
            session.read(0.2)
        session.write(Parameters(parameters.recoverable_ack_timeout, parameters.ack_timeout, 64).encode())
        assert session.message().body == b"x"
        session.acknowledge()


@pytest.mark.spec("QB-135", "QB-129", "QB-076", "QB-210")
def test_a_wrong_answer_is_refused_and_tried_again(server: Daemon, me: Identity, listener: Listener) -> None:
    server.qm.send(outgoing(server, me), b"x", express=True)
    wrong: list[Callable[[Establish], Packet]] = [
        lambda request: replace(request, client=os.urandom(16), server=me.guid),
        lambda request: replace(request, server=me.guid, refused=True),
        lambda request: decode(frame("frame4_establish_connection_response")),
        lambda request: replace(request, server=me.guid, operating_system=0x0100),
    ]
    for answer in wrong:
        with listener.connection() as session:
            session.write(answer(session.take(Establish)).encode())
            assert session.until_closed() == []
    with listener.accept() as session:
        assert session.message().body == b"x"
        session.acknowledge()


@pytest.mark.spec("QB-135")
def test_the_time_of_the_round_trip_decides_when_recoverable_messages_are_acknowledged(
    server: Daemon, me: Identity, listener: Listener
) -> None:
    """8 * RTT within 500 to 120000 ms; what the answer claims of the time is not believed."""
    start = time.monotonic()
    server.qm.send(outgoing(server, me), b"x", express=True)
    with listener.connection() as session:
        request = session.take(Establish)
        with pytest.raises(Silence):
            session.read(0.25)
        session.write(replace(request, server=me.guid).encode())
        found = session.take(Parameters).recoverable_ack_timeout
        assert 2000 <= found <= 8000 * (time.monotonic() - start)
    for forged in (request.time_stamp + 10_000_000, request.time_stamp - 10_000_000):
        with listener.connection() as session:
            request = session.take(Establish)
            session.write(replace(request, server=me.guid, time_stamp=forged & 0xFFFFFFFF).encode())
            try:
                assert 500 <= session.take(Parameters).recoverable_ack_timeout <= 120000
            except Gone:
                continue  # an answer with another TimeStamp is none of ours: that is as good
    with listener.accept() as session:
        assert session.message().body == b"x"
        session.acknowledge()


@pytest.mark.spec("QB-107", "QB-070")
def test_each_silent_connection_is_closed_after_its_own_time(server: Daemon, me: Identity) -> None:
    started = []
    for number in range(5):
        start = time.monotonic()
        session = me.connect(server.address)
        if number % 2:
            session.write(Establish(me.guid).encode())
            session.take(Establish)
        started.append((session, start))
        with pytest.raises(Silence):
            session.read(0.1)
    for session, start in started:
        assert session.until_closed() == []
        assert 2.7 < time.monotonic() - start < 30.0
        session.close()


@pytest.mark.spec("QB-092")
def test_the_guid_is_the_same_after_a_restart(server: Daemon, me: Identity) -> None:
    with me.open(server.address) as session:
        before = session.remote
    server.restart()
    with me.open(server.address) as session:
        assert session.remote == before


def test_sessions_acknowledge_nothing_that_did_not_come(server: Daemon, session: Session) -> None:
    session.nothing(0.6)
    session.acknowledge()
    session.nothing(0.6)
    assert session.headers == []
