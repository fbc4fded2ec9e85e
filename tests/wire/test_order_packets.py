"""OrderAck and FinalAck: their packets by hand and by a second decoder, and what an arriving packet is taken for."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import InvalidParameter, Malformed
from lior.message import Message, MessageClass, ObjectId
from lior.wire import order_packets as o
from lior.wire.headers import NULL_GUID_BYTES, SessionHeader
from lior.wire.message_packet import to_packet, to_user_message
from lior.wire.order_packets import FinalAck, OrderAck, Stray, recognise
from lior.wire.user_message import UserMessage
from tests.wire import second_session_packets as second
from tests.wire import second_user_message
from tests.wire.packets import U32, U64, units

OWN, PEER = UUID("11111111-2222-3333-4444-555555555555"), UUID("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee")
STREAM = 0x00000007_00000002  # TimeStamp 7, Ordinal 2
ORDER = OrderAck(STREAM, 5)
FINAL = FinalAck(STREAM, 5, 3, OWN.bytes_le, 77, 0x4000)
ADDRESS = "192.0.2.10"

FINAL_CLASSES = [0x4000, 0x8000, 0x8003, 0x8004, 0x8005, 0x8006, 0x8007, 0x8009, 0x800B, 0xC000, 0xC001, 0xC002, 0xC004]


def packet_of(message: Message) -> bytes:
    """The message as the queue manager that takes it would number and send it."""
    return to_packet(replace(message, identifier=ObjectId(PEER, 9)))


def mine(host: str) -> bool:
    return host.lower() in (ADDRESS, "here", "::1")


def seen(packet: bytes) -> OrderAck | FinalAck | Stray | None:
    return recognise(UserMessage.decode(packet), OWN.bytes_le, mine)


def changed(message: Message, **changes: object) -> bytes:
    return packet_of(replace(message, **changes))  # type: ignore[arg-type]


TO_ID = o.order_queue_of(OWN)
TO_ADDRESS = o.order_queue_at(ADDRESS)


# ---- what is sent ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-019")
def test_an_order_ack_to_an_identifier_has_192_bytes_and_the_flags_of_the_table() -> None:
    packet = packet_of(o.order_ack_message(ORDER, TO_ID))
    fields = second_user_message.decode(packet)
    assert len(packet) == 192
    assert fields["base_flags"] == 0 and fields["user_flags"] == 1 << 21 | 3 << 10
    assert fields["destination_queue"] == (3, 4) and fields["queue_manager_address"] == OWN.bytes_le
    assert fields["label"] == units("QM Ordering Ack") and len(UserMessage.decode(packet).label) == 32
    assert fields["message_class"] == 0x00FF and fields["ack_flags"] == 0 and fields["body_type"] == 0
    assert fields["message_size"] == 0x24 and fields["admin_queue"] == fields["response_queue"] == (0,)


@pytest.mark.spec("QB-019", "QB-020")
@pytest.mark.parametrize(("address", "text", "size"), [
    (ADDRESS, r"TCP:192.0.2.10\PRIVATE$\order_queue$", 264),
    ("::ffff:192.0.2.10", r"TCP:192.0.2.10\PRIVATE$\order_queue$", 264),
    ("2001:DB8::1", r"TCP:2001:db8::1\PRIVATE$\order_queue$", 268),
    ("fe80::1%eth0", r"TCP:fe80::1\PRIVATE$\order_queue$", 260)])
def test_an_order_ack_to_an_address_names_the_order_queue_there(address: str, text: str, size: int) -> None:
    packet = packet_of(o.order_ack_message(ORDER, o.order_queue_at(address)))
    fields = second_user_message.decode(packet)
    assert fields["destination_queue"] == (7, units(text)) and fields["queue_manager_address"] == bytes(16)
    assert fields["user_flags"] == 1 << 21 | 7 << 10
    name = 2 + 2 * (len(text) + 1)
    assert len(packet) == 188 + name + -name % 4 == size


@pytest.mark.parametrize("address", ["", "here", "1.2.3", "[::1]", "1.2.3.4:1801"])
def test_only_an_ip_address_has_an_order_queue_by_address(address: str) -> None:
    with pytest.raises(InvalidParameter):
        o.order_queue_at(address)


@pytest.mark.spec("QB-021", "QB-053")
def test_the_body_of_an_order_ack() -> None:
    body = ORDER.encode()
    assert body.hex() == "02000000070000000500000004000000" + "00" * 20
    assert second.order_ack(body) == {"ordinal": 2, "time_stamp": 7, "tx_sequence_number": 5,
                                      "tx_previous_sequence_number": 4, "reserved": bytes(20)}
    assert bytes(UserMessage.decode(packet_of(o.order_ack_message(ORDER, TO_ID))).body) == body
    assert OrderAck.decode(body[:16] + b"\xcd" * 20) == ORDER


@pytest.mark.spec("QB-023", "QB-024", "QB-025")
@pytest.mark.parametrize("message_class", FINAL_CLASSES)
@pytest.mark.parametrize("destination", [TO_ID, TO_ADDRESS])
def test_a_final_ack_is_an_order_ack_with_its_class_and_recoverable(message_class: int, destination: str) -> None:
    ack = FINAL._replace(message_class=message_class)
    packet = packet_of(o.final_ack_message(ack, destination))
    fields = second_user_message.decode(packet)
    assert fields["base_flags"] == 0 and fields["message_class"] == message_class and fields["ack_flags"] == 0
    assert fields["user_flags"] == 1 << 21 | 1 << 5 | (3 if destination == TO_ID else 7) << 10
    assert fields["label"] == units("QM Ordering Ack") and fields["body_type"] == 0 and fields["message_size"] == 0x24
    assert second.final_ack(fields["body"]) == {
        "ordinal": 2, "time_stamp": 7, "tx_sequence_number": 5, "tx_previous_sequence_number": 3,
        "source_guid": OWN.bytes_le, "message_id": 77}
    assert seen(packet) == ack
    assert ack.positive is (message_class == 0x4000)


@pytest.mark.parametrize("make", [
    lambda: OrderAck(STREAM, 0).encode(), lambda: OrderAck(1 << 64, 1).encode(), lambda: OrderAck(1, 1 << 32).encode(),
    lambda: FINAL._replace(tx_sequence_number=0).encode(), lambda: FINAL._replace(source_guid=b"short").encode(),
    lambda: o.final_ack_message(FINAL._replace(message_class=0x00FF), TO_ID),
    lambda: o.final_ack_message(FINAL._replace(message_class=0x1C000), TO_ID)])
def test_an_acknowledgement_that_cannot_be_is_not_made(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidParameter):
        make()


# ---- what arrives ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-020", "QB-126")
@pytest.mark.parametrize("destination", [
    TO_ID, TO_ADDRESS, r"DIRECT=TCP:192.0.2.10\private$\ORDER_QUEUE$", r"DIRECT=tcp:192.0.2.10\Private$\Order_Queue$",
    r"DIRECT=OS:HERE\private$\order_queue$", r"DIRECT=TCP:::1\private$\order_queue$"])
def test_our_order_queue_is_recognised_in_every_spelling(destination: str) -> None:
    assert seen(packet_of(o.order_ack_message(ORDER, destination))) == ORDER
    assert seen(packet_of(o.final_ack_message(FINAL, destination))) == FINAL


@pytest.mark.spec("QB-126")
@pytest.mark.parametrize("destination", [
    o.order_queue_of(PEER), f"PRIVATE={OWN}\\00000005", r"DIRECT=TCP:192.0.2.11\private$\order_queue$",
    r"DIRECT=OS:elsewhere\private$\order_queue$", r"DIRECT=TCP:192.0.2.10\order_queue$",
    r"DIRECT=OS:here\private$\orders",
    r"DIRECT=OS:here\private$\my_order_queue$", r"DIRECT=OS:here\private$\order_queue$;sub",
    r"DIRECT=SPX:here\private$\order_queue$", r"DIRECT=HTTP://here/msmq/private$/order_queue$",
    r"DIRECT=TCP:\private$\order_queue$"])
def test_other_queues_are_none_of_its_business(destination: str) -> None:
    assert seen(packet_of(o.order_ack_message(ORDER, destination))) is None


def test_a_null_identifier_is_ours() -> None:
    message = to_user_message(replace(o.order_ack_message(ORDER, TO_ID), identifier=ObjectId(PEER, 9)))
    message.user.queue_manager_address = NULL_GUID_BYTES
    assert seen(message.encode()) == ORDER


@pytest.mark.spec("QB-126")
@pytest.mark.parametrize("message_class", [*(int(one) for one in MessageClass), 0x0123, 0x3FFF, 0xE1FF])
def test_destination_and_class_decide_what_a_packet_is(message_class: int) -> None:
    message = o.order_ack_message(ORDER, TO_ID)
    expected = OrderAck if message_class == 0x00FF else FinalAck if message_class >= 0x4000 else Stray
    assert type(seen(changed(message, message_class=message_class))) is expected
    assert seen(changed(message, message_class=message_class, destination_queue=r"DIRECT=OS:here\private$\a")) is None


@pytest.mark.spec("QB-126")
@pytest.mark.parametrize("wrong", [
    {"label": ""}, {"label": "QM Ordering Ac"}, {"label": "qm ordering ack"}, {"body": bytes(35)}, {"body": bytes(37)},
    {"body": b""}, {"body": bytes(36)}, {"message_class": 0}])
def test_a_stray_in_the_order_queue_is_told_from_an_acknowledgement(wrong: dict[str, object]) -> None:
    for message in (o.order_ack_message(ORDER, TO_ID), o.final_ack_message(FINAL, TO_ADDRESS)):
        stray = seen(changed(message, **wrong))
        assert isinstance(stray, Stray) and stray.reason


@pytest.mark.spec("QB-019", "QB-126")
def test_priority_a_session_header_and_a_recoverable_order_ack_are_tolerated() -> None:
    message = to_user_message(replace(o.order_ack_message(ORDER, TO_ID), identifier=ObjectId(PEER, 9), priority=5,
                                      delivery_guarantee=1))
    message.session = SessionHeader(1, 0, 0, 1, 1)
    assert seen(message.encode()) == ORDER


@pytest.mark.parametrize("size", [*range(36), 37, 72])
def test_a_body_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(Malformed):
        OrderAck.decode((ORDER.encode() * 2)[:size])
    with pytest.raises(Malformed):
        FinalAck.decode((FINAL.encode() * 2)[:size], 0x4000)


@given(U64, st.integers(1, 0xFFFFFFFF), U32, st.binary(min_size=16, max_size=16), U32)
def test_any_acknowledgement_comes_back(stream: int, number: int, previous: int, source: bytes, ident: int) -> None:
    order, final = OrderAck(stream, number), FinalAck(stream, number, previous, source, ident, 0xC001)
    assert OrderAck.decode(order.encode()) == order and FinalAck.decode(final.encode(), 0xC001) == final
    assert second.order_ack(order.encode())["tx_previous_sequence_number"] == number - 1
    fields = second.final_ack(final.encode())
    assert (fields["time_stamp"] << 32 | fields["ordinal"], fields["tx_sequence_number"], fields["source_guid"],
            fields["message_id"]) == (stream, number, source, ident)


@given(st.binary(min_size=36, max_size=36))
def test_any_36_bytes_are_read_alike_by_both_decoders(body: bytes) -> None:
    try:
        fields = second.final_ack(body)
    except second.Refused:
        with pytest.raises(Malformed):
            FinalAck.decode(body, 0x4000)
        return
    assert OrderAck.decode(body).tx_sequence_number == fields["tx_sequence_number"]
    assert FinalAck.decode(body, 0x4000).encode() == body
