"""Rebuild a store from whatever rows of a damaged file still match their checksums.

Order, so that a crash at any point leaves either the damaged store or the complete result:
build store.db.new and the quarantine, copy the damaged files aside, name the result store.db.repaired,
remove the damaged log, put the result in place. While store.db.repaired exists the store does not open,
and the next repair goes on from there.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from struct import error as StructError
from typing import Any, Final

from lior.errors import LiorError, StoreVersion
from lior.message import Message
from lior.queues.ports import COUNTER, LOOKUP_IDS, SEQUENCE_MASK
from lior.store import recovery, schema
from lior.store.pages import Cell, PageFile, Value
from lior.store.plan import PUT_COLUMNS
from lior.store.record import decode
from lior.store.report import Report, Severity
from lior.store.schema import queue_check, row_check, state_check

_QUARANTINE: Final = """
CREATE TABLE quarantine(page INTEGER, rowid_there INTEGER, reason TEXT, q INTEGER, l INTEGER, n INTEGER, e INTEGER,
  t REAL, a INTEGER, v INTEGER, u REAL, k INTEGER, hdr BLOB, body BLOB, raw BLOB);
CREATE TABLE listed(q INTEGER, l INTEGER, PRIMARY KEY(q, l)) WITHOUT ROWID;
CREATE TABLE lost(q INTEGER, l INTEGER, PRIMARY KEY(q, l)) WITHOUT ROWID;
"""
_PUT: Final = f"INSERT INTO m({PUT_COLUMNS}) VALUES ({', '.join('?' * 11)})"
_COLUMNS: Final = "its position, times or counts are damaged"
_COUNTER: Final = (COUNTER, LOOKUP_IDS)
_SCHEMA_KINDS: Final = ("table", "index", "trigger", "view")


def rebuild(directory: Path) -> Report:
    """Salvage the store of a directory whose lock the caller holds."""
    report = Report(os.fspath(directory), repaired=True)
    path, repaired = directory / recovery.STORE_FILE, directory / recovery.REPAIRED_FILE
    if repaired.exists():
        report.add(Severity.NOTE, "finished the repair that was interrupted", os.fspath(repaired))
    else:
        aside = _new_directory(directory)
        report.kept_in = os.fspath(aside)
        building = directory / recovery.NEW_FILE
        recovery.discard(building)
        _salvage(path, building, aside / "quarantine.db", report)
        for suffix in ("", "-wal"):
            damaged = path.with_name(path.name + suffix)
            if damaged.exists():
                shutil.copy2(damaged, aside / damaged.name)
                recovery.sync_file(aside / damaged.name)
        recovery.sync_file(aside / "quarantine.db")
        recovery.sync_directory(aside)
        recovery.sync_file(building)
        building.rename(repaired)
        recovery.sync_directory(directory)
    for suffix in ("-wal", "-shm", "-journal"):  # never beside a file that it does not belong to
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    recovery.sync_directory(directory)
    repaired.rename(path)
    recovery.sync_directory(directory)
    return report


def _new_directory(directory: Path) -> Path:
    stamp, number = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), 0
    while True:
        aside = directory / (f"damaged-{stamp}" + (f"-{number}" if number else ""))
        try:
            aside.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return aside


def _salvage(path: Path, building: Path, quarantine: Path, report: Report) -> None:
    source = PageFile(path) if path.exists() else None
    try:
        with closing(recovery.connect(building, "rwc")) as target, closing(sqlite3.connect(quarantine)) as aside:
            schema.create(target)
            target.execute("PRAGMA synchronous=OFF")  # the caller syncs the finished file
            target.execute("BEGIN")
            aside.executescript(_QUARANTINE)
            work = _Salvage(target, aside, report, os.fspath(path))
            if source is not None:
                _refuse_older(source)
                for problem in source.problems:
                    report.add(Severity.ERROR, problem, os.fspath(path))
                for cell in source.cells():
                    work.take(cell)
            work.finish()
            target.execute("COMMIT")
            aside.commit()
    finally:
        if source is not None:
            source.close()
    building.chmod(0o600)


def _refuse_older(source: PageFile) -> None:
    version = int.from_bytes(source.page(1)[60:64], "big")
    if 1 <= version < schema.VERSION:
        raise StoreVersion(f"a damaged store of version {version} cannot be repaired by this Lior",
                           remedy="put back a backup, or repair it with the Lior that wrote it")


class _Salvage:
    """Sorts rows into the new store and the quarantine."""

    def __init__(self, target: sqlite3.Connection, aside: sqlite3.Connection, report: Report, where: str) -> None:
        self._target, self._aside, self._report, self._where = target, aside, report, where
        self._highest = -1

    def take(self, cell: Cell) -> None:
        values = cell.values
        if values is None:
            if cell.live:
                self._put_aside(cell, cell.problem)
        elif cell.table and len(values) == 12:
            self._take_message(cell, values)
        elif cell.table and len(values) == 5:
            if values[0] not in _SCHEMA_KINDS:
                self._take_queue(cell, values)
        elif not cell.table and len(values) == 4:
            self._take_state(cell, values)
        elif not cell.table and len(values) == 5:
            if cell.live and all(isinstance(value, int) for value in values):
                self._aside.execute("INSERT OR IGNORE INTO listed VALUES (?, ?)", values[:2])
        elif cell.live:
            self._put_aside(cell, f"a row of {len(values)} columns")

    def _take_message(self, cell: Cell, values: list[Value]) -> None:
        _, queue_id, lookup_id, *rest = values
        header, body = values[10], values[11]
        try:
            if not isinstance(queue_id, int) or not isinstance(lookup_id, int):
                raise ValueError("its position is not a pair of numbers")
            message = decode(header, body)  # type: ignore[arg-type] # a TypeError is one of the answers
            if values[9] != row_check(*values[1:9]):  # type: ignore[arg-type]
                raise ValueError(_COLUMNS)
        except (LiorError, TypeError, ValueError, StructError) as error:
            if cell.live:
                self._put_aside(cell, error.what if isinstance(error, LiorError) else str(error))
            return
        there = self._target.execute("SELECT hdr=? AND body=? FROM m WHERE q=? AND l=?",
                                     (header, body, queue_id, lookup_id)).fetchone()
        if not cell.live:
            # Whole, but perhaps not in force: deleted long ago, or the newest state of all. The index may know.
            if there is None and self._is_listed(queue_id, lookup_id):
                self._insert(queue_id, lookup_id, message, rest)
            elif there is None:
                self._put_aside(cell, "from a free page or a broken log: perhaps a deleted message", note=True)
        elif there is not None:
            self._put_aside(cell, "another message has this position" if not there[0] else "a second copy")
        else:
            self._insert(queue_id, lookup_id, message, rest)

    def _is_listed(self, queue_id: int, lookup_id: int) -> bool:
        found = self._aside.execute("SELECT 1 FROM listed WHERE q=? AND l=?", (queue_id, lookup_id)).fetchone()
        return found is not None

    def _insert(self, queue_id: int, lookup_id: int, message: Message, rest: Sequence[Value]) -> None:
        numbers = [value if isinstance(value, int | float) else 0 for value in rest[1:6]]
        expires, aborts, moves = (int(numbers[at]) for at in (0, 2, 3))
        columns = (queue_id, lookup_id, message.size, expires, float(numbers[1]), aborts, moves, float(numbers[4]))
        self._target.execute(_PUT, (*columns, row_check(*columns), *rest[-2:]))
        self._highest = max(self._highest, lookup_id & SEQUENCE_MASK)
        self._report.messages += 1

    def _take_queue(self, cell: Cell, values: list[Value]) -> None:
        _, kind, name, definition, check = values
        if not (isinstance(kind, str) and isinstance(name, str) and isinstance(definition, str)
                and check == queue_check(cell.rowid, kind, name, definition)):
            if cell.live:
                self._put_aside(cell, "the definition of a queue does not match its checksum")
        elif cell.live:
            self._target.execute("INSERT OR IGNORE INTO queue VALUES (?, ?, ?, ?, ?)",
                                 (cell.rowid, kind, name, definition, check))
            self._report.queues += 1

    def _take_state(self, cell: Cell, values: list[Value]) -> None:
        kind, key, value, check = values
        if not cell.live:
            return
        if isinstance(kind, str) and isinstance(key, str) and isinstance(value, bytes) \
                and check == state_check(kind, key, value):
            self._target.execute("INSERT OR IGNORE INTO state VALUES (?, ?, ?, ?)", (kind, key, value, check))
        else:
            self._put_aside(cell, "a state value does not match its checksum")

    def _put_aside(self, cell: Cell, reason: str, *, note: bool = False) -> None:
        values: list[Any] = list(cell.values or ())
        columns = values[1:] if len(values) == 12 else [None] * 11
        self._aside.execute(f"INSERT INTO quarantine VALUES ({', '.join('?' * 15)})",
                            (cell.page, cell.rowid, reason, *columns, cell.raw))
        self._report.quarantined += 1
        if not note and self._report.quarantined <= 100:
            self._report.add(Severity.ERROR, f"put aside row {cell.rowid} of page {cell.page}: {reason}", self._where,
                             "look at quarantine.db in the directory of the damaged files")

    def _place_by_index(self) -> None:
        """Messages whose content is whole and whose position the index confirms, though their columns changed."""
        for queue_id, lookup_id, *rest in self._aside.execute(
                "SELECT q, l, n, e, t, a, v, u, k, hdr, body FROM quarantine JOIN listed USING (q, l) WHERE reason=?",
                (_COLUMNS,)).fetchall():
            if not self._target.execute("SELECT 1 FROM m WHERE q=? AND l=?", (queue_id, lookup_id)).fetchone():
                self._insert(queue_id, lookup_id, decode(*rest[-2:]), rest)
                self._report.add(Severity.WARNING, f"kept the message of queue {queue_id}, lookup id "
                                 f"{lookup_id:#018x}, whose times or counts may be wrong", self._where)

    def finish(self) -> None:
        """Name what is missing, and lift the counter of lookup ids above all that were ever in use."""
        self._place_by_index()
        highest = self._highest
        for queue_id, lookup_id in self._aside.execute("SELECT q, l FROM listed").fetchall():
            if not self._target.execute("SELECT 1 FROM m WHERE q=? AND l=?", (queue_id, lookup_id)).fetchone():
                highest = max(highest, lookup_id & SEQUENCE_MASK)
                self._aside.execute("INSERT OR IGNORE INTO lost VALUES (?, ?)", (queue_id, lookup_id))
                self._report.lost += 1
                if self._report.lost <= 100:
                    self._report.add(Severity.ERROR, f"the message of queue {queue_id}, lookup id {lookup_id:#018x} "
                                     "cannot be read", self._where, "its remains, if any, are in quarantine.db")
        row = self._target.execute("SELECT value FROM state WHERE kind=? AND key=?", _COUNTER).fetchone()
        if highest >= 0 and (row is None or int.from_bytes(row[0], "little") & SEQUENCE_MASK < highest):
            value = highest.to_bytes(16, "little")
            self._target.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?)",
                                 (*_COUNTER, value, state_check(*_COUNTER, value)))
            self._report.add(Severity.NOTE, f"set the counter {LOOKUP_IDS} to {highest}", self._where)
