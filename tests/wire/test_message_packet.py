"""Message <-> packet ([MS-MQDMPR] 3.1.7.1.30 to 3.1.7.1.32): each row of the tables, and what is never sent."""

from dataclasses import fields, replace
from typing import Any
from uuid import UUID

import pytest

from lior.errors import IllegalFormatName, InvalidParameter, LabelTooLong, LiorError, Malformed, MessageTooLarge
from lior.message import (
    INFINITE,
    NULL_GUID,
    Acknowledgements,
    AuthenticationLevel,
    EncryptionAlgorithm,
    HashAlgorithm,
    Message,
    MessageSecurity,
    MessageSoap,
    MessageTransaction,
    ObjectId,
    PrivacyLevel,
    SenderIdentifierType,
)
from lior.wire.message_packet import from_user_message, to_message, to_packet, to_user_message
from lior.wire.queue_names import PacketName
from lior.wire.user_message import UserMessage, rejoin
from tests.wire import second_user_message
from tests.wire.packets import FRAME_7, frame

SOURCE = UUID("00112233-4455-6677-8899-aabbccddeeff")
HERE = UUID("11111111-1111-1111-1111-111111111111")
OTHER = UUID("22222222-2222-2222-2222-222222222222")
SID = bytes.fromhex("01020000 00000005 20000000 20020000")


def message(**values: Any) -> Message:
    defaults: dict[str, Any] = {"identifier": ObjectId(SOURCE, 5), "source_queue_manager": SOURCE,
                                "destination_queue": r"DIRECT=OS:host\private$\q"}
    return Message(**(defaults | values))


def second(**values: Any) -> dict[str, Any]:
    """The packet of a message as the second decoder reads it."""
    return second_user_message.decode(to_packet(message(**values)))


def back(sent: Message, **context: Any) -> Message:
    """The message that comes out of the packet, without the headers it came with."""
    received = to_message(to_packet(sent, **context), queue_manager=HERE)
    assert received.packet
    received.packet = b""
    return received


def private(guid: UUID, number: int) -> str:
    return f"PRIVATE={str(guid).upper()}\\{number:08X}"


FULL_SECURITY = MessageSecurity(
    SenderIdentifierType.SID, SID, b"certificate", b"signature", b"list signature",
    authentication_provider_type=24, authentication_provider_name="CSP", symmetric_key=b"key",
    privacy_level=PrivacyLevel.ADVANCED, hash_algorithm=HashAlgorithm.SHA256,
    encryption_algorithm=EncryptionAlgorithm.AES_128)
FULL = message(
    body=b"body", label="label", body_type=31, extension=b"ext", application_tag=7, correlation_id=bytes(range(20)),
    message_class=0x0123, priority=0, delivery_guarantee=1, acknowledgements_requested=0x0F,
    positive_journaling_requested=True, negative_journaling_requested=True, time_to_reach_queue=100,
    time_to_be_received=200, administration_queue=r"DIRECT=OS:a\admin", response_queue=r"DIRECT=OS:a\response",
    destination_multi_queue=r"DIRECT=OS:host\private$\q,DL=22222222-2222-2222-2222-222222222222", sent_time=1.7e9,
    tracing_requested=True, tracing_queue=OTHER, connector_type=OTHER, hop_count=3, security=FULL_SECURITY,
    transaction=MessageTransaction(
        sequence_identifier=1 << 32 | 2, sequence_number=4, previous_sequence_number=3, index=0xABCDE,
        first_in_transaction=True, last_in_transaction=True, final_ack_required=True, connector_queue_manager=OTHER),
    soap=MessageSoap(header="head", body="tail"))

# What is not on the wire: filled in by the receiver, or the sender's own business.
LOCAL = {"application_deadletter_queue", "allow_peek_when_locked", "failure_reason", "failed_destination", "packet",
         "lookup_identifier", "arrival_time", "abort_count", "move_count", "last_move_time"}


@pytest.mark.spec("DM-125", "DM-126")
def test_every_property_of_a_full_message_comes_back() -> None:
    assert back(FULL) == FULL
    default = Message()
    for field in fields(Message):
        if field.name not in LOCAL and field.name != "priority":  # 0 in a transaction
            assert getattr(FULL, field.name) != getattr(default, field.name), f"{field.name} is not tried"


@pytest.mark.spec("DM-125")
@pytest.mark.parametrize("name", sorted(
    {field.name for field in fields(Message)} - LOCAL - {"administration_queue", "transaction"}))
