"""The record of what became of messages: `fates.db`, an SQLite file beside the store that nothing depends on.

Rows come in batches and are kept as packed chunks (fate_chunks.py), each with a checksum. What cannot be written is
counted, and the count is kept in its place, so that whoever reads the record knows of the gap. A chunk that does not
match its checksum becomes a gap, too; a file that SQLite cannot read is put aside, and a new one begun. No call here
raises for anything that the disk or the file does.
"""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import error as StructError
from typing import Final, NamedTuple, TypeVar
from zlib import crc32

from lior.errors import LiorError
from lior.message import ObjectId
from lior.store.errors import READ_ERRORS
from lior.store.fate_chunks import CHUNK_ROWS, Chunk, FateColumns, FateRow, columns_of, pack
from lior.store.search import Wanted

log = logging.getLogger("lior.store")

FATES_FILE: Final = "fates.db"
DAMAGED_FATES_FILE: Final = "fates.db.damaged"
APPLICATION_ID: Final = 0x4C494F46  # "LIOF"
VERSION: Final = 1
MOST_ROWS: Final = 1_000_000
DAYS: Final = 30.0  # that a row is kept
MOST_FOUND: Final = 10_000  # rows of one answer: the newest
_SMALL: Final = 1024  # rows: a chunk below this is joined with its neighbours ...
_MANY_SMALL: Final = 32  # ... when there are so many of them
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR,
                             sqlite3.SQLITE_MISMATCH})  # fmt: skip

_TABLE: Final = """
CREATE TABLE chunk(id INTEGER PRIMARY KEY, last REAL NOT NULL, rows INTEGER NOT NULL, lost INTEGER NOT NULL,
  c INTEGER NOT NULL, data BLOB NOT NULL);
"""
_READ: Final = "SELECT id, last, rows, lost, c, data FROM chunk WHERE id > ? ORDER BY id LIMIT 16"

_EMPTY: Final = pack(columns_of([]))

T = TypeVar("T")


class Gap(NamedTuple):
    """At this time so many rows were not kept."""

    time: float
    rows: int


class Found(NamedTuple):
    rows: list[FateRow]  # in the order in which they happened
    gaps: list[Gap]


class Damaged(Exception):
    """What the file holds is not what was written."""


