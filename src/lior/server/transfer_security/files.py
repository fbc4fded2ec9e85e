"""Small files that must be whole or not there, and that change under a running server."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from lior.errors import StoreUnusable

PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
MAX_FILE: Final = 1 << 20
SETTLED: Final = 2.0  # seconds: a younger time of change may hide a second change within the same tick


class Stamp(NamedTuple):
    """What changes when a file or directory does."""

    changed: int
    size: int
    inode: int


def stamp(path: Path) -> Stamp | None:
    """None for what is not there, or changed so recently that it may change again unseen."""
    try:
        status = path.stat()
    except OSError:
        return None
    if abs(time.time() - status.st_mtime) < SETTLED:
        return None
    return Stamp(status.st_mtime_ns, status.st_size, status.st_ino)


def make_directory(path: Path) -> None:
    try:
        path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(path, error) from None


def read(path: Path) -> bytes | None:
    """The content; None if there is no such file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(path, error) from None
    if len(data) > MAX_FILE:
        raise StoreUnusable(f"more than {MAX_FILE} bytes", where=str(path), remedy="this is no file of Lior's")
    return data


def write(path: Path, data: bytes, *, replace: bool = True) -> bool:
    """Put the content there, on disk when this returns. Without `replace` a file that is there stays: False."""
    make_directory(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            temporary.replace(path)
        else:
            os.link(temporary, path)
        sync_directory(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        raise unusable(path, error) from None
    finally:
        with suppress(OSError):
            temporary.unlink()
    return True


def remove(path: Path) -> bool:
    try:
        path.unlink()
        sync_directory(path.parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unusable(path, error) from None
    return True


def names(directory: Path, suffix: str) -> list[str]:
    """The names of the files with this suffix, without it; sorted."""
    try:
        entries = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unusable(directory, error) from None
    return [name.removesuffix(suffix) for name in entries if name.endswith(suffix) and not name.startswith(".")]


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unusable(path: Path, error: OSError) -> StoreUnusable:
    return StoreUnusable(error.strerror or str(error), where=str(path),
                         remedy="look at the permissions and the free space of the data directory")
