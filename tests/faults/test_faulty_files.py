"""FaultyFiles itself: what a power cut takes, what it leaves, and how a call fails."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from lior.testing.faulty_files import POWER_CUT_STATUS, FaultyFiles

PRELUDE = """
import os, sys
d = sys.argv[1]
def sync_names():
    fd = os.open(d, os.O_RDONLY); os.fsync(fd); os.close(fd)
def put(name, data, sync, flags=os.O_RDWR | os.O_CREAT, at=0):
    fd = os.open(d + "/" + name, flags)
    os.pwrite(fd, data, at)
    if sync: os.fsync(fd)
    return fd
"""


def run(directory: Path, program: str, **faults: int) -> tuple[int, int]:
    """Run the program, then cut the power at the next call; returns the exit status and the calls made."""
    with FaultyFiles(directory, **faults) as files:
        done = subprocess.run([sys.executable, "-c", PRELUDE + program, str(directory)], env=files.environment(),
                              capture_output=True, text=True)
        assert not done.stderr, done.stderr
        return done.returncode, files.calls()


def cut_after(directory: Path, program: str, seed: int = 0) -> None:
    before = {path: path.read_bytes() for path in directory.iterdir()}
    _, calls = run(directory, program + "\nos._exit(0)")
    for path in directory.iterdir():
        path.unlink()
    for path, data in before.items():
        path.write_bytes(data)
    status, _ = run(directory, program + "\nos.creat if 0 else os.open(d + '/end', os.O_CREAT)",
                    power_cut_at=calls + 1, seed=seed)
    assert status == POWER_CUT_STATUS


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    return path


def test_a_power_cut_takes_a_file_whose_name_was_never_synced(directory: Path) -> None:
    cut_after(directory, "put('a', b'content', True)")
    assert list(directory.iterdir()) == []


def test_a_power_cut_leaves_what_was_synced_with_its_name(directory: Path) -> None:
    cut_after(directory, "fd = put('a', b'content', True); sync_names(); os.pwrite(fd, b'XXXX and more', 0)")
    assert (directory / "a").read_bytes() == b"content"


def test_a_power_cut_takes_unsynced_content_of_a_named_file(directory: Path) -> None:
    cut_after(directory, "put('a', b'content', False); sync_names()")
    assert (directory / "a").read_bytes() == b""


def test_a_power_cut_takes_back_a_rename_and_what_it_replaced(directory: Path) -> None:
    (directory / "a").write_bytes(b"old")
    (directory / "b").write_bytes(b"new")
    cut_after(directory, "os.rename(d + '/b', d + '/a')")
    assert (directory / "a").read_bytes() == b"old" and (directory / "b").read_bytes() == b"new"
    cut_after(directory, "os.rename(d + '/b', d + '/a'); sync_names()")
    assert (directory / "a").read_bytes() == b"new" and not (directory / "b").exists()


def test_a_power_cut_brings_back_a_removed_file(directory: Path) -> None:
    (directory / "a").write_bytes(b"old")
    cut_after(directory, "os.unlink(d + '/a')")
    assert (directory / "a").read_bytes() == b"old"


def test_a_power_cut_takes_back_truncations_appends_and_gathered_writes(directory: Path) -> None:
    (directory / "a").write_bytes(b"0123456789")
    cut_after(directory, "fd = os.open(d + '/a', os.O_RDWR | os.O_APPEND); os.write(fd, b'tail');"
                         " os.writev(fd, [b'x', b'y']); os.ftruncate(fd, 3); os.pwritev(fd, [b'z', b'w'], 0)")
    assert (directory / "a").read_bytes() == b"0123456789"
    cut_after(directory, "os.open(d + '/a', os.O_RDWR | os.O_TRUNC)")
    assert (directory / "a").read_bytes() == b"0123456789"


def test_a_seeded_power_cut_keeps_some_sectors_and_loses_others(directory: Path) -> None:
    (directory / "a").write_bytes(b"o" * 8192)
    survivors = set()
    for seed in range(1, 12):
        cut_after(directory, "put('a', b'n' * 4096, False); put('a', b'n' * 4096, False, at=4096)", seed=seed)
        content = (directory / "a").read_bytes()
        (directory / "a").write_bytes(b"o" * 8192)
        sectors = {content[at:at + 512] for at in range(0, 8192, 512)}
        assert sectors <= {b"o" * 512, b"n" * 512}
        survivors.add(content)
    assert len(survivors) > 4


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_the_chosen_call_and_only_that_fails_with_the_chosen_error(directory: Path, code: int) -> None:
    program = f"""
fd = put('a', b'content', False)
try:
    os.fsync(fd)
except OSError as error:
    assert error.errno == {code}
else:
    raise SystemExit(4)
os.fsync(fd)
os.write(1, b'')
"""
    assert run(directory, program, fail_at=3, errno=code) == (0, 4)


def test_files_elsewhere_and_shared_memory_files_are_left_alone(directory: Path, tmp_path: Path) -> None:
    status, calls = run(directory, f"put('a-shm', b'x', True); open({str(tmp_path / 'else')!r}, 'w').write('y')",
                        fail_at=1)
    assert (status, calls) == (0, 0)
