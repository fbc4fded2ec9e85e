"""Snapshots: consistent while a writer works, whole or not at all, never over another file."""

import os
import threading
from pathlib import Path

import pytest

from lior.errors import StoreUnusable
from lior.queues.ports import DeleteMessage, PutState
from lior.store.doctor import examine
from lior.store.sqlite import SqliteStore
from tests.store.messages import PRIORITY_3, put


def test_snapshots_taken_while_a_writer_applies_hold_whole_batches(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data")
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            # Each batch: two messages in, one out, and the number of the batch.
            store.apply([put(2 * n), put(2 * n + 1), DeleteMessage(1, PRIORITY_3 + n), PutState("n", "n", b"%d" % n)])
            store.maintain(idle=False)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        last = 0
        for turn in range(8):
            (tmp_path / str(turn)).mkdir()
            store.snapshot(str(tmp_path / str(turn) / "store.db"))
            copy = SqliteStore(tmp_path / str(turn), full_check=True)
            n = int(copy.load().state.get(("n", "n"), b"0"))
            found = {entry[1] - PRIORITY_3 for entry in copy.load_index()}
            copy.close()
            assert found == ({*range(2, 2 * n + 2)} - {*range(1, n + 1)}) and n >= last
            assert examine(tmp_path / str(turn)).healthy
            last = n
        assert last > 0
    finally:
        stop.set()
        writer.join()
    store.close()


def test_a_snapshot_is_one_file_with_nothing_left_beside_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data")
    store.apply([put(1)])
    (tmp_path / "out").mkdir()
    store.snapshot(str(tmp_path / "out" / "copy"))
    store.close()
    assert os.listdir(tmp_path / "out") == ["copy"]
    assert (tmp_path / "out" / "copy").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_a_snapshot_never_replaces_what_is_there(tmp_path: Path, kind: str) -> None:
    store = SqliteStore(tmp_path / "data")
    target = tmp_path / "there"
    if kind == "file":
        target.write_bytes(b"precious")
    elif kind == "link":
        target.symlink_to(tmp_path / "nowhere")
    else:
        target.mkdir()
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(StoreUnusable) as caught:
        store.snapshot(str(target))
    assert caught.value.remedy and sorted(os.listdir(tmp_path)) == before
    assert kind != "file" or target.read_bytes() == b"precious"
    store.close()


def test_a_snapshot_into_a_missing_directory_is_an_error_and_the_store_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data")
    with pytest.raises(StoreUnusable):
        store.snapshot(str(tmp_path / "missing" / "copy"))
    store.apply([put(1)])
    store.close()
