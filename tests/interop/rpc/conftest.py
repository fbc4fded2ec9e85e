"""A server with accounts for each module, and the independent clients that talk to it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from lior import embedded
from tests.interop.daemon import Daemon
from tests.interop.rpc.impacket_client import ImpacketPeer
from tests.interop.rpc.verbs import INTEGRITY, Login, Opened, Peer
from tests.interop.rpc.wine_client import WineClient
from tests.interop.rpc.wine_peer import WinePeer

PASSWORDS: Final = {"root": "R00t of all", "alice": "Pässwort 1", "bob": "b0b's secret", "dave": "Daves 1",
                    "erin": "Erins 1", "frank": "Franks 1"}  # the last three are those who forget theirs
ADMINISTRATORS: Final = ("root",)
_names = itertools.count(1)

Sign = Callable[..., Peer]


def login(user: str, **values: Any) -> Login:
    return Login(user, PASSWORDS[user], **values)


class RpcDaemon(Daemon):
    """With the accounts of `PASSWORDS`."""

    def prepare(self, *plain: str, **values: Any) -> RpcDaemon:
        super().prepare(*plain, **values)
        accounts = embedded.accounts(self.data)
        for user, password in PASSWORDS.items():
            accounts.add(user, password, administrator=user in ADMINISTRATORS)
        return self


def serve(directory: Path, settings: dict[str, Any] | None = None) -> RpcDaemon:
    return RpcDaemon(directory / "data", settings=settings).prepare()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[RpcDaemon]:
    """One for the module; SETTINGS of the module are its settings."""
    daemon = serve(tmp_path_factory.mktemp("server"), getattr(request.module, "SETTINGS", None))
    with daemon:
        yield daemon
        assert daemon.running, daemon.log
    assert "Traceback" not in daemon.log, daemon.log


@pytest.fixture(scope="session")
def wine() -> Iterator[WineClient]:
    """One process for all tests: each makes bindings of its own. What it lacks is an error, not a skip."""
    with WineClient() as client:
        yield client


@pytest.fixture(params=["wine", "impacket"])
def sign_in(request: pytest.FixtureRequest, server: RpcDaemon) -> Iterator[Sign]:
    """`sign_in("alice")` gives a client of the parameter's kind; None is nobody."""
    made: list[Peer] = []

    def sign(user: str | None = "root", **values: Any) -> Peer:
        who = None if user is None else login(user, **{"level": INTEGRITY, **values})
        peer: Peer
        if request.param == "wine":
            peer = WinePeer(request.getfixturevalue("wine"), server.address, who)
        else:
            peer = ImpacketPeer(server.address, who)
        made.append(peer)
        return peer

    yield sign
    for peer in made:
        peer.close()


@pytest.fixture
def peer(sign_in: Sign) -> Peer:
    """As administrator."""
    return sign_in("root")


@pytest.fixture
def queue_name() -> str:
    return f"r{next(_names)}"


class Queue:
    """A queue made over the protocol."""

    def __init__(self, peer: Peer, name: str, **properties: Any) -> None:
        self.peer, self.name = peer, name
        self.path = rf".\private$\{name}"
        self.direct = rf"direct:OS:.\private$\{name}"
        self.reader = self.granted = b""  # for tests of rights: who, and the descriptor that says what
        given = {103: f"wstr:{self.path}"} | {int(number): value for number, value in properties.items()}
        peer.create(self.path, given).ok()

    def open(self, access: int, share: int = 0, peer: Peer | None = None) -> Opened:
        opened = (peer or self.peer).open(self.direct, access, share).ok()["queue"]
        assert isinstance(opened, Opened)
        return opened


@pytest.fixture
def queue(peer: Peer, queue_name: str) -> Queue:
    return Queue(peer, queue_name)


@pytest.fixture
def stream_queue(peer: Peer, queue_name: str) -> Queue:
    return Queue(peer, queue_name, **{"113": "ui1:1"})


@pytest.fixture
def uow() -> bytes:
    return os.urandom(16)
