"""A recorded message of queued components: its headers, bytes <-> objects ([MC-COMQC] 2.2).

    message = CHDR [PART] SECD call { [SECD | SECR] call } [PART]        call = METH | SMTH

What a call carries (its marshalled parameters) and what a security header carries (a Security ORPC Extension) stay
bytes here: `recorded_call_security` and `automation_*` read them. `decode` answers a whole message or raises
Malformed with the offset; nothing it answers refers to another message.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from lior.errors import InvalidParameter, Malformed, MessageTooLarge
from lior.message import MAX_MESSAGE_SIZE, NULL_GUID

EXTENSION: Final = UUID("1664BCFB-1751-11D2-B58E-00E0290E6C31").bytes_le  # 1.9 "Message Signature", the MSMQ Extension
MESSAGE_SIGNATURE: Final = UUID("71BBDB83-FC41-11D0-B764-0080C7EC3FC1").bytes_le  # 1.9 calls it "Header Signature"
STRUCTURE_ID: Final = UUID("ECABAFC6-7F19-11D2-978E-0000F8757E2A").bytes_le  # 1.9 "Moniker GUID"
GLOBAL_PARTITION: Final = UUID("41E90F3E-56C1-4633-81C3-6E8BAC8BDD70")  # [MS-COMA] 1.9

CHDR, PART, SECD, SECR, METH, SMTH = b"CHDR", b"PART", b"SECD", b"SECR", b"METH", b"SMTH"
SIGNATURES: Final = frozenset({CHDR, PART, SECD, SECR, METH, SMTH})
VERSION: Final = 1
DATA_REPRESENTATION: Final = 0x00000010  # little-endian, ASCII, IEEE
FLAGS: Final = 0x00001000
RESERVED: Final = 1

_COMMON: Final = struct.Struct("<4sI")
_CONTAINER: Final = struct.Struct("<4sI16sIII32xI8x")  # to the Call Target Identifier, 80 octets
_TARGET: Final = struct.Struct("<16s16sI")  # Structure ID, Target ID, Target ID String Size
_PARTITION: Final = struct.Struct("<4sI16s")
_SECURITY: Final = struct.Struct("<4sIII")  # signature, Size, Security Data Size, Header Padding
_REFERENCE: Final = struct.Struct("<4sIII")  # signature, Size, Security Header Offset, Padding
_METHOD: Final = struct.Struct("<4sIIIIIII16s")
_SHORT_METHOD: Final = struct.Struct("<4sIIIIIII")
_SMALLEST: Final = 16  # of all headers; SECR has it
_STRING_SIZE: Final = 78  # a braced GUID and its NUL in UTF-16
_HEX: Final = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader puts up with; a message beyond a limit is malformed."""

    calls: int = 10_000
    variant_depth: int = 16
    elements: int = 1_000_000  # of all arrays of a message together
    octets: int = MAX_MESSAGE_SIZE


LIMITS: Final = Limits()


class Call(NamedTuple):
    """One recorded call. `security` is the Security ORPC Extension in force when it was made."""

    interface_id: UUID
    method_number: int
    security: bytes
    data: bytes | memoryview
    offset: int = 0  # of its method header, for messages about it


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """`partition` None: the message names none. `skipped`: headers nobody defined, seen where Figure 2 draws some."""

    class_id: UUID
    calls: Sequence[Call]
    partition: UUID | None = None
    skipped: tuple[bytes, ...] = field(default=(), compare=False)


def is_recorded(extension: bytes) -> bool:
    """Whether a message with this Extension claims to be ours (3.1.5, the first check)."""
    return extension == EXTENSION


# ---- writing --------------------------------------------------------------------------------------------------------


def encode(message: RecordedMessage) -> bytes:
    """The body of a message. Shares headers wherever 2.2 says that a writer SHOULD."""
    if not message.calls:
        raise InvalidParameter("a message has at least one call", where="recorded message")
    parts = [container(message.class_id), *_partition(message.partition)]
    at = sum(map(len, parts))
    seen: dict[bytes, int] = {}  # security data -> offset of its header
    security: bytes | None = None
    interface_id: UUID | None = None
    for call in message.calls:
        if call.security != security:
            security = call.security
            header = _security_header(security, seen, at)
            parts.append(header)
            at += len(header)
        header = _method_header(call, short=call.interface_id == interface_id)
        interface_id = call.interface_id
        parts.append(header)
        at += len(header)
    if at > MAX_MESSAGE_SIZE:
        raise MessageTooLarge(f"{len(message.calls)} calls take {at} bytes, a message carries {MAX_MESSAGE_SIZE}",
                              where="recorded message", remedy="record fewer calls in one message")
    body = bytearray().join(parts)
    struct.pack_into("<I", body, 32, at)
    return bytes(body)


