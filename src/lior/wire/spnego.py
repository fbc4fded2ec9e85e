"""SPNEGO tokens: bytes <-> structures (RFC 4178 4.2, [MS-SPNG] 2.2.1), in the strict DER that they are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lior.errors import Malformed

# Object identifiers, encoded
SPNEGO: Final = bytes.fromhex("2b0601050502")  # 1.3.6.1.5.5.2
KERBEROS: Final = bytes.fromhex("2a864886f712010202")  # 1.2.840.113554.1.2.2
MS_KERBEROS: Final = bytes.fromhex("2a864882f712010202")  # 1.2.840.48018.1.2.2: what Windows 2000 made of it
NTLMSSP: Final = bytes.fromhex("2b06010401823702020a")  # 1.3.6.1.4.1.311.2.2.10

ACCEPT_COMPLETED, ACCEPT_INCOMPLETE, REJECT, REQUEST_MIC = range(4)

_APPLICATION, _SEQUENCE, _OID, _OCTETS, _ENUMERATED = 0x60, 0x30, 0x06, 0x04, 0x0A
_CONTEXT: Final = 0xA0
MAX_MECHANISMS: Final = 16
MAX_TOKEN: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class NegTokenInit:
    """`mech_list` is MechTypeList as it came, for the MIC is computed over that. reqFlags and negHints are ignored."""

    mechanisms: tuple[bytes, ...]
    mech_list: bytes
    mech_token: bytes = b""
    mech_list_mic: bytes = b""


@dataclass(frozen=True, slots=True)
class NegTokenResp:
    state: int | None = None
    mechanism: bytes = b""
    response_token: bytes = b""
    mech_list_mic: bytes = b""


def _broken(what: str) -> Malformed:
    return Malformed(what, where="SPNEGO token", remedy="the peer sent a broken token")


def _element(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Tag, and where the content starts and ends."""
    if at + 2 > end:
        raise _broken("an element that is cut")
    tag, length = data[at], data[at + 1]
    at += 2
    if length & 0x80:
        size = length & 0x7F
        if not 1 <= size <= 4 or at + size > end:
            raise _broken("a length that is none")
        length = int.from_bytes(data[at:at + size], "big")
        at += size
        if length < 0x80 or length >> 8 * (size - 1) == 0:
            raise _broken("a length in more bytes than it needs")
    if at + length > end:
        raise _broken("an element that is cut")
    return tag, at, at + length


def _expect(data: bytes, at: int, end: int, tag: int) -> tuple[int, int]:
    found, start, stop = _element(data, at, end)
    if found != tag:
        raise _broken(f"an element 0x{found:02X} where 0x{tag:02X} belongs")
    return start, stop


def _only(data: bytes, start: int, stop: int, tag: int) -> bytes:
    """The content of the single element that fills its place."""
    at, end = _expect(data, start, stop, tag)
    if end != stop:
        raise _broken("bytes behind an element")
    return data[at:end]


def _fields(data: bytes, start: int, stop: int) -> dict[int, tuple[int, int]]:
    """The members of a SEQUENCE by their context tags, which ascend."""
    at, end = _expect(data, start, stop, _SEQUENCE)
    if end != stop:
        raise _broken("bytes behind an element")
    found: dict[int, tuple[int, int]] = {}
    last = -1
    while at < end:
        tag, first, after = _element(data, at, end)
        number = tag - _CONTEXT
        if not last < number < 0x20:
            raise _broken("members out of order")
        found[number] = first, after
        last, at = number, after
    return found


