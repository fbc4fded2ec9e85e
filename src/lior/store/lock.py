"""One process at a time has a data directory: an flock on a file that names its holder.

The kernel drops the lock when the holder dies, however it dies, so a lock file left behind means nothing.
It is never removed: removing it would let two processes each lock a file of that name.
"""

import fcntl
import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakSet

from lior.errors import LiorError, StoreForeign, StoreInUse, StoreUnusable

LOCK_FILE: Final = "lock"
_MAX_HOLDER: Final = 4096  # more than this is not a lock file of ours


class Holder(NamedTuple):
    """Who has, or last had, the directory."""

    pid: int
    host: str
    command: str
    started: float

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.started))
        return f"process {self.pid} on {self.host} since {since} UTC: {self.command}"


def read_holder(directory: str | os.PathLike[str]) -> Holder | None:
    """What the lock file says, whether or not that process still lives."""
    try:
        with Path(directory, LOCK_FILE).open("rb") as file:
            said = json.loads(file.read(_MAX_HOLDER))
        return Holder(int(said["pid"]), str(said["host"]), str(said["command"]), float(said["started"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def unusable(error: OSError, path: str | os.PathLike[str]) -> LiorError:
    """The typed error for a file or directory that the system refuses."""
    return StoreUnusable(error.strerror or str(error), where=os.fspath(path),
                         remedy="check that the directory exists, is writable for this user and has room")


class DirectoryLock:
    """The exclusive lock on a data directory, from construction to `release`."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = Path(directory, LOCK_FILE)
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise unusable(error, self.path) from error
        try:
            self._claim(directory)
        except BaseException:
            self.release()
            raise
        _held.add(self)

    def _claim(self, directory: str | os.PathLike[str]) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = read_holder(directory)
            raise StoreInUse(f"in use by {holder or 'another process'}", where=os.fspath(directory),
                             remedy="stop that process, or give this one another data directory") from None
        except OSError as error:
            raise unusable(error, self.path) from error
        try:
            said = os.pread(self._fd, _MAX_HOLDER + 1, 0)
            if said and not (said.startswith(b"{") and len(said) <= _MAX_HOLDER):
                raise StoreForeign("this file is not a Lior lock file", where=os.fspath(self.path),
                                   remedy="give Lior a directory of its own")
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, _describe(), 0)
        except OSError as error:
            raise unusable(error, self.path) from error

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with suppress(OSError):
                os.close(fd)


_held: WeakSet[DirectoryLock] = WeakSet()


def _leave_to_parent() -> None:
    """A forked process shares the open file, and would keep the directory locked when its parent has let go."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_leave_to_parent)


def _describe() -> bytes:
    command = " ".join(sys.orig_argv)[:512]
    holder = Holder(os.getpid(), socket.gethostname(), command, time.time())
    return json.dumps(holder._asdict()).encode()
