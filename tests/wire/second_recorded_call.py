"""A second hand for recorded messages: written from [MC-COMQC], [MS-OAUT] and [MS-COM] alone, for comparison.

It shares nothing with src/lior and favours obviousness. The builder knows values by (vt, value) pairs and lays every
pointee down by hand; the reader takes a word for each parameter of a call and answers plain values.
"""

import struct
import uuid
from typing import Any

EXTENSION = bytes.fromhex("FBBC64165117D211B58E00E0290E6C31")
MESSAGE_SIGNATURE = bytes.fromhex("83DBBB7141FCD011B7640080C7EC3FC1")
STRUCTURE = bytes.fromhex("C6AFABEC197FD211978E0000F8757E2A")
IDISPATCH = bytes.fromhex("0004020000000000C000000000000046")
RECORD_INFO = bytes.fromhex("2F00000000000000C000000000000046")

CELLS = {16: "b", 17: "B", 2: "h", 18: "H", 11: "h", 3: "i", 19: "I", 22: "i", 23: "I", 10: "i", 4: "f", 20: "q",
         21: "Q", 5: "d", 6: "q", 7: "d"}  # vt -> what struct calls its cell


def guid(text: str) -> bytes:
    one, two, three, four, five = text.strip("{}").split("-")
    return (bytes.fromhex(one)[::-1] + bytes.fromhex(two)[::-1] + bytes.fromhex(three)[::-1] + bytes.fromhex(four)
            + bytes.fromhex(five))


# ---- headers --------------------------------------------------------------------------------------------------------


def chdr(class_id: str, size: int) -> bytes:
    string = ("{" + class_id.strip("{}").upper() + "}\0").encode("utf-16-le")
    target = STRUCTURE + guid(class_id) + struct.pack("<I", len(string)) + string
    while len(target) % 8:
        target += b"\0"
    return (b"CHDR" + struct.pack("<I", 80 + len(target)) + MESSAGE_SIGNATURE + struct.pack("<III", 1, 1, size)
            + bytes(32) + struct.pack("<I", len(target)) + bytes(8) + target)


def part(partition: str) -> bytes:
    return b"PART" + struct.pack("<I", 24) + guid(partition)


def secd(data: bytes) -> bytes:
    body = data + b"\0" * (-len(data) % 8)
    return b"SECD" + struct.pack("<III", 16 + len(body), len(data), 0) + body


def secr(offset: int) -> bytes:
    return b"SECR" + struct.pack("<III", 16, offset, 0)


def meth(iid: str, opnum: int, data: bytes, junk: bytes = b"") -> bytes:
    body = data + (junk or b"\0" * (-len(data) % 8))
    return (b"METH" + struct.pack("<IIIIIII", 48 + len(body), opnum, 0x10, 0x1000, len(data), 1, 0) + guid(iid) + body)


def smth(opnum: int, data: bytes) -> bytes:
    body = data + b"\0" * (-len(data) % 8)
    return b"SMTH" + struct.pack("<IIIIIII", 32 + len(body), opnum, 0x10, 0x1000, len(data), 1, 0) + body


def message(class_id: str, *headers: bytes) -> bytes:
    rest = b"".join(headers)
    return chdr(class_id, 200 + len(rest)) + rest


def sid(text: str) -> bytes:
    numbers = [int(word) for word in text.split("-")[2:]]
    return bytes([1, len(numbers) - 1]) + numbers[0].to_bytes(6, "big") + b"".join(
        number.to_bytes(4, "little") for number in numbers[1:])


def caller(who: str, service: int = 10, level: int = 2, impersonation: int = 3, kind: int = 0x0B06) -> bytes:
    octets = sid(who)
    return (struct.pack("<HH", 0x0A02, 4)
            + struct.pack("<HHI", 0x0B03, 4, service) + struct.pack("<HHI", 0x0B04, 4, level)
            + struct.pack("<HHI", 0x0B05, 4, impersonation) + struct.pack("<HH", kind, len(octets)) + octets)


def extension(*callers: bytes, minimum: int = 2, style: int = 0) -> bytes:
    chain = struct.pack("<HHHHI", 0x0A01, 1, 0x0B10, 4, minimum)
    return struct.pack("<HHHH", 1, 1, style, 1 + len(callers)) + chain + b"".join(callers)


# ---- building parameters --------------------------------------------------------------------------------------------


