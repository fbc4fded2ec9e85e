"""SIGKILL under a mixed load: nothing acknowledged is missing, doubled or half committed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from lior.store.doctor import examine
from tests.faults.ledger import Ledger, run_and_kill

KILLS = int(os.environ.get("LIOR_KILLS", "8"))


def storm(directory: Path, seed: int, kills: int) -> Ledger:
    """Kill one child after the other on the same directory, then look."""
    chance, ledger = Random(seed), Ledger()
    for run in range(1, kills + 1):
        if chance.random() < 0.3:  # from the start of the interpreter on: in the middle of opening too
            said = run_and_kill(directory, seed, run, seconds=chance.uniform(0.05, 1.5))
        else:
            said = run_and_kill(directory, seed, run, answers=chance.randrange(1, 400))
        ledger.read(said)
        ledger.kills += 1
    asyncio.run(ledger.inspect(directory))
    print(f"seed {seed}: {ledger.summary()}")
    assert not ledger.faults, "\n".join([f"seed {seed}: {len(ledger.faults)} faults", *ledger.faults[:20]])
    report = examine(directory)
    assert report.healthy, "\n".join(map(str, report.findings))
    return ledger


@pytest.mark.spec("DM-012", "DM-013", "DM-040", "DM-063", "DM-074", "DM-143", "MQ-085")
@pytest.mark.timeout(1200)
def test_a_few_kills_under_load_lose_double_and_halve_nothing(tmp_path: Path, seed: int) -> None:
    ledger = storm(tmp_path / "data", seed, min(KILLS, 8))
    assert ledger.sent


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_a_storm_of_kills_under_load_loses_doubles_and_halves_nothing(tmp_path: Path, seed: int) -> None:
    storm(tmp_path / "data", seed, int(os.environ.get("LIOR_KILLS", "200")))
