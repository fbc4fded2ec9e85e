"""The tables of a lake, whatever the JVM of a driver that is gone still writes."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lior.spark.sinks import FilesOfBatch, sink_for

APP = "0123456789"


def table_of(kind: str, lake: Path) -> Path:
    return lake / "messages" if kind == "delta" else lake / "lior" / "messages"


def ordinals(kind: str, lake: Path) -> list[int]:
    if kind == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(str(table_of(kind, lake))).to_pyarrow_table()
    else:
        from lior.spark.sinks import ICEBERG_TABLE, open_catalog

        found = open_catalog(str(lake)).load_table(ICEBERG_TABLE).scan().to_arrow()
    return sorted(found["ordinal"].to_pylist())


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_what_a_dead_driver_wrote_is_neither_in_the_table_nor_in_the_way_and_goes(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    df = spark.range(1, 101).withColumnRenamed("id", "ordinal")
    table = table_of(kind, tmp_path)
    early, late = (FilesOfBatch(str(table), APP, 0) for _ in range(2))
    early.write(df)  # and then the driver was killed
    assert sink_for(kind, str(tmp_path)).write(df, APP, 0)
    assert not Path(early.path).exists()
    late.write(df)  # its JVM goes on
    assert ordinals(kind, tmp_path) == list(range(1, 101))
    assert not sink_for(kind, str(tmp_path)).write(df, APP, 0)
    shutil.rmtree(late.path)
    assert ordinals(kind, tmp_path) == list(range(1, 101))