def test_each_property_alone_comes_back(name: str) -> None:  # the two left out need another one beside them
    value = 6 if name == "priority" else getattr(FULL, name)
    sent = message(**{name: value})
    if name == "security":
        sent.security = replace(FULL_SECURITY, multi_queue_signature=b"")
    assert back(sent) == sent


@pytest.mark.spec("DM-124")
def test_a_plain_message_has_the_three_mandatory_headers_and_no_other() -> None:
    read = second(security=MessageSecurity())
    assert read["user_flags"] & 0xFFFC0000 == 1 << 21 and read["base_flags"] == 3
    optional = {"transaction", "security", "debug", "soap", "multi_queue", "session", "connector_type"}
    assert not optional & read.keys()


@pytest.mark.spec("DM-124")
def test_headers_are_there_for_what_the_message_has() -> None:
    assert "transaction" in second(transaction=MessageTransaction(sequence_number=1))
    assert "debug" in second(tracing_queue=OTHER) and "debug" in second(tracing_requested=True)
    assert "multi_queue" in second(destination_multi_queue=r"DIRECT=OS:a\q,DIRECT=OS:b\q")
    assert "soap" in second(soap=MessageSoap(header="h")) and "soap" not in second(soap=MessageSoap(envelope="<x/>"))


@pytest.mark.spec("DM-124", "MQ-129")
@pytest.mark.parametrize(("security", "flags"), [
    (MessageSecurity(1, SID), 0x01), (MessageSecurity(2, bytes(16)), 0x02),
    (MessageSecurity(signature=b"s"), 0x40), (MessageSecurity(sender_certificate=b"c"), 0),
    (MessageSecurity(symmetric_key=b"k", privacy_level=5), 0x20),
    (MessageSecurity(signature=b"s", authentication_provider_type=1, authentication_provider_name="CSP"), 0),
])
def test_a_security_header_is_there_for_a_sender_id_a_signature_or_a_key(
        security: MessageSecurity, flags: int) -> None:
    assert second(security=security)["security"][0] == flags


@pytest.mark.spec("DM-039", "DM-126", "MQ-128")
def test_the_authentication_flags_are_never_sent_and_never_believed() -> None:
    security = MessageSecurity(1, SID, authentication_level=5, signature=b"s")
    assert second(security=security)["security"][0] & 0x0F10 == 0
    claimed = to_user_message(message(security=MessageSecurity(1, SID)))
    assert claimed.security is not None
    claimed.security.header.flags |= 0x0510
    received = to_message(claimed.encode(), queue_manager=HERE)
    assert received.security is not None and received.security.authentication_level == 0


@pytest.mark.spec("DM-038", "DM-039")
def test_without_a_security_header_privacy_and_authentication_are_none() -> None:
    assert Message().security is None
    assert (MessageSecurity().privacy_level, MessageSecurity().authentication_level) == (0, 0)
    assert [level.value for level in PrivacyLevel] == [0, 1, 3, 5]
    assert [level.name for level in AuthenticationLevel] == ["NONE", "SIG10", "SIG20", "SIG30", "XML_SIG"]
    read = second()
    assert read["privacy_level"] == 0 and (read["hash_algorithm"], read["encryption_algorithm"]) == (0x800E, 0x6610)
    assert to_message(to_packet(message()), queue_manager=HERE).security is None


@pytest.mark.spec("DM-038", "DM-126")
@pytest.mark.parametrize("level", [PrivacyLevel.BASE, PrivacyLevel.ENHANCED, PrivacyLevel.ADVANCED])
def test_a_privacy_level_marks_the_body_as_encrypted(level: PrivacyLevel) -> None:
    read = second(security=MessageSecurity(symmetric_key=b"k", privacy_level=level))
    assert read["privacy_level"] == level and read["security"][0] & 0x20


def test_a_message_to_be_encrypted_is_not_packed_in_clear() -> None:
    for security in (MessageSecurity(privacy_level=5), MessageSecurity(1, SID, privacy_level=1)):
        with pytest.raises(InvalidParameter, match="encrypted"):
            to_packet(message(security=security))
    prepared = to_user_message(message(body=b"clear", security=MessageSecurity(1, SID, privacy_level=5)))
    assert prepared.security is not None and prepared.security.header.flags == 0x21
    prepared.body, prepared.security.encryption_key = b"sixteen bytes ..", b"key"
    received = to_message(prepared.encode(), queue_manager=HERE)
    assert received.body == b"sixteen bytes .." and received.security is not None
    assert prepared.properties.message_size == 5


