"""Messages that came over HTTP, read from elsewhere: by the second peer over RemoteRead and qm2qm, by Wine and impacket
over qmcomm, and by our own client, which reads what an embedded program reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import lior
from lior.message import Message
from lior.protocols.security.xml_signing import write_signature
from lior.server.transfer_security.administration import SecurityAdministration
from tests.interop.rpc.conftest import PASSWORDS, Queue, RpcDaemon, Sign, login
from tests.interop.rpc.impacket_client import ImpacketPeer
from tests.interop.rpc.test_remote_reads import ACK, EVERYONE_ALL, NACK, NewReader, OldReader
from tests.interop.rpc.verbs import INTEGRITY, PEEK_CURRENT, RECEIVE, SEND
from tests.server.srmp.desk import OTHER_QM, PORT, Built, post, raw, request, services, status, url
from tests.wire import second_user_message

SETTINGS: dict[str, Any] = {"rpc.anonymous": "allow", "srmp.http_port": PORT}
AU, AS_XML = 0x0010, 0x0900
AH = 1 << 25
BODY = b"a body with a NUL at its end\0"
_numbers = itertools.count(1 << 20)


@pytest.fixture
def signer(server: RpcDaemon) -> lior.XmlIdentity:
    made = lior.XmlIdentity.create("sender")
    SecurityAdministration.of_directory(server.data).register_certificate(OTHER_QM, made.certificate_pem)
    return made


@pytest.fixture
def queue(server: RpcDaemon, queue_name: str) -> Iterator[Queue]:
    with ImpacketPeer(server.address, login("root", level=INTEGRITY)) as peer:
        made = Queue(peer, queue_name)
        peer.set_security(made.direct, 4, EVERYONE_ALL).ok()
        yield made


def built(server: RpcDaemon, queue: Queue, **fields: Any) -> Built:
    """One that outlives its server."""
    entries = services() + fields.pop("entries", "")
    fields = {"body": BODY, "extension": b"further", "label": "over HTTP", "entries": entries, **fields}
    return Built(url(server.address, queue.name), **fields)


def posted(server: RpcDaemon, queue: Queue, **fields: Any) -> tuple[bytes, bytes]:
    """What was sent: the envelope, and the request as it went out."""
    made = built(server, queue, identifier=f"uuid:{next(_numbers)}@{OTHER_QM}", **fields)
    kind, entity = made.entity()
    whole = request(server.address, kind, entity)
    assert status(raw(server, whole)) == 200
    return made.envelope(), whole


def packet_of(found: dict[str, Any]) -> bytes:
    """The UserMessage in the sections of R_StartReceive, without what stands behind it."""
    assert found["result"] == 0, hex(found["result"])
    whole = b"".join(section["pSectionBuffer"] for section in found["ppPacketSections"])
    return whole[: int.from_bytes(whole[8:12], "little")]


@pytest.mark.spec("MQ-093", "SR-135")
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("with_body", [False, True])
def test_remote_read_shows_the_request_and_where_its_body_is(
    server: RpcDaemon, queue: Queue, wide: bool, with_body: bool
) -> None:
    fields: dict[str, Any] = {} if with_body else {"body": None, "extension": None}
    envelope, whole = posted(server, queue, **fields)
    reader = NewReader(server, queue.name, wide)
    packet = second_user_message.decode(packet_of(reader.read()), read=True)
    assert packet["user_flags"] & AH
    assert packet["envelope"].encode() == envelope
    assert packet["request"] == whole
    assert packet["request_body"] == (BODY if with_body else b"")
    assert packet["message_size"] == 0  # it is not there twice
    header, body = ("".join(map(chr, text)) if text else "" for _, text in packet["soap"])
    assert header.startswith("<se:Header>") and header.endswith("</se:Header>") and body == ""
    assert reader.end(ACK) == 0
    reader.close()


@pytest.mark.spec("MQ-093")
@pytest.mark.parametrize("delivery", [0, 1])
def test_a_message_that_came_otherwise_does_not_say_http(server: RpcDaemon, queue: Queue, delivery: int) -> None:
    queue.peer.send(queue.open(SEND), body=BODY, label="not over HTTP", delivery=delivery).ok()
    reader = NewReader(server, queue.name)
    packet = second_user_message.decode(packet_of(reader.read()), read=True)
    assert not packet["user_flags"] & AH and "request" not in packet and packet["body"] == BODY
    reader.close()


@pytest.mark.spec("MQ-093")
def test_the_old_way_of_remote_reads_has_no_place_for_the_request(server: RpcDaemon, queue: Queue) -> None:
    """Its packet is that of [MS-MQMQ] 2.2.20: body and properties in their places, and no AH."""
    posted(server, queue)
    reader = OldReader(server, queue.name)
    code, data, handle = reader.read()
    assert code == 0
    packet = second_user_message.decode(data)
    assert not packet["user_flags"] & AH and packet["body"] == BODY
    assert packet["soap"][0][1] is not None
    assert reader.end(handle, NACK) == 0
    reader.close()


@pytest.mark.spec("SR-135")
def test_a_reader_gets_as_much_of_the_request_as_it_wants(server: RpcDaemon, queue: Queue) -> None:
    _, whole = posted(server, queue)
    reader = NewReader(server, queue.name)
    full = reader.read(PEEK_CURRENT)
    packet = packet_of(full)
    size = 16 + len(whole)  # of CompoundMessageHeader
    for room in (0, 16, 100, size - 1):
        first, second = reader.read(PEEK_CURRENT, body=room)["ppPacketSections"]
        assert (first["SectionBufferType"], second["SectionBufferType"]) == (3, 4)
        start = packet.index(whole) - 16
        assert first["pSectionBuffer"] == packet[: start + room]
        assert first["SectionSizeAlloc"] == start + size
        assert second["pSectionBuffer"] == full["ppPacketSections"][0]["pSectionBuffer"][start + size :]
        assert second["SectionSizeAlloc"] == second["SectionSize"] == len(second["pSectionBuffer"])
    (only,) = reader.read(PEEK_CURRENT, body=size)["ppPacketSections"]
    assert only["SectionBufferType"] == 0
    reader.close()


@pytest.mark.parametrize(("spare", "with_texts"), [(30_000, True), (1000, False)])
def test_a_request_that_leaves_no_room_in_a_packet_is_handed_out_without(
    server: RpcDaemon, queue: Queue, spare: int, with_texts: bool
) -> None:
    """The packet of a message has 4 MiB at most, of which the text of the envelope takes some, and takes it again in
    SoapHeader."""
    long = bytes((4 << 20) - spare)
    entries = "<e:more xmlns:e='urn:e'>" + "m" * 8000 + "</e:more>"
    posted(server, queue, body=long, extension=None, entries=entries)
    reader = NewReader(server, queue.name)
    packet = second_user_message.decode(packet_of(reader.read(PEEK_CURRENT, body=1 << 23)), read=True)
    assert not packet["user_flags"] & AH and packet["body"] == long
    assert ("soap" in packet) is with_texts
    reader.close()
    old = OldReader(server, queue.name)
    code, data, _ = old.read(PEEK_CURRENT)
    assert code == 0 and second_user_message.decode(data)["body"] == long
    old.close()


def signed(server: RpcDaemon, queue: Queue, signer: lior.XmlIdentity) -> None:
    text = write_signature(BODY, b"further", OTHER_QM, signer.key, 0x8004, signer.certificate)
    assert post(server, built(server, queue, entries=text)) == 200


@pytest.mark.spec("SR-135")
def test_how_a_message_was_authenticated_is_told_to_who_reads_from_elsewhere(
    server: RpcDaemon, queue: Queue, signer: lior.XmlIdentity
) -> None:
    posted(server, queue)
    signed(server, queue, signer)
    reader = NewReader(server, queue.name)
    plain, proven = (second_user_message.decode(packet_of(reader.read()), read=True) for _ in range(2))
    assert "security" not in plain or not plain["security"][0] & 0x0F10
    assert proven["security"][0] & 0x0F10 == AU | AS_XML
    assert proven["security"][4] == signer.certificate
    reader.close()
    old = OldReader(server, queue.name)  # the first one's messages came back
    assert old.read()[0] == 0
    code, data, _ = old.read()
    assert code == 0 and second_user_message.decode(data)["security"][0] & 0x0F10 == AU | AS_XML
    old.close()


@pytest.mark.spec("SR-135")
def test_clients_of_the_server_are_told_so_too(
    server: RpcDaemon, queue: Queue, signer: lior.XmlIdentity, sign_in: Sign
) -> None:
    posted(server, queue)
    signed(server, queue, signer)
    peer = sign_in("root")
    opened = queue.open(RECEIVE, peer=peer)
    found = [peer.receive(opened).ok()["message"] for _ in range(2)]
    assert [(message.body, message.authenticated) for message in found] == [(BODY, 0), (BODY, 9)]


def properties(message: Message) -> dict[str, Any]:
    """All of it; of the arrival the protocols have whole seconds."""
    return {name: getattr(message, name) for name in Message.__slots__} | {"arrival_time": int(message.arrival_time)}


@pytest.mark.spec("SR-135")
def test_our_client_reads_what_an_embedded_program_reads(
    server: RpcDaemon, queue: Queue, signer: lior.XmlIdentity
) -> None:
    envelope, whole = posted(server, queue)
    signed(server, queue, signer)
    posted(server, queue, body=None, extension=None)
    ways = [
        lior.connect(server.admin_url, token=server.token), lior.connect(server.data),
        lior.connect(server.address, user="root", password=PASSWORDS["root"]),
    ]  # fmt: skip
    seen: list[list[dict[str, Any]]] = []
    for way in ways:
        with way as qm, qm.open_queue(queue.path, "peek") as opened:
            seen.append([properties(message) for message in opened])
    server.terminate()
    try:
        with server.offline() as qm, qm.open_queue(queue.path) as opened:
            received = [properties(opened.receive(timeout=60)) for _ in range(3)]
    finally:
        server.start()
    assert received[0]["soap"].compound_message == whole and received[0]["soap"].envelope.encode() == envelope
    assert received[1]["security"].authentication_level == lior.message.AuthenticationLevel.XML_SIG
    for found in seen:
        for one, other in zip(found, received, strict=True):
            assert {name: (one[name], other[name]) for name in other if one[name] != other[name]} == {}
