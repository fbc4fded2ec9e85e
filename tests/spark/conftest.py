"""One Spark session and one served queue manager for all tests here: both take seconds to start."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lior.client.bulk import connect
from lior.testing.serving import Serving


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    import pyspark

    from lior.spark.session import session

    assert pyspark.__version__.startswith(os.environ.get("LIOR_PYSPARK", "")), "not the pyspark that is to be tested"

    with session("local[2]", "tests") as found:
        yield found


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("spark") / "data", settings={"bulk.port": 15802}) as serving:
        wait_for_bulk(serving)
        yield serving


def wait_for_bulk(serving: Serving) -> None:
    end = time.monotonic() + 240
    while not (serving.data / "bulk.json").exists():
        assert time.monotonic() < end, serving.log
        os.sched_yield()
    with connect(serving.data) as bulk:
        bulk.subscriptions()


@pytest.fixture
def queue(server: Serving) -> str:
    """A queue of its own, with a journal, under the name that options take."""
    name = f"private$\\q{uuid4().hex[:8]}"
    with server.connect() as qm:
        qm.create_queue(f".\\{name}", journal=True)
    return name


def send(server: Serving, queue: str, numbers: range, **properties: Any) -> None:
    with server.connect() as qm, qm.open_queue(f".\\{queue}", "send") as opened:
        for number in numbers:
            opened.send(f"body {number}".encode(), label=f"{number}", app_tag=number, priority=number % 8, **properties)


def messages(server: Serving, queue: str) -> tuple[int, int]:
    """In the queue and in its journal."""
    with server.connect() as qm:
        found = qm.queue(f".\\{queue}")
    return found.messages, found.journal_messages


def lake_of(tmp_path: Path) -> str:
    return str(tmp_path / "lake")