def test_a_clear_body_ends_at_message_size() -> None:
    packed = to_user_message(message(body=b"clear"))
    packed.body = b"clear and more"
    assert to_message(packed.encode(), queue_manager=HERE).body == b"clear"


@pytest.mark.spec("DM-125")
def test_frame_7_becomes_the_message_that_its_text_describes() -> None:
    received = to_message(frame(FRAME_7), queue_manager=HERE)
    source = UUID(bytes_le=frame(FRAME_7)[16:32])
    assert received.packet + received.body + bytes(0) and rejoin(received.packet, received.body) == frame(FRAME_7)
    received.packet = b""
    assert received == Message(
        body="a".encode("utf-16-le") * 1000, label="mqsender label", body_type=8, acknowledgements_requested=15,
        destination_queue=r"DIRECT=OS:a04bm02\q", identifier=ObjectId(source, 2286), source_queue_manager=source,
        sent_time=float(0x524F494C), security=MessageSecurity(
            1, bytes.fromhex("010500000000000515000000AD4A9EBD36D9FA3D63A656DAE8030000"),
            hash_algorithm=HashAlgorithm.SHA1, encryption_algorithm=EncryptionAlgorithm.RC4))
    assert received.time_to_reach_queue == 345600 and received.time_to_be_received == INFINITE


@pytest.mark.spec("DM-124", "DM-126", "MQ-089")
def test_frame_7_is_written_from_its_properties() -> None:
    received = to_message(frame(FRAME_7), queue_manager=HERE)
    received.packet = b""
    assert to_packet(received) == frame(FRAME_7)


@pytest.mark.spec("MQ-074", "DM-126")
def test_a_transactional_message_has_priority_0_and_is_recoverable() -> None:
    sent = message(priority=7, delivery_guarantee=0, transaction=MessageTransaction(sequence_number=1))
    read = second_user_message.decode(to_packet(sent))
    assert read["base_flags"] & 7 == 0 and read["user_flags"] >> 5 & 3 == 1
    assert back(sent).priority == 0
    packed = to_user_message(sent)
    packed.base.flags |= 7  # a peer that sets it all the same
    assert from_user_message(packed, queue_manager=HERE).priority == 0


@pytest.mark.spec("MQ-074")
@pytest.mark.parametrize("priority", range(8))
def test_the_priority_of_any_other_message_is_sent(priority: int) -> None:
    assert second(priority=priority)["base_flags"] == priority
    assert back(message(priority=priority)).priority == priority
    for wrong in (-1, 8):
        with pytest.raises(InvalidParameter, match="priority"):
            to_packet(message(priority=wrong))


@pytest.mark.spec("MQ-124", "DM-126")
@pytest.mark.parametrize(("field", "bit"), [
    ("final_ack_required", 2), ("first_in_transaction", 4), ("last_in_transaction", 8)])
def test_each_mark_of_a_transaction_is_its_bit(field: str, bit: int) -> None:
    transaction = MessageTransaction(sequence_number=1, index=0x80001)
    assert second(transaction=transaction)["transaction"][0] == 0x80001 << 4
    setattr(transaction, field, True)
    assert second(transaction=transaction)["transaction"][0] == 0x80001 << 4 | bit
    assert back(message(transaction=transaction, delivery_guarantee=1, priority=0)).transaction == transaction


@pytest.mark.spec("MQ-123")
def test_a_connector_queue_manager_is_there_when_it_is_given_even_if_null() -> None:
    for connector in (None, NULL_GUID, OTHER):
        transaction = MessageTransaction(sequence_number=1, connector_queue_manager=connector)
        received = back(message(transaction=transaction)).transaction
        assert received is not None and received.connector_queue_manager == connector


@pytest.mark.spec("MQ-126")
def test_an_unnumbered_message_of_a_stream_is_not_packed() -> None:
    for number, previous in ((0, 0), (3, 3)):
        with pytest.raises(InvalidParameter, match="TransactionHeader"):
            to_packet(message(transaction=MessageTransaction(
                sequence_number=number, previous_sequence_number=previous)))


@pytest.mark.spec("MQ-073", "MQ-076", "MQ-139")
@pytest.mark.parametrize(("requested", "queue", "flags", "debug"), [
    (False, NULL_GUID, 0x003, None), (True, NULL_GUID, 0x123, (0, 0, None)),
    (True, OTHER, 0x123, (1, 0, OTHER.bytes_le)), (False, OTHER, 0x023, (1, 0, OTHER.bytes_le))])
