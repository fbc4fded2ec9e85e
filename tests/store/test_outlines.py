"""What a message leaves behind is read off its header."""

import random
from dataclasses import replace
from uuid import UUID

import pytest

from lior.errors import StoreCorrupt
from lior.message import Message, MessageTransaction, ObjectId
from lior.store.outline import outline
from lior.store.record import encode


def some(chance: random.Random, number: int) -> Message:
    message = Message(b"body", f"label {number}", priority=number % 8, source_queue_manager=UUID(int=number % 2),
                      identifier=ObjectId(UUID(int=number % 3), number), sent_time=1.5)  # fmt: skip
    return replace(
        message,
        label=chance.choice([message.label, "", "half \ud800", "x" * 249]),
        identifier=chance.choice([message.identifier, message.identifier, None]),
        correlation_id=chance.choice([bytes(20), b"c" * 20]),
        administration_queue=chance.choice(["", r"DIRECT=OS:.\private$\admin"]),
        transaction=chance.choice([None, None, MessageTransaction(UUID(int=9), index=3)]),
    )


def test_outlines_say_what_the_messages_say(seed: int) -> None:
    chance = random.Random(seed)
    messages = [some(chance, number) for number in range(500)]
    for number, message in enumerate(messages):
        each = outline(number, encode(message))
        assert each.lookup_id == number
        assert each.identifier == message.identifier
        assert each.label == message.label
        assert each.correlation_id == message.correlation_id
        assert each.source_queue_manager == message.source_queue_manager
        assert each.transactional is (message.transaction is not None)
        assert each.answered is bool(message.administration_queue)


def test_a_damaged_header_is_named(seed: int) -> None:
    header = encode(some(random.Random(seed), 7))
    for cut in (0, 6, len(header) - 1):
        with pytest.raises(StoreCorrupt, match="damaged"):
            outline(51, header[:cut])
    with pytest.raises(StoreCorrupt, match="version"):
        outline(51, b"\x63" + header[1:])
