"""What signatures are computed over: order of fields, the open points one by one, and which hashes are allowed."""

import hashlib
import json
import struct
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from lior.errors import InvalidParameter, LiorError
from lior.message import AuthenticationLevel, HashAlgorithm, MessageSecurity
from lior.wire.digests import (
    ACCEPTED_HASHES,
    DEFAULT_FORM,
    DEFAULT_HASH,
    DIGEST_INPUTS,
    WEAK_HASHES,
    AbsentConnector,
    DigestFields,
    DigestForm,
    QueueName,
    QueueNameForm,
    digest_input_10,
    digest_input_20,
    digest_input_30,
    message_digest,
)

SM = UUID("00112233-4455-6677-8899-aabbccddeeff")
CONNECTOR = UUID("11111111-2222-3333-4444-555555555555")
FIELDS = DigestFields(
    correlation_id=bytes(range(20)), application_tag=0x01020304, body=b"BODY", label="Lb",
    response_queue=QueueName(b"<R>", "r"), admin_queue=QueueName(b"<A>", "a"), extension=b"EXT",
    format_name_list=QueueName(b"<L>", "l"), source_queue_manager=SM, delivery_mode=1, priority=5,
    positive_journaling=True, negative_journaling=False, flags=0xFE, message_class=0x8001, body_type=0x11223344,
    connector_type=CONNECTOR, destination_queue=QueueName(b"<D>", "d"))

COMMON = bytes(range(20)) + b"\x04\x03\x02\x01" + b"BODY" + b"L\0b\0\0\0" + b"<R>" + b"<A>"
PROPERTIES = (bytes.fromhex("33221100554477668899aabbccddeeff") + b"\x01" + b"\x05" + b"\x02" + b"\x0e" + b"\x01\x80"
              + b"\x44\x33\x22\x11" + bytes.fromhex("11111111222233334444555555555555"))
EXPECTED = {1: COMMON, 3: COMMON + PROPERTIES + b"<D>", 5: COMMON + b"EXT" + b"<L>" + PROPERTIES}
BUILDERS = {1: digest_input_10, 3: digest_input_20, 5: digest_input_30}
HASHED = {
    1: {"correlation_id", "application_tag", "body", "label", "response_queue", "admin_queue"},
    3: {f.name for f in dataclass_fields(DigestFields)} - {"extension", "format_name_list"},
    5: {f.name for f in dataclass_fields(DigestFields)} - {"destination_queue"},
}
CHANGED: dict[str, Any] = {
    "correlation_id": bytes(20), "application_tag": 1, "body": b"BODZ", "label": "Lc",
    "response_queue": QueueName(b"<Q>", "q"), "admin_queue": QueueName(b"<Q>", "q"), "extension": b"EXU",
    "format_name_list": QueueName(b"<Q>", "q"), "source_queue_manager": CONNECTOR, "delivery_mode": 0, "priority": 0,
    "positive_journaling": False, "negative_journaling": True, "flags": 0x0F, "message_class": 0, "body_type": 0,
    "connector_type": None, "destination_queue": QueueName(b"<Q>", "q"),
}
LEVELS = [pytest.param(1, marks=pytest.mark.spec("MQ-215")), pytest.param(3, marks=pytest.mark.spec("MQ-216")),
          pytest.param(5, marks=pytest.mark.spec("MQ-217"))]


@pytest.mark.parametrize("level", LEVELS)
def test_the_input_is_the_listed_fields_in_order(level: int) -> None:
    assert b"".join(BUILDERS[level](FIELDS)) == EXPECTED[level]
    assert message_digest(level, FIELDS) == hashlib.sha512(EXPECTED[level]).digest()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", sorted(CHANGED))
def test_changing_a_field_changes_exactly_the_digests_that_cover_it(level: int, name: str) -> None:
    tampered = replace(FIELDS, **{name: CHANGED[name]})
    assert (message_digest(level, tampered) != message_digest(level, FIELDS)) == (name in HASHED[level])


@pytest.mark.spec("MQ-217")
def test_one_signature_serves_every_copy_of_a_message_with_several_destinations() -> None:
    copies = [replace(FIELDS, destination_queue=QueueName(name, "")) for name in (b"<1>", b"<2>", b"")]
    assert len({message_digest(5, copy) for copy in copies}) == 1


def test_only_the_low_four_flags_are_hashed() -> None:
    assert message_digest(3, replace(FIELDS, flags=0x0E)) == message_digest(3, FIELDS)


