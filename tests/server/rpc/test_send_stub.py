"""Stubs of sends read by template: never otherwise than the general codec reads them."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from lior.errors import LiorError
from lior.message import Message, ObjectId
from lior.names import LocalNames
from lior.security import ANONYMOUS_CALLER
from lior.server.rpc.methods import send_stub
from lior.server.rpc.methods.messages import usual_sends
from lior.server.rpc.methods.send_stub import UsualSend
from lior.server.rpc.methods.sent_buffer import to_message
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.structures import CACTransferBufferV2
from tests.server.rpc.calling import NO_OBJECT, QUEUE, sent

GENERAL = QMCOMM2.methods[1]
HANDLE = bytes(range(20))
LOCAL = LocalNames("lior", "lior.example.org", frozenset(), UUID(int=1))
Meant = tuple[bytes, Any, UUID | None, bool]


def encoded(ptb: CACTransferBufferV2, identifier: ObjectId | None = NO_OBJECT, handle: bytes = HANDLE) -> bytes:
    return GENERAL.request.encode([handle, ptb, identifier])


def meaning(request: Any) -> Meant | str:
    """What a server makes of a decoded request; the name of the refusal if it makes nothing."""
    if isinstance(request, UsualSend):
        return request.h_queue, request.message, request.uow, request.wants_identifier
    try:
        message = to_message(request.ptb, ANONYMOUS_CALLER, b"", LOCAL, direct=True)
    except LiorError as error:
        return error.symbol
    return request.h_queue, message, request.ptb.p_uow, request.p_message_id is not None


def read(codec: Any, stub: bytes) -> Meant | str:
    try:
        return meaning(codec.decode(stub))
    except LiorError as error:
        return error.symbol


def quick() -> Any:
    return usual_sends(QMCOMM2).methods[1].request


def test_a_request_like_an_earlier_one_is_read_by_template() -> None:
    codec = quick()
    first, second = (encoded(sent(body, label=label)) for body, label in ((b"1", "one"), (b"22", "two!")))
    for _ in range(2):
        assert not isinstance(codec.decode(first), UsualSend)  # the shape, then the template
    found = codec.decode(second)
    assert isinstance(found, UsualSend)
    assert meaning(found) == read(GENERAL.request, second)


def a_buffer(random: Random) -> CACTransferBufferV2:
    """Any usual send, and some that are not."""
    members: dict[str, Any] = {}
    choices: dict[str, Any] = {
        "p_class": 0, "p_priority": random.choice((0, 3, 7, 8)), "p_delivery": random.choice((0, 1, 2)),
        "p_acknowledge": random.choice((0, 5, 14)), "p_auditing": random.choice((0, 1, 3)), "p_trace": 1,
        "p_application_tag": random.choice((0, 7)), "pul_body_type": random.choice((0, 8)),
        "pp_correlation_id": random.randbytes(20), "p_uow": UUID(bytes=random.randbytes(16)),
    }  # fmt: skip
    for name, value in choices.items():
        if random.random() < 0.4:
            members[name] = value
    if random.random() < 0.1:
        members["p_class"] = 2
    if random.random() < 0.1:
        members["pp_msg_extension"], members["ul_msg_extension_buffer_in_bytes"] = b"abc", 3
    label = random.choice((None, "", "a", "label", "\N{SNOWMAN}", "x" * 260, "with\0nul"))
    body = random.choice((None, b"", b"1", b"12", b"123", b"1234", b"x" * 1000))
    return sent(body, label=label, response=random.choice(("", "", "", QUEUE)),
                ul_absolute_time_to_queue=random.choice((0, 5)), ul_relative_time_to_live=random.choice((0, 6)),
                ul_auth_level=random.choice((0, 9)), **members)  # fmt: skip


def test_any_send_is_read_as_the_general_codec_reads_it(seed: int) -> None:
    random, codec, by_template = Random(seed), quick(), 0
    for _ in range(3000):
        stub = encoded(a_buffer(random), random.choice((None, NO_OBJECT)), random.randbytes(20))
        expected = read(GENERAL.request, stub)
        for _ in range(3):
            assert read(codec, stub) == expected
        by_template += isinstance(codec.decode(stub), UsualSend)
    assert by_template > 500


def test_a_send_that_was_changed_anywhere_is_read_as_the_general_codec_reads_it(seed: int) -> None:
    random, codec = Random(seed), quick()
    stubs = [encoded(a_buffer(random), random.choice((None, NO_OBJECT))) for _ in range(60)]
    for stub in stubs:
        for _ in range(3):
            read(codec, stub)
    for _ in range(6000):
        changed = bytearray(random.choice(stubs))
        for _ in range(random.choice((1, 1, 1, 2, 8))):
            at = random.randrange(len(changed))
            changed[at] = random.choice((0, 1, 0xFF, changed[at] ^ 1, random.randrange(256)))
        cut = bytes(changed[: random.choice((len(changed), len(changed), random.randrange(len(changed))))])
        cut += bytes(random.choice((0, 0, 0, 1, 4, 8)))
        assert read(codec, cut) == read(GENERAL.request, cut)


def test_templates_and_shapes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_stub, "SHAPES", 5)
    monkeypatch.setattr(send_stub, "TEMPLATES", 3)
    codec = quick()
    for level in range(20):
        for tag in range(10):
            stub = encoded(sent(b"x", ul_auth_level=level, p_application_tag=tag))
            for _ in range(3):
                read(codec, stub)
    assert len(codec._shapes) <= 5
    assert all(shape is None or len(shape.templates) <= 3 for shape in codec._shapes.values())


def test_a_template_is_not_changed_by_the_messages_made_of_it() -> None:
    codec = quick()
    stub = encoded(sent(b"body", label="label", pp_correlation_id=bytes(range(20))))
    for _ in range(2):
        codec.decode(stub)
    first: Message = codec.decode(stub).message
    first.priority, first.destination_queue, first.identifier = 0, "elsewhere", NO_OBJECT
    second: Message = codec.decode(stub).message
    assert (second.priority, second.destination_queue, second.identifier) == (3, "", None)


@pytest.mark.parametrize("values", [(None, 0), (None, 0xC00E0025), (ObjectId(UUID(int=77), 5), 0), (NO_OBJECT, 0)])
@pytest.mark.spec("MP-152")
def test_responses_are_the_general_codecs(values: tuple[Any, int]) -> None:
    codec = usual_sends(QMCOMM2).methods[1].response
    for _ in range(2):
        assert codec.encode(values) == GENERAL.response.encode(values)
