"""Ping over UDP ([MS-MQQB] 3.1.5.2.2, 3.1.7.6 to 3.1.7.9): may a session be opened there? Both sides are optional."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from lior.protocols.binary import ping

if TYPE_CHECKING:
    from lior.server.transfer.hub import Transfer

log = logging.getLogger("lior.transfer")


class Pinger:
    def __init__(self, hub: Transfer) -> None:
        self._hub = hub
        self._requests = ping.Pinger(hub.settings.session, hub.own)
        self._services: list[asyncio.DatagramTransport] = []

    async def start(self) -> None:
        settings = self._hub.settings
        if not settings.session.answer_pings or not settings.ping_port:
            return
        for address in settings.addresses:
            try:
                transport, _ = await self._hub.loop.create_datagram_endpoint(
                    lambda: _Service(self._hub), local_addr=(address, settings.ping_port))
            except OSError as error:
                log.warning("pings are not answered", extra={"fields": {
                    "address": address, "port": settings.ping_port, "why": str(error)}})
                continue
            self._services.append(transport)

    def stop(self) -> None:
        for service in self._services:
            service.close()

    async def ask(self, address: str) -> bool:
        """Whether the other side would take a session now; no answer in time is a no."""
        now = self._hub.loop.time()
        datagram = self._requests.request(address, now)
        if datagram is None:
            return False
        asking = _Asking(self._hub.loop.create_future(), self._requests, address)
        try:
            transport, _ = await self._hub.loop.create_datagram_endpoint(
                lambda: asking, local_addr=self._hub.source_for(address),
                remote_addr=(address, self._hub.settings.ping_port))
        except OSError:
            return False
        try:
            transport.sendto(datagram)
            return await asyncio.wait_for(asking.accepted, self._hub.settings.session.ping_response)
        except TimeoutError:
            self._requests.tick(self._hub.loop.time())
            return False
        finally:
            transport.close()


class _Asking(asyncio.DatagramProtocol):
    """Connected to the address asked, so that answers of others do not come."""

    def __init__(self, accepted: asyncio.Future[bool], requests: ping.Pinger, address: str) -> None:
        self.accepted = accepted
        self._requests = requests
        self._address = address

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        result = self._requests.receive(data, self._address)
        if result is not None and not self.accepted.done():
            self.accepted.set_result(result.accepted)

    def error_received(self, exc: Exception) -> None:
        if not self.accepted.done():
            self.accepted.set_result(False)


class _Service(asyncio.DatagramProtocol):
    def __init__(self, hub: Transfer) -> None:
        self._hub = hub
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        reply = ping.answer(data, self._hub.own, not self._hub.has_room)
        if reply is not None and self._transport is not None:
            self._transport.sendto(reply, addr)
