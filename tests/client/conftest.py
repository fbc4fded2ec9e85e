"""A queue manager of the library for each test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import lior
from tests.client.library_scenario import AUDIT, LEDGER, ORDERS
from tests.client.served import PASSWORD, USER, served


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


EMBEDDED_ONLY = {"test_trace"}  # looks behind the library


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of the library hold for a queue manager in this process and for one that is reached as a server is: by its
    admin API, and by RPC over the Unix socket and over TCP with a password."""
    if "qm" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        kinds = ["embedded"] if module in EMBEDDED_ONLY else ["embedded", "http", "rpc", "tcp"]
        metafunc.parametrize("qm", kinds, indirect=True)


@pytest.fixture
def qm(data: Path, request: pytest.FixtureRequest) -> Iterator[lior.QueueManager]:
    """A queue manager with a plain queue and two transactional ones."""
    with ExitStack() as parts:
        if request.param == "http":
            parts.enter_context(served(data, rpc=False))
            qm = parts.enter_context(lior.connect(data))
        elif request.param == "rpc":
            parts.enter_context(served(data))
            qm = parts.enter_context(lior.connect(data))
        elif request.param == "tcp":
            server = parts.enter_context(served(data, tcp=True))
            qm = parts.enter_context(lior.connect(server.address, user=USER, password=PASSWORD))
        else:
            qm = parts.enter_context(lior.open(data))
        qm.create_queue(ORDERS)
        qm.create_queue(LEDGER, transactional=True)
        qm.create_queue(AUDIT, transactional=True, journal=True)
        yield qm
