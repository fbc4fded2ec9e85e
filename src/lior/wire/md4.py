"""MD4 (RFC 1320): what a password is hashed with for NTLM. OpenSSL 3 has it only in its legacy provider."""

from __future__ import annotations

import struct
from typing import Final

_START: Final = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
_BLOCK: Final = struct.Struct("<16I")
_MASK: Final = 0xFFFFFFFF
# for each round: the constant added, the order of the words, the rotations
_ROUNDS: Final = (
    (0x00000000, tuple(range(16)), (3, 7, 11, 19)),
    (0x5A827999, (0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), (3, 5, 9, 13)),
    (0x6ED9EBA1, (0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15), (3, 9, 11, 15)),
)


def md4(data: bytes) -> bytes:
    padded = data + b"\x80" + bytes((55 - len(data)) % 64) + struct.pack("<Q", 8 * len(data))
    state: tuple[int, ...] = _START
    for at in range(0, len(padded), 64):
        state = _compressed(state, _BLOCK.unpack_from(padded, at))
    return struct.pack("<4I", *state)


def _mixed(number: int, b: int, c: int, d: int) -> int:
    if number == 0:
        return (b & c) | (~b & d)
    if number == 1:
        return (b & c) | (b & d) | (c & d)
    return b ^ c ^ d


def _compressed(state: tuple[int, ...], words: tuple[int, ...]) -> tuple[int, ...]:
    a, b, c, d = state
    for number, (constant, order, shifts) in enumerate(_ROUNDS):
        for step, word in enumerate(order):
            value = (a + _mixed(number, b, c, d) + words[word] + constant) & _MASK
            shift = shifts[step % 4]
            a, b, c, d = d, (value << shift | value >> (32 - shift)) & _MASK, b, c
    return tuple((old + new) & _MASK for old, new in zip(state, (a, b, c, d), strict=True))
