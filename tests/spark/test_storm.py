"""Random kills of every process while messages arrive: each is in each lake once, and nowhere else."""

from pathlib import Path

import pytest

from lior.testing.serving import Serving
from tests.spark.conftest import wait_for_bulk
from tests.spark.processes import cluster
from tests.spark.storm import Storm

SETTINGS = {"bulk.port": 15802}
ON_CLUSTER = {"spark.executor.memory": "1g", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
              "spark.sql.shuffle.partitions": "2"}  # fmt: skip


@pytest.mark.timeout(600)
def test_a_few_kills_while_messages_arrive_lose_and_double_nothing(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with Serving(tmp_path / "data", settings=SETTINGS) as server:
        wait_for_bulk(server)
        storm = Storm(server, tmp_path, seed, 5_000, 4, ("driver", "jvm", "queue manager", "bulk process"), ("delta",))
        with capsys.disabled():
            storm.run()
        storm.check()


@pytest.mark.torture
@pytest.mark.timeout(4 * 3600)
def test_thirty_kills_over_a_cluster_while_200000_messages_arrive_lose_and_double_nothing(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Into Parquet, Delta and Iceberg at once."""
    kinds = ("driver", "jvm", "executor", "queue manager", "bulk process")
    with Serving(tmp_path / "data", settings=SETTINGS) as server, cluster(tmp_path) as master:
        wait_for_bulk(server)
        storm = Storm(server, tmp_path, seed, 200_000, 30, kinds, ("parquet", "delta", "iceberg"), master,
                      ON_CLUSTER, 5_000)  # fmt: skip
        with capsys.disabled():
            storm.run()
        storm.check()


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_executors_of_a_cluster_die_in_the_middle_and_the_query_goes_on(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A master and two workers; the driver lives through it all."""
    with Serving(tmp_path / "data", settings=SETTINGS) as server, cluster(tmp_path) as master:
        wait_for_bulk(server)
        storm = Storm(server, tmp_path, seed, 8_000, 3, ("executor",), ("parquet",), master, ON_CLUSTER, 500)
        with capsys.disabled():
            storm.run()
        storm.check()
        assert storm.lives == 1
        assert (tmp_path / "cluster.log").read_text().count("Launching executor") >= 2 + 3