def test_tracing_sets_its_flags_and_its_header(requested: bool, queue: UUID, flags: int, debug: Any) -> None:
    read = second(tracing_requested=requested, tracing_queue=queue)
    assert read["base_flags"] == flags and read.get("debug") == debug


@pytest.mark.spec("MQ-080")
def test_each_property_is_its_bit_of_the_user_flags() -> None:
    plain = second()["user_flags"]
    assert plain == 1 << 21 | 7 << 10
    assert second(negative_journaling_requested=True)["user_flags"] == plain | 1 << 8
    assert second(positive_journaling_requested=True)["user_flags"] == plain | 1 << 9
    assert second(delivery_guarantee=1)["user_flags"] == plain | 1 << 5
    assert second(hop_count=0x1D)["user_flags"] == plain | 0x1D
    for wrong in ({"hop_count": 0x1E}, {"hop_count": -1}, {"delivery_guarantee": 2}):
        with pytest.raises(InvalidParameter, match="UserHeader"):
            to_packet(message(**wrong))


@pytest.mark.spec("MQ-098", "DM-126", "QB-045")
def test_the_length_of_a_label_counts_its_nul_and_its_utf_16_units() -> None:
    packed = to_user_message(message(label="día 😀"))
    packed.encode()
    assert packed.properties.label_length == 7 and packed.label_text == "día 😀"
    assert back(message(label="😀" * 124 + "x")).label == "😀" * 124 + "x"
    with pytest.raises(LabelTooLong):
        to_packet(message(label="😀" * 125))
    with pytest.raises(InvalidParameter, match="NUL"):
        to_packet(message(label="a\0"))


@pytest.mark.parametrize("label", ["", "x" * 249])
def test_labels_at_both_ends_come_back(label: str) -> None:
    assert back(message(label=label)).label == label


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("MQ-081")
def test_the_queue_manager_address_is_null_for_direct_names_and_set_for_others() -> None:
    assert second()["queue_manager_address"] == bytes(16)
    read = second(destination_queue=private(OTHER, 7))
    assert (read["queue_manager_address"], read["destination_queue"]) == (OTHER.bytes_le, (3, 7))
    public = message(destination_queue=f"PUBLIC={SOURCE}")
    read = second_user_message.decode(to_packet(public, destination_queue_manager=OTHER))
    assert (read["queue_manager_address"], read["destination_queue"]) == (OTHER.bytes_le, (5, SOURCE.bytes_le))
    with pytest.raises(InvalidParameter, match="queue manager"):
        to_packet(public)
    direct = to_packet(message(), destination_queue_manager=OTHER)
    assert second_user_message.decode(direct)["queue_manager_address"] == bytes(16)


@pytest.mark.spec("MQ-064", "MQ-081")
def test_a_numbered_destination_is_on_the_addressed_queue_manager_or_here() -> None:
    sent = message(destination_queue=private(OTHER, 0x1F))
    assert back(sent).destination_queue == private(OTHER, 0x1F)
    packed = to_user_message(sent)
    packed.user.queue_manager_address = bytes(16)
    assert from_user_message(packed, queue_manager=HERE).destination_queue == private(HERE, 0x1F)


@pytest.mark.spec("MQ-063", "MQ-064", "MQ-088", "MQ-090")
@pytest.mark.parametrize(("admin", "response", "admin_name", "response_name"), [
    (private(SOURCE, 1), private(SOURCE, 2), (2, 1), (2, 2)),
    (private(OTHER, 1), private(OTHER, 2), (3, 1), (3, 2)),
    (private(HERE, 1), private(HERE, 2), (6, HERE.bytes_le, 1), (4, 2)),
    (private(SOURCE, 1), private(HERE, 2), (2, 1), (6, HERE.bytes_le, 2)),
    (private(HERE, 1), private(HERE, 1), (6, HERE.bytes_le, 1), (1,)),
    (f"PUBLIC={str(HERE).upper()}", "", (5, HERE.bytes_le), (0,)),
])
def test_a_private_queue_is_a_number_where_its_host_is_known(
        admin: str, response: str, admin_name: tuple[Any, ...], response_name: tuple[Any, ...]) -> None:
    sent = message(destination_queue=private(OTHER, 9), administration_queue=admin, response_queue=response,
                   acknowledgements_requested=1)
    read = second_user_message.decode(to_packet(sent))
    assert (read["admin_queue"], read["response_queue"]) == (admin_name, response_name)
    assert back(sent) == sent


