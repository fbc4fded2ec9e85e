"""Signatures, compared with a second implementation in both directions; what they cover and what they do not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lior.errors import LiorError
from lior.protocols.security.policy import SecurityPolicy
from lior.protocols.security.signing import (
    SignatureOrder,
    check_level,
    in_wire_order,
    read_certificate,
    sign,
    verified_level,
)
from lior.wire.digests import DigestForm, QueueNameForm
from lior.wire.headers import DM_SHIFT, JN, JP
from lior.wire.optional_headers import MultiQueueFormat
from lior.wire.queue_names import NameElement, PacketName
from lior.wire.user_message import UserMessage
from tests.protocols.security import second_security as second
from tests.protocols.security.signed_packets import (
    Signer,
    alice,
    arrived,
    bob,
    certificate_of,
    key_of,
    message,
    packet_of,
    put_signature,
    several,
    transactional,
)

MD5, SHA1, SHA256, SHA512 = 0x8003, 0x8004, 0x800C, 0x800E
ALL = SecurityPolicy(allow_md5=True).allowed_hashes
FITTING = [(512, MD5), (512, SHA1), (512, SHA256), *((bits, h) for bits in (1024, 2048)
                                                    for h in (MD5, SHA1, SHA256, SHA512))]


def signed_by(signer: Signer, level: int, algorithm: int = SHA512, packet: UserMessage | None = None) -> UserMessage:
    packet = packet or packet_of(several() if level == 5 else message())
    signature = sign(packet, signer.key, level, algorithm, allowed=ALL)
    put_signature(packet, signature, signer, algorithm, listed=level == 5)
    return arrived(packet)


def level_of(packet: UserMessage, signer: Signer | None = None, **options: Any) -> int:
    return verified_level(packet, packet.body, (signer or alice()).key.public_key(), **{"allowed": ALL} | options)


@pytest.mark.spec("QB-188", "QB-189", "MQ-116")
@pytest.mark.parametrize("level", [1, 3, 5])
@pytest.mark.parametrize(("bits", "algorithm"), FITTING)
def test_a_second_implementation_verifies_our_signatures(level: int, bits: int, algorithm: int) -> None:
    packet = signed_by(alice(bits), level, algorithm)
    assert packet.security is not None
    signature = packet.multi_queue.signature if level == 5 and packet.multi_queue else packet.security.signature
    data = second.signed_bytes(packet.packet, level)
    assert second.verifies(signature, alice(bits).certificate, algorithm, data)
    assert not second.verifies(signature, alice(bits).certificate, algorithm, data + b"\0")


@pytest.mark.spec("QB-161", "QB-189", "MQ-133")
@pytest.mark.parametrize("level", [1, 3, 5])
@pytest.mark.parametrize(("bits", "algorithm"), FITTING)
def test_signatures_of_a_second_implementation_verify_and_tell_their_version(
    level: int, bits: int, algorithm: int
) -> None:
    packet = packet_of(several() if level == 5 else message())
    signature = second.signed(alice(bits).pem, algorithm, second.signed_bytes(packet.packet, level))
    put_signature(packet, signature, alice(bits), algorithm, listed=level == 5)
    assert level_of(arrived(packet), alice(bits)) == level


@pytest.mark.spec("QB-188")
def test_a_message_in_a_transaction_is_signed_with_the_priority_that_it_is_sent_with() -> None:
    packet = signed_by(alice(), 3, packet=packet_of(transactional(priority=6)))
    assert packet.base.flags & 7 == 0
    assert level_of(packet) == 3


@pytest.mark.parametrize("level", [1, 3])
def test_a_body_that_is_handed_in_counts_and_not_the_one_in_the_packet(level: int) -> None:
    packet = signed_by(alice(), level)
    key = alice().key.public_key()
    packet.body, clear = b"ciphertext", bytes(packet.body)
    assert verified_level(packet, clear, key, allowed=ALL) == level
    assert verified_level(packet, packet.body, key, allowed=ALL) == 0


# ---- what is covered ------------------------------------------------------------------------------------------------

Change = Callable[[UserMessage], None]


def put(part: str, name: str, value: Any) -> Change:
    def change(packet: UserMessage) -> None:
        setattr(getattr(packet, part) if part else packet, name, value)

    return change


def flip(part: str, name: str, bits: int) -> Change:
    def change(packet: UserMessage) -> None:
        holder = getattr(packet, part)
        setattr(holder, name, getattr(holder, name) ^ bits)

    return change


def add_destination(packet: UserMessage) -> None:
    packet.multi_queue = packet.multi_queue or MultiQueueFormat.of([], [], [])
    packet.multi_queue.destination.names.append(NameElement(3, text=r"TCP:10.9.9.9\private$\x"))


def shorten_body(packet: UserMessage) -> None:
    packet.body = bytes(packet.body)[:-1]
    packet.properties.message_size -= 1


COMMON: dict[str, Change] = {
    "correlation_id": put("properties", "correlation_id", bytes(20)),
    "application_tag": put("properties", "application_tag", 5),
    "body": put("", "body", b"the body of the messagf"),
    "body length": shorten_body,
    "label": put("", "label", "A Label\0".encode("utf-16-le")),
    "no label": put("", "label", b""),
    "response_queue": put("", "response_queue", PacketName(2, number=11)),
    "admin_queue": put("", "admin_queue", PacketName(7, text=r"TCP:10.0.0.2\private$\admin")),
}
SECOND: dict[str, Change] = {
    "source_queue_manager": put("user", "source_queue_manager", bytes(16)),
    "delivery mode": flip("user", "flags", 1 << DM_SHIFT),
    "priority": flip("base", "flags", 1),
    "positive journal": flip("user", "flags", JP),
    "negative journal": flip("user", "flags", JN),
    "acknowledgements": flip("properties", "flags", 2),
    "message_class": put("properties", "message_class", 1),
    "body_type": put("properties", "body_type", 0x11),
    "connector_type": put("", "connector_type", bytes(16)),
    "destination_queue": put("", "destination_queue", PacketName(7, text=r"OS:lior\private$\p")),
}
THIRD: dict[str, Change] = {
    **{name: change for name, change in SECOND.items() if name != "destination_queue"},
    "extension": put("", "extension", b"extensiom"),
    "list of destinations": add_destination,
}
FREE: dict[str, Change] = {
    "hop count": flip("user", "flags", 1),
    "time to reach queue": put("base", "time_to_reach_queue", 1),
    "time to be received": put("user", "time_to_be_received", 1),
    "sent time": put("user", "sent_time", 1),
    "message id": put("user", "message_id", 1),
    "high flags": flip("properties", "flags", 0xF0),
    "queue manager address": put("user", "queue_manager_address", b"\1" * 16),
}
COVERED = [(1, name, change) for name, change in COMMON.items()]
COVERED += [(3, name, change) for name, change in (COMMON | SECOND).items()]
COVERED += [(5, name, change) for name, change in (COMMON | THIRD).items()]
UNCOVERED = [(level, name, change) for level in (1, 3, 5) for name, change in FREE.items()]
UNCOVERED += [(1, name, change) for name, change in SECOND.items()]
UNCOVERED += [(level, "extension", THIRD["extension"]) for level in (1, 3)]
UNCOVERED += [(5, "destination_queue", SECOND["destination_queue"])]


@pytest.mark.spec("QB-161", "QB-189", "MQ-116")
@pytest.mark.parametrize(("level", "name", "change"), COVERED)
def test_changing_a_covered_field_is_noticed(level: int, name: str, change: Change) -> None:
    packet = signed_by(alice(), level)
    assert level_of(packet) == level
    change(packet)
    assert level_of(arrived(packet)) == 0


@pytest.mark.spec("QB-189")
@pytest.mark.parametrize(("level", "name", "change"), UNCOVERED)
def test_any_other_field_may_change_on_the_way(level: int, name: str, change: Change) -> None:
    packet = signed_by(alice(), level)
    change(packet)
    assert level_of(arrived(packet)) == level


@pytest.mark.spec("MQ-116")
def test_every_copy_of_a_message_with_several_destinations_carries_the_same_signature() -> None:
    packets = [packet_of(several(destination_queue=name)) for name in (
        r"DIRECT=OS:lior\private$\q", r"DIRECT=TCP:10.1.1.1\private$\r")]
    assert len({sign(packet, alice().key, 5, SHA512) for packet in packets}) == 1


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-161")
def test_somebody_elses_signature_proves_nothing() -> None:
    assert level_of(signed_by(alice(), 3), bob()) == 0


@pytest.mark.spec("QB-048", "QB-215", "MQ-103")
@pytest.mark.parametrize("algorithm", [0, MD5, 0x8001, 0x8002, 0x8005, 0x800D, 0xFFFFFFFF])
def test_refuses_a_hash_that_is_unknown_or_not_allowed(algorithm: int) -> None:
    packet = signed_by(alice(), 3, MD5)
    packet.properties.hash_algorithm = algorithm
    assert level_of(packet, allowed=SecurityPolicy().allowed_hashes) == 0


@pytest.mark.spec("QB-215", "QB-048")
def test_md5_takes_its_switch_and_sha_1_may_be_switched_off() -> None:
    for algorithm, policy, level in ((MD5, SecurityPolicy(allow_md5=True), 3), (MD5, SecurityPolicy(), 0),
                                     (SHA1, SecurityPolicy(), 3), (SHA1, SecurityPolicy(allow_sha1=False), 0),
                                     (SHA512, SecurityPolicy(allow_sha1=False), 3), (SHA256, SecurityPolicy(), 3)):
        assert level_of(signed_by(alice(), 3, algorithm), allowed=policy.allowed_hashes) == level


def test_md2_and_md4_are_refused_even_if_they_were_allowed() -> None:
    packet = signed_by(alice(), 3)
    for algorithm in (0x8001, 0x8002):
        packet.properties.hash_algorithm = algorithm
        assert level_of(packet, allowed=frozenset({algorithm})) == 0


def forged_padding(data: bytes, size: int) -> bytes:
    """The attack on lenient parsers: the hash, then rubbish, then a cube root's worth of freedom."""
    block = second.encoded(SHA1, data, size)
    info = block[block.index(0, 2) + 1 :]
    return b"\0\1" + b"\xff" * 8 + b"\0" + info + b"\x11" * (size - 11 - len(info))