def container(class_id: UUID) -> bytes:
    """CHDR; Message Size is filled in when the message is complete."""
    text = f"{{{str(class_id).upper()}}}\0".encode("utf-16-le")
    target = _TARGET.pack(STRUCTURE_ID, class_id.bytes_le, len(text)) + text
    target += bytes(-len(target) % 8)
    size = _CONTAINER.size + len(target)
    return _CONTAINER.pack(CHDR, size, MESSAGE_SIGNATURE, VERSION, VERSION, 0, len(target)) + target


def _partition(partition: UUID | None) -> tuple[bytes, ...]:
    return () if partition is None else (_PARTITION.pack(PART, _PARTITION.size, partition.bytes_le),)


def _security_header(data: bytes, seen: dict[bytes, int], at: int) -> bytes:
    """In full the first time, by its offset afterwards (2.2.5)."""
    if data in seen:
        return _REFERENCE.pack(SECR, _REFERENCE.size, seen[data], 0)
    seen[data] = at
    padding = -len(data) % 8
    return _SECURITY.pack(SECD, _SECURITY.size + len(data) + padding, len(data), 0) + data + bytes(padding)


def _method_header(call: Call, *, short: bool) -> bytes:
    form = _SHORT_METHOD if short else _METHOD
    padding = -len(call.data) % 8
    fixed = (form.size + len(call.data) + padding, call.method_number, DATA_REPRESENTATION, FLAGS, len(call.data),
             RESERVED, 0)
    head = form.pack(SMTH, *fixed) if short else form.pack(METH, *fixed, call.interface_id.bytes_le)
    return b"".join((head, call.data, bytes(padding)))


# ---- reading --------------------------------------------------------------------------------------------------------


def decode(body: bytes | memoryview, limits: Limits = LIMITS, *, strict: bool = False) -> RecordedMessage:
    """`strict` refuses the headers that Figure 2 draws and nobody defines; else they are skipped there, and only there.
    """
    return _Decoder(body, limits, strict).message()


