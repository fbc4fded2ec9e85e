"""What the guard lets in, and as whom: signatures, identities, rights, and the fast way for plain messages."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lior.message import MessageClass
from lior.queues.definition import QueuePrivacy
from lior.queues.events import AccessAudited
from lior.security import (
    ADMINISTRATORS,
    ANONYMOUS,
    EVERYONE,
    Ace,
    AceFlags,
    AceType,
    Acl,
    Control,
    QueueAccess,
    SecurityDescriptor,
    Sid,
    allow,
    deny,
)
from lior.server.transfer_security import PLAIN, SecurityPolicy
from lior.wire.dtyp import encode_sid
from lior.wire.headers import AS_MASK, AU, DE, SecurityHeader
from lior.wire.optional_headers import Security, provider_info
from lior.wire.user_message import UserMessage
from tests.protocols.security import second_security as second
from tests.protocols.security.signed_packets import (
    ALICE,
    BOB,
    SENDER,
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
from tests.server.transfer_security.desk import Desk, signed
from tests.wire.packets import user_messages

DENIED, BAD_SIGNATURE, BAD_ENCRYPTION, UNSUPPORTED = 0x8004, 0x8006, 0x8007, 0x800B
CLASSES = {0, DENIED, BAD_SIGNATURE, BAD_ENCRYPTION, UNSUPPORTED}
WRITE = QueueAccess.WRITE_MESSAGE
OWNER = ADMINISTRATORS


def rights(*aces: Ace, sacl: Acl | None = None) -> SecurityDescriptor:
    return SecurityDescriptor(owner=OWNER, dacl=Acl.of(*aces), sacl=sacl)


def from_sender(kind: int, sender: bytes, flags: int = 0) -> UserMessage:
    packet = packet_of(message())
    packet.security = Security(SecurityHeader(kind | flags), sender)
    return arrived(packet)


def claiming(sid: Sid) -> UserMessage:
    return from_sender(1, encode_sid(sid))


def plain() -> UserMessage:
    return packet_of(message())


# ---- identity -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-161", "QB-163", "QB-058")
@pytest.mark.parametrize("level", [1, 3, 5])
def test_a_registered_signature_makes_its_sender_known(level: int) -> None:
    desk = Desk()
    queue = desk.queue()
    desk.register()
    checked = desk.check(signed(level=level, made_of=several() if level == 5 else None), queue)
    assert (checked.refused, checked.authentication_level, checked.body) == (0, level, None)
    assert (checked.caller.sid, checked.caller.authenticated, checked.caller.is_administrator) == (ALICE, True, False)


@pytest.mark.spec("QB-162", "QB-161")
@pytest.mark.parametrize("field", ["body", "label", "signature", "certificate"])
def test_one_changed_bit_refuses_a_signed_message(field: str) -> None:
    desk = Desk()
    queue = desk.queue()
    desk.register()
    packet = signed()
    assert packet.security is not None
    if field == "body":
        packet.body = bytes([packet.body[0] ^ 1]) + bytes(packet.body[1:])
    elif field == "label":
        packet.label = bytes([packet.label[0] ^ 1]) + packet.label[1:]
    elif field == "signature":
        packet.security.signature = bytes([packet.security.signature[0] ^ 1]) + packet.security.signature[1:]
    else:
        der = packet.security.sender_cert
        packet.security.sender_cert = der[:-1] + bytes([der[-1] ^ 1])
    assert desk.check(arrived(packet), queue).refused == BAD_SIGNATURE


@pytest.mark.spec("QB-163", "QB-162")
def test_a_good_signature_with_a_certificate_that_nobody_registered_is_refused() -> None:
    desk = Desk()
    queue = desk.queue()
    assert desk.check(signed(), queue).refused == BAD_SIGNATURE
    desk.register(alice())
    assert desk.check(signed(), queue).refused == 0
    assert desk.check(signed(bob()), queue).refused == BAD_SIGNATURE


@pytest.mark.spec("QB-163")
def test_a_certificate_speaks_for_its_own_sid_only() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.register()
    assert desk.check(signed(bob(), sid=ALICE), queue).refused == BAD_SIGNATURE
    assert desk.check(signed(alice(), sid=BOB), queue).refused == BAD_SIGNATURE
    assert desk.check(signed(bob()), queue).caller.sid == BOB


@pytest.mark.spec("QB-163", "QB-118")
def test_a_certificate_that_was_removed_is_refused() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.register()
    assert desk.check(signed(), queue).refused == 0
    (found,) = [each for each in desk.files.certificates.list() if each.owner == ALICE]
    desk.files.certificates.remove(found.digest)
    assert desk.check(signed(), queue).refused == BAD_SIGNATURE
    assert desk.check(signed(bob()), queue).refused == 0


def test_a_certificate_counts_between_its_dates_only() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.register()
    day = 86400.0
    for days, refused in ((0, 0), (-11, BAD_SIGNATURE), (354, 0), (356, BAD_SIGNATURE), (0, 0)):
        checked = desk.check(signed(), queue)
        desk.wall += days * day
        assert desk.check(signed(), queue).refused == refused, checked.why
        desk.wall -= days * day
    lenient = Desk(policy=SecurityPolicy(check_certificate_dates=False))
    lenient.register()
    lenient.wall += 9999 * day
    assert lenient.check(signed(), lenient.queue()).refused == 0


def test_a_short_key_proves_nothing_unless_it_is_allowed() -> None:
    short = Signer(key_of(512), certificate_of(key_of(512)))
    for bits, refused in ((1024, BAD_SIGNATURE), (512, 0)):
        desk = Desk(policy=SecurityPolicy(minimum_signature_bits=bits))
        desk.register(short)
        assert desk.check(signed(short, algorithm=0x8004), desk.queue()).refused == refused


@pytest.mark.spec("QB-048", "QB-215", "MQ-103", "QB-162")
def test_the_hash_of_a_signature_must_be_known_and_allowed() -> None:
    desk, lenient = Desk(), Desk(policy=SecurityPolicy(allow_md5=True))
    for each in (desk, lenient):
        each.register()
    queues = desk.queue(), lenient.queue()
    packet = signed(algorithm=0x8003)
    assert (desk.check(packet, queues[0]).refused, lenient.check(packet, queues[1]).refused) == (BAD_SIGNATURE, 0)
    packet.properties.hash_algorithm = 0x8005
    assert lenient.check(packet, queues[1]).refused == BAD_SIGNATURE
    unsigned = plain()
    unsigned.properties.hash_algorithm = 0
    assert desk.check(unsigned, queues[0]).refused == 0


@pytest.mark.spec("MQ-137", "QB-161")
@pytest.mark.parametrize("algorithm", [0x8003, 0x8004, 0x800C, 0x800E])
def test_the_default_provider_is_that_of_any_generation(algorithm: int) -> None:
    """DE without ProviderInfo: MD5 and SHA-1 by the base provider of the old ones, SHA-2 by that of the later ones."""
    desk = Desk(policy=SecurityPolicy(allow_md5=True))
    desk.register()
    packet = signed(algorithm=algorithm)
    assert packet.security is not None
    assert packet.security.header.flags & DE and not packet.security.provider_info
    checked = desk.check(packet, desk.queue())
    assert (checked.refused, checked.caller.sid) == (0, ALICE)


@pytest.mark.spec("QB-058", "MQ-128")
def test_claims_about_authentication_are_wiped_out_before_anything_else() -> None:
    desk = Desk()
    queue = desk.queue()
    for packet in (from_sender(1, encode_sid(ALICE), AU | 0x300), from_sender(2, bytes(16), AU | AS_MASK)):
        assert packet.security is not None
        assert packet.security.header.flags & AU
        checked = desk.check(packet, queue)
        assert (checked.refused, checked.authentication_level) == (0, 0)
        assert not packet.security.header.flags & (AU | AS_MASK)
    guarded = desk.queue("guarded", authentication=True)
    assert desk.check(from_sender(1, encode_sid(ALICE), AU | 0x300), guarded).refused == BAD_SIGNATURE


def test_a_signature_without_a_sender_is_checked_but_proves_nobodys_identity() -> None:
    desk = Desk()
    queue, guarded = desk.queue(), desk.queue("guarded", authentication=True)
    packet = signed()
    assert packet.security is not None
    packet.security.header.flags, packet.security.sender_id = DE, b""
    checked = desk.check(arrived(packet), queue)
    assert (checked.refused, checked.authentication_level, checked.caller.sid) == (0, 0, ANONYMOUS)
    assert desk.check(arrived(packet), guarded).refused == BAD_SIGNATURE
    packet.label = b""
    assert desk.check(arrived(packet), queue).refused == BAD_SIGNATURE


@pytest.mark.spec("MQ-134")
def test_a_queue_manager_signs_as_everyone_once_its_certificate_is_registered() -> None:
    desk = Desk()
    packet = signed()
    assert packet.security is not None
    packet.security.header.flags, packet.security.sender_id = 2 | DE, SENDER.bytes_le
    queue = desk.queue(authentication=True)
    assert desk.check(arrived(packet), queue).refused == BAD_SIGNATURE
    desk.register()  # for Alice: another owner
    assert desk.check(arrived(packet), queue).refused == BAD_SIGNATURE
    desk.files.certificates.register(SENDER, alice().certificate)
    checked = desk.check(arrived(packet), queue)
    assert (checked.refused, checked.authentication_level, checked.caller.sid) == (0, 3, EVERYONE)


@pytest.mark.spec("QB-166", "MQ-134")
def test_what_a_queue_manager_proved_does_not_count_for_one_that_only_claims() -> None:
    desk = Desk()
    desk.files.certificates.register(SENDER, alice().certificate)
    queue = desk.queue(security=rights(deny(ANONYMOUS, WRITE), allow(EVERYONE, WRITE)))
    packet = signed()
    assert packet.security is not None
    packet.security.header.flags, packet.security.sender_id = 2 | DE, SENDER.bytes_le
    for _ in range(2):
        assert desk.check(arrived(packet), queue).refused == 0
        assert desk.check(from_sender(2, SENDER.bytes_le), queue).refused == DENIED


def test_a_signature_for_several_destinations_needs_a_certificate() -> None:
    desk = Desk()
    packet = packet_of(several())
    assert packet.multi_queue is not None
    packet.multi_queue.signature = bytes(128)
    assert desk.check(arrived(packet), desk.queue()).refused == BAD_SIGNATURE


def test_an_unknown_provider_is_named_as_the_reason() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.register()
    for kind, refused in ((1, 0), (0x18, 0), (3, UNSUPPORTED), (0, UNSUPPORTED)):
        packet = signed()
        assert packet.security is not None
        packet.security.header.flags = 1
        packet.security.provider_info = provider_info(kind, "Some Provider")
        assert desk.check(arrived(packet), queue).refused == refused


@pytest.mark.spec("QB-161", "QB-061")
@pytest.mark.parametrize("certificate", [b"x", b"\x30\x82\x01\x00" + bytes(252), bytes(0xFFFF), b"\x30\x80" * 9000])
def test_a_garbage_certificate_is_a_bad_signature(certificate: bytes) -> None:
    desk = Desk()
    packet = packet_of(message())
    put_signature(packet, b"s" * 128, Signer(key_of(1024), certificate), 0x800E)
    assert desk.check(arrived(packet), desk.queue()).refused == BAD_SIGNATURE
    assert packet.security is not None
    packet.security.header.flags, packet.security.sender_id = DE, b""
    assert desk.check(arrived(packet), desk.queue("r")).refused == BAD_SIGNATURE


# ---- rights ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-166")
def test_an_unsigned_sid_is_a_claim_and_a_signed_one_an_identity() -> None:
    desk = Desk()
    desk.register()
    queue = desk.queue(security=rights(allow(ALICE, WRITE)))
    assert desk.check(plain(), queue).refused == DENIED
    assert desk.check(claiming(ALICE), queue).refused == DENIED
    assert desk.check(signed(), queue).refused == 0
    assert desk.check(signed(bob()), queue).refused == DENIED


@pytest.mark.spec("QB-166")
def test_a_missing_security_header_does_not_get_around_the_list() -> None:
    desk = Desk()
    queue = desk.queue(security=rights(deny(ANONYMOUS, WRITE), allow(EVERYONE, WRITE)))
    packet = plain()
    assert packet.security is None
    assert desk.check(packet, queue).refused == DENIED
    assert desk.check(claiming(ALICE), queue).refused == DENIED


@pytest.mark.spec("QB-166")
def test_a_queue_managers_guid_is_everyone_but_never_more_than_anonymous() -> None:
    desk = Desk()
    sender = from_sender(2, bytes(16))
    assert desk.check(sender, desk.queue("a", security=rights(allow(EVERYONE, WRITE)))).caller.sid == EVERYONE
    assert desk.check(sender, desk.queue("b", security=rights(allow(ANONYMOUS, WRITE)))).refused == DENIED
    wary = rights(deny(ANONYMOUS, WRITE), allow(EVERYONE, WRITE))
    assert desk.check(sender, desk.queue("c", security=wary)).refused == DENIED
    assert desk.check(sender, desk.queue("d", security=rights(allow(ALICE, WRITE)))).refused == DENIED


def test_a_null_list_lets_everybody_in_and_an_empty_one_nobody() -> None:
    desk = Desk()
    desk.register()
    open_to_all = SecurityDescriptor(owner=OWNER, control=Control.DACL_PRESENT)
    assert desk.check(plain(), desk.queue("open", security=open_to_all)).refused == 0
    closed = desk.queue("closed", security=rights())
    assert (desk.check(plain(), closed).refused, desk.check(signed(), closed).refused) == (DENIED, DENIED)


def test_authenticated_users_are_those_who_signed() -> None:
    desk = Desk()
    desk.register()
    queue = desk.queue(security=rights(allow(Sid.parse("S-1-5-11"), WRITE)))
    assert (desk.check(plain(), queue).refused, desk.check(signed(), queue).refused) == (DENIED, 0)


def test_nobody_sends_to_the_queue_managers_own_queues() -> None:
    desk = Desk()
    desk.register()
    queue = desk.queue(journaling=True)
    assert queue.journal is not None
    deadletter = desk.engine.manager.core.paths["system$;deadletter"]
    for target in (queue.journal, deadletter):
        assert desk.check(plain(), target).refused == DENIED
        assert desk.check(signed(), target).refused == DENIED


# ---- what the queue asks for ----------------------------------------------------------------------------------------


@pytest.mark.spec("QB-167", "MQ-160")
def test_a_queue_that_wants_authentication_takes_signed_messages_only() -> None:
    desk = Desk()
    desk.register()
    queue = desk.queue(authentication=True)
    for packet in (plain(), claiming(ALICE), packet_of(transactional())):
        assert desk.check(packet, queue).refused == BAD_SIGNATURE
    assert desk.check(signed(), queue).refused == 0


@pytest.mark.spec("QB-167", "MQ-161")
def test_a_queue_that_wants_encryption_refuses_clear_bodies_signed_or_not() -> None:
    desk = Desk()
    desk.register()
    queue = desk.queue(privacy_level=QueuePrivacy.BODY.value)
    assert desk.check(plain(), queue).refused == BAD_ENCRYPTION
    assert desk.check(signed(), queue).refused == BAD_ENCRYPTION


# ---- the fast way ---------------------------------------------------------------------------------------------------


def test_the_second_plain_message_to_an_open_queue_takes_the_fast_way() -> None:
    desk = Desk()
    queue = desk.queue()
    assert desk.check(plain(), queue).refused == 0
    assert desk.check(plain(), queue) is PLAIN
    assert (PLAIN.refused, PLAIN.body, PLAIN.authentication_level, PLAIN.caller.sid) == (0, None, 0, ANONYMOUS)


@pytest.mark.spec("QB-166", "QB-167")
@pytest.mark.parametrize(("changes", "refused"), [
    ({"authentication": True}, BAD_SIGNATURE), ({"privacy_level": 2}, BAD_ENCRYPTION), ({"label": "other"}, 0)])
def test_a_change_of_the_queue_is_seen_by_the_next_message(changes: dict[str, Any], refused: int) -> None:
    desk = Desk()
    queue = desk.queue()
    for _ in range(3):
        assert desk.check(plain(), queue).refused == 0
    desk.engine.do(desk.engine.manager.set_queue_properties, queue, changes, desk.engine.admin)
    assert desk.check(plain(), queue).refused == refused


@pytest.mark.spec("QB-166")
def test_a_change_of_the_rights_is_seen_by_the_next_message() -> None:
    desk = Desk()
    desk.register()
    queue = desk.queue()
    for _ in range(2):
        assert (desk.check(plain(), queue).refused, desk.check(signed(), queue).refused) == (0, 0)
    desk.engine.do(desk.engine.manager.set_queue_security, queue, 4, rights(allow(BOB, WRITE)), desk.engine.admin)
    assert (desk.check(plain(), queue).refused, desk.check(signed(), queue).refused) == (DENIED, DENIED)
    assert desk.check(signed(bob()), queue).refused == 0


def test_what_is_audited_is_audited_every_time() -> None:
    desk = Desk()
    audit = Ace(int(AceType.SYSTEM_AUDIT), int(AceFlags.SUCCESSFUL_ACCESS), int(WRITE), EVERYONE)
    queue = desk.queue(security=rights(allow(EVERYONE, WRITE), sacl=Acl.of(audit)))
    desk.engine.events.clear()
    for _ in range(3):
        assert desk.check(plain(), queue).refused == 0
    assert len([event for event in desk.engine.events if isinstance(event, AccessAudited)]) == 3


def test_a_message_on_its_way_to_somebody_else_is_none_of_our_business() -> None:
    desk = Desk()
    packet = signed()
    assert desk.check(packet, None) is PLAIN
    outgoing = desk.engine.sender(r"DIRECT=TCP:10.0.0.9\private$\q").queue
    assert desk.check(packet, outgoing) is PLAIN


def test_decisions_do_not_pile_up() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.guard._writers.update({(number, ALICE, True): queue.properties for number in range(10, 4106)})
    assert desk.check(plain(), queue).refused == 0
    assert len(desk.guard._writers) == 1


# ---- anything at all ------------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(user_messages(), st.sampled_from([SecurityPolicy(), SecurityPolicy(
    allow_md5=True, allow_rc2=True, allow_rc4=True, allow_40_bit_keys=True, minimum_signature_bits=512)]))
def test_any_packet_ends_in_one_of_the_classes(packet: UserMessage, policy: SecurityPolicy) -> None:
    desk = Desk(policy=policy)
    desk.register()
    desk.files.keys.public()
    queue = desk.queue()
    assert desk.check(UserMessage.decode(packet.encode()), queue).refused in CLASSES
    guarded = desk.queue("guarded", authentication=True)
    assert desk.check(UserMessage.decode(packet.encode()), guarded).refused in CLASSES - {0}


@given(st.binary(max_size=600), st.binary(max_size=300), st.integers(0, 2),
       st.sampled_from([0x8003, 0x8004, 0x800E, 0]), st.booleans())
def test_any_certificate_and_signature_end_in_one_of_the_classes(
    certificate: bytes, signature: bytes, kind: int, algorithm: int, near: bool
) -> None:
    desk = Desk()
    desk.register()
    packet = packet_of(message())
    sender = (b"", encode_sid(ALICE), bytes(16))[kind]
    der = alice().certificate[: len(certificate)] + certificate if near else certificate
    packet.security = Security(SecurityHeader(kind | DE), sender, b"", signature, der)
    if not (sender or signature or der):
        return
    packet.properties.hash_algorithm = algorithm
    assert desk.check(arrived(packet), desk.queue()).refused == (BAD_SIGNATURE if signature else 0)


def test_a_label_with_half_a_pair_of_surrogates_cannot_be_signed() -> None:
    desk = Desk()
    desk.register()
    packet = packet_of(message())
    packet.label = b"\x00\xd8\0\0"
    signature = second.signed(alice().pem, 0x800E, second.signed_bytes(packet.encode(), 3))
    put_signature(packet, signature, alice(), 0x800E)
    assert desk.check(arrived(packet), desk.queue()).refused == MessageClass.NACK_BAD_SIGNATURE
