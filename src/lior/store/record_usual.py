"""The fields of the messages that are as nearly all are, written at once: the same bytes as `encode_fields` makes."""

from functools import lru_cache
from struct import Struct
from typing import Final
from uuid import UUID

from lior.message import INFINITE, NULL_CORRELATION_ID, NULL_GUID, Message, MessageTransaction
from lior.store.record_fields import MESSAGE, encode_label, encode_source, prefix

# What nearly every message has besides its body: the same bytes as from encode_fields, in a third of the time.
_USUAL_NUMBERS: Final = Struct("<IBBd")  # the end of field 19, all of field 20
_TIME_TO_REACH_QUEUE: Final = Message().time_to_reach_queue


def _is_usual(message: Message) -> bool:
    """Whether only label, priority, delivery guarantee, negative journaling, destination, identifier, sent time,
    transaction and source can differ from their defaults."""
    return not (
        message.body_type
        or message.extension
        or message.application_tag
        or message.correlation_id is not NULL_CORRELATION_ID
        or message.message_class
        or message.acknowledgements_requested
        or message.positive_journaling_requested
        or message.time_to_reach_queue != _TIME_TO_REACH_QUEUE
        or message.time_to_be_received != INFINITE
        or message.administration_queue
        or message.response_queue
        or message.destination_multi_queue
        or message.application_deadletter_queue
        or message.source_queue_manager is NULL_GUID
        or not message.sent_time
        or message.tracing_requested
        or message.tracing_queue is not NULL_GUID
        or message.connector_type
        or message.hop_count
        or message.allow_peek_when_locked
        or message.security
        or message.soap
        or message.failure_reason
        or message.failed_destination
        or message.packet
    )


@lru_cache(maxsize=1024)  # few destinations get many messages
def _usual_parts(priority: int, delivery_guarantee: int, negative_journaling_requested: bool, destination_queue: str,
                 lineage: int, source: int) -> tuple[bytes, bytes]:
    """What stands before and after the numbers: fields 7, 8, 11, 16 and the begin of 19; field 40."""
    part = Message(priority=priority, delivery_guarantee=delivery_guarantee,
                   negative_journaling_requested=negative_journaling_requested,
                   destination_queue=destination_queue)
    before = [*MESSAGE.encode(part), prefix(19, 20), lineage.to_bytes(16, "big")]
    return b"".join(before), encode_source(UUID(int=source))


# The same numbers, and field 26 of a message that has its place in a stream behind another: its length, its fields 1 to
# 5; one that came over the network does not have the first
_IN_STREAM: Final = Struct("<IBBdBBBB16sBBQBBIBBIBBI")
_IN_STREAM_SIZE: Final = _IN_STREAM.size - _USUAL_NUMBERS.size - 2
_CAME_IN_STREAM: Final = Struct("<IBBdBBBBQBBIBBIBBI")
_CAME_IN_STREAM_SIZE: Final = _CAME_IN_STREAM.size - _USUAL_NUMBERS.size - 2
_FIRST_LAST: Final = {
    (first, last): (b"\x06\x01\x01" if first else b"") + (b"\x07\x01\x01" if last else b"")
    for first in (False, True) for last in (False, True)
}  # fields 6 and 7 of a transaction


def _encode_in_stream(message: Message, ordinal: int, transaction: MessageTransaction) -> bytes | None:
    """Fields 19 to 26; None where the transaction is not as nearly all are."""
    sequence_id, number = transaction.sequence_identifier, transaction.sequence_number
    previous, index, identifier = (
        transaction.previous_sequence_number, transaction.index, transaction.transaction_identifier.int)
    if not (sequence_id and number and previous and index) or transaction.final_ack_required or \
            transaction.connector_queue_manager is not None or transaction.status_queue:
        return None
    flags = _FIRST_LAST[transaction.first_in_transaction, transaction.last_in_transaction]
    if not identifier:
        return _CAME_IN_STREAM.pack(
            ordinal, 20, 8, message.sent_time, 26, _CAME_IN_STREAM_SIZE + len(flags),
            2, 8, sequence_id, 3, 4, number, 4, 4, previous, 5, 4, index) + flags  # fmt: skip
    return _IN_STREAM.pack(
        ordinal, 20, 8, message.sent_time, 26, _IN_STREAM_SIZE + len(flags), 1, 16, identifier.to_bytes(16, "big"),
        2, 8, sequence_id, 3, 4, number, 4, 4, previous, 5, 4, index) + flags  # fmt: skip


class _Parts:
    """What the last message had in common with the next, as a rule; found by identity, for the names and GUIDs of one
    batch are the same objects."""

    __slots__ = ("after", "before", "destination", "lineage", "numbers", "source")

    def __init__(self, numbers: tuple[int, int, bool], destination: str, lineage: UUID, source: UUID) -> None:
        self.numbers, self.destination, self.lineage, self.source = numbers, destination, lineage, source
        self.before, self.after = _usual_parts(*numbers, destination, lineage.int, source.int)


_last: _Parts | None = None


def encode_usual(message: Message) -> bytes | None:
    global _last
    identifier = message.identifier
    if identifier is None or not _is_usual(message):
        return None
    lineage, ordinal = identifier
    destination, source, parts = message.destination_queue, message.source_queue_manager, _last
    numbers = message.priority, message.delivery_guarantee, message.negative_journaling_requested
    if parts is None or destination is not parts.destination or lineage is not parts.lineage \
            or source is not parts.source or numbers != parts.numbers:
        parts = _last = _Parts(numbers, destination, lineage, source)
    transaction = message.transaction
    if transaction is None:
        middle: bytes | None = _USUAL_NUMBERS.pack(ordinal, 20, 8, message.sent_time)
    else:
        middle = _encode_in_stream(message, ordinal, transaction)
    if middle is None:
        return None
    data = b"".join((parts.before, middle, parts.after))
    return encode_label(message.label) + data if message.label else data
