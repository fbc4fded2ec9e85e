"""POSTs to other queue managers: one connection for each outgoing queue, nothing followed, nothing tried again here."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from lior.errors import BadConfiguration
from lior.server.srmp.settings import SrmpSettings

HEADERS: Final = {"SOAPAction": '"MSMQMessage"', "Proxy-Accept": "NonInteractiveClient"}  # 1.3.12
SLOWEST: Final = 8192  # octets a second that a receiver takes at the least
LONGEST_ANSWER: Final = 64 << 10  # octets; SRMP's have none
SKIPPED: Final = ("Accept", "Accept-Encoding", "User-Agent")


class Post(NamedTuple):
    url: str  # where to connect, and the request target
    host: str  # of the header Host
    content_type: str
    body: bytes


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

    def session(self, url: str) -> aiohttp.ClientSession:
        """For one outgoing queue. Closing it closes its connection."""
        settings = self._settings
        assert self._context is not None
        connector = aiohttp.TCPConnector(limit=1, ssl=self._context, keepalive_timeout=settings.session_cleanup,
                                         local_addr=self._source(url), force_close=False)
        timeout = aiohttp.ClientTimeout(total=None, connect=settings.connect_timeout, sock_read=settings.send_timeout)
        return aiohttp.ClientSession(connector=connector, timeout=timeout, skip_auto_headers=SKIPPED,
                                     cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)

    def _source(self, url: str) -> tuple[str, int] | None:
        """From the one address that is ours, so that others see who it is; not where it cannot get to."""
        own = self._settings.addresses
        if len(own) != 1 or own[0] in ("0.0.0.0", "::"):
            return None
        try:
            other = ip_address(urlsplit(url).hostname or "")
        except ValueError:  # a name, which may have addresses of both kinds
            return (own[0], 0) if ip_address(own[0]).version == 4 else None
        return (own[0], 0) if other.version == ip_address(own[0]).version else None

    def _longest(self, post: Post) -> float:
        """A peer that reads or answers drop by drop must not hold the queue for ever."""
        settings = self._settings
        return settings.connect_timeout + 2 * settings.send_timeout + len(post.body) / SLOWEST

    async def post(self, session: aiohttp.ClientSession, post: Post) -> int:
        async with asyncio.timeout(self._longest(post)):
            return await self._post(session, post)

    async def _post(self, session: aiohttp.ClientSession, post: Post) -> int:
        headers = {"Host": post.host, "Content-Type": post.content_type, **HEADERS}
        url = URL(post.url, encoded=True)
        async with session.post(url, data=post.body, headers=headers, allow_redirects=False) as response:
            if not response.content.at_eof():
                await response.content.read(LONGEST_ANSWER)
            if not response.content.at_eof():
                response.close()  # a chatterer: its connection is of no more use
            return response.status
