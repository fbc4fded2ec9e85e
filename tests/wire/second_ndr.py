"""A second reading of the structures, for comparison: written from the tables of [MS-MQMQ] 2.2 and [C706] 14 alone.

It shares nothing with src/lior and favours obviousness: one offset, one function for each IDL type, pointees by hand.
"""

import struct
import uuid
from typing import Any


class Stub:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, code: str) -> Any:
        size = struct.calcsize("<" + code)
        while self.at % size:
            self.at += 1
        (value,) = struct.unpack("<" + code, self.data[self.at:self.at + size])
        self.at += size
        return value

    def octets(self, count: int) -> bytes:
        assert self.at + count <= len(self.data)
        self.at += count
        return self.data[self.at - count:self.at]

    def align(self, boundary: int) -> None:
        while self.at % boundary:
            self.at += 1

    def guid(self) -> uuid.UUID:
        self.align(4)
        one, two, three = struct.unpack("<IHH", self.octets(8))
        return uuid.UUID(fields=(one, two, three, *struct.unpack("BB", self.octets(2)),
                                 int.from_bytes(self.octets(6), "big")))

    def string(self) -> str:
        maximum, offset, actual = self.take("I"), self.take("I"), self.take("I")
        assert offset == 0 and actual <= maximum
        units = [self.take("H") for _ in range(actual)]
        assert units[-1] == 0 and 0 not in units[:-1]
        return struct.pack(f"<{actual - 1}H", *units[:-1]).decode("utf-16-le")

    def elements(self, count: int, code: str) -> tuple[int, ...]:
        assert self.take("I") == count
        return tuple(self.take(code) for _ in range(count))


SCALARS = {16: "b", 17: "B", 2: "h", 18: "H", 3: "i", 19: "I", 20: "q", 21: "Q"}
NUMBERS = {0x1012: "H", 0x1003: "i", 0x1013: "I", 0x1015: "Q"}


def variants(stub: Stub, count: int) -> list[tuple[int, Any]]:
    """A conformant array of PROPVARIANT and everything that it points to, as (vt, value) pairs."""
    assert stub.take("I") == count
    flat = [variant_head(stub) for _ in range(count)]
    return [(vt, pointee(stub, vt, head)) for vt, head in flat]


def variant_head(stub: Stub) -> tuple[int, Any]:
    stub.align(8)
    vt = stub.take("H")
    stub.take("B")
    stub.take("B")
    stub.take("I")
    assert stub.take("H") == vt
    if vt in (0, 1):
        return vt, None
    if vt in SCALARS:
        return vt, stub.take(SCALARS[vt])
    if vt == 11:
        return vt, stub.take("H") != 0
    if vt in (31, 72):
        return vt, stub.take("I")
    return vt, (stub.take("I"), stub.take("I"))


def pointee(stub: Stub, vt: int, head: Any) -> Any:
    if vt == 31:
        return stub.string() if head else None
    if vt == 72:
        return stub.guid() if head else None
    if not isinstance(head, tuple):
        return head
    count, referent = head
    if not referent:
        assert count == 0
        return b"" if vt in (65, 0x1011) else ()
    if vt in (65, 0x1011):
        return bytes(stub.elements(count, "B"))
    if vt in NUMBERS:
        return stub.elements(count, NUMBERS[vt])
    if vt == 0x1048:
        assert stub.take("I") == count
        return tuple(stub.guid() for _ in range(count))
    if vt == 0x101F:
        referents = stub.elements(count, "I")
        return tuple(stub.string() if referent else None for referent in referents)
    assert vt == 0x100C
    return tuple(variants(stub, count))


def queue_format(stub: Stub) -> Any:
    """QUEUE_FORMAT with its pointee: (qft, suffix and flags, value)."""
    stub.align(4)
    qft, suffix, _ = stub.take("B"), stub.take("B"), stub.take("H")
    assert stub.take("B") == qft
    if qft == 0:
        return qft, suffix, None
    if qft in (1, 4, 5):
        return qft, suffix, stub.guid()
    if qft == 2:
        return qft, suffix, (stub.guid(), stub.take("I"))
    if qft == 7:
        return qft, suffix, (stub.take("I").to_bytes(4, "little"), stub.take("I"))
    if qft == 6:
        guid = stub.guid()
        return qft, suffix, (guid, stub.string() if stub.take("I") else None)
    assert stub.take("I")
    return qft, suffix, stub.string()
