"""The same over IPv6: names with and without brackets, the name that order acknowledgements come to, next hops."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.daemon import Daemon, eventually
from tests.interop.second_packets import direct
from tests.interop.second_peer import Identity

HERE = "::1"


def has_ipv6() -> bool:
    try:
        with socket.create_server((HERE, 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not has_ipv6(), reason="this computer has no IPv6")


def free_port() -> int:
    with socket.create_server((HERE, 0), family=socket.AF_INET6) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Daemon]:
    settings = {"binary.port": free_port(), "binary.peer_port": free_port(), "ping.port": 0, "admin.port": 0}
    with Daemon(tmp_path / "data", address=HERE, settings=settings).prepare("q", transactional=["t"]) as daemon:
        yield daemon
        assert "Traceback" not in daemon.log, daemon.log


@pytest.mark.spec("QB-001", "QB-019", "QB-041", "QB-155")
@pytest.mark.parametrize("name", [r"TCP:::1\private$\{}", r"TCP:[::1]\private$\{}", r"tcp:0:0:0:0:0:0:0:1\PRIVATE$\{}"])
def test_messages_and_order_acknowledgements_go_over_ipv6(server: Daemon, name: str) -> None:
    me = Identity(HERE, os.urandom(16))
    with me.open(HERE, port=int(server.settings["binary.port"])) as session:
        session.recoverable(direct(name.format("q")), b"recoverable")
        session.until_persisted()
        session.transactional(direct(name.format("t")), b"transactional", next(me.streams), 1)
        message, body = session.order_body()
        assert body.number == 1
        assert message.destination == direct(r"TCP:::1\PRIVATE$\order_queue$")
    assert (server.bodies("q"), server.bodies("t")) == ([b"recoverable"], [b"transactional"])


@pytest.mark.spec("QB-130", "QB-034")
def test_a_message_leaves_over_ipv6(tmp_path: Path) -> None:
    me, port = Identity(HERE, os.urandom(16)), free_port()
    settings = {"binary.peer_port": port}
    with Daemon(tmp_path / "data", settings=settings).prepare() as server, me.listen(port) as listener:
        server.qm.send(r"DIRECT=TCP:[::1]\private$\inbox", b"six")
        with listener.accept() as session:
            message = session.message()
            assert (message.destination, message.body) == (direct(r"TCP:::1\private$\inbox"), b"six")
            assert [queue["next_hops"] for queue in server.qm.outgoing()] == [["IPv6=::1"]]
            session.acknowledge()
            eventually(lambda: not server.outgoing())
