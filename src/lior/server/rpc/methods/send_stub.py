"""The stubs of rpc_ACSendMessageEx, read and written without the general codec where they are as usual.

A program sends the same properties again and again: only body, label, times, correlation and unit of work differ. So
what the general codec and `to_message` made of one request (checked by both) is kept as a template, found again by all
the bytes that do not differ. A request that is not found, or is not just like its template, goes through the general
codec; nothing is taken here that it would refuse, and tests hold the two against each other.
"""

from __future__ import annotations

import struct
from typing import Any, Final
from uuid import UUID

from lior.errors import LiorError
from lior.message import MAX_LABEL_LENGTH, Message, ObjectId
from lior.names import LocalNames
from lior.security import ANONYMOUS_CALLER
from lior.server.rpc.methods.sent_buffer import INFINITE_TIME, MAX_ALLOCATION, label_of, to_message
from lior.wire.ndr import FIRST_REFERENT, NDR, Syntax
from lior.wire.rpc_interface import Codec

SHAPES: Final = 256  # kept at a time; a client that makes more has them made anew
TEMPLATES: Final = 64  # of one shape

# The handle and CACTransferBufferV2 with the arm of a send: numbers that differ, between runs that do not. The members
# are those of 2.2.3.2, four bytes each.
_FIXED: Final = struct.Struct("<20s60sII8sI4sI4sI144s")
_END: Final = _FIXED.size
_COUNTS: Final = struct.Struct("<IIII")  # inner pointer, maximum count, offset, actual count
_REFERENT: Final = struct.Struct("<I")
_CLASS, _CORRELATION, _TAG, _BODY, _TITLE, _TRACE, _UOW, _TYPE = 4, 6, 13, 14, 18, 25, 50, 55
_BYTES: Final = (9, 10, 11, 12)  # priority, delivery, acknowledge, auditing
_POINTERS: Final = frozenset({_CLASS, _CORRELATION, *_BYTES, _TAG, _BODY, _TITLE, _TRACE, _UOW, _TYPE})
_DIFFER: Final = frozenset({15, 16, 19, 21, 23})  # body sizes, title size, time to reach the queue, time to live
_IGNORED: Final = frozenset({30})  # ulAuthLevel

assert _END == 260


class UsualSend:
    """A request that is as its template: what the handler needs of it."""

    __slots__ = ("h_queue", "message", "uow", "wants_identifier")

    def __init__(self, h_queue: bytes, message: Message, uow: UUID | None, wants_identifier: bool) -> None:
        self.h_queue = h_queue
        self.message = message
        self.uow = uow
        self.wants_identifier = wants_identifier


class _Shape:
    """Requests with the same pointers: where their parts are, and what they were made to."""

    __slots__ = ("block_end", "correlation", "has_body", "has_title", "has_trace", "has_type", "has_uow", "plain",
                 "templates")  # fmt: skip

    def __init__(self, members: tuple[int, ...]) -> None:
        at = _END
        if members[_CLASS]:
            at += 2
        self.correlation = 0  # where its 20 bytes are
        if members[_CORRELATION]:
            at = (at + 3 & -4) + 16
            self.correlation = at
            at += 20
        at += sum(members[each] != 0 for each in _BYTES)
        if members[_TAG]:
            at = (at + 3 & -4) + 4
        self.block_end = at + 3 & -4
        self.has_body, self.has_title = members[_BODY] != 0, members[_TITLE] != 0
        self.has_trace, self.has_uow, self.has_type = members[_TRACE] != 0, members[_UOW] != 0, members[_TYPE] != 0
        # what comes most often
        self.plain = self.has_body and not (self.correlation or self.has_trace or self.has_uow)
        self.templates: dict[bytes, Message] = {}


