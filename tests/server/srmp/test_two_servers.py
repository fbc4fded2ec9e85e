"""SRMP between two real servers."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import lior
from lior.testing.serving import Serving
from lior.wire.srmp_values import format_date
from tests.wire import srmp_examples as examples

QUICK = {"srmp.receipt_delay": 0.05, "srmp.retransmission_timeout": 0.2, "srmp.http_port": 8080}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Serving, Serving]]:
    with Serving(tmp_path / "a", settings=QUICK) as a, Serving(tmp_path / "b", settings=QUICK) as b:
        yield a, b


def url(server: Serving, queue: str) -> str:
    return f"http://{server.address}:8080/msmq/private$/{queue}"


def post(server: Serving, head: str, body: bytes) -> bytes:
    with socket.create_connection((server.address, 8080), timeout=60) as connection:
        connection.sendall(head.encode() + body)
        return connection.recv(4096)


def request(server: Serving, kind: str, entity: bytes) -> str:
    return (f"POST /msmq/private$/simpleq HTTP/1.1\r\nHost: {server.address}\r\nContent-Type: {kind}\r\n"
            f'Content-Length: {len(entity)}\r\nSOAPAction: "MSMQMessage"\r\nProxy-Accept: NonInteractiveClient\r\n\r\n'
            )  # fmt: skip


@pytest.mark.spec("SR-004", "SR-007", "SR-009", "SR-214", "SR-135")
def test_the_minimal_example_is_delivered(pair: tuple[Serving, Serving]) -> None:
    server = pair[0]
    now = time.time()
    envelope = examples.SIMPLE.replace(b"machine2", server.address.encode()) \
        .replace(b"20070608T164419", format_date(now).encode()) \
        .replace(b"20070609T164419", format_date(now + 86400).encode())  # fmt: skip
    with server.connect() as qm:
        qm.create_queue(r".\private$\simpleq")
        kind, entity = examples.multipart(53287, envelope, b"First Message", examples.PART_GUID)
        head = request(server, kind, entity)
        answer = post(server, head, entity)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"Content-Length: 0" in answer
        with qm.open_queue(r".\private$\simpleq") as queue:
            message = queue.receive(timeout=60)
        assert (message.label, message.body, message.priority) == ("mqsender label", b"First Message", 3)
        assert message.soap is not None
        assert message.soap.compound_message == head.encode() + entity
        assert message.soap.envelope.encode() == envelope


@pytest.mark.spec("SR-043")
def test_what_the_sender_adds_to_the_header_is_read_at_the_receiver(pair: tuple[Serving, Serving]) -> None:
    a, b = pair
    added = '<t:trace xmlns:t="urn:trace" t:level="2">über</t:trace><plain>1</plain>'
    with a.connect() as sender, b.connect() as receiver:
        receiver.create_queue(r".\private$\plain")
        sender.send(f"DIRECT={url(b, 'plain')}", b"over HTTP", soap_header=added)
        with receiver.open_queue(r".\private$\plain") as queue:
            message = queue.receive(timeout=30)
            assert message.soap is not None and f"{added}</se:Header>" in message.soap.envelope
            assert message.soap_header.startswith("<se:Header>")
            assert message.soap_header.endswith(f"{added}</se:Header>")
            sender.send(f"DIRECT=TCP:{b.address}\\private$\\plain", b"over TCP", soap_header=added)
            binary = queue.receive(timeout=30)
        assert (binary.body, binary.soap_header) == (b"over TCP", added)


def test_messages_of_every_kind_arrive_once_and_in_order(pair: tuple[Serving, Serving]) -> None:
    a, b = pair
    with a.connect() as sender, b.connect() as receiver:
        receiver.create_queue(r".\private$\plain")
        receiver.create_queue(r".\private$\stream", transactional=True)
        sender.send(f"DIRECT={url(b, 'plain')}", b"express", express=True, label="<a>&")
        sender.send(f"DIRECT={url(b, 'plain')}", b"recoverable", label="b")
        with sender.transaction() as tx:
            for number in range(20):
                tx.send(f"DIRECT={url(b, 'stream')}", b"%d" % number)
        with receiver.open_queue(r".\private$\plain") as queue:
            assert [queue.receive(timeout=60).body for _ in range(2)] == [b"express", b"recoverable"]
        with receiver.open_queue(r".\private$\stream") as queue:
            assert [queue.receive(timeout=60).body for _ in range(20)] == [b"%d" % n for n in range(20)]
        drained(sender)


def drained(qm: lior.QueueManager) -> None:
    deadline = time.monotonic() + 60
    while sum(info.messages for info in qm.queues() if info.kind == "outgoing"):
        assert time.monotonic() < deadline, [i for i in qm.queues() if i.kind == "outgoing"]
        time.sleep(0.02)
