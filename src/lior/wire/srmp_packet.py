"""What a packet has of a message that came over HTTP, for who reads its queue from elsewhere ([MS-MQRR] 2.2.5.1.2).

Such a packet has the flag AH. Its body stands in the request that brought it, and nowhere else. Packets between queue
managers never have any of this ([MS-MQMQ] 2.2.19.2).
"""

from dataclasses import dataclass, field
from typing import Final, Self

from lior.errors import InvalidParameter, Malformed
from lior.wire.headers import CompoundMessageHeader, SoapSectionHeader
from lior.wire.mime import parse_entity
from lior.wire.queue_names import padding, utf16_bytes

# The document gives no numbers: the next free hundreds of those that [MS-MQMQ] 2.2.20 gives. Nothing is read from them.
ENVELOPE_ID: Final = 0x01F4
COMPOUND_ID: Final = 0x0258


def _malformed(what: str, where: str) -> Malformed:
    return Malformed(what, where=where, remedy="the packet was cut or its sizes are wrong")


@dataclass(slots=True)
class Srmp:
    """SRMPEnvelopeHeader and CompoundMessageHeader ([MS-MQRR] 2.2.5.1.2.1, 2.2.5.1.2.2)."""

    envelope: bytes  # UTF-16 with its NUL
    compound: bytes  # the request: HTTP header and entity
    body_at: int  # in the request
    body_size: int
    compound_at: int = field(default=0, repr=False, compare=False)  # where CompoundMessageHeader was in the packet

    @classmethod
    def of(cls, envelope: str, compound: bytes) -> Self:
        """Of a request as it came; Malformed if that is not one."""
        head, empty_line, entity = compound.partition(b"\r\n\r\n")
        kind = next((line.partition(b":")[2].strip() for line in head.split(b"\r\n")
                     if line[:13].lower() == b"content-type:"), b"")
        body = parse_entity(kind.decode("latin-1"), entity).body
        at, size = (0, 0) if body is None else (len(head) + len(empty_line) + body.offset, len(body.data))
        return cls(utf16_bytes(envelope, "SRMPEnvelopeHeader.Data"), compound, at, size)

    @property
    def envelope_text(self) -> str:
        return self.envelope[:-2].decode("utf-16-le", "surrogatepass")

    @property
    def body(self) -> bytes:
        return self.compound[self.body_at : self.body_at + self.body_size]

    @classmethod
    def decode(cls, data: bytes, at: int, end: int) -> tuple[Self, int]:
        section = SoapSectionHeader.decode(data, at, end)
        at += SoapSectionHeader.SIZE
        size = _text_size(data, at, end, section.data_length)
        envelope = data[at : at + size]
        at += size + (-size & 3)
        header = CompoundMessageHeader.decode(data, at, end)
        compound_at, at = at, at + CompoundMessageHeader.SIZE
        where = f"CompoundMessageHeader at {compound_at}"
        if header.http_body_size > end - at:
            raise _malformed(f"{header.http_body_size} bytes announced, {end - at} left", where)
        if header.msg_body_offset + header.msg_body_size > header.http_body_size:
            raise _malformed(f"a body of {header.msg_body_size} bytes at {header.msg_body_offset} in a request of "
                             f"{header.http_body_size}", where)
        compound = data[at : at + header.http_body_size]
        at += len(compound)
        found = cls(envelope, compound, header.msg_body_offset, header.msg_body_size, compound_at)
        return found, min(at + (-at & 3), end)

    def encode(self) -> bytes:
        if self.body_at + self.body_size > len(self.compound):
            raise InvalidParameter("a body outside the request", where="CompoundMessageHeader")
        header = CompoundMessageHeader(COMPOUND_ID, 0, len(self.compound), self.body_size, self.body_at)
        return b"".join((
            SoapSectionHeader(ENVELOPE_ID, 0, len(self.envelope) // 2).encode(), self.envelope,
            padding(len(self.envelope)), header.encode(), self.compound, padding(len(self.compound))))  # fmt: skip


def _text_size(data: bytes, at: int, end: int, length: int) -> int:
    """Of the envelope in bytes. DataLength is "the length of the data": WCHARs, as in [MS-MQMQ] 2.2.20.7 and as written
    here, or bytes; its one NUL, which is the last, says which."""
    for size in (2 * length, length):
        if 2 <= size <= end - at and size % 2 == 0 and data[at + size - 2 : at + size] == b"\0\0" \
                and "\0" not in data[at : at + size - 2].decode("utf-16-le", "surrogatepass"):
            return size
    raise _malformed(f"{length} characters that are no text with a NUL at its end, {max(end - at, 0)} bytes left",
                     f"SRMPEnvelopeHeader at {at - SoapSectionHeader.SIZE}")
