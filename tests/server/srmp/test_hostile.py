"""Hostile XML, MIME and HTTP: refused in little time and memory, and others are served meanwhile ([MC-MQSRM] 5.1)."""

from __future__ import annotations

import contextlib
import gzip
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import lior
from lior.testing.serving import Serving
from tests.server.srmp import desk
from tests.server.srmp.desk import PLAIN, PORT, STREAM, Built, Stub, post, services, stream, url

LARGEST = 4 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    limits = {"srmp__header_timeout": 1.0, "srmp__body_timeout": 1.5, "srmp__max_connections": 40}
    with desk.serving(tmp_path_factory.mktemp("srmp") / "data", **limits) as found:
        yield found


@pytest.fixture
def qm(server: Serving) -> Iterator[lior.QueueManager]:
    with desk.connect(server) as found:
        found.purge_queue(PLAIN)
        yield found


def memory(server: Serving) -> int:
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) << 10


def count(qm: lior.QueueManager) -> int:
    return qm.queue(PLAIN).messages


def bombs(good: bytes) -> dict[str, bytes]:
    laughs = b"<!DOCTYPE x [" + b"".join(
        b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10 if n else b"lol" * 10) for n in range(10)) + b"]>"
    deep = b"<x xmlns='u'>" * 20_000 + b"</x>" * 20_000
    wide = b"<x xmlns='u'/>" * 20_000
    return {
        "billion laughs": laughs + good.replace(b"label", b"&a9;"),
        "external entity": b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + good.replace(b"label", b"&a;"),
        "external subset": b'<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">' + good,
        "deep": good.replace(b"</se:Header>", deep + b"</se:Header>"),
        "40 deep": good.replace(b"</se:Header>", b"<x xmlns='u'>" * 40 + b"</x>" * 40 + b"</se:Header>"),
        "wide": good.replace(b"</se:Header>", wide + b"</se:Header>"),
        "attributes": good.replace(b"</se:Header>", b"<x xmlns='u' " + b" ".join(
            b"a%d=''" % n for n in range(5000)) + b"/></se:Header>"),
        "namespaces": good.replace(b"</se:Header>", b"<x xmlns='u' " + b" ".join(
            b"xmlns:a%d='u%d'" % (n, n) for n in range(5000)) + b"/></se:Header>"),
        "a long attribute": good.replace(b"</se:Header>", b"<x xmlns='u' a='" + bytes(3 << 20).replace(
            b"\0", b"x") + b"'/></se:Header>"),
        "a long name": good.replace(b"</se:Header>", b"<" + b"x" * 300_000 + b" xmlns='u'/></se:Header>"),
        "a million digits": good.replace(b"<Priority>3<", b"<Priority>" + b"3" * 200_000 + b"<"),
    }  # fmt: skip


@pytest.mark.spec("SR-211", "SR-026", "SR-040")
def test_bombs_of_xml_are_refused_at_once_and_leave_nothing(server: Serving, qm: lior.QueueManager) -> None:
    assert post(server, Built(url(server, "plain"))) == 200
    before = memory(server)
    for name, document in bombs(Built(url(server, "plain")).envelope()).items():
        start = time.monotonic()
        assert post(server, desk.entity(document, b"x")) == 400, name
        assert time.monotonic() - start < 20, name
    assert memory(server) - before < 40 << 20
    assert count(qm) == 1


@pytest.mark.spec("SR-003")
def test_four_mebibytes_are_taken_and_one_octet_more_is_not(server: Serving, qm: lior.QueueManager) -> None:
    assert post(server, Built(url(server, "plain"), body=bytes(LARGEST))) == 200
    assert post(server, Built(url(server, "plain"), body=bytes(LARGEST + 1))) == 400
    assert post(server, Built(url(server, "plain"), body=bytes(LARGEST * 2))) in (400, 0)
    assert count(qm) == 1
    with qm.open_queue(PLAIN) as queue:
        assert queue.receive(timeout=60).body == bytes(LARGEST)


@pytest.mark.spec("SR-212")
def test_requests_whose_length_is_not_one_number_are_refused(server: Serving, qm: lior.QueueManager) -> None:
    kind, data = Built(url(server, "plain")).entity()
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)
    length = f"Content-Length: {len(data)}\r\n"
    start = f"POST /msmq/private$/plain HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
    for headers, entity in (
        (f"{length}Transfer-Encoding: chunked\r\n", chunked), (f"Transfer-Encoding: chunked\r\n{length}", chunked),
        ("Transfer-Encoding: chunked\r\n", chunked), ("", data), (f"{length}Content-Length: 3\r\n", data),
        ("Content-Length: -1\r\n", data), ("Content-Length: 0x10\r\n", data), ("Content-Length: +3\r\n", data),
        (f"Content-Length: {10**30}\r\n", data), (f"{length}X: y\r\n folded\r\n", data),
        (f"{length}Content-Encoding: gzip\r\n", data),
        (f"{length}Bad Name: x\r\n", data), (f"{length}X: {'y' * 20_000}\r\n", data),
        (length + "X: y\r\n" * 500, data),
    ):  # fmt: skip
        answer = desk.raw(server, (start + headers + "\r\n").encode() + entity)
        taken = headers.endswith("gzip\r\n")  # its octets are an SRMP message all the same
        assert desk.status(answer) == (200 if taken else 400) or (not taken and not answer), (headers[:80], answer)
    assert count(qm) == 1
    bomb = gzip.compress(bytes(50 << 20))
    head = start + f"Content-Length: {len(bomb)}\r\nContent-Encoding: gzip\r\n\r\n"
    assert desk.status(desk.raw(server, head.encode() + bomb)) == 400


