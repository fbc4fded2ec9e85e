"""A driver of its own process, which a test may kill: runs one job as its argument says.

With LIOR_SPARK_FAIL=point=file it writes into the file whom to kill: the JVM and itself.
"""

import json
import os
import sys
from dataclasses import dataclass
from typing import Any

from lior.spark.jobs import deliver, ingest
from lior.spark.jobs.deliver import Deliver
from lior.spark.jobs.ingest import Ingest
from lior.spark.jobs.result import Result
from lior.spark.session import session
from tests.spark.processes import write_pids


@dataclass
class Forward:
    """Files of a directory, one in each batch, to a queue."""

    source: str
    checkpoint: str
    address: str
    queue: str
    writer: str

    def run(self, spark: Any) -> Result:
        rows = spark.read.parquet(self.source)
        stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(self.source)
        query = stream.coalesce(1).writeStream.format("msmq").options(
            address=self.address, queue=self.queue, writerId=self.writer).option(
            "checkpointLocation", self.checkpoint).trigger(availableNow=True).start()  # fmt: skip
        query.awaitTermination()
        return Result("forward")


def run(spark: Any, job: str, given: dict[str, Any]) -> Result:
    if job == "deliver":
        return deliver.run(spark, Deliver(**given))
    if job == "forward":
        return Forward(**given).run(spark)
    return ingest.run(spark, Ingest(**given | {"queues": tuple(given["queues"])}))


def main() -> None:
    given = json.loads(sys.argv[1])
    pids = given.pop("pids", "")
    master, job = given.pop("master", "local[2]"), given.pop("job", "ingest")
    with session(master, "driver", given.pop("settings", None)) as spark:
        _, _, file = os.environ.get("LIOR_SPARK_FAIL", "").partition("=")
        if file:
            from pyspark import SparkContext

            assert SparkContext._gateway is not None
            with open(file, "w", encoding="ascii") as stream:
                stream.write(f"{SparkContext._gateway.proc.pid} {os.getpid()}")
        if pids:
            write_pids(pids)
        print(json.dumps(run(spark, job, given).to_json()), flush=True)


if __name__ == "__main__":
    main()
