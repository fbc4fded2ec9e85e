"""The times and sizes that the document gives, and IPv6."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import lior
from lior.protocols.multicast.settings import PgmSettings
from lior.server.config import Settings
from lior.server.srmp.settings import SrmpSettings
from lior.testing.serving import Serving
from tests.server.srmp import desk
from tests.server.srmp.desk import Built


@pytest.mark.spec("SR-101", "SR-129", "SR-131", "SR-128", "SR-130", "SR-123", "SR-006")
def test_the_defaults_of_soap_messaging_are_the_documents() -> None:
    given = SrmpSettings()
    assert given.resend_table == (30.0,) * 3 + (300.0,) * 3 + (1800.0,) * 3 + (21600.0,)
    assert (given.retransmission_timeout, given.session_cleanup) == (20.0, 300.0)
    assert (given.receipt_delay, given.longest_receipt_delay) == (0.5, 10.0)
    assert (given.http_port, given.https_port) == (80, 443)
    section = Settings().srmp
    for name in ("retransmission_timeout", "session_cleanup", "receipt_delay", "longest_receipt_delay", "http_port",
                 "https_port", "store_and_forward", "max_body"):  # fmt: skip
        assert getattr(section, name) == getattr(given, name), name
    table = (section.resend_short, section.resend_medium, section.resend_long, section.resend_final)
    assert table == (30.0, 300.0, 1800.0, 21600.0)


@pytest.mark.spec("SR-020", "SR-021", "SR-022", "SR-023", "SR-024", "SR-026")
def test_the_defaults_of_multicast_are_the_documents() -> None:
    given = PgmSettings()
    assert (given.rate, given.bucket, given.window, given.advance) == (70_000, 0.04, 300.0, 0.15)
    assert (given.ambient_packets, given.ambient_interval) == (50, 0.5)
    assert (given.heartbeat_least, given.heartbeat_most) == (1.0, 15.0)
    assert (given.backoff_least, given.backoff_most) == (0.01, 0.05)
    assert (given.repeat_interval, given.repair_interval) == (0.75, 2.0)
    assert (given.ncf_retries, given.data_retries, given.max_apdu) == (10, 10, 65536)


@pytest.mark.spec("SR-006", "SR-145")
def test_ipv6_both_ways(tmp_path: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            port = probe.getsockname()[1]
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    settings = desk.QUICK | {"srmp.http_port": port, "admin.port": 0, "binary.port": 0, "ping.port": 0}
    with Serving(tmp_path / "data", bind="::1", settings=settings) as server, lior.connect(server.data) as qm:
        qm.create_queue(desk.PLAIN)
        kind, data = Built(f"http://[::1]:{port}/msmq/private$/plain").entity()
        with socket.create_connection(("::1", port), timeout=60) as connection:
            connection.sendall(desk.request("[::1]", kind, data))
            assert desk.status(desk.read_answer(connection)) == 200
        with qm.open_queue(desk.PLAIN) as queue:
            assert queue.receive(timeout=60).body == b"body"
        other = Serving(tmp_path / "other", settings=desk.QUICK)
        with other, lior.connect(other.data) as sender:
            sender.send(f"DIRECT=HTTP://[::1]:{port}/msmq/private$/plain", b"over IPv6")
            with qm.open_queue(desk.PLAIN) as queue:
                assert queue.receive(timeout=60).body == b"over IPv6"
