"""Plain packets in one step: the same bytes and messages as by way of UserMessage ([MS-MQMQ] 2.2.19, 2.2.20)."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import LiorError
from lior.message import (
    INFINITE,
    NULL_CORRELATION_ID,
    NULL_GUID,
    Message,
    MessageSecurity,
    MessageSoap,
    MessageTransaction,
    ObjectId,
)
from lior.wire.message_packet import from_user_message, to_user_message
from lior.wire.plain_packets import PlainDecoder, PlainEncoder, PlainMessage
from lior.wire.session_packets import with_session_header
from lior.wire.user_message import UserMessage
from tests.wire.packets import FRAMES, frame

HERE, SOURCE = UUID(int=7 << 90), UUID(int=9 << 80)
NAMES = (r"DIRECT=TCP:192.0.2.7\private$\q", r"DIRECT=OS:host.example\Größe", f"PRIVATE={str(HERE).upper()}\\0000000A")


def usual(**fields: Any) -> Message:
    given: dict[str, Any] = {
        "body": b"body", "destination_queue": NAMES[0], "identifier": ObjectId(SOURCE, 77),
        "source_queue_manager": SOURCE, "sent_time": 1.7e9, "delivery_guarantee": 1, **fields}  # fmt: skip
    return Message(**given)


def in_full(message: Message, previous: int = 0) -> bytes:
    packet = to_user_message(message)
    if packet.transaction is not None:
        packet.transaction.header.previous_tx_sequence_number = previous
    return packet.encode()


def read_in_full(packet: bytes) -> Message:
    message = from_user_message(UserMessage.decode(packet), queue_manager=HERE)
    message.packet = b""
    return message


def decoded(packet: bytes) -> PlainMessage | None:
    return PlainDecoder(HERE.bytes_le).decode(packet)


numbers = st.integers(0, INFINITE)
transactions = st.builds(
    MessageTransaction, st.just(NULL_GUID), st.integers(0, (1 << 64) - 1), st.integers(2, INFINITE), st.just(1),
    st.integers(0, (1 << 20) - 1), st.booleans(), st.booleans(), st.booleans())  # fmt: skip
messages = st.builds(
    usual,
    body=st.binary(max_size=50), label=st.text(st.characters(exclude_characters="\0"), max_size=120),
    body_type=numbers, extension=st.binary(max_size=9), application_tag=numbers,
    correlation_id=st.just(NULL_CORRELATION_ID) | st.binary(min_size=20, max_size=20),
    message_class=st.integers(0, 0xFFFF), delivery_guarantee=st.integers(0, 1), priority=st.integers(0, 7),
    acknowledgements_requested=st.integers(0, 15), negative_journaling_requested=st.booleans(),
    positive_journaling_requested=st.booleans(), time_to_reach_queue=numbers, time_to_be_received=numbers,
    destination_queue=st.sampled_from(NAMES), sent_time=st.floats(0, INFINITE), hop_count=st.integers(0, 29),
    identifier=st.builds(ObjectId, st.just(SOURCE), numbers),
)  # fmt: skip


@given(messages, st.none() | transactions)
def test_both_ways_agree_in_both_directions(message: Message, transaction: MessageTransaction | None) -> None:
    if transaction is not None:
        message = replace(message, transaction=transaction, priority=0, delivery_guarantee=1)
    packet = in_full(message, 1)
    assert PlainEncoder().encode(message, 1) == packet
    plain = decoded(packet)
    assert (plain is None) == message.positive_journaling_requested
    if plain is not None:
        assert plain.message == read_in_full(packet) and plain.packet == packet
        assert plain.key == SOURCE.bytes_le + message.identifier.uniquifier.to_bytes(4, "little")  # type: ignore[union-attr]


@pytest.mark.parametrize("changes", [
    {"administration_queue": NAMES[1], "acknowledgements_requested": 1},
    {"response_queue": NAMES[1]},
    {"destination_multi_queue": ",".join(NAMES[:2])},
    {"connector_type": UUID(int=5)},
    {"tracing_requested": True},
    {"security": MessageSecurity(sender_identifier_type=1, sender_identifier=b"\1\1\0\0\0\0\0\5\1\0\0\0")},
    {"soap": MessageSoap(header="h", body="b")},
    {"transaction": MessageTransaction(NULL_GUID, 5, 2, 1, connector_queue_manager=UUID(int=3)), "priority": 0},
])  # fmt: skip
def test_an_unusual_message_is_left_to_the_long_way(changes: dict[str, Any]) -> None:
    message = usual(**changes)
    assert PlainEncoder().encode(message, 1) is None
    assert decoded(in_full(message, 1)) is None


@pytest.mark.parametrize("changes", [
    {"label": "with\0NUL"}, {"label": "x" * 250}, {"priority": 8}, {"hop_count": 30}, {"body_type": 1 << 32},
    {"delivery_guarantee": 2}, {"correlation_id": b"short"}, {"identifier": None}, {"body": bytes(5 << 20)},
    {"destination_queue": "PUBLIC=" + str(UUID(int=8))}, {"destination_queue": "nonsense"},
    {"identifier": ObjectId(SOURCE, 1 << 32)},
])  # fmt: skip
def test_what_no_packet_can_hold_is_for_the_long_way_to_refuse(changes: dict[str, Any]) -> None:
    message = usual(**changes)
    assert PlainEncoder().encode(message, 0) is None
    with pytest.raises(LiorError):
        in_full(message)


def test_a_number_that_does_not_follow_is_for_the_long_way_to_refuse() -> None:
    message = usual(transaction=MessageTransaction(NULL_GUID, 5, 2, 1), priority=0)
    assert PlainEncoder().encode(message, 2) is None


def test_an_encoder_follows_when_destination_and_source_change() -> None:
    encoder = PlainEncoder()
    for name in (*NAMES, *NAMES):
        for source in (SOURCE, UUID(int=5)):
            message = usual(destination_queue=name, source_queue_manager=source)
            assert encoder.encode(message, 0) == in_full(message)


def test_a_decoder_follows_when_the_way_changes_and_shares_what_is_the_same() -> None:
    decoder, ways = PlainDecoder(HERE.bytes_le), set()
    for name in (*NAMES, *NAMES):
        found = decoder.decode(in_full(usual(destination_queue=name)))
        assert found is not None and found.message.destination_queue == name
        ways.add(id(found.way))
    assert len(ways) == len(NAMES)


@pytest.mark.parametrize("name", [r"DIRECT=TCP:192.0.2.7\PRIVATE$\order_queue$", r"DIRECT=OS:h\private$\ORDER_QUEUE$",
                                  f"PRIVATE={str(HERE).upper()}\\00000004"])  # fmt: skip
def test_what_is_for_an_order_queue_is_never_plain(name: str) -> None:
    assert decoded(in_full(usual(destination_queue=name))) is None


def test_a_message_with_a_session_header_is_not_plain() -> None:
    assert decoded(with_session_header(in_full(usual()), bytes(16))) is None


@given(messages, st.none() | transactions, st.data())
def test_a_damaged_packet_is_read_as_the_long_way_reads_it_or_left_to_it(
    message: Message, transaction: MessageTransaction | None, data: st.DataObject
) -> None:
    if transaction is not None:
        message = replace(message, transaction=transaction, priority=0, delivery_guarantee=1)
    packet = bytearray(in_full(message, 1))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(8, min(len(packet) - 1, 220)))
        packet[at] = data.draw(st.integers(0, 255))
    plain = decoded(bytes(packet))
    if plain is not None:
        assert plain.message == read_in_full(bytes(packet))


@pytest.mark.parametrize("name", FRAMES)
def test_packets_of_the_documents_are_read_as_the_long_way_reads_them_or_left_to_it(name: str) -> None:
    for end in range(0, len(frame(name)) + 1, 4):
        plain = decoded(frame(name)[:end])
        assert plain is None or plain.message == read_in_full(frame(name)[:end])
