"""NTLM messages: bytes <-> structures ([MS-NLMP] 2.2). Unicode only, as everybody negotiates."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lior.errors import Malformed

SIGNATURE: Final = b"NTLMSSP\0"
NEGOTIATE_MESSAGE, CHALLENGE_MESSAGE, AUTHENTICATE_MESSAGE = 1, 2, 3

# NEGOTIATE (2.2.2.5)
UNICODE, OEM, REQUEST_TARGET = 0x00000001, 0x00000002, 0x00000004
SIGN, SEAL, DATAGRAM, LM_KEY = 0x00000010, 0x00000020, 0x00000040, 0x00000080
NTLM, ANONYMOUS_CONNECTION = 0x00000200, 0x00000800
OEM_DOMAIN_SUPPLIED, OEM_WORKSTATION_SUPPLIED, ALWAYS_SIGN = 0x00001000, 0x00002000, 0x00008000
TARGET_TYPE_DOMAIN, TARGET_TYPE_SERVER = 0x00010000, 0x00020000
EXTENDED_SESSION_SECURITY, IDENTIFY, NON_NT_SESSION_KEY = 0x00080000, 0x00100000, 0x00400000
TARGET_INFO, VERSION, KEY_128, KEY_EXCH, KEY_56 = 0x00800000, 0x02000000, 0x20000000, 0x40000000, 0x80000000

# AvId (2.2.2.1)
AV_EOL, AV_NB_COMPUTER_NAME, AV_NB_DOMAIN_NAME, AV_DNS_COMPUTER_NAME, AV_DNS_DOMAIN_NAME = range(5)
AV_DNS_TREE_NAME, AV_FLAGS, AV_TIMESTAMP, AV_SINGLE_HOST, AV_TARGET_NAME, AV_CHANNEL_BINDINGS = range(5, 11)
AV_FLAG_CONSTRAINED, AV_FLAG_MIC, AV_FLAG_UNVERIFIED_TARGET = 0x1, 0x2, 0x4

MAX_MESSAGE: Final = 1 << 16
MAX_AV_PAIRS: Final = 64
MIC_AT: Final = 72  # in an AUTHENTICATE_MESSAGE that has Version
MIC_SIZE: Final = 16
_PREFIX: Final = struct.Struct("<8sI")
_FIELDS: Final = struct.Struct("<HHI")
_NEGOTIATE: Final = struct.Struct("<8sII8s8s")
_CHALLENGE: Final = struct.Struct("<8sI8sI8s8x8s")
_FLAGS_AND_CHALLENGE: Final = struct.Struct("<I8s")
_AV: Final = struct.Struct("<HH")
_VERSION: Final = bytes((10, 0, 0, 0, 0, 0, 0, 15))  # for debugging only; 15: NTLMSSP_REVISION_W2K3
NTLMV2_HEAD: Final = struct.Struct("<BBHIQ8sI")  # NTLMv2_CLIENT_CHALLENGE up to its AvPairs
PROOF_SIZE: Final = 16


def _broken(what: str) -> Malformed:
    return Malformed(what, where="NTLM message", remedy="the peer sent a broken token")


def _check(data: bytes, kind: int, least: int) -> None:
    if not least <= len(data) <= MAX_MESSAGE:
        raise _broken(f"{len(data)} bytes are no message of type {kind}")
    if _PREFIX.unpack_from(data) != (SIGNATURE, kind):
        raise _broken(f"no message of type {kind}")


def message_type(data: bytes) -> int:
    """0 for what is no NTLM message."""
    if len(data) < _PREFIX.size or data[:8] != SIGNATURE:
        return 0
    return int.from_bytes(data[8:12], "little")


def _payload(data: bytes, at: int, start: int) -> bytes:
    """What the fields at `at` refer to, which lies behind the fixed part."""
    length, _, offset = _FIELDS.unpack_from(data, at)
    if not length:
        return b""
    if offset < start or offset + length > len(data):
        raise _broken("a field points out of its message")
    return data[offset:offset + length]


def text(raw: bytes) -> str:
    try:
        return raw.decode("utf-16-le")
    except UnicodeDecodeError:
        raise _broken("a name is not UTF-16") from None


def decode_av_pairs(data: bytes) -> list[tuple[int, bytes]]:
    """The pairs without the MsvAvEOL that ends them; what follows it is padding."""
    pairs: list[tuple[int, bytes]] = []
    at = 0
    while True:
        if at + _AV.size > len(data) or len(pairs) > MAX_AV_PAIRS:
            raise _broken("AV_PAIRs without an end")
        kind, length = _AV.unpack_from(data, at)
        at += _AV.size
        if kind == AV_EOL:
            return pairs
        if at + length > len(data):
            raise _broken("an AV_PAIR that is cut")
        pairs.append((kind, data[at:at + length]))
        at += length


def encode_av_pairs(pairs: Iterable[tuple[int, bytes]]) -> bytes:
    return b"".join(_AV.pack(kind, len(value)) + value for kind, value in pairs) + bytes(_AV.size)


@dataclass(frozen=True, slots=True)
class Negotiate:
    """2.2.1.1; the names in it are hints that nobody needs."""

    flags: int


def decode_negotiate(data: bytes) -> Negotiate:
    _check(data, NEGOTIATE_MESSAGE, 16)
    return Negotiate(int.from_bytes(data[12:16], "little"))


def encode_negotiate(message: Negotiate) -> bytes:
    version = _VERSION if message.flags & VERSION else b""
    empty = _FIELDS.pack(0, 0, _NEGOTIATE.size + len(version))
    return _NEGOTIATE.pack(SIGNATURE, NEGOTIATE_MESSAGE, message.flags, empty, empty) + version


@dataclass(frozen=True, slots=True)
class Challenge:
    """2.2.1.2"""

    flags: int
    server_challenge: bytes
    target_name: str
    target_info: tuple[tuple[int, bytes], ...]


def decode_challenge(data: bytes) -> Challenge:
    _check(data, CHALLENGE_MESSAGE, 32)
    flags, challenge = _FLAGS_AND_CHALLENGE.unpack_from(data, 20)
    target = text(_payload(data, 12, 32)) if flags & UNICODE else ""
    pairs: list[tuple[int, bytes]] = []
    if flags & TARGET_INFO:
        if len(data) < _CHALLENGE.size:
            raise _broken("a challenge without the target information that it announces")
        info = _payload(data, 40, 48)
        pairs = decode_av_pairs(info) if info else []
    return Challenge(flags, challenge, target, tuple(pairs))


def encode_challenge(message: Challenge) -> bytes:
    name = message.target_name.encode("utf-16-le")
    info = encode_av_pairs(message.target_info)
    start = _CHALLENGE.size + len(_VERSION)
    return b"".join((
        _CHALLENGE.pack(SIGNATURE, CHALLENGE_MESSAGE, _FIELDS.pack(len(name), len(name), start), message.flags,
                        message.server_challenge, _FIELDS.pack(len(info), len(info), start + len(name))),
        _VERSION if message.flags & VERSION else bytes(8), name, info,
    ))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Authenticate:
    """2.2.1.3. `mic` is empty where the message has no room for one."""

    flags: int
    lm_response: bytes
    nt_response: bytes
    domain: str
    user: str
    workstation: str
    session_key: bytes
    mic: bytes = b""


def decode_authenticate(data: bytes) -> Authenticate:
    """Old clients leave Version and MIC out: where the payload starts tells."""
    _check(data, AUTHENTICATE_MESSAGE, 64)
    fields = [_FIELDS.unpack_from(data, at) for at in range(12, 60, 8)]
    start = min((offset for length, _, offset in fields if length), default=len(data))
    if start < 64:
        raise _broken("a field points into the fixed part")
    lm, nt, domain, user, workstation, key = (_payload(data, at, 64) for at in range(12, 60, 8))
    flags = int.from_bytes(data[60:64], "little")
    if not flags & UNICODE:
        raise _broken("names that are not Unicode")
    mic = data[MIC_AT:MIC_AT + MIC_SIZE] if start >= MIC_AT + MIC_SIZE else b""
    return Authenticate(flags, lm, nt, text(domain), text(user), text(workstation), key, mic)


def encode_authenticate(message: Authenticate) -> bytes:
    """With Version and, unless it is empty, room for the MIC."""
    start = MIC_AT + len(message.mic)
    parts = (message.lm_response, message.nt_response, message.domain.encode("utf-16-le"),
             message.user.encode("utf-16-le"), message.workstation.encode("utf-16-le"), message.session_key)
    # names first: UTF-16 has to start at an even offset, and responses may have any length
    order = (2, 3, 4, 0, 1, 5)
    offsets, at = [0] * len(parts), start
    for index in order:
        offsets[index] = at
        at += len(parts[index])
    fields = b"".join(_FIELDS.pack(len(part), len(part), offset) for part, offset in zip(parts, offsets, strict=True))
    return b"".join((
        _PREFIX.pack(SIGNATURE, AUTHENTICATE_MESSAGE), fields, message.flags.to_bytes(4, "little"),
        _VERSION if message.flags & VERSION else bytes(8), message.mic, *(parts[index] for index in order),
    ))  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClientChallenge:
    """NTLMv2_RESPONSE (2.2.2.8) taken apart. `blob` is what the proof is computed over, as it came."""

    proof: bytes
    blob: bytes
    time: int
    challenge: bytes
    pairs: tuple[tuple[int, bytes], ...]


def decode_client_challenge(response: bytes) -> ClientChallenge:
    if len(response) < PROOF_SIZE + NTLMV2_HEAD.size:
        raise _broken("a response that is not NTLMv2")
    blob = response[PROOF_SIZE:]
    version, highest, _, _, time, challenge, _ = NTLMV2_HEAD.unpack_from(blob)
    if (version, highest) != (1, 1):
        raise _broken("a response that is not NTLMv2")
    pairs = decode_av_pairs(blob[NTLMV2_HEAD.size:])
    return ClientChallenge(response[:PROOF_SIZE], blob, time, challenge, tuple(pairs))


def encode_client_challenge(time: int, challenge: bytes, pairs: Iterable[tuple[int, bytes]]) -> bytes:
    """`temp` of 3.3.2: four zero bytes follow the AV_PAIRs."""
    return NTLMV2_HEAD.pack(1, 1, 0, 0, time, challenge, 0) + encode_av_pairs(pairs) + bytes(4)
