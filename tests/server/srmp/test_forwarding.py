"""Messages for other machines, and names that lead elsewhere ([MC-MQSRM] 3.1.5.1.3)."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lior
from lior.testing.serving import Serving, loopback_address
from tests.server.srmp import desk
from tests.server.srmp.desk import PORT, Built, post, services, url


@pytest.mark.spec("SR-106", "SR-145", "SR-146", "SR-209", "SR-147")
def test_a_stream_over_a_machine_between_comes_as_it_was_sent(tmp_path: Path) -> None:
    """A to C, by way of B: octet for octet, and C's receipts reach A directly."""
    addresses = {name: loopback_address() for name in "ABC"}
    settings: dict[str, dict[str, Any]] = {
        "A": {f'srmp_outbound."http://{addresses["C"]}:{PORT}/*"': f"http://{addresses['B']}:{PORT}"},
        "B": {"srmp.store_and_forward": True}, "C": {},
    }  # fmt: skip
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(Serving(tmp_path / name, bind=address, settings=desk.QUICK | settings[name]))
            for name, address in addresses.items()
        }
        a, b, c = (stack.enter_context(desk.connect(servers[name])) for name in "ABC")
        c.create_queue(desk.STREAM, transactional=True)
        to = f"DIRECT={url(addresses['C'], 'stream')}"
        with a.transaction() as transaction:
            for number in range(3):
                transaction.send(to, b"%d" % number, label="über")
        with c.open_queue(desk.STREAM) as queue:
            found = [queue.receive(timeout=60) for _ in range(3)]
        assert [message.body for message in found] == [b"0", b"1", b"2"]
        own = a.properties()["identifier"]
        assert {str(message.source_queue_manager) for message in found} == {str(own)}
        for message in found:
            assert message.soap is not None
            assert f"<to>{url(addresses['C'], 'stream')}</to>" in message.soap.envelope
        for qm in (a, b, c):
            desk.eventually(partial(is_drained, qm))


def is_drained(qm: lior.QueueManager) -> bool:
    return not sum(info.messages for info in qm.queues() if info.kind == "outgoing")


@pytest.mark.spec("SR-106", "SR-145")
def test_by_default_nothing_is_passed_on(tmp_path: Path) -> None:
    with desk.serving(tmp_path / "data") as server:
        assert post(server, Built(url("192.0.2.1", "plain"))) == 400


@pytest.mark.spec("SR-147", "SR-108")
def test_a_redirected_name_leads_to_its_queue_and_the_envelope_stays(tmp_path: Path) -> None:
    address = loopback_address()
    redirections = {
        'srmp_inbound."http://pub.example/orders*"': url(address, "plain"),
        'srmp_inbound."http://pub.example/nowhere"': url(address, "nosuch"),
        'srmp_inbound."http://pub.example/*x"': url(address, "plain"),
    }
    with Serving(tmp_path / "data", bind=address, settings=desk.QUICK | redirections) as server, \
            desk.connect(server) as qm:  # fmt: skip
        qm.create_queue(desk.PLAIN)
        assert post(server, Built("http://pub.example/orders/2026", entries=services())) == 200
        assert post(server, Built("http://PUB.example:80/Orders")) == 200
        assert post(server, Built("http://pub.example/nowhere")) == 400
        assert post(server, Built("http://pub.example/ax")) == 400
        with qm.open_queue(desk.PLAIN) as queue:
            message = queue.receive(timeout=60)
            queue.receive(timeout=60)
        assert message.soap is not None
        assert "<to>http://pub.example/orders/2026</to>" in message.soap.envelope


@pytest.mark.spec("SR-004", "SR-124", "SR-121", "SR-127", "SR-162", "SR-156")
def test_acknowledgements_of_every_stage_come_back(tmp_path: Path) -> None:
    with desk.serving(tmp_path / "a") as one, desk.serving(tmp_path / "b") as other, desk.connect(one) as a, \
            desk.connect(other) as b:  # fmt: skip
        sent = a.send(f"DIRECT={url(other, 'plain')}", b"x", acknowledge=15,
                      admin_queue=rf"DIRECT=TCP:{one.address}\private$\admin")  # fmt: skip
        with a.open_queue(desk.ADMIN) as admin:
            arrived = admin.receive(timeout=60)
            with b.open_queue(desk.PLAIN) as queue:
                message = queue.receive(timeout=60)
            read = admin.receive(timeout=60)
        assert sent is not None
        assert message.identifier == sent
        assert [arrived.message_class, read.message_class] == [2, 16384]
        assert {arrived.correlation_id, read.correlation_id} == {sent.to_bytes()}


@pytest.mark.spec("SR-087", "SR-172")
def test_a_message_to_two_queues_of_one_machine_is_in_both(tmp_path: Path) -> None:
    with desk.serving(tmp_path / "a") as one, desk.serving(tmp_path / "b") as other, desk.connect(one) as a, \
            desk.connect(other) as b:  # fmt: skip
        b.create_queue(r".\private$\second")
        a.send(f"DIRECT={url(other, 'plain')},DIRECT={url(other, 'second')}", b"both")
        for path in (desk.PLAIN, r".\private$\second"):
            with b.open_queue(path) as queue:
                message = queue.receive(timeout=60)
                assert message.body == b"both"
                assert message.destination_multi_queue.count("DIRECT=") == 2


def test_a_circle_of_servers_ends_where_it_began(tmp_path: Path) -> None:
    """Each of three thinks that the next one knows the way."""
    addresses = [loopback_address() for _ in range(3)]
    with ExitStack() as stack:
        servers = []
        for number, address in enumerate(addresses):
            redirection = {'srmp_outbound."http://nowhere.example/*"': f"http://{addresses[(number + 1) % 3]}:{PORT}",
                           "srmp.store_and_forward": True}  # fmt: skip
            server = Serving(tmp_path / str(number), bind=address, settings=desk.QUICK | redirection)
            servers.append(stack.enter_context(server))
        qms = [stack.enter_context(desk.connect(server)) for server in servers]
        to = "http://nowhere.example/msmq/private$/q"
        assert post(servers[0], Built(to, body=b"round and round")) == 200
        desk.eventually(lambda: "it has been here before" in servers[0].log, 60)
        desk.eventually(lambda: "a message was refused" in servers[2].log, 60)
        for qm in qms:
            desk.eventually(partial(is_drained, qm), 60)
        assert [server.log.count("goes in a circle") for server in servers] == [1, 0, 0]


def test_who_passed_a_message_on_is_told_to_the_next_and_too_many_are_refused(tmp_path: Path) -> None:
    with desk.Stub() as stub, desk.serving(tmp_path / "data", srmp__store_and_forward=True) as server, \
            desk.connect(server) as qm:  # fmt: skip
        own = str(qm.properties()["identifier"]).lower()
        others = [f"1.1 proxy{number}" for number in range(15)]
        for count, status in ((0, 200), (2, 200), (14, 200), (15, 400)):
            via = "".join(f"Via: {other}\r\n" for other in others[:count])
            whole = desk.request(server.address, *Built(url(stub.address, "q")).entity())
            whole = whole.replace(b"Content-Type:", via.encode() + b"Content-Type:", 1)
            assert desk.status(desk.raw(server, whole)) == status
        seen = stub.wait(3)
        assert [s.headers["via"].split(", ") for s in seen] == [
            [*others[:count], f"1.1 {own}"] for count in (0, 2, 14)]