BLOCKS: dict[str, Callable[[bytes, int], bytes]] = {
    "garbage behind the hash": forged_padding,
    "type 2": lambda data, size: b"\0\2" + second.encoded(SHA1, data, size)[2:],
    "type 0": lambda data, size: b"\0\0" + second.encoded(SHA1, data, size)[2:],
    "a hole in the padding": lambda data, size: second.encoded(SHA1, data, size).replace(b"\xff\xff\0", b"\xff\xfe\0"),
    "no algorithm": lambda data, size: (b"\0\1" + b"\xff" * (size - 23) + b"\0"
                                        + second.encoded(SHA1, data, size)[-20:]),
    "another algorithm": lambda data, size: second.encoded(SHA256, data, size),
}


@pytest.mark.spec("QB-161")
@pytest.mark.parametrize("name", BLOCKS)
def test_refuses_a_signature_whose_padding_is_not_exactly_right(name: str) -> None:
    packet = packet_of(message())
    data = second.signed_bytes(packet.packet, 3)
    good = second.raw_signature(alice().pem, second.encoded(SHA1, data, 128))
    put_signature(packet, good, alice(), SHA1)
    assert level_of(arrived(packet)) == 3
    put_signature(packet, second.raw_signature(alice().pem, BLOCKS[name](data, 128)), alice(), SHA1)
    assert level_of(arrived(packet)) == 0


