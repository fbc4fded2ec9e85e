"""What the tests of the server share."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lior.testing.engine import ManualEngine


@pytest.fixture
def engine() -> ManualEngine:
    """A fresh queue manager over a memory store; nothing is committed until the test says so."""
    return ManualEngine()


@pytest.fixture
def shared_directory() -> Iterator[Path]:
    """One that other users get through; pytest's own are for their owner alone."""
    directory = Path(tempfile.mkdtemp(prefix="lior-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)