@pytest.mark.spec("SR-212")
@pytest.mark.parametrize("upto", ["nothing", "header", "body"])
def test_who_sends_drop_by_drop_is_cut_off_and_others_are_served(
    server: Serving, qm: lior.QueueManager, upto: str
) -> None:
    kind, data = Built(url(server, "plain")).entity()
    whole = desk.request(server.address, kind, data)
    end = {"nothing": 0, "header": 60, "body": len(whole) - 10}[upto]
    start, ended = time.monotonic(), False
    with socket.create_connection((server.address, PORT), timeout=60) as slow:
        slow.sendall(whole[:end])
        slow.settimeout(0.2)
        at = end
        while not ended and time.monotonic() - start < 60:
            assert post(server, Built(url(server, "plain"))) == 200
            try:
                slow.sendall(whole[at : at + 1] if upto != "nothing" else b"")
                at += at < len(whole) - 2 and upto != "nothing"
                ended = not slow.recv(4096) or upto == "body"
            except TimeoutError:
                continue
            except OSError:
                ended = True
        assert ended
        assert time.monotonic() - start > 0.5


@pytest.mark.spec("SR-212")
def test_empty_lines_hold_no_connection(server: Serving, qm: lior.QueueManager) -> None:
    with socket.create_connection((server.address, PORT), timeout=10) as idle:
        idle.settimeout(0.1)
        start, ended = time.monotonic(), False
        while not ended and time.monotonic() - start < 30:
            try:
                idle.sendall(b"\r\n")
                ended = not idle.recv(4096)
            except TimeoutError:
                continue
            except OSError:
                ended = True
        assert ended


@pytest.mark.spec("SR-212")
def test_connections_beyond_the_limit_are_closed(server: Serving, qm: lior.QueueManager) -> None:
    held = []
    try:
        for _ in range(40):
            held.append(socket.create_connection((server.address, PORT), timeout=60))
        with socket.create_connection((server.address, PORT), timeout=60) as late, \
                contextlib.suppress(ConnectionResetError):  # fmt: skip
            assert late.recv(1) == b""
    finally:
        for connection in held:
            connection.close()
    desk.eventually(lambda: post(server, Built(url(server, "plain"))) == 200)


def test_a_long_body_that_asks_first_is_let_in(server: Serving, qm: lior.QueueManager) -> None:
    kind, data = Built(url(server, "plain"), body=bytes(2 << 20)).entity()
    head = desk.request(server.address, kind, data)[: -len(data) - 2] + b"Expect: 100-continue\r\n\r\n"
    with socket.create_connection((server.address, PORT), timeout=60) as connection:
        connection.sendall(head)
        assert desk.read_answer(connection).startswith(b"HTTP/1.1 100 ")
        connection.sendall(data)
        assert desk.status(desk.read_answer(connection)) == 200


@pytest.mark.spec("SR-213")
def test_receipts_go_only_where_they_may(tmp_path: Path) -> None:
    with Stub() as allowed, Stub() as other:
        where = {"srmp__receipts_allowed": [f"http://{allowed.address}:{PORT}/*"]}
        with desk.serving(tmp_path / "data", **where) as server, desk.connect(server) as qm:
            for stub in (other, allowed):
                asked = services(delivery=url(stub.address, "x"))
                assert post(server, Built(url(server, "plain"), entries=asked)) == 200
                begun = stream(9 if stub is other else 10, 1, url(stub.address, "y"))
                assert post(server, Built(url(server, "stream"), entries=begun)) == 200
            allowed.wait(2)
            assert (qm.queue(PLAIN).messages, qm.queue(STREAM).messages) == (2, 2)
            desk.eventually(lambda: "a receipt was not sent" in server.log)
            desk.eventually(lambda: f"to={url(other.address, 'x')}" in server.log)
            assert other.seen == []


@pytest.mark.spec("SR-133")
def test_a_server_that_was_killed_goes_on_with_new_identifiers(tmp_path: Path) -> None:
    with desk.serving(tmp_path / "data") as server, Stub() as stub:
        count = 0
        for _ in range(3):
            with desk.connect(server) as qm:
                for _ in range(5):
                    qm.send(f"DIRECT={url(stub.address, 'q')}", b"x")
            count += 5
            desk.eventually(lambda: len({s.text(".//rp:id") for s in list(stub.seen)}) == count)  # noqa: B023
            server.restart(kill=True)
