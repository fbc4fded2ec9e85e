"""Examine a store without changing it; repair one by salvaging what is whole into a fresh file.

A repair never changes the damaged files: it keeps them, and every row it could not place, in a directory
`damaged-...` beside the new store.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from struct import error as StructError
from typing import Final

from lior.errors import LiorError, StoreUnusable
from lior.queues.ports import COUNTER, LOOKUP_IDS, SEQUENCE_MASK
from lior.store import recovery, salvage
from lior.store.errors import READ_ERRORS, translate
from lior.store.fates import FATES_FILE
from lior.store.lock import LOCK_FILE, DirectoryLock, read_holder, unusable
from lior.store.record import decode
from lior.store.report import Report, Severity
from lior.store.schema import VERSION, queue_check, row_check, state_check

REPAIR: Final = "run: lior doctor --repair"
LITTLE_ROOM: Final = 64 << 20
_EACH: Final = 20  # findings of one kind that are listed one by one
_OURS: Final = (recovery.STORE_FILE, LOCK_FILE, FATES_FILE, "damaged-")
_SERVERS: Final = (".sock", ".toml", ".pem", ".key", ".crt", ".pid", ".json")


def examine(directory: str | os.PathLike[str]) -> Report:
    """Look at everything in a data directory; changes nothing, and may run beside a running queue manager."""
    where = Path(directory).absolute()
    report = Report(os.fspath(where))
    path = where / recovery.STORE_FILE
    try:
        _examine_directory(where, report)
        with _shared_lock(where) as stopped:
            if not stopped:
                report.add(Severity.NOTE, f"in use by {read_holder(where) or 'another process'}", os.fspath(where))
            elif path.exists():
                recovery.look(path)
            if path.exists():
                _examine_file(path, report, immutable=stopped and recovery.log_is_empty(path))
    except LiorError as error:
        report.add(Severity.ERROR, error.what, error.where or os.fspath(path), error.remedy)
    except OSError as error:
        found = unusable(error, where)
        report.add(Severity.ERROR, found.what, found.where, found.remedy)
    return report


@contextmanager
def _shared_lock(directory: Path) -> Iterator[bool]:
    """True while no queue manager has, or can take, the directory."""
    try:
        fd = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield True  # no lock file: never opened
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        yield free
    finally:
        os.close(fd)


def _examine_directory(where: Path, report: Report) -> None:
    names = sorted(os.listdir(where))
    if recovery.STORE_FILE not in names:
        report.add(Severity.ERROR if recovery.STORE_FILE + "-wal" in names else Severity.NOTE,
                   "there is no store file", os.fspath(where), "put back a backup, or start with an empty store")
    if recovery.REPAIRED_FILE in names:
        report.add(Severity.ERROR, "a repair was interrupted", os.fspath(where / recovery.REPAIRED_FILE), REPAIR)
    for name in names:
        if not name.startswith(_OURS) and not name.endswith(_SERVERS):
            report.add(Severity.NOTE, "not a file of the store", os.fspath(where / name))
        elif name.startswith("damaged-"):
            report.add(Severity.NOTE, "kept by an earlier repair", os.fspath(where / name),
                       "remove it when nothing in it is missed")
    disk = os.statvfs(where)
    free = disk.f_bavail * disk.f_frsize
    if free < LITTLE_ROOM:
        report.add(Severity.WARNING, f"only {free >> 20} MiB are free on this disk", os.fspath(where),
                   "make room before messages are refused")


def _examine_file(path: Path, report: Report, *, immutable: bool) -> None:
    where = os.fspath(path)
    with closing(recovery.connect(path, "immutable" if immutable else "ro")) as connection:
        for problem in recovery.integrity_problems(connection):
            report.add(Severity.ERROR, problem, where, REPAIR)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version < VERSION:
                report.add(Severity.NOTE, f"the store has version {version}; opening it brings it to {VERSION}", where)
                return
            queues = _examine_queues(connection, report, where)
            state = _examine_state(connection, report, where)
            highest = _examine_messages(connection, report, where, queues)
            _examine_counters(report, where, state, highest)
        except READ_ERRORS as error:
            report.add(Severity.ERROR, f"reading stopped: {translate(error, where).what}", where, REPAIR)


def _examine_queues(connection: sqlite3.Connection, report: Report, where: str) -> set[int]:
    queues = set()
    for queue_id, kind, name, definition, check in connection.execute("SELECT * FROM queue"):
        queues.add(queue_id)
        if check != queue_check(queue_id, kind, name, definition):
            report.add(Severity.ERROR, f"the definition of queue {queue_id} is damaged", where, REPAIR)
    report.queues = len(queues)
    return queues


def _examine_state(connection: sqlite3.Connection, report: Report, where: str) -> dict[str, int]:
    """The counters."""
    counters = {}
    for kind, key, value, check in connection.execute("SELECT * FROM state"):
        if not isinstance(value, bytes) or check != state_check(kind, key, value):
            report.add(Severity.ERROR, f"the state {kind} {key} is damaged", where, REPAIR)
        elif kind == COUNTER:
            counters[key] = int.from_bytes(value, "little")
    return counters


class _Some:
    """Lists the first findings of a kind, and counts the rest."""

    def __init__(self, report: Report, severity: Severity, where: str, remedy: str) -> None:
        self._report, self._severity, self._where, self._remedy = report, severity, where, remedy
        self._count = 0

    def add(self, queue_id: object, lookup_id: object, what: str) -> None:
        self._count += 1
        if self._count <= _EACH:
            position = f"queue {queue_id}, lookup id {lookup_id:#018x}" if isinstance(lookup_id, int) else "a message"
            self._report.add(self._severity, f"{position}: {what}", self._where, self._remedy)

    def close(self) -> None:
        if self._count > _EACH:
            self._report.add(self._severity, f"{self._count - _EACH} more of the last kind", self._where, self._remedy)


def _examine_messages(connection: sqlite3.Connection, report: Report, where: str, queues: set[int]) -> int:
    """Check every row; returns the highest sequence number in use."""
    damaged = _Some(report, Severity.ERROR, where, REPAIR)
    odd = _Some(report, Severity.WARNING, where, REPAIR)
    highest = -1
    try:
        for header, body, check, *columns in connection.execute(
                "SELECT hdr, body, k, q, l, n, e, t, a, v, u FROM m NOT INDEXED"):
            queue_id, lookup_id, size, *_ = columns
            try:
                message = decode(header, body)
                if check != row_check(*columns):
                    raise ValueError("its position, times or counts are damaged")
            except LiorError as error:
                damaged.add(queue_id, lookup_id, error.what)
                continue
            except (TypeError, ValueError, StructError) as error:
                damaged.add(queue_id, lookup_id, str(error))
                continue
            report.messages += 1
            highest = max(highest, lookup_id & SEQUENCE_MASK)
            if lookup_id < 0 or lookup_id >> 56 > 7:
                odd.add(queue_id, lookup_id, "the high byte of a lookup id is 7 at most")
            if size != message.size:
                odd.add(queue_id, lookup_id, f"counts as {size} bytes, has {message.size}")
            if queue_id not in queues:
                odd.add(queue_id, lookup_id, "no queue has this number")
        for queue_id, lookup_id in connection.execute(
                "SELECT q, l FROM m INDEXED BY m_position GROUP BY q, l HAVING count(*) > 1"):
            damaged.add(queue_id, lookup_id, "two messages have this position")
    finally:
        damaged.close()
        odd.close()
    return highest


def _examine_counters(report: Report, where: str, counters: dict[str, int], highest: int) -> None:
    stands = counters.get(LOOKUP_IDS, highest)
    if stands & SEQUENCE_MASK < highest:
        report.add(Severity.ERROR, f"the counter {LOOKUP_IDS} stands at {stands}, lookup ids up to {highest} "
                   "are in use: new messages could take their positions", where, REPAIR)


def repair(directory: str | os.PathLike[str]) -> Report:
    """Bring a damaged store back into use. Raises StoreInUse while a queue manager has it; a store without
    findings is left alone."""
    where = Path(directory).absolute()
    before = examine(where)
    if before.worst < Severity.WARNING:
        return before
    with _exclusive_lock(where):
        try:
            report = salvage.rebuild(where)
        except OSError as error:
            raise unusable(error, where) from error
        except sqlite3.Error as error:
            raise recovery.as_opening_error(error, os.fspath(where)) from error
    report.findings[:0] = before.findings
    return report


@contextmanager
def _exclusive_lock(directory: Path) -> Iterator[None]:
    if not directory.is_dir():
        raise StoreUnusable("there is no such directory", where=os.fspath(directory))
    lock = DirectoryLock(directory)
    try:
        yield
    finally:
        lock.release()
