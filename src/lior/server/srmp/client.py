"""Connections to other queue managers: one for each outgoing queue, nothing followed, nothing tried again here."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from ipaddress import ip_address
from typing import Final, NamedTuple

from lior.errors import BadConfiguration
from lior.server.srmp.link import Link, LinkOwner
from lior.server.srmp.settings import SrmpSettings

HEADERS: Final = 'SOAPAction: "MSMQMessage"\r\nProxy-Accept: NonInteractiveClient\r\n\r\n'  # 1.3.12


class Origin(NamedTuple):
    """Where to connect."""

    secure: bool
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


class Post(NamedTuple):
    origin: Origin
    octets: bytes  # head and entity


def format_post(origin: Origin, target: str, host: str, content_type: str, entity: bytes, via: str = "") -> Post:
    """The texts have no line breaks (see `packing`)."""
    passed = f"Via: {via}\r\n" if via else ""
    head = (f"POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(entity)}\r\n{passed}{HEADERS}").encode("latin-1")  # fmt: skip
    return Post(origin, head + entity)


class HttpClient:
    def __init__(self, settings: SrmpSettings) -> None:
        self._settings = settings
        self._context: ssl.SSLContext | None = None

    async def start(self) -> None:
        self._context = ssl.create_default_context(cafile=self._ca_file())
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._settings.certificate:  # for servers that ask who we are
            with suppress(OSError):  # the listener says what is wrong with it
                self._context.load_cert_chain(self._settings.certificate, self._settings.key or None)

    def _ca_file(self) -> str | None:
        name = self._settings.ca_file
        if name:
            try:
                ssl.create_default_context(cafile=name)
            except OSError as error:
                raise BadConfiguration(f"the certificates cannot be read: {error}", where=name,
                                       remedy="give a PEM file in srmp.ca_file") from None
        return name or None

    async def stop(self) -> None:
        self._context = None

    async def connect(self, origin: Origin, owner: LinkOwner) -> Link:
        """OSError (TimeoutError is one) when it cannot be done; nothing is left open then."""
        settings, loop = self._settings, asyncio.get_running_loop()
        async with asyncio.timeout(settings.connect_timeout):
            _, link = await loop.create_connection(
                lambda: Link(owner, origin, loop, settings.send_timeout), origin.host, origin.port,
                ssl=self._context if origin.secure else None, local_addr=self._source(origin.host),
                server_hostname=origin.host if origin.secure else None)
        return link

    def _source(self, host: str) -> tuple[str, int] | None:
        """From the one address that is ours, so that others see who it is; not where it cannot get to."""
        own = self._settings.addresses
        if len(own) != 1 or own[0] in ("0.0.0.0", "::"):
            return None
        try:
            other = ip_address(host)
        except ValueError:  # a name, which may have addresses of both kinds
            return (own[0], 0) if ip_address(own[0]).version == 4 else None
        return (own[0], 0) if other.version == ip_address(own[0]).version else None
