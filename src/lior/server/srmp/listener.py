"""The HTTP server of SRMP: POSTs inside /msmq, and nothing else ([MC-MQSRM] 2.1.1)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.web_exceptions import HTTPRequestEntityTooLarge
from aiohttp.web_protocol import RequestHandler

from lior.errors import BadConfiguration, LiorError
from lior.server.listening import tcp_socket, url_host
from lior.server.srmp.incoming import NO_ROOM, REFUSED, Request

if TYPE_CHECKING:
    from lior.server.srmp.hub import Srmp

log = logging.getLogger("lior.srmp")

DIRECTORY: Final = "/msmq/"
MULTIPART_ROOM: Final = 64 << 10  # around the parts
NOTHING: Final = b""
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LINGERING: Final = 2.0  # seconds for what still comes behind a request that was refused


class _Connection(RequestHandler):
    """With what aiohttp lacks: a limit to connections, and a limit to the time that a request's header takes."""

    def __init__(self, server: _Server, listener: Listener) -> None:
        settings = listener.settings
        super().__init__(server, loop=listener.loop, keepalive_timeout=settings.session_cleanup,
                         access_log=None,  # type: ignore[arg-type]  # what it means by "none"
                         auto_decompress=False, lingering_time=LINGERING)  # fmt: skip
        self._listener = listener
        self._waiting: asyncio.TimerHandle | None = None  # for the end of a header
        self._served = False  # a request is with its handler

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._listener.admit(self):
            self.force_close()
            return
        self._await_header()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_waiting()
        self._listener.open.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._waiting is None and not self._served:
            self._await_header()
        super().data_received(data)

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """What is no HTTP: strangers must not fill the log with tracebacks. Our own faults are caught by `handle`."""
        peer = (self.transport.get_extra_info("peername") or ("",))[0] if self.transport is not None else ""
        log.info("request refused", extra={"fields": {"peer": peer, "why": "it is no HTTP request"}})

    def begin(self) -> None:
        self._served = True
        self._stop_waiting()

    def end(self) -> None:
        self._served = False

    def _await_header(self) -> None:
        self._waiting = self._listener.loop.call_later(self._listener.settings.header_timeout, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _too_slow(self) -> None:
        self._waiting = None
        self._listener.slow += 1
        self.force_close()


class _Server(web.Server):
    def __init__(self, listener: Listener) -> None:
        super().__init__(listener.handle, request_factory=self._request)
        self._listener = listener
        settings = listener.settings
        self._limit = settings.max_body + settings.max_envelope + MULTIPART_ROOM

    def __call__(self) -> RequestHandler:
        return _Connection(self, self._listener)

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return web.BaseRequest(message, payload, protocol, writer, task, self._listener.loop,
                               client_max_size=self._limit)


class Listener:
    def __init__(self, hub: Srmp) -> None:
        self._hub = hub
        self.settings = hub.settings
        self.loop = hub.loop
        self._runner: web.ServerRunner | None = None
        self.addresses: list[str] = []
        self.open: set[_Connection] = set()
        self.refused = 0  # connections beyond the limit
        self.slow = 0  # connections whose header took too long

    def admit(self, connection: _Connection) -> bool:
        if len(self.open) >= self.settings.max_connections:
            self.refused += 1
            return False
        self.open.add(connection)
        return True

    async def start(self) -> None:
        settings = self.settings
        self._runner = web.ServerRunner(_Server(self), handle_signals=False, shutdown_timeout=2.0)
        await self._runner.setup()
        context = None
        if settings.certificate:
            context = _server_context(settings.certificate, settings.key, settings.client_ca_file)
        for address in settings.addresses:
            await self._listen(address, settings.http_port, "srmp.http_port", None)
            if context is not None:
                await self._listen(address, settings.https_port, "srmp.https_port", context)

    async def _listen(self, address: str, port: int, setting: str, context: ssl.SSLContext | None) -> None:
        assert self._runner is not None
        sock = tcp_socket(address, port, setting) if port else None
        if sock is None:
            return
        await web.SockSite(self._runner, sock, ssl_context=context).start()
        self.addresses.append(f"{'https' if context else 'http'}://{url_host(address)}:{port}")

    async def stop(self) -> None:
        if self._runner is not None:
            for site in list(self._runner.sites):
                await site.stop()
            await self._runner.cleanup()
            self._runner = None
        self.addresses.clear()

    # Requests

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, _Connection)
        connection.begin()
        try:
            return await self._answered(request)
        finally:
            connection.end()

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return _answer(await self._status(request))
        except HTTPRequestEntityTooLarge:
            return _answer(REFUSED, close=True)  # a status that senders know (SR-003)
        except TimeoutError:
            return _answer(REFUSED, close=True)
        except LiorError:
            return _answer(NO_ROOM)
        except ConnectionError:
            raise
        except Exception:
            log.exception("a request failed")
            return _answer(NO_ROOM, close=True)

    async def _status(self, request: web.BaseRequest) -> int:
        path = request.raw_path.partition("?")[0]
        if not path.casefold().startswith(DIRECTORY):
            return 404
        if request.method != "POST":
            return 405
        if request.headers.getall("Content-Type", [])[1:] or request.content_length is None:
            return REFUSED
        if request.headers.get("Expect", "").casefold() == "100-continue":  # curl asks before a long body
            await request.writer.write(CONTINUE)
        async with asyncio.timeout(self.settings.body_timeout):
            body = await request.read()
        taken = self._hub.incoming.take(
            Request(_head(request), request.headers.get("Content-Type", ""), body, request.remote or ""))
        if isinstance(taken, int):
            return taken
        try:
            return await taken
        except LiorError as error:  # the commit failed
            log.warning("a message could not be stored", extra={"fields": {"why": str(error)}})
            return NO_ROOM


def _head(request: web.BaseRequest) -> bytes:
    """The request line and the header as they came."""
    version = f"HTTP/{request.version.major}.{request.version.minor}"
    lines = [f"{request.method} {request.raw_path} {version}".encode("latin-1")]
    lines += [name + b": " + value for name, value in request.raw_headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _answer(status: int, *, close: bool = False) -> web.Response:
    """No body: the examples have none, and a receiver tells strangers no more than the status (SR-009)."""
    response = web.Response(status=status, body=NOTHING)
    if status == 405:
        response.headers["Allow"] = "POST"
    if "Content-Type" in response.headers:
        del response.headers["Content-Type"]
    if close:
        response.force_close()
    return response


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
