"""The raw socket under PGM, opened when a group is first used: it needs a privilege that most servers do not need."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Final

from lior.wire.pgm import PROTOCOL

log = logging.getLogger("lior.multicast")

BUFFER: Final = 1 << 20
LONGEST: Final = 65535
MANY: Final = 256  # packets in one turn of the loop

Arrived = Callable[[bytes, IPv4Address, IPv4Address], None]  # octets behind the IP header, from, to


class RawSocket:
    def __init__(self, interface: str, ttl: int, arrived: Arrived) -> None:
        self._interface = interface
        self._ttl = ttl
        self._arrived = arrived
        self._socket: socket.socket | None = None
        self._near: socket.socket | None = None  # with a TTL of 1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refused = False

    def address_towards(self, group: IPv4Address) -> IPv4Address:
        """Our own on the way to the group, to which receivers send what they miss."""
        own = IPv4Address(self._interface)
        if not own.is_unspecified:
            return own
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((str(group), 9))  # sends nothing
                return IPv4Address(probe.getsockname()[0])
        except OSError:
            return own  # receivers take the address that packets come from

    def open(self) -> bool:
        """False, with one warning, where the privilege is missing."""
        if self._socket is not None or self._refused:
            return not self._refused
        try:
            self._socket = self._made(self._ttl)
            self._near = self._made(1)
        except PermissionError:
            self._refused = True
            log.warning("multicast needs the capability CAP_NET_RAW, which this process does not have; messages to "
                        "multicast addresses wait, and none come in: give it with AmbientCapabilities=CAP_NET_RAW in "
                        "the unit, or docker run --cap-add NET_RAW")
            return False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._read)
        return True

    def _made(self, ttl: int) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_RAW, PROTOCOL)
        try:
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(self._interface))
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        except BaseException:
            made.close()
            raise
        return made

    def _read(self) -> None:
        assert self._socket is not None
        for _ in range(MANY):
            try:
                packet = self._socket.recv(LONGEST)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                log.warning("a multicast packet could not be read", extra={"fields": {"why": str(error)}})
                return
            size = (packet[0] & 0x0F) * 4 if packet else 0
            if len(packet) >= 20 and 20 <= size <= len(packet):
                self._arrived(packet[size:], IPv4Address(packet[12:16]), IPv4Address(packet[16:20]))

    def send(self, octets: bytes, to: IPv4Address, *, near: bool = False) -> None:
        """What the kernel does not take now is lost, as it may be on any wire: it is repaired."""
        out = self._near if near else self._socket
        if out is None:
            return
        try:
            out.sendto(octets, (str(to), 0))
        except OSError as error:
            log.debug("a multicast packet was not sent", extra={"fields": {"to": str(to), "why": str(error)}})

    def join(self, group: IPv4Address) -> None:
        self._membership(socket.IP_ADD_MEMBERSHIP, group)

    def leave(self, group: IPv4Address) -> None:
        self._membership(socket.IP_DROP_MEMBERSHIP, group)

    def _membership(self, option: int, group: IPv4Address) -> None:
        if self._socket is None:
            return
        try:
            self._socket.setsockopt(socket.IPPROTO_IP, option, group.packed + socket.inet_aton(self._interface))
        except OSError as error:
            log.warning("a multicast group cannot be joined or left", extra={"fields": {
                "group": str(group), "interface": self._interface, "why": str(error)}})

    def close(self) -> None:
        if self._socket is not None and self._loop is not None:
            self._loop.remove_reader(self._socket)
        for each in (self._socket, self._near):
            if each is not None:
                each.close()
        self._socket = self._near = None
