"""A driver that was taken for dead and comes back."""

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lior.testing.serving import Serving
from tests.spark.conftest import messages, send
from tests.spark.processes import Driver, family, until
from tests.spark.storm import table_of

SECONDS = 300.0


def lake(server: Serving, queue: str, folder: Path, **more: Any) -> dict[str, Any]:
    folder.mkdir()
    one = {"address": str(server.data), "queues": [queue], "lake": str(folder / "lake"), "format": "delta",
           "subscription": f"z{queue[-6:]}", **more}  # fmt: skip
    return {"lakes": [one], "master": "local[2]", "settings": {}, "enough": str(folder / "enough")}


def tags(folder: Path) -> list[int]:
    found: list[int] = table_of(folder / "lake", "delta", ["app_tag"])["app_tag"].to_pylist()
    return sorted(found)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_a_driver_that_stood_still_while_another_took_over_is_refused_and_writes_nothing(
    server: Serving, queue: str, tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with ExitStack() as ends:
        first = Driver("storm_driver.py", lake(server, queue, old), old)
        ends.callback(first.end)
        send(server, queue, range(300))
        until("the first has read", lambda: messages(server, queue) == (0, 300), SECONDS)

        asleep = family(first.process.pid)
        for pid in asleep:
            os.kill(pid, signal.SIGSTOP)
        send(server, queue, range(300, 500))
        second = Driver("storm_driver.py", lake(server, queue, new, takeover=True), new)
        ends.callback(second.end)
        until("the second has read", lambda: messages(server, queue) == (0, 500), SECONDS)

        send(server, queue, range(500, 700))
        for pid in asleep:
            os.kill(pid, signal.SIGCONT)
        assert first.process.wait(SECONDS) != 0
        assert "ClaimFenced" in first.log
        until("the second goes on", lambda: messages(server, queue) == (0, 700), SECONDS)
        (new / "enough").touch()
        assert second.process.wait(SECONDS) == 0, second.log
    assert tags(old) == list(range(300))
    assert tags(new) == list(range(300, 700))
