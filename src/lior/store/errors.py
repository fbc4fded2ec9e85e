"""Which of our errors an SQLite error is."""

import sqlite3
from typing import Final

from lior.errors import (
    InvalidParameter,
    LiorError,
    MessageStorageFailed,
    MessageTooLarge,
    StoreCorrupt,
    StoreForeign,
    StoreUnusable,
)

_ROOM: Final = "make room on the disk of the data directory, or drain queues"

# By primary result code. MessageStorageFailed means: rolled back, try again when the cause is gone.
_BY_CODE: Final[dict[int, tuple[type[LiorError], str]]] = {
    sqlite3.SQLITE_FULL: (MessageStorageFailed, _ROOM),
    sqlite3.SQLITE_NOMEM: (MessageStorageFailed, "give the process more memory"),
    sqlite3.SQLITE_BUSY: (MessageStorageFailed, "another program keeps the store file locked: stop it"),
    sqlite3.SQLITE_LOCKED: (MessageStorageFailed, "another program keeps the store file locked: stop it"),
    sqlite3.SQLITE_TOOBIG: (MessageTooLarge, "send a smaller message"),
    sqlite3.SQLITE_CONSTRAINT: (InvalidParameter, "this is a defect in Lior: please report it"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "run: lior doctor --repair, or put back a backup"),
    sqlite3.SQLITE_NOTADB: (StoreForeign, "give Lior a directory of its own; if this was a store, run: lior doctor"),
}
_UNUSABLE: Final = (StoreUnusable, "check the disk and the kernel log, then start again: the store recovers by itself")


DAMAGED_TEXT: Final = "text in the file is not UTF-8"
# What reading a damaged file can raise: sqlite3 fails to decode SQLite's own message when that quotes the file.
READ_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)


def translate(error: sqlite3.Error | UnicodeDecodeError, where: str) -> LiorError:
    """The typed error for what SQLite said."""
    if isinstance(error, UnicodeDecodeError) or "decode to UTF-8" in str(error):
        return StoreCorrupt(DAMAGED_TEXT, where=where, remedy="run: lior doctor --repair, or put back a backup")
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    kind, remedy = _UNUSABLE if code is None else _BY_CODE.get(code & 0xFF, _UNUSABLE)
    return kind(f"{error} ({name})", where=where, remedy=remedy)
