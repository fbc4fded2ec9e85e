"""All connections of one client to one server: an association group, in which its handles live."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from lior.client.rpc.connection import Connection, Parse, Pending, Undo
from lior.client.rpc.errors import failure
from lior.errors import LiorError, UnsupportedOperation
from lior.wire.interfaces.lior_session import ALIVE, LIOR
from lior.wire.rpc_interface import Interface

Dial = Callable[[Sequence[Any], int], Awaitable[Connection]]  # interfaces and association group -> a bound connection

MOST_CONNECTIONS: Final = 64  # to a server that takes one call at a time on each
ANSWER_SECONDS: Final = 30.0  # for a server that lives


class Link:
    """Calls go over one connection where the server multiplexes. Where it does not, each has one for itself, so that a
    read that waits holds up nobody."""

    def __init__(self, dial: Dial, interfaces: Sequence[Any], first: Connection) -> None:
        self.first = first
        self.group_id = first.association.group_id
        self.contexts = first.association.contexts
        self.where = first.where
        self.multiplexes = first.association.multiplexes
        self._dial = dial
        self._interfaces = interfaces
        self._connections = [first]
        self._waiting: deque[tuple[Any, int, bytes, Pending]] = deque()
        self._dialling: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        if self.is_lior:
            self._live()

    @classmethod
    async def open(cls, dial: Dial, interfaces: Sequence[Any]) -> Link:
        return cls(dial, interfaces, await dial(interfaces, 0))

    # Signs of life: neither side keeps what the other one holds while it hangs

    def _live(self) -> None:
        self._timer = self._loop.call_later(ANSWER_SECONDS, self.first.give_up, "the queue manager does not answer")
        self.method(LIOR, ALIVE, ()).add_done_callback(self._lived)

    def _lived(self, future: asyncio.Future[Any]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed and not future.cancelled() and future.exception() is None:
            self._timer = self._loop.call_later(future.result().milliseconds / 1000, self._live)

    @property
    def lost(self) -> bool:
        """The group ends with its connections, and so does what hangs on it. One is enough for it to be in doubt."""
        return any(connection.lost for connection in self._connections)

    @property
    def port(self) -> int:
        """The other end's; 0 on a Unix socket."""
        return self.first.port

    def offers(self, interface: Interface) -> bool:
        return interface.uuid in self.contexts

    @property
    def is_lior(self) -> bool:
        return LIOR.uuid in self.contexts

    def require(self, interface: Interface, what: str, where: str = "") -> None:
        if interface.uuid not in self.contexts:
            raise UnsupportedOperation(f"{what} is not offered by this server", where=where or self.where,
                                       remedy="only what its interfaces have can be asked of it")

    # Calls

    def call(
        self, interface: Interface, opnum: int, stub: bytes, parse: Parse, undo: Undo | None = None, where: str = ""
    ) -> asyncio.Future[Any]:
        if self.multiplexes:
            return self.first.call(interface, opnum, stub, parse, undo, where)
        future: asyncio.Future[Any] = self._loop.create_future()
        self.start(interface, opnum, stub, (future, parse, undo, where))
        return future

    def start(self, interface: Interface, opnum: int, stub: bytes, pending: Pending) -> tuple[Connection, int]:
        """Where the call went, to cancel it there; a number of 0 if it has not been sent yet."""
        if self.multiplexes:
            return self.first, self.first.start(interface, opnum, stub, pending)
        for connection in self._connections:
            if not connection.calls and not connection.lost:
                connection.on_idle = self._next
                return connection, connection.start(interface, opnum, stub, pending)
        self._waiting.append((interface, opnum, stub, pending))
        if len(self._connections) + len(self._dialling) < MOST_CONNECTIONS:
            task = self._loop.create_task(self._another())
            self._dialling.add(task)
            task.add_done_callback(self._dialling.discard)
        return self.first, 0

    async def _another(self) -> None:
        try:
            self._connections.append(await self._dial(self._interfaces, self.group_id))
        except LiorError as error:
            if self._waiting and not any(connection.calls for connection in self._connections):
                future = self._waiting.popleft()[3][0]
                if not future.done():
                    future.set_exception(error)
            return
        self._next()

    def _next(self) -> None:
        """A connection is free: the call that waits longest has it."""
        while self._waiting:
            free = next((each for each in self._connections if not each.calls and not each.lost), None)
            if free is None:
                if self.lost:
                    while self._waiting:
                        future = self._waiting.popleft()[3][0]
                        if not future.done():
                            future.set_exception(self.first.lost_error())
                return
            interface, opnum, stub, pending = self._waiting.popleft()
            if not pending[0].done():
                free.on_idle = self._next
                free.start(interface, opnum, stub, pending)

    def method(self, interface: Interface, opnum: int, values: Sequence[Any], *, where: str = "",
               undo: Undo | None = None) -> asyncio.Future[Any]:
        """A method by its codecs: the response, or the error that its HRESULT is."""
        method = interface.methods[opnum]
        self.require(interface, method.name, where)
        decode, has_result = method.response.decode, "result" in method.response.fields

        def parse(stub: bytes) -> Any:
            response = decode(stub, values)
            if has_result and response.result & 0x80000000:
                raise failure(response.result, where)
            return response

        return self.call(interface, opnum, method.request.encode(values), parse, undo, where)

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._dialling):
            task.cancel()
        await asyncio.gather(*(connection.close() for connection in self._connections), *self._dialling,
                             return_exceptions=True)
