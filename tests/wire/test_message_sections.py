"""Messages of remote reads ([MS-MQRR] 2.2.5): the short way of plain ones is the general one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random
from uuid import UUID

from lior.errors import LiorError
from lior.message import INFINITE, NULL_CORRELATION_ID, Message, MessageTransaction, ObjectId
from lior.wire.message_packet import to_packet
from lior.wire.message_sections import SectionsDecoder, decode_sections

HERE = UUID("11111111-2222-3333-4444-555555555555")
TRAILERS = (b"", bytes.fromhex("0c00000094000000") + b"\2" + bytes(3) + (148).to_bytes(4, "little") + bytes(4)
            + (3).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(132))  # fmt: skip


def message_of(random: Random) -> Message:
    choice = random.choice
    priority = choice([0, 3, 7])
    transaction = choice([None, None, MessageTransaction(sequence_identifier=9, sequence_number=2,
                                                         previous_sequence_number=1)])  # fmt: skip
    return Message(
        random.randbytes(choice([0, 1, 2, 3, 1024])),
        label=choice(["", "a", "ab", "grüße", "x" * 249]),
        body_type=choice([0, 8]),
        extension=random.randbytes(choice([0, 1, 2, 3])),
        application_tag=choice([0, 5]),
        correlation_id=choice([NULL_CORRELATION_ID, random.randbytes(20)]),
        message_class=choice([0, 0x41]),
        priority=priority if transaction is None else 0,
        delivery_guarantee=choice([0, 1]) if transaction is None else 1,
        acknowledgements_requested=choice([0, 0, 14]),
        administration_queue=choice(["", "", "DIRECT=OS:a\\private$\\admin"]),
        response_queue=choice(["", "", "DIRECT=OS:a\\b"]),
        positive_journaling_requested=choice([True, False]),
        negative_journaling_requested=choice([True, False]),
        time_to_reach_queue=choice([INFINITE, 100, 1700000100]),
        time_to_be_received=choice([INFINITE, 7]),
        destination_queue=choice(["DIRECT=OS:here\\private$\\q", f"PRIVATE={HERE}\\00000007"]),
        identifier=ObjectId(choice([HERE, UUID(int=9)]), random.randrange(1 << 32)),
        source_queue_manager=choice([HERE, UUID(int=9)]),
        sent_time=choice([0.0, 1700000000.0]),
        hop_count=choice([0, 3]),
        transaction=transaction,
    )


def test_any_message_is_read_as_the_general_way_reads_it(seed: int) -> None:
    random, decoder, short = Random(seed), SectionsDecoder(HERE), 0
    for _ in range(2000):
        data = to_packet(message_of(random)) + random.choice(TRAILERS)
        general = decode_sections(data, queue_manager=HERE, arrived=1700000001)
        found = decoder.decode(data, 1700000001)
        short += found.packet != general.packet
        assert replace(found, packet=general.packet) == general
    assert short > 200


def test_a_message_that_was_changed_anywhere_is_read_as_the_general_way_reads_it(seed: int) -> None:
    random, decoder = Random(seed), SectionsDecoder(HERE)
    packets = [to_packet(message_of(random)) + random.choice(TRAILERS) for _ in range(50)]
    for _ in range(5000):
        changed = bytearray(random.choice(packets))
        for _ in range(random.choice((1, 1, 2, 8))):
            changed[random.randrange(min(len(changed), random.choice((300, 2000))))] = random.randrange(256)
        data = bytes(changed[: random.choice((len(changed), len(changed), random.randrange(len(changed))))])
        general = None
        with suppress(LiorError):
            general = decode_sections(data, queue_manager=HERE)
        try:
            found = decoder.decode(data)
        except LiorError:
            assert general is None
        else:
            assert general is not None and replace(found, packet=general.packet) == general
