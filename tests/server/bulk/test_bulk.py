"""Bulk transfer over its port: a served queue manager, and the Flight process beside it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lior.client.bulk import Bulk, arrow_schema, connect
from lior.errors import AccessDenied, ClaimFenced, InvalidParameter, LiorError, MessageNotFound, QueueNotFound
from lior.testing.serving import Serving

ORDERS = r".\private$\orders"
PORT = {"bulk.port": 15802, "bulk.batch_rows": 50}
BODY = pa.schema([("body", pa.binary()), ("label", pa.string())])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("bulk") / "data", settings=PORT) as serving:
        wait_for(serving)
        yield serving


def wait_for(serving: Serving) -> None:
    """Until the Flight process answers: the client waits for a server that is not there yet."""
    end = time.monotonic() + 120
    while not (serving.data / "bulk.json").exists():
        assert time.monotonic() < end, serving.log
        os.sched_yield()
    with connect(serving.data) as bulk:
        bulk.subscriptions()


@pytest.fixture
def bulk(server: Serving) -> Iterator[Bulk]:
    with server.connect() as qm:
        for queue in (ORDERS, r".\private$\copies"):
            if qm.exists(queue):
                for known in qm.subscriptions():
                    qm.abandon_subscription(known["name"])
                qm.delete_queue(queue)
            qm.create_queue(queue, journal=queue == ORDERS)
    with connect(server.data) as found:
        yield found


def send(server: Serving, count: int) -> None:
    with server.connect() as qm, qm.open_queue(ORDERS, "send") as queue:
        for number in range(count):
            queue.send(f"body {number}".encode(), label=f"label {number}", priority=number % 8, app_tag=number)


def subscribe(bulk: Bulk, name: str = "lake") -> str:
    return str(bulk.call("subscribe", name=name, queues=[ORDERS])["epoch"])


def test_a_claimed_range_has_every_message_with_its_properties(server: Serving, bulk: Bulk) -> None:
    send(server, 200)
    epoch = subscribe(bulk)
    end = bulk.call("claim", name="lake", epoch=epoch, start=0, max_rows=150, max_bytes=1 << 30)
    table = pa.Table.from_batches(bulk.fetch("lake", epoch, 0, end), arrow_schema())
    rows = table.to_pylist()
    assert [row["ordinal"] for row in rows] == list(range(1, 151))
    assert [row["priority"] for row in rows] == sorted((row["priority"] for row in rows), reverse=True)
    for row in rows:
        number = row["app_tag"]
        assert row["body"] == f"body {number}".encode() and row["label"] == f"label {number}"
        assert row["priority"] == number % 8 and row["queue"] == r"private$\orders" and row["_error"] is None
        assert row["sent_at"] <= row["arrived_at"]
    again = pa.Table.from_batches(bulk.fetch("lake", epoch, 0, end), arrow_schema())
    assert again.equals(table)
    part = pa.Table.from_batches(bulk.fetch("lake", epoch, 20, 30, ["ordinal", "body"]), None)
    assert part.to_pylist() == [{"ordinal": row["ordinal"], "body": row["body"]} for row in rows[20:30]]


def test_who_was_replaced_and_who_comes_too_late_reads_nothing(server: Serving, bulk: Bulk) -> None:
    send(server, 20)
    epoch = subscribe(bulk)
    end = bulk.call("claim", name="lake", epoch=epoch, start=0, max_rows=10, max_bytes=1 << 30)
    with pytest.raises(MessageNotFound):
        list(bulk.fetch("lake", epoch, 0, end + 1))
    bulk.call("release", name="lake", epoch=epoch, ordinal=5)
    with pytest.raises(MessageNotFound):
        list(bulk.fetch("lake", epoch, 0, end))
    assert sum(batch.num_rows for batch in bulk.fetch("lake", epoch, 5, end)) == 5
    bulk.call("subscribe", name="lake", queues=[ORDERS], takeover=True)
    with pytest.raises(ClaimFenced):
        list(bulk.fetch("lake", epoch, 5, end))


def test_a_peek_shows_the_queue_without_what_is_claimed_and_journals_show_what_was_released(
    server: Serving, bulk: Bulk
) -> None:
    send(server, 100)
    epoch = subscribe(bulk)
    end = bulk.call("claim", name="lake", epoch=epoch, start=0, max_rows=30, max_bytes=1 << 30)
    left = bulk.read(ORDERS, ["app_tag", "ordinal"])
    assert left.num_rows == 70 and left["ordinal"].null_count == 70
    assert bulk.read(ORDERS, ["lookup_id"], limit=7).num_rows == 7
    bulk.call("release", name="lake", epoch=epoch, ordinal=end)
    journal = bulk.read(r"private$\orders;JOURNAL", ["app_tag"])
    tags = journal["app_tag"].to_pylist() + left["app_tag"].to_pylist()
    assert sorted(tags) == list(range(100))
    with pytest.raises(QueueNotFound):
        bulk.read(r"private$\nowhere")


def test_a_batch_is_published_once_however_often_it_is_asked_for(server: Serving, bulk: Bulk) -> None:
    bodies = [f"{number}".encode() for number in range(500)]
    batch = pa.RecordBatch.from_pylist([{"body": body, "label": "n"} for body in bodies], BODY)
    stages = [bulk.stage([batch], BODY, destination=r"private$\copies", priority=5)["stage"] for _ in range(2)]
    with server.connect() as qm:
        assert qm.queue(r".\private$\copies").messages == 0
    assert bulk.publish("writer", 1, stages) == 1000
    assert bulk.publish("writer", 1, stages) == 0
    assert not list((server.data / "staging").iterdir())
    found = bulk.read(r"private$\copies", ["body", "priority", "delivery_mode"])
    assert sorted(found["body"].to_pylist()) == sorted(2 * bodies)
    assert set(found["priority"].to_pylist()) == {5} and set(found["delivery_mode"].to_pylist()) == {1}


def test_a_stage_that_is_missing_or_too_much_sends_nothing(server: Serving, bulk: Bulk) -> None:
    stage = bulk.stage([pa.RecordBatch.from_pylist([{"body": b"x", "label": ""}], BODY)], BODY,
                       destination=r"private$\copies")["stage"]  # fmt: skip
    bulk.discard([stage])
    with pytest.raises(InvalidParameter):
        bulk.publish("other", 1, [stage])
    with pytest.raises(InvalidParameter):
        bulk.publish("other", 1, ["../../store.db"])
    with server.connect() as qm:
        assert qm.queue(r".\private$\copies").messages == 0


@pytest.mark.parametrize(
    ("rows", "schema"),
    [
        ([{"bodi": b"x"}], pa.schema([("bodi", pa.binary())])),
        ([{"label": "x"}], pa.schema([("label", pa.string())])),
        ([{"body": b"x", "priority": 8}], pa.schema([("body", pa.binary()), ("priority", pa.int64())])),
        ([{"body": b"x", "correlation_id": b"short"}], pa.schema([("body", pa.binary()),
                                                                  ("correlation_id", pa.binary())])),
    ],
)  # fmt: skip
def test_rows_that_are_no_messages_are_refused_before_anything_is_sent(
    server: Serving, bulk: Bulk, rows: list[dict[str, object]], schema: pa.Schema
) -> None:
    before = set((server.data / "staging").glob("*")) if (server.data / "staging").exists() else set()
    with pytest.raises(LiorError):
        bulk.stage([pa.RecordBatch.from_pylist(rows, schema)], schema, destination=r"private$\copies")
    assert set((server.data / "staging").glob("*")) <= before


def test_without_the_token_nobody_comes_in(server: Serving, tmp_path: Path) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("not-the-token-at-all")
    with pytest.raises(AccessDenied):
        Bulk(str(server.ready["bulk"]), str(wrong)).subscriptions()
    wrong.write_text("ruth:wrong password")
    with pytest.raises(AccessDenied):
        Bulk(str(server.ready["bulk"]), str(wrong)).subscriptions()


def test_a_stream_survives_the_death_of_the_bulk_process(server: Serving, bulk: Bulk) -> None:
    send(server, 400)
    epoch = subscribe(bulk)
    end = bulk.call("claim", name="lake", epoch=epoch, start=0, max_rows=400, max_bytes=1 << 30)
    stream = bulk.fetch("lake", epoch, 0, end, ["ordinal"])
    seen = next(stream).column(0).to_pylist()
    os.kill(bulk_pid(server), signal.SIGKILL)
    for batch in stream:
        seen += batch.column(0).to_pylist()
    assert seen == list(range(1, 401))


DYING = """
import os, sys
import pyarrow as pa
from lior.client.bulk import connect

