"""The request of rpc_ACSendMessageEx (qmcomm2, opnum 1; [MS-MQMP] 3.1.5.2) straight from a Message.

The fixed part of CACTransferBufferV2 is the same for all messages with the same properties present, and so is all that
stands around body, label and the sizes: both are made once for each shape and joined with what differs. The general
codec takes ten times as long; a test holds the two against each other, byte for byte. What is rare (security, names of
other queues) goes through that codec: `transfer_buffer.py`.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple
from uuid import UUID

from lior.errors import IllegalPropertyValue, LabelTooLong
from lior.message import MAX_LABEL_LENGTH, NULL_CORRELATION_ID, NULL_GUID, Message
from lior.wire.ndr import FIRST_REFERENT

DEAD_LETTER: Final = 1  # pAuditing (2.2.3.2)
JOURNAL: Final = 2
_SHAPES: Final = 256  # that are remembered; an application tag makes a shape

# The fixed part behind the context handle (2.2.3.2, 2.2.3.3), all members of four bytes: "0" what a send leaves alone,
# a capital for a pointer that a property may have, a small letter for a number of the message's own.
_LAYOUT: Final = (
    "0 0 0 0 Class 0 Correlation 0 0 Priority Delivery Acknowledge Auditing Tag Body body body 0 Title title 0 reach 0 "
    "live 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 Uow Extension extension 0 0 Type 0 0 0 0"
)
_MEMBERS: Final = tuple(_LAYOUT.split(" "))
_COUNTS: Final = struct.Struct("<IIII")  # inner pointer of a `**`, maximum count, offset, actual count
_PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")
_MESSAGE_ID: Final = bytes(20)  # what pMessageID holds on the way in
_UOW_AND_ALL_BEFORE: Final = 4


class Shape(NamedTuple):
    """What messages with the same properties share: the fixed part around its numbers, the small values before the
    correlation id and the body, and what stands behind the extension."""

    fixed: tuple[bytes, ...]
    before: bytes  # up to the correlation id
    small: bytes  # from there to the body
    behind: bytes
    inner: tuple[int, ...]  # referents of the arrays of correlation id, body, label and extension


def _fixed_format() -> struct.Struct:
    """Runs of constants between the numbers."""
    text, run = "<20s", 0
    for member in _MEMBERS:
        if member.islower():
            text += f"{4 * run}sI" if run else "I"
            run = 0
        else:
            run += 1
    return struct.Struct(f"{text}{4 * run}s")


_FIXED: Final = _fixed_format()
_shapes: dict[tuple[object, ...], Shape] = {}


def send_stub(handle: bytes, message: Message, uow: UUID | None = None) -> list[bytes] | None:
    """The pieces of the stub, to be written one after the other; None if the message has properties of the rare
    kind."""
    if (
        message.security is not None or message.administration_queue or message.response_queue
        or message.connector_type is not None or message.tracing_requested or message.application_deadletter_queue
        or message.tracing_queue is not NULL_GUID or message.allow_peek_when_locked or message.soap is not None
        or not message.time_to_reach_queue
    ):  # fmt: skip
        return None
    label, extension, correlation, body = message.label, message.extension, message.correlation_id, message.body
    auditing = message.negative_journaling_requested * DEAD_LETTER + message.positive_journaling_requested * JOURNAL
    key = (
        message.message_class, message.priority, message.delivery_guarantee, message.acknowledgements_requested,
        auditing, message.application_tag, message.body_type, correlation == NULL_CORRELATION_ID, not label,
        not extension, uow is None,
    )  # fmt: skip
    shape = _shapes.get(key) or _remembered(key)
    fixed, inner, size = shape.fixed, shape.inner, len(body)
    text, title = b"", 0
    if label:
        text = label.encode("utf-16-le", "surrogatepass") + b"\0\0"
        title = len(text) >> 1
        if title > MAX_LABEL_LENGTH + 1:
            raise LabelTooLong(f"a label of {title - 1} UTF-16 units", where="Label",
                               remedy=f"a label has at most {MAX_LABEL_LENGTH}")
    try:
        head = _FIXED.pack(handle, fixed[0], size, size, fixed[1], title, fixed[2], message.time_to_reach_queue,
                           fixed[3], message.time_to_be_received, fixed[4], len(extension), fixed[5])
    except struct.error:
        raise IllegalPropertyValue("a time has 32 bits", where="time_to_reach_queue, time_to_be_received") from None
    parts = [head, shape.before]
    if correlation != NULL_CORRELATION_ID:
        parts += (_COUNTS.pack(inner[0], 20, 0, 20), correlation)
    parts += (shape.small, _COUNTS.pack(inner[1], size, 0, size), body)
    left = size
    if label:
        parts += (_PADDING[size & 3], _COUNTS.pack(inner[2], title, 0, title), text)
        left = len(text)
    if uow is not None:
        parts.append(uow.bytes_le)  # characters, which align to nothing
    parts.append(_PADDING[left & 3])
    if extension:
        parts += (_COUNTS.pack(inner[3], len(extension), 0, len(extension)), extension, _PADDING[len(extension) & 3])
    parts.append(shape.behind)
    return parts


def _remembered(key: tuple[object, ...]) -> Shape:
    if len(_shapes) >= _SHAPES:
        _shapes.clear()
    try:
        shape = _shapes[key] = _shape(*key)  # type: ignore[arg-type]
    except OverflowError:
        raise IllegalPropertyValue("a number is out of its range", where="message",
                                   remedy="priority is 0 to 7, delivery 0 or 1; classes have 16 bits") from None
    return shape


def _shape(
    message_class: int, priority: int, delivery: int, acknowledge: int, auditing: int, tag: int, body_type: int,
    uncorrelated: bool, unlabelled: bool, unextended: bool, alone: bool,
) -> Shape:  # fmt: skip
    """A property with its default has no pointer, but for priority and delivery, which servers do not agree on."""
    there = {"Priority", "Delivery", "Body"}
    there.update(name for name, value in (
        ("Class", message_class), ("Acknowledge", acknowledge), ("Auditing", auditing), ("Tag", tag),
        ("Type", body_type), ("Correlation", not uncorrelated), ("Title", not unlabelled),
        ("Extension", not unextended), ("Uow", not alone),
    ) if value)  # fmt: skip
    referent = FIRST_REFERENT
    fixed: list[bytes] = []
    run = b""
    for member in _MEMBERS:
        if member.islower():
            if run or not fixed:
                fixed.append(run)
            run = b""
        elif member in there:
            run += referent.to_bytes(4, "little")
            referent += 4
        else:
            run += bytes(4)
    inner = []
    for member in ("Correlation", "Body", "Title", "Extension"):  # each is finished before the next one starts
        inner.append(referent)
        referent += 4 * (member in there)
    before = message_class.to_bytes(2, "little") if message_class else b""
    if not uncorrelated:
        before += _PADDING[len(before) & 3]
    small = priority.to_bytes(1, "little") + delivery.to_bytes(1, "little")
    small += b"".join(value.to_bytes(1, "little") for value in (acknowledge, auditing) if value)
    at = len(small) + (len(before) if uncorrelated else 0)
    padding = _PADDING[at & 3]
    small += padding + (tag.to_bytes(4, "little") if tag else b"")
    behind = body_type.to_bytes(4, "little") if body_type else b""
    behind += referent.to_bytes(4, "little") + _MESSAGE_ID
    return Shape((*fixed, run), before, small, behind, tuple(inner))
