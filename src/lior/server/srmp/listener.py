"""The HTTP server of SRMP: POSTs inside /msmq, and nothing else ([MC-MQSRM] 2.1.1)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Final

from lior.errors import BadConfiguration
from lior.server.listening import tcp_socket, url_host
from lior.server.srmp.connection import Connection, format_answer

if TYPE_CHECKING:
    from lior.server.srmp.hub import Srmp

log = logging.getLogger("lior.srmp")

MULTIPART_ROOM: Final = 64 << 10  # around the parts
MOST_BUFFERED: Final = 256 << 20  # octets of requests that are not complete, of all connections
SHUTDOWN: Final = 2.0  # seconds for what waits for its answer
LOOKS: Final = 1.0  # seconds between looks at the deadlines, at the most


class Listener:
    multipart_room = MULTIPART_ROOM

    def __init__(self, hub: Srmp) -> None:
        self.settings = hub.settings
        self.loop = hub.loop
        self._hub = hub
        self._servers: list[asyncio.Server] = []
        self._stopping = False
        self.addresses: list[str] = []
        self.open: set[Connection] = set()
        self.buffered = 0  # octets of requests that are not complete
        self.waiting = 0  # octets of requests that wait for their answers
        self.refused = 0  # connections beyond the limit
        self.slow = 0  # connections whose peer took too long
        self._looking: asyncio.TimerHandle | None = None
        self._every = min(LOOKS, self.settings.header_timeout / 4, self.settings.body_timeout / 4)
        self._empty: asyncio.Future[None] | None = None
        self._answers: dict[tuple[int, bool], bytes] = {}
        self._answers_of = 0  # the second that they tell
        self.incoming = hub.incoming

    # Connections

    @property
    def is_crowded(self) -> bool:
        return self.buffered > MOST_BUFFERED

    def admit(self, connection: Connection) -> bool:
        if len(self.open) >= self.settings.max_connections or self._stopping:
            self.refused += 1
            return False
        self.open.add(connection)
        if self._looking is None:
            self._looking = self.loop.call_later(self._every, self._look)
        return True

    def leave(self, connection: Connection) -> None:
        self.open.discard(connection)
        if not self.open and self._empty is not None:
            self._empty.set_result(None)
            self._empty = None

    def _look(self) -> None:
        """End the connections whose time is over."""
        self._looking = None
        now = self.loop.time()
        for connection in [each for each in self.open if each.deadline <= now]:
            self.slow += connection.is_slow
            connection.cut()
        if self.open:
            self._looking = self.loop.call_later(self._every, self._look)

    def answer(self, status: int, *, close: bool) -> bytes:
        """Written once a second."""
        wall = self._hub.clock.wall()
        if int(wall) != self._answers_of:
            self._answers_of = int(wall)
            self._answers.clear()
        found = self._answers.get((status, close))
        if found is None:
            found = self._answers[status, close] = format_answer(status, wall, close=close)
        return found

    # Life

    async def start(self) -> None:
        settings = self.settings
        self._stopping = False
        context = None
        if settings.certificate:
            context = _server_context(settings.certificate, settings.key, settings.client_ca_file)
        for address in settings.addresses:
            await self._listen(address, settings.http_port, "srmp.http_port", None)
            if context is not None:
                await self._listen(address, settings.https_port, "srmp.https_port", context)

    async def _listen(self, address: str, port: int, setting: str, context: ssl.SSLContext | None) -> None:
        sock = tcp_socket(address, port, setting) if port else None
        if sock is None:
            return
        # One that is in the handshake of TLS does not count yet, so it has little time.
        timeout = None if context is None else self.settings.header_timeout
        self._servers.append(await self.loop.create_server(
            self._connection, sock=sock, ssl=context, ssl_handshake_timeout=timeout))
        self.addresses.append(f"{'https' if context else 'http'}://{url_host(address)}:{port}")

    def _connection(self) -> Connection:
        return Connection(self)

    async def stop(self) -> None:
        self._stopping = True
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        self.addresses.clear()
        for connection in list(self.open):
            connection.close()
        if any(connection.is_busy for connection in self.open):
            self._empty = self.loop.create_future()
            await asyncio.wait([self._empty], timeout=SHUTDOWN)
            self._empty = None
        for connection in list(self.open):
            connection.cut()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None


def _server_context(certificate: str, key: str, client_ca_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key or None)
    except OSError as error:  # ssl.SSLError is one
        raise BadConfiguration(f"the certificate cannot be used: {error}", where=certificate,
                               remedy="give PEM files in srmp.certificate and srmp.key") from None
    if client_ca_file:
        try:
            context.load_verify_locations(client_ca_file)
        except OSError as error:
            raise BadConfiguration(f"the certificates cannot be read: {error}", where=client_ca_file,
                                   remedy="give a PEM file in srmp.client_ca_file") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context