@pytest.mark.spec("MQ-088", "MQ-090", "MQ-064", "QB-042")
def test_every_type_of_administration_and_response_queue_resolves() -> None:
    packed = to_user_message(message(destination_queue=private(OTHER, 9)))
    types = {0: "", 2: private(SOURCE, 8), 3: private(OTHER, 8), 5: f"PUBLIC={str(HERE).upper()}",
             6: private(HERE, 8), 7: r"DIRECT=OS:x\q"}
    hosts = {2: SOURCE, 3: OTHER, 6: HERE}
    for aq, admin in types.items():
        packed.admin_queue = PacketName(aq, HERE.bytes_le, 8, r"OS:x\q")
        for rq in range(8):
            packed.response_queue = PacketName(rq, HERE.bytes_le, 8, r"OS:x\q")
            if rq == 4 and aq not in hosts:
                with pytest.raises(Malformed, match="ResponseQueue"):
                    to_message(packed.encode(), queue_manager=HERE)
                continue
            received = to_message(packed.encode(), queue_manager=HERE)
            expected = types | {1: admin, 4: private(hosts.get(aq, NULL_GUID), 8)}
            assert (received.administration_queue, received.response_queue) == (admin, expected[rq]), (aq, rq)


@pytest.mark.spec("MQ-089")
def test_an_administration_queue_is_sent_only_when_acknowledgements_are_asked_for() -> None:
    admin = r"DIRECT=OS:a\admin"
    for bit in (1, 2, 4, 8):
        assert second(administration_queue=admin, acknowledgements_requested=bit)["admin_queue"][0] == 7
    for none in (0, 0xF0):
        read = second(administration_queue=admin, response_queue=admin, acknowledgements_requested=none,
                      destination_multi_queue=r"DIRECT=OS:a\q,DIRECT=OS:b\q")
        assert read["admin_queue"] == (0,) and read["ack_flags"] == 0 and read["response_queue"][0] == 7
        assert read["multi_queue"][0][1] == (0, [])


@pytest.mark.spec("MQ-097")
@pytest.mark.parametrize(("kind", "bit"), [
    (Acknowledgements.POSITIVE_ARRIVAL, 0), (Acknowledgements.POSITIVE_RECEIVE, 1),
    (Acknowledgements.NEGATIVE_ARRIVAL, 2), (Acknowledgements.NEGATIVE_RECEIVE, 3)])
def test_each_acknowledgement_is_its_bit_and_unused_bits_are_neither_sent_nor_read(
        kind: Acknowledgements, bit: int) -> None:
    assert second(acknowledgements_requested=kind.value | 0xF0)["ack_flags"] == 1 << bit
    packed = to_user_message(message(acknowledgements_requested=kind.value))
    packed.properties.flags |= 0xF0
    assert to_message(packed.encode(), queue_manager=HERE).acknowledgements_requested == kind


@pytest.mark.spec("MQ-112", "QB-062")
def test_a_message_to_several_queues_lists_them_all_in_each_packet() -> None:
    names = r"DIRECT=OS:a\q,PUBLIC=22222222-2222-2222-2222-222222222222," + private(HERE, 7)
    for destination in (r"DIRECT=OS:a\q", private(HERE, 7)):
        sent = message(destination_queue=destination, destination_multi_queue=names)
        lists = second_user_message.decode(to_packet(sent))["multi_queue"][0]
        assert [element[0] for element in lists[0][1]] == [3, 1, 2] and lists[1] == lists[2] == (0, [])
        assert back(sent) == sent


@pytest.mark.spec("MQ-112")
def test_several_administration_and_response_queues_need_the_list_though_the_destination_is_one() -> None:
    sent = message(administration_queue=r"DIRECT=OS:a\x,DIRECT=OS:b\x", acknowledgements_requested=1,
                   response_queue=r"DIRECT=OS:c\x,DL=22222222-2222-2222-2222-222222222222")
    read = second_user_message.decode(to_packet(sent))
    assert [len(one[1]) for one in read["multi_queue"][0]] == [1, 2, 2]
    assert read["admin_queue"][0] == read["response_queue"][0] == 7
    received = back(sent)
    assert (received.administration_queue, received.response_queue) == (sent.administration_queue, sent.response_queue)
    assert received.destination_multi_queue == sent.destination_queue


def test_names_without_a_form_in_the_list_are_left_out_of_it() -> None:
    sent = message(destination_multi_queue=r"DIRECT=OS:a\q,MULTICAST=234.1.1.1:8001,DIRECT=OS:b\q")
    assert back(sent).destination_multi_queue == r"DIRECT=OS:a\q,DIRECT=OS:b\q"


