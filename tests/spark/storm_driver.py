"""The driver of a storm: one stream into lakes of several formats at once, until a file says that it is enough."""

import json
import sys
from pathlib import Path
from typing import Any

from lior.spark.jobs.ingest import Ingest, WriteBatch, source_options
from lior.spark.session import session
from tests.spark.processes import write_pids


def main() -> None:
    given = json.loads(sys.argv[1])
    lakes = [Ingest(**each | {"queues": tuple(each["queues"])}) for each in given["lakes"]]
    with session(given["master"], "storm", given["settings"]) as spark:
        write_pids(given["pids"])
        writers = [WriteBatch(lake) for lake in lakes]

        def write(df: Any, batch_id: int) -> None:
            for writer in writers:
                writer(df, batch_id)

        stream = spark.readStream.format("msmq").options(**source_options(lakes[0])).load()
        query = stream.writeStream.foreachBatch(write).option("checkpointLocation", lakes[0].checkpoint_path).trigger(
            processingTime="0 seconds").start()  # fmt: skip
        while query.isActive and not Path(given["enough"]).exists():
            query.awaitTermination(0.5)
        error = query.exception()
        if error is not None:
            raise error
        query.stop()


if __name__ == "__main__":
    main()
