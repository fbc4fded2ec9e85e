"""One TCP connection with its session: bytes to effects, effects to the queues and back to the socket."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from lior.protocols.binary.session import (
    Acknowledged,
    Close,
    Effect,
    Opened,
    Persisted,
    Received,
    Send,
    Session,
    SessionState,
)
from lior.queues.position import Position

if TYPE_CHECKING:
    from lior.server.transfer.hub import Transfer
    from lior.server.transfer.link import Link
    from lior.wire.plain_packets import PlainMessage
    from lior.wire.user_message import UserMessage

log = logging.getLogger("lior.transfer")

WRITE_HIGH: Final = 1 << 20  # bytes that the socket may lag behind before the pump pauses
MOST_UNREAD: Final = 16 << 20  # bytes that wait for a peer that only sends: then it is one that does not read
MOST_CONTROL: Final = 1024  # order acknowledgements that wait for a slot; one that gives way is asked for again
CLOSING: Final = 5.0  # seconds for the last bytes of a connection that ends


class Connection(asyncio.Protocol):
    """Accepted ones have no link until an outgoing queue for their address adopts them."""

    def __init__(self, hub: Transfer, session: Session, link: Link | None = None) -> None:
        self.session = session
        self.link = link
        self.address = ""  # the remote's, as text without brackets
        self.accepted = link is None
        self.opened: asyncio.Future[None] = hub.loop.create_future()
        self.why_closed = ""
        self.refused = False
        self.unanswered = False  # lost or refused before the peer said anything
        self.messages_received = 0
        self.messages_sent = 0
        self.bytes_received = 0
        self.bytes_sent = 0
        self.since = 0.0
        self.unfinished = 0  # bytes of a packet of which the rest did not come yet
        self.unfinished_since = 0.0
        self.half_open = False  # counted among the handshakes under way
        self._hub = hub
        self._loop = hub.loop
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._writable = True
        self._closed = False
        self._control: deque[bytes] = deque(maxlen=MOST_CONTROL)  # order acknowledgements without a slot yet

    @property
    def is_open(self) -> bool:
        return self.session.state is SessionState.OPEN and not self._closed

    @property
    def can_send(self) -> bool:
        return self._writable and not self._closed and self.session.window > 0

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = plain_address(str(peer[0])) if peer else ""
        self.since = self._hub.clock.wall()
        self._transport.set_write_buffer_limits(high=WRITE_HIGH)
        set_options(transport.get_extra_info("socket"))
        if not self._hub.admit(self):
            self._finish("no session is possible now")
            return
        if not self.accepted:
            self._apply(self.session.start(self._loop.time()))
        self._arm()

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        self.bytes_received += len(data)
        now = self._loop.time()
        self._apply(self.session.receive(data, now))
        self._arm()
        unfinished = 0 if self._closed else self.session.unfinished
        if unfinished < self.unfinished or not self.unfinished:  # a packet was completed
            self.unfinished_since = now
        if unfinished != self.unfinished:
            self._count_unfinished(unfinished)

    def _count_unfinished(self, size: int) -> None:
        change, self.unfinished = size - self.unfinished, size
        self._hub.hold(change)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._finish(f"the connection was lost: {error}" if error else "the peer closed the connection")

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._pump()

    # Effects

    def _apply(self, effects: list[Effect]) -> None:
        out: list[bytes] = []
        received: list[UserMessage | PlainMessage] = []
        acknowledged: list[Any] = []  # positions; None for what is in no queue
        persisted: list[Any] = []
        end: Close | None = None
        for effect in effects:
            kind = type(effect)
            if kind is Received:
                received += effect.messages  # type: ignore[union-attr]
            elif kind is Send:
                out.append(effect.data)  # type: ignore[union-attr]
            elif kind is Acknowledged:
                acknowledged += effect.tokens  # type: ignore[union-attr]
            elif kind is Persisted:
                persisted += effect.tokens  # type: ignore[union-attr]
            elif kind is Opened:
                self._write(out)  # the answer to the handshake goes before what the pump sends
                out = []
                self._hub.opened(self)
            else:
                end = cast(Close, effect)
        if received:
            self.messages_received += len(received)
            self._hub.incoming.process(self, received)
        if self._closed:  # what came could not be stored: it is not acknowledged
            return
        self._write(out)
        if acknowledged or persisted:
            self._hub.departures.acknowledged(acknowledged, persisted)
            self._pump()
        if end is not None:
            self.refused = end.refused
            if end.malformed:
                log.warning("the peer broke the protocol; its connection is closed",
                            extra={"fields": {"peer": self.address, "what": end.reason}})
            self._finish(end.reason)

    def _write(self, out: list[bytes]) -> None:
        if out and self._transport is not None and not self._closed:
            data = out[0] if len(out) == 1 else b"".join(out)
            self.bytes_sent += len(data)
            self._transport.write(data)
            if not self._writable and self._transport.get_write_buffer_size() > MOST_UNREAD + len(data):
                self._finish("the peer does not read")

    def write(self, data: list[bytes]) -> None:
        self._write(data)
        self._arm()

    def stored(self, count: int) -> None:
        """The change that holds the oldest `count` recoverable messages is on disk."""
        if not self._closed:
            self._apply(self.session.stored(count, self._loop.time()))
            self._arm()

    def not_stored(self) -> None:
        """[MS-MQQB] 3.1.5.8.11: close without an acknowledgement, and the sender tries again later."""
        self._finish("what came could not be stored")

    def send_control(self, packet: bytes) -> None:
        """An order acknowledgement: express, not kept, before anything that waits."""
        self._control.append(packet)
        self.flush_control()

    def flush_control(self) -> None:
        out: list[bytes] = []
        while self._control and self.can_send:
            out.append(self.session.send(self._control.popleft(), None, False, self._loop.time()))
        if out:
            self.write(out)

    def advertise(self, window: int) -> None:
        if self.is_open:
            self._apply(self.session.set_window(window, self._loop.time()))
            self._arm()

    def _pump(self) -> None:
        if self._control:
            self.flush_control()
        if self.link is not None:
            self.link.pump()

    # Reading pauses while the store lags behind

    def hold_reading(self) -> None:
        if self._transport is not None and not self._closed and self._transport.is_reading():
            self._transport.pause_reading()
            self._hub.engine.line_up(self._read_on)

    def _read_on(self) -> None:
        if self._transport is not None and not self._closed:
            self._transport.resume_reading()

    # Timers

    def _arm(self) -> None:
        """One loop timer; one that comes early looks again."""
        deadline = self.session.deadline
        if deadline is None or self._closed:
            return
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._closed:
            return
        now = self._loop.time()
        deadline = self.session.deadline
        if deadline is not None and deadline <= now + 0.001:
            self._apply(self.session.tick(max(now, deadline)))
            self._pump()
        self._arm()

    # The end

    def close(self, why: str) -> None:
        """Ours to end: what is stored is acknowledged first, so that it does not come twice for nothing."""
        if not self._closed:
            self._apply(self.session.flush(self._loop.time()))
        self._finish(why)

    def _finish(self, why: str) -> None:
        if self._closed:
            return
        self._closed = True
        self.why_closed = why
        self.unanswered = self.session.state in (SessionState.WAITING_ECR, SessionState.WAITING_EC)
        tokens = self.session.close(why)
        self._control.clear()
        self._count_unfinished(0)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()  # what was written still leaves, a refusal above all
            self._loop.call_later(CLOSING, self._transport.abort)
        if not self.opened.done():
            self.opened.set_result(None)
        self._hub.closed(self, cast("list[Position | None]", tokens))


def plain_address(text: str) -> str:
    """Without the zone; an IPv4 address in IPv6 clothing as IPv4."""
    bare = text.partition("%")[0]
    return bare[7:] if bare.casefold().startswith("::ffff:") and "." in bare else bare


def set_options(sock: socket.socket | None) -> None:
    """Small packets leave at once; a peer that is gone is noticed though nothing is outstanding (QB-198)."""
    if sock is None:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
