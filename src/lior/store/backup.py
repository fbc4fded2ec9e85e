"""A consistent copy of a store while it is in use."""

import errno
import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from lior.errors import StoreCorrupt, StoreUnusable
from lior.store import recovery
from lior.store.errors import translate
from lior.store.lock import DirectoryLock, unusable


def snapshot(source: Path, path: str | os.PathLike[str]) -> None:
    """Copy the store file `source` to `path`, which must not exist. The copy is complete and on disk when it
    gets its name; it opens as the store.db of a new data directory."""
    target = Path(path).absolute()
    building = target.with_name(f".{target.name}.{os.getpid()}.partial")
    if os.path.lexists(target):
        raise _exists(target)
    try:
        recovery.discard(building)
        os.close(os.open(building, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        _copy(source, building)
        recovery.sync_file(building)
        _name_it(building, target)
        recovery.sync_directory(target.parent)
    except sqlite3.Error as error:
        raise translate(error, os.fspath(target)) from error
    except OSError as error:
        raise unusable(error, target) from error
    finally:
        with suppress(OSError):
            recovery.discard(building)


def copy_of(directory: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """A snapshot from outside: of a data directory that this process has not opened."""
    source = Path(directory).absolute() / recovery.STORE_FILE
    recovery.check_header(source, recovery.read_header(source))
    snapshot(source, path)


def restore(path: str | os.PathLike[str], directory: str | os.PathLike[str]) -> None:
    """Make a data directory from a backup. The store is there whole or not at all, and replaces none."""
    source, where = Path(path).absolute(), Path(directory).absolute()
    recovery.check_header(source, recovery.read_header(source))
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        recovery.sync_directory(where.parent)
    except OSError as error:
        raise unusable(error, where) from error
    lock = DirectoryLock(where)
    try:
        target = where / recovery.STORE_FILE
        for name in (target, target.with_name(target.name + "-wal")):
            if os.path.lexists(name):
                raise StoreUnusable("this directory holds a store; a restore never replaces one",
                                    where=os.fspath(name), remedy="name another directory, or move this one away")
        _refuse_damaged(source)
        snapshot(source, target)
    finally:
        lock.release()


def _refuse_damaged(source: Path) -> None:
    reader = recovery.connect(source, "ro")
    try:
        problems = recovery.integrity_problems(reader, 1)
    except sqlite3.Error as error:
        raise translate(error, os.fspath(source)) from error
    finally:
        reader.close()
    if problems:
        raise StoreCorrupt(f"the backup is damaged: {problems[0]}", where=os.fspath(source),
                           remedy="use another backup")


def _copy(source: Path, building: Path) -> None:
    reader = recovery.connect(source, "ro")
    try:
        writer = recovery.connect(building, "rw")
        try:
            # In one step: a single read transaction, so commits neither enter the copy nor restart it.
            reader.backup(writer)
            # The copied header says WAL; a backup is one file, with nothing beside it that could be forgotten.
            writer.execute("PRAGMA journal_mode=DELETE").fetchall()
        finally:
            writer.close()
    finally:
        reader.close()


def _name_it(building: Path, target: Path) -> None:
    """Like a rename that cannot replace."""
    try:
        os.link(building, target)
    except FileExistsError:
        raise _exists(target) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        if os.path.lexists(target):  # a file system without links: the best that is left
            raise _exists(target) from None
        building.rename(target)


def _exists(target: Path) -> StoreUnusable:
    return StoreUnusable("the file exists; a backup never replaces one", where=os.fspath(target),
                         remedy="choose another name, or remove the file")
