"""The multicast groups of one queue manager: those that its queues listen to, and those that it sends to."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, ip_address

from lior.errors import Malformed
from lior.protocols.multicast.receiver import Budget, Deliver, Effect, Lost, Receiver, SendNak
from lior.queues.events import (
    ConnectivityChanged,
    Event,
    MessageAwaitsTransfer,
    OutgoingStateChanged,
    QueueChanged,
    SupportChanged,
)
from lior.queues.outgoing import OutgoingQueue
from lior.server.engine import Engine
from lior.server.multicast.departures import Departure
from lior.server.multicast.settings import MulticastSettings
from lior.server.multicast.timers import Alarm
from lior.server.multicast.wire import RawSocket
from lior.server.srmp.incoming import Incoming
from lior.wire.pgm import Nak, Packet, PacketType, Tsi, decode

log = logging.getLogger("lior.multicast")

FIRST_PORT = 0xC000  # of sources' own

Group = tuple[IPv4Address, int]


class Multicast:
    def __init__(self, engine: Engine, settings: MulticastSettings, incoming: Incoming) -> None:
        self.engine = engine
        self.manager = engine.manager
        self.settings = settings
        self.loop = engine.own_loop()
        self.wire = RawSocket(_interface(settings), settings.ttl, self._arrived)
        self.gsi = secrets.token_bytes(6)  # of this run: receivers must not take us for who we were before
        self._port = secrets.randbelow(1 << 14)
        self._budget = Budget(settings.pgm.max_early)
        self.counts: Counter[str] = Counter()
        self._incoming = incoming
        self._departures: dict[int, Departure] = {}  # by queue id
        self._joined: dict[Group, int] = {}  # queues that listen to it
        self._receivers: dict[tuple[Group, Tsi], Receiver] = {}
        self._alarm = Alarm(self.loop, self._tick)
        self._stopping = False

    # Life

    async def start(self) -> None:
        self.manager.subscribe(self._on_event, messages=False)
        self._follow_queues()
        for queue in self.manager.dispatchable():
            self._wake(queue)

    async def stop(self) -> None:
        self._stopping = True
        with suppress(ValueError):
            self.manager.core.listeners.remove(self._on_event)
        self._alarm.stop()
        await asyncio.gather(*(departure.stop() for departure in self._departures.values()))
        self.wire.close()

    @property
    def sources(self) -> int:
        return len(self._receivers)

    def next_port(self) -> int:
        """A source's own: each session has another."""
        self._port = (self._port + 1) & 0x3FFF
        return FIRST_PORT | self._port

    @property
    def may_work(self) -> bool:
        properties = self.manager.core.properties
        return not self._stopping and properties.srmp_pgm_support and properties.connection_active

    def _on_event(self, event: Event) -> None:
        if isinstance(event, QueueChanged):
            self.loop.call_soon(self._follow_queues)
        elif isinstance(event, (SupportChanged, ConnectivityChanged)):
            self.loop.call_soon(self._switched)
        elif isinstance(event, (MessageAwaitsTransfer, OutgoingStateChanged)) and event.queue.multicast:
            self.loop.call_soon(self._wake, event.queue)

    def _switched(self) -> None:
        self._follow_queues()
        for queue in self.manager.dispatchable():
            self._wake(queue)

    # Groups

    def _follow_queues(self) -> None:
        """Listen to what queues are bound to now (SR-014)."""
        if self._stopping:
            return
        wanted = Counter(
            group_of(queue.properties.multicast_address)
            for queue in self.manager.core.queues.values() if queue.properties.multicast_address and not queue.deleted
            if self.may_work
        )  # fmt: skip
        if wanted and not self.wire.open():
            return
        before, after = {group for group, _ in self._joined}, {group for group, _ in wanted}
        for group in after - before:
            self.wire.join(group)
        for group in before - after:
            self.wire.leave(group)
        self._joined = dict(wanted)
        for key in [key for key in self._receivers if key[0] not in wanted]:
            self._receivers.pop(key).close()

    # What arrives

    def _arrived(self, octets: bytes, source: IPv4Address, to: IPv4Address) -> None:
        try:
            packet = decode(octets)
        except Malformed as error:
            self.counts["malformed"] += 1
            log.debug("a packet was dropped", extra={"fields": {"from": str(source), "why": error.what}})
            return
        body = packet.body
        if isinstance(body, Nak) and not body.confirms:
            self._nak(packet, body)
            return
        receiver = self._receiver(packet, source, to)
        if receiver is not None:
            self._do(receiver.receive(packet, self.loop.time()), (to, packet.destination_port))
            self._alarm.at(receiver.deadline)

    def _nak(self, packet: Packet, body: Nak) -> None:
        for departure in self._departures.values():
            departure.nak(packet)
        for ((group, _), tsi), receiver in self._receivers.items():
            if tsi == packet.tsi and group == body.group:
                receiver.receive(packet, self.loop.time())

    def _receiver(self, packet: Packet, source: IPv4Address, to: IPv4Address) -> Receiver | None:
        group = (to, packet.destination_port)
        if group not in self._joined or packet.kind not in (
            PacketType.SPM, PacketType.ODATA, PacketType.RDATA, PacketType.NCF
        ):  # fmt: skip
            return None
        key = (group, packet.tsi)
        found = self._receivers.get(key)
        if found is None and packet.kind in (PacketType.SPM, PacketType.ODATA):
            self._forget_silent()
            if len(self._receivers) >= self.settings.pgm.max_sources:
                self.counts["sources refused"] += 1
                return None
            found = self._receivers[key] = Receiver(
                self.settings.pgm, packet.tsi, to, packet.destination_port, source, random.random, self._budget)
        return found

    def _forget_silent(self) -> None:
        oldest = self.loop.time() - self.settings.pgm.idle_source
        for key in [key for key, receiver in self._receivers.items() if receiver.heard_at < oldest]:
            self._receivers.pop(key).close()

    def _do(self, effects: Iterable[Effect], group: Group) -> None:
        for effect in effects:
            if isinstance(effect, SendNak):
                self.counts["naks"] += 1
                self.wire.send(effect.octets, effect.to)
                self.wire.send(effect.octets, group[0], near=True)  # note 3 of 2.1.3
            elif isinstance(effect, Deliver):
                self.counts["received"] += 1
                self._incoming.take_multicast(effect.apdu, f"{group[0]}:{group[1]}")
            elif isinstance(effect, Lost):
                self.counts["lost"] += effect.count
                log.warning("multicast packets were lost for good", extra={"fields": {
                    "group": f"{group[0]}:{group[1]}", "packets": effect.count}})

    def _tick(self) -> None:
        now = self.loop.time()
        for (group, _), receiver in list(self._receivers.items()):
            if receiver.deadline <= now:
                self._do(receiver.tick(now), group)
            self._alarm.at(receiver.deadline)

    # What leaves

    def _wake(self, queue: OutgoingQueue) -> None:
        if not self.may_work or not queue.multicast or queue.deleted or not queue.may_transmit:
            return
        departure = self._departures.get(queue.queue_id)
        if departure is None:
            if queue.available.first() is None or not self.wire.open():
                return
            departure = self._departures[queue.queue_id] = Departure(self, queue, secrets.randbelow(1 << 32))
        departure.wake()

    def ended(self, departure: Departure) -> None:
        self._departures.pop(departure.queue.queue_id, None)
        if departure.queue.available.first() is not None:
            self._wake(departure.queue)


def group_of(text: str) -> Group:
    address, _, port = text.rpartition(":")
    return IPv4Address(address), int(port)


def _interface(settings: MulticastSettings) -> str:
    """Our address on the network that the groups are on."""
    if settings.interface:
        return settings.interface
    for text in settings.addresses:
        address = ip_address(text)
        if address.version == 4 and not address.is_unspecified:
            return text
    return "0.0.0.0"


__all__ = ["Multicast"]
