"""A server for each module, and for each test a peer of its own on an address of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.interop.daemon import Daemon, free_address
from tests.interop.second_packets import Name, direct
from tests.interop.second_peer import Identity, Listener, Session

_names = itertools.count(1)
ALLOWED_GROWTH = 96 << 20  # bytes of memory that a module of hostile peers may cost


@dataclass(frozen=True)
class Target:
    """A queue of the server."""

    server: Daemon
    name: str

    @property
    def path(self) -> str:
        return rf".\private$\{self.name}"

    @property
    def direct(self) -> Name:
        return direct(rf"TCP:{self.server.address}\private$\{self.name}")

    def bodies(self) -> list[bytes]:
        return self.server.bodies(self.name)

    def holds(self, *bodies: bytes) -> None:
        """In this order, now or soon; and no others."""
        self.server.holds(self.name, len(bodies))
        assert self.bodies() == list(bodies)


def new_queue(server: Daemon, **properties: object) -> Target:
    target = Target(server, f"q{next(_names)}")
    server.qm.create_queue(target.path, **properties)
    return target


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """One for the module; SETTINGS of the module are its settings."""
    settings = getattr(request.module, "SETTINGS", {})
    daemon = Daemon(tmp_path_factory.mktemp("server") / "data", settings=settings).prepare()
    with daemon:
        yield daemon
        assert daemon.running, daemon.log
    assert "Traceback" not in daemon.log, daemon.log


@pytest.fixture
def me() -> Identity:
    return Identity(free_address(), os.urandom(16))


@pytest.fixture
def session(server: Daemon, me: Identity) -> Iterator[Session]:
    """Open, as its initiator, for direct names."""
    with me.open(server.address) as opened:
        yield opened


@pytest.fixture
def listener(me: Identity) -> Iterator[Listener]:
    """Where the server finds us."""
    with me.listen() as listening:
        yield listening


@pytest.fixture
def told(session: Session, listener: Listener) -> tuple[Session, Listener]:
    """The two ways on which the server may tell us something."""
    return session, listener


@pytest.fixture
def queue(server: Daemon) -> Target:
    return new_queue(server)


@pytest.fixture
def stream_queue(server: Daemon) -> Target:
    return new_queue(server, transactional=True)


class Witness:
    """An honest session beside all that: it must go on delivering."""

    def __init__(self, server: Daemon) -> None:
        self.identity = Identity(free_address(), os.urandom(16))
        self.target = new_queue(server)
        self.session = self.identity.open(server.address)
        self.sent = 0

    def check(self) -> None:
        self.sent += 1
        self.session.recoverable(self.target.direct, b"%d" % self.sent)
        self.session.until_persisted()
        assert self.target.bodies() == [b"%d" % number for number in range(1, self.sent + 1)]


@pytest.fixture(scope="module")
def witness(server: Daemon) -> Iterator[Witness]:
    honest = Witness(server)
    honest.check()
    before = server.memory()
    yield honest
    honest.check()
    honest.session.close()
    assert server.memory() - before < ALLOWED_GROWTH
