"""Who asks: the kernel's word for a Unix socket; over TCP a token, and requests that were meant for us."""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lior.errors import AccessDenied, BadConfiguration, StoreUnusable
from lior.security import Caller, local_caller
from lior.server.runtime import process_caller

TOKEN_FILE: Final = "admin.token"
MAX_TOKEN: Final = 4096
SO_PEERGROUPS: Final = 59  # Linux 4.13; not in the socket module
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid
_MAX_GROUPS: Final = 65536


def peer_caller(transport_socket: Any) -> Caller:
    """The user at the other end of a Unix socket. Root and the queue manager's own user administer it."""
    with socket.socket(fileno=os.dup(transport_socket.fileno())) as peer:
        _, uid, gid = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        groups = {gid}
        with suppress(OSError):  # an older kernel tells the first group only
            listed = peer.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 4 * _MAX_GROUPS)
            groups.update(struct.unpack(f"{len(listed) // 4}I", listed))
    return local_caller(uid, groups, is_administrator=uid in (0, os.geteuid()))


class Token:
    """The secret of TCP clients: who can read its file may administer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._secret = _read(path) if path.exists() else _made(path)

    def caller(self, authorization: str) -> Caller:
        scheme, _, given = authorization.partition(" ")
        if scheme.casefold() == "bearer" and hmac.compare_digest(given.strip().encode(), self._secret):
            return process_caller()
        raise AccessDenied("the admin API over TCP needs its token", where="Authorization",
                           remedy=f"send: Authorization: Bearer <content of {self.path}>, or use the Unix socket")


def _made(path: Path) -> bytes:
    token = secrets.token_urlsafe(32).encode()
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(token + b"\n")
            file.flush()
            os.fsync(fd)
    except OSError as error:
        raise StoreUnusable(error.strerror or str(error), where=str(path),
                            remedy="make the directory writable, or set admin.token_file or admin.port=0") from error
    return token


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_mode & 0o022:
            raise BadConfiguration("others may write the file of the token", where=str(path),
                                   remedy=f"chmod 600 {path}, or remove it to have a new one made")
        with path.open("rb") as file:
            token = file.read(MAX_TOKEN + 1).strip()
    except OSError as error:
        raise BadConfiguration(error.strerror or str(error), where=str(path),
                               remedy="check admin.token_file and its rights") from error
    if not 16 <= len(token) <= MAX_TOKEN:
        raise BadConfiguration("a token has 16 to 4096 characters", where=str(path),
                               remedy="remove the file to have a new one made")
    return token


class OwnNames:
    """The names under which TCP clients may address the API. A page of a stranger that a browser was made to
    send here (DNS rebinding) carries the stranger's name in Host, or his Origin."""

    def __init__(self, address: str, more: tuple[str, ...]) -> None:
        self._loopback = ip_address(address).is_loopback
        self._names = {"localhost", address.casefold(), *(name.casefold() for name in more)}

    def check(self, headers: Any) -> None:
        host = headers.get("Host", "")
        if not self._is_own(f"//{host}"):
            raise AccessDenied(f"this is not {host or 'a host without a name'}", where="Host",
                               remedy="use the address that it listens on, or add the name to admin.hosts")
        origin = headers.get("Origin")
        if origin is not None and not self._is_own(origin):
            raise AccessDenied(f"pages of {origin} have no business here", where="Origin",
                               remedy="add the name to admin.hosts if it is yours")

    def _is_own(self, url: str) -> bool:
        try:
            host = (urlsplit(url).hostname or "").casefold()
        except ValueError:
            return False
        if host in self._names:
            return True
        try:
            return self._loopback and ip_address(host).is_loopback
        except ValueError:
            return False