@pytest.mark.spec("MQ-218")
def test_each_open_point_is_one_switch() -> None:
    joined = {form: b"".join(digest_input_20(replace(FIELDS, connector_type=None), form)) for form in (
        DEFAULT_FORM, DigestForm(label_nul=False), DigestForm(queue_names=QueueNameForm.TEXT),
        DigestForm(queue_names=QueueNameForm.TEXT, text_nul=True),
        DigestForm(absent_connector=AbsentConnector.OMITTED))}
    default, no_nul, text, text_nul, omitted = joined.values()
    assert default == EXPECTED[3][:-19] + bytes(16) + b"<D>"
    assert no_nul == default.replace(b"L\0b\0\0\0", b"L\0b\0")
    assert text == default.replace(b"<R><A>", b"r\0a\0").replace(b"<D>", b"d\0")
    assert text_nul == default.replace(b"<R><A>", b"r\0\0\0a\0\0\0").replace(b"<D>", b"d\0\0\0")
    assert omitted == EXPECTED[3][:-19] + b"<D>"


@pytest.mark.spec("MQ-218")
def test_the_priority_is_hashed_as_sent() -> None:
    assert digest_input_20(replace(FIELDS, priority=0))[8] == b"\0"
    assert digest_input_20(FIELDS)[8] == b"\x05"


def test_an_empty_message_has_a_digest_of_its_fixed_fields() -> None:
    assert b"".join(digest_input_10(DigestFields())) == bytes(24)
    assert b"".join(digest_input_20(DigestFields())) == bytes(24 + 16 + 4 + 2 + 4 + 16)


@pytest.mark.spec("MQ-104")
def test_new_signatures_use_sha_512_and_old_hashes_need_permission() -> None:
    assert HashAlgorithm.SHA512.value == DEFAULT_HASH
    assert DEFAULT_HASH == 0x800E
    assert MessageSecurity().hash_algorithm == 0x800E
    assert {0x8004, 0x800C, 0x800E} == ACCEPTED_HASHES
    assert {0x8001, 0x8002, 0x8003} == WEAK_HASHES
    for algorithm in WEAK_HASHES:
        with pytest.raises(LiorError) as caught:
            message_digest(1, FIELDS, algorithm)
        assert caught.value.code == 0xC00E0081
    allowed = ACCEPTED_HASHES | WEAK_HASHES
    assert message_digest(1, FIELDS, 0x8003, allowed=allowed) == hashlib.new("md5", COMMON).digest()
    for algorithm, name in ((0x8004, "sha1"), (0x800C, "sha256"), (0x800E, "sha512")):
        assert message_digest(1, FIELDS, algorithm) == hashlib.new(name, COMMON).digest()
    for algorithm in (0x8001, 0x8005, 0):
        with pytest.raises(LiorError) as caught:
            message_digest(1, FIELDS, algorithm, allowed=allowed | {0x8005})
        assert caught.value.code == 0xC00E0081


@pytest.mark.parametrize("broken", [
    {"correlation_id": bytes(19)}, {"application_tag": 1 << 32}, {"priority": 256}, {"message_class": -1},
    {"label": "\ud800"}])
def test_refuses_fields_that_no_packet_can_hold(broken: Any) -> None:
    with pytest.raises(InvalidParameter):
        message_digest(3, replace(FIELDS, **broken))


def test_refuses_a_level_that_has_no_digest() -> None:
    assert set(DIGEST_INPUTS) == {AuthenticationLevel.SIG10, AuthenticationLevel.SIG20, AuthenticationLevel.SIG30}
    for level in (0, 2, 7):
        with pytest.raises(InvalidParameter):
            message_digest(level, FIELDS)


@pytest.mark.spec("MQ-218")
def test_agrees_with_every_captured_signature() -> None:
    for path in sorted((Path(__file__).parents[1] / "vectors/signatures").glob("*.json")):
        vector = json.loads(path.read_text(encoding="utf-8"))
        values = {name: _value(value) for name, value in vector["fields"].items()}
        assert message_digest(vector["level"], DigestFields(**values), vector["hash"],
                              allowed=ACCEPTED_HASHES | WEAK_HASHES).hex() == vector["digest"], path.name


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return QueueName(bytes.fromhex(value["packet"]), value["text"])
    if isinstance(value, str) and len(value) == 36:
        return UUID(value)
    return bytes.fromhex(value) if isinstance(value, str) else value


def test_numbers_are_packed_little_endian() -> None:
    assert digest_input_10(FIELDS)[1] == struct.pack("<I", 0x01020304)


def test_md4_is_computed_or_refused_with_the_typed_error() -> None:
    """OpenSSL 3 has it in its legacy provider only."""
    try:
        digest = message_digest(1, FIELDS, 0x8002, allowed=WEAK_HASHES)
    except LiorError as error:
        assert error.code == 0xC00E0081
    else:
        assert len(digest) == 16
