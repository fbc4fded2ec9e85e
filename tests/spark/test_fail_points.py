"""Deaths on purpose at each point that matters, one after the other on the same work; then everything is there once.

Each test looks at what a death has left behind: that says that it happened where its name says.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lior.testing.serving import Serving
from tests.spark.conftest import messages, send, wait_for_bulk
from tests.spark.processes import TOO_SLOW, environment, until
from tests.spark.storm import table_of

DRIVER = Path(__file__).with_name("driver.py")
SECONDS = 400  # for one life of a driver
LIVES = 10
SMALL_BATCHES = {"spark.sql.execution.arrow.maxRecordsPerBatch": "40"}
PROPERTIES = ["app_tag", "body", "label", "priority", "correlation_id", "body_type", "delivery_mode", "journal",
              "acknowledge", "time_to_be_received", "extension"]  # fmt: skip


def run(job: dict[str, Any], point: str = "", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    more = {"LIOR_SPARK_FAIL": f"{point}={folder / 'to-kill'}"} if point and folder is not None else {}
    for _ in range(5):
        done = subprocess.run([sys.executable, str(DRIVER), json.dumps(job)], env=environment(**more), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)  # fmt: skip
        if TOO_SLOW not in done.stderr:
            break
    return done


def dies(job: dict[str, Any], point: str, folder: Path) -> None:
    """At this point, by signal 9: the file that names the victims is gone only if it was reached."""
    died = run(job, point, folder)
    assert died.returncode == -9, f"{point}: {died.returncode}\n{died.stderr[-3000:]}"
    assert not (folder / "to-kill").exists(), f"{point} was not reached\n{died.stderr[-3000:]}"


def ends(job: dict[str, Any]) -> dict[str, Any]:
    done = run(job)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def ingest(server: Serving, queue: str, lake: Path, **more: Any) -> dict[str, Any]:
    return {"address": str(server.data), "queues": [queue], "lake": str(lake), "once": True,
            "subscription": queue.rpartition("\\")[2], "max_messages": 200, **more}  # fmt: skip


def stands(server: Serving, job: dict[str, Any]) -> tuple[int, int, int]:
    """The last ordinal given, the last released, how many are claimed."""
    with server.connect() as qm:
        (known,) = [each for each in qm.subscriptions() if each["name"] == job["subscription"]]
    return known["last"], known["released"], known["claimed"]


def tags(lake: Path, kind: str) -> list[int]:
    if not (lake / "messages").exists() and not (lake / "lior").exists():
        return []
    if kind == "archive" and not list((lake / "messages").glob("batch=*")):
        return []
    found: list[int] = table_of(lake, kind, ["app_tag"])["app_tag"].to_pylist()
    return sorted(found)


@pytest.mark.timeout(SECONDS * 3)
def test_a_driver_killed_after_a_claim_and_after_the_sink_loses_and_doubles_nothing(
    server: Serving, queue: str, tmp_path: Path
) -> None:
    send(server, queue, range(500))
    job = ingest(server, queue, tmp_path / "lake")
    for point in ("after claim", "after sink"):
        dies(job, point, tmp_path)
    ends(job)
    assert tags(tmp_path / "lake", "parquet") == list(range(500))
    assert messages(server, queue) == (0, 500)
    assert stands(server, job) == (500, 500, 0)


@pytest.mark.torture
@pytest.mark.timeout(SECONDS * LIVES)
@pytest.mark.parametrize("kind", ["parquet", "archive", "delta", "iceberg"])
def test_a_batch_whose_driver_dies_at_every_point_is_in_the_lake_once(
    server: Serving, queue: str, tmp_path: Path, kind: str
) -> None:
    send(server, queue, range(500))
    lake = tmp_path / "lake"
    job = ingest(server, queue, lake, format=kind)
    offsets, commits = (Path(lake, "checkpoints", job["subscription"], name, "0") for name in ("offsets", "commits"))

    dies(job, "after claim", tmp_path)
    assert stands(server, job) == (200, 0, 200) and not offsets.exists()
    dies(job, "after offset log", tmp_path)
    assert stands(server, job) == (200, 0, 200) and offsets.exists() and not commits.exists()
    assert tags(lake, kind) == []
    if kind == "archive":
        for point in ("mid file", "between files"):
            dies(job, point, tmp_path)
            assert tags(lake, kind) == []
    if kind != "parquet":
        dies(job, "between files and table", tmp_path)
        assert not commits.exists() and list(lake.rglob("*.parquet")) != []
        if kind == "delta":
            assert not (lake / "messages" / "_delta_log").exists()
    dies(job, "after sink", tmp_path)
    assert not commits.exists() and len(tags(lake, kind)) == 200
    dies(job, "after commit file", tmp_path)
    assert commits.exists() and stands(server, job) == (200, 0, 200)
    dies(job, "after release", tmp_path)
    until("200 are released", lambda: stands(server, job) == (200, 200, 0))  # who released them did not wait
    assert messages(server, queue) == (300, 200)

    ends(job)
    assert tags(lake, kind) == list(range(500))
    assert messages(server, queue) == (0, 500)
    assert stands(server, job) == (500, 500, 0)


def staged(server: Serving) -> list[Path]:
    return list((server.data / "staging").glob("*.stage"))


def nothing_stays_put_aside(server: Serving) -> None:
    """What died before it was published goes away by itself."""
    before = server.settings
    server.settings = before | {"bulk.stage_timeout": 1}
    server.restart()
    until("nothing is put aside", lambda: not any((server.data / "staging").iterdir()))
    server.settings = before
    server.restart()
    wait_for_bulk(server)


@pytest.mark.torture
@pytest.mark.timeout(SECONDS * LIVES)
def test_a_lake_whose_delivery_dies_at_every_point_comes_back_the_same(
    server: Serving, queue: str, tmp_path: Path
) -> None:
    """Lake, queue, lake: equal row by row."""
    send(server, queue, range(300), correlation_id=bytes(range(20)), extension=b"more")
    send(server, queue, range(300, 600), time_to_be_received=86_400, acknowledge=0)
    ends(ingest(server, queue, tmp_path / "first"))
    with server.connect() as qm:
        target = f"{queue}2"
        qm.create_queue(f".\\{target}", journal=True)
    # in three parts, which follow each other
    job = {"job": "deliver", "settings": SMALL_BATCHES, "address": str(server.data), "run_id": f"run {queue}",
           "source": str(tmp_path / "first" / "messages"), "queue": target, "rate": 200.0}  # fmt: skip

    dies(job, "mid stage", tmp_path)
    assert messages(server, target) == (0, 0)
    dies(job, "before publish", tmp_path)
    assert staged(server) != [] and messages(server, target) == (0, 0)
    dies(job, "after publish", tmp_path)
    there = messages(server, target)[0]
    assert 0 < there < 600
    dies(job, "after publish", tmp_path)  # of the first part again, which is known
    assert messages(server, target)[0] == there
    assert ends(job)["rows"] == 600
    assert messages(server, target)[0] == 600
    ends(job)  # and once more changes nothing
    assert messages(server, target)[0] == 600

    ends(ingest(server, target, tmp_path / "second", format="delta"))
    before = pq.read_table(tmp_path / "first" / "messages", columns=PROPERTIES)
    after = table_of(tmp_path / "second", "delta", PROPERTIES)
    assert before.num_rows == 600
    assert after.sort_by("app_tag").to_pylist() == before.sort_by("app_tag").to_pylist()
    nothing_stays_put_aside(server)


@pytest.mark.torture
@pytest.mark.timeout(SECONDS * LIVES)
def test_a_stream_into_a_queue_that_dies_at_every_point_sends_every_row_once(
    server: Serving, queue: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(4):
        rows = [{"body": b"%d" % each, "app_tag": each, "priority": each % 8} for each in
                range(number * 100, number * 100 + 100)]  # fmt: skip
        schema = pa.schema([("body", pa.binary()), ("app_tag", pa.int64()), ("priority", pa.int8())])
        pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "in" / f"{number}.parquet")
        os.utime(tmp_path / "in" / f"{number}.parquet", (1_700_000_000 + number, 1_700_000_000 + number))
    job = {"job": "forward", "settings": SMALL_BATCHES, "source": str(tmp_path / "in"), "queue": queue,
           "checkpoint": str(tmp_path / "checkpoint"), "address": str(server.data), "writer": queue}  # fmt: skip
    commits = tmp_path / "checkpoint" / "commits"

    dies(job, "mid stage", tmp_path)
    assert messages(server, queue)[0] == 0
    dies(job, "before publish", tmp_path)
    assert staged(server) != [] and messages(server, queue)[0] == 0
    dies(job, "after publish", tmp_path)
    assert messages(server, queue)[0] == 100 and not (commits / "0").exists()
    dies(job, "after publish", tmp_path)  # the same batch again, which is known
    assert messages(server, queue)[0] == 100 and not (commits / "0").exists()
    ends(job)
    assert (commits / "3").exists()
    with server.connect() as qm, qm.open_queue(f".\\{queue}") as opened:
        found = sorted((each.application_tag, each.priority, bytes(each.body)) for each in opened)
    assert found == [(each, each % 8, b"%d" % each) for each in range(400)]
    nothing_stays_put_aside(server)
