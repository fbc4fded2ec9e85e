"""One contract for every broker: in memory, over our bulk transfer, and over subqueues of a queue manager that has no
claim log (a second `lior serve`, of which only what Windows has is used)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import lior
from lior.spark.broker import Broker, FlightBroker
from lior.spark.jobs import ingest
from lior.spark.jobs.ingest import Ingest
from lior.spark.memory import MemoryBroker
from lior.spark.options import ReadOptions
from lior.spark.stream import MsmqStreamReader
from lior.spark.subqueues import SubqueueBroker
from lior.testing.serving import Serving
from lior.wire.interfaces.lior_session import LIOR
from tests.client.served import PASSWORD, USER, served
from tests.spark.conftest import send

Fill = Callable[[range], None]


@pytest.fixture
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("foreign") / "data") as serving:
        with serving.connect() as qm:
            qm.create_queue(r".\private$\orders")
            qm.create_queue(r".\private$\exact", transactional=True)
        yield serving


@pytest.fixture(params=["memory", "flight", "subqueues", "windows"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Broker, str, Fill]]:
    if request.param == "windows":
        with only_documented_calls(tmp_path / "data") as windows:
            yield windows
        return
    if request.param == "memory":
        memory = MemoryBroker()

        def fill(numbers: range) -> None:
            for number in numbers:
                memory.send(f"body {number}".encode(), number % 8)

        yield memory, "q", fill
        return
    kind = "server" if request.param == "flight" else "foreign"
    serving: Serving = request.getfixturevalue(kind)
    name = request.getfixturevalue("queue") if kind == "server" else r"private$\orders"
    found: Broker = FlightBroker(str(serving.data)) if kind == "server" else SubqueueBroker(str(serving.data), [name])
    yield found, name, lambda numbers: send(serving, name, numbers)
    found.close()


@contextmanager
def only_documented_calls(data: Path) -> Iterator[tuple[Broker, str, Fill]]:
    """A server that offers only the interfaces of the documents, for clients on other computers."""
    password = data.with_name("credentials")
    password.write_text(f"{USER}:{PASSWORD}\n")
    with served(data, tcp=True, without=(LIOR,)) as server, lior.connect(data) as qm:
        qm.create_queue(r".\private$\orders")

        def fill(numbers: range) -> None:
            for number in numbers:
                qm.send(r".\private$\orders", f"body {number}".encode(), priority=number % 8)

        broker = SubqueueBroker(server.address, [r"private$\orders"], str(password))
        yield broker, r"private$\orders", fill
        broker.close()


def bodies(broker: Broker, name: str, epoch: str, low: int, high: int) -> list[bytes]:
    batches = list(broker.fetch(name, epoch, low, high, ["ordinal", "body"]))
    table = pa.Table.from_batches(batches)
    assert table["ordinal"].to_pylist() == list(range(low + 1, high + 1))
    found: list[bytes] = table["body"].to_pylist()
    return found


def test_claims_are_read_as_often_as_wanted_and_end_with_their_release(broker: tuple[Broker, str, Fill]) -> None:
    calls, queue, fill = broker
    fill(range(30))
    name = f"c{queue[-5:]}"
    epoch = calls.subscribe(name, [queue], False, 0.0).epoch
    end = calls.claim(name, epoch, 0, 20, 1 << 30)
    assert end == 20
    assert calls.claimed_behind(name, 0) == 20
    assert calls.claim(name, epoch, 0, 5, 1 << 30) == 20  # who did not write it down gets the same
    first = calls.epoch_of(epoch, 0)
    seen = bodies(calls, name, first, 0, 20)
    assert bodies(calls, name, first, 0, 20) == seen and len(set(seen)) == 20
    fill(range(30, 35))  # among them higher priorities than what is claimed
    assert bodies(calls, name, first, 0, 20) == seen
    more = calls.claim(name, epoch, 20, 100, 1 << 30)
    assert more == 35
    calls.release(name, first, 20)
    calls.release(name, first, 20)
    second = calls.epoch_of(epoch, 20)
    seen += bodies(calls, name, second, 20, 35)
    calls.release(name, second, 35)
    assert sorted(seen) == sorted(f"body {number}".encode() for number in range(35))
    assert calls.depth([queue]) == 0
    assert calls.claim(name, epoch, 35, 100, 1 << 30) == 35


def test_a_later_run_that_ends_takes_what_is_there_then(broker: tuple[Broker, str, Fill]) -> None:
    """And what the run before has claimed without writing it down."""
    calls, queue, fill = broker
    options = {"address": "x", "queue": queue, "subscription": f"l{queue[-5:]}", "maxMessagesPerTrigger": "10"}
    at: dict[str, Any] = {}
    for count in (25, 3):
        fill(range(count))
        stream = MsmqStreamReader(ReadOptions.parse(options))
        stream._broker = calls
        stream.prepareForTriggerAvailableNow()
        start = at = at or stream.initialOffset()
        while (end := stream.latestOffset(at, ReadAllAvailable())) != at:
            at = end
        assert at["ord"] - start["ord"] == count
    fill(range(12))
    stream.prepareForTriggerAvailableNow()
    lost = stream.latestOffset(at, ReadAllAvailable())
    assert lost["ord"] == 38
    stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset(at, ReadAllAvailable()) == lost
    assert stream.latestOffset(lost, ReadAllAvailable())["ord"] == 40


def test_a_foreign_queue_is_ingested_through_subqueues(spark: Any, foreign: Serving, tmp_path: Any) -> None:
    queues = (r"private$\orders", r"private$\exact")
    send(foreign, queues[0], range(60))
    with foreign.connect() as qm, qm.transaction() as tx:
        for number in range(60, 80):
            tx.send(r".\private$\exact", b"exact", app_tag=number)
    config = Ingest(str(foreign.data), queues, str(tmp_path / "lake"), "far", once=True, max_messages=50,
                    options={"broker": "subqueue"})  # fmt: skip
    assert ingest.run(spark, config).rows == 80
    rows = spark.read.parquet(str(tmp_path / "lake" / "messages")).select("app_tag", "ordinal").collect()
    assert sorted(row.app_tag for row in rows) == list(range(80))
    assert sorted(row.ordinal for row in rows) == list(range(1, 81))
    with foreign.connect() as qm:
        assert sum(each.messages for each in qm.queues() if "lior_" in each.name or "private$" in each.name) == 0
