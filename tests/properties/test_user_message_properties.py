"""UserMessage packets at random: two decoders, one meaning; message -> packet -> message loses nothing."""

import itertools
import random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from lior.errors import LiorError, Malformed
from lior.message import Message, MessageSecurity, MessageSoap, MessageTransaction, ObjectId
from lior.wire.message_packet import from_user_message, to_message, to_packet
from lior.wire.user_message import UserMessage, rejoin
from tests.wire import second_user_message
from tests.wire.packets import FRAMES, TEXTS, U32, U64, frame, plain, sometimes, user_messages

HERE = UUID(int=1)
SID = bytes.fromhex("010100000000000512000000")
MUTATIONS = 4000

UUIDS = st.uuids()
LABELS = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=40)
HOSTS = ("a", "host.example", "10.0.0.5")


def private(guid: UUID, number: int) -> str:
    return f"PRIVATE={str(guid).upper()}\\{number:08X}"


DIRECT = st.builds(lambda host, queue: f"DIRECT=OS:{host}\\private$\\{queue}", st.sampled_from(HOSTS),
                   st.text("abcdef ", min_size=1, max_size=8))
PRIVATE = st.builds(private, st.sampled_from((HERE, UUID(int=2), UUID(int=3))) | UUIDS, U32)
PUBLIC = UUIDS.map(lambda guid: f"PUBLIC={str(guid).upper()}")
DL = UUIDS.map(lambda guid: f"DL={str(guid).upper()}")
LISTS = st.lists(DIRECT | PRIVATE | PUBLIC, min_size=2, max_size=5)


def joined(lists: st.SearchStrategy[list[str]]) -> st.SearchStrategy[str]:
    return lists.map(",".join)


SECURITY = st.builds(
    MessageSecurity, sender_identifier_type=st.just(1), sender_identifier=st.just(SID),
    sender_certificate=st.binary(max_size=9), signature=st.binary(max_size=9), symmetric_key=st.binary(max_size=9),
    hash_algorithm=U32, encryption_algorithm=U32)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Messages that say nothing a packet would leave out."""
    number = draw(st.integers(1, 0xFFFFFFFF))
    transaction = draw(sometimes(st.builds(
        MessageTransaction, sequence_identifier=U64, sequence_number=st.just(number),
        previous_sequence_number=st.integers(0, number - 1), index=st.integers(0, 0xFFFFF),
        first_in_transaction=st.booleans(), last_in_transaction=st.booleans(), final_ack_required=st.booleans(),
        connector_queue_manager=sometimes(UUIDS))))
    source = draw(UUIDS.filter(lambda guid: guid.int != 0))
    acks = draw(st.integers(0, 15))
    destinations = draw(st.just("") | joined(st.lists(DIRECT | PRIVATE | PUBLIC | DL, min_size=1, max_size=5)))
    names = DIRECT | PRIVATE | PUBLIC | (joined(LISTS) if destinations else DIRECT)
    security = draw(sometimes(SECURITY))
    if security is not None and security.signature and draw(st.booleans()):
        security.authentication_provider_type, security.authentication_provider_name = draw(U32), draw(TEXTS)
    return Message(
        body=draw(st.binary(max_size=50)), label=draw(LABELS), body_type=draw(U32),
        extension=draw(st.binary(max_size=9)), application_tag=draw(U32),
        correlation_id=draw(st.binary(min_size=20, max_size=20)), message_class=draw(st.integers(0, 0xFFFF)),
        priority=0 if transaction is not None else draw(st.integers(0, 7)),
        delivery_guarantee=1 if transaction is not None else draw(st.integers(0, 1)), acknowledgements_requested=acks,
        positive_journaling_requested=draw(st.booleans()), negative_journaling_requested=draw(st.booleans()),
        time_to_reach_queue=draw(U32), time_to_be_received=draw(U32),
        administration_queue=draw(st.just("") | names) if acks else "", response_queue=draw(st.just("") | names),
        destination_queue=draw(DIRECT | PRIVATE | PUBLIC), destination_multi_queue=destinations,
        identifier=ObjectId(source, draw(U32)), source_queue_manager=source, sent_time=float(draw(U32)),
        tracing_requested=draw(st.booleans()), tracing_queue=draw(UUIDS), connector_type=draw(sometimes(UUIDS)),
        hop_count=draw(st.integers(0, 0x1D)), security=security, transaction=transaction,
        soap=draw(sometimes(st.builds(MessageSoap, header=TEXTS, body=st.just("") | TEXTS))))


@given(messages())
@pytest.mark.spec("DM-124", "DM-125", "DM-126")
def test_message_to_packet_to_message_is_identity_and_so_is_packet_to_packet(sent: Message) -> None:
    packet = to_packet(sent, destination_queue_manager=HERE)
    received = to_message(packet, queue_manager=HERE)
    assert rejoin(received.packet, received.body) == packet
    received.packet = b""
    assert received == sent
    assert to_packet(received, destination_queue_manager=HERE) == packet


@given(user_messages())
@pytest.mark.spec("MQ-092", "MQ-110", "MQ-111")
def test_any_packet_is_read_alike_by_both_decoders_and_writes_back(message: UserMessage) -> None:
    packet = message.encode()
    decoded = UserMessage.decode(packet)
    assert plain(decoded) == second_user_message.decode(packet) == plain(message)
    assert decoded.encode() == packet
    assert rejoin(decoded.envelope, decoded.body)[4:] == packet[4 : decoded.base.packet_size]


@given(user_messages(), st.data())
def test_cut_and_changed_packets_are_judged_alike_by_both_decoders(message: UserMessage, data: st.DataObject) -> None:
    packet = bytearray(message.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(packet) - 1))
        packet[at] = data.draw(st.sampled_from((0, 1, 2, 3, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
    if data.draw(st.booleans()):
        del packet[data.draw(st.integers(16, len(packet))) :]
        packet[8:12] = len(packet).to_bytes(4, "little")
    judged_alike(bytes(packet))


def judged_alike(packet: bytes) -> bool:
    """Whether it is a packet; both decoders must say the same and read the same."""
    expected: dict[str, Any] | None
    try:
        expected = second_user_message.decode(packet)
    except second_user_message.Refused:
        expected = None
    try:
        decoded = UserMessage.decode(packet)
    except LiorError as error:
        assert type(error) is Malformed and error.where
        assert expected is None, error
        return False
    assert plain(decoded) == expected
    again = decoded.encode()  # equal but for the padding
    assert len(again) == len(packet) and plain(UserMessage.decode(again)) == expected
    try:
        from_user_message(decoded, queue_manager=HERE)
    except Malformed as error:
        assert error.where == "ResponseQueue"  # on the host of an administration queue that has none
    return True


def test_thousands_of_mutated_packets_are_judged_alike(seed: int) -> None:
    seeds = [frame(name) for name in FRAMES] + harness.corpus("user_message")
    source = harness.mutations(seeds, random.Random(seed))
    accepted = sum(judged_alike(packet) for packet in itertools.islice(source, MUTATIONS))
    assert accepted > MUTATIONS // 100


@given(messages())
def test_the_parts_of_a_message_are_not_changed_by_packing_it(sent: Message) -> None:
    before = repr(sent)
    to_packet(sent, destination_queue_manager=HERE)
    assert repr(sent) == before
