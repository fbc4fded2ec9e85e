"""The headers of messages that came over HTTP ([MS-MQRR] 2.2.5.1.2): what is broken is refused, in bounded memory."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from lior.errors import LiorError, Malformed
from lior.message import AuthenticationLevel, Message, MessageSecurity, MessageSoap, ObjectId
from lior.wire.message_packet import to_packet
from lior.wire.remote_packets import authentication_level, from_read, put_srmp, to_read
from lior.wire.srmp_packet import Srmp
from lior.wire.user_message import UserMessage
from tests.wire import second_user_message

HERE = UUID("11111111-2222-3333-4444-555555555555")
ENVELOPE = "<se:Envelope>grüße \U0001f4e8</se:Envelope>"
BODY = b"\0\xffbody"


def request(body: bytes = BODY) -> bytes:
    envelope = ENVELOPE.encode()
    parts = b"--b\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s" % (len(envelope), envelope)
    parts += b"--b\r\nContent-Id: body@%s\r\nContent-Length: %d\r\n\r\n%s--b--\r\n" % (b"x", len(body), body)
    head = b"POST / HTTP/1.1\r\nHost: h\r\ncontent-TYPE: multipart/related; boundary=b; type=text/xml\r\n\r\n"
    return head + parts


def message(**fields: object) -> Message:
    soap = MessageSoap(envelope=ENVELOPE, compound_message=request(), header="<se:Header/>")
    values = {"body": BODY, "soap": soap, "identifier": ObjectId(HERE, 1), "destination_queue": "DIRECT=HTTP://h/q",
              "source_queue_manager": HERE, **fields}  # fmt: skip
    return Message(**values)  # type: ignore[arg-type]


def packet_of(given: Message) -> bytes:
    made = to_read(given, HERE)
    assert put_srmp(made, given)
    return made.encode()


@pytest.mark.parametrize("fields", [
    {}, {"label": "x"}, {"extension": b"123"}, {"tracing_requested": True}, {"soap": MessageSoap(ENVELOPE, request())},
    {"destination_multi_queue": "DIRECT=HTTP://a/b,DIRECT=HTTP://c/d"},
])  # fmt: skip
def test_what_is_written_is_read_by_both_readers(fields: dict[str, object]) -> None:
    given = message(**fields)
    packet = packet_of(given)
    second = second_user_message.decode(packet, read=True)
    assert (second["envelope"], second["request"], second["request_body"]) == (ENVELOPE, request(), BODY)
    found = from_read(packet, queue_manager=HERE)
    assert (found.body, found.soap, found.packet) == (BODY, given.soap, b"")
    assert UserMessage.decode(packet, remote_read=True).encode() == packet


@pytest.mark.spec("MQ-093")
def test_between_queue_managers_the_mark_is_neither_set_nor_believed() -> None:
    sent = second_user_message.decode(to_packet(message(soap=MessageSoap(header="<x/>"))))
    assert not sent["user_flags"] & 1 << 25 and sent["body"] == BODY
    with pytest.raises(Malformed):  # the headers are behind the last one that there may be
        UserMessage.decode(packet_of(message()))


@pytest.mark.parametrize("level", list(AuthenticationLevel))
def test_the_level_of_authentication_is_read_from_who_has_the_queue_and_from_nobody_else(
    level: AuthenticationLevel,
) -> None:
    given = message(security=MessageSecurity(sender_certificate=b"DER", authentication_level=level.value))
    packet = to_read(given, HERE).encode()
    found = from_read(packet, queue_manager=HERE)
    assert found.security is not None and found.security.authentication_level == level
    claimed = UserMessage.decode(packet)
    assert claimed.security is not None
    flags = claimed.security.header.flags
    assert flags & 0x0F10 == ({0: 0, 1: 0x110, 3: 0x310, 5: 0x510, 7: 0x910}[level])


@pytest.mark.parametrize(("flags", "level"), [
    (0x0000, 0), (0x0010, 1), (0x0110, 1), (0x0300, 3), (0x0310, 3), (0x0500, 5), (0x0910, 7), (0x0200, 0), (0x0F10, 0),
])  # fmt: skip
def test_other_queue_managers_may_say_the_level_with_either_flag(flags: int, level: int) -> None:
    assert authentication_level(flags | 0x00A1) == level


def test_a_request_that_is_none_or_has_another_body_is_not_shown() -> None:
    for compound in (b"", b"POST / HTTP/1.1\r\n\r\n", b"no request", request(b"another")):
        given = message(soap=MessageSoap(ENVELOPE, compound))
        packet = to_read(given, HERE)
        assert not put_srmp(packet, given) and packet.srmp is None and packet.body == BODY
    given = message(soap=MessageSoap("", request()))  # AH needs both
    assert not put_srmp(to_read(given, HERE), given)


def test_the_length_of_the_envelope_is_read_in_characters_and_in_bytes() -> None:
    packet = bytearray(packet_of(message()))
    text = (ENVELOPE + "\0").encode("utf-16-le")
    at = packet.index(text) - 4
    assert int.from_bytes(packet[at : at + 4], "little") == len(text) // 2
    packet[at : at + 4] = len(text).to_bytes(4, "little")
    found = from_read(packet, queue_manager=HERE)
    assert found.soap is not None and (found.soap.envelope, found.body) == (ENVELOPE, BODY)


@pytest.mark.parametrize(("field", "value"), [
    (4, 1 << 31), (4, 0xFFFFFFFF), (8, 1 << 31), (8, 0xFFFFFFFF), (12, 0xFFFFFFFF), (12, 1 << 20),
])  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(field: int, value: int) -> None:
    packet = bytearray(packet_of(message()))
    at = packet.index(request()) - 16 + field
    packet[at : at + 4] = value.to_bytes(4, "little")
    with pytest.raises(Malformed):
        from_read(packet, queue_manager=HERE)


def test_a_packet_with_a_changed_byte_or_cut_is_a_message_or_refused(seed: int) -> None:
    whole, random = packet_of(message()), Random(seed)
    for _ in range(4000):
        changed = bytearray(whole)
        for _ in range(random.choice([1, 1, 2, 5])):
            changed[random.randrange(len(changed))] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
        if random.random() < 0.3:
            del changed[random.randrange(16, len(changed)) :]
            changed[8:12] = len(changed).to_bytes(4, "little")
        try:
            found = from_read(changed, queue_manager=HERE)
        except LiorError:
            continue
        assert isinstance(found, Message)


def test_a_header_without_its_request_is_refused() -> None:
    with pytest.raises(Malformed):
        Srmp.decode(bytes(64), 0, 64)
    with pytest.raises(Malformed):
        Srmp.decode(b"", 0, 0)
