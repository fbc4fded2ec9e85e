"""The Security ORPC Extension that a security header carries ([MS-COM] 2.2.3.2, 3.14.4): who called, and through whom.

Who writes a message writes this too: it is a claim until somebody else vouches for the caller.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from lior.errors import InvalidParameter, Malformed
from lior.security import Sid
from lior.wire.dtyp import decode_sid, encode_sid

CHAIN, CALLER = 0x0A01, 0x0A02  # collection types
SID_AUTHENTICATED, SID_SUPPLIED = 0x0B01, 0x0B06
NAME_AUTHENTICATED, NAME_SUPPLIED = 0x0B02, 0x0B07
SERVICE, LEVEL, IMPERSONATION, MINIMUM_LEVEL = 0x0B03, 0x0B04, 0x0B05, 0x0B10
APPEND, FORWARD = 0, 2  # Style: whether a callee that calls on appends itself

# [MS-RPCE] 2.2.1.1.7 to 9; the names of numbers that are data here
SERVICE_NONE, SERVICE_SPNEGO, SERVICE_NTLM, SERVICE_KERBEROS = 0, 9, 0x0A, 0x10
LEVEL_NONE, LEVEL_CONNECT, LEVEL_PRIVACY = 1, 2, 6
ANONYMOUS, IDENTIFY, IMPERSONATE, DELEGATE = 1, 2, 3, 4

_HEADER: Final = struct.Struct("<HHHH")  # MaxVersion, MinVersion, Style, cCollections
_PAIR: Final = struct.Struct("<HH")  # collectionType and cProperties; PropertyType and Size
_DWORD: Final = struct.Struct("<I")
_DWORDS: Final = {SERVICE: CALLER, LEVEL: CALLER, IMPERSONATION: CALLER, MINIMUM_LEVEL: CHAIN}  # and where they stand
_MAX_COLLECTIONS: Final = 64  # callers in a chain; each one costs a decode


class CallerProperties(NamedTuple):
    """One caller of the chain, as the message claims. None: not said."""

    sid: Sid | None = None
    sid_is_supplied: bool = False  # by an application instead of an authentication
    account: str | None = None
    account_is_supplied: bool = False
    service: int | None = None
    level: int | None = None
    impersonation: int | None = None


@dataclass(frozen=True, slots=True)
class SecurityExtension:
    """`callers`: the direct caller first, then those before him. `minimum_level` None: no chain collection."""

    style: int = APPEND
    minimum_level: int | None = None
    callers: tuple[CallerProperties, ...] = ()

    @property
    def direct_caller(self) -> CallerProperties | None:
        return self.callers[0] if self.callers else None


ANONYMOUS_EXTENSION: Final = _HEADER.pack(1, 1, FORWARD, 0)


def root(sid: Sid | None, *, service: int = SERVICE_NTLM, level: int = LEVEL_CONNECT, impersonation: int = IMPERSONATE,
         account: str | None = None, supplied: bool = True) -> bytes:
    """The extension of a caller whom nobody called (3.14.4)."""
    caller = CallerProperties(sid, supplied, account, supplied, service, level, impersonation)
    return encode(SecurityExtension(APPEND, level, (caller,)))


def extended(incoming: bytes, sid: Sid | None, *, service: int = SERVICE_NTLM, level: int = LEVEL_CONNECT,
             impersonation: int = IMPERSONATE, account: str | None = None, supplied: bool = True) -> bytes:
    """The extension for what is recorded while `incoming` is played (3.14.4): its chain and the callee, or, if it
    forbids that, itself."""
    before = decode(incoming)
    if before.style == FORWARD:
        return incoming
    caller = CallerProperties(sid, supplied, account, supplied, service, level, impersonation)
    lowest = level if before.minimum_level is None else min(before.minimum_level, level)
    return encode(SecurityExtension(APPEND, lowest, (*before.callers, caller)))


def encode(extension: SecurityExtension) -> bytes:
    collections = [_caller_collection(caller) for caller in extension.callers]
    if extension.minimum_level is not None:
        collections.insert(0, _collection(CHAIN, [(MINIMUM_LEVEL, _DWORD.pack(extension.minimum_level))]))
    elif collections:
        raise InvalidParameter("callers without a chain collection", where="security extension")
    return b"".join((_HEADER.pack(1, 1, extension.style, len(collections)), *collections))


def _caller_collection(caller: CallerProperties) -> bytes:
    properties = [(kind, _DWORD.pack(value)) for kind, value in (
        (SERVICE, caller.service), (LEVEL, caller.level), (IMPERSONATION, caller.impersonation)) if value is not None]
    if caller.sid is not None:
        properties.append((SID_SUPPLIED if caller.sid_is_supplied else SID_AUTHENTICATED, encode_sid(caller.sid)))
    if caller.account is not None:
        text = caller.account.encode("utf-16-le", "surrogatepass") + b"\0\0"
        kind = NAME_SUPPLIED if caller.account_is_supplied else NAME_AUTHENTICATED
        properties.append((kind, text + bytes(-len(text) % 4)))
    if not properties:
        raise InvalidParameter("a caller without any property", where="security extension")
    return _collection(CALLER, properties)


def _collection(kind: int, properties: Sequence[tuple[int, bytes]]) -> bytes:
    for _, data in properties:
        if len(data) > 0xFFFF:
            raise InvalidParameter(f"a property of {len(data)} bytes", where="security extension")
    return b"".join((_PAIR.pack(kind, len(properties)),
                     *(_PAIR.pack(number, len(data)) + data for number, data in properties)))


def decode(data: bytes) -> SecurityExtension:
    """Exactly one extension; unknown values are data, unknown properties are a failure (2.2.3.2.1.1)."""
    if len(data) < _HEADER.size:
        raise _malformed(0, f"{len(data)} bytes, its header has {_HEADER.size}")
    maximum, minimum, style, count = _HEADER.unpack_from(data)
    if maximum != 1 or minimum != 1:
        raise _malformed(0, f"versions {minimum} to {maximum}, only 1 is known")
    if style not in (APPEND, FORWARD) or count > _MAX_COLLECTIONS:
        raise _malformed(4, f"style {style} with {count} collections")
    at = _HEADER.size
    lowest: Any = None
    callers: list[CallerProperties] = []
    for index in range(count):
        kind, properties, at = _read_collection(data, at)
        if kind != (CALLER if index else CHAIN):
            raise _malformed(at, f"collection type 0x{kind:04X} in place {index}")
        values = _values(kind, properties)
        if index:
            callers.append(_caller(values))
        else:
            lowest = values.get(MINIMUM_LEVEL)
    if at != len(data):
        raise _malformed(at, f"{len(data) - at} bytes too many")
    return SecurityExtension(style, lowest, tuple(callers))


def _read_collection(data: bytes, at: int) -> tuple[int, list[tuple[int, bytes, int]], int]:
    kind, count = _pair(data, at)
    if not count:
        raise _malformed(at, "a collection without properties")
    at += _PAIR.size
    properties = []
    for _ in range(count):
        number, size = _pair(data, at)
        at += _PAIR.size
        if size > len(data) - at:
            raise _malformed(at, f"a property of {size} bytes, {len(data) - at} are left")
        properties.append((number, data[at:at + size], at))
        at += size
    return kind, properties, at


def _pair(data: bytes, at: int) -> tuple[int, int]:
    if len(data) - at < _PAIR.size:
        raise _malformed(at, "it is cut short")
    first, second = _PAIR.unpack_from(data, at)
    return first, second


def _values(collection: int, properties: Sequence[tuple[int, bytes, int]]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for number, data, at in properties:
        if number in found:
            raise _malformed(at, f"property 0x{number:04X} twice")
        if number in _DWORDS and _DWORDS[number] == collection and len(data) == _DWORD.size:
            found[number] = _DWORD.unpack(data)[0]
        elif collection == CALLER and number in _READERS:
            found[number] = _READERS[number](data, at)
        else:
            raise _malformed(at, f"property 0x{number:04X} of {len(data)} bytes in collection 0x{collection:04X}")
    return found


def _sid(data: bytes, at: int) -> Sid:
    sid, size = decode_sid(data)
    if size != len(data):
        raise _malformed(at, f"a SID of {size} bytes in a property of {len(data)}")
    return sid


def _account(data: bytes, at: int) -> str:
    """NUL-terminated, padded to four octets."""
    if len(data) % 4:
        raise _malformed(at, f"an account name of {len(data)} bytes")
    text = data.decode("utf-16-le", "surrogatepass")
    name, nul, rest = text.partition("\0")
    if not nul or len(rest) > 1:
        raise _malformed(at, "an account name without a NUL at its end")
    return name


_READERS: Final[dict[int, Callable[[bytes, int], Sid | str]]] = {
    SID_AUTHENTICATED: _sid, SID_SUPPLIED: _sid, NAME_AUTHENTICATED: _account, NAME_SUPPLIED: _account,
}


def _caller(values: dict[int, Any]) -> CallerProperties:
    """Both kinds of one thing in one collection would contradict each other; the authenticated one comes first."""
    def first(*numbers: int) -> tuple[Any, int]:
        return next(((values[number], number) for number in numbers if number in values), (None, 0))

    sid, sid_kind = first(SID_AUTHENTICATED, SID_SUPPLIED)
    account, account_kind = first(NAME_AUTHENTICATED, NAME_SUPPLIED)
    return CallerProperties(sid, sid_kind == SID_SUPPLIED, account, account_kind == NAME_SUPPLIED,
                            values.get(SERVICE), values.get(LEVEL), values.get(IMPERSONATION))


def _malformed(at: int, what: str) -> Malformed:
    return Malformed(f"{what} at offset {at}", where="security extension",
                     remedy="the sender wrote a broken security header")