def decode(token: bytes) -> NegTokenInit | NegTokenResp:
    if len(token) > MAX_TOKEN:
        raise _broken("a token that is too long")
    tag, start, stop = _element(token, 0, len(token))
    if stop != len(token):
        raise _broken("bytes behind the token")
    if tag == _APPLICATION:
        at, end = _expect(token, start, stop, _OID)
        if token[at:end] != SPNEGO:
            raise _broken("another mechanism")
        first, last = _expect(token, end, stop, _CONTEXT)
        if last != stop:
            raise _broken("bytes behind the token")
        return _init(token, first, last)
    if tag == _CONTEXT:
        return _init(token, start, stop)
    if tag == _CONTEXT + 1:
        return _resp(token, start, stop)
    raise _broken("neither NegTokenInit nor NegTokenResp")


def _init(token: bytes, start: int, stop: int) -> NegTokenInit:
    fields = _fields(token, start, stop)
    if 0 not in fields:
        raise _broken("no mechanism offered")
    mech_list = token[fields[0][0]:fields[0][1]]
    at, end = _expect(mech_list, 0, len(mech_list), _SEQUENCE)
    if end != len(mech_list):
        raise _broken("bytes behind an element")
    mechanisms: list[bytes] = []
    while at < end:
        first, at = _expect(mech_list, at, end, _OID)
        mechanisms.append(mech_list[first:at])
        if len(mechanisms) > MAX_MECHANISMS:
            raise _broken("too many mechanisms")
    # [3] is mechListMIC in RFC 4178 and negHints, a SEQUENCE, in [MS-SPNG] 2.2.1, where the MIC is [4]
    mic = b""
    for number in (3, 4):
        if number in fields and token[fields[number][0]:fields[number][0] + 1] == bytes((_OCTETS,)):
            mic = _only(token, *fields[number], _OCTETS)
    mech_token = _only(token, *fields[2], _OCTETS) if 2 in fields else b""
    return NegTokenInit(tuple(mechanisms), mech_list, mech_token, mic)


def _resp(token: bytes, start: int, stop: int) -> NegTokenResp:
    fields = _fields(token, start, stop)
    state = None
    if 0 in fields:
        content = _only(token, *fields[0], _ENUMERATED)
        if len(content) != 1 or content[0] > REQUEST_MIC:
            raise _broken("a state that is none")
        state = content[0]
    mechanism = _only(token, *fields[1], _OID) if 1 in fields else b""
    response = _only(token, *fields[2], _OCTETS) if 2 in fields else b""
    mic = _only(token, *fields[3], _OCTETS) if 3 in fields else b""
    return NegTokenResp(state, mechanism, response, mic)


def _tlv(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes((tag, length)) + content
    size = (length.bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + length.to_bytes(size, "big") + content


def encode_mech_list(mechanisms: Iterable[bytes]) -> bytes:
    return _tlv(_SEQUENCE, b"".join(_tlv(_OID, each) for each in mechanisms))


def encode_init(token: NegTokenInit) -> bytes:
    parts = [_tlv(_CONTEXT, token.mech_list or encode_mech_list(token.mechanisms))]
    if token.mech_token:
        parts.append(_tlv(_CONTEXT + 2, _tlv(_OCTETS, token.mech_token)))
    if token.mech_list_mic:
        parts.append(_tlv(_CONTEXT + 3, _tlv(_OCTETS, token.mech_list_mic)))
    return _tlv(_APPLICATION, _tlv(_OID, SPNEGO) + _tlv(_CONTEXT, _tlv(_SEQUENCE, b"".join(parts))))


def encode_resp(token: NegTokenResp) -> bytes:
    parts = []
    if token.state is not None:
        parts.append(_tlv(_CONTEXT, _tlv(_ENUMERATED, bytes((token.state,)))))
    if token.mechanism:
        parts.append(_tlv(_CONTEXT + 1, _tlv(_OID, token.mechanism)))
    if token.response_token:
        parts.append(_tlv(_CONTEXT + 2, _tlv(_OCTETS, token.response_token)))
    if token.mech_list_mic:
        parts.append(_tlv(_CONTEXT + 3, _tlv(_OCTETS, token.mech_list_mic)))
    return _tlv(_CONTEXT + 1, _tlv(_SEQUENCE, b"".join(parts)))
