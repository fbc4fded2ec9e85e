"""When calls fail, the power is cut or the process is killed, what the store acknowledged is there, whole and once."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lior.queues.ports import DeleteMessage, PutMessage
from lior.store.doctor import examine
from lior.store.sqlite import SqliteStore
from lior.testing.faulty_files import POWER_CUT_STATUS, preloaded
from tests.faults import store_child
from tests.faults.store_child import LOOKUP, body_of, make_batch, position_of

BATCHES, CHECKPOINT_EVERY = 5, 3
CHILD = store_child.__file__
KILLS = int(os.environ.get("LIOR_KILLS", "10"))


def child_environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class Children:
    """A process with the preload library that forks one child for each job."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process = subprocess.Popen([sys.executable, CHILD], env=preloaded(child_environment()),
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, **faults: int) -> dict[str, Any]:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        job = {"directory": str(self.directory), "faults": faults, "batches": BATCHES,
               "checkpoint_every": CHECKPOINT_EVERY}
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer["status"] != store_child.DEFECT, f"an error that is not typed, with {faults}: {answer}"
        return answer

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    children = Children(tmp_path / "data")
    yield children
    children.close()


def content_of(batches: set[int]) -> dict[tuple[int, int], bytes]:
    """What the store holds when exactly these batches were applied, in order."""
    content: dict[tuple[int, int], bytes] = {}
    for batch in sorted(batches):
        for operation in make_batch(batch):
            if isinstance(operation, PutMessage):
                content[operation.queue_id, operation.lookup_id] = operation.message.body
            elif isinstance(operation, DeleteMessage):
                content.pop((operation.queue_id, operation.lookup_id), None)
    return content


def check(directory: Path, said: list[str], context: object) -> None:
    """Reopen and compare with the acknowledgements. A batch that was tried and neither acknowledged nor refused
    may be there or not, but not by half."""
    acknowledged = {int(line[1:]) for line in said if line.startswith("b")}
    refused = {int(line[5:]) for line in said if line.startswith("full ")}
    tried = {int(line[4:]) for line in said if line.startswith("try ")}
    store = SqliteStore(directory, full_check=True)
    try:
        positions = [(queue_id, lookup_id) for queue_id, lookup_id, *_ in store.load_index()]
        content = {}
        for position in positions:
            stored = store.fetch(*position)
            assert stored is not None, context
            content[position] = stored.message.body
        applied = {int(key) for kind, key in store.load().state if kind == "batch"}
    finally:
        store.close()
    assert "still in use" not in said, context
    assert len(positions) == len(set(positions)), context
    assert acknowledged <= applied <= tried - refused, context
    assert len(applied - acknowledged) <= 1, context
    assert content == content_of(applied), context


def test_an_undisturbed_run_acknowledges_every_batch(children: Children) -> None:
    answer = children.run()
    assert answer["said"][-1] == "closed" and f"b{BATCHES}" in answer["said"]
    check(children.directory, answer["said"], "undisturbed")


@pytest.mark.spec("DM-144")
@pytest.mark.timeout(1200)
def test_every_call_that_fails_with_an_io_error_ends_in_a_typed_error_and_loses_nothing(children: Children) -> None:
    calls = children.run()["calls"]
    outcomes = set()
    for n in range(1, calls + 1):
        answer = children.run(fail_at=n, errno=errno.EIO)
        check(children.directory, answer["said"], (n, answer))
        outcomes.add(answer["said"][-1])
    assert outcomes == {"closed", "StoreUnusable"}


@pytest.mark.spec("DM-144", "MQ-208")
@pytest.mark.timeout(1200)
def test_every_call_that_finds_the_disk_full_refuses_the_batch_or_stops_and_loses_nothing(children: Children) -> None:
    calls = children.run()["calls"]
    refusals = 0
    for n in range(1, calls + 1):
        answer = children.run(fail_at=n, errno=errno.ENOSPC)
        check(children.directory, answer["said"], (n, answer))
        assert answer["said"][-1] in ("closed", "StoreUnusable"), (n, answer)
        refusals += any(line.startswith("full") for line in answer["said"])
    assert refusals > BATCHES


@pytest.mark.spec("DM-144")
@pytest.mark.timeout(1200)
def test_a_disk_that_stays_full_refuses_every_batch_from_then_on(children: Children) -> None:
    calls = children.run()["calls"]
    for n in range(1, calls + 1, 7):
        answer = children.run(fail_at=n, fail_count=0, errno=errno.ENOSPC)
        check(children.directory, answer["said"], (n, answer))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("torn", [0, 1])
def test_a_power_cut_at_every_call_keeps_what_was_acknowledged(children: Children, torn: int, seed: int) -> None:
    calls = children.run()["calls"]
    for n in range(1, calls + 1):
        answer = children.run(power_cut_at=n, seed=torn and seed * 100_003 + n)
        assert answer["status"] == POWER_CUT_STATUS, (n, answer)
        check(children.directory, answer["said"], (n, answer))


@pytest.mark.timeout(1200)
def test_a_killed_process_leaves_every_acknowledged_batch(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    directory, first, said = tmp_path / "data", 1, list[str]()
    for _ in range(KILLS):
        child = subprocess.Popen([sys.executable, CHILD, str(directory), str(first)], env=child_environment(),
                                 stdout=subprocess.PIPE, text=True)
        assert child.stdout
        for _ in range(chance.randrange(1, 400)):
            said.append(child.stdout.readline().rstrip("\n"))
        child.send_signal(signal.SIGKILL)
        said += child.stdout.read().split("\n")[:-1]
        child.wait()
        # A batch in flight at the kill may be there; the next run starts above it.
        store = SqliteStore(directory)
        applied = {int(key) for kind, key in store.load().state if kind == "batch"}
        content = {(queue_id, lookup_id) for queue_id, lookup_id, *_ in store.load_index()}
        store.close()
        acknowledged = {int(line[1:]) for line in said if line.startswith("b")}
        assert acknowledged <= applied
        assert content == set(content_of(applied))
        first = max(applied, default=0) + 1
    assert [finding for finding in examine(directory).findings if finding.severity >= 2] == []
    store = SqliteStore(directory)
    last = max(applied)
    stored = store.fetch(*position_of(last, 2))
    assert stored is not None and stored.message.body == body_of(last, 2) and stored.lookup_id == LOOKUP + 3 * last + 2
    store.close()
