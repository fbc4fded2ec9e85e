"""Compaction: the rows stay what they were, whatever is killed, and an ingest that goes on is not disturbed."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lior.spark import failpoints
from lior.spark.jobs import compact, ingest
from lior.spark.jobs.compact import PLAN, STAGED, Compact
from lior.spark.jobs.ingest import Ingest
from lior.testing.serving import Serving
from tests.spark.conftest import send

KINDS = ["parquet", "archive", "delta", "iceberg"]


def tags(lake: Path, kind: str) -> list[int]:
    if kind in ("parquet", "archive"):
        table = pq.read_table(lake / "messages", columns=["app_tag"])
    elif kind == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(lake / "messages")).to_pyarrow_table(columns=["app_tag"])
    else:
        from lior.spark.sinks import open_catalog

        table = open_catalog(str(lake)).load_table("lior.messages").scan(selected_fields=("app_tag",)).to_arrow()
    return sorted(table["app_tag"].to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_many_small_files_become_few_with_the_same_rows_and_ingest_goes_on(
    spark: Any, server: Serving, queue: str, tmp_path: Path, kind: str
) -> None:
    job = Ingest(str(server.data), (queue,), str(tmp_path / "lake"), queue[-8:], kind, once=True, max_messages=20)
    send(server, queue, range(100))
    ingest.run(spark, job)
    found = compact.run(spark, Compact(job.lake, kind))
    assert found.details["files_after"] < found.details["files_before"]
    assert tags(tmp_path / "lake", kind) == list(range(100))
    send(server, queue, range(100, 140))
    ingest.run(spark, job)
    assert tags(tmp_path / "lake", kind) == list(range(140))
    compact.run(spark, Compact(job.lake, kind))
    assert tags(tmp_path / "lake", kind) == list(range(140))


class Killed(BaseException):
    """In place of a kill: nothing after it is done."""


@pytest.mark.parametrize("point", ["compaction planned", "compaction moved"])
def test_a_compaction_that_is_killed_is_finished_by_the_next(
    spark: Any, server: Serving, queue: str, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    job = Ingest(str(server.data), (queue,), str(lake), queue[-8:], once=True, max_messages=20)
    send(server, queue, range(80))
    ingest.run(spark, job)

    def die(where: str) -> None:
        if where == point:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "reached", die)
        with pytest.raises(Killed):
            compact.run(spark, Compact(str(lake)))
    assert (lake / "messages" / PLAN).exists()
    if point == "compaction planned":
        assert tags(lake, "parquet") == list(range(80))
    compact.run(spark, Compact(str(lake)))
    assert tags(lake, "parquet") == list(range(80))
    assert not (lake / "messages" / PLAN).exists() and not (lake / "messages" / STAGED).exists()


def test_the_last_batch_of_a_checkpoint_is_left_alone(
    spark: Any, server: Serving, queue: str, tmp_path: Path
) -> None:
    """Spark may run it again, and then writes over its directory."""
    lake = tmp_path / "lake"
    send(server, queue, range(60))
    ingest.run(spark, Ingest(str(server.data), (queue,), str(lake), queue[-8:], once=True, max_messages=20))
    compact.run(spark, Compact(str(lake)))
    names = sorted(each.name.partition("=")[2] for each in lake.rglob("batch=*"))
    assert len(names) == 2 and names[0].endswith("-0000000002") and names[1].startswith("compacted-")
