"""The second peer itself: on the frames of [MS-MQQB] section 4.1, and against another of its kind."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.interop.second_packets import (
    Establish,
    Name,
    Packet,
    Parameters,
    Security,
    SessionAck,
    SessionHeader,
    Strange,
    Transaction,
    UserMessage,
    decode,
    direct,
    order_queue_of,
    private,
    size_of,
)
from tests.interop.second_peer import Identity, Session, order_ack_of

VECTORS = Path(__file__).resolve().parent.parent / "vectors" / "mqqb"
CLIENT = bytes.fromhex("D1587355509195954997B6E611EA26C6")
SERVER = bytes.fromhex("0789CD434C39118F44459078909EA0FC")


def frame(name: str) -> bytes:
    return bytes.fromhex((VECTORS / f"{name}.hex").read_text())


FRAMES: dict[str, Callable[[], bytes]] = {
    "frame3": lambda: frame("frame3_establish_connection_request"),
    "frame4": lambda: frame("frame4_establish_connection_response"),
    "frame5": lambda: frame("frame5_connection_parameters_request"),
    "frame6": lambda: frame("frame6_connection_parameters_response"),
    "frame7": lambda: frame("frame7_user_message"),
    "frame8": lambda: frame("frame8_session_ack"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_reads_and_writes_the_frames_of_the_document(name: str) -> None:
    data = FRAMES[name]()
    assert decode(data).encode() == data


def test_the_frames_say_what_the_document_says_of_them() -> None:
    assert decode(FRAMES["frame3"]()) == Establish(CLIENT, SERVER, 501140046, 0x0310, reserved=0xC0, priority=3)
    assert decode(FRAMES["frame5"]()) == Parameters(1496, 120000, 64, reserved=0xC0, priority=3)
    assert decode(FRAMES["frame8"]()) == SessionAck(SessionHeader(1, 0, 0, 0, 0, 64), 0xCD, 3)
    message = decode(FRAMES["frame7"]())
    assert isinstance(message, UserMessage)
    assert message.source == CLIENT
    assert message.destination == direct("OS:a04bm02\\q")
    assert (message.message_id, message.label, message.body) == (0x8EE, "mqsender label", b"a\0" * 1000)
    assert message.security is not None
    assert len(message.security.items[0]) == 28
    assert (message.acknowledge, message.admin, message.time_to_reach_queue) == (0x0F, None, 345600)


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_cut_anywhere_is_strange(name: str) -> None:
    data = FRAMES[name]()
    for length in range(16, len(data), 1 if len(data) < 600 else 7):
        cut = data[:8] + struct.pack("<I", length) + data[12:length]
        with pytest.raises(Strange):
            decode(cut)


def whole_message() -> UserMessage:
    return UserMessage(
        private(7), b"body!", CLIENT, SERVER, 9, 10, delivery=1, priority=0, hops=3, negative_journal=True,
        admin=Name(6, number=8, guid=CLIENT), response=Name(5, guid=SERVER), connector=CLIENT,
        transaction=Transaction(1 << 32 | 5, 7, 6, final_ack=True, identifier=0xABCDE, connector=SERVER),
        security=Security(2, (b"i" * 29, b"key", b"", b"cert!", b"")), label="lábel", extension=b"ext",
        debug=b"\1\0\0\0" + CLIENT, session=SessionHeader(1, 2, 3, 4, 5, 6), allocated=16,
    )  # fmt: skip


def test_every_optional_header_at_once_comes_back() -> None:
    message = whole_message()
    data = message.encode()
    assert size_of(data) == len(data)
    assert decode(data) == message


def test_a_mutated_message_is_read_or_strange_and_nothing_else(seed: int) -> None:
    chance = Random(seed)
    data = whole_message().encode()
    for _ in range(2000):
        mutated = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            mutated[chance.randrange(len(mutated))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        try:
            decode(bytes(mutated))
        except (Strange, UnicodeDecodeError):
            continue


@pytest.mark.parametrize(("to", "size"), [(private(4), 192), (order_queue_of("192.0.2.10"), 264)])
def test_an_order_ack_has_the_size_that_the_document_gives(to: Name, size: int) -> None:
    identity = Identity("127.0.0.1", CLIENT)
    message = identity.order_message(to, struct.pack("<QII20x", 5 << 32 | 1, 5, 4), 0x00FF, recoverable=False)
    assert len(message.encode()) == size
    assert tuple(order_ack_of(message)) == (5 << 32 | 1, 5, 4)


@pytest.fixture
def pair() -> Iterator[tuple[Session, Session]]:
    """Two of its kind with a session between them."""
    left, right = socket.socketpair()
    one, two = Session(left, Identity("127.0.0.1", CLIENT)), Session(right, Identity("127.0.0.1", SERVER))
    accepting = threading.Thread(target=two.accept, kwargs={"window": 8})
    accepting.start()
    one.initiate(SERVER)
    accepting.join()
    yield one, two
    one.close()
    two.close()


def test_two_of_its_kind_agree_on_a_session(pair: tuple[Session, Session]) -> None:
    one, two = pair
    assert (one.remote, two.remote, one.window, two.window) == (SERVER, CLIENT, 8, 64)
    one.express(private(7), b"1", address=SERVER)
    one.recoverable(private(7), b"2", address=SERVER)
    one.transactional(private(7), b"3", 1 << 32 | 1, 1, address=SERVER)
    assert [two.message().body for _ in range(3)] == [b"1", b"2", b"3"]
    two.acknowledge()
    one.until_acked()
    one.until_persisted()
    assert one.persisted == {1, 2}
    two.order_ack(private(4), 1 << 32 | 1, 1)
    two.final_ack(private(4), two.messages[2], 0x4000)
    order, body = one.order_body()
    assert (tuple(body), order.address) == ((1 << 32 | 1, 1, 0), CLIENT)
    final, last = one.final_body()
    assert (last.source, last.message_id, final.message_class) == (CLIENT, 3, 0x4000)


def test_it_refuses_counts_that_are_not_true(pair: tuple[Session, Session]) -> None:
    one, two = pair
    one.express(private(7), address=SERVER)
    two.message()
    for wrong in ({"ack": 2}, {"sent": 1}, {"recoverable_sent": 1}, {"recoverable_base": 1, "recoverable_flags": 1}):
        two.acknowledge(**wrong)
        with pytest.raises(Strange):
            one.next()


def test_packets_split_at_every_byte_come_whole() -> None:
    packets: list[Packet] = [whole_message(), SessionAck(SessionHeader(0, 0, 0, 1, 1, 64)), whole_message()]
    stream = b"".join(packet.encode() for packet in packets)
    left, right = socket.socketpair()
    session = Session(right, Identity("127.0.0.1", SERVER))

    def write() -> None:
        for at in range(len(stream)):
            left.sendall(stream[at : at + 1])

    writing = threading.Thread(target=write)
    writing.start()
    assert [decode(session.read()) for _ in packets] == packets
    writing.join()
    left.close()
    session.close()
