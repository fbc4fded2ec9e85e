"""Pings: who is asked, who answers, and whose answer counts ([MS-MQQB] 2.2.7, 3.1.7.6 to 3.1.7.9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.protocols.binary.ping import MOST_WAITING, Pinger, PingResult, answer
from lior.protocols.binary.settings import SessionSettings
from lior.wire.session_packets import Ping
from tests.protocols.binary.peers import DEFAULTS, OWN, PEER
from tests.wire import second_session_packets as second
from tests.wire.packets import frame

HERE, THERE = ("192.0.2.1", 3527), ("192.0.2.2", 3527)


def response(cookie: int, flags: int = 1) -> bytes:
    return Ping(flags, cookie=cookie, qm_guid=PEER).encode()


@pytest.mark.spec("QB-028", "QB-029", "QB-200")
@pytest.mark.parametrize("server", [False, True])
def test_a_request_has_the_next_cookie_and_says_what_we_are(server: bool) -> None:
    pinger = Pinger(SessionSettings(server_class=server), OWN)
    for cookie in (1, 2, 3):
        fields = second.ping(pinger.request(HERE, 0.0) or b"")
        assert fields == {"not_a_server": not server, "refused": 0, "flags": int(not server), "cookie": cookie,
                          "qm_guid": OWN}


@pytest.mark.spec("QB-208", "QB-029", "QB-200")
def test_our_response_to_frame_1_is_frame_2_with_our_identity_and_no_junk() -> None:
    theirs = Ping.decode(frame("frame2_ping_response"))
    ours = answer(frame("frame1_ping_request"), OWN, refuse=False)
    assert ours == Ping(theirs.flags & 3, cookie=theirs.cookie, qm_guid=OWN).encode()


@pytest.mark.spec("QB-029", "QB-200")
@pytest.mark.parametrize("flags", [0x0000, 0x0001, 0x0002, 0xFFFC, 0xFFFF])
@pytest.mark.parametrize("refuse", [False, True])
def test_a_response_copies_one_bit_and_says_whether_a_session_would_be_refused(flags: int, refuse: bool) -> None:
    fields = second.ping(answer(Ping(flags, cookie=9, qm_guid=PEER).encode(), OWN, refuse) or b"")
    assert fields["not_a_server"] == flags & 1 and fields["refused"] == refuse and fields["flags"] < 4
    assert fields["cookie"] == 9


@pytest.mark.spec("QB-030")
@given(st.binary(max_size=30))
def test_what_is_no_ping_is_ignored(datagram: bytes) -> None:
    is_ping = len(datagram) == 24 and datagram[2:4] == b"\x48\x55"
    assert (answer(datagram, OWN, refuse=False) is not None) is is_ping
    pinger = Pinger(DEFAULTS, OWN)
    pinger.request(HERE, 0.0)
    if not is_ping:
        assert pinger.receive(datagram, HERE) is None and pinger.deadline is not None


@pytest.mark.spec("QB-200")
@pytest.mark.parametrize(("flags", "accepted"), [(0, True), (1, True), (2, False), (3, False), (0xFFFD, True)])
def test_a_response_says_whether_to_connect(flags: int, accepted: bool) -> None:
    pinger = Pinger(DEFAULTS, OWN)
    pinger.request(HERE, 0.0)
    assert pinger.receive(response(1, flags), HERE) == PingResult(HERE, accepted, answered=True)
    assert pinger.deadline is None and pinger.tick(5.0) == []
    assert pinger.receive(response(1, flags), HERE) is None  # a second one answers nothing


@pytest.mark.spec("QB-030")
def test_a_response_with_another_cookie_or_from_elsewhere_is_dropped() -> None:
    pinger = Pinger(DEFAULTS, OWN)
    pinger.request(HERE, 0.0)
    assert pinger.receive(response(0), HERE) is None
    assert pinger.receive(response(2), HERE) is None
    assert pinger.receive(response(1), THERE) is None
    assert pinger.tick(1.0) == [PingResult(HERE, accepted=False, answered=False)]


@pytest.mark.spec("QB-115")
def test_nobody_answers_within_a_second() -> None:
    pinger = Pinger(DEFAULTS, OWN)
    pinger.request(HERE, 10.0)
    pinger.request(THERE, 10.4)
    assert pinger.deadline == 11.0 and pinger.tick(10.9) == []
    assert pinger.tick(11.0) == [PingResult(HERE, accepted=False, answered=False)]
    assert pinger.deadline == 11.4
    assert pinger.receive(response(1), HERE) is None  # too late


@pytest.mark.spec("QB-091")
def test_two_hosts_may_be_asked_at_once() -> None:
    pinger = Pinger(DEFAULTS, OWN)
    pinger.request(HERE, 0.0)
    pinger.request(THERE, 0.0)
    for address, cookie in ((THERE, 2), (HERE, 1)):
        result = pinger.receive(response(cookie), address)
        assert result is not None and result.accepted


@pytest.mark.spec("QB-030")
def test_the_most_recent_request_to_a_host_counts() -> None:
    pinger = Pinger(DEFAULTS, OWN)
    pinger.request(HERE, 0.0)
    pinger.request(HERE, 0.5)
    assert pinger.receive(response(1), HERE) is None and pinger.deadline == 1.5
    assert pinger.receive(response(2), HERE) is not None


def test_only_so_many_requests_wait_at_once() -> None:
    pinger = Pinger(DEFAULTS, OWN)
    for number in range(MOST_WAITING):
        assert pinger.request(number, 0.0) is not None
    assert pinger.request("one more", 0.0) is None
    assert len(pinger.tick(1.0)) == MOST_WAITING
    assert pinger.request("one more", 1.0) is not None
