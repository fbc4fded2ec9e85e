"""The store in one SQLite file: WAL, synchronous=FULL, one writer connection and one reader connection."""

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import starmap
from json import dumps, loads
from pathlib import Path
from struct import error as StructError
from typing import Any, Final

from lior.errors import (
    InvalidParameter,
    LiorError,
    MessageStorageFailed,
    MessageTooLarge,
    StoreCorrupt,
    StoreForeign,
    StoreUnusable,
    StoreVersion,
)
from lior.queues.ports import (
    SEQUENCE_MASK,
    IndexEntry,
    LoadedState,
    Operation,
    Outline,
    Packed,
    PutQueue,
    StoredMessage,
)
from lior.store import backup, recovery
from lior.store.errors import DAMAGED_TEXT, READ_ERRORS, translate
from lior.store.lock import DirectoryLock, unusable
from lior.store.log import LogCopier
from lior.store.outline import outline
from lior.store.plan import EXPECT, GUARD, Plan, not_as_expected
from lior.store.record import decode
from lior.store.schema import queue_check, row_check, state_check
from lior.store.search import Step, Wanted, search

CHECKPOINT_BYTES: Final = 16 << 20  # of log: past this the writer copies it into the file when it gets to `maintain`
IDLE_CHECKPOINT_BYTES: Final = 1 << 20  # of log: enough to use an idle moment for it
LOG_LIMIT_BYTES: Final = 64 << 20  # of log: past this `commit` does it itself
VACUUM_PAGES: Final = 512  # given back to the disk in one idle step
_COMMIT_BYTES: Final = 16384  # of log for one commit besides content: tree pages around it

_FETCH: Final = "SELECT n, e, t, a, v, u, k, hdr, body FROM m WHERE q=? AND l=?"
# Bound as one JSON text: as many as are wanted in one step, in the order given.
_FETCH_ALL: Final = ("SELECT m.l, n, e, t, a, v, u, k, hdr, body FROM json_each(?) AS j CROSS JOIN m "
                     "ON m.q=? AND m.l=j.value")
_HEADERS: Final = "SELECT m.l, hdr FROM json_each(?) AS j CROSS JOIN m ON m.q=? AND m.l=j.value"
_SIZES: Final = "SELECT l, n FROM m WHERE q=? AND l>=? AND l<=? ORDER BY l"
_SCAN: Final = "SELECT l, n, e, t, a, v, u, k, hdr, body FROM m WHERE q=? AND l>? ORDER BY l LIMIT ?"
_RECOVERABLE: Final = (MessageStorageFailed, MessageTooLarge, InvalidParameter)  # rolled back, still usable


