"""The clock, identifiers and facts of this computer: the only place that asks for them."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from struct import iter_unpack
from uuid import UUID, SafeUUID
from weakref import WeakSet

from lior.names import LocalNames
from lior.queues.definition import QueueManagerProperties
from lior.security import Caller, local_caller


class SystemClock:
    wall = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class RandomIds:
    """As uuid4, in a third of the time: every transaction has one."""

    def __init__(self) -> None:
        self._random: Iterator[tuple[bytes]] = iter(())  # as much as one system call gives
        _random_ids.add(self)

    def guid(self) -> UUID:
        random = next(self._random, None)
        if random is None:
            self._random = iter_unpack("16s", os.urandom(4096))
            random = next(self._random)
        number = int.from_bytes(random[0]) & _RANDOM_BITS | _VERSION_4
        guid = _new_uuid(UUID)
        _set_int(guid, number)
        _set_safety(guid, _UNKNOWN)
        return guid

    def forget(self) -> None:
        """In a forked process: its parent goes on with what was read."""
        self._random = iter(())


_random_ids: WeakSet[RandomIds] = WeakSet()


def _after_fork() -> None:
    for each in _random_ids:
        each.forget()


os.register_at_fork(after_in_child=_after_fork)
_new_uuid = object.__new__
_set_int = UUID.__dict__["int"].__set__  # its own __setattr__ refuses, and object's has to look these up
_set_safety = UUID.__dict__["is_safe"].__set__
_UNKNOWN = SafeUUID.unknown
_RANDOM_BITS = ~(0xF000 << 64 | 0xC000 << 48)
_VERSION_4 = 4 << 76 | 0x8000 << 48


def computer_names() -> tuple[str, str]:
    """The short name and the full DNS name of this computer."""
    host = socket.gethostname() or "localhost"
    return host.partition(".")[0], host if "." in host else _full_name(host)


def _full_name(host: str) -> str:
    try:
        info = socket.getaddrinfo(host, None, flags=socket.AI_CANONNAME)
    except (OSError, UnicodeError):  # the latter for names that are none in DNS, such as 64 characters without a dot
        return host
    canonical = info[0][3] if info else ""
    return canonical if canonical.partition(".")[0].casefold() == host.casefold() else host


def own_addresses() -> frozenset[str]:
    """Every address that sockets here can be reached under, as far as the name service and the default
    routes tell; loopback included, for an embedded queue manager shares the computer with nobody."""
    found = {"127.0.0.1", "::1"}
    with suppress(OSError, UnicodeError):
        found.update(str(info[4][0]).partition("%")[0] for info in socket.getaddrinfo(socket.gethostname(), None))
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        address = _source_address(family, target)
        if address:
            found.add(address)
    return frozenset(found)


def _source_address(family: socket.AddressFamily, target: str) -> str:
    """The address that the route to `target` would use. Connecting a datagram socket sends nothing."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            return str(probe.getsockname()[0]).partition("%")[0]
    except OSError:
        return ""


def product_version() -> str:
    try:
        return version("lior")
    except PackageNotFoundError:
        return "0"


def fresh_properties(identifier: UUID, name: str = "", qualified_name: str = "") -> QueueManagerProperties:
    short, full = computer_names()
    return QueueManagerProperties(
        identifier,
        name or short,
        qualified_name or name or full,
        queue_manager_version=f"Lior {product_version()}",
        operating_system_version=f"{platform.system()} {platform.release()}",
    )


def local_names(properties: QueueManagerProperties, addresses: Iterable[str] | None = None) -> LocalNames:
    return LocalNames(
        properties.computer_name,
        properties.qualified_computer_name,
        own_addresses() if addresses is None else frozenset(addresses),
        properties.identifier,
    )


def process_caller() -> Caller:
    """Whoever runs this process owns the data directory, and so administers its queue manager."""
    return local_caller(os.geteuid(), os.getgroups(), is_administrator=True)