schema = pa.schema([("body", pa.binary())])

def batches():
    for number in range(3):
        yield pa.RecordBatch.from_pylist([{"body": b"%d" % number}] * 100, schema)
    print("written", flush=True)
    sys.stdin.read()

with connect(sys.argv[1]) as bulk:
    bulk.stage(batches(), schema, destination="private$\\\\copies")
"""


def test_a_writer_that_is_killed_in_the_middle_leaves_nothing_put_aside(server: Serving, bulk: Bulk) -> None:
    before = set((server.data / "staging").iterdir()) if (server.data / "staging").exists() else set()
    writer = subprocess.Popen([sys.executable, "-c", DYING, str(server.data)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)  # fmt: skip
    assert writer.stdout is not None and writer.stdin is not None
    assert writer.stdout.readline() == b"written\n"
    end = time.monotonic() + 30
    while not (rest := set((server.data / "staging").iterdir()) - before) and time.monotonic() < end:
        os.sched_yield()
    assert [each.suffix for each in rest] == [".part"]
    writer.kill()
    writer.wait()
    writer.stdin.close()
    writer.stdout.close()
    while (rest := set((server.data / "staging").iterdir()) - before) and time.monotonic() < end:
        os.sched_yield()
    assert rest == set()


def bulk_pid(server: Serving) -> int:
    """The child of the server that runs lior.server.bulk."""
    for entry in Path("/proc").iterdir():
        try:
            status, command = (entry / "status").read_text(), (entry / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if b"lior.server.bulk" in command and f"PPid:\t{server.ready['pid']}\n" in status:
            return int(entry.name)
    raise AssertionError("there is no bulk process")


def test_the_bulk_process_ends_with_its_queue_manager(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings=PORT) as server:
        wait_for(server)
        pid = bulk_pid(server)
        descriptor = os.pidfd_open(pid)
        server.kill()
        import select

        assert select.select([descriptor], [], [], 120)[0]
        os.close(descriptor)
