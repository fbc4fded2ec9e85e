"""The worked examples of [MC-MQSRM] section 4, read and written."""

from uuid import UUID

import pytest

from lior.errors import Malformed
from lior.message import NULL_GUID, Acknowledgements, MessageClass, ObjectId
from lior.wire.mime import format_entity, parse_entity
from lior.wire.srmp_elements import NO_IDENTIFIER, Envelope, StreamId
from lior.wire.srmp_message import to_message
from lior.wire.srmp_reader import read_envelope
from lior.wire.srmp_values import date
from lior.wire.srmp_writer import write_envelope
from tests.wire import srmp_examples as examples


def written(envelope: Envelope) -> bytes:
    """Without the Header as it was received, which would be added."""
    envelope.header_text = ""
    return write_envelope(envelope)


@pytest.mark.spec("SR-217", "SR-037", "SR-038", "SR-036", "SR-049")
def test_the_multicast_example_has_its_stated_lengths_and_is_written_again_to_the_octet() -> None:
    kind, entity = examples.multipart(292, examples.MULTICAST, examples.MULTICAST_BODY, examples.MULTICAST_GUID)
    assert (len(examples.MULTICAST), len(entity)) == (779, 1067)
    found = parse_entity(kind, entity)
    assert found.body is not None
    assert bytes(found.body.data).decode("utf-16-le") == "ardenwhite"
    envelope = read_envelope(found.envelope)
    assert envelope.to == "MSMQ:MULTICAST=234.1.1.1:8001"
    again = written(envelope)
    assert again == examples.MULTICAST
    new_kind, pieces = format_entity(again, examples.MULTICAST_BODY, b"", examples.MULTICAST_GUID, 292)
    assert (new_kind, b"".join(pieces)) == (kind, entity)


@pytest.mark.spec("SR-214", "SR-045", "SR-052", "SR-075")
def test_the_minimal_message_has_the_defaults() -> None:
    kind, entity = examples.multipart(53287, examples.SIMPLE, b"First Message", examples.PART_GUID)
    parsed = parse_entity(kind, entity)
    envelope = read_envelope(parsed.envelope)
    message = to_message(envelope, parsed, b"compound", 0.0)
    assert (message.label, message.body, message.priority, message.message_class) == (
        "mqsender label", b"First Message", 3, MessageClass.NORMAL)  # fmt: skip
    assert message.time_to_reach_queue == 86400
    assert message.identifier == NO_IDENTIFIER == ObjectId(NULL_GUID, 1)
    assert message.destination_queue == "DIRECT=HTTP://machine2/msmq/private$/simpleq"


@pytest.mark.spec("SR-214", "SR-051", "SR-083", "SR-088", "SR-138")
def test_a_message_with_its_own_properties_has_them() -> None:
    kind, entity = examples.multipart(26500, examples.WITH_MSMQ, examples.ORDER, "caf195ea-615c-4264-ae08-11a4e60194c0")
    parsed = parse_entity(kind, entity)
    message = to_message(read_envelope(parsed.envelope), parsed, b"", 0.0)
    assert message.identifier == ObjectId(UUID("caf195ea-615c-4264-ae08-11a4e60194c0"), 20503)
    assert message.time_to_reach_queue == 345600
    assert message.security is not None
    assert message.security.hash_algorithm == 32772
    assert message.body == examples.ORDER
    assert message.sent_time == date("20070719T031140", "")


@pytest.mark.spec("SR-215", "SR-064", "SR-040", "SR-139", "SR-054", "SR-063")
def test_receipt_requests_are_understood_with_other_prefixes_and_in_any_order() -> None:
    envelope = read_envelope(examples.WITH_REQUESTS)
    services = envelope.services
    assert services.delivery_receipt_to == "http://machine1/MSMQ/private$/receipts"
    assert services.commitment_receipt_to == "http://machine1/MSMQ/private$/deliverydone"
    assert services.positive_only and services.negative_only and not services.durable
    assert envelope.label is None
    assert envelope.identifier == NO_IDENTIFIER
    message = to_message(envelope, parse_entity("text/xml", examples.WITH_REQUESTS), b"", 0.0)
    wanted = (
        Acknowledgements.POSITIVE_ARRIVAL | Acknowledgements.POSITIVE_RECEIVE | Acknowledgements.NEGATIVE_RECEIVE
    )
    assert message.acknowledgements_requested == wanted
    assert message.response_queue == "DIRECT=HTTP://machine1/msmq/private$/Q1"
    assert message.administration_queue == "DIRECT=HTTP://machine1/msmq/private$/receipts"


@pytest.mark.spec("SR-125", "SR-072", "SR-073", "SR-080", "SR-218", "SR-189", "SR-190")
@pytest.mark.parametrize(
    ("example", "length"), [(examples.DELIVERY_RECEIPT, 959), (examples.COMMITMENT_RECEIPT, 994)]
)
def test_the_receipts_of_the_document_are_written_again_to_the_octet(example: bytes, length: int) -> None:
    kind, pieces = format_entity(written(read_envelope(example)), b"", b"", "", 1)
    entity = b"".join(pieces)
    assert kind == "text/xml"
    assert len(entity) == length
    assert entity == example + b"\r\n"


@pytest.mark.spec("SR-216", "SR-067", "SR-068", "SR-071", "SR-061", "SR-141")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_stream_of_the_document_is_read(number: int) -> None:
    envelope = read_envelope(examples.stream_message(number))
    stream = envelope.stream
    assert stream is not None
    assert stream.stream_id == StreamId(UUID("2744e4e1-2b48-43e8-b441-42745f280d53"), 0x432B1643_00000006)
    assert stream.current == number
    assert stream.send_receipts_to == (examples.RECEIPTS_URL if number == 1 else "")
    message = to_message(envelope, parse_entity("text/xml", examples.stream_message(number)), b"", 0.0)
    assert message.transaction is not None
    assert message.transaction.previous_sequence_number == number - 1
    assert message.delivery_guarantee == 1  # though none of them says durable
    assert date("20050916T190019", "") == 0x432B1643


@pytest.mark.spec("SR-216", "SR-074", "SR-047")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_stream_receipts_of_the_document_are_read_and_written_again(number: int) -> None:
    example = examples.stream_receipt(number)
    envelope = read_envelope(example)
    assert envelope.stream_receipt is not None
    assert envelope.stream_receipt.last_ordinal == number
    assert (envelope.label, envelope.to) == ("QM Ordering Ack", examples.RECEIPTS_URL)
    assert written(envelope) == example


@pytest.mark.spec("SR-143", "SR-033", "SR-044", "SR-057")
@pytest.mark.parametrize("length", range(0, len(examples.WITH_MSMQ), 7))
def test_an_envelope_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(Malformed):
        read_envelope(examples.WITH_MSMQ[:length])


@pytest.mark.spec("SR-143")
@pytest.mark.parametrize(
    "name", ["path", "action", "to", "id", "properties", "expiresAt", "Class", "Priority", "BodyType", "SourceQmGuid",
             "TTrq"],
)  # fmt: skip
def test_each_element_that_must_be_there_is_missed(name: str) -> None:
    import re

    without = re.sub(rf"<{name}( [^>]*)?>.*?</{name}>".encode(), b"", examples.WITH_MSMQ, count=1)
    assert without != examples.WITH_MSMQ
    with pytest.raises(Malformed):
        read_envelope(without)
