"""A queue manager behind its admin API and its RPC, in a thread of this process: what `lior serve` offers, quicker to
start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lior.client.sync import Runner
from lior.server.admin.service import AdminService
from lior.server.config import AdminSection, ServerSection, Settings
from lior.server.local import open_local
from lior.server.rpc.accounts import AccountFile
from lior.server.rpc.compose import rpc_service
from lior.server.rpc.service import RpcService
from lior.server.rpc.settings import RpcSection
from lior.testing.serving import loopback_address
from lior.wire.rpc_interface import Interface

USER, PASSWORD = "ruth", "correct horse battery"


class Served:
    """The parts of the server, and where they listen."""

    def __init__(self, admin: AdminService, rpc: RpcService | None, runner: Runner) -> None:
        self.admin = admin
        self.rpc = rpc
        self.runner = runner
        self.backend = admin.backend

    @property
    def address(self) -> str:
        """host:port of RPC."""
        assert self.rpc is not None
        return self.rpc.addresses[0]

    def drop_connections(self) -> None:
        """As a network does: every RPC connection ends without a word."""

        async def drop() -> None:
            assert self.rpc is not None
            for connection in list(self.rpc.connections):
                connection.transport.abort()  # type: ignore[union-attr]

        self.runner.call(drop)


@contextmanager
def served(
    data: Path, *, rpc: bool = True, tcp: bool = False, without: Iterable[Interface] = (), **settings: object
) -> Iterator[Served]:
    """The service on the directory's sockets, with `tcp` on a port of a loopback address, too. `without` takes
    interfaces away: without ours it is as foreign as any."""
    address = loopback_address()
    section = RpcSection(port=2103 if tcp else 0, qm_port=0, mapper_port=0, **settings)  # type: ignore[arg-type]
    chosen = Settings(server=ServerSection(bind=(address,)), rpc=section)

    async def start() -> Served:
        backend = await open_local(data, describe=dict, addresses=(address,))
        admin = AdminService(backend, AdminSection(port=0), data, "127.0.0.1")
        await admin.start()
        service = None
        if rpc:
            if tcp:
                AccountFile(data).add(USER, PASSWORD, administrator=True)
            service = rpc_service(backend, chosen, data, admin)
            for interface in without:
                del service.dispatcher.interfaces._by_uuid[interface.uuid]
            await service.start()
        return Served(admin, service, runner)

    async def stop() -> None:
        if server.rpc is not None:
            await server.rpc.stop()
        await server.admin.stop(5.0)
        await server.backend.close()

    runner = Runner(asyncio.new_event_loop)
    try:
        server = runner.call(start)
        try:
            yield server
        finally:
            runner.call(stop)
    finally:
        runner.stop()
