"""SRMP in files and captures, and the sessions and acknowledgements of both protocols."""

import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from scapy.layers.inet import IP, TCP
from scapy.utils import wrpcap

from lior.client.capture import archived, captured, decoded
from lior.client.conversations import acknowledgements, sessions
from lior.client.srmp_archive import Request, Requests
from lior.message import Message, MessageClass, ObjectId
from lior.wire.headers import SessionHeader
from lior.wire.message_packet import to_packet
from lior.wire.mime import format_entity
from lior.wire.session_packets import (
    ConnectionParameters,
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    SessionAck,
)
from lior.wire.srmp_message import Receipts, to_envelope
from lior.wire.srmp_writer import write_envelope
from tests.client.test_capture import link, packets

BEGIN = 1_700_000_000.0
GUID, OTHER = UUID(int=7), UUID(int=8)
URL = "http://192.0.2.2/msmq/private$/orders"


def posted(number: int, chunked: bool = False) -> bytes:
    message = Message(b"%d" % number * 300, f"n{number}", identifier=ObjectId(GUID, number + 1), sent_time=BEGIN,
                      source_queue_manager=GUID)  # fmt: skip
    octets = write_envelope(to_envelope(message, URL, Receipts()))
    kind, pieces = format_entity(octets, message.body, b"", str(GUID), number)
    body = b"".join(pieces)
    size = f"Content-Length: {len(body)}"
    if chunked:
        half = len(body) // 2
        size = "Transfer-Encoding: chunked"
        body = b"".join(b"%x;x=y\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:])) + b"0\r\n\r\n"
    lines = ["POST /msmq/private$/orders HTTP/1.1", "Host: 192.0.2.2", 'SOAPAction: "MSMQMessage"',
             f"Content-Type: {kind}", size, "", ""]  # fmt: skip
    return "\r\n".join(lines).encode() + body


def frames(data: bytes, chance: random.Random, source: str, sport: int, target: str, dport: int) -> list[Any]:
    """Of one direction, with its SYN, cut anywhere."""
    network = link() / IP(src=source, dst=target)
    found, at = [network / TCP(sport=sport, dport=dport, seq=999, flags="S")], 0
    while at < len(data):
        step = chance.randrange(1, 1400)
        found.append(network / TCP(sport=sport, dport=dport, seq=1000 + at, flags="A") / data[at : at + step])
        at += step
    return found


def labels(found: Any) -> list[str]:
    return [each.message.label for each in found if each.message is not None]


def test_requests_come_out_of_a_connection_cut_anywhere_and_out_of_order(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    page = b"GET /index.html HTTP/1.1\r\nHost: x\r\n\r\nPOST /form HTTP/1.1\r\nContent-Length: 3\r\n\r\na=b"
    data = page + b"".join(posted(number, chunked=number % 3 == 0) for number in range(20)) + page
    given = frames(data, chance, "192.0.2.1", 50001, "192.0.2.2", 80)
    for _ in range(10):
        at = chance.randrange(1, len(given) - 1)
        given[at], given[at + 1] = given[at + 1], given[at]
        given.insert(chance.randrange(1, len(given)), given[chance.randrange(1, at + 1)])
    wrpcap(str(tmp_path / "a.pcap"), given)
    found = list(captured([tmp_path / "a.pcap"]))
    assert labels(found) == [f"n{number}" for number in range(20)]
    assert {each.kind for each in found} == {"user message"} and found[0].source == "192.0.2.1:50001"
    assert found[4].message is not None and found[4].message.body == b"4" * 300
    assert found[4].message.destination_queue == f"DIRECT={URL}".replace("http", "HTTP")
    assert not list(captured([tmp_path / "a.pcap"], http_port=8080))


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_requests_are_found_whatever_the_pieces_are(step: int) -> None:
    broken = b"POST broken HTTP/1.1\r\nContent-Length: x\r\n\r\n"
    data = b"noise\r\n" + posted(1) + posted(2, chunked=True) + broken + posted(3)
    requests, found = Requests(), list[Request]()
    for at in range(0, len(data), step):
        found += requests.feed(data[at : at + step])
    assert len(found) == 3 and all(each.content_type.startswith("multipart/related") for each in found)


def test_files_hold_requests_entities_or_envelopes(tmp_path: Path) -> None:
    whole = posted(1)
    head, _, body = whole.partition(b"\r\n\r\n")
    _, _, rest = head.partition(b"\r\n")
    message = Message(b"", "bare", identifier=ObjectId(GUID, 9), source_queue_manager=GUID, sent_time=BEGIN)
    for name, data in {"requests": whole + posted(2), "headers": rest + b"\r\n\r\n" + body, "entity": body,
                       "envelope.xml": write_envelope(to_envelope(message, URL, Receipts())),
                       "noise": b"nothing of ours", "cut": body[:500]}.items():  # fmt: skip
        (tmp_path / name).write_bytes(data)
    found = {Path(each.source).name: each for each in archived(sorted(tmp_path.iterdir()))}
    assert sorted(labels(archived(sorted(tmp_path.iterdir())))) == ["bare", "n1", "n1", "n1", "n2"]
    assert found["noise"].error is not None and "neither" in found["noise"].error
    assert found["cut"].error is not None and found["cut"].message is None


def conversation(tmp_path: Path, chance: random.Random) -> None:
    """A session that is established twice between the same ports, five messages in each; two are acknowledged."""
    client, server = ("192.0.2.1", 50000), ("192.0.2.2", 1801)

    def establish(answer: bool) -> bytes:
        server_guid = OTHER.bytes_le if answer else bytes(16)
        return EstablishConnection(EstablishConnectionHeader(GUID.bytes_le, server_guid)).encode()

    parameters = ConnectionParameters(ConnectionParametersHeader(window_size=32)).encode()
    ack = to_packet(Message(message_class=int(MessageClass.NACK_ACCESS_DENIED), identifier=ObjectId(OTHER, 1),
                            source_queue_manager=OTHER, correlation_id=ObjectId(GUID, 3).to_bytes(),
                            destination_queue="DIRECT=TCP:192.0.2.1\\private$\\admin"))  # fmt: skip
    found: list[Any] = []
    for _ in range(2):
        found += frames(establish(False), chance, *client, *server)
        found += frames(establish(True), chance, *server, *client)
        asked, at = parameters + b"".join(packets(5)), 1000 + len(establish(False))
        network = link() / IP(src=client[0], dst=server[0])
        found += [network / TCP(sport=50000, dport=1801, seq=at + each, flags="A") / asked[each : each + 900]
                  for each in range(0, len(asked), 900)]  # fmt: skip
        answered = parameters + SessionAck(SessionHeader(5, 1, 0b10111)).encode() + ack
        network = link() / IP(src=server[0], dst=client[0])
        found.append(network / TCP(sport=1801, dport=50000, seq=1000 + len(establish(True)), flags="A") / answered)
    for number, frame in enumerate(found):
        frame.time = BEGIN + number
    wrpcap(str(tmp_path / "a.pcap"), found)


def test_a_session_is_told_with_both_ends_and_what_went_through_it(tmp_path: Path, seed: int) -> None:
    conversation(tmp_path, random.Random(seed))
    first, second = sessions(captured([tmp_path / "a.pcap"]))
    for each in (first, second):
        assert (each.client, each.server, each.transport) == ("192.0.2.1:50000", "192.0.2.2:1801", "mqqb")
        assert (each.client_qm, each.server_qm, each.window_size) == (GUID, OTHER, 32)
        assert (each.messages, each.acknowledgements, each.packets, each.damaged) == (5, 2, 11, 0)
    assert BEGIN <= first.began < first.ended < second.began < second.ended


def test_acknowledgements_say_of_what_and_why(tmp_path: Path, seed: int) -> None:
    conversation(tmp_path, random.Random(seed))
    found = list(acknowledgements(captured([tmp_path / "a.pcap"])))
    assert [each["kind"] for each in found] == ["session ack", "message"] * 2
    assert (found[0]["acknowledged"], found[0]["recoverable"], found[0]["flags"]) == (5, 1, 0b10111)
    assert found[1]["message_id"] == str(ObjectId(GUID, 3)) and found[1]["reason"] == "NACK_ACCESS_DENIED"


def test_what_does_not_decode_is_counted_and_stops_nothing() -> None:
    broken = decoded(packets(1)[0][:60], 1.0, "a:1", "b:1801")
    (found,) = sessions([broken])
    assert (found.damaged, found.messages, found.packets) == (1, 0, 1)
    assert not list(acknowledgements([broken]))
