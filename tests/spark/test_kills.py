"""Kill -9 of driver and JVM at points that matter, and of the queue manager; every message arrives once."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lior.testing.serving import Serving
from tests.spark.conftest import messages, send, wait_for_bulk

DRIVER = Path(__file__).with_name("driver.py")
KILLED = 137, -9
SECONDS = 240


def run(given: dict[str, Any], fail: str = "", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if fail:
        assert folder is not None
        environment["LIOR_SPARK_FAIL"] = f"{fail}={folder / 'to-kill'}"
    return subprocess.run([sys.executable, str(DRIVER), json.dumps(given)], env=environment, text=True,
                          capture_output=True, timeout=SECONDS, check=False)  # fmt: skip


def given(server: Serving, queue: str, tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {"address": str(server.data), "queues": [queue], "lake": str(tmp_path / "lake"), "once": True,
            "subscription": queue.rpartition("\\")[2], "max_messages": 200, **more}  # fmt: skip


def tags(lake: Path, kind: str) -> list[int]:
    if kind == "parquet":
        table = pq.read_table(lake / "messages", columns=["app_tag"])
    elif kind == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(lake / "messages")).to_pyarrow_table(columns=["app_tag"])
    else:
        from lior.spark.sinks import open_catalog

        table = open_catalog(str(lake)).load_table("lior.messages").scan(selected_fields=("app_tag",)).to_arrow()
    return sorted(table["app_tag"].to_pylist())


@pytest.mark.timeout(SECONDS * 3)
def test_a_driver_killed_after_a_claim_and_after_the_sink_loses_and_doubles_nothing(
    server: Serving, queue: str, tmp_path: Path
) -> None:
    send(server, queue, range(500))
    job = given(server, queue, tmp_path)
    for point in ("after claim", "after sink"):
        died = run(job, point, tmp_path)
        assert died.returncode in KILLED and not (tmp_path / "to-kill").exists(), died.stderr[-2000:]
    done = run(job)
    assert done.returncode == 0, done.stderr[-3000:]
    assert tags(tmp_path / "lake", "parquet") == list(range(500))
    assert messages(server, queue) == (0, 500)
    with server.connect() as qm:
        (known,) = [each for each in qm.subscriptions() if each["name"] == job["subscription"]]
    assert known["claimed"] == 0


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_kills_at_every_point_and_of_every_process_lose_and_double_nothing(
    tmp_path: Path, kind: str, seed: int
) -> None:
    """Messages arrive all the time; drivers die at each point, and the queue manager and its bulk process at random."""
    chance = random.Random(seed)
    points = ["after claim", "after offset log", "after sink", "after release"]
    points += [] if kind == "parquet" else ["between files and table"]
    queue, total = r"private$\storm", 0
    with Serving(tmp_path / "data", settings={"bulk.port": 15802}) as server:
        wait_for_bulk(server)
        with server.connect() as qm:
            qm.create_queue(f".\\{queue}", journal=True)
        job = given(server, queue, tmp_path, format=kind)
        for point in chance.sample(points, len(points)):
            send(server, queue, range(total, total + 700))
            total += 700
            killer = threading.Timer(chance.uniform(8, 25), kill_one, (server, chance.random() < 0.5))
            killer.start()
            run(job, point, tmp_path)
            (tmp_path / "to-kill").unlink(missing_ok=True)
            killer.join()
            wait_for_bulk(server)
        done = run(job)
        assert done.returncode == 0, done.stderr[-3000:]
        assert tags(tmp_path / "lake", kind) == list(range(total))
        assert messages(server, queue) == (0, total)


def kill_one(server: Serving, whole: bool) -> None:
    """The queue manager with its bulk process, or that alone."""
    from tests.server.bulk.test_bulk import bulk_pid

    if whole:
        server.kill()
        server.start()
    else:
        os.kill(bulk_pid(server), 9)


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_the_same_job_runs_on_a_cluster_whose_executor_is_killed(tmp_path: Path) -> None:
    """A master and two workers of our own; one executor dies while it reads."""
    with Serving(tmp_path / "data", settings={"bulk.port": 15802}) as server, cluster(tmp_path) as master:
        wait_for_bulk(server)
        queue = r"private$\clustered"
        with server.connect() as qm:
            qm.create_queue(f".\\{queue}", journal=True)
        send(server, queue, range(3000))
        killer = threading.Timer(25, kill_an_executor, (tmp_path,))
        killer.start()
        done = run(given(server, queue, tmp_path, master=master, max_messages=300))
        killer.cancel()
        assert done.returncode == 0, done.stderr[-3000:]
        assert tags(tmp_path / "lake", "parquet") == list(range(3000))
        assert messages(server, queue) == (0, 3000)


def kill_an_executor(folder: Path) -> None:
    """One of the cluster's own: what its workers start has their environment."""
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in command and os.fsencode(folder) in (entry / "environ").read_bytes():
            os.kill(int(entry.name), 9)
            return


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    environment = os.environ | {"SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
                                "LIOR_TEST_CLUSTER": str(folder)}  # fmt: skip
    program, url = f"{home}/bin/spark-class", "spark://127.0.0.1:17077"
    log = folder / "master.log"
    processes = []
    with log.open("w") as output:
        try:
            processes.append(subprocess.Popen(
                [program, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "17077",
                 "--webui-port", "18180"], env=environment, stdout=output, stderr=output))  # fmt: skip
            for number in (1, 2):
                processes.append(subprocess.Popen(
                    [program, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1",
                     "--memory", "1500m", "--webui-port", f"1819{number}", "--work-dir", str(folder / f"w{number}"),
                     url], env=environment, stdout=output, stderr=output))  # fmt: skip
            end = time.monotonic() + 120
            while log.read_text().count("Registering worker") < 2:
                assert time.monotonic() < end, log.read_text()[-2000:]
                os.sched_yield()
            yield url
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()