@pytest.mark.spec("QB-161")
@pytest.mark.parametrize("signature", [b"\0", bytes(127), bytes(128), bytes(129), b"\xff" * 128, bytes(4000)],
                         ids=lambda signature: f"{signature[:1].hex()}x{len(signature)}")
def test_refuses_odd_sizes_and_values(signature: bytes) -> None:
    packet = packet_of(message())
    put_signature(packet, signature, alice(), SHA512)
    assert level_of(arrived(packet)) == 0


def test_the_order_of_bytes_is_one_function_and_one_switch() -> None:
    assert in_wire_order(b"abc") == b"cba"
    assert in_wire_order(b"abc", SignatureOrder.BIG) == b"abc"
    packet = packet_of(message())
    signature = sign(packet, alice().key, 3, SHA512, order=SignatureOrder.BIG)
    put_signature(packet, signature, alice(), SHA512)
    assert level_of(packet, order=SignatureOrder.BIG) == 3
    assert level_of(packet) == 0
    assert sign(packet, alice().key, 3, SHA512) == signature[::-1]


@pytest.mark.parametrize("form", [DigestForm(label_nul=False), DigestForm(queue_names=QueueNameForm.TEXT)])
@pytest.mark.parametrize("level", [1, 3, 5])
def test_the_other_readings_of_the_fields_can_be_chosen_on_both_sides(form: DigestForm, level: int) -> None:
    packet = packet_of(several() if level == 5 else message())
    signature = sign(packet, alice().key, level, SHA512, form=form)
    put_signature(packet, signature, alice(), SHA512, listed=level == 5)
    assert level_of(packet, form=form) == level
    assert level_of(packet) == 0


