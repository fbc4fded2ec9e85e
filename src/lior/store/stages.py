"""Messages that a writer has put aside, to be published together later: one file for each part of a batch.

    file   = magic (8 bytes), frames, end
    frame  = flags (1 byte), lengths of destination, header and body (4 bytes each), and these three
    end    = flags 255, count (8 bytes), CRC-32 of all before (4 bytes)

A file gets its name when all of it is on disk; what has none is worthless, and what nobody publishes is removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from lior.errors import InvalidParameter, LiorError, MessageStorageFailed, MessageTooLarge
from lior.message import Message
from lior.store.record import decode, encode

DIRECTORY: Final = "staging"
SUFFIX: Final = ".stage"
_PART: Final = ".part"
_MAGIC: Final = b"LIORSTG1"
_FRAME: Final = Struct("<BIII")
_END: Final = Struct("<BQI")
_LAST: Final = 255
_TRANSACTIONAL: Final = 1
_BUFFER: Final = 1 << 20


class Staged(NamedTuple):
    destination: str
    message: Message
    transactional: bool


def path_of(directory: Path, stage: str) -> Path:
    try:
        name = str(UUID(stage))
    except ValueError:
        raise InvalidParameter(f"{stage!r:.60} is no name of a stage", where="stages") from None
    return directory / DIRECTORY / f"{name}{SUFFIX}"


class StageWriter:
    """Writes one file. Without `finish` nothing of it stays."""

    def __init__(self, directory: Path, stage: str, most_bytes: int) -> None:
        self.path = path_of(directory, stage)
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self._part = self.path.with_suffix(_PART)
        self._most_bytes = most_bytes
        self._checksum = crc32(_MAGIC)
        self.count = 0
        self.bytes = 0
        try:
            self._file = self._part.open("wb", buffering=_BUFFER)
            self._file.write(_MAGIC)
        except OSError as error:
            raise _unwritten(error, self._part) from error

    def add(self, staged: Staged) -> None:
        header, name = encode(staged.message), staged.destination.encode()
        body = staged.message.body
        flags = _TRANSACTIONAL if staged.transactional else 0
        frame = b"".join((_FRAME.pack(flags, len(name), len(header), len(body)), name, header, body))
        self.bytes += len(frame)
        if self.bytes > self._most_bytes:
            raise MessageTooLarge(f"a stage has at most {self._most_bytes} bytes", where="bulk.max_stage_bytes",
                                  remedy="write in more partitions, or raise the setting")
        self._checksum = crc32(frame, self._checksum)
        self.count += 1
        try:
            self._file.write(frame)
        except OSError as error:
            raise _unwritten(error, self._part) from error

    def finish(self) -> None:
        try:
            self._file.write(_END.pack(_LAST, self.count, self._checksum))
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._part.rename(self.path)
            sync_directory(self.path.parent)
        except OSError as error:
            raise _unwritten(error, self._part) from error

    def abort(self) -> None:
        with suppress(OSError):
            self._file.close()
        self._part.unlink(missing_ok=True)


def read(directory: Path, stage: str) -> list[Staged]:
    path = path_of(directory, stage)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InvalidParameter("there is no such stage; it was published or discarded, or it waited for too long",
                               where=stage, remedy="write the batch again; see bulk.stage_timeout") from None
    except OSError as error:
        raise MessageStorageFailed(error.strerror or str(error), where=str(path)) from error
    return list(_frames(data, path))


def read_all(directory: Path, stages: Sequence[str], most_bytes: int) -> list[Staged]:
    """Those of one batch, in this order."""
    total = 0
    for stage in stages:
        with suppress(FileNotFoundError):
            total += path_of(directory, stage).stat().st_size
    if total > most_bytes:
        raise MessageTooLarge(f"a batch of {total} bytes; one that is published has at most {most_bytes}",
                              where="publish", remedy="write smaller batches")
    return [staged for stage in stages for staged in read(directory, stage)]


def discard_all(directory: Path, stages: Sequence[str]) -> None:
    for stage in stages:
        discard(directory, stage)


def _frames(data: bytes, path: Path) -> Iterator[Staged]:
    at, end = len(_MAGIC), len(data) - _END.size
    flags, count, checksum = _END.unpack_from(data, end) if end >= at else (0, 0, 0)
    if not data.startswith(_MAGIC) or flags != _LAST or checksum != crc32(memoryview(data)[:end]):
        raise _damaged(path)
    found = 0
    while at < end:
        flags, name, header, body = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        text = data[at : at + name].decode()
        at += name
        head = data[at : at + header]
        at += header
        yield Staged(text, decode(head, data[at : at + body]), bool(flags & _TRANSACTIONAL))
        at += body
        found += 1
    if found != count or at != end:
        raise _damaged(path)


def discard(directory: Path, stage: str) -> None:
    path_of(directory, stage).unlink(missing_ok=True)


def used(directory: Path) -> int:
    """Bytes of everything that is put aside."""
    total = 0
    with suppress(FileNotFoundError):
        for file in (directory / DIRECTORY).iterdir():
            with suppress(OSError):
                total += file.stat().st_size
    return total


def expire(directory: Path, before: float) -> int:
    """Remove what was put aside before this time, whole or not; answers how many files."""
    removed = 0
    with suppress(OSError):
        for file in (directory / DIRECTORY).iterdir():
            with suppress(OSError):
                if file.stat().st_mtime < before:
                    file.unlink()
                    removed += 1
    return removed


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritten(error: OSError, path: Path) -> LiorError:
    return MessageStorageFailed(error.strerror or str(error), where=str(path),
                                remedy="free space on the disk, or check the rights of the data directory")


def _damaged(path: Path) -> LiorError:
    return MessageStorageFailed("the stage is damaged", where=str(path), remedy="write the batch again")
