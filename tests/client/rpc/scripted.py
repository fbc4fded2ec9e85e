"""Servers that say what a test has them say: real RPC, with methods of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lior.client.sync import Runner
from lior.protocols.rpc.server_association import ServerAssociation
from lior.server.rpc.connection import RpcConnection
from lior.server.rpc.service import RpcService
from lior.server.rpc.settings import RpcSection
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.remote_read import REMOTE_READ
from lior.wire.rpc_pdu import BIND, CONC_MPX

Script = Mapping[str, Mapping[int, Callable[[Any], Any]]]  # interface -> opnum -> what it answers to a request
INTERFACES = {interface.name: interface for interface in (QMCOMM, QMCOMM2, REMOTE_READ)}
NULL_HANDLE = bytes(20)


class Scripted:
    """What was asked, by method name, with the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.port = 0

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]

    def requests(self, name: str) -> list[Any]:
        return [request for asked, request in self.asked if asked == name]


class OneCall(ServerAssociation):
    """Of a server that does not say that it takes several calls at a time (PFC_CONC_MPX)."""

    @classmethod
    def like(cls, association: ServerAssociation) -> ServerAssociation:
        association.__class__ = cls
        return association

    def receive(self, data: bytes, now: float) -> Any:
        first = int.from_bytes(data[:4], "little")
        if first >> 16 & 0xFF == BIND:
            data = (first & ~(CONC_MPX << 24)).to_bytes(4, "little") + data[4:]
        return super().receive(data, now)


@contextmanager
def scripted(
    directory: Path, script: Script, *, address: str = "", port: int = 2103, mapper: bool = False,
    multiplexes: bool = True,
) -> Iterator[Scripted]:  # fmt: skip
    """On the directory's socket, and on the ports of a loopback address if one is given."""
    told = Scripted()
    directory.mkdir(parents=True, exist_ok=True)
    section = RpcSection(port=port if address else 0, qm_port=0, mapper_port=135 if mapper else 0,
                         anonymous="allow")

    def handler(name: str, answer: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        def handle(call: Any, request: Any) -> Any:
            told.asked.append((name, request))
            return answer(request)

        return handle

    class Service(RpcService):
        def _admit_unix(self, connection: RpcConnection) -> ServerAssociation | None:
            association = super()._admit_unix(connection)
            return association if multiplexes or association is None else OneCall.like(association)

    async def start() -> RpcService:
        service = Service(section, [address] if address else [], directory, {}, asyncio.get_running_loop())
        for name, answers in script.items():
            interface = INTERFACES[name]
            handlers = {opnum: handler(interface.methods[opnum].name, answer) for opnum, answer in answers.items()}
            service.register(interface, handlers)
        await service.start()
        told.port = service.port
        return service

    runner = Runner()
    try:
        service = runner.call(start)
        try:
            yield told
        finally:
            runner.call(service.stop)
    finally:
        runner.stop()