class SqliteStore:
    """A data directory's store. `commit`, `copy_log`, `maintain` and `compact` belong to one writer thread; `prepare`,
    `fetch` and `scan` to the loop thread; `snapshot` may come from any. `apply` does both halves of a write."""

    commits_quickly = True  # as a rule: who measures that it does not may use another thread

    def __init__(self, directory: str | os.PathLike[str], *, full_check: bool = False, create: bool = True) -> None:
        self.directory = Path(directory).absolute()
        self.path = self.directory / recovery.STORE_FILE
        self._where = os.fspath(self.path)
        self._failed: LiorError | None = None
        self._closed = False
        self._writing = threading.Lock()
        self._log_bytes = 0
        self._make_directory(create)
        self._lock = DirectoryLock(self.directory)
        try:
            self._writer = recovery.open_file(self.directory, full_check=full_check)
            try:
                self._reader = recovery.connect(self.path, "ro")
                self._reader.execute("PRAGMA cache_size=-16384")
                self._execute = self._reader.execute
                self._highest = _highest_sequence(self._reader)
                self._copier = LogCopier(self.path)
            except sqlite3.Error as error:
                raise recovery.as_opening_error(error, self._where) from error
            except OSError as error:
                raise unusable(error, self.path) from error
        except BaseException:
            self._release()
            raise

    def _make_directory(self, create: bool) -> None:
        try:
            if create and not self.directory.is_dir():
                missing = [path for path in (self.directory, *self.directory.parents) if not path.exists()]
                self.directory.mkdir(mode=0o700, parents=True)
                for path in missing:
                    recovery.sync_directory(path.parent)
            if not create and not self.path.exists():
                raise StoreUnusable("there is no store here", where=self._where, remedy="check the directory's name")
        except OSError as error:
            raise unusable(error, self.directory) from error

    # Reading

    def load(self) -> LoadedState:
        self._check()
        loaded = LoadedState()
        try:
            for queue_id, kind, name, definition, check in self._reader.execute(
                    "SELECT id, kind, name, definition, c FROM queue ORDER BY id").fetchall():
                if check != queue_check(queue_id, kind, name, definition):
                    raise self._stop(StoreCorrupt(f"the definition of queue {queue_id} is damaged",
                                                  where=self._where, remedy=recovery.DOCTOR))
                loaded.queues.append(PutQueue(queue_id, kind, name, loads(definition)))
            for kind, key, value, check in self._reader.execute("SELECT kind, key, value, c FROM state").fetchall():
                if check != state_check(kind, key, value):
                    raise self._stop(StoreCorrupt(f"the state {kind} {key} is damaged", where=self._where,
                                                  remedy=recovery.DOCTOR))
                loaded.state[kind, key] = value
        except READ_ERRORS as error:
            raise self._failure(error) from error
        except (TypeError, ValueError) as error:
            raise self._stop(StoreCorrupt(f"a damaged row: {error}", where=self._where,
                                          remedy=recovery.DOCTOR)) from error
        return loaded

    def load_index(self) -> Iterator[IndexEntry]:
        """Plain tuples (queue_id, lookup_id, size, expires) straight from the covering index."""
        self._check()
        connection = recovery.connect(self.path, "ro")
        try:
            yield from connection.execute("SELECT q, l, n, e FROM m INDEXED BY m_position ORDER BY q, l")
        except READ_ERRORS as error:
            raise self._failure(error) from error
        finally:
            connection.close()

    def fetch(self, queue_id: int, lookup_id: int) -> StoredMessage | None:
        if self._failed is not None:
            self._check()
        try:
            row = self._execute(_FETCH, (queue_id, lookup_id)).fetchone()
        except OverflowError:
            return None
        except READ_ERRORS as error:
            raise self._failure(error) from error
        return None if row is None else self._stored(queue_id, lookup_id, *row)

    def scan(self, queue_id: int, after_lookup_id: int, limit: int) -> list[StoredMessage]:
        self._check()
        try:
            rows = self._execute(_SCAN, (queue_id, after_lookup_id, max(limit, 0))).fetchall()
        except READ_ERRORS as error:
            raise self._failure(error) from error
        return [self._stored(queue_id, *row) for row in rows]

    def fetch_all(self, queue_id: int, lookup_ids: Sequence[int]) -> list[StoredMessage]:
        self._check()
        try:
            rows = self._execute(_FETCH_ALL, (dumps(lookup_ids), queue_id)).fetchall()
        except READ_ERRORS as error:
            raise self._failure(error) from error
        return [self._stored(queue_id, *row) for row in rows]

    def outlines(self, queue_id: int, lookup_ids: Sequence[int]) -> list[Outline]:
        self._check()
        try:
            return list(starmap(outline, self._execute(_HEADERS, (dumps(lookup_ids), queue_id))))
        except READ_ERRORS as error:
            raise self._failure(error) from error
        except StoreCorrupt as error:
            error.where = f"{self._where}, queue {queue_id}"
            raise

    def sizes(self, queue_id: int, first: int, last: int) -> list[tuple[int, int]]:
        self._check()
        try:
            return self._execute(_SIZES, (queue_id, first, last)).fetchall()
        except READ_ERRORS as error:
            raise self._failure(error) from error

    def search(self, wanted: Wanted) -> Iterator[Step]:
        """Through everything, in steps; for any thread, on a connection of its own."""
        self._check()
        return search(self.path, wanted)

    def _stored(self, queue_id: int, lookup_id: int, size: int, expires: int, arrival_time: float, aborts: int,
                moves: int, last_move: float, check: int, header: bytes, body: bytes) -> StoredMessage:
        try:
            if check != row_check(queue_id, lookup_id, size, expires, arrival_time, aborts, moves, last_move):
                raise StoreCorrupt("the row's columns do not match their checksum", remedy=recovery.DOCTOR)
            return StoredMessage(lookup_id, decode(header, body), arrival_time, aborts, moves, last_move)
        except (StoreCorrupt, StoreVersion) as error:
            error.where = f"{self._where}, queue {queue_id}, lookup id 0x{lookup_id:016X}"
            raise
        except (TypeError, StructError) as error:
            raise StoreCorrupt("a column has the wrong type", remedy=recovery.DOCTOR,
                               where=f"{self._where}, queue {queue_id}, lookup id 0x{lookup_id:016X}") from error

    # Writing

    def prepare(self, batch: Sequence[Operation]) -> Plan:
        """Everything about a write that needs Python, so that `commit` is nearly all SQLite's and leaves the
        interpreter to the loop. Plans are committed in the order they were made."""
        plan = Plan(self._highest)
        plan.add(batch)
        self._highest = plan.highest
        return plan

    def pack(self, operations: Sequence[Operation]) -> Packed:
        return Packed(self.prepare(operations))

    def commit(self, plans: Sequence[Plan]) -> None:
        """Make the batches behind the plans durable in one transaction."""
        self._check()
        with self._writing:
            statements = [statement for plan in plans for statement in plan.statements]
            if not statements:
                return
            if self._log_bytes > LOG_LIMIT_BYTES:
                self._checkpoint()
            self._commit(statements)
            self._log_bytes += sum(plan.bytes for plan in plans) + _COMMIT_BYTES

    def apply(self, batch: Sequence[Operation]) -> None:
        self._check()
        self.commit([self.prepare(batch)])

    def _commit(self, statements: list[tuple[str, Sequence[Any]]]) -> None:
        execute = self._writer.execute
        try:
            if len(statements) == 1:  # a transaction by itself, in one step
                execute(*statements[0])
                return
            execute("BEGIN IMMEDIATE")
            for sql, values in statements:
                found = execute(sql, values)
                if sql is GUARD and found.fetchone() is not None:
                    raise InvalidParameter("another message has this position",
                                           where=f"queue {values[0]}, lookup id 0x{values[1]:X}")
                if sql is EXPECT and found.fetchone() is not None:
                    raise not_as_expected(values[0], values[1])
            execute("COMMIT")
        except (OverflowError, sqlite3.InterfaceError, sqlite3.ProgrammingError) as error:
            self._roll_back()
            raise InvalidParameter(f"a value that the store cannot hold: {error}", where=self._where) from error
        except sqlite3.Error as error:
            raise self._failure(error, roll_back=True) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._writer.in_transaction:
            try:
                self._writer.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise self._failure(error) from error

    def copy_log(self, idle: bool = True) -> None:
        """The long part of what `maintain` does about the log, to be called before it: commits of another thread
        need not wait."""
        self._check()
        if self._log_bytes <= (IDLE_CHECKPOINT_BYTES if idle else CHECKPOINT_BYTES):
            return
        try:
            self._copier.copy()
        except sqlite3.Error as error:
            found = self._failure(error)
            if self._failed is not None:
                raise found from error
        except OSError as error:
            raise self._stop(unusable(error, self.path)) from error

    def maintain(self, idle: bool = True) -> None:
        """Work for the writer thread between batches, when no answer waits: copy the log into the file once it
        is worth it, so that the log is overwritten in place instead of growing; when idle, also give free
        pages back to the disk, a few at a time."""
        self._check()
        with self._writing:
            if self._log_bytes > (IDLE_CHECKPOINT_BYTES if idle else CHECKPOINT_BYTES):
                self._checkpoint()
            elif idle:
                self._vacuum(VACUUM_PAGES, keep=4 * VACUUM_PAGES)

    def _checkpoint(self) -> None:
        try:
            busy, pages, done = self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            found = self._failure(error)
            if self._failed is None:  # no room for the file to grow; what is in the log is safe there
                self._log_bytes //= 2
                return
            raise found from error
        # While a reader holds an old view, or the copier is at work, the log cannot start over: try again after as
        # much again.
        self._log_bytes = 0 if pages == done and not busy else LOG_LIMIT_BYTES // 2

    def _vacuum(self, pages: int, keep: int) -> int:
        try:
            (free,) = self._writer.execute("PRAGMA freelist_count").fetchone()
            wanted: int = min(pages, free - keep)
            if wanted <= 0:
                return 0
            # execute would stop at the first of its rows, which have no columns
            self._writer.executescript(f"PRAGMA incremental_vacuum({wanted})")
        except sqlite3.Error as error:
            found = self._failure(error, roll_back=True)
            if self._failed is None:
                return 0
            raise found from error
        self._log_bytes += 4096 * wanted
        return wanted

    def compact(self) -> int:
        """Give all free space of the file back to the disk; returns the bytes. Safe while in use: the steps
        are small transactions, but batches wait for them."""
        self._check()
        before = self.path.stat().st_size
        with self._writing:
            while self._vacuum(8 * VACUUM_PAGES, keep=0):
                if self._log_bytes > CHECKPOINT_BYTES:
                    self._checkpoint()
            self._checkpoint()
        return max(0, before - self.path.stat().st_size)

    # Beside

    def snapshot(self, path: str) -> None:
        self._check()
        backup.snapshot(self.path, path)

    def free_bytes(self) -> int:
        try:
            disk = os.statvfs(self.directory)
        except OSError as error:
            raise unusable(error, self.directory) from error
        return disk.f_bavail * disk.f_frsize

    def close(self) -> None:
        """Close the store; a second call does nothing. After a failure nothing more is written."""
        if not self._closed:
            self._closed = True
            with self._writing:
                self._release()
            self._failed = self._failed or StoreUnusable("the store is closed", where=self._where)

    def _release(self) -> None:
        reader, writer = getattr(self, "_reader", None), getattr(self, "_writer", None)
        copier: LogCopier | None = getattr(self, "_copier", None)
        if copier is not None:
            copier.close_connection()
        # Whoever closes last does SQLite's closing checkpoint. A reader cannot, and after a failure nobody should.
        order = (reader, writer) if self._failed is None else (writer, reader)
        for connection in order:
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()
        if copier is not None:
            copier.close_file()
        self._lock.release()

    # Failing

    def _check(self) -> None:
        if self._failed is not None:
            raise StoreUnusable(f"the store stopped: {self._failed.what}", where=self._where,
                                remedy=self._failed.remedy)

    def _stop(self, error: LiorError) -> LiorError:
        """Remember what ended the store's use; every later call raises StoreUnusable."""
        self._failed = self._failed or error
        return error

    def _failure(self, error: sqlite3.Error | UnicodeDecodeError, *, roll_back: bool = False) -> LiorError:
        if self._closed:
            self._check()
        found = translate(error, self._where)
        if isinstance(found, StoreForeign):  # it was a store when it was opened
            found = StoreCorrupt(found.what, where=self._where, remedy=recovery.DOCTOR)
        if found.what == DAMAGED_TEXT:  # one row; the others can be read
            return found
        if not isinstance(found, _RECOVERABLE):
            return self._stop(found)
        if roll_back:
            self._roll_back()
        return found


def _highest_sequence(connection: sqlite3.Connection) -> int:
    """The largest sequence number of any stored message: ten index seeks for each queue."""
    highest, queue_id = -1, -(1 << 63)
    while True:
        (found,) = connection.execute("SELECT min(q) FROM m WHERE q>=?", (queue_id,)).fetchone()
        if found is None:
            return highest
        lowest, topmost = connection.execute("SELECT (SELECT min(l) FROM m WHERE q=?1), "
                                             "(SELECT max(l) FROM m WHERE q=?1)", (found,)).fetchone()
        if lowest < 0 or topmost >> 56 > 7:  # not lookup ids of ours: every put gets a guard
            return SEQUENCE_MASK
        for priority in range(8):
            low = priority << 56
            (last,) = connection.execute("SELECT max(l) FROM m WHERE q=? AND l BETWEEN ? AND ?",
                                         (found, low, low | SEQUENCE_MASK)).fetchone()
            if last is not None:
                highest = max(highest, last & SEQUENCE_MASK)
        if found == (1 << 63) - 1:
            return highest
        queue_id = found + 1
