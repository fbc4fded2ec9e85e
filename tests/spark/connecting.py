"""A server of Spark Connect, of the jars in pyspark, on a free port."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.spark.processes import environment, until

STARTED = re.compile(r"Spark Connect server started at: \S*:(\d+)")
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Its sc:// name. The workers of foreachBatch come back to localhost: another address would not do."""
    import pyspark

    home, address = str(Path(pyspark.__file__).parent), "127.0.0.1"
    settings = {"spark.connect.grpc.binding.address": address, "spark.connect.grpc.binding.port": "0",
                "spark.ui.enabled": "false", "spark.driver.host": address, "spark.sql.shuffle.partitions": "2"}
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    log = folder / "connect.log"
    with log.open("w") as output:
        process = subprocess.Popen([f"{home}/bin/spark-submit", "--master", "local[2]", "--driver-java-options",
                                    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1", *words, "--class", CLASS],
                                   env=environment(SPARK_HOME=home, SPARK_LOCAL_IP=address), cwd=folder,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # fmt: skip
        try:
            found = until("a server of Spark Connect", lambda: _started(process, log))
            yield f"sc://{address}:{found}"
        finally:
            process.terminate()
            process.wait()


def _started(process: subprocess.Popen[bytes], log: Path) -> str:
    text = log.read_text(errors="replace")
    assert process.poll() is None, text[-3000:]
    found = STARTED.search(text)
    return found[1] if found else ""
