"""A message as the store keeps it: header bytes and body bytes.

    header = version (1 byte), CRC-32 of version, fields and body (4 bytes), fields
    field  = tag (1 byte), length (1 byte, or 255 and 4 bytes), payload

Tags ascend. A field is written when it differs from the default of Message. A later version may add tags:
this one skips a tag it does not know, and since the store never rewrites a header, the field stays on disk.
A change that an older reader must not skip gets a new version number. What a message's position remembers
(lookup id, arrival time, counts) is not here: those are columns.
"""

from struct import Struct
from struct import error as StructError
from typing import Any, Final
from zlib import crc32

from lior.errors import InvalidParameter, StoreCorrupt, StoreVersion
from lior.message import Message
from lior.store.record_fields import MESSAGE, encode_fields
from lior.store.record_usual import encode_usual

VERSION: Final = 1
_HEAD: Final = Struct("<BI")
_DAMAGED: Final = "run: lior doctor"


def encoded_field(name: str, value: Any) -> bytes:
    """How a header holds this value of a message, to look for it without decoding."""
    return MESSAGE.encoders[MESSAGE.names.index(name)](value)


def encode(message: Message) -> bytes:
    """The header of a message; its body is stored beside it. Raises InvalidParameter for a value that a
    message cannot have."""
    try:
        data = encode_usual(message)
        if data is None:
            data = encode_fields(message)
        return _HEAD.pack(VERSION, crc32(message.body, crc32(data, VERSION))) + data
    except (StructError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidParameter(f"a message that cannot be stored: {error}", where="message") from error


def decode(header: bytes, body: bytes) -> Message:
    """The message of a header and its body. Raises StoreCorrupt, or StoreVersion for a header that a newer
    Lior wrote."""
    try:
        version, crc = _HEAD.unpack_from(header)
        fields = header[5:]
        if crc32(body, crc32(fields, version)) != crc:
            raise ValueError("the checksum does not match")
        if version != VERSION:
            if version > VERSION:
                raise StoreVersion(f"a record of version {version}; this Lior reads {VERSION}",
                                   where="message record", remedy="use the Lior that wrote the store, or a newer one")
            raise ValueError(f"version {version}")
        message = Message(body)
        MESSAGE.decode_into(message, fields, 0)
        return message
    except (StructError, ValueError, IndexError) as error:
        raise StoreCorrupt(f"a damaged message record: {error}", where="message record", remedy=_DAMAGED) from error


def decode_header(header: bytes) -> Message:
    """The message without its body, and so without a look at the checksum, which is over both."""
    try:
        if header[0] != VERSION:
            raise ValueError(f"version {header[0]}")
        message = Message(b"")
        MESSAGE.decode_into(message, header[_HEAD.size:], 0)
        return message
    except (StructError, ValueError, IndexError) as error:
        raise StoreCorrupt(f"a damaged message record: {error}", where="message record", remedy=_DAMAGED) from error


def checksum(header: bytes, body: bytes) -> int:
    """What the header of a message with this body must say."""
    return crc32(body, crc32(header[_HEAD.size:], VERSION))
