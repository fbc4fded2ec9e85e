"""PGM source and receivers on a fake network and a fake clock ([MC-MQSRM] 2.1.3, RFC 3208)."""

from __future__ import annotations

import itertools
import struct
from ipaddress import IPv4Address
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lior.errors import Malformed
from lior.protocols.multicast.receiver import Budget, Deliver, Lost, Receiver
from lior.protocols.multicast.settings import PgmSettings
from lior.protocols.multicast.source import Source
from lior.wire.pgm import (
    SERIAL,
    Data,
    Fragment,
    Nak,
    Options,
    Packet,
    PacketType,
    Spm,
    Tsi,
    checksum,
    decode,
    encode,
)
from tests.protocols.multicast.network import GROUP, GSI, OWN, PORT, Network

FAST = PgmSettings(rate=10_000_000)


def messages(count: int, size: int = 100) -> list[bytes]:
    return [b"%06d" % number + bytes(size - 6) for number in range(count)]


def third(packet: Packet, to: int, number: int) -> bool:
    return to == 1 and number % 3 == 2


@pytest.mark.spec("SR-019", "SR-017", "SR-018", "SR-015")
def test_a_receiver_that_loses_every_third_packet_gets_everything_once_and_in_order(seed: int) -> None:
    net = Network(Random(seed), 2, FAST, drop=third)
    sent = messages(30, 20_000)
    for apdu in sent:
        net.source.send(apdu)
    net.run(30)
    assert [host.delivered for host in net.hosts] == [sent, sent]
    assert [host.lost for host in net.hosts] == [0, 0]
    confirmed = {p.body.sequence for _, p in net.packets(PacketType.NCF) if isinstance(p.body, Nak)}
    repaired = {p.body.sequence for _, p in net.packets(PacketType.RDATA) if isinstance(p.body, Data)}
    asked = {sequence for _, sequence in net.hosts[1].naks}
    assert asked <= confirmed == repaired
    assert not net.hosts[0].naks


def foreign(kind: int, rest: bytes) -> bytes:
    """A packet of a type of RFC 3208's that [MC-MQSRM] 2.1.3 leaves out, with its checksum."""
    octets = bytearray(struct.pack(">HHBBH6sH", 0xC001, PORT, kind, 0, 0, GSI, 0) + rest)
    octets[6:8] = checksum(bytes(octets)).to_bytes(2, "big")
    return bytes(octets)


@pytest.mark.spec("SR-015")
@pytest.mark.parametrize("kind", [0x01, 0x02, 0x03, 0x07, 0x09, 0x0B, 0x0D, 0x0F], ids=hex)
@pytest.mark.parametrize("rest", [b"", bytes(48), b"\xff" * 48])
def test_polls_and_requests_that_nobody_here_answers_are_passed_over(kind: int, rest: bytes) -> None:
    net = Network(Random(1), 1, FAST)
    net.source.send(messages(1)[0])
    net.run(1)
    receiver, sent = net.hosts[0].receiver, len(net.sent)
    assert receiver is not None
    assert receiver.receive(decode(foreign(kind, rest)), net.now) == []
    net.source.nak(decode(foreign(kind, rest)), net.now)
    assert len(net.sent) == sent
    more = messages(3)
    for apdu in more:
        net.source.send(apdu)
    net.run(1)
    assert net.hosts[0].delivered == [messages(1)[0], *more]


@pytest.mark.spec("SR-015")
@pytest.mark.parametrize("body", [
    Data(1, 1, b"x"), Data(1, 1, b"x", repair=True), Nak(1, OWN, GROUP), Nak(1, OWN, GROUP, confirms=True),
])  # fmt: skip
def test_parity_packets_are_dropped(body: Data | Nak) -> None:
    kind = (PacketType.NCF if body.confirms else PacketType.NAK) if isinstance(body, Nak) else (
        PacketType.RDATA if body.repair else PacketType.ODATA)
    octets = bytearray(encode(Packet(GSI, 0xC001, PORT, kind, body)))
    assert decode(bytes(octets)).body == body
    octets[5] |= 0x80
    octets[6:8] = bytes(2)
    octets[6:8] = checksum(bytes(octets)).to_bytes(2, "big")
    with pytest.raises(Malformed):
        decode(bytes(octets))