class _Decoder:
    def __init__(self, body: bytes | memoryview, limits: Limits, strict: bool) -> None:
        self._body = bytes(body)
        self._limits = limits
        self._strict = strict
        self._at = 0
        self._class_id = NULL_GUID
        self._partition: UUID | None = None
        self._contexts: dict[int, bytes] = {}  # offset of a SECD -> its data
        self._security: bytes | None = None
        self._pending = False  # a security header waits for its call
        self._interface_id: UUID | None = None
        self._calls: list[Call] = []
        self._skipped: list[bytes] = []
        self._last = False  # the trailing header is behind us

    def message(self) -> RecordedMessage:
        end = len(self._body)
        if end > self._limits.octets:
            raise self._malformed(f"{end} bytes, at most {self._limits.octets} are read")
        self._container()
        while self._at < end:
            signature, size = self._common()
            if self._last:
                raise self._malformed("a header behind the last one")
            _READERS.get(signature, _Decoder._unknown)(self, size)
            self._at += size
        if self._pending:
            raise self._malformed("a security header without a call")
        if not self._calls:
            raise self._malformed("no call")
        return RecordedMessage(self._class_id, self._calls, self._partition, tuple(self._skipped))

    def _malformed(self, what: str) -> Malformed:
        return Malformed(f"{what} at offset {self._at}", where="recorded message",
                         remedy="the sender wrote something else than a queued component's message, or it was cut")

    def _common(self) -> tuple[bytes, int]:
        left = len(self._body) - self._at
        if left < _SMALLEST:
            raise self._malformed(f"{left} bytes where a header needs {_SMALLEST}")
        signature, size = _COMMON.unpack_from(self._body, self._at)
        if size < _SMALLEST or size % 8 or size > left:
            raise self._malformed(f"header size {size} with {left} bytes left")
        return signature, size

    def _container(self) -> None:
        signature, size = self._common()
        if signature != CHDR or size < _CONTAINER.size + _TARGET.size:
            raise self._malformed(f"header {signature!r} of {size} bytes where the container header belongs")
        _, _, message_signature, maximum, minimum, message_size, target_size = _CONTAINER.unpack_from(self._body)
        if message_signature != MESSAGE_SIGNATURE:
            raise self._malformed(f"message signature {UUID(bytes_le=message_signature)}")
        if maximum != VERSION or minimum != VERSION:
            raise self._malformed(f"versions {minimum} to {maximum}, only 1 is known")
        if message_size != len(self._body):
            raise self._malformed(f"message size {message_size} in a body of {len(self._body)} bytes")
        if target_size % 8 or not _TARGET.size <= target_size <= size - _CONTAINER.size:
            raise self._malformed(f"call target identifier of {target_size} bytes in a header of {size}")
        structure_id, class_id, text_size = _TARGET.unpack_from(self._body, _CONTAINER.size)
        if structure_id != STRUCTURE_ID:
            raise self._malformed(f"call target identifier {UUID(bytes_le=structure_id)}")
        if text_size > target_size - _TARGET.size:
            raise self._malformed(f"target string of {text_size} bytes in an identifier of {target_size}")
        start = _CONTAINER.size + _TARGET.size
        if not is_target_string(self._body[start:start + text_size]):
            raise self._malformed("target string that is no GUID")
        self._class_id = UUID(bytes_le=class_id)  # this decides; the string is only looked at (2.2.2.1)
        self._at = size

    def _part(self, size: int) -> None:
        """Slot 2 or last: no figure shows where it stands."""
        if size != _PARTITION.size or self._partition is not None or self._pending:
            raise self._malformed(f"partition header of {size} bytes out of place")
        self._edge()
        self._partition = UUID(bytes_le=self._body[self._at + 8:self._at + 24])

    def _edge(self) -> None:
        """In front of the first security header, or behind the last call."""
        if self._calls:
            self._last = True
        elif self._security is not None:
            raise self._malformed("a header between security header and call")

    def _secd(self, size: int) -> None:
        self._only_one_security_header()
        _, _, count, _ = _SECURITY.unpack_from(self._body, self._at)
        if _SECURITY.size + count > size:
            raise self._malformed(f"security data of {count} bytes in a header of {size}")
        start = self._at + _SECURITY.size
        self._security = self._contexts[self._at] = self._body[start:start + count]

    def _secr(self, size: int) -> None:
        self._only_one_security_header()
        _, _, offset, _ = _REFERENCE.unpack_from(self._body, self._at)
        if size != _REFERENCE.size or offset not in self._contexts:
            raise self._malformed(f"reference of {size} bytes to {offset}, where no earlier security header stands")
        self._security = self._contexts[offset]

    def _only_one_security_header(self) -> None:
        if self._pending:
            raise self._malformed("two security headers in front of one call")
        self._pending = True

    def _meth(self, size: int) -> None:
        if size < _METHOD.size:
            raise self._malformed(f"method header of {size} bytes")
        start = self._at + _SHORT_METHOD.size
        self._interface_id = UUID(bytes_le=self._body[start:start + 16])
        self._call(size, _METHOD.size)

    def _smth(self, size: int) -> None:
        if size < _SHORT_METHOD.size:
            raise self._malformed(f"short method header of {size} bytes")
        self._call(size, _SHORT_METHOD.size)

    def _call(self, size: int, head: int) -> None:
        if self._security is None:
            raise self._malformed("a call in front of the first security header")
        if self._interface_id is None:
            raise self._malformed("the first call names no interface")
        _, _, number, representation, flags, count, reserved, _ = _SHORT_METHOD.unpack_from(self._body, self._at)
        if representation != DATA_REPRESENTATION or flags != FLAGS or reserved != RESERVED:
            raise self._malformed(f"data representation 0x{representation:X}, flags 0x{flags:X}, reserved {reserved}")
        if head + count > size:
            raise self._malformed(f"marshalled data of {count} bytes in a header of {size}")
        if len(self._calls) == self._limits.calls:
            raise self._malformed(f"more than {self._limits.calls} calls")
        start = self._at + head
        data = self._body[start:start + count]
        self._calls.append(Call(self._interface_id, number, self._security, data, self._at))
        self._pending = False

    def _unknown(self, size: int) -> None:
        signature = self._body[self._at:self._at + 4]
        self._edge()
        if self._strict or signature.upper() in SIGNATURES or self._skipped or self._pending:
            raise self._malformed(f"header {signature!r}")
        self._skipped.append(signature)


_READERS: Final = {
    CHDR: _Decoder._unknown, PART: _Decoder._part, SECD: _Decoder._secd, SECR: _Decoder._secr,
    METH: _Decoder._meth, SMTH: _Decoder._smth,
}  # fmt: skip


def is_target_string(data: bytes) -> bool:
    """UTF-16 of [UUID / "{" UUID "}"] and one NUL, its last unit (2.2.2.1)."""
    if not 2 <= len(data) <= _STRING_SIZE or len(data) % 2:
        return False
    try:
        text = data.decode("utf-16-le")
    except UnicodeDecodeError:
        return False
    if not text.endswith("\0"):
        return False
    text = text[:-1]
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
        if not text:
            return False
    groups = text.split("-")
    return not text or ([len(group) for group in groups] == [8, 4, 4, 4, 12] and all(map(_HEX.issuperset, groups)))
