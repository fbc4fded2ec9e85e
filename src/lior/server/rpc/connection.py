"""One connection of a client: bytes to calls, answers to bytes, and no more under way than it may have."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from lior.protocols.rpc import faults
from lior.protocols.rpc.call import Call, Cancelled, Close, Invoke, Orphaned, Send
from lior.protocols.rpc.server_association import ServerAssociation
from lior.server.rpc.dispatch import Dispatcher

if TYPE_CHECKING:
    from lior.server.rpc.service import RpcService

log = logging.getLogger("lior.rpc")

WRITE_HIGH: Final = 1 << 20  # bytes that the client may lag behind before nothing more is read from it
CLOSING: Final = 5.0  # seconds for the last bytes of a connection that ends
KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))


class RpcConnection(asyncio.Protocol):
    """The host of a ServerAssociation. `admit` makes the association, or None to refuse the connection."""

    def __init__(
        self, service: RpcService, dispatcher: Dispatcher, admit: Callable[[RpcConnection], ServerAssociation | None]
    ) -> None:
        self.association: ServerAssociation | None = None
        self.transport: asyncio.Transport | None = None
        self.peer = ""
        self.is_local = False  # over the Unix socket
        self.own_address = ""  # that the client reached this server under
        self._service = service
        self._dispatcher = dispatcher
        self._admit = admit
        self._loop = service.loop
        self._out: list[bytes] = []
        self._flush_planned = False
        self._receiving = False
        self._writable = True
        self._reading = True
        self._lost = False

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH)
        peer_socket = transport.get_extra_info("socket")
        if peer_socket is not None and peer_socket.family != socket.AF_UNIX:
            self.own_address = str(transport.get_extra_info("sockname")[0])
            with suppress(OSError):
                peer_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in KEEPALIVE:
                    peer_socket.setsockopt(socket.IPPROTO_TCP, option, value)
        self.association = self._admit(self)
        if self.association is None:
            self.transport.abort()
            return
        self.association.host = self
        self.is_local = not self.association.peer
        self._service.connections.add(self)

    def data_received(self, data: bytes) -> None:
        association = self.association
        if association is None or self._lost:
            return
        self._receiving = True
        calls: list[Call] = []
        closing = ""
        for effect in association.receive(data, self._loop.time()):
            kind = type(effect)
            if kind is Invoke:
                calls.append(effect.call)  # type: ignore[union-attr]
            elif kind is Send:
                self._out.append(effect.data)  # type: ignore[union-attr]
            elif kind is Cancelled or kind is Orphaned:
                self._dispatcher.invoke(calls)  # the call that it is about may be among them
                calls = []
                self._cancelled(effect.call)  # type: ignore[union-attr]
            elif isinstance(effect, Close):
                closing = effect.reason
        if calls:
            self._dispatcher.invoke(calls)
        self._receiving = False
        if self._out:
            self._flush()
        if closing:
            self._end(closing)
        elif association.bytes_in_flight > self._service.settings.max_in_flight:
            self._pause()

    def _cancelled(self, call: Call) -> None:
        if call.on_cancel is not None:
            on_cancel, call.on_cancel = call.on_cancel, None
            try:
                on_cancel(call)
            except Exception:
                log.exception("a call could not be cancelled")

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._out.clear()
        association = self.association
        if association is None:
            return
        self._service.connections.discard(self)
        for call in association.connection_lost():
            call.cancelled = True
            self._cancelled(call)
        try:
            association.leave()
        except Exception:
            log.exception("a context handle could not be run down")
        self._service.left(self)

    def pause_writing(self) -> None:
        self._writable = False
        self._pause()

    def resume_writing(self) -> None:
        self._writable = True
        self._resume()

    def _pause(self) -> None:
        if self._reading and self.transport is not None and not self.transport.is_closing():
            self._reading = False
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self._reading or self.transport is None or self.transport.is_closing():
            return
        association = self.association
        if self._writable and association is not None \
                and association.bytes_in_flight <= self._service.settings.max_in_flight:
            self._reading = True
            self.transport.resume_reading()

    # The host of calls

    def answer(self, call: Call, values: Any) -> None:
        """The values of a response."""
        association = call.association
        if association.calls.get(call.call_id) is not call:
            return
        stub = self._dispatcher.encoded(call, values)
        if stub is not None:
            self._put(association.response(call, stub))

    def answer_stub(self, call: Call, stub: bytes) -> None:
        """The same, encoded already."""
        self._put(call.association.response(call, stub))

    def fault(self, call: Call, status: int) -> None:
        self._put(call.association.fault_response(call, status))

    def refuse(self, call: Call, status: int) -> None:
        """The method was not begun."""
        self._put(call.association.fault_response(call, status, executed=False))

    def _put(self, data: bytes) -> None:
        if not data:
            return
        self._out.append(data)
        if not (self._receiving or self._flush_planned):
            self._flush_planned = True
            self._loop.call_soon(self._flush_later)
        if not self._reading:
            self._resume()

    def _flush_later(self) -> None:
        self._flush_planned = False
        if self._out:
            self._flush()

    def _flush(self) -> None:
        """Everything that became ready in this turn of the loop, in one write."""
        out, self._out = self._out, []
        if self.transport is not None and not self._lost:
            self.transport.write(out[0] if len(out) == 1 else b"".join(out))

    # The end

    def check(self, now: float) -> None:
        """Whether the client took too long."""
        if self.association is not None:
            for effect in self.association.timeout(now):
                if isinstance(effect, Close):
                    self._end(effect.reason)

    def _end(self, reason: str) -> None:
        log.info("a client's connection is closed", extra={"fields": {"peer": self.peer, "why": reason}})
        self.close()

    @property
    def calls_under_way(self) -> int:
        return 0 if self.association is None else len(self.association.calls)

    def end_waits(self) -> None:
        """The server stops: no message will come for those who wait."""
        for call in list(self.association.calls.values()) if self.association is not None else ():
            end = call.on_cancel
            if end is not None:
                call.fault(faults.SERVICE_NOT_AVAILABLE)
                end(call)

    def close(self) -> None:
        """What was answered goes out first."""
        if self.transport is not None and not self.transport.is_closing():
            self._flush()
            self.transport.close()
            self._loop.call_later(CLOSING, self.transport.abort)  # who does not read does not keep it open
