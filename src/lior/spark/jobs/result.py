"""What a job answers, and the log of runs beside the lake."""

from __future__ import annotations

import json
import os
import time
from dataclasses import MISSING, asdict, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Final, TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from lior.errors import BadConfiguration

_RUN: Final = ("run_id string, job string, ended_at double, seconds double, rows bigint, batches bigint, error string, "
               "config string, details string")  # fmt: skip
C = TypeVar("C")


@dataclass
class Result:
    job: str
    rows: int = 0
    batches: int = 0
    seconds: float = 0.0
    output: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "batches": self.batches, "seconds": round(self.seconds, 3), "output": self.output,
                **self.details}  # fmt: skip


def config_from(kind: type[C], given: dict[str, Any]) -> C:
    """A job's configuration, from TOML and options. A name that nobody knows is refused, and so is what is no value of
    its kind or is missing."""
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            near = get_close_matches(name, list(known), 1, 0.5)
            raise BadConfiguration(f"there is no setting {name}", where=kind.__name__,
                                   remedy=f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}")
    for name, each in known.items():
        if name not in given and each.default is MISSING and each.default_factory is MISSING:
            option = name.replace("_", "-").replace("queues", "queue").replace("address", "server")
            raise BadConfiguration(f"the setting {name} is missing", where=kind.__name__,
                                   remedy=f"give --{option}, or set it in the file of --config")
    return kind(**{name: _of_kind(name, str(known[name].type), value) for name, value in given.items()})


def _of_kind(name: str, kind: str, value: Any) -> Any:
    base = kind.partition(" | ")[0].partition("[")[0]
    if base == "tuple":
        values = [value] if isinstance(value, str) else value
        if isinstance(values, list | tuple) and all(isinstance(each, str) for each in values):
            return tuple(values)
    elif base == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif type(value) is {"str": str, "int": int, "bool": bool, "dict": dict}[base]:
        return value
    raise BadConfiguration(f"{value!r:.60} is no value for {name}", where=name, remedy=f"it takes a {kind}")


def log_run(spark: Any, lake: str, config: Any, result: Result, error: str = "") -> None:
    """One row for a run, in runs/: when, what, with which settings, and what came out. Under Spark Connect the lake is
    where the server finds it."""
    row = {"run_id": str(uuid4()), "job": result.job, "ended_at": time.time(), "seconds": result.seconds,
           "rows": result.rows, "batches": result.batches, "error": error, "config": json.dumps(asdict(config)),
           "details": json.dumps(result.details, default=str)}  # fmt: skip
    if is_remote(spark):
        spark.createDataFrame([row], _RUN).coalesce(1).write.mode("append").parquet(f"{lake.rstrip('/')}/runs")
        return
    if "://" in lake:
        system, base = fs.FileSystem.from_uri(lake)
    else:
        system, base = fs.LocalFileSystem(), os.path.abspath(lake)
    system.create_dir(f"{base}/runs", recursive=True)
    pq.write_table(pa.Table.from_pylist([row]), f"{base}/runs/{row['run_id']}.parquet", filesystem=system)


def is_remote(spark: Any) -> bool:
    """Whether this is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def page_for(spark: Any, lake: str, name: str) -> str:
    """Where a page about a lake goes: into it, if it is on this computer, else beside us."""
    return name if "://" in lake or is_remote(spark) else f"{lake.rstrip('/')}/{name}"