@pytest.mark.parametrize("name", ["MULTICAST=234.1.1.1:8001", "DL=22222222-2222-2222-2222-222222222222",
                                  "PUBLIC=22222222-2222-2222-2222-222222222222;JOURNAL",
                                  "MACHINE=22222222-2222-2222-2222-222222222222;DEADLETTER"])
def test_a_name_that_a_packet_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameter, match="cannot name"):
        to_packet(message(destination_queue=name))
    with pytest.raises(IllegalFormatName):
        to_packet(message(destination_queue="nonsense"))


@pytest.mark.parametrize("text", ["not a name", r"OS:a\q,with a comma", " ", "TCP:no address\\q", "\ud800"])
def test_a_strange_direct_name_stays_readable_and_writes_back(text: str) -> None:
    packed = to_user_message(message())
    packed.response_queue = packed.destination_queue = PacketName(7, text=text)
    packet = packed.encode()
    received = to_message(packet, queue_manager=HERE)
    assert received.response_queue == f"DIRECT={text}"
    assert to_packet(received) == packet


def test_the_identifier_and_the_source_are_one_on_the_wire() -> None:
    assert second()["source_queue_manager"] == SOURCE.bytes_le and second()["message_id"] == 5
    unnamed = message(source_queue_manager=NULL_GUID, identifier=ObjectId(OTHER, 6))
    assert back(unnamed).identifier == ObjectId(OTHER, 6)
    with pytest.raises(InvalidParameter, match="identifier"):
        to_packet(message(identifier=None))


@pytest.mark.parametrize(("sent", "on_the_wire"), [
    (0.0, 0), (1.9, 1), (4294967295.0, 0xFFFFFFFF), (5e9, 0xFFFFFFFF), (-5.0, 0)])
def test_the_sent_time_is_whole_seconds_of_32_bits(sent: float, on_the_wire: int) -> None:
    assert second(sent_time=sent)["sent_time"] == on_the_wire


@pytest.mark.parametrize("wrong", [
    {"correlation_id": b"short"}, {"body_type": -1}, {"message_class": 0x10000}, {"application_tag": 1 << 32},
    {"time_to_reach_queue": -1}, {"time_to_be_received": 1 << 32}, {"identifier": ObjectId(SOURCE, 1 << 32)},
    {"transaction": MessageTransaction(sequence_number=1, index=1 << 20)},
    {"transaction": MessageTransaction(sequence_number=1, sequence_identifier=1 << 64)},
    {"security": MessageSecurity(sender_identifier_type=16, sender_identifier=b"x")},
    {"security": MessageSecurity(1, b"no SID")}, {"security": MessageSecurity(privacy_level=-1, symmetric_key=b"k")},
    {"security": MessageSecurity(signature=b"s", authentication_provider_name="x", authentication_provider_type=-1)}])
def test_a_value_without_room_on_the_wire_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        to_packet(message(**wrong))


@pytest.mark.spec("MQ-077")
def test_a_message_over_4_mib_is_refused_when_it_is_packed() -> None:
    room = 0x400000 - len(to_packet(message()))
    assert len(to_packet(message(body=bytes(room)))) == 0x400000
    with pytest.raises(MessageTooLarge):
        to_packet(message(body=bytes(room + 1)))


@pytest.mark.spec("MQ-100", "MQ-094", "MQ-099")
def test_what_belongs_to_applications_passes_unchanged() -> None:
    sent = message(correlation_id=b"\xff" * 20, application_tag=0xFFFFFFFF, body_type=0xDEADBEEF,
                   message_class=0xE1FF, connector_type=OTHER, extension=b"\0\1\2")
    assert back(sent) == sent


def test_the_headers_as_received_stay_with_the_message() -> None:
    packet = to_packet(FULL)
    received = to_message(packet, queue_manager=HERE)
    assert rejoin(received.packet, received.body) == packet and len(received.packet) == len(packet) - 4
    assert UserMessage.decode(rejoin(received.packet, received.body)).encode() == packet
    assert from_user_message(to_user_message(FULL), queue_manager=HERE).packet == b""


def test_bytes_that_are_no_packet_end_in_the_one_error() -> None:
    for junk in (b"", b"LIOR", bytes(200)):
        with pytest.raises(LiorError) as caught:
            to_message(junk, queue_manager=HERE)
        assert type(caught.value) is Malformed
