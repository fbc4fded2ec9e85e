"""The RPC server: its endpoints, its clients, and how many of them there may be."""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lior.errors import ServiceNotAvailable
from lior.protocols.rpc.groups import Groups
from lior.protocols.rpc.security import Providers
from lior.protocols.rpc.server_association import AssociationSettings, Budget, ServerAssociation
from lior.security import ANONYMOUS_CALLER
from lior.server.admin.identity import peer_caller
from lior.server.listening import tcp_socket, unix_socket, url_host
from lior.server.rpc.accounts import LocalAccounts
from lior.server.rpc.connection import RpcConnection
from lior.server.rpc.dispatch import BatchHandler, Dispatcher, Handler
from lior.server.rpc.endpoint_mapper import Endpoint, EndpointMapper
from lior.server.rpc.management import RemoteManagement
from lior.server.rpc.settings import LEVELS, RpcSection
from lior.wire.interfaces.endpoint_mapper import ENDPOINT_MAPPER
from lior.wire.interfaces.qm2qm import QM2QM
from lior.wire.interfaces.rpc_management import RPC_MANAGEMENT

log = logging.getLogger("lior.rpc")

SOCKET_FILE: Final = "lior.sock"
STEP: Final = 11  # to the next port while one is taken (MP-005)
MAX_STEPS: Final = 64
SWEEP: Final = 1.0  # seconds between looks at who takes too long
STOPPING: Final = 5.0
OPEN_STUB: Final = 1 << 16
OPEN_TIMEOUT: Final = 60.0


