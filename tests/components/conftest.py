"""What the tests of players share."""

import pytest

from tests.components.order_scenario import Journal


@pytest.fixture
def journal() -> Journal:
    return Journal()
