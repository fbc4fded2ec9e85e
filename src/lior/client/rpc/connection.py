"""One connection to a server: calls out, many in one write, and answers back to whoever waits for them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol

from lior.client.rpc.errors import faulted
from lior.errors import LiorError, ServiceNotAvailable
from lior.protocols.rpc.call import Close, Send
from lior.protocols.rpc.client_association import Answer, Bound, ClientAssociation, Fault

Parse = Callable[[bytes], Any]  # of the answer's stub: the result, or an error
Undo = Callable[[Any], None]  # of a result that nobody wants any more


class Reply(Protocol):
    """Who waits for an answer: a future, or something cheaper."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: Any, /) -> None: ...


Pending = tuple[Reply, Parse, Undo | None, str]

BIND_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 5.0
KEEP_ALIVE: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


class Connection(asyncio.Protocol):
    """`lost` when it ended, whoever ended it."""

    def __init__(self, association: ClientAssociation, where: str) -> None:
        self.association = association
        self.where = where
        self.lost = False
        self.bound: asyncio.Future[None]
        self._loop = asyncio.get_running_loop()
        self.bound = self._loop.create_future()
        self._ended = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._pending: dict[int, Pending] = {}
        self._out: list[bytes] = []
        self._paused = False
        self.on_idle: Callable[[], None] | None = None  # no call is under way any more
        self._reason = "the connection to the queue manager was lost"

    @property
    def calls(self) -> int:
        """Under way."""
        return len(self._pending)

    @property
    def port(self) -> int:
        """The other end's; 0 on a Unix socket."""
        peer = None if self._transport is None else self._transport.get_extra_info("peername")
        return int(peer[1]) if isinstance(peer, tuple) else 0

    # Calls

    def call(
        self, interface: Any, opnum: int, stub: bytes, parse: Parse, undo: Undo | None = None, where: str = ""
    ) -> asyncio.Future[Any]:
        """The answer. Whoever stops waiting for it leaves `undo` to let go of what it brought."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self.start(interface, opnum, stub, (future, parse, undo, where))
        return future

    def start(self, interface: Any, opnum: int, stub: bytes, pending: Pending) -> int:
        """The call's number, to cancel it with; 0 if the connection is gone."""
        if self.lost:
            pending[0].set_exception(self.lost_error())
            return 0
        call_id, data = self.association.request(interface, opnum, stub)
        self._pending[call_id] = pending
        self._write(data)
        return call_id

    def cancel(self, call_id: int) -> None:
        """Ask the server to end a call soon. Its answer or fault still comes."""
        if call_id in self._pending and not self.lost:
            self._write(self.association.cancel(call_id))

    def _write(self, data: bytes) -> None:
        out = self._out
        if not out and not self._paused:
            self._loop.call_soon(self._flush)
        out.append(data)

    def _flush(self) -> None:
        """All that the calls of a turn of the loop have to say, at once."""
        out, self._out = self._out, []
        if self._transport is not None and not self.lost and out:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    # asyncio.Protocol

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEP_ALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        try:
            self._carry_out(self.association.bind())
        except LiorError as error:  # an initiator without credentials, say
            self._fail(error)

    def data_received(self, data: bytes) -> None:
        pending = self._pending
        for effect in self.association.receive(data):
            if type(effect) is not Answer:
                self._carry_out((effect,))
                continue
            future, parse, undo, where = pending.pop(effect.call_id)
            if future.done():
                if undo is not None:
                    self._undo(effect.stub, parse, undo)
                continue
            try:
                future.set_result(parse(effect.stub))
            except LiorError as error:
                if where and not error.where:
                    error.where = where
                future.set_exception(error)
        if not pending and self.on_idle is not None:
            self.on_idle()

    def _undo(self, stub: bytes, parse: Parse, undo: Undo) -> None:
        try:
            undo(parse(stub))
        except LiorError:
            return  # there is nothing to undo

    def _carry_out(self, effects: Any) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._out.append(effect.data)
                self._flush()
            elif kind is Fault:
                future, _, _, where = self._pending.pop(effect.call_id)
                if not future.done():
                    future.set_exception(faulted(effect.status, where))
            elif kind is Bound:
                if not self.bound.done():
                    self.bound.set_result(None)
            elif kind is Close:
                self._fail(ServiceNotAvailable(effect.reason, where=self.where,
                                               remedy="see whether the server is a queue manager, and what it allows"))

    def _fail(self, error: LiorError) -> None:
        if not self.bound.done():
            self.bound.set_exception(error)
        self._reason = f"the connection to the queue manager ended: {error.what}"
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if not self.bound.done():
            self.bound.set_exception(self.lost_error())
        pending, self._pending = self._pending, {}
        for future, _, _, _ in pending.values():
            if not future.done():
                future.set_exception(self.lost_error())
        self._out.clear()
        self._ended.set_result(None)

    def lost_error(self) -> ServiceNotAvailable:
        return ServiceNotAvailable(self._reason, where=self.where,
                                   remedy="see whether it runs; what was under way may have been done or not")

    def give_up(self, why: str) -> None:
        if not self.lost:
            self._fail(ServiceNotAvailable(why, where=self.where))

    async def ready(self) -> None:
        """Until calls can be made."""
        try:
            await asyncio.wait_for(asyncio.shield(self.bound), BIND_SECONDS)
        except TimeoutError:
            self._fail(ServiceNotAvailable("the server does not answer", where=self.where,
                                           remedy="see whether it is a queue manager"))
            await self.bound

    async def close(self) -> None:
        """What was written is sent."""
        if self._transport is None:
            return
        self._flush()
        self._transport.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._ended), CLOSE_SECONDS)
        except TimeoutError:
            self._transport.abort()
