"""From a host's name to a session: [MS-MQQB] 3.1.5.2.1."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lior.protocols.binary.settings import SessionSettings
from lior.queues.outgoing import ConnectionStatus, OutgoingQueue, OutgoingState
from lior.server.transfer import TransferSettings
from tests.server.engines import looped
from tests.server.transfer.fleet import LONG, QUEUE, Host, free_port, fresh_address, start_host, until


class Names:
    """A name service whose entries change."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self.addresses]


class Sender:
    """A queue manager that finds others by name, and what the tests look at."""

    def __init__(self, host: Host, names: Names, settings: TransferSettings) -> None:
        self.host, self.names, self.settings = host, names, settings

    def queue(self) -> OutgoingQueue:
        (queue,) = self.host.manager.core.outgoing.values()
        assert isinstance(queue, OutgoingQueue)
        return queue

    def tried(self) -> list[tuple[ConnectionStatus, tuple[str, ...]]]:
        return [(entry.status, entry.addresses) for entry in self.queue().connection_history]

    async def receiver(self, address: str) -> Host:
        there = await start_host(self.settings, address)
        await there.qm.create_queue(QUEUE)
        return there


@asynccontextmanager
async def sender(**options: Any) -> AsyncIterator[Sender]:
    port, names = free_port(), Names()
    settings = TransferSettings(port=port, peer_port=port, session=SessionSettings(**{"retry": 0.05, **options}))
    host = await start_host(settings, fresh_address(), resolve=names)
    try:
        yield Sender(host, names, settings)
    finally:
        await asyncio.wait_for(host.stop(), LONG)


def named(there: Host) -> str:
    return rf"DIRECT=OS:{there.manager.core.properties.computer_name}\private$\orders"


@pytest.mark.spec("QB-130", "QB-201")
@looped
async def test_each_address_of_a_host_is_tried_in_the_order_of_the_resolver() -> None:
    async with sender() as here:
        dead, alive = fresh_address(), fresh_address()
        there = await here.receiver(alive)
        here.names.addresses = [dead, alive]
        try:
            await here.host.qm.send(named(there), b"x")
            await until(lambda: here.host.waiting() == 0, "acknowledgement")
            status = ConnectionStatus
            assert here.tried() == [
                (status.IN_PROGRESS, (dead,)), (status.CONNECT_SOCKET_FAILURE, (dead,)),
                (status.IN_PROGRESS, (alive,)), (status.READY, (alive,)),
            ]  # fmt: skip
            assert here.names.asked == [there.manager.core.properties.computer_name]
            assert here.queue().next_hops == (f"IP={alive}",)
        finally:
            await there.stop()


@pytest.mark.spec("QB-130")
@looped
async def test_a_host_is_looked_up_again_for_each_new_session_and_not_for_each_message() -> None:
    async with sender() as here:
        old, new = fresh_address(), fresh_address()
        there = await here.receiver(old)
        name = named(there)
        here.names.addresses = [old]
        for _ in range(5):
            await here.host.qm.send(name, b"x")
        await until(lambda: here.host.waiting() == 0, "acknowledgement")
        assert len(here.names.asked) == 1
        await there.stop()
        moved = await here.receiver(new)
        here.names.addresses = [new]
        try:
            await here.host.qm.send(name, b"y")
            await until(lambda: len(here.names.asked) > 1, "another look")
            await until(lambda: (ConnectionStatus.READY, (new,)) in here.tried(), "a session at the new address")
        finally:
            await moved.stop()


@pytest.mark.spec("QB-130", "QB-104")
@looped
async def test_a_host_that_nobody_knows_is_asked_for_again_but_not_while_its_queue_is_paused() -> None:
    async with sender() as here:
        await here.host.qm.send(r"DIRECT=OS:nowhere\private$\orders", b"x")
        await until(lambda: len(here.names.asked) >= 3, "two more attempts")
        assert here.tried()[0] == (ConnectionStatus.DNS_FAILURE, ())
        assert here.queue().state is OutgoingState.NEED_VALIDATION
        name = r"DIRECT=OS:nowhere\private$\orders"
        await here.host.qm.pause(name)
        asked = len(here.names.asked)
        await asyncio.wait_for(here.host.qm.queue(name), LONG)
        assert here.queue().state is OutgoingState.ON_HOLD
        await here.host.qm.resume(name)
        await until(lambda: len(here.names.asked) > asked, "an attempt when it is resumed")
        assert not here.queue().next_hops
