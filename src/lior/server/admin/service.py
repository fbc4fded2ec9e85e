"""The admin API as a whole: what its requests share, its start and its stop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from lior.errors import AccessDenied, ServiceNotAvailable
from lior.security import Caller
from lior.server.admin.channel import Channel
from lior.server.admin.identity import TOKEN_FILE, OwnNames, Token
from lior.server.config import AdminSection
from lior.server.listening import is_loopback, tcp_socket, unix_socket, url_host
from lior.server.local import LocalBackend
from lior.server.rpc.accounts import AccountFile, caller_of_account

log = logging.getLogger("lior.admin")

SOCKET_FILE: Final = "admin.sock"
VERSION: Final = 1
Figures = dict[str, Any]


class AdminService:
    """One for a server. Its parts are set before `start`."""

    def __init__(self, backend: LocalBackend[Figures], settings: AdminSection, directory: Path, address: str) -> None:
        self.backend = backend
        self.settings = settings
        self.directory = directory
        self.address = settings.bind or address
        self.names = OwnNames(self.address, settings.hosts)
        self.token: Token | None = None
        self.connections: Callable[[], list[Figures]] = list
        self.metrics: Callable[[], bytes] = bytes
        self.channels: set[Channel] = set()
        self.sessions_opened = 0
        self.requests = 0
        self.stopping = False
        self.started = time.time()
        self.url = ""
        self._accounts = AccountFile(directory)
        self.socket_path = directory / SOCKET_FILE
        self._runner: web.AppRunner | None = None

    @property
    def open_paths(self) -> bool:
        """Whether /healthz and /metrics need no token over TCP."""
        wanted = self.settings.open_paths
        return wanted == "everybody" or (wanted == "loopback" and is_loopback(self.address))

    def hello(self) -> Figures:
        """What a client learns first."""
        properties = self.backend.manager.core.properties
        return {
            "api": VERSION,
            "identifier": str(properties.identifier),
            "computer_name": properties.computer_name,
            "version": properties.queue_manager_version,
            "max_request_bytes": self.settings.max_request_bytes,
            "max_calls": self.settings.max_calls,
        }

    def health(self) -> tuple[bool, Figures]:
        """Whether it serves, and what is to say about it."""
        core = self.backend.manager.core
        found: Figures = {"state": self.backend.manager.state.value, "uptime": round(time.time() - self.started, 3)}
        if core.broken is not None:
            return False, found | {"serving": False, "reason": str(core.broken), "remedy": core.broken.remedy}
        if self.stopping:
            return False, found | {"serving": False, "reason": "the queue manager is stopping"}
        return True, found | {"serving": True, "degraded": core.throttled or None}

    def on_behalf_of(self, peer: Caller, account: str) -> Caller:
        """The account that an administrator of this computer acts for; it has no more rights than its own."""
        if not peer.is_administrator:
            raise AccessDenied("only the queue manager's own processes act for others", where=account)
        found = self._accounts.find(account)
        if found is None or not found.enabled:
            raise AccessDenied("there is no such account, or it is disabled", where=account,
                               remedy="see: lior user list")
        return caller_of_account(self._accounts.sid(found), found.administrator)

    # Life

    async def start(self) -> None:
        from lior.server.admin.app import application

        sockets = [unix_socket(self.socket_path)]
        try:
            if self.settings.port:
                self.token = Token(Path(self.settings.token_file or self.directory / TOKEN_FILE))
                sock = tcp_socket(self.address, self.settings.port, "admin.port")
                if sock is not None:
                    sockets.append(sock)
                    self.url = f"http://{url_host(self.address)}:{self.settings.port}"
        except BaseException:
            sockets[0].close()
            raise
        self._runner = web.AppRunner(
            application(self), handle_signals=False, access_log=None, handler_cancellation=True, shutdown_timeout=2.0
        )
        await self._runner.setup()
        for sock in sockets:
            await web.SockSite(self._runner, sock).start()

    def admit(self, channel: Channel) -> None:
        if self.stopping:
            raise ServiceNotAvailable("the queue manager is stopping", remedy="try again when it is back")
        if len(self.channels) >= self.settings.max_sessions:
            raise ServiceNotAvailable(f"{len(self.channels)} sessions are open already", where="admin.max_sessions",
                                      remedy="close some, or raise the setting")
        self.channels.add(channel)
        self.sessions_opened += 1

    async def stop(self, seconds: float) -> None:
        """Take nothing new, answer what is under way, then let go of the clients."""
        self.stopping = True
        if self._runner is None:
            return
        for site in list(self._runner.sites):
            await site.stop()
        self.socket_path.unlink(missing_ok=True)
        if self.channels:
            await asyncio.wait([asyncio.ensure_future(channel.finish(seconds)) for channel in list(self.channels)])
        await self._runner.cleanup()
