"""From a name to a connection that takes calls: sockets, ports, who asks ([MS-MQMP] 2.1, 3.2.3)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lior.client.rpc.backend import RpcBackend
from lior.client.rpc.connection import Connection
from lior.client.rpc.credentials import Credentials
from lior.client.rpc.link import Link
from lior.client.target import Reachable, is_served
from lior.errors import BadConfiguration, LiorError, ServiceNotAvailable
from lior.protocols.rpc.client_association import ClientAssociation
from lior.wire.interfaces.endpoint_mapper import ENDPOINT_MAPPER
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.towers import Tower
from lior.wire.ndr import NDR
from lior.wire.ndr_types import NULL_HANDLE
from lior.wire.rpc_interface import Interface

SOCKET_FILE: Final = "lior.sock"
PORT: Final = 2103  # of qmcomm, qmcomm2 and RemoteRead
MAPPER_PORT: Final = 135
EPT_MAP: Final = 3
SERVER_PORT: Final = 31
IP_HANDSHAKE: Final = 0
MOST_TOWERS: Final = 4
CONNECT_SECONDS: Final = 30.0
LONGEST_ANSWER: Final = 64 << 20  # a list of a hundred thousand queues


@dataclass(frozen=True)
class RpcTarget:
    """A Unix socket, where the kernel says who asks, or a computer's port."""

    socket_path: str = ""
    host: str = ""
    port: int = 0  # 0: the known one, or what the endpoint mapper says
    credentials: Credentials | None = None
    mapped: Interface = QMCOMM  # what the endpoint mapper is asked for

    def __str__(self) -> str:
        if self.socket_path:
            return str(Path(self.socket_path).parent)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host

    async def dial(self, interfaces: Sequence[Any], group_id: int = 0) -> Connection:
        """A connection that is bound, in an association group of its own or in that of another one."""
        if self.socket_path:
            return await self._bound(interfaces, group_id, 0)
        try:
            return await self._bound(interfaces, group_id, self.port or PORT)
        except ServiceNotAvailable as error:
            if self.port or not isinstance(error.__cause__, ConnectionRefusedError):
                raise
            port = await mapped_port(self.host, self.mapped)
            if not port:
                raise
            return await self._told(await self._bound(interfaces, group_id, port), interfaces, group_id)

    async def _told(self, connection: Connection, interfaces: Sequence[Any], group_id: int) -> Connection:
        """Where the server itself says that the calls go ([MS-MQMP] 3.1.4.24), if it says so."""
        if QMCOMM.uuid not in connection.association.contexts:
            return connection
        method = QMCOMM.methods[SERVER_PORT]
        try:
            port = (await connection.call(QMCOMM, SERVER_PORT, method.request.encode((IP_HANDSHAKE,)),
                                          method.response.decode)).result  # fmt: skip
        except LiorError:
            return connection
        if port in (0, connection.port):
            return connection
        await connection.close()
        return await self._bound(interfaces, group_id, port)

    async def _bound(self, interfaces: Sequence[Any], group_id: int, port: int) -> Connection:
        initiator = None
        if self.credentials is not None and not self.socket_path:
            initiator = self.credentials.initiator(self.host)
        association = ClientAssociation(interfaces, initiator=initiator, group_id=group_id, max_stub=LONGEST_ANSWER)
        connection = Connection(association, str(self))
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self.socket_path:
                    with Reachable(self.socket_path) as path:
                        await loop.create_unix_connection(lambda: connection, path)
                else:
                    await loop.create_connection(lambda: connection, self.host, port)
        except TimeoutError:
            raise _unreachable(self, "it does not answer") from None
        except OSError as error:
            raise _unreachable(self, str(error)) from error
        try:
            await connection.ready()
        except BaseException:
            await connection.close()
            raise
        return connection

    async def dial_other(self, computer: str, interfaces: Sequence[Any]) -> Link:
        """Another computer, as the same user."""
        if not computer or computer == ".":
            raise ServiceNotAvailable("the server does not say where the queue is", where=str(self))
        other = RpcTarget(host=computer, credentials=self.credentials or Credentials(level="none"))
        return await Link.open(other.dial, interfaces)

    async def connect(self) -> RpcBackend:
        return await RpcBackend.connect(self.dial, self.dial_other, str(self))


async def mapped_port(host: str, interface: Interface) -> int:
    """Where the endpoint mapper of a computer says that an interface is; 0 if there is none, or it does not know
    (EPT_S_NOT_REGISTERED)."""
    connection = Connection(ClientAssociation((ENDPOINT_MAPPER,)), f"{host}:{MAPPER_PORT}")
    try:
        await asyncio.get_running_loop().create_connection(lambda: connection, host, MAPPER_PORT)
    except OSError:
        return 0
    try:
        await connection.ready()
        wanted = Tower(interface.uuid, interface.version, NDR.uuid, NDR.version).encode()
        method = ENDPOINT_MAPPER.methods[EPT_MAP]
        values = (None, wanted, NULL_HANDLE, MOST_TOWERS)
        found = await connection.call(ENDPOINT_MAPPER, EPT_MAP, method.request.encode(values),
                                      lambda stub: method.response.decode(stub, values))  # fmt: skip
        towers = [Tower.decode(bytes(each)) for each in found.i_towers if each] if not found.status else []
        return next((tower.port for tower in towers if tower is not None and tower.port), 0)
    except LiorError:
        return 0
    finally:
        await connection.close()


def _unreachable(target: RpcTarget, why: str) -> LiorError:
    return ServiceNotAvailable(f"the queue manager cannot be reached: {why}", where=str(target),
                               remedy="see whether lior serve runs there, and on which port")


def of_directory(directory: str | os.PathLike[str], others: Credentials | None = None) -> RpcTarget | None:
    """The socket of a data directory, if somebody serves it. `others` is for queues of other computers."""
    path = Path(directory).absolute() / SOCKET_FILE
    if not is_served(directory, SOCKET_FILE):
        return None
    return RpcTarget(socket_path=os.fspath(path), credentials=others)


def of_host(text: str, credentials: Credentials) -> RpcTarget:
    """host, host:port or [IPv6]:port."""
    host, port = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or (port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536)):
        raise BadConfiguration("no address", where=text, remedy="write host or host:port")
    return RpcTarget(host=host, port=int(port or 0), credentials=credentials)
