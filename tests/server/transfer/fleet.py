"""Queue managers on loopback addresses in one process, each with its transfer: real sockets, real engines."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from lior.client import aio
from lior.embedded import describe
from lior.protocols.binary.settings import SessionSettings
from lior.server.local import MEMORY, open_local
from lior.server.transfer import Transfer, TransferSettings
from lior.server.transfer.hub import Resolver
from lior.server.transfer_security import Guard

LONG = 120.0  # seconds: more than anything here needs
QUEUE = r".\private$\orders"
TRANSACTIONAL = r".\private$\payments"

_hosts = count(1)


def fresh_address() -> str:
    """A loopback address that no other test of this run uses."""
    number = next(_hosts)
    return f"127.{50 + os.getpid() % 150}.{number >> 8 & 0xFF}.{number & 0xFF or 1}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Host:
    """One queue manager with the network."""

    def __init__(self, address: str, backend: Any, transfer: Transfer) -> None:
        self.address = address
        self.backend = backend
        self.transfer = transfer
        self.manager = backend.manager
        self.qm = aio.QueueManager(backend)

    def name(self, queue: str) -> str:
        """The direct name of a queue of this host, as others say it."""
        return f"DIRECT=TCP:{self.address}\\{queue.removeprefix('.')[1:]}"

    def waiting(self) -> int:
        """Messages that did not leave yet."""
        return sum(queue.message_count for queue in self.manager.core.outgoing.values())

    async def stop(self) -> None:
        await self.transfer.stop()
        await self.backend.close()


async def start_host(
    settings: TransferSettings, address: str, data: str | Path = MEMORY, guard: Guard | None = None,
    resolve: Resolver | None = None,
) -> Host:
    backend = await open_local(data, describe=describe, name=f"host{address.replace('.', '-')}", addresses=[address],
                               low_disk_bytes=0)
    transfer = Transfer(backend.engine, replace(settings, addresses=(address,)), guard=guard,
                        resolve=resolve)
    await transfer.start()
    return Host(address, backend, transfer)


@asynccontextmanager
async def fleet(number: int, **options: Any) -> AsyncIterator[list[Host]]:
    port = free_port()
    settings = TransferSettings(port=port, peer_port=port, session=SessionSettings(**{"retry": 0.1, **options}))
    hosts = [await start_host(settings, fresh_address()) for _ in range(number)]
    try:
        for host in hosts:
            await host.qm.create_queue(QUEUE)
            await host.qm.create_queue(TRANSACTIONAL, transactional=True)
        yield hosts
    finally:
        for host in hosts:
            await asyncio.wait_for(host.stop(), LONG)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Until something that the network does has happened; the loop goes on meanwhile."""
    end = asyncio.get_running_loop().time() + LONG
    while not condition():
        assert asyncio.get_running_loop().time() < end, f"not in time: {what}"
        await asyncio.sleep(0.005)
