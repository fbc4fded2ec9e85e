"""Copying the write-ahead log into the store file while commits go on."""

import os
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from lior.store import recovery


class LogCopier:
    """A connection for checkpoints only: SQLite lets one connection write the log while another copies it. What
    is written meanwhile is left for the writer, and only when he has copied that can the log start over.

    SQLite syncs the file when nothing is left to copy, which would be while commits wait for the writer. So the
    copier syncs it before. Its descriptor lives as long as SQLite's do: closing it drops their locks.
    """

    def __init__(self, path: Path) -> None:
        self._copying = threading.Lock()
        self._connection = recovery.connect(path, "rw")
        self._file = -1
        try:
            self._connection.execute("PRAGMA synchronous=FULL").fetchall()
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            self.close_connection()
            raise

    def copy(self) -> None:
        """Raises sqlite3.Error, or OSError when it is not known what is on disk."""
        with self._copying:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            os.fdatasync(self._file)

    def close_connection(self) -> None:
        """Before the others, so that none of theirs is the last but one."""
        with self._copying, suppress(sqlite3.Error):
            self._connection.close()

    def close_file(self) -> None:
        """After the last connection of this process to the file."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
            self._file = -1
