"""Opening a store file: make it if there is none, look before touching it, let SQLite replay its log.

Nothing here opens the store file while this or another process has it open in SQLite: closing any descriptor
of a file drops the POSIX locks that SQLite holds on it. That is why the looks come under the directory lock.
"""

import os
import sqlite3
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from lior.errors import LiorError, MessageStorageFailed, StoreCorrupt, StoreForeign, StoreUnusable, StoreVersion
from lior.store import schema
from lior.store.errors import READ_ERRORS, translate
from lior.store.lock import unusable

STORE_FILE: Final = "store.db"
NEW_FILE: Final = "store.db.new"  # a store being made; worthless until it has its name
REPAIRED_FILE: Final = "store.db.repaired"  # the complete result of a repair that has yet to be put in place
DOCTOR: Final = "run: lior doctor --repair, or put back a backup"
BUSY_TIMEOUT: Final = 10.0  # seconds; only another program that writes the file makes anyone wait
_MAGIC: Final = b"SQLite format 3\0"


class FileHeader(NamedTuple):
    """What the first hundred bytes of a store file say."""

    page_size: int
    pages: int
    application_id: int
    version: int


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Make the names of a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: str | os.PathLike[str]) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def connect(path: str | os.PathLike[str], mode: str) -> sqlite3.Connection:
    """A connection in autocommit mode. `mode` is "rw", "ro", "rwc" or "immutable" (read, no locks, no files made)."""
    wanted = "ro&immutable=1" if mode == "immutable" else mode
    uri = f"file:{quote(os.fspath(Path(path).absolute()))}?mode={wanted}"
    try:
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT,
                               cached_statements=256)
    except sqlite3.Error as error:
        raise as_opening_error(error, os.fspath(path)) from error


def read_header(path: Path) -> FileHeader:
    """Read and judge the file header. Only under the directory lock, and before SQLite opens the file."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        raise unusable(error, path) from error
    where = os.fspath(path)
    if len(head) < 100 and _MAGIC.startswith(head[:16]):
        raise StoreCorrupt("the file is cut off inside its header", where=where, remedy=DOCTOR)
    if not head.startswith(_MAGIC):
        raise StoreForeign("this file is not an SQLite database", where=where,
                           remedy="give Lior a directory of its own; if this was a store, " + DOCTOR)
    page_size = int.from_bytes(head[16:18], "big")
    return FileHeader(65536 if page_size == 1 else page_size, int.from_bytes(head[28:32], "big"),
                      int.from_bytes(head[68:72], "big"), int.from_bytes(head[60:64], "big"))


def check_header(path: Path, header: FileHeader) -> None:
    """Refuse what is not a store that this Lior can read."""
    where = os.fspath(path)
    if header.application_id != schema.APPLICATION_ID:
        raise StoreForeign(f"an SQLite database of another application (0x{header.application_id:08X})", where=where,
                           remedy="give Lior a directory of its own")
    if header.version > schema.VERSION:
        raise StoreVersion(f"the store has version {header.version}, this Lior knows up to {schema.VERSION}",
                           where=where, remedy="use the Lior that wrote it, or a newer one")
    if header.version < 1:
        raise StoreCorrupt("the store has no version", where=where, remedy=DOCTOR)


def log_is_empty(path: Path) -> bool:
    """Whether everything is in the store file itself, with no write-ahead log beside it."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size == 0
    except FileNotFoundError:
        return True
    except OSError as error:
        raise unusable(error, path) from error


def create_file(directory: Path, name: str = STORE_FILE) -> None:
    """Make an empty store that is there whole or not at all, whenever the power fails."""
    building, path = directory / NEW_FILE, directory / name
    try:
        discard(building)
        connection = connect(building, "rwc")
        try:
            schema.create(connection)
        finally:
            connection.close()
        building.chmod(0o600)
        sync_file(building)
        building.rename(path)
        sync_directory(directory)
    except sqlite3.Error as error:
        raise as_opening_error(error, os.fspath(building)) from error
    except OSError as error:
        raise unusable(error, building) from error