@pytest.mark.spec("QB-188", "QB-215")
def test_signs_with_nothing_that_is_not_allowed() -> None:
    for algorithm in (MD5, 0x8001, 0x8005):
        with pytest.raises(LiorError) as caught:
            sign(packet_of(message()), alice().key, 3, algorithm)
        assert caught.value.code == 0xC00E0081
    with pytest.raises(LiorError) as caught:
        sign(packet_of(message()), key_of(512), 3, SHA512)  # 83 bytes and 11 of padding do not fit into 64
    assert caught.value.code == 0xC00E0080


@pytest.mark.spec("QB-188")
def test_several_destinations_take_level_5_and_one_takes_1_or_3() -> None:
    for level, several_of_them in ((1, False), (3, False), (5, True)):
        check_level(level, several_of_them)
    for level, several_of_them in ((5, False), (0, False), (7, False), (1, True), (3, True)):
        with pytest.raises(LiorError):
            check_level(level, several_of_them)


# ---- certificates ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-061")
@pytest.mark.parametrize("bits", [512, 1024, 2048])
def test_reads_the_key_and_the_dates_of_a_certificate(bits: int) -> None:
    found = read_certificate(certificate_of(key_of(bits)))
    assert found is not None
    assert found.key.public_numbers() == key_of(bits).public_key().public_numbers()
    assert found.valid_at(found.not_before)
    assert not found.valid_at(found.not_before - 1)
    assert not found.valid_at(found.not_after + 1)


@pytest.mark.spec("QB-061")
@pytest.mark.parametrize("bad", [b"", b"\x30", b"\x30\x82\xff\xff", bytes(100), b"\x30\x80" * 5000, bytes(0x10000)],
                         ids=lambda bad: f"{bad[:4].hex()}x{len(bad)}")
def test_garbage_is_no_certificate(bad: bytes) -> None:
    assert read_certificate(bad) is None


def test_a_cut_or_bent_certificate_never_raises() -> None:
    der = certificate_of(key_of(1024))
    for at in range(len(der)):
        read_certificate(der[:at])
        read_certificate(der[:at] + bytes([der[at] ^ 0x41]) + der[at + 1 :])


def test_another_kind_of_key_is_no_use() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    assert read_certificate(certificate_of(ec.generate_private_key(ec.SECP256R1()))) is None


def test_signer_is_not_changed_by_verification() -> None:
    packet = signed_by(alice(), 3)
    before = replace(packet.properties), packet.packet
    level_of(packet)
    assert (packet.properties, packet.packet) == before
