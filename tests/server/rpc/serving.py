"""An RPC server in the loop of a test: real sockets, real accounts, an interface that exercises the runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lior.protocols.rpc.call import PENDING, Call, Close, Send
from lior.protocols.rpc.client_association import Answer, Bound, ClientAssociation, ClientEffect, Fault
from lior.protocols.rpc.faults import RpcFault
from lior.protocols.rpc.security import Initiator
from lior.server.rpc.accounts import AccountFile
from lior.server.rpc.providers import providers
from lior.server.rpc.service import RpcService
from lior.server.rpc.settings import RpcSection
from lior.testing.serving import loopback_address
from lior.wire.ndr_arrays import OCTETS, Array
from lior.wire.ndr_types import CONTEXT_HANDLE, U32
from lior.wire.rpc_interface import In, InOut, Out, interface, method

PASSWORD: Final = "correct horse"
TEST_UUID: Final = "11111111-2222-3333-4444-555555555555"
ADD, BACKWARDS, OPEN, USE, CLOSE, WAIT, FAIL, WHO, LATER = range(9)

TEST: Final = interface(
    "test", TEST_UUID, (1, 0), 12,
    method(ADD, "Add", In("a", U32), In("b", U32)),
    method(BACKWARDS, "Backwards", In("size", U32), In("data", Array(OCTETS, "size")), Out("out_size", U32),
           Out("out", Array(OCTETS, "out_size"))),
    method(OPEN, "Open", In("number", U32), Out("handle", CONTEXT_HANDLE)),
    method(USE, "Use", In("handle", CONTEXT_HANDLE)),
    method(CLOSE, "Close", InOut("handle", CONTEXT_HANDLE)),
    method(WAIT, "Wait", In("number", U32)),
    method(FAIL, "Fail", In("status", U32)),
    method(WHO, "Who", Out("size", U32), Out("text", Array(OCTETS, "size"))),
    method(LATER, "Later", In("number", U32)),
)  # fmt: skip


class Handlers:
    """What the methods do, and what became of it."""

    def __init__(self) -> None:
        self.waiting: dict[int, Call] = {}
        self.cancelled: list[int] = []
        self.run_down: list[int] = []
        self.changed = asyncio.Event()

    def table(self) -> dict[int, Any]:
        return {ADD: lambda call, request: ((request.a + request.b) & 0xFFFFFFFF,),
                BACKWARDS: lambda call, request: (len(request.data), bytes(request.data)[::-1], 0),
                OPEN: self.open, USE: self.use, CLOSE: self.close, WAIT: self.wait, FAIL: self.fail, WHO: self.who,
                LATER: self.later}

    def open(self, call: Call, request: Any) -> tuple[Any, ...]:
        number = request.number
        handle = call.group.handles.open("test", number, lambda: self._ran_down(number), call.caller)
        return handle, 0

    def _ran_down(self, number: int) -> None:
        self.run_down.append(number)
        self.changed.set()

    def use(self, call: Call, request: Any) -> tuple[Any, ...]:
        return (call.group.handles.find(request.handle, "test", call.caller),)

    def close(self, call: Call, request: Any) -> tuple[Any, ...]:
        call.group.handles.find(request.handle, "test", call.caller)
        call.group.handles.close(request.handle)
        return bytes(20), 0

    def wait(self, call: Call, request: Any) -> Any:
        self.waiting[request.number] = call
        call.on_cancel = self._cancelled
        self.changed.set()
        return PENDING

    def _cancelled(self, call: Call) -> None:
        self.cancelled.append(call.request.number)
        self.changed.set()
        call.fault(0xC00E0008)

    def fail(self, call: Call, request: Any) -> Any:
        if request.status == 0:
            raise RuntimeError("a bug")
        raise RpcFault(request.status)

    def who(self, call: Call, request: Any) -> tuple[Any, ...]:
        text = f"{call.caller.sid} {call.level} {call.service} {call.peer}".encode()
        return len(text), text, 0

    async def later(self, call: Call, request: Any) -> tuple[Any, ...]:
        await asyncio.sleep(0)
        return (request.number,)

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(120):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


class Server:
    def __init__(self, service: RpcService, handlers: Handlers, accounts: AccountFile, address: str) -> None:
        self.service = service
        self.handlers = handlers
        self.accounts = accounts
        self.address = address

    @property
    def socket(self) -> str:
        return str(self.service.socket_path)


@asynccontextmanager
async def serving(directory: Path, **settings: Any) -> AsyncIterator[Server]:
    """With an account joe. Only `anonymous` of ADD is open to everybody."""
    accounts = AccountFile(directory)
    accounts.add("joe", PASSWORD)
    address = loopback_address()
    given = replace(RpcSection(mapper_port=0, qm_port=0), **settings)
    offered = providers(given, directory, "testhost", "testhost.example.org")
    service = RpcService(given, [address], directory, offered, asyncio.get_running_loop())
    handlers = Handlers()
    service.register(TEST, handlers.table(), allow_anonymous=frozenset({ADD}))
    await service.start()
    try:
        yield Server(service, handlers, accounts, address)
    finally:
        await service.stop()


class Refused(Exception):
    """The connection ended."""


class Client:
    """Our own client half on a socket, one call after another."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, association: ClientAssociation
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.association = association
        self._effects: list[ClientEffect] = []

    @classmethod
    async def connect(
        cls, where: str, initiator: Initiator | None = None, *, port: int = 2103, group_id: int = 0,
        interfaces: Any = (TEST,), max_fragment: int = 5840,
    ) -> Client:  # fmt: skip
        if "/" in where:
            reader, writer = await asyncio.open_unix_connection(where)
        else:
            reader, writer = await asyncio.open_connection(where, port)
        self = cls(reader, writer, ClientAssociation(
            interfaces, initiator=initiator, group_id=group_id, max_fragment=max_fragment))
        self._do(self.association.bind())
        await self.next(Bound)
        return self

    def _do(self, effects: list[ClientEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.writer.write(effect.data)
            else:
                self._effects.append(effect)

    async def next(self, kind: Any) -> Any:
        async with asyncio.timeout(120):
            while not self._effects:
                data = await self.reader.read(1 << 16)
                if not data:
                    raise Refused("the server closed the connection")
                self._do(self.association.receive(data))
        effect = self._effects.pop(0)
        if isinstance(effect, Close):
            raise Refused(effect.reason)
        assert isinstance(effect, kind), effect
        return effect

    def send(self, opnum: int, *values: Any) -> int:
        call_id, data = self.association.request(TEST, opnum, TEST.methods[opnum].request.encode(values))
        self.writer.write(data)
        return call_id

    async def call(self, opnum: int, *values: Any) -> Any:
        self.send(opnum, *values)
        effect = await self.next(Answer | Fault)
        if isinstance(effect, Fault):
            raise RpcFault(effect.status)
        return TEST.methods[opnum].response.decode(effect.stub)

    async def ask(self, interface: Any, opnum: int, *values: Any) -> Any:
        """A method of another interface that the connection was made with."""
        method = interface.methods[opnum]
        self.writer.write(self.association.request(interface, opnum, method.request.encode(values))[1])
        effect = await self.next(Answer | Fault)
        if isinstance(effect, Fault):
            raise RpcFault(effect.status)
        return method.response.decode(effect.stub)

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()
