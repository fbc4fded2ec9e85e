"""A queue manager without a claim log, read through subqueues over its RPC: its process and those of Spark die, and
each message is in the lake once. A second `lior serve` stands for it, of which only what the documents have is used."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import lior
from lior.server.rpc.accounts import AccountFile
from lior.testing.serving import Serving
from tests.spark.processes import Driver, kill, until
from tests.spark.test_fail_points import LIVES, SECONDS, dies, ends, tags

PLAIN, EXACT = r"private$\orders", r"private$\exact"
USER, PASSWORD = "ruth", "correct horse battery"


class Foreign(NamedTuple):
    server: Serving
    credentials: Path


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Foreign]:
    credentials = tmp_path / "credentials"
    credentials.write_text(f"{USER}:{PASSWORD}\n")
    with lior.open(tmp_path / "data"):
        pass
    AccountFile(tmp_path / "data").add(USER, PASSWORD, administrator=True)
    with Serving(tmp_path / "data") as server:
        with server.connect() as qm:
            qm.create_queue(f".\\{PLAIN}", journal=True)
            qm.create_queue(f".\\{EXACT}", journal=True, transactional=True)
        yield Foreign(server, credentials)


def fill(server: Serving, numbers: range) -> None:
    """Every third in a transaction, the others at every priority."""
    with server.connect() as qm, qm.transaction() as transaction, qm.open_queue(f".\\{PLAIN}", "send") as plain:
        for number in numbers:
            if number % 3:
                plain.send(b"%d" % number, app_tag=number, priority=number % 8)
            else:
                transaction.send(f".\\{EXACT}", b"%d" % number, app_tag=number)


def job(foreign: Foreign, lake: Path) -> dict[str, Any]:
    return {"address": foreign.server.address, "queues": [PLAIN, EXACT], "lake": str(lake), "once": True,
            "subscription": "far", "max_messages": 100, "credentials_file": str(foreign.credentials),
            "options": {"broker": "subqueue"}}  # fmt: skip


def counts(server: Serving) -> dict[str, int]:
    """Messages of each queue and subqueue that has some."""
    with server.connect() as qm:
        return {each.name: each.messages for each in qm.queues() if each.messages and "journal" not in each.kind}


def in_journals(server: Serving) -> list[int]:
    found: list[int] = []
    with server.connect() as qm:
        for name in (PLAIN, EXACT):
            with qm.open_queue(f"DIRECT=OS:.\\{name};JOURNAL") as journal:
                found += [each.application_tag for each in journal]
    return sorted(found)


@pytest.mark.torture
@pytest.mark.timeout(SECONDS * LIVES)
def test_drivers_that_die_at_every_point_and_a_queue_manager_that_dies_between_them(
    foreign: Foreign, tmp_path: Path
) -> None:
    server, lake = foreign.server, tmp_path / "lake"
    fill(server, range(250))
    given = job(foreign, lake)
    checkpoint = lake / "checkpoints" / "far"
    for point in ("after claim", "after offset log", "after sink", "after commit file", "after release"):
        dies(given, point, tmp_path)
        moved = sum(count for name, count in counts(server).items() if "lior_far_0" in name)
        assert moved == (0 if point == "after release" else 100), (point, counts(server))
        assert (checkpoint / "commits" / "0").exists() == (point in ("after commit file", "after release"))
        server.kill()
        server.start()
    assert ends(given)["rows"] == 150
    fill(server, range(250, 270))
    assert ends(given)["rows"] == 20
    assert tags(lake, "parquet") == list(range(270))
    assert counts(server) == {}
    assert in_journals(server) == list(range(270))


@pytest.mark.torture
@pytest.mark.timeout(SECONDS * LIVES)
def test_a_queue_manager_that_dies_while_a_batch_is_moved_and_while_one_is_released(
    foreign: Foreign, tmp_path: Path
) -> None:
    server, lake = foreign.server, tmp_path / "lake"
    fill(server, range(900))
    given = job(foreign, lake) | {"max_messages": 900}

    def moved() -> int:
        return sum(count for name, count in counts(server).items() if "lior_far_0" in name)

    killed = 0
    caught: Callable[[], bool]
    for caught in (lambda: 50 < moved() < 900, lambda: len(in_journals(server)) > 50):
        driver = Driver("driver.py", given, tmp_path, f"driver{killed}")
        try:
            until("the moment to kill", lambda now=caught, it=driver: now() or not it.running, SECONDS)
            assert driver.running, driver.log
            assert kill(server.pid)
            killed += 1
            server.wait()
            server.start()
            driver.process.wait(SECONDS)
        finally:
            driver.end()
    assert killed == 2
    ends(given)
    ends(given)
    assert tags(lake, "parquet") == list(range(900))
    assert counts(server) == {}
    assert in_journals(server) == list(range(900))
