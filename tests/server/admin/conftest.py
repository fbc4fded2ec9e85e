"""One server for the tests of a module: they use queues of their own."""

from collections.abc import Iterator

import pytest

from lior.testing.serving import Serving
from tests.server.serving import Admin


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    settings = {"admin.max_request_bytes": 1 << 20, "admin.hosts": ["queues.example.org"], "admin.max_handles": 50}
    with Serving(tmp_path_factory.mktemp("server") / "data", settings=settings) as server:
        yield server


@pytest.fixture
def admin(server: Serving) -> Admin:
    return Admin(server)
