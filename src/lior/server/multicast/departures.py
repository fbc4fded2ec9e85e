"""One outgoing queue to a multicast address, with its PGM source."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Final

from lior.errors import LiorError
from lior.message import Message, MessageClass
from lior.names import MulticastName
from lior.protocols.multicast.source import Source
from lior.queues.change import Change
from lior.queues.outgoing import OutgoingQueue, OutgoingState
from lior.queues.position import Position, State
from lior.server.multicast.timers import Alarm
from lior.server.srmp.signatures import signature_text
from lior.wire.mime import format_entity
from lior.wire.pgm import Packet, after
from lior.wire.srmp_message import Receipts, to_envelope
from lior.wire.srmp_writer import write_envelope

if TYPE_CHECKING:
    from lior.server.multicast.hub import Multicast

log = logging.getLogger("lior.multicast")

AHEAD: Final = 64  # packets that are made before their time comes
LINGER: Final = 2.0  # seconds in which receivers may still ask for repairs when the server stops


class Departure:
    def __init__(self, hub: Multicast, queue: OutgoingQueue, first: int) -> None:
        assert isinstance(queue.destination, MulticastName)
        self.queue = queue
        self._hub = hub
        self._group = IPv4Address(queue.destination.address)
        self._port = queue.destination.port
        self._own_port = hub.next_port()
        now = hub.loop.time()
        self._source = Source(
            hub.settings.pgm, hub.gsi, self._own_port, self._group, self._port, hub.wire.address_towards(self._group),
            first, now)
        self._alarm = Alarm(hub.loop, self._pump)
        self._under_way: deque[tuple[int, Position]] = deque()  # each with its last packet
        self._idle_since = now
        self._stopping = False
        with suppress(LiorError):
            queue.change_state(OutgoingState.CONNECTED)

    def wake(self) -> None:
        self._alarm.at(self._hub.loop.time())

    def nak(self, packet: Packet) -> None:
        if packet.tsi == self._tsi:
            self._source.nak(packet, self._hub.loop.time())
            self._alarm.at(self._source.deadline)

    @property
    def _tsi(self) -> tuple[bytes, int]:
        return self._hub.gsi, self._own_port

    def _pump(self) -> None:
        now = self._hub.loop.time()
        self._fill()
        for effect in self._source.take(now):
            self._hub.wire.send(effect.octets, self._group)
        self._settle()
        if self._under_way or self.queue.available.first() is not None:
            self._idle_since = now
        elif not self._stopping and now - self._idle_since >= self._hub.settings.session_cleanup:
            self._end(now)
            return
        self._fill()
        self._alarm.at(self._source.deadline)

    def _end(self, now: float) -> None:
        """Nothing for a long time: the session is over, and says so (SR-028)."""
        self._source.finish(now)
        for effect in self._source.take(now):
            self._hub.wire.send(effect.octets, self._group)
        self._alarm.stop()
        with suppress(LiorError):
            self.queue.change_state(OutgoingState.DISCONNECTED)
        self._hub.ended(self)

    def _fill(self) -> None:
        while not self._stopping and self._hub.may_work and self.queue.may_transmit and self._source.backlog < AHEAD:
            position = self._hub.manager.outgoing_streams.lock_next(self.queue, self)
            if position is None:
                return
            try:
                apdu = self._apdu(position.message)
            except LiorError as error:
                self._refuse(position, error.what)
                continue
            if position.message.transaction is not None or len(apdu) > self._hub.settings.pgm.max_apdu:
                self._refuse(position, "a multicast message is of at most 64 KiB, and in no transaction")
                continue
            self._source.send(apdu)
            last = (self._source.lead + self._source.backlog) % (1 << 32)
            self._under_way.append((last, position))

    def _apdu(self, message: Message) -> bytes:
        """The request that would be POSTed, with the group in place of the server (4.5)."""
        assert message.identifier is not None
        address = f"{self._group}:{self._port}"
        envelope = to_envelope(message, f"MSMQ:MULTICAST={address}", Receipts())
        octets = write_envelope(envelope, signature=signature_text(message))
        kind, pieces = format_entity(octets, message.body, message.extension,
                                     str(message.source_queue_manager), message.identifier.uniquifier % 100_000)
        entity = b"".join(pieces)
        head = (f"POST {address} HTTP/1.1\r\nHost: {address}\r\nContent-Type: {kind}\r\n"
                f"Content-Length: {len(entity)}\r\n"
                f'SOAPAction: "MSMQMessage"\r\nProxy-Accept: NonInteractiveClient\r\n\r\n')  # fmt: skip
        return head.encode("ascii") + entity

    def _settle(self) -> None:
        """What is on the network is delivered, as far as anybody can know (SR-029)."""
        change = Change()
        while self._under_way and not after(self._under_way[0][0], self._source.lead):
            _, position = self._under_way.popleft()
            if position.state in (State.LOCKED, State.PURGE_PENDING) and not isinstance(position.owner, Change):
                self._hub.counts["sent"] += 1
                self._hub.manager.removal.transferred(change, position)
        if change.operations or change.has_steps:
            self._hub.manager.core.submit(change)

    def _refuse(self, position: Position, why: str) -> None:
        log.warning("a message cannot be sent", extra={"fields": {
            "message": str(position.message.identifier), "queue": self.queue.name, "why": why}})
        change = Change()
        self._hub.manager.removal.stage(change, position, MessageClass.NACK_BAD_DST_Q)
        self._hub.manager.core.submit(change)

    async def stop(self) -> None:
        """What is not on the network stays in the queue. What is can be repaired for a moment, unless a message is
        half sent: then the session is cut off (SR-028)."""
        loop = self._hub.loop
        self._stopping = True
        if self._source.backlog:
            self._source.cancel()
        else:
            self._source.finish(loop.time())
            self._alarm.at(loop.time())
            end = loop.time() + 2 * LINGER
            while (now := loop.time()) < min(end, self._source.settled_at(LINGER)):
                await asyncio.sleep(min(0.05, end - now))
        self._alarm.stop()
        for effect in self._source.take(loop.time()):
            self._hub.wire.send(effect.octets, self._group)
        self._hub.manager.outgoing_streams.release(self, [position for _, position in self._under_way])
        self._under_way.clear()
