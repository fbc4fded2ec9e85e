"""A source and receivers on a network that loses, doubles and disorders, with a clock that a test turns."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from ipaddress import IPv4Address
from itertools import count
from random import Random

from lior.protocols.multicast.receiver import Budget, Deliver, Lost, Receiver, SendNak
from lior.protocols.multicast.settings import PgmSettings
from lior.protocols.multicast.source import Source
from lior.wire.pgm import Nak, Packet, PacketType, Spm, decode

GROUP = IPv4Address("234.1.1.1")
PORT = 8001
OWN = IPv4Address("192.0.2.1")
GSI = b"gsi-06"
NEVER = float("inf")

Drop = Callable[[Packet, int, int], bool]  # a packet, the receiver (-1: the source), how many came there before


class Host:
    """A receiver, and what it was given."""

    def __init__(self, settings: PgmSettings, random: Random) -> None:
        self.settings = settings
        self.random = random
        self.budget = Budget(settings.max_early)
        self.receiver: Receiver | None = None
        self.delivered: list[bytes] = []
        self.lost = 0
        self.naks: list[tuple[float, int]] = []
        self.heard = 0


class Network:
    """`drop` decides what is lost; `latest` is the longest way of a packet."""

    def __init__(
        self, random: Random, receivers: int = 1, settings: PgmSettings | None = None, first: int = 1,
        drop: Drop = lambda packet, to, number: False, latest: float = 0.001, double: float = 0.0,
    ) -> None:  # fmt: skip
        self.random = random
        self.settings = settings or PgmSettings()
        self.now = 0.0
        self.source = Source(self.settings, GSI, 0xC001, GROUP, PORT, OWN, first, self.now)
        self.hosts = [Host(self.settings, Random(random.random())) for _ in range(receivers)]
        self.drop, self.latest, self.double = drop, latest, double
        self.sent: list[tuple[float, Packet]] = []  # by the source
        self._order = count()
        self._air: list[tuple[float, int, int, bytes]] = []  # when, a number, to whom, what
        self._to_source = 0
        self.run(latest)  # the first SPM: who misses it, or data before it, joins late

    def packets(self, kind: PacketType) -> list[tuple[float, Packet]]:
        return [(when, packet) for when, packet in self.sent if packet.kind == kind]

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            soon = min([self.source.deadline, *(self._due(host) for host in self.hosts),
                        self._air[0][0] if self._air else NEVER])  # fmt: skip
            if soon > end:
                self.now = end
                return
            self.now = max(self.now, soon)
            self._turn()

    @staticmethod
    def _due(host: Host) -> float:
        return NEVER if host.receiver is None else host.receiver.deadline

    def _turn(self) -> None:
        while self._air and self._air[0][0] <= self.now:
            _, _, to, octets = heapq.heappop(self._air)
            self._arrive(to, decode(octets))
        for effect in self.source.take(self.now):
            self.sent.append((self.now, decode(effect.octets)))
            for number in range(len(self.hosts)):
                self._put(number, effect.octets)
        for number, host in enumerate(self.hosts):
            if host.receiver is not None and host.receiver.deadline <= self.now:
                self._do(number, host.receiver.tick(self.now))

    def _put(self, to: int, octets: bytes) -> None:
        packet = decode(octets)
        if to < 0:
            number, self._to_source = self._to_source, self._to_source + 1
        else:
            host = self.hosts[to]
            number, host.heard = host.heard, host.heard + 1
        if self.drop(packet, to, number):
            return
        for _ in range(2 if self.random.random() < self.double else 1):
            at = self.now + self.random.random() * self.latest
            heapq.heappush(self._air, (at, next(self._order), to, octets))

    def _arrive(self, to: int, packet: Packet) -> None:
        if to < 0:
            self.source.nak(packet, self.now)
            return
        host = self.hosts[to]
        if host.receiver is None:
            if not isinstance(packet.body, Spm) and packet.kind != PacketType.ODATA:
                return
            host.receiver = Receiver(
                self.settings, packet.tsi, GROUP, PORT, OWN, host.random.random, host.budget)
        self._do(to, host.receiver.receive(packet, self.now))

    def _do(self, who: int, effects: object) -> None:
        host = self.hosts[who]
        assert isinstance(effects, list)
        for effect in effects:
            if isinstance(effect, Deliver):
                host.delivered.append(effect.apdu)
            elif isinstance(effect, Lost):
                host.lost += effect.count
            elif isinstance(effect, SendNak):
                body = decode(effect.octets).body
                assert isinstance(body, Nak) and effect.to == OWN
                host.naks.append((self.now, body.sequence))
                self._put(-1, effect.octets)
                for other in range(len(self.hosts)):
                    if other != who:
                        self._put(other, effect.octets)
