"""Which queue manager a program means: the one that serves a data directory, or one that a host's port leads to."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from lior.errors import AccessDenied, BadConfiguration, ServiceNotAvailable

SOCKET_FILE: Final = "admin.sock"
ADMIN_PORT: Final = 15801
SYSTEM_DIRECTORY: Final = Path("/var/lib/lior")
CONNECT_SECONDS: Final = 5.0
_LONGEST_PATH: Final = 100  # bytes; the address of a socket has room for 108


@dataclass(frozen=True)
class Target:
    """A Unix socket, or a URL with the token that opens it."""

    socket_path: str = ""
    url: str = ""
    token: str = field(default="", repr=False)
    checked: bool = True  # the address may be used as it is: loopback, or spelled as a URL

    def __str__(self) -> str:
        return self.url or str(Path(self.socket_path).parent)


def find(text: str | os.PathLike[str] | None = None, token: str | None = None) -> Target:
    """`text` is a data directory, host[:port] or a URL. Without it: the queue manager that serves one of the
    default directories."""
    if text is None or text == "":
        return running()
    if isinstance(text, os.PathLike) or is_directory(text):
        return of_directory(text)
    return of_host(text, token)


def is_directory(text: str) -> bool:
    if text.startswith(("http://", "https://")):
        return False
    return os.sep in text or text in (".", "..") or Path(text).is_dir()


def of_directory(directory: str | os.PathLike[str]) -> Target:
    path = Path(directory).absolute() / SOCKET_FILE
    if not is_served(directory):
        raise ServiceNotAvailable("no queue manager serves this directory", where=os.fspath(directory),
                                  remedy=f"start one with: lior serve --data {os.fspath(directory)}")
    return Target(socket_path=os.fspath(path))


def of_host(text: str, token: str | None) -> Target:
    spelled = text.startswith(("http://", "https://"))
    try:
        parts = urlsplit(text if spelled else f"//{text if text.count(':') < 2 or '[' in text else f'[{text}]'}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadConfiguration(f"no address: {error}", where=text, remedy="write host, host:port or a URL") from None
    if not host:
        raise BadConfiguration("no host", where=text, remedy="write host, host:port or a URL")
    shown = f"[{host}]" if ":" in host else host
    url = text.rstrip("/") if spelled else f"http://{shown}:{port or ADMIN_PORT}"
    return Target(url=url, token=token_for(text) if token is None else token, checked=spelled)


def token_for(where: str) -> str:
    """LIOR_TOKEN, or the content of the file that LIOR_TOKEN_FILE names; empty if there is neither."""
    given = os.environ.get("LIOR_TOKEN", "")
    path = os.environ.get("LIOR_TOKEN_FILE", "")
    if given or not path:
        return given
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfiguration(str(error), where="LIOR_TOKEN_FILE", remedy="name the file admin.token") from error


def default_directories() -> tuple[Path, ...]:
    """Where a queue manager has its data if nobody says otherwise: root's first, or the user's own first."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    own = Path(home, "lior")
    return (SYSTEM_DIRECTORY, own) if os.geteuid() == 0 else (own, SYSTEM_DIRECTORY)


def running() -> Target:
    for directory in default_directories():
        with suppress(AccessDenied, ServiceNotAvailable):
            return of_directory(directory)
    tried = " and ".join(map(str, default_directories()))
    raise ServiceNotAvailable(f"no queue manager runs here; tried {tried}", remedy="start one with: lior serve, or "
                              "name another data directory or server")


def is_served(directory: str | os.PathLike[str], socket_file: str = SOCKET_FILE) -> bool:
    """Whether a queue manager answers at the directory's socket."""
    path = Path(directory).absolute() / socket_file
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            with Reachable(path) as short:
                probe.connect(short)
        except PermissionError as error:
            raise AccessDenied("the socket of the queue manager is out of reach", where=os.fspath(path),
                               remedy="ask for rights on the data directory, or use --server HOST with a token"
                               ) from error
        except OSError:
            return False
    return True


class Reachable:
    """A path of any length as one that fits into the address of a socket."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._fd = -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= _LONGEST_PATH:
            return os.fspath(self._path)
        self._fd = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._fd}/{self._path.name}"

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def require_loopback(url: str, addresses: list[str]) -> None:
    """A token must not cross a network in the clear because somebody typed a host's name."""
    if all(ip_address(address.partition("%")[0]).is_loopback for address in addresses):
        return
    raise BadConfiguration("the token would cross the network in the clear", where=url,
                           remedy=f"go through an SSH tunnel or https://; on a network that you trust write {url}")
