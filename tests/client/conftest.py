"""A queue manager of the library for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import lior
from tests.client.library_scenario import AUDIT, LEDGER, ORDERS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def qm(data: Path) -> Iterator[lior.QueueManager]:
    """A queue manager with a plain queue and two transactional ones."""
    with lior.open(data) as qm:
        qm.create_queue(ORDERS)
        qm.create_queue(LEDGER, transactional=True)
        qm.create_queue(AUDIT, transactional=True, journal=True)
        yield qm
