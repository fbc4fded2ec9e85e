"""Files that fail: a child process runs with file calls under one directory failing at the n-th, or with the
power cut at the n-th and everything that was not synced gone.

    undisturbed = FaultyFiles(directory)
    subprocess.run(command, env=undisturbed.environment())
    for n in range(1, undisturbed.calls() + 1):
        subprocess.run(command, env=FaultyFiles(directory, power_cut_at=n).environment())   # exits with 99

Calls that count: open, creat, write and its kin, ftruncate, fsync, fdatasync, rename, unlink, close, on files
under the directory. SQLite's -shm files do not count: they are memory, not durable state.
"""

import ctypes
import errno as errno_module
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

POWER_CUT_STATUS: Final = 99  # how a child exits when its power is cut
_SOURCE: Final = Path(__file__).with_name("faulty_files.c")


@cache
def library() -> Path:
    """The preload library, compiled with the system's C compiler on first use."""
    source = _SOURCE.read_bytes()
    name = f"faulty_files-{platform.machine()}-{hashlib.sha256(source).hexdigest()[:16]}.so"
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        place = cache_home / "lior"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        place = Path(tempfile.mkdtemp(prefix="lior-faulty-files-"))
    target = place / name
    if not target.exists():
        compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise RuntimeError("FaultyFiles needs a C compiler: install gcc")
        building = place / f"{name}.{os.getpid()}"
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", os.fspath(building), os.fspath(_SOURCE),
                        "-pthread"], check=True, capture_output=True)
        building.rename(target)
    return target


def preloaded(base: dict[str, str] | None = None) -> dict[str, str]:
    """An environment with the library in it, where nothing goes wrong until `FaultyFiles.start_here`."""
    environment = dict(os.environ if base is None else base)
    before = environment.get("LD_PRELOAD")
    environment["LD_PRELOAD"] = f"{library()} {before}" if before else os.fspath(library())
    return environment


class FaultyFiles:
    """What goes wrong with the files under `directory` in a child process.

    `fail_at` n: the n-th call fails with `errno`, and with `fail_count` the ones after it (0: all of them).
    `power_cut_at` n: at the n-th call every unsynced change is undone and the child exits with 99; with a
    `seed` other than 0 a random part of the unsynced changes survives, torn at sectors and out of order.
    """

    def __init__(self, directory: str | os.PathLike[str], *, fail_at: int = 0, errno: int = errno_module.EIO,
                 fail_count: int = 1, power_cut_at: int = 0, seed: int = 0) -> None:
        self.directory = Path(directory).resolve()
        beside = self.directory.parent  # the same file system, so that a removed file can be brought back
        self._grave = Path(tempfile.mkdtemp(prefix=".faulty-", dir=beside))
        self._counter = self._grave / "calls"
        self._counter.write_bytes(bytes(8))
        self._settings = {
            "LIOR_FAULTS_DIRECTORY": os.fspath(self.directory),
            "LIOR_FAULTS_COUNTER": os.fspath(self._counter),
            "LIOR_FAULTS_GRAVE": os.fspath(self._grave),
            "LIOR_FAULTS_FAIL_AT": str(fail_at),
            "LIOR_FAULTS_FAIL_COUNT": str(fail_count),
            "LIOR_FAULTS_ERRNO": str(errno),
            "LIOR_FAULTS_CUT_AT": str(power_cut_at),
            "LIOR_FAULTS_SEED": str(seed),
        }

    def environment(self, base: dict[str, str] | None = None) -> dict[str, str]:
        """The environment for the child: `base`, by default this process's, and the library."""
        return preloaded(base) | self._settings

    def start_here(self) -> None:
        """For a forked child of a process that was started with the library but no directory (`preloaded`):
        what goes wrong begins now. Forking is ten times faster than starting an interpreter for each n."""
        os.environ.update(self._settings)
        ctypes.CDLL(None).lior_faults_start()

    def calls(self) -> int:
        """How many calls the children of this environment have made."""
        return int.from_bytes(self._counter.read_bytes(), "little")

    def remove(self) -> None:
        """Remove what was kept beside the directory."""
        shutil.rmtree(self._grave, ignore_errors=True)

    def __enter__(self) -> "FaultyFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
