"""Several requests on one connection before the first is answered (RFC 9112 9.3.2): both ends."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lior
from lior.message import MessageClass
from lior.testing.serving import Serving, loopback_address
from tests.server.srmp import desk
from tests.server.srmp.desk import PLAIN, PORT, Built, url
from tests.server.srmp.test_sending import DEAD, DEADXACT, copies

LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)
OFFER = b"Lior-Pipeline: 64\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with desk.serving(tmp_path_factory.mktemp("srmp") / "data") as found:
        yield found


@pytest.fixture
def qm(server: Serving) -> Iterator[lior.QueueManager]:
    with desk.connect(server) as found:
        found.purge_queue(PLAIN)
        yield found


def several(server: Serving, *requests: bytes) -> list[int]:
    """Statuses of what was sent at once, until the server ends the connection or all are answered."""
    with socket.create_connection((server.address, PORT), timeout=120) as connection:
        sender = threading.Thread(target=lambda: send_all(connection, b"".join(requests)))
        sender.start()
        found = b""
        while found.count(b"\r\n\r\n") < len(requests):
            try:
                more = connection.recv(65536)
            except ConnectionResetError:
                break
            if not more:
                break
            found += more
        sender.join(120)
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", found)]


def send_all(connection: socket.socket, octets: bytes) -> None:
    with contextlib.suppress(OSError):  # a server that refuses does not read on
        connection.sendall(octets)


def request(server: Serving, built: Built, path: str = "/msmq/private$/q") -> bytes:
    return desk.request(server.address, *built.entity(), path)


def test_what_comes_in_a_row_is_answered_in_its_order(server: Serving, qm: lior.QueueManager) -> None:
    bodies = [b"%d" % number for number in range(300)]
    requests = [request(server, Built(url(server, "nosuch" if number % 7 == 3 else "plain"), body=body))
                for number, body in enumerate(bodies)]  # fmt: skip
    assert several(server, *requests) == [400 if number % 7 == 3 else 200 for number in range(300)]
    with qm.open_queue(PLAIN) as queue:
        found = [queue.receive(timeout=60).body for _ in range(qm.queue(PLAIN).messages)]
    assert found == [body for number, body in enumerate(bodies) if number % 7 != 3]


def test_behind_a_request_that_is_none_nothing_is_taken(server: Serving, qm: lior.QueueManager) -> None:
    good = request(server, Built(url(server, "plain")))
    other = [request(server, Built(url(server, "plain"))) for _ in range(2)]
    for bad, status in ((b"GET /msmq/x HTTP/1.1\r\nHost: x\r\n\r\n", 405), (other[0].replace(b"/msmq", b"/x"), 404),
                        (other[0].replace(b"Content-Length: ", b"Content-Length: 1\r\nContent-Length: "), 400),
                        (b"\0" * 40 + b"\r\n\r\n", 400)):  # fmt: skip
        assert several(server, good, bad, other[1]) == [200, status]
        assert several(server, bad, good) == [status]
    assert qm.queue(PLAIN).messages == 1  # the same identifier each time


def test_the_last_request_of_a_connection_says_so(server: Serving, qm: lior.QueueManager) -> None:
    first, second = (request(server, Built(url(server, "plain"))) for _ in range(2))
    assert several(server, first.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1), second) == [200]
    assert several(server, first.replace(b"HTTP/1.1", b"HTTP/1.0", 1), second) == [200]
    assert qm.queue(PLAIN).messages == 1


def test_who_writes_and_does_not_read_does_not_grow_us(server: Serving, qm: lior.QueueManager) -> None:
    before = resident(server)
    wrong = desk.request(server.address, "text/xml", b"<x/>")
    with socket.create_connection((server.address, PORT), timeout=30) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(1.0)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 64 << 20:
                sent += connection.send(wrong * 200)
        assert sent < 64 << 20
        assert desk.post(server, Built(url(server, "plain"))) == 200
    assert resident(server) - before < 32 << 20


def resident(server: Serving) -> int:
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) << 10


# ---- sending ---------------------------------------------------------------------------------------------------------


class Scripted:
    """A web server of octets: `answer` gets the number of the connection, how many requests came on it, and all of
    them, each time one has come; it returns what to write, and None at its end closes the connection."""

    def __init__(self, answer: Callable[[int, list[bytes]], tuple[bytes, bool]]) -> None:
        self.address = loopback_address()
        self.seen: list[tuple[int, bytes]] = []  # connection, request
        self.changed = threading.Condition()
        self._answer = answer
        self._listening = socket.create_server((self.address, PORT))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Scripted:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)

    def _accept(self) -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()
                number += 1

    def _serve(self, connection: socket.socket, number: int) -> None:
        data, requests = b"", list[bytes]()
        with connection, contextlib.suppress(OSError):
            while more := connection.recv(1 << 20):
                data += more
                while (end := data.find(b"\r\n\r\n")) >= 0:
                    found = LENGTH.search(data)
                    assert found is not None
                    whole = end + 4 + int(found[1])
                    if len(data) < whole:
                        break
                    requests.append(data[:whole])
                    with self.changed:
                        self.seen.append((number, data[:whole]))
                        self.changed.notify_all()
                    data = data[whole:]
                    octets, goes_on = self._answer(number, requests)
                    connection.sendall(octets)
                    if not goes_on:
                        return

    def wait(self, count: int) -> list[tuple[int, bytes]]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.seen) >= count, 60), f"{len(self.seen)} of {count}"
            return list(self.seen)


def answer(status: int = 200, more: bytes = OFFER) -> bytes:
    return b"HTTP/1.1 %d x\r\nContent-Length: 0\r\n%s\r\n" % (status, more)


def body(seen: bytes) -> bytes:
    return seen.rpartition(b"\r\n\r\n")[2].partition(b"--")[0]


def send(qm: lior.QueueManager, to: Scripted, count: int) -> None:
    """All at once, as it were: the queue is paused meanwhile."""
    name = f"DIRECT={url(to.address, 'q')}"
    qm.send(name, b"first")
    to.wait(1)
    desk.eventually(lambda: not outgoing_to(qm, to))
    queue = next(info.name for info in qm.queues() if info.kind == "outgoing" and to.address in info.name)
    qm.pause(queue)
    for number in range(count):
        qm.send(name, b"%d" % number)
    qm.resume(queue)


def outgoing_to(qm: lior.QueueManager, to: Scripted) -> int:
    return sum(info.messages for info in qm.queues() if info.kind == "outgoing" and to.address in info.name)


def test_a_server_that_offers_it_gets_many_requests_before_it_answers_one(
    server: Serving, qm: lior.QueueManager
) -> None:
    def slowly(number: int, requests: list[bytes]) -> tuple[bytes, bool]:
        if number == 0 or len(requests) == 1:
            return answer(), True
        return (answer() * 19 if len(requests) == 20 else b""), True

    with Scripted(slowly) as to:
        send(qm, to, 20)
        seen = to.wait(21)
        desk.eventually(lambda: not outgoing_to(qm, to))
    assert [body(octets) for _, octets in seen] == [b"first"] + [b"%d" % number for number in range(20)]
    assert [number for number, _ in seen] == [0] + [1] * 20  # a pause closes the connection


def test_a_server_that_does_not_offer_it_gets_one_request_at_a_time(server: Serving, qm: lior.QueueManager) -> None:
    early: list[int] = []

    def alone(number: int, requests: list[bytes]) -> tuple[bytes, bool]:
        time.sleep(0.02)  # in which another request would come in
        early.append(len(requests))
        return answer(more=b""), True

    with Scripted(alone) as to:
        send(qm, to, 10)
        to.wait(11)
        desk.eventually(lambda: not outgoing_to(qm, to))
    assert early == [1, *range(1, 11)]


def test_a_connection_that_ends_between_two_answers_is_followed_by_another_at_once(
    server: Serving, qm: lior.QueueManager
) -> None:
    def short(number: int, requests: list[bytes]) -> tuple[bytes, bool]:
        return (answer(), True) if number == 0 or len(requests) < 5 else (b"", False)

    with Scripted(short) as to:
        start = time.monotonic()
        send(qm, to, 30)
        desk.eventually(lambda: not outgoing_to(qm, to), 60)
        assert time.monotonic() - start < 30
        taken = dict.fromkeys(body(octets) for number, octets in to.seen if number)
    assert list(taken) == [b"%d" % number for number in range(30)]  # a reset takes answers away: some come twice


def test_a_last_answer_that_says_so_leaves_the_others_to_another_connection(
    server: Serving, qm: lior.QueueManager
) -> None:
    def last(number: int, requests: list[bytes]) -> tuple[bytes, bool]:
        if number == 0 or len(requests) < 3:
            return answer(), True
        return (answer(more=OFFER + b"Connection: close\r\n") if len(requests) == 3 else b""), True

    with Scripted(last) as to:
        send(qm, to, 12)
        desk.eventually(lambda: not outgoing_to(qm, to), 60)
        taken: list[bytes] = []
        for connection in range(1, max(number for number, _ in to.seen) + 1):
            taken += [body(octets) for number, octets in to.seen if number == connection][:3]
    assert taken == [b"%d" % number for number in range(12)]


def test_a_refusal_among_many_is_that_messages_own(server: Serving, qm: lior.QueueManager) -> None:
    statuses = {b"4 of many": 400}

    def some(number: int, requests: list[bytes]) -> tuple[bytes, bool]:
        return answer(statuses.get(body(requests[-1]), 200)), True

    with Scripted(some) as to:
        name = f"DIRECT={url(to.address, 'q')}"
        for number in range(10):
            qm.send(name, b"%d of many" % number)
        desk.eventually(lambda: not outgoing_to(qm, to))
        assert [body(octets) for _, octets in to.seen] == [b"%d of many" % number for number in range(10)]
    (dead,) = copies(qm, DEAD, b"4 of many")
    assert dead.failure_reason == MessageClass.NACK_BAD_DST_Q


@pytest.mark.spec("SR-198", "SR-187")
def test_a_stream_bridges_a_refusal_for_what_was_on_its_way_already(server: Serving, qm: lior.QueueManager) -> None:
    """Those behind it said that they follow the refused one: a receiver drops them, whatever it answers."""
    def some(number: int, requests: list[bytes]) -> tuple[bytes, bool]:
        if number == 0 and len(requests) == 1:
            return answer(), True
        if len(requests) < 6:
            return b"", True
        if len(requests) == 6:  # 2 is refused, 3 to 6 were sent before that was known
            return answer(400) + answer() * 4, True
        return answer(), True

    with Scripted(some) as to:
        with qm.transaction() as transaction:
            for number in range(1, 7):
                transaction.send(f"DIRECT={url(to.address, 'stream')}", b"%d" % number, dead_letter=True)
        seen = [octets for _, octets in to.wait(10)]
        again = seen[6:]
        assert [body(octets) for octets in again] == [b"3", b"4", b"5", b"6"]
        assert [re.findall(rb"<previous>(\d+)<", octets) for octets in again] == [[b"1"], [b"3"], [b"4"], [b"5"]]
        ids = [re.findall(rb"<id>([^<]+)<", octets) for octets in seen]
        assert ids[2:6] == ids[6:]
        desk.eventually(lambda: copies(qm, DEADXACT, b"2"))


def test_a_stream_behind_one_that_must_be_sent_again_comes_again_with_it(
    server: Serving, qm: lior.QueueManager
) -> None:
    def some(number: int, requests: list[bytes]) -> tuple[bytes, bool]:
        if number or len(requests) == 1:
            return answer(), True
        return (answer() + answer(503) + answer() * 3 if len(requests) == 6 else b""), True

    with Scripted(some) as to:
        with qm.transaction() as transaction:
            for number in range(1, 7):
                transaction.send(f"DIRECT={url(to.address, 'stream')}", b"%d" % number)
        seen = to.wait(10)
    assert [body(octets) for _, octets in seen] == [b"1", b"2", b"3", b"4", b"5", b"6", b"3", b"4", b"5", b"6"]
    assert [number for number, _ in seen] == [0] * 6 + [1] * 4


def test_a_server_that_never_answers_the_rest_gets_it_again_later(tmp_path: Path) -> None:
    def deaf(number: int, requests: list[bytes]) -> tuple[bytes, bool]:
        return (answer() if number > 1 or len(requests) < 4 else b""), True

    with desk.serving(tmp_path / "data", srmp__send_timeout=4.0) as server, desk.connect(server) as qm, \
            Scripted(deaf) as to:  # fmt: skip
        send(qm, to, 10)
        desk.eventually(lambda: not outgoing_to(qm, to), 60)
        done = [body(octets) for number, octets in to.seen if number == 2]
    assert done == [b"%d" % number for number in range(3, 10)]


def test_answers_that_nobody_asked_for_end_the_connection(server: Serving, qm: lior.QueueManager) -> None:
    with Scripted(lambda number, requests: (answer() * (2 if number == 0 else 1), True)) as to:
        qm.send(f"DIRECT={url(to.address, 'q')}", b"one")
        desk.eventually(lambda: not outgoing_to(qm, to))
        qm.send(f"DIRECT={url(to.address, 'q')}", b"two")
        desk.eventually(lambda: not outgoing_to(qm, to))
        assert [(number, body(octets)) for number, octets in to.seen] == [(0, b"one"), (1, b"two")]


def test_receipts_and_streams_between_two_servers_in_a_row(tmp_path: Path) -> None:
    with desk.serving(tmp_path / "a") as a, desk.serving(tmp_path / "b") as b, desk.connect(a) as here, \
            desk.connect(b) as there:  # fmt: skip
        name = f"DIRECT={url(b, 'stream')}"
        with here.transaction() as transaction:
            for number in range(500):
                transaction.send(name, b"%d" % number)
        with there.open_queue(desk.STREAM) as queue:
            assert [queue.receive(timeout=120).body for _ in range(500)] == [b"%d" % number for number in range(500)]
        desk.eventually(lambda: not sum(i.messages for i in here.queues() if i.kind == "outgoing"), 60)