class SendRequests:
    """In the place of the method's request codec."""

    def __init__(self, codec: Codec) -> None:
        self.name = codec.name
        self.fields = codec.fields
        self._decode = codec.decode
        self.encode = codec.encode
        self._shapes: dict[tuple[bytes, ...], _Shape | None] = {}

    def decode(self, stub: bytes | memoryview, request: Any = None, syntax: Syntax = NDR) -> Any:
        if syntax is NDR and len(stub) >= _END:
            if type(stub) is not bytes:
                stub = bytes(stub)
            fixed = _FIXED.unpack_from(stub)
            key = (fixed[1], fixed[4], fixed[6], fixed[8], fixed[10])
            shape = self._shapes.get(key)
            if shape is not None:
                found = self._usual(stub, shape, fixed)
                if found is not None:
                    return found
                return self._learned(stub, shape)
            if key not in self._shapes:
                decoded = self._decode(stub)
                self._remember(key, stub)
                return decoded
        return self._decode(stub, request, syntax)

    def _remember(self, key: tuple[bytes, ...], stub: bytes) -> None:
        if len(self._shapes) >= SHAPES:
            self._shapes.clear()
        members = struct.unpack_from("<60I", stub, 20)
        usual = all(not value or at in _POINTERS or at in _DIFFER or at in _IGNORED for at, value in enumerate(members))
        usual = usual and (members[_BODY] or members[_TITLE]) != 0  # what is behind them is laid out from their end
        self._shapes[key] = _Shape(members) if usual else None

    def _learned(self, stub: bytes, shape: _Shape) -> Any:
        """The general way, and the template for those that come after."""
        decoded = self._decode(stub)
        parts = self._parts(stub, shape, _FIXED.unpack_from(stub))
        if parts is None or decoded.ptb.p_class:  # a class depends on who sends it
            return decoded
        try:
            template = to_message(decoded.ptb, ANONYMOUS_CALLER, b"", _NO_NAMES, direct=True)
        except LiorError:
            return decoded
        if template.security is None:
            if len(shape.templates) >= TEMPLATES:
                shape.templates.clear()
            template.body, template.label = b"", ""
            shape.templates[parts[0]] = template
        return decoded

    def _usual(self, stub: bytes, shape: _Shape, fixed: tuple[Any, ...]) -> UsualSend | None:
        """Body and label first, without a tail that differs: what `_parts` does, in one go."""
        at = shape.block_end
        if not shape.plain:
            parts = self._parts(stub, shape, fixed)
            if parts is None:
                return None
            block, body, title, uow, wants_identifier = parts
        else:
            size, allocated = fixed[2], fixed[3]
            try:
                inner, maximum, offset, actual = _COUNTS.unpack_from(stub, at)
                if not inner or maximum != allocated or offset or actual != size or not size <= allocated <= \
                        MAX_ALLOCATION:  # fmt: skip
                    return None
                end = at + 16 + size
                body = stub[at + 16 : end]
                title = ""
                if shape.has_title:
                    length = fixed[5]
                    at = end + 3 & -4
                    inner, maximum, offset, actual = _COUNTS.unpack_from(stub, at)
                    if not inner or offset or not maximum == actual == length:
                        return None
                    end = at + 16 + 2 * length
                    title = stub[at + 16 : end].decode("utf-16-le").partition("\0")[0]
                at = end + 3 & -4
                block = stub[_END : shape.block_end]
                if shape.has_type:
                    block += stub[at : at + 4]
                    at += 4
                (referent,) = _REFERENT.unpack_from(stub, at)
            except (struct.error, UnicodeDecodeError):
                return None
            at += 24 if referent else 4
            if not 0 <= len(stub) - at <= -at % 8:
                return None
            uow, wants_identifier = None, referent != 0
        template = shape.templates.get(block)
        if template is None:
            return None
        message = template.copy()
        message.body = body
        if title:
            message.label = title if len(title) <= MAX_LABEL_LENGTH and title.isascii() else label_of(title)
        message.time_to_reach_queue = fixed[7] or INFINITE_TIME
        message.time_to_be_received = fixed[9]
        if shape.correlation:
            message.correlation_id = stub[shape.correlation : shape.correlation + 20]
        return UsualSend(fixed[0], message, uow, wants_identifier)

    def _parts(
        self, stub: bytes, shape: _Shape, fixed: tuple[Any, ...]
    ) -> tuple[bytes, bytes, str, UUID | None, bool] | None:
        """The bytes that have to be a template's, body, label, unit of work, and whether the identifier is wanted; None
        if anything is not as it should be."""
        at = shape.block_end
        body, title = b"", ""
        try:
            if shape.has_body:
                size, allocated = fixed[2], fixed[3]
                inner, maximum, offset, actual = _COUNTS.unpack_from(stub, at)
                if not inner or maximum != allocated or offset or actual != size or not size <= allocated <= \
                        MAX_ALLOCATION:  # fmt: skip
                    return None
                at += 16
                body = stub[at : at + size]
                if len(body) != size:
                    return None
                at += size
            if shape.has_title:
                at = at + 3 & -4
                size = fixed[5]
                inner, maximum, offset, actual = _COUNTS.unpack_from(stub, at)
                if not inner or offset or not maximum == actual == size:
                    return None
                at += 16
                units = stub[at : at + 2 * size]
                if len(units) != 2 * size:
                    return None
                title = units.decode("utf-16-le").partition("\0")[0]
                at += 2 * size
            return self._tail(stub, shape, at, body, title)
        except (struct.error, UnicodeDecodeError):
            return None

    def _tail(
        self, stub: bytes, shape: _Shape, at: int, body: bytes, title: str
    ) -> tuple[bytes, bytes, str, UUID | None, bool] | None:
        """What stands behind the label: trace, unit of work, body type; then the pointer to the identifier."""
        where = shape.correlation
        block = stub[_END : shape.block_end] if not where else stub[_END:where] + stub[where + 20 : shape.block_end]
        if shape.has_trace:
            block += stub[at : at + 1]
            at += 1
        uow = None
        if shape.has_uow:
            uow = UUID(bytes_le=stub[at : at + 16]) if len(stub) >= at + 16 else None
            if uow is None:
                return None
            at += 16
        at = at + 3 & -4
        if shape.has_type:
            block += stub[at : at + 4]
            at += 4
        (referent,) = _REFERENT.unpack_from(stub, at)
        at += 24 if referent else 4
        if not 0 <= len(stub) - at <= -at % 8:
            return None
        return block, body, title, uow, referent != 0


_NO_NAMES: Final = LocalNames("", "", frozenset(), UUID(int=0))  # no template names a queue
_IDENTIFIED: Final = struct.Struct("<I16sII")  # referent, OBJECTID, result
_PLAIN: Final = struct.Struct("<II")


_lineage, _lineage_bytes = UUID(int=0), bytes(16)  # of the identifier before: nearly all have the same


def identified(identifier: ObjectId, result: int) -> bytes:
    """The response that tells the identifier."""
    global _lineage, _lineage_bytes
    lineage = identifier[0]
    if lineage is not _lineage:
        _lineage, _lineage_bytes = lineage, lineage.bytes_le
    return _IDENTIFIED.pack(FIRST_REFERENT, _lineage_bytes, identifier[1], result)


class SendResponses:
    """In the place of the method's response codec."""

    def __init__(self, codec: Codec) -> None:
        self.name = codec.name
        self.fields = codec.fields
        self.decode = codec.decode
        self._encode = codec.encode

    def encode(self, values: Any, request: Any = None, syntax: Syntax = NDR) -> bytes:
        identifier, result = values
        if syntax is not NDR:
            return self._encode(values, None, syntax)
        if identifier is None:
            return _PLAIN.pack(0, result)
        return identified(identifier, result)
