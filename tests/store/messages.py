"""Messages and batches for the store's tests."""

from uuid import UUID

from lior.message import Message, MessageSecurity, MessageSoap, MessageTransaction, ObjectId
from lior.queues.ports import PutMessage

GUID_1 = UUID("00112233-4455-6677-8899-aabbccddeeff")
GUID_2 = UUID("ffeeddcc-bbaa-9988-7766-554433221100")
PRIORITY_3 = 4 << 56


def full_message() -> Message:
    """No field has its default, but those that belong to a position."""
    return Message(
        body=b"body", label="étiquette \ud800", body_type=8, extension=b"ext" * 100, application_tag=7,
        correlation_id=bytes(range(20)), message_class=0x8001, priority=5, delivery_guarantee=1,
        acknowledgements_requested=14, positive_journaling_requested=True, negative_journaling_requested=True,
        time_to_reach_queue=1, time_to_be_received=0, administration_queue="DIRECT=OS:a\\b", response_queue="r",
        destination_queue="d", destination_multi_queue="d,e", application_deadletter_queue="dl",
        identifier=ObjectId(GUID_1, 0xFFFFFFFF), source_queue_manager=GUID_2, sent_time=1700000000.25,
        tracing_requested=True, tracing_queue=GUID_1, connector_type=GUID_2, hop_count=29, allow_peek_when_locked=True,
        security=MessageSecurity(1, b"sid", b"c" * 300, b"sig", b"mqf", 3, 24, "provider", b"key", 5, 0x8004, 0x6801),
        transaction=MessageTransaction(GUID_1, (1 << 64) - 1, 2, 1, 0xFFFFF, True, True, True, GUID_2, "status"),
        soap=MessageSoap("<e/>", b"mime", "<b/>", "<h/>", "http://h/r"), failure_reason=0x8002, failed_destination="x",
        packet=b"\x10\x00")


def put(lookup: int, *, queue: int = 1, body: bytes = b"", label: str = "") -> PutMessage:
    return PutMessage(queue, PRIORITY_3 + lookup, Message(body or b"body %d" % lookup, label=label), 1000.5 + lookup)
