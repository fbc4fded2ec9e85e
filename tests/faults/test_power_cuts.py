"""The whole queue manager when a file call fails or the power is cut: at the n-th call, for every n.

A bounded mixed load runs in a forked child with the fault library preloaded. The normal run takes n spread evenly
over the calls, another set for each seed; `make torture` takes every n.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lior.store.doctor import examine
from lior.testing.faulty_files import POWER_CUT_STATUS, preloaded
from tests.faults.ledger import Ledger, child_environment
from tests.faults.workload import DEFECT

OPERATIONS = 60
SPREAD = 40


class Loads:
    """Bounded loads, one after the other, each on a directory of its own."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.seed = seed
        self._process = subprocess.Popen([sys.executable, "-m", "tests.faults.workload", "--serve"],
                                         env=preloaded(child_environment()), stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])

    def run(self, **faults: int) -> dict[str, Any]:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        job = {"directory": os.fspath(self.directory), "faults": faults, "seed": self.seed, "run": 1,
               "operations": OPERATIONS}
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer["status"] != DEFECT, f"an error that is not of lior.errors, with {faults}: {answer['said'][-5:]}"
        return answer

    def check(self, answer: dict[str, Any], **faults: int) -> Ledger:
        """Open the directory without faults and hold it against what the child was told."""
        ledger = Ledger()
        ledger.read(answer["said"])
        asyncio.run(ledger.inspect(self.directory))
        assert not ledger.faults, "\n".join([f"seed {self.seed}, {faults}:", *ledger.faults[:20]])
        return ledger

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def loads(tmp_path: Path, seed: int) -> Iterator[Loads]:
    loads = Loads(tmp_path / "data", seed)
    yield loads
    loads.close()


def some(calls: int, seed: int) -> range:
    """SPREAD values of n, evenly spread over the calls; where they start depends on the seed."""
    step = max(1, calls // SPREAD)
    return range(1 + seed % step, calls + 1, step)


def ended(answer: dict[str, Any]) -> str:
    last: dict[str, Any] = json.loads(answer["said"][-1]) if answer["said"] else {}
    return str(last.get("e", ""))


def fail(loads: Loads, numbers: range, code: int) -> int:
    """How many loads met the error."""
    met = 0
    for n in numbers:
        answer = loads.run(fail_at=n, errno=code)
        assert answer["status"] == 0, (n, answer["said"][-3:])
        assert ended(answer) in ("closed", "unusable"), (n, answer["said"][-3:])
        loads.check(answer, fail_at=n, errno=code)
        met += any('"e": "stopped"' in line or '"e": "unusable"' in line or '"StoreUnusable"' in line
                   or '"MessageStorageFailed"' in line for line in answer["said"])
    return met


def cut(loads: Loads, numbers: range, torn: int) -> None:
    for n in numbers:
        answer = loads.run(power_cut_at=n, seed=torn and torn * 100_003 + n)
        if answer["status"] == 0:
            continue  # this load needed fewer calls: commits share syncs as time has it
        assert answer["status"] == POWER_CUT_STATUS, (n, answer["said"][-3:])
        loads.check(answer, power_cut_at=n)


def test_the_undisturbed_load_does_everything(loads: Loads) -> None:
    answer = loads.run()
    ledger = loads.check(answer)
    assert ended(answer) == "closed" and answer["calls"] > 100
    assert examine(loads.directory).healthy
    kinds = {operation.kind for operation in ledger.operations.values()}
    assert kinds >= {"send", "take", "transaction"}


@pytest.mark.spec("DM-074", "DM-144")
@pytest.mark.timeout(1200)
def test_a_file_call_that_fails_with_an_io_error_loses_nothing(loads: Loads, seed: int) -> None:
    calls = loads.run()["calls"]
    assert fail(loads, some(calls, seed), errno.EIO) > SPREAD // 2


@pytest.mark.spec("DM-074", "DM-144", "MQ-208")
@pytest.mark.timeout(1200)
def test_a_file_call_that_finds_the_disk_full_loses_nothing(loads: Loads, seed: int) -> None:
    calls = loads.run()["calls"]
    assert fail(loads, some(calls, seed), errno.ENOSPC) > SPREAD // 8  # what fits when tried alone is not refused


@pytest.mark.spec("DM-144", "MQ-208")
@pytest.mark.timeout(1200)
def test_a_disk_that_stays_full_refuses_and_loses_nothing(loads: Loads, seed: int) -> None:
    calls = loads.run()["calls"]
    refused = 0
    for n in some(calls, seed)[::4]:
        answer = loads.run(fail_at=n, fail_count=0, errno=errno.ENOSPC)
        assert answer["status"] == 0 and ended(answer) in ("closed", "unusable"), (n, answer["said"][-3:])
        loads.check(answer, fail_at=n, fail_count=0)
        refused += any("MessageStorageFailed" in line or "StoreUnusable" in line for line in answer["said"])
    assert refused > SPREAD // 8


@pytest.mark.spec("DM-012", "DM-074", "DM-143")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("torn", [False, True])
def test_a_power_cut_keeps_what_was_acknowledged(loads: Loads, seed: int, torn: bool) -> None:
    cut(loads, some(loads.run()["calls"], seed), torn and seed)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_every_file_call_may_fail(loads: Loads, code: int) -> None:
    calls = loads.run()["calls"]
    assert fail(loads, range(1, calls + 1), code) > calls // 8


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("torn", [False, True])
def test_the_power_may_be_cut_at_every_call(loads: Loads, seed: int, torn: bool) -> None:
    cut(loads, range(1, loads.run()["calls"] + 1), torn and seed)
