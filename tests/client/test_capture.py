"""Captures that scapy wrote: reassembly, both file formats, damage."""

import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgWriter, wrpcap

from lior.client.capture import captured, stored
from lior.errors import Malformed
from lior.message import Message, ObjectId
from lior.wire.message_packet import to_packet

GUID = UUID(int=7)


def link() -> Any:
    """With both addresses, so that scapy asks no network for them."""
    return Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")


def packets(count: int, size: int = 700) -> list[bytes]:
    return [
        to_packet(Message(bytes([number % 256]) * size, label=f"n{number}", identifier=ObjectId(GUID, number + 1),
                          source_queue_manager=GUID, destination_queue=r"DIRECT=TCP:192.0.2.2\private$\orders"))
        for number in range(count)
    ]  # fmt: skip


def segments(data: bytes, chance: random.Random, network: Any = None, start: int = 0xFFFFFF00) -> list[Any]:
    """Cut anywhere; the sequence numbers pass 2^32."""
    network = network or link() / IP(src="192.0.2.1", dst="192.0.2.2")
    found, at = [network / TCP(sport=50000, dport=1801, seq=start - 1, flags="S")], 0
    while at < len(data):
        step = chance.randrange(1, 1400)
        tcp = TCP(sport=50000, dport=1801, seq=(start + at) & 0xFFFFFFFF, flags="A")
        found.append(network / tcp / data[at : at + step])
        at += step
    return found


def labels(found: Any) -> list[str]:
    return [each.message.label for each in found if each.message is not None]


def test_messages_come_out_of_a_stream_cut_anywhere(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    wrpcap(str(tmp_path / "a.pcap"), segments(b"".join(packets(50)), chance))
    found = list(captured([tmp_path / "a.pcap"]))
    assert labels(found) == [f"n{number}" for number in range(50)]
    assert found[3].source == "192.0.2.1:50000" and found[3].message is not None
    assert found[3].message.identifier == ObjectId(GUID, 4) and found[3].message.body == b"\x03" * 700


def test_retransmissions_and_reordering_do_no_harm(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    given = segments(b"".join(packets(50)), chance)
    for _ in range(30):
        at = chance.randrange(1, len(given) - 1)
        given[at], given[at + 1] = given[at + 1], given[at]
        given.insert(chance.randrange(1, len(given)), given[chance.randrange(1, at + 1)])
    wrpcap(str(tmp_path / "a.pcap"), given)
    assert labels(captured([tmp_path / "a.pcap"])) == [f"n{number}" for number in range(50)]


def test_a_capture_that_begins_in_the_middle_goes_on_at_the_next_packet(tmp_path: Path, seed: int) -> None:
    given = segments(b"".join(packets(50)), random.Random(seed))
    wrpcap(str(tmp_path / "a.pcap"), given[12:])
    found = labels(captured([tmp_path / "a.pcap"]))
    assert found and found == [f"n{number}" for number in range(50 - len(found), 50)]


def test_a_capture_cut_into_files_is_one(tmp_path: Path, seed: int) -> None:
    given = segments(b"".join(packets(40)), random.Random(seed))
    middle = len(given) // 2
    wrpcap(str(tmp_path / "a1.pcap"), given[:middle])
    wrpcap(str(tmp_path / "a2.pcap"), given[middle:])
    assert len(labels(captured([tmp_path / "a1.pcap", tmp_path / "a2.pcap"]))) == 40


def test_pcapng_and_ipv6_are_read_too(tmp_path: Path, seed: int) -> None:
    given = segments(b"".join(packets(20)), random.Random(seed), link() / IPv6(src="2001:db8::1", dst="2001:db8::2"))
    writer = PcapNgWriter(str(tmp_path / "a.pcapng"))
    for each in given:
        writer.write(each)
    writer.close()
    found = list(captured([tmp_path / "a.pcapng"]))
    assert len(labels(found)) == 20 and found[0].source == "[2001:db8::1]:50000"


@pytest.mark.parametrize("size", range(0, 400, 7))
def test_a_file_that_is_cut_off_gives_what_is_whole(tmp_path: Path, size: int) -> None:
    wrpcap(str(tmp_path / "a.pcap"), segments(b"".join(packets(3, 20)), random.Random(1)))
    data = (tmp_path / "a.pcap").read_bytes()
    (tmp_path / "b.pcap").write_bytes(data[: len(data) - size])
    assert len(labels(captured([tmp_path / "b.pcap"]))) <= 3


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"no capture at all")
    with pytest.raises(Malformed):
        list(captured([tmp_path / "a"]))


def test_files_of_packets_are_read_one_packet_behind_the_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"".join(packets(10)))
    assert len(labels(stored([tmp_path / "a"]))) == 10
