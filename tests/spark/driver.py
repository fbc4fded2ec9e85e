"""A driver of its own process, which a test may kill: runs one ingest job as its argument says.

With LIOR_SPARK_FAIL=point=file it writes into the file whom to kill: the JVM and itself.
"""

import json
import os
import sys

from lior.spark.jobs import ingest
from lior.spark.jobs.ingest import Ingest
from lior.spark.session import session


def main() -> None:
    given = json.loads(sys.argv[1])
    master = given.pop("master", "local[2]")
    given["queues"] = tuple(given["queues"])
    with session(master, "driver") as spark:
        _, _, file = os.environ.get("LIOR_SPARK_FAIL", "").partition("=")
        if file:
            from pyspark import SparkContext

            assert SparkContext._gateway is not None
            with open(file, "w", encoding="ascii") as stream:
                stream.write(f"{SparkContext._gateway.proc.pid} {os.getpid()}")
        print(json.dumps(ingest.run(spark, Ingest(**given)).to_json()), flush=True)


if __name__ == "__main__":
    main()
