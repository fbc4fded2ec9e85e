"""The tables of a store file, their versions, and the steps from each version to the next.

    m       one row for each message. q queue id, l lookup id, n size that quotas count, e expiry, t arrival
            time, a abort count, v move count, u last move time, k check of all these, hdr and body: the record.
            The unique index (q, l, n, e) is all that a start reads.
    queue   definitions as JSON, c their CRC
    state   small durable values, c their CRC

Bodies stay out of the index (the "split" layout): measured faster than one tree of everything.
"""

import sqlite3
from collections.abc import Callable
from struct import Struct
from typing import Final
from zlib import crc32

APPLICATION_ID: Final = 0x4C494F52  # "LIOR"
VERSION: Final = 2
PAGE_SIZE: Final = 4096

_TABLES: Final = """
CREATE TABLE m(id INTEGER PRIMARY KEY, q INTEGER NOT NULL, l INTEGER NOT NULL, n INTEGER NOT NULL,
  e INTEGER NOT NULL, t REAL NOT NULL, a INTEGER NOT NULL, v INTEGER NOT NULL, u REAL NOT NULL,
  k INTEGER NOT NULL, hdr BLOB NOT NULL, body BLOB NOT NULL);
CREATE UNIQUE INDEX m_position ON m(q, l, n, e);
CREATE TABLE queue(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, definition TEXT NOT NULL,
  c INTEGER NOT NULL);
CREATE TABLE state(kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, c INTEGER NOT NULL,
  PRIMARY KEY(kind, key)) WITHOUT ROWID;
"""

ROW: Final = Struct("<qqqqdqqd")


def row_check(queue_id: int, lookup_id: int, size: int, expires: int, arrival_time: float, aborts: int, moves: int,
              last_move: float) -> int:
    """Column k: shows a changed column, and a row that the index found under a position that is not the row's."""
    # Adding 0.0 makes -0.0 what SQLite makes of it.
    return crc32(ROW.pack(queue_id, lookup_id, size, expires, arrival_time + 0.0, aborts, moves, last_move + 0.0))


def queue_check(queue_id: int, kind: str, name: str, definition: str) -> int:
    return crc32(f"{queue_id}\0{kind}\0{name}\0{definition}".encode("utf-8", "surrogatepass"))


def state_check(kind: str, key: str, value: bytes) -> int:
    return crc32(value, crc32(f"{kind}\0{key}".encode("utf-8", "surrogatepass")))


def create(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file. The caller syncs the file and gives it its name."""
    for setting in (f"page_size={PAGE_SIZE}", "auto_vacuum=INCREMENTAL", "journal_mode=DELETE",
                    f"application_id={APPLICATION_ID}"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version={VERSION}; COMMIT;")


def _add_checks(connection: sqlite3.Connection) -> None:
    """1 to 2: the check columns k and c. Rows are copied because a column after the body is slow to read."""
    connection.create_function("row_check", 8, row_check, deterministic=True)
    connection.create_function("queue_check", 4, queue_check, deterministic=True)
    connection.create_function("state_check", 3, state_check, deterministic=True)
    for name in ("m", "queue", "state"):
        connection.execute(f"ALTER TABLE {name} RENAME TO {name}_1")
    connection.execute("DROP INDEX m_position")
    for statement in _TABLES.split(";")[:-1]:
        connection.execute(statement)
    connection.execute("INSERT INTO m SELECT id, q, l, n, e, t, a, v, u, row_check(q, l, n, e, t, a, v, u), hdr, body "
                       "FROM m_1")
    connection.execute("INSERT INTO queue SELECT *, queue_check(id, kind, name, definition) FROM queue_1")
    connection.execute("INSERT INTO state SELECT *, state_check(kind, key, value) FROM state_1")
    for name in ("m", "queue", "state"):
        connection.execute(f"DROP TABLE {name}_1")


MIGRATIONS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {1: _add_checks}


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring an older file up to VERSION, one transaction for each step."""
    while version < VERSION:
        connection.execute("BEGIN IMMEDIATE")
        try:
            MIGRATIONS[version](connection)
            version += 1
            connection.execute(f"PRAGMA user_version={version}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
