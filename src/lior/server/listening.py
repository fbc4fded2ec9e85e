"""Sockets to listen on: bound to the address they were given and to no other."""

from __future__ import annotations

import errno
import logging
import os
import socket
import stat
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from lior.errors import BadConfiguration, ServiceNotAvailable

log = logging.getLogger("lior.server")

BACKLOG: Final = 512
LONGEST_PATH: Final = 100  # bytes; sun_path has room for 108


def url_host(address: str) -> str:
    """As it stands before a port."""
    return f"[{address}]" if ":" in address else address


def is_loopback(address: str) -> bool:
    return ip_address(address).is_loopback


def tcp_socket(address: str, port: int, setting: str) -> socket.socket | None:
    """A bound socket. None, with a warning, where only privilege is missing; a port in use is an error."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        where = f"{url_host(address)}:{port}"
        if error.errno in (errno.EACCES, errno.EPERM):
            log.warning("no right to listen; goes on without", extra={"fields": {
                "where": where, "remedy": f"choose a port from 1024 with --set {setting}=PORT, switch it off with "
                f"--set {setting}=0, or give the process CAP_NET_BIND_SERVICE"}})  # fmt: skip
            return None
        raise cannot_listen(error, where, setting) from error
    return sock


def cannot_listen(error: OSError, where: str, setting: str) -> Exception:
    if error.errno == errno.EADDRNOTAVAIL:
        return BadConfiguration("this computer has no such address", where=where,
                                remedy="give one of its addresses with --bind; `ip address` lists them")
    if error.errno == errno.EADDRINUSE:
        return ServiceNotAvailable("another process listens there", where=where,
                                   remedy=f"stop it, or give another --bind or --set {setting}=PORT")
    return ServiceNotAvailable(error.strerror or str(error), where=where, remedy=f"see {setting}")


def unix_socket(path: Path) -> socket.socket:
    """A bound socket that every local user may connect to who gets to its directory: the kernel says who they
    are. What is left of an earlier process is replaced, for its lock is ours now."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise BadConfiguration("this is no socket", where=str(path), remedy="move that file away")
        path.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        with reachable(path) as short:
            sock.bind(short)
            os.chmod(short, 0o666)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ServiceNotAvailable(error.strerror or str(error), where=str(path),
                                  remedy="check the rights of the data directory") from error
    return sock


class reachable:  # noqa: N801  # read as a verb: with reachable(path) as short
    """A path of any length as one that fits into the address of a socket."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= LONGEST_PATH:
            return os.fspath(self._path)
        self._fd = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._fd}/{self._path.name}"

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