class RpcService:
    """One for a server. Interfaces are registered before `start`. A port of 0 is off."""

    def __init__(
        self, settings: RpcSection, addresses: Sequence[str], directory: Path | None, providers: Providers,
        loop: asyncio.AbstractEventLoop,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.loop = loop
        self.connections: set[RpcConnection] = set()
        self.ports: dict[str, int] = {}  # setting -> the port that was free
        self.addresses: list[str] = []
        self.mapper_addresses: list[str] = []
        self.socket_path = directory / SOCKET_FILE if directory else None
        self.refused = 0
        self.stopping: list[Callable[[], None]] = []  # what ends waits that a call does not know of
        self.closing: list[Callable[[], Awaitable[None]]] = []  # what handlers have to end
        least = LEVELS[settings.least_level]
        self.dispatcher = Dispatcher(settings.anonymous == "refuse", least)
        self.mapper = Dispatcher(refuses_anonymous=False)  # anybody may ask where something is ([MS-RPCE] 3.1.1.5.4)
        self.groups = Groups(lambda: secrets.token_bytes(16), settings.max_groups, settings.max_handles)
        self.accounts: LocalAccounts | None = getattr(providers, "accounts", None)
        self._providers = providers
        self._bind = tuple(addresses)
        self._association = AssociationSettings(
            max_fragment=settings.max_fragment & -8,
            max_stub=settings.max_stub,
            # what nobody may call anyway is not worth more memory than the few methods that are open need
            max_open_stub=OPEN_STUB if settings.anonymous == "refuse" else settings.max_stub,
            open_timeout=OPEN_TIMEOUT if settings.anonymous == "refuse" else 0.0,
            max_calls=settings.max_calls,
            bind_timeout=settings.bind_timeout,
            fragment_timeout=settings.fragment_timeout,
        )
        for dispatcher in (self.dispatcher, self.mapper):
            self._describe(dispatcher)
        self.budget = Budget(settings.max_held)
        self._servers: list[asyncio.Server] = []
        self._by_peer: Counter[str] = Counter()
        self._sweep: asyncio.TimerHandle | None = None

    def register(
        self,
        interface: Any,
        handlers: Mapping[int, Handler],
        *,
        allow_anonymous: frozenset[int] = frozenset(),
        batches: Mapping[int, BatchHandler] | None = None,
    ) -> None:
        """Every interface answers at every endpoint but the mapper's (MP-006)."""
        self.dispatcher.register(interface, handlers, allow_anonymous=allow_anonymous, batches=batches)

    def _describe(self, dispatcher: Dispatcher) -> None:
        """What tells clients about the others: the mapper answers on every endpoint, as on 135 (MP-006)."""
        mapper = EndpointMapper(self.endpoints, lambda call: call.association.host.own_address)
        handlers = mapper.handlers()
        dispatcher.register(ENDPOINT_MAPPER, handlers, allow_anonymous=frozenset(handlers))
        management = RemoteManagement(self.dispatcher.interfaces, lambda: self.dispatcher.calls).handlers()
        dispatcher.register(RPC_MANAGEMENT, management, allow_anonymous=frozenset(management))

    def endpoints(self) -> list[Endpoint]:
        """What the endpoint mapper tells: each interface at the port that is its own, else at the first one."""
        found = []
        for interface in self.dispatcher.interfaces:
            if interface.uuid in (ENDPOINT_MAPPER.uuid, RPC_MANAGEMENT.uuid):
                continue
            own = self.qm_port if interface.uuid == QM2QM.uuid else self.port
            port = own or self.port or self.qm_port
            if port:
                found.append(Endpoint(interface, port, "Message Queuing"))
        return found

    # Life

    async def start(self) -> None:
        await self._listen("rpc.port", self.settings.port)
        await self._listen("rpc.qm_port", self.settings.qm_port)
        if self.settings.mapper_port:
            await self._listen_mapper()
        if self.socket_path is not None:
            listening = unix_socket(self.socket_path)
            self._servers.append(await self.loop.create_unix_server(self._accept_unix, sock=listening))
        self._sweep = self.loop.call_later(SWEEP, self._look)

    async def _listen(self, setting: str, port: int) -> None:
        """The port, or the next one in steps of eleven that is free on all addresses."""
        if not port:
            return
        for candidate in range(port, min(port + STEP * MAX_STEPS, 65536), STEP):
            sockets = self._sockets(setting, candidate)
            if sockets is None:
                continue
            for each in sockets:
                self._servers.append(await self.loop.create_server(lambda: self._accept(self.dispatcher), sock=each))
                self.addresses.append(f"{url_host(each.getsockname()[0])}:{candidate}")
            if sockets:
                self.ports[setting] = candidate
                if candidate != port:
                    log.warning("the port is taken; the next one in steps of 11 serves", extra={"fields": {
                        "port": port, "serves": candidate}})  # fmt: skip
            return
        raise ServiceNotAvailable("no port is free", where=setting,
                                  remedy=f"give another one with --set {setting}=PORT")

    def _sockets(self, setting: str, port: int) -> list[socket.socket] | None:
        """Bound ones; None if the port is taken somewhere."""
        found: list[socket.socket] = []
        try:
            for address in self._bind:
                bound = tcp_socket(address, port, setting)
                if bound is not None:
                    found.append(bound)
        except ServiceNotAvailable as error:
            for each in found:
                each.close()
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE:
                return None
            raise
        return found

    async def _listen_mapper(self) -> None:
        """Another mapper, such as Samba's, may have the port: clients then need the fixed one."""
        sockets = self._sockets("rpc.mapper_port", self.settings.mapper_port)
        if sockets is None:
            log.warning("another endpoint mapper has the port; goes on without", extra={"fields": {
                "port": self.settings.mapper_port,
                "remedy": f"clients find this server at port {self.port}; --set rpc.mapper_port=0 silences this"}})
            return
        for each in sockets:
            self._servers.append(await self.loop.create_server(lambda: self._accept(self.mapper), sock=each))
            self.mapper_addresses.append(f"{url_host(each.getsockname()[0])}:{self.settings.mapper_port}")

    @property
    def port(self) -> int:
        """Of qmcomm, qmcomm2 and RemoteRead; 0 if off."""
        return self.ports.get("rpc.port", 0)

    @property
    def qm_port(self) -> int:
        """Of qm2qm; 0 if off."""
        return self.ports.get("rpc.qm_port", 0)

    async def stop(self) -> None:
        """Take nothing new, end the reads that wait, answer what is under way, then let go of the clients."""
        if self._sweep is not None:
            self._sweep.cancel()
        for server in self._servers:
            server.close()
        self.dispatcher.stopping = True
        for end in self.stopping:
            end()
        for connection in list(self.connections):
            connection.end_waits()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOPPING):
                while any(connection.calls_under_way for connection in self.connections):
                    await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.close()
        if self.socket_path is not None:
            with suppress(OSError):
                self.socket_path.unlink()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOPPING):
                while self.connections:
                    await asyncio.sleep(0.01)
        for connection in list(self.connections):
            if connection.transport is not None:
                connection.transport.abort()
        for close in self.closing:
            await close()

    def _look(self) -> None:
        now = self.loop.time()
        for connection in list(self.connections):
            connection.check(now)
        self._sweep = self.loop.call_later(SWEEP, self._look)

    # Clients

    def _accept(self, dispatcher: Dispatcher) -> RpcConnection:
        return RpcConnection(self, dispatcher, lambda connection: self._admit(connection, dispatcher))

    def _accept_unix(self) -> RpcConnection:
        return RpcConnection(self, self.dispatcher, self._admit_unix)

    def _admit(self, connection: RpcConnection, dispatcher: Dispatcher) -> ServerAssociation | None:
        assert connection.transport is not None
        connection.peer = str(connection.transport.get_extra_info("peername")[0]).partition("%")[0]
        if not self._has_room(connection.peer):
            return None
        port = connection.transport.get_extra_info("sockname")[1]
        return ServerAssociation(
            dispatcher.interfaces, self.groups, self._providers, self._association, self.loop.time(),
            peer=connection.peer, client=connection.peer, caller=ANONYMOUS_CALLER, secondary_address=str(port),
            budget=self.budget,
        )  # fmt: skip

    def _admit_unix(self, connection: RpcConnection) -> ServerAssociation | None:
        assert connection.transport is not None
        caller = peer_caller(connection.transport.get_extra_info("socket"))
        if not self._has_room(f"user {caller.sid}"):
            return None
        connection.peer = f"user {caller.sid}"
        return ServerAssociation(
            self.dispatcher.interfaces, self.groups, {}, self._association, self.loop.time(),
            client=("unix", caller.sid), caller=caller, budget=self.budget,
        )  # fmt: skip

    def _has_room(self, peer: str) -> bool:
        most = self.settings.max_connections
        if len(self.connections) < most and self._by_peer[peer] < max(most // 2, 1):
            self._by_peer[peer] += 1
            return True
        self.refused += 1
        log.warning("too many connections", extra={"fields": {"peer": peer, "remedy": "raise rpc.max_connections"}})
        return False

    def left(self, connection: RpcConnection) -> None:
        self._by_peer[connection.peer] -= 1
        if self._by_peer[connection.peer] <= 0:
            del self._by_peer[connection.peer]
