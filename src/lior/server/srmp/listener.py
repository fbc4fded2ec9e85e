"""The HTTP server of SRMP: POSTs inside /msmq, and nothing else ([MC-MQSRM] 2.1.1)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.web_exceptions import HTTPRequestEntityTooLarge

from lior.errors import BadConfiguration, LiorError
from lior.server.listening import tcp_socket, url_host
from lior.server.srmp.incoming import NO_ROOM, REFUSED, Request

if TYPE_CHECKING:
    from lior.server.srmp.hub import Srmp

log = logging.getLogger("lior.srmp")

DIRECTORY: Final = "/msmq/"
MULTIPART_ROOM: Final = 64 << 10  # around the parts
NOTHING: Final = b""


class Listener:
    def __init__(self, hub: Srmp) -> None:
        self._hub = hub
        self._runner: web.ServerRunner | None = None
        self.addresses: list[str] = []

    async def start(self) -> None:
        settings = self._hub.settings
        limit = settings.max_body + settings.max_envelope + MULTIPART_ROOM
        server = web.Server(self._handle, handler_cancellation=False, access_log=None, client_max_size=limit,
                            keepalive_timeout=settings.session_cleanup)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=2.0)
        await self._runner.setup()
        context = _server_context(settings.certificate, settings.key) if settings.certificate else None
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

    # Requests

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
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
        async with asyncio.timeout(self._hub.settings.body_timeout):
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


def _server_context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key or None)
    except OSError as error:  # ssl.SSLError is one
        raise BadConfiguration(f"the certificate cannot be used: {error}", where=certificate,
                               remedy="give PEM files in srmp.certificate and srmp.key") from None
    return context
