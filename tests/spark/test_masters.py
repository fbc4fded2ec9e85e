"""The same job files over Spark Connect, on local[*] and on a standalone cluster; the last two, where other tests run,
in the long run only."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lior.testing.serving import Serving
from tests.spark.conftest import messages, send
from tests.spark.connecting import connect_server
from tests.spark.processes import ROOT, cluster, environment

SECONDS = 300  # for a job, on a machine with much else to do
PROGRAM = ROOT / "examples" / "answer_orders.py"


@pytest.fixture(scope="module", params=[
    "connect", pytest.param("local", marks=pytest.mark.torture), pytest.param("standalone", marks=pytest.mark.torture)
])  # fmt: skip
def master(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp(request.param)
    kinds: dict[str, Any] = {"standalone": cluster, "connect": connect_server}
    with kinds.get(request.param, lambda _: nullcontext("local[2]"))(folder) as url:
        yield url


def variables(master: str) -> dict[str, str]:
    """What `spark-submit --master` and a session of Spark Connect are told by."""
    if master.startswith("sc://"):
        return environment(SPARK_REMOTE=master)
    host = master.partition("://")[2].partition(":")[0] or "127.0.0.1"
    words = ["--master", master, "--conf", f"spark.driver.host={host}", "--conf", "spark.ui.enabled=false",
             "--driver-java-options", "'-XX:+UseSerialGC -XX:TieredStopAtLevel=1'", "pyspark-shell"]  # fmt: skip
    return environment(PYSPARK_SUBMIT_ARGS=" ".join(words), SPARK_LOCAL_IP=host)


def run(folder: Path, variables: dict[str, str], *command: str) -> str:
    done = subprocess.run([sys.executable, *command], env=variables, cwd=folder, text=True, capture_output=True,
                          timeout=SECONDS, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.timeout(3 * SECONDS)
def test_a_job_file_and_a_program_run_on_every_master_unchanged(
    server: Serving, queue: str, tmp_path: Path, master: str
) -> None:
    """The file says nothing of the master, and its paths are relative."""
    send(server, queue, range(150))
    (tmp_path / "job.toml").write_text(
        f"[ingest]\naddress = '{os.path.relpath(server.data, tmp_path)}'\nqueues = ['{queue}']\nlake = 'lake'\n"
        f"subscription = 'job-{queue[-8:]}'\nonce = true\nmax_messages = 60\n"
        "[spark]\n'spark.sql.shuffle.partitions' = '2'\n"
    )
    said = json.loads(run(tmp_path, environment(), "-m", "lior.cli.main", "pipeline", "ingest", "--config", "job.toml",
                          "--master", master, "--json"))  # fmt: skip
    assert (said["rows"], said["batches"]) == (150, 3)
    assert sorted(pq.read_table(tmp_path / "lake/messages")["app_tag"].to_pylist()) == list(range(150))
    assert pq.read_table(tmp_path / "lake/runs")["rows"].to_pylist() == [150]
    assert messages(server, queue) == (0, 150)

    send(server, queue, range(40))
    answers = f"{queue}a"
    with server.connect() as qm:
        qm.create_queue(f".\\{answers}")
    out = run(tmp_path, variables(master), str(PROGRAM), str(server.data), str(tmp_path / "answers"), queue, answers)
    assert out == "40 orders, 40 answers\n"
    with server.connect() as qm, qm.open_queue(f".\\{answers}") as opened:
        found = sorted((message.label, message.body) for message in opened)
    assert found == sorted((f"re: {number}", f"received: body {number}".encode()) for number in range(40))
