"""What the tests of the server share."""

import pytest

from lior.testing.engine import ManualEngine


@pytest.fixture
def engine() -> ManualEngine:
    """A fresh queue manager over a memory store; nothing is committed until the test says so."""
    return ManualEngine()
