"""The stubs that are packed by hand are those of the codecs."""

from random import Random
from uuid import UUID

import pytest

from lior.client.rpc.reading import LOOKUP_RECEIVE, start_stub, started
from lior.client.rpc.send_stub import send_stub
from lior.client.rpc.transfer_buffer import inexpressible, sent
from lior.errors import IllegalPropertyValue, LabelTooLong, Malformed, MessageNotFound
from lior.message import NULL_CORRELATION_ID, Message, MessageSecurity, ObjectId
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.remote_read import REMOTE_READ, SectionBuffer
from lior.wire.message_packet import to_packet
from lior.wire.message_sections import SectionsDecoder, decode_sections

HANDLE = bytes(range(20))
NOBODY = ObjectId(UUID(int=0), 0)
QUEUE_MANAGER = UUID("11111111-2222-3333-4444-555555555555")


def message_of(random: Random) -> Message:
    """Every property that the packed form has, there or not."""
    choice = random.choice
    return Message(
        random.randbytes(choice([0, 1, 2, 3, 4, 5, 1024])),
        label=choice(["", "a", "ab", "grüße", "\U0001f375", "x" * 249]),
        delivery_guarantee=choice([0, 1]),
        negative_journaling_requested=choice([True, False]),
        positive_journaling_requested=choice([True, False]),
        priority=choice([0, 3, 7]),
        message_class=choice([0, 0x41]),
        acknowledgements_requested=choice([0, 14]),
        application_tag=choice([0, 77]),
        body_type=choice([0, 8]),
        extension=random.randbytes(choice([0, 1, 2, 3, 4, 9])),
        correlation_id=choice([NULL_CORRELATION_ID, random.randbytes(20)]),
        time_to_reach_queue=choice([1, 345600]),
        time_to_be_received=choice([5, 0xFFFFFFFF]),
    )  # fmt: skip


@pytest.mark.spec("MP-193")
def test_a_packed_send_is_what_the_codec_writes(seed: int) -> None:
    random = Random(seed)
    method = QMCOMM2.methods[1]
    for _ in range(2000):
        message, uow = message_of(random), random.choice([None, UUID(int=7)])
        parts = send_stub(HANDLE, message, uow)
        assert parts is not None
        assert b"".join(parts) == method.request.encode((HANDLE, sent(message, uow), NOBODY)), message


@pytest.mark.parametrize("rare", [
    {"tracing_requested": True}, {"administration_queue": "DIRECT=OS:a\\b"}, {"response_queue": "DIRECT=OS:a\\b"},
    {"connector_type": UUID(int=1)}, {"security": MessageSecurity()},
    {"application_deadletter_queue": "DIRECT=OS:a\\b"}, {"tracing_queue": UUID(int=1)},
    {"allow_peek_when_locked": True}, {"time_to_reach_queue": 0},
])  # fmt: skip
def test_rare_properties_are_left_to_the_codec(rare: dict[str, object]) -> None:
    assert send_stub(HANDLE, Message(b"x", **rare)) is None  # type: ignore[arg-type]


def test_what_the_structure_has_no_member_for_is_told() -> None:
    assert inexpressible(Message(b"")) == ""
    assert inexpressible(Message(b"", application_deadletter_queue="DIRECT=OS:a\\b")) == "application_deadletter_queue"
    assert inexpressible(Message(b"", response_queue="DIRECT=OS:a\\b,DIRECT=OS:a\\c")) == "response_queue"


def test_numbers_out_of_range_are_refused_before_they_are_sent() -> None:
    for wrong in ({"priority": 300}, {"priority": -1}, {"application_tag": 1 << 32}, {"time_to_be_received": 1 << 32}):
        with pytest.raises(IllegalPropertyValue):
            send_stub(HANDLE, Message(b"x", **wrong))  # type: ignore[arg-type]
    with pytest.raises(LabelTooLong):
        send_stub(HANDLE, Message(b"x", label="x" * 250))


def test_many_application_tags_do_not_fill_the_memory() -> None:
    from lior.client.rpc.send_stub import _SHAPES, _shapes

    for tag in range(3 * _SHAPES):
        assert send_stub(HANDLE, Message(b"x", application_tag=tag)) is not None
    assert len(_shapes) <= _SHAPES


def test_a_packed_start_of_a_receive_is_what_the_codec_writes() -> None:
    values = (HANDLE, 0x0400000000000007, 9, LOOKUP_RECEIVE["next"], 1000, 5, 0xFFFFFFFF, 0xFFFFFFFF)
    packed = start_stub(HANDLE, 0x0400000000000007, 9, LOOKUP_RECEIVE["next"], 1000, 5)
    assert packed == REMOTE_READ.methods[7].request.encode(values)
    uow = UUID("01234567-89ab-cdef-0123-456789abcdef")
    packed = start_stub(HANDLE, 0x0400000000000007, 9, LOOKUP_RECEIVE["next"], 1000, 5, uow)
    assert packed == REMOTE_READ.methods[13].request.encode((*values, uow))


def packet_of(body: bytes) -> bytes:
    return to_packet(Message(body, label="label", identifier=ObjectId(QUEUE_MANAGER, 3), priority=5,
                             destination_queue="DIRECT=OS:here\\private$\\q", sent_time=1000.0))


def answer(*sections: tuple[int, bytes], code: int = 0) -> bytes:
    buffers = tuple(SectionBuffer(kind, len(data), len(data), data) for kind, data in sections)
    return REMOTE_READ.methods[7].response.encode((1234, 77, len(buffers), buffers or None, code))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1000])
def test_a_message_in_one_section_or_in_two_is_the_same(size: int) -> None:
    packet = packet_of(b"x" * size)
    whole = started(7, SectionsDecoder(QUEUE_MANAGER), answer((0, packet)))
    cut = started(7, SectionsDecoder(QUEUE_MANAGER), answer((1, packet[:100]), (2, packet[100:])))
    for message in (whole, cut):
        assert (message.body, message.label, message.arrival_time) == (b"x" * size, "label", 1234.0)
        assert message.lookup_identifier == (7 - 5) << 56 | 77


def test_an_answer_that_is_cut_or_refuses_is_an_error_of_its_kind() -> None:
    with pytest.raises(MessageNotFound):
        started(7, SectionsDecoder(QUEUE_MANAGER), answer(code=0xC00E0088))
    good = answer((0, packet_of(b"body")))
    for end in range(0, len(good) - 4, 4):
        with pytest.raises(Malformed):
            started(7, SectionsDecoder(QUEUE_MANAGER), good[:end] + bytes(4))


def test_sections_that_are_no_packet_are_malformed() -> None:
    packet = packet_of(b"body")
    for broken in (b"", packet[:11], packet[:50], packet[:8] + b"\xff\xff\xff\x7f" + packet[12:], packet + b"\1"):
        with pytest.raises(Malformed):
            decode_sections(broken, queue_manager=QUEUE_MANAGER)
        with pytest.raises(Malformed):
            SectionsDecoder(QUEUE_MANAGER).decode(broken)