class FateLog:
    """Belongs to one thread; opens the file with the first call. Without a directory it lives in memory."""

    def __init__(
        self,
        directory: Path | None,
        *,
        most_rows: int = MOST_ROWS,
        longest: float = DAYS * 86400,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = None if directory is None else directory / FATES_FILE
        self._most_rows = most_rows
        self._longest = longest
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._rows = 0
        self._small: list[int] = []  # the newest chunks, while they are small
        self._lost = 0  # rows, not in the file as a gap yet
        self._warned = ""

    @property
    def lost(self) -> int:
        """Rows that could not be written so far and are not noted in the file either."""
        return self._lost

    def append(self, rows: FateColumns, lost: int = 0) -> None:
        """Keep up to CHUNK_ROWS rows; `lost` are those that never got here, before them."""
        self._lost += lost
        try:
            data = pack(rows)
        except (StructError, ValueError, TypeError, OverflowError) as error:  # a value that no column holds
            self._warn(error)
            self._lost += len(rows)
            return
        count, last = len(rows), max(rows.times)
        if not self._guarded(lambda connection: self._append(connection, data, count, last), False):
            self._lost += count

    def lose(self, rows: int) -> None:
        """Rows that never got here, with nothing after them."""
        self._lost += rows
        if self._lost:
            self._guarded(lambda connection: self._append(connection, _EMPTY, 0, self._clock()), False)

    def find(self, wanted: Wanted) -> Found:
        """Everything about a message, or about the messages with this label or correlation id."""
        return self._guarded(lambda connection: self._find(connection, wanted), Found([], []))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error as error:
                self._warn(error)

    # Never raising

    def _guarded(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """A damaged file is replaced, and the work done on the new one."""
        for _ in range(2):
            try:
                if self._connection is None:
                    self._connection = self._open()
                result = work(self._connection)
                self._warned = ""
                return result
            except (*READ_ERRORS, Damaged, LiorError, OSError, ValueError, LookupError, TypeError) as error:
                self._roll_back()
                if not _is_damage(error):
                    self._warn(error)
                    return otherwise
                if not self._begin_anew(error):
                    return otherwise
        return otherwise

    def _roll_back(self) -> None:
        try:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.close()

    def _warn(self, error: BaseException) -> None:
        """Once, until it goes well again."""
        if self._warned != str(error):
            self._warned = str(error)
            log.warning("the record of fates is not kept: %s file=%s", error, self._path)

    def _begin_anew(self, error: BaseException) -> bool:
        self.close()
        log.warning("the record of fates is damaged, a new one is begun: %s file=%s", error, self._path)
        self._lost += max(1, self._rows)
        self._rows, self._small = 0, []
        if self._path is None:
            return True
        try:
            for suffix in ("-wal", "-shm"):
                self._path.with_name(FATES_FILE + suffix).unlink(missing_ok=True)
            os.replace(self._path, self._path.with_name(DAMAGED_FATES_FILE))
        except FileNotFoundError:
            return True
        except OSError as failure:
            self._warn(failure)
            return False
        return True

    # The file

    def _open(self) -> sqlite3.Connection:
        if self._path is not None:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        connection = sqlite3.connect(":memory:" if self._path is None else self._path, isolation_level=None,
                                     check_same_thread=False)  # fmt: skip
        try:
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        # A power cut may take the last moments: the store is what must survive it, not this
        connection.execute("PRAGMA synchronous=NORMAL")
        (kind,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not tables and not version:
            connection.executescript(f"BEGIN; PRAGMA application_id={APPLICATION_ID}; {_TABLE} "
                                     f"PRAGMA user_version={VERSION}; COMMIT;")  # fmt: skip
        elif (kind, version) != (APPLICATION_ID, VERSION):
            raise Damaged(f"not a record of fates of version {VERSION}")
        (self._rows,) = connection.execute("SELECT coalesce(sum(rows), 0) FROM chunk").fetchone()
        self._small = []
        newest = connection.execute("SELECT id, rows FROM chunk ORDER BY id DESC LIMIT ?", (_MANY_SMALL,)).fetchall()
        for number, rows in newest:
            if rows >= _SMALL:
                break
            self._small.insert(0, number)

    def _append(self, connection: sqlite3.Connection, data: bytes, rows: int, last: float) -> bool:
        connection.execute("BEGIN IMMEDIATE")
        number = self._insert(connection, data, rows, last, self._lost)
        small = [*self._small, number] if rows < _SMALL else []
        if len(small) >= _MANY_SMALL:
            small = self._join(connection, small)
        removed = self._trim(connection)
        connection.execute("COMMIT")
        self._rows += rows - removed
        self._small, self._lost = small, 0
        return True

    def _insert(self, connection: sqlite3.Connection, data: bytes, rows: int, last: float, lost: int) -> int:
        cursor = connection.execute("INSERT INTO chunk(last, rows, lost, c, data) VALUES (?, ?, ?, ?, ?)",
                                    (last, rows, lost, _check(data, rows, lost), data))  # fmt: skip
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _join(self, connection: sqlite3.Connection, small: list[int]) -> list[int]:
        """Many small chunks to one. A quiet queue manager writes a row or two at a time."""
        rows: list[FateRow] = []
        lost, end = 0, 0.0
        for _, last, _, gap, chunk in self._chunks(connection, small[0] - 1):
            rows += [chunk.row(at) for at in range(chunk.count)]
            lost, end = lost + gap, last
        connection.execute("DELETE FROM chunk WHERE id >= ?", (small[0],))
        numbers = []
        for at in range(0, max(len(rows), 1), CHUNK_ROWS):
            part = rows[at : at + CHUNK_ROWS]
            numbers.append(self._insert(connection, pack(columns_of(part)), len(part), end, lost))
            lost = 0
        return numbers if len(rows) < _SMALL else []

    def _trim(self, connection: sqlite3.Connection) -> int:
        """Whole chunks go, the oldest first."""
        rows, removed = self._rows, 0
        oldest = connection.execute("SELECT id, last, rows FROM chunk ORDER BY id LIMIT 64").fetchall()
        for number, last, count in oldest[:-1]:
            if rows - removed - count < self._most_rows and last > self._clock() - self._longest:
                break
            connection.execute("DELETE FROM chunk WHERE id = ?", (number,))
            removed += count
        return removed

    # Reading

    def _chunks(
        self, connection: sqlite3.Connection, after: int
    ) -> Iterator[tuple[int, float, int, int, Chunk]]:
        """(number, last, rows, lost, chunk) of every chunk. One that is not as it was written becomes a gap."""
        while found := connection.execute(_READ, (after,)).fetchall():
            for number, last, rows, lost, check, data in found:
                if check == _check(data, rows, lost):
                    yield number, last, rows, lost, Chunk(data)
                else:
                    gap = self._give_up(connection, number, rows, lost)
                    yield number, last, 0, gap, Chunk(_EMPTY)
            after = found[-1][0]

    def _give_up(self, connection: sqlite3.Connection, number: int, rows: int, lost: int) -> int:
        log.warning("a part of the record of fates is damaged and left out: chunk=%d file=%s", number, self._path)
        gap = max(1, rows) + max(0, lost)
        connection.execute("UPDATE chunk SET rows=0, lost=?, c=?, data=? WHERE id=?",
                           (gap, _check(_EMPTY, 0, gap), _EMPTY, number))  # fmt: skip
        (self._rows,) = connection.execute("SELECT coalesce(sum(rows), 0) FROM chunk").fetchone()
        return gap

    def _find(self, connection: sqlite3.Connection, wanted: Wanted) -> Found:
        identifiers = [wanted.identifier] if wanted.identifier is not None else self._named(connection, wanted)
        rows: list[FateRow] = []
        gaps = []
        for _, last, _, lost, chunk in self._chunks(connection, 0):
            if lost:
                gaps.append(Gap(last, lost))
            for at in sorted({at for identifier in identifiers for at in chunk.about(identifier)}):
                rows.append(chunk.row(at))
            del rows[:-MOST_FOUND]
        return Found(rows, gaps + ([Gap(self._clock(), self._lost)] if self._lost else []))

    def _named(self, connection: sqlite3.Connection, wanted: Wanted) -> list[ObjectId]:
        """The newest messages with the label or the correlation id."""
        found: dict[ObjectId, None] = {}
        for *_, chunk in self._chunks(connection, 0):
            label = chunk.labelled(wanted.label) if wanted.label else []
            rows = label if label or wanted.label else chunk.correlated(wanted.correlation_id)
            for at in rows:
                found[chunk.row(at).identifier] = None
        return list(found)[-wanted.limit :]


def _check(data: bytes, rows: int, lost: int) -> int:
    return crc32(b"%d %d" % (rows, lost), crc32(data))


def _is_damage(error: BaseException) -> bool:
    """The file is at fault, not the disk or its room."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        return code is not None and code & 0xFF in _DAMAGED
    return not isinstance(error, OSError)
