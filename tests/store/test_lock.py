"""One process at a time has a data directory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lior.errors import StoreForeign, StoreInUse, StoreUnusable
from lior.store.lock import DirectoryLock, read_holder
from lior.store.sqlite import SqliteStore

HOLD = ("import sys\nfrom lior.store.sqlite import SqliteStore\nstore = SqliteStore(sys.argv[1])\n"
        "print('held', flush=True)\nsys.stdin.read()\n")


def hold(directory: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(directory)], text=True, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE,
                             env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert child.stdout and child.stdout.readline() == "held\n"
    return child


def test_a_second_process_is_told_who_has_the_directory(tmp_path: Path) -> None:
    child = hold(tmp_path)
    with pytest.raises(StoreInUse) as caught:
        SqliteStore(tmp_path)
    assert f"process {child.pid} " in caught.value.what and os.uname().nodename in caught.value.what
    assert str(tmp_path) in caught.value.what and caught.value.where == str(tmp_path) and caught.value.remedy
    child.communicate("")


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    child = hold(tmp_path)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert (tmp_path / "lock").exists()
    SqliteStore(tmp_path).close()


def test_a_second_store_in_this_process_is_refused_and_does_not_disturb_the_first(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path)
    with pytest.raises(StoreInUse, match=f"process {os.getpid()} "):
        SqliteStore(tmp_path)
    with pytest.raises(StoreInUse):
        SqliteStore(tmp_path)
    first.close()
    SqliteStore(tmp_path).close()


def test_a_store_that_fails_to_open_lets_go_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a store" * 10)
    with pytest.raises(StoreForeign):
        SqliteStore(tmp_path)
    DirectoryLock(tmp_path).release()


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b'{"pid": "x"}', b"{" * 4000])
def test_a_lock_file_with_odd_content_is_taken_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lock").write_bytes(content)
    assert read_holder(tmp_path) is None
    lock = DirectoryLock(tmp_path)
    holder = read_holder(tmp_path)
    assert holder is not None and holder.pid == os.getpid()
    lock.release()
    lock.release()


def test_a_file_named_lock_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"somebody's notes")
    with pytest.raises(StoreForeign):
        DirectoryLock(tmp_path)
    assert (tmp_path / "lock").read_bytes() == b"somebody's notes"


def test_does_not_follow_a_link_named_lock(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"{precious}")
    (tmp_path / "lock").symlink_to(tmp_path / "target")
    with pytest.raises(StoreUnusable):
        DirectoryLock(tmp_path)
    assert (tmp_path / "target").read_bytes() == b"{precious}"


def test_refuses_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable):
        DirectoryLock(tmp_path / "nowhere")
