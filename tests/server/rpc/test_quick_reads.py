"""The quick ways of RemoteRead are the general ones, byte for byte."""

from random import Random
from uuid import UUID

import pytest

from lior.errors import Malformed
from lior.message import INFINITE, NULL_CORRELATION_ID, NULL_GUID, Message, MessageTransaction, ObjectId
from lior.server.rpc.methods.packets import FULL_PACKET, sections
from lior.server.rpc.methods.quick_reads import TEMPLATES, _templates, usual_reads, whole_packet
from lior.wire.interfaces.remote_read import REMOTE_READ, SectionBuffer

HANDLE = bytes(range(20))
HERE = UUID("11111111-2222-3333-4444-555555555555")
QUICK = usual_reads(REMOTE_READ)


def message_of(random: Random) -> Message:
    choice = random.choice
    return Message(
        random.randbytes(choice([0, 1, 2, 3, 1024])),
        label=choice(["", "a", "ab", "grüße", "x" * 249]),
        body_type=choice([0, 8]),
        extension=random.randbytes(choice([0, 1, 2, 3])),
        application_tag=choice([0, 5]),
        correlation_id=choice([NULL_CORRELATION_ID, random.randbytes(20)]),
        message_class=choice([0, 0x41]),
        priority=choice([0, 3, 7]),
        delivery_guarantee=choice([0, 1]),
        acknowledgements_requested=choice([0, 14]),
        positive_journaling_requested=choice([True, False]),
        negative_journaling_requested=choice([True, False]),
        time_to_reach_queue=choice([INFINITE, 100]),
        time_to_be_received=choice([INFINITE, 7]),
        destination_queue=choice(["DIRECT=OS:here\\private$\\q", f"PRIVATE={HERE}\\00000007"]),
        identifier=ObjectId(choice([HERE, UUID(int=9)]), random.randrange(1 << 32)),
        source_queue_manager=choice([HERE, NULL_GUID]),
        sent_time=choice([0.0, 1700000000.75]),
        connector_type=choice([None, UUID(int=4)]),
        hop_count=choice([0, 3]),
        abort_count=choice([0, 2]),
        move_count=choice([0, 1]),
        last_move_time=choice([0.0, 1700000001.5]),
    )


def test_a_packet_by_template_is_that_of_the_general_way(seed: int) -> None:
    random = Random(seed)
    for _ in range(3000):
        message, subqueue = message_of(random), random.choice(["", "later"])
        [general] = sections(message, HERE, INFINITE, INFINITE, subqueue)
        assert whole_packet(message, HERE, subqueue) == general.data, message
    assert len(_templates) <= TEMPLATES


@pytest.mark.parametrize("rare", [
    {"transaction": MessageTransaction()}, {"response_queue": "DIRECT=OS:a\\b"}, {"tracing_requested": True},
    {"administration_queue": "DIRECT=OS:a\\b", "acknowledgements_requested": 1}, {"identifier": None},
    {"application_deadletter_queue": "DIRECT=OS:a\\b"}, {"body": bytes(4 << 20)},
])  # fmt: skip
def test_what_is_rare_is_left_to_the_general_way(rare: dict[str, object]) -> None:
    message = message_of(Random(1))
    for name, value in rare.items():
        setattr(message, name, value)
    assert whole_packet(message, HERE, "") == b""


def test_requests_are_decoded_as_by_the_general_codec() -> None:
    for opnum, values in ((7, (HANDLE, 1 << 60, 2, 3, 4, 5, 6, 7)), (9, (HANDLE, 2, 9)), (15, (HANDLE, 1, 9))):
        stub = REMOTE_READ.methods[opnum].request.encode(values)
        found = QUICK.methods[opnum].request.decode(stub)
        assert found == REMOTE_READ.methods[opnum].request.decode(stub) == values
        assert found._fields == REMOTE_READ.methods[opnum].request.fields
        for end in range(len(stub)):
            with pytest.raises(Malformed):
                QUICK.methods[opnum].request.decode(stub[:end])
    with pytest.raises(Malformed):
        QUICK.methods[9].request.decode(HANDLE + (3).to_bytes(4, "little") + bytes(4))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1000])
@pytest.mark.parametrize("opnum", [7, 13])
def test_an_answer_of_one_section_is_that_of_the_general_codec(size: int, opnum: int) -> None:
    section = SectionBuffer(FULL_PACKET, size, size, bytes(range(256))[:1] * size)
    for values in ((1, 2, 1, (section,), 0), (1, 2, 2, (section, section), 0), (0, 0, 0, None, 0xC00E001B)):
        assert QUICK.methods[opnum].response.encode(values) == REMOTE_READ.methods[opnum].response.encode(values)