@pytest.mark.spec("SR-017", "SR-019", "SR-027", "SR-016")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    chance=st.integers(0, 2**32), loss=st.floats(0, 0.4), double=st.floats(0, 0.3), late=st.floats(0.0001, 0.05),
    first=st.sampled_from([1, SERIAL - 5, SERIAL // 2 - 3, 7]), sizes=st.lists(st.integers(1, 9000), max_size=25),
)  # fmt: skip
def test_whatever_the_network_does_messages_come_once_and_in_order(
    chance: int, loss: float, double: float, late: float, first: int, sizes: list[int]
) -> None:
    random = Random(chance)

    def drop(packet: Packet, to: int, number: int) -> bool:
        return number > 0 and random.random() < loss  # the first SPM: who misses it is a late joiner

    net = Network(random, 3, FAST, first=first, drop=drop, latest=late, double=double)
    sent = [number.to_bytes(2, "big") + bytes(size) for number, size in enumerate(sizes)]
    for apdu in sent:
        net.source.send(apdu)
    net.run(120)
    for host in net.hosts:
        assert host.delivered == sent
        assert host.lost == 0
        assert host.budget.used == 0


@pytest.mark.spec("SR-020")
@pytest.mark.parametrize(("rate", "least"), [(70_000, 13.9), (1_000_000, 0.9)])
def test_no_more_is_sent_than_the_rate_allows(rate: int, least: float) -> None:
    given = PgmSettings(rate=rate)
    net = Network(Random(1), 1, given)
    sent = messages(20, 50_000)
    for apdu in sent:
        net.source.send(apdu)
    net.run(60)
    assert net.hosts[0].delivered == sent
    times = [(when, len(encode(packet)) + 20) for when, packet in net.packets(PacketType.ODATA)]
    assert least < times[-1][0] < 1.2 * least + 1
    bucket = max(given.mtu, rate * 0.04)
    for start, _ in times:
        within = sum(size for when, size in times if start <= when < start + 0.04)
        assert within <= bucket + 0.04 * rate + 1


@pytest.mark.spec("SR-021")
def test_the_window_moves_in_steps_and_what_left_it_is_not_repaired() -> None:
    given = PgmSettings(rate=1_000_000, window=20)
    net = Network(Random(1), 1, given)
    for apdu in messages(10):
        net.source.send(apdu)
    net.run(16.9)
    assert net.source.trail == 1
    net.run(4)
    assert net.source.trail == 11
    steps = {p.body.trail: when for when, p in reversed(net.packets(PacketType.SPM)) if isinstance(p.body, Spm)}
    assert steps[11] % 3 < 0.6  # every TXW_ADV_IVL, 15 % of the window; told by the next SPM
    before = len(net.packets(PacketType.NCF))
    net.source.nak(nak(1), net.now)
    net.run(1)
    assert len(net.packets(PacketType.NCF)) == before
    assert not net.packets(PacketType.RDATA)


def nak(sequence: int, *more: int) -> Packet:
    return Packet(GSI, PORT, 0xC001, PacketType.NAK, Nak(sequence, OWN, GROUP), Options(nak_list=more))


@pytest.mark.spec("SR-021")
def test_a_repair_that_is_owed_holds_the_edge_of_the_window() -> None:
    given = PgmSettings(rate=1_000_000, window=20, repair_delay=60.0)
    net = Network(Random(1), 1, given)
    for apdu in messages(10):
        net.source.send(apdu)
    net.run(16)
    net.source.nak(nak(6), net.now)  # repaired half a minute later
    net.run(10)
    assert net.source.trail == 6
    net.run(40)
    assert [p.body.sequence for _, p in net.packets(PacketType.RDATA) if isinstance(p.body, Data)] == [6]
    assert net.source.trail == 11


@pytest.mark.spec("SR-022", "SR-023")
def test_heartbeats_and_ambient_messages_keep_their_times() -> None:
    quiet = PgmSettings(rate=10_000_000, ambient_interval=1e9)
    net = Network(Random(1), 1, quiet)
    net.source.send(b"x")
    net.run(100)
    beats = [when for when, _ in net.packets(PacketType.SPM)][1:]
    gaps = [b - a for a, b in zip([0.0, *beats], beats, strict=False)]
    assert gaps == pytest.approx([1, 2, 4, 8, 15, 15, 15, 15, 15], abs=0.01)
    idle = Network(Random(1), 1, PgmSettings())
    idle.run(10.05)
    assert len(idle.packets(PacketType.SPM)) == 21
    busy = Network(Random(1), 1, PgmSettings(rate=10**9))
    for apdu in messages(200):
        busy.source.send(apdu)
    busy.run(0.4)
    kinds = [packet.kind for _, packet in busy.sent if packet.kind in (PacketType.SPM, PacketType.ODATA)]
    spms = [number for number, kind in enumerate(kinds) if kind == PacketType.SPM]
    assert len(spms) >= 5
    assert all(b - a == 51 for a, b in itertools.pairwise(spms))


@pytest.mark.spec("SR-024")
def test_naks_wait_a_random_moment_and_are_repeated_ten_times(seed: int) -> None:
    given = PgmSettings(rate=10_000_000, window=10_000, ambient_interval=0.2)
    silent = Network(Random(seed), 1, given, drop=lambda p, to, n: p.kind in (PacketType.NCF, PacketType.RDATA)
                     or (isinstance(p.body, Data) and p.body.sequence == 2))  # fmt: skip
    for apdu in messages(3):
        silent.source.send(apdu)
    silent.run(60)
    host = silent.hosts[0]
    times = [when for when, sequence in host.naks if sequence == 2]
    assert len(times) == 10
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert all(0.75 + 0.01 <= gap <= 0.75 + 0.051 for gap in gaps)
    assert len(set(gaps)) > 5
    assert (host.lost, host.delivered) == (1, [messages(3)[0], messages(3)[2]])


@pytest.mark.spec("SR-024", "SR-029")
def test_data_that_does_not_follow_its_confirmation_is_asked_for_in_ten_rounds(seed: int) -> None:
    given = PgmSettings(rate=10_000_000, window=10_000)
    net = Network(Random(seed), 1, given, drop=lambda p, to, n: p.kind == PacketType.RDATA
                  or (isinstance(p.body, Data) and p.body.sequence == 2))  # fmt: skip
    for apdu in messages(5):
        net.source.send(apdu)
    net.run(60)
    times = [when for when, _ in net.hosts[0].naks]
    assert len(times) == 10
    assert all(2.0 < b - a < 2.1 for a, b in itertools.pairwise(times))
    assert net.hosts[0].lost == 1
    assert len(net.hosts[0].delivered) == 4


@pytest.mark.spec("SR-025")
def test_repairs_wait_longer_the_younger_the_packet_and_several_naks_make_one() -> None:
    net = Network(Random(1), 1, FAST)
    for apdu in messages(60):
        net.source.send(apdu)
    net.run(1)
    start = net.now
    for sequence in (1, 60, 60, 1):
        net.source.nak(nak(sequence), net.now)
    net.run(1)
    found = {p.body.sequence: when - start for when, p in net.packets(PacketType.RDATA) if isinstance(p.body, Data)}
    assert len(net.packets(PacketType.RDATA)) == 2
    assert found[1] == pytest.approx(0.0, abs=0.001)
    assert found[60] == pytest.approx(0.059, abs=0.001)


def receiver(given: PgmSettings = FAST, budget: Budget | None = None) -> Receiver:
    return Receiver(given, Tsi(GSI, 0xC001), GROUP, PORT, OWN, lambda: 0.5, budget)


def data(sequence: int, content: bytes = b"x", fragment: Fragment | None = None, trail: int = 1) -> Packet:
    return Packet(GSI, 0xC001, PORT, PacketType.ODATA, Data(sequence, trail, content), Options(fragment=fragment))


def spm(sequence: int, trail: int, lead: int, **options: object) -> Packet:
    return Packet(GSI, 0xC001, PORT, PacketType.SPM, Spm(sequence, trail, lead, OWN),
                  Options(**options))  # type: ignore[arg-type]


@pytest.mark.spec("SR-026", "SR-003")
def test_an_announced_gigabyte_takes_no_memory_and_the_group_goes_on() -> None:
    one = receiver()
    one.receive(spm(1, 1, 0), 0.0)
    assert one.receive(data(1, b"y", Fragment(1, 0, 1 << 30)), 0.0) == []
    assert one.receive(data(1, b"y", Fragment(1, 0, 65537)), 0.0) == []
    assert one.receive(data(1, b"good"), 0.0) == [Deliver(b"good")]
    assert one.receive(data(2, b"ab", Fragment(2, 0, 1)), 0.0) == []  # more than it says
    assert one.receive(data(2, b"next"), 0.0) == [Deliver(b"next")]


@pytest.mark.spec("SR-026", "SR-029")
def test_what_comes_too_early_is_kept_within_a_bound() -> None:
    budget = Budget(10_000)
    one = receiver(budget=budget)
    one.receive(spm(1, 1, 0), 0.0)
    for sequence in range(2, 100):
        one.receive(data(sequence, bytes(1000)), 0.0)
    assert budget.used == 10_000
    assert len(one.receive(data(1), 0.0)) == 11
    assert budget.used == 0


@pytest.mark.spec("SR-029")
def test_a_gap_beyond_the_window_is_counted_and_the_session_goes_on() -> None:
    one = receiver()
    one.receive(spm(1, 1, 0), 0.0)
    assert one.receive(data(1), 0.0) == [Deliver(b"x")]
    far = 1 + 200_000
    assert one.receive(data(far, b"later", trail=far), 1.0) == [Lost(far - 2), Deliver(b"later")]
    assert one.receive(spm(2, far, far + 100_000), 1.0) == [Lost(100_000)]
    assert one.receive(data(far + 100_001, b"again", trail=far), 1.0) == [Deliver(b"again")]


def test_one_packet_makes_no_storm_of_naks() -> None:
    one = receiver()
    one.receive(spm(1, 1, 0), 0.0)
    one.receive(spm(2, 1, 60_000), 0.0)
    assert len(one.tick(1.0)) == 64


@pytest.mark.spec("SR-028")
def test_a_late_joiner_begins_with_the_next_whole_message() -> None:
    one = receiver()
    parts = [Fragment(5, 0, 30), Fragment(5, 10, 30), Fragment(5, 20, 30)]
    assert one.receive(data(6, bytes(10), parts[1]), 0.0) == []
    assert one.receive(data(7, bytes(10), parts[2]), 0.0) == []
    assert one.receive(data(8, b"whole"), 0.0) == [Deliver(b"whole")]


@pytest.mark.spec("SR-028")
def test_a_reset_ends_the_session_and_fin_lets_repairs_come() -> None:
    one = receiver()
    one.receive(spm(1, 1, 0), 0.0)
    one.receive(data(2, b"second"), 0.0)
    one.receive(spm(2, 1, 2, fin=True), 0.0)
    assert one.finished
    assert one.receive(data(1, b"first"), 0.0) == [Deliver(b"first"), Deliver(b"second")]
    other = receiver()
    other.receive(spm(1, 1, 0), 0.0)
    other.receive(data(2, b"second"), 0.0)
    other.receive(spm(2, 1, 2, reset=0), 0.0)
    assert other.finished
    assert other.deadline == float("inf")
    assert other.receive(data(1, b"first"), 0.0) == []


@pytest.mark.spec("SR-028")
def test_a_source_that_is_cut_off_says_so_and_repairs_nothing() -> None:
    net = Network(Random(1), 1, PgmSettings())
    for apdu in messages(100, 1000):
        net.source.send(apdu)
    net.run(0.1)
    net.source.cancel()
    net.run(1)
    assert [p.options.reset for _, p in net.packets(PacketType.SPM) if p.options.reset is not None] == [0]
    sent = len(net.packets(PacketType.ODATA))
    net.source.nak(nak(1), net.now)
    net.run(1)
    assert len(net.packets(PacketType.ODATA)) == sent
    assert not net.packets(PacketType.NCF)


@pytest.mark.spec("SR-028", "SR-019")
def test_a_source_that_finishes_still_serves_repairs() -> None:
    net = Network(Random(1), 1, FAST, drop=lambda p, to, n: p.kind == PacketType.ODATA and n == 2)
    net.source.send(b"one")
    net.source.send(b"two")
    net.run(0.0001)
    net.source.finish(net.now)
    net.run(5)
    assert net.hosts[0].delivered == [b"one", b"two"]
    assert any(packet.options.fin for _, packet in net.packets(PacketType.SPM))


@pytest.mark.spec("SR-018", "SR-016")
def test_a_nak_goes_where_the_last_spm_says_with_its_ports_swapped() -> None:
    one = receiver()
    path = IPv4Address("192.0.2.77")
    first = spm(1, 1, 0)
    assert isinstance(first.body, Spm)
    first.body.path = path
    one.receive(first, 0.0)
    one.receive(data(2), 0.0)
    (effect,) = one.tick(1.0)
    packet = decode(effect.octets)  # type: ignore[union-attr]
    assert effect.to == path  # type: ignore[union-attr]
    assert (packet.source_port, packet.destination_port) == (PORT, 0xC001)
    assert packet.body == Nak(1, OWN, GROUP)


@pytest.mark.spec("SR-019")
def test_a_confirmation_or_another_receivers_nak_keeps_ours_back() -> None:
    for heard, quiet_for in ((PacketType.NCF, 2.0), (PacketType.NAK, 0.75)):
        one = receiver()
        one.receive(spm(1, 1, 0), 0.0)
        one.receive(data(2), 0.0)
        one.receive(Packet(GSI, 0xC001, PORT, heard, Nak(1, OWN, GROUP, heard is PacketType.NCF)), 0.001)
        assert one.tick(quiet_for - 0.01) == []
        one.tick(quiet_for + 0.01)
        assert len(one.tick(quiet_for + 0.1)) == 1


@pytest.mark.spec("SR-017")
def test_a_message_of_several_packets_says_where_each_part_stands() -> None:
    source = Source(FAST, GSI, 0xC001, GROUP, PORT, OWN, 5, 0.0)
    source.send(bytes(20_000))
    packets = [decode(effect.octets) for effect in source.take(0.0)]
    parts = [packet.options.fragment for packet in packets if packet.kind == PacketType.ODATA]
    assert all(part is not None and part.first == 5 and part.length == 20_000 for part in parts)
    offsets = [part.offset for part in parts if part is not None]
    assert offsets == sorted(set(offsets)) and len(offsets) == 14
    assert all(len(encode(packet)) + 20 <= 1500 for packet in packets)


@pytest.mark.spec("SR-023", "SR-018")
def test_the_leading_edge_is_the_last_data_sent_not_the_last_that_waits() -> None:
    net = Network(Random(1), 1, PgmSettings())
    for apdu in messages(100, 1400):
        net.source.send(apdu)
    net.run(1)
    last = 0
    for _, packet in net.sent:
        if packet.kind == PacketType.ODATA and isinstance(packet.body, Data):
            last = packet.body.sequence
        elif isinstance(packet.body, Spm):
            assert packet.body.lead == last


def jump(receiver: Receiver, to: int) -> list[object]:
    """The first packet, and one from far ahead."""
    found: list[object] = []
    for sequence in (0, to):
        packet = Packet(GSI, 7, PORT, PacketType.ODATA, Data(sequence, 0, b"x"))
        found += receiver.receive(decode(encode(packet)), 0.0)
    return [effect for effect in found if isinstance(effect, Lost)]


@pytest.mark.spec("SR-026")
def test_forged_gaps_of_many_sources_take_no_more_memory_than_one_may() -> None:
    budget = Budget(1 << 20, numbers=2000)
    receivers = [
        Receiver(FAST, Tsi(GSI, number), GROUP, PORT, OWN, lambda: 0.5, budget) for number in range(4)
    ]
    assert jump(receivers[0], 1901) == []
    assert budget.numbers == 1900
    assert jump(receivers[1], 1501) == [Lost(1500)]  # as if it had joined now
    assert jump(receivers[2], 501) == []  # what a source needs it has, whatever others take
    assert budget.numbers == 1900 + 500
    receivers[0].close()
    assert budget.numbers == 500
    assert jump(receivers[3], 1501) == []
    for receiver in receivers:
        receiver.close()
    assert budget.numbers == 0