def discard(path: Path) -> None:
    """Remove a database that never got its name, with what SQLite keeps beside one."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def look(path: Path) -> None:
    """Check an existing store file without changing it."""
    where = os.fspath(path)
    header = read_header(path)
    check_header(path, header)
    alone = log_is_empty(path)
    if alone and path.stat().st_size < header.pages * header.page_size:
        raise StoreCorrupt(f"the file is cut off: {path.stat().st_size} bytes of {header.pages * header.page_size}",
                           where=where, remedy=DOCTOR)
    connection = connect(path, "immutable" if alone else "ro")
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    except READ_ERRORS as error:
        raise as_opening_error(error, where) from error
    finally:
        connection.close()
    if not {"m", "m_position", "queue", "state"} <= tables:
        raise StoreCorrupt("tables are missing", where=where, remedy=DOCTOR)


def as_opening_error(error: sqlite3.Error | UnicodeDecodeError, where: str) -> LiorError:
    """At opening nothing can be 'full and still usable'."""
    found = translate(error, where)
    if isinstance(found, MessageStorageFailed):
        return StoreUnusable(found.what, where=where, remedy=found.remedy)
    return found


def integrity_problems(connection: sqlite3.Connection, limit: int = 100) -> list[str]:
    """What SQLite finds wrong with trees, pages and the index; reads the whole file."""
    try:
        found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({limit})")]
    except READ_ERRORS as error:
        return [translate(error, "").what]
    return [] if found == ["ok"] else found


def open_file(directory: Path, *, full_check: bool = False) -> sqlite3.Connection:
    """The writer's connection to the store of a directory, made or brought up to date if need be."""
    path = directory / STORE_FILE
    where = os.fspath(path)
    if (directory / REPAIRED_FILE).exists():
        raise StoreUnusable("a repair was interrupted before its result was put in place", where=where,
                            remedy="run: lior doctor --repair")
    try:
        present = path.stat() is not None
    except FileNotFoundError:
        present = False
    except OSError as error:
        raise unusable(error, path) from error
    if present:
        look(path)
    elif not log_is_empty(path):
        raise StoreCorrupt("the write-ahead log is there but the store file is not", where=where, remedy=DOCTOR)
    else:
        create_file(directory)
    connection = connect(path, "rw")
    try:
        _set_up(connection)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        schema.migrate(connection, version)
        if full_check and (problems := integrity_problems(connection)):
            raise StoreCorrupt(f"{len(problems)} problems, the first: {problems[0]}", where=where, remedy=DOCTOR)
        sync_directory(directory)
    except READ_ERRORS as error:
        _close_untouched(connection, path)
        raise as_opening_error(error, where) from error
    except OSError as error:
        _close_untouched(connection, path)
        raise unusable(error, path) from error
    except BaseException:
        _close_untouched(connection, path)
        raise
    return connection


def _set_up(connection: sqlite3.Connection) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise StoreUnusable(f"the file system gives SQLite no write-ahead log (journal mode {mode})",
                            remedy="put the data directory on a local file system")
    connection.create_function("row_check", 8, schema.row_check, deterministic=True)
    for setting in ("synchronous=FULL", "wal_autocheckpoint=0", "foreign_keys=OFF", "cell_size_check=ON",
                    "secure_delete=OFF", "cache_size=-2048", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    # The first read replays the log after a crash; the checkpoint then leaves it empty.
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _close_untouched(connection: sqlite3.Connection, path: Path) -> None:
    """Close a writer without its closing checkpoint: a read-only connection that closes last cannot write one."""
    keeper: sqlite3.Connection | None = None
    try:
        keeper = connect(path, "ro")
        keeper.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except (sqlite3.Error, LiorError):
        pass
    connection.close()
    if keeper is not None:
        keeper.close()
