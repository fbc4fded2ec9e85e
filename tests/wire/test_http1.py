"""Requests and answers of HTTP/1.1 out of octets (RFC 9112); what could be read in two ways is refused."""

from __future__ import annotations

import pytest

from lior.errors import Malformed
from lior.wire.http1 import MAX_HEAD, MAX_LINES, AnswerHead, Answers, RequestHead, Requests

START = b"POST /msmq/q HTTP/1.1\r\nHost: x\r\n"
LONGEST = 1000


def request(body: bytes = b"body", more: bytes = b"") -> bytes:
    return START + b"Content-Type: text/xml\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), more, body)


def read_all(reader: Requests, *pieces: bytes) -> list[tuple[RequestHead, bytes]]:
    found = []
    for piece in pieces:
        reader.feed(piece)
        while True:
            head = reader.head or reader.next_head()
            if head is None:
                break
            entity = reader.entity()
            if entity is None:
                break
            found.append((head, entity))
    return found


def test_requests_in_a_row_are_read_whatever_pieces_they_come_in() -> None:
    stream = request() + b"\r\n" + request(b"") + request(b"x" * 900, b"Connection: close\r\n")
    for step in (1, 2, 3, 7, 64, 100, len(stream)):
        reader = Requests(LONGEST)
        found = read_all(reader, *(stream[at : at + step] for at in range(0, len(stream), step)))
        assert [entity for _, entity in found] == [b"body", b"", b"x" * 900]
        assert [head.keep_alive for head, _ in found] == [True, True, False]
        assert b"".join(head.octets + entity for head, entity in found) == stream.replace(b"body\r\n", b"body")
        assert reader.buffered == 0
        head = found[0][0]
        assert (head.method, head.path, head.content_type) == ("POST", "/msmq/q", "text/xml")


def test_what_is_held_is_counted() -> None:
    reader = Requests(LONGEST)
    assert read_all(reader, START) == []
    assert reader.buffered == len(START)
    assert read_all(reader, b"Content-Length: 500\r\n\r\n", b"x" * 100) == []
    assert reader.buffered == 100
    assert read_all(reader, b"x" * 300) == []
    assert reader.buffered == 400
    assert len(read_all(reader, b"x" * 103)) == 1
    assert reader.buffered == 3


@pytest.mark.parametrize(
    "octets",
    [
        b"POST /msmq/q HTTP/1.1\nHost: x\n\n\r\n\r\n", START + b"X: a\nY: b\r\n\r\n", START + b"X: a\rY: b\r\n\r\n",
        START + b"X: a\r\n folded\r\n\r\n", START + b"Content-Length : 4\r\n\r\n", START + b" X: 1\r\n\r\n",
        START + b"X\r\n\r\n", START + b": y\r\n\r\n", START + b"B\xe9: y\r\n\r\n", START + b"X: \0\r\n\r\n",
        START + b"X: \x7f\r\n\r\n", START + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\n",
        START + b"Content-Length: 4, 4\r\n\r\n", START + b"Content-Length: +4\r\n\r\n",
        START + b"Content-Length: 0x4\r\n\r\n", START + b"Content-Length: 4_0\r\n\r\n",
        START + b"Content-Length:\r\n\r\n", START + b"Content-Length: -1\r\n\r\n",
        START + b"Content-Length: \xb2\r\n\r\n", START + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
        START + b"Content-Length: %d\r\n\r\n" % (LONGEST + 1),
        START + b"Transfer-Encoding: chunked\r\n\r\n", START + b"Transfer-Encoding: identity\r\n\r\n",
        START + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        START + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
        START + b"tRANSFER-eNCODING: x\r\nContent-Length: 4\r\n\r\n", START + b"Host: y\r\n\r\n",
        START + b"Content-Type: a/b\r\ncontent-type: c/d\r\n\r\n", b"POST /msmq/q HTTP/1.1\r\n\r\n",
        b"POST  /msmq/q HTTP/1.1\r\nHost: x\r\n\r\n", b"POST /msmq/ q HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /msmq/q\r\nHost: x\r\n\r\n", b"POST /msmq/q HTTP/2.0\r\nHost: x\r\n\r\n",
        b"POST /msmq/q HTTP/1.1 \r\nHost: x\r\n\r\n", b" POST /msmq/q HTTP/1.1\r\nHost: x\r\n\r\n",
        b"P(ST /msmq/q HTTP/1.1\r\nHost: x\r\n\r\n", b"POST\t/msmq/q HTTP/1.1\r\nHost: x\r\n\r\n",
        START + b"X: y\r\n" * MAX_LINES + b"\r\n", b"x" * MAX_HEAD, START + b"X: " + b"y" * MAX_HEAD + b"\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_not_clear_is_refused_in_whatever_pieces_it_comes(octets: bytes) -> None:
    for step in (len(octets), 1 if len(octets) < 1000 else 1000):
        reader = Requests(LONGEST)
        with pytest.raises(Malformed):
            read_all(reader, *(octets[at : at + step] for at in range(0, len(octets), step)))
        assert reader.buffered <= MAX_HEAD + 1000


def test_a_target_may_be_a_whole_url_and_has_a_query_or_none() -> None:
    for target, path in ((b"/msmq/q?a=b?c", "/msmq/q"), (b"http://x:1/MSMQ/q?y", "/MSMQ/q"), (b"*", "*"),
                         (b"HTTPS://x", "/"), (b"/msmq/\xe9", "/msmq/\xe9")):  # fmt: skip
        ((head, _),) = read_all(Requests(LONGEST), b"POST " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert head.path == path
        assert head.content_length is None


def test_an_old_client_gets_one_answer() -> None:
    octets = b"POST /msmq/q HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n"
    ((head, _),) = read_all(Requests(9), octets)
    assert (head.keep_alive, head.expects_continue) == (False, False)


# ---- answers ---------------------------------------------------------------------------------------------------------


def answers(*pieces: bytes) -> list[AnswerHead]:
    reader, found = Answers(LONGEST), []
    for piece in pieces:
        reader.feed(piece)
        while (answer := reader.next()) is not None:
            found.append(answer)
    last = reader.end()
    return found if last is None else [*found, last]


def test_answers_are_read_whatever_their_content_and_the_pieces_they_come_in() -> None:
    stream = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\nLior-Pipeline: 64\r\n\r\n"
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\nHTTP/"
        b"HTTP/1.1 500 x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nHTTP/\r\n0\r\nX: y\r\n\r\n"
        b"HTTP/1.1 204\r\n\r\nHTTP/1.1 503 y\r\nConnection: close\r\nContent-Length: 1\r\n\r\nz"
        b"HTTP/1.0 301 z\r\n\r\nrest"
    )
    for step in (1, 2, 3, 5, 11, 64, len(stream)):
        found = answers(*(stream[at : at + step] for at in range(0, len(stream), step)))
        assert [answer.status for answer in found] == [200, 400, 500, 204, 503, 301]
        assert [answer.keep_alive for answer in found] == [True, True, True, True, False, False]
        assert [answer.pipeline for answer in found] == [64, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "octets",
    [
        b"HTTP/1.1 20 OK\r\n\r\n", b"HTTP/2 200 OK\r\n\r\n", b"200 OK\r\n\r\n", b"HTTP/1.1 200 OK\nX: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 600,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 600,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 600,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1001, b"x" * MAX_HEAD, b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ],
)  # fmt: skip
def test_answers_without_measure_are_refused(octets: bytes) -> None:
    for step in (len(octets), 1 if len(octets) < 5000 else 1000):
        with pytest.raises(Malformed):
            answers(*(octets[at : at + step] for at in range(0, len(octets), step)))
