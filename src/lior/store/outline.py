"""What a header says of its message, as far as a message that leaves its queue needs: a look at the fields, without
making a message of them. The body is not read, so the checksum over both is not compared."""

from __future__ import annotations

from functools import partial
from typing import Final

from lior.errors import StoreCorrupt
from lior.message import NULL_CORRELATION_ID, NULL_GUID, ObjectId
from lior.queues.ports import Outline
from lior.store import record
from lior.store.record_fields import guid_of

_FIRST: Final = 5  # behind version and checksum
_LABEL, _CORRELATION, _ADMINISTRATION_QUEUE = 1, 5, 14  # tags of store/record_fields.py
_IDENTIFIER, _TRANSACTION, _SOURCE = 19, 26, 40
_LONG: Final = 255
# Of tuples, in half the time
_object_id: Final = partial(tuple.__new__, ObjectId)
_outline: Final = partial(tuple.__new__, Outline)


def outline(lookup_id: int, header: bytes) -> Outline:
    label, correlation_id, source = "", NULL_CORRELATION_ID, NULL_GUID
    identifier: ObjectId | None = None
    transactional = answered = False
    at, end = _FIRST, len(header)
    try:
        if header[0] != record.VERSION:
            raise ValueError(f"version {header[0]}")
        while at < end:
            tag, size = header[at], header[at + 1]
            at += 2
            if size == _LONG:
                size = int.from_bytes(header[at : at + 4], "little")
                at += 4
            if tag == _IDENTIFIER:
                number = int.from_bytes(header[at + 16 : at + 20], "little")
                identifier = _object_id((guid_of(header[at : at + 16]), number))
            elif tag == _SOURCE:
                source = guid_of(header[at : at + 16])
            elif tag == _LABEL:
                label = header[at : at + size].decode("utf-8", "surrogatepass")
            elif tag == _TRANSACTION:
                transactional = True
            elif tag == _CORRELATION:
                correlation_id = header[at : at + size]
            elif tag == _ADMINISTRATION_QUEUE:
                answered = True
            at += size
        if at != end:
            raise ValueError(f"a field ends behind the header's {end} bytes")
    except (ValueError, IndexError) as error:
        raise StoreCorrupt(f"a damaged message record: {error}", where=f"lookup id 0x{lookup_id:016X}",
                           remedy="run: lior doctor") from error
    return _outline((lookup_id, identifier, label, correlation_id, source, transactional, answered))