class Data:
    """The marshalled data of one call; referents run on from `referent`."""

    def __init__(self, referent: int = 0x20000) -> None:
        self.octets = b""
        self.referent = referent

    def align(self, boundary: int) -> None:
        while len(self.octets) % boundary:
            self.octets += b"\0"

    def put(self, code: str, value: Any) -> None:
        self.align(struct.calcsize("<" + code))
        self.octets += struct.pack("<" + code, value)

    def pointer(self) -> None:
        self.put("I", self.referent)
        self.referent += 4

    def blob(self, text: str | bytes | None) -> None:
        if text is None:
            counts = (0, 0xFFFFFFFF, 0)
            raw = b""
        else:
            raw = text if isinstance(text, bytes) else text.encode("utf-16-le", "surrogatepass")
            counts = ((len(raw) + 1) // 2, len(raw), (len(raw) + 1) // 2)
            raw += b"\0" * (len(raw) % 2)
        for count in counts:
            self.put("I", count)
        self.octets += raw

    def bstr(self, text: str | bytes | None) -> None:
        self.pointer()
        self.blob(text)

    def objects(self, data: bytes) -> None:
        self.put("I", len(data))
        self.put("I", len(data))
        self.octets += data

    def decimal(self, negative: bool, number: int, scale: int) -> None:
        self.align(8)
        self.octets += struct.pack("<HBBIQ", 0, scale, 0x80 if negative else 0, number >> 64, number & (2**64 - 1))

    # SAFEARRAY: the two pointers, the structure, the elements

    def array(self, vt: int, elements: list[Any], bounds: list[tuple[int, int]] | None = None) -> None:
        self.pointer()
        self.pointer()
        self.array_body(vt, elements, bounds)

    def array_body(self, vt: int, elements: list[Any], bounds: list[tuple[int, int]] | None = None) -> None:
        bounds = bounds or [(len(elements), 0)]
        kind, features, size, locks = self.element_facts(vt)
        self.put("I", len(bounds))
        self.put("H", len(bounds))
        self.put("H", features)
        self.put("I", size)
        self.put("I", locks)
        self.put("I", kind)
        self.put("I", len(elements))
        self.pointer()
        for count, lower in reversed(bounds):
            self.put("I", count)
            self.put("i", lower)
        self.put("I", len(elements))
        if vt in CELLS:
            self.align(struct.calcsize("<" + CELLS[vt]))
            for element in elements:
                self.put(CELLS[vt], element)
        elif vt == 8:
            for _ in elements:
                self.pointer()
            for element in elements:
                self.blob(element)
        elif vt == 12:
            for _ in elements:
                self.pointer()
            for inner_vt, value in elements:
                self.variant_body(inner_vt, value)
        else:
            raise AssertionError(vt)

    @staticmethod
    def element_facts(vt: int) -> tuple[int, int, int, int]:
        if vt in CELLS:
            size = struct.calcsize("<" + CELLS[vt])
            return {1: 0x10, 2: 2, 4: 3, 8: 0x14}[size], 0x80, size, vt << 16
        return {8: (8, 0x100, 4, 0), 12: (12, 0x800, 16, 0)}[vt]

    # VARIANT: its pointer apart, because several may stand in a row

    def variant(self, vt: int, value: Any = None) -> None:
        self.pointer()
        self.variant_body(vt, value)

    def variant_body(self, vt: int, value: Any = None) -> None:
        self.align(8)
        start = len(self.octets)
        for code, number in (("I", 0), ("I", 0), ("H", vt), ("H", 0), ("H", 0), ("H", 0)):
            self.put(code, number)
        self.put("I", vt & 0x6000 if vt & 0x2000 else vt)
        if vt & 0x4000:
            self.pointer()
            vt &= ~0x4000
        if vt & 0x2000:
            elements, bounds = value if isinstance(value, tuple) else (value, None)
            self.array(vt & ~0x2000, elements, bounds)
        elif vt == 8:
            self.bstr(value)
        elif vt == 14:
            self.decimal(*value)
        elif vt == 12:
            self.pointer()
            self.variant_body(*value)
        elif vt not in (0, 1):
            self.put(CELLS[vt], value)
        quads = (len(self.octets) - start + 7) // 8
        self.octets = self.octets[:start] + struct.pack("<I", quads) + self.octets[start + 4:]

    def invoke(self, dispid: int, arguments: list[tuple[int, Any]], named: tuple[int, ...] = (), flags: int = 0xE0001,
               references: tuple[tuple[int, int, Any], ...] = (), lcid: int = 0x409) -> None:
        self.put("i", dispid)
        self.octets += bytes(16)
        self.put("I", lcid)
        self.put("I", flags)
        for wanted in (arguments, named):
            self.pointer() if wanted else self.put("I", 0)
        self.put("I", len(arguments))
        self.put("I", len(named))
        if arguments:
            self.variants(arguments)
        if named:
            self.put("I", len(named))
            for number in named:
                self.put("i", number)
        self.put("I", len(references))
        self.put("I", len(references))
        for index, _, _ in references:
            self.put("I", index)
        self.variants([(vt, value) for _, vt, value in references])

    def variants(self, values: list[tuple[int, Any]]) -> None:
        self.put("I", len(values))
        for _ in values:
            self.pointer()
        for vt, value in values:
            self.variant_body(vt, value)


def object_reference(class_id: str, data: bytes) -> bytes:
    return struct.pack("<III", 0, 32, 1) + guid(class_id) + bytes(4) + data


# ---- reading --------------------------------------------------------------------------------------------------------


def headers(body: bytes) -> list[tuple[bytes, int, bytes]]:
    """(signature, offset, everything behind the size) of each header."""
    found = []
    at = 0
    while at < len(body):
        (size,) = struct.unpack("<I", body[at + 4:at + 8])
        assert size % 8 == 0 and 16 <= size <= len(body) - at
        found.append((body[at:at + 4], at, body[at + 8:at + size]))
        at += size
    return found


class Parameters:
    """Reads marshalled data by words: long short bool double bstr safearray:VT variant invoke."""

    def __init__(self, octets: bytes) -> None:
        self.octets, self.at = octets, 0

    def take(self, code: str) -> Any:
        size = struct.calcsize("<" + code)
        self.at += -self.at % size
        (value,) = struct.unpack("<" + code, self.octets[self.at:self.at + size])
        self.at += size
        return value

    def read(self, words: str) -> list[Any]:
        return [self.one(word) for word in words.split()]

    def one(self, word: str) -> Any:
        if word in ("long", "short", "double", "float"):
            return self.take({"long": "i", "short": "h", "double": "d", "float": "f"}[word])
        if word == "bool":
            return self.take("H") != 0
        if word == "bstr":
            return self.blob() if self.take("I") else None
        if word == "variant":
            assert self.take("I")
            return self.variant()
        assert word == "safearray"
        return self.array()

    def blob(self) -> Any:
        maximum, octets, units = self.take("I"), self.take("I"), self.take("I")
        assert maximum == units
        raw = self.octets[self.at:self.at + 2 * units]
        self.at += 2 * units
        if octets == 0xFFFFFFFF:
            return None
        return raw[:octets] if octets % 2 else raw.decode("utf-16-le", "surrogatepass")

    def array(self) -> Any:
        if not self.take("I") or not self.take("I"):
            return None
        dimensions = self.take("I")
        assert self.take("H") == dimensions
        self.take("H")
        self.take("I")
        vt = self.take("I") >> 16
        kind = self.take("I")
        count = self.take("I")
        self.take("I")
        bounds = [(self.take("I"), self.take("i")) for _ in range(dimensions)][::-1]
        assert self.take("I") == count
        if kind == 8:
            pointers = [self.take("I") for _ in range(count)]
            return 8, bounds, [self.blob() if pointer else None for pointer in pointers]
        if kind == 12:
            for _ in range(count):
                assert self.take("I")
            return 12, bounds, [self.variant() for _ in range(count)]
        self.at += -self.at % struct.calcsize("<" + CELLS[vt])  # also in front of no elements
        return vt, bounds, [self.take(CELLS[vt]) for _ in range(count)]

    def variant(self) -> Any:
        self.at += -self.at % 8
        self.take("I")
        self.take("I")
        vt = self.take("H")
        for _ in range(3):
            self.take("H")
        assert self.take("I") == (vt & 0x6000 if vt & 0x2000 else vt)
        if vt & 0x4000:
            assert self.take("I")
        inner = vt & ~0x4000
        if inner & 0x2000:
            return vt, self.array()
        if inner == 8:
            return vt, self.one("bstr")
        if inner == 12:
            return vt, self.one("variant")
        if inner == 14:
            self.at += -self.at % 8
            _, scale, sign, high, low = struct.unpack("<HBBIQ", self.octets[self.at:self.at + 16])
            self.at += 16
            return vt, (sign == 0x80, high << 64 | low, scale)
        return vt, None if inner in (0, 1) else self.take(CELLS[inner])

    def invoke(self) -> dict[str, Any]:
        found: dict[str, Any] = {"dispid": self.take("i")}
        self.at += 16
        found["lcid"], found["flags"] = self.take("I"), self.take("I")
        pointers = self.take("I"), self.take("I")
        counts = self.take("I"), self.take("I")
        found["arguments"] = self.variants() if pointers[0] else []
        if pointers[1]:
            assert self.take("I") == counts[1]
        found["named"] = [self.take("i") for _ in range(counts[1])]
        references = self.take("I")
        assert self.take("I") == references
        places = [self.take("I") for _ in range(references)]
        found["references"] = list(zip(places, self.variants(), strict=True))
        return found

    def variants(self) -> list[Any]:
        count = self.take("I")
        for _ in range(count):
            assert self.take("I")
        return [self.variant() for _ in range(count)]


def as_guid(octets: bytes) -> uuid.UUID:
    return uuid.UUID(bytes_le=octets)
