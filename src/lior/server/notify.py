"""What systemd is told about the service: sd_notify(3), written to its datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress


class Notifier:
    """Does nothing without NOTIFY_SOCKET. Nobody's failure to listen is ours."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        path = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self.watchdog = _watchdog_seconds(environment)

    def ready(self, status: str) -> None:
        self._tell(f"READY=1\nSTATUS={status}\nMAINPID={os.getpid()}")

    def stopping(self) -> None:
        self._tell("STOPPING=1\nSTATUS=stopping")

    def alive(self) -> None:
        self._tell("WATCHDOG=1")

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.setblocking(False)
            sock.sendto(text.encode(), self._address)


def _watchdog_seconds(environment: Mapping[str, str]) -> float:
    """Twice in each interval that WATCHDOG_USEC gives this process; 0 for never."""
    text, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not (text.isascii() and text.isdecimal()) or (process and process != str(os.getpid())):
        return 0.0
    return int(text) / 1e6 / 2
