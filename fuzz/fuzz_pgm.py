"""Fuzz target: PGM packets, and what a receiver and a source make of them. Several packets stand one behind the other,
each with two octets of length."""

from ipaddress import IPv4Address

from lior.errors import Malformed
from lior.protocols.multicast.receiver import Budget, Deliver, Receiver
from lior.protocols.multicast.settings import PgmSettings
from lior.protocols.multicast.source import Source
from lior.wire.pgm import Packet, Tsi, checksum, decode, encode

GROUP, OWN = IPv4Address("234.1.1.1"), IPv4Address("192.0.2.1")
SETTINGS = PgmSettings(max_window=4096, max_early=1 << 20)


def target(data: bytes) -> None:
    receiver: Receiver | None = None
    source = Source(SETTINGS, b"gsi-06", 0xC001, GROUP, 8001, OWN, 1, 0.0)
    source.send(bytes(3000))
    source.take(0.0)
    budget, now = Budget(SETTINGS.max_early), 0.0
    while len(data) > 2:
        size = int.from_bytes(data[:2], "big")
        octets, data = data[2 : 2 + size], data[2 + size :]
        packet = read(octets)
        if packet is None:
            continue
        now += 0.01
        if receiver is None:
            receiver = Receiver(SETTINGS, Tsi(packet.gsi, packet.source_port), GROUP, 8001, OWN, lambda: 0.5, budget)
        for effect in receiver.receive(packet, now) + (receiver.tick(now) if receiver.deadline <= now else []):
            assert not isinstance(effect, Deliver) or len(effect.apdu) <= max(SETTINGS.max_apdu, size)
        assert 0 <= budget.used <= budget.limit + 65536
        source.nak(packet, now)
        source.take(now)


def read(octets: bytes) -> Packet | None:
    if len(octets) >= 16:  # let the checksum be right, or nothing gets past it
        octets = octets[:6] + b"\0\0" + octets[8:]
        octets = octets[:6] + (checksum(octets) or 0xFFFF).to_bytes(2, "big") + octets[8:]
    try:
        packet = decode(octets)
    except Malformed:
        return None
    if packet.body is not None:
        again = decode(encode(packet))
        assert (again.body, again.options, again.tsi) == (packet.body, packet.options, packet.tsi)
    return packet


if __name__ == "__main__":
    from harness import run

    run(target)
