"""NTLM messages and keys against the examples of [MS-NLMP] 4.2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import Malformed
from lior.protocols.rpc.ntlm_session import NtlmSession, hmac_md5, nt_hash, rc4k, response_key
from lior.wire import ntlm
from lior.wire.md4 import md4

SERVER_CHALLENGE = bytes.fromhex("0123456789abcdef")
SESSION_KEY = b"\x55" * 16
CHALLENGE = bytes.fromhex(  # 4.2.4.3
    "4e544c4d53535000020000000c000c003800000033828ae20123456789abcdef0000000000000000240024004400000006007017"
    "0000000f53006500720076006500720002000c0044006f006d00610069006e0001000c0053006500720076006500720000000000"
)
AUTHENTICATE = bytes.fromhex(  # 4.2.4.3
    "4e544c4d5353500003000000180018006c00000054005400840000000c000c0048000000080008005400000010001000"
    "5c00000010001000d8000000358288e20501280a0000000f44006f006d00610069006e00550073006500720043004f00"
    "4d0050005500540045005200"
    "86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa"
    "68cd0ab851e51c96aabc927bebef6a1c"
    "01010000000000000000000000000000aaaaaaaaaaaaaaaa00000000"
    "02000c0044006f006d00610069006e0001000c005300650072007600650072000000000000000000"
    "c5dad2544fc9799094ce1ce90bc9d03e"
)
PAIRS = ((2, "Domain".encode("utf-16-le")), (1, "Server".encode("utf-16-le")))


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        (b"", "31d6cfe0d16ae931b73c59d7e0c089c0"),
        (b"a", "bde52cb31de33e46245e05fbdbd6fb24"),
        (b"abc", "a448017aaf21d8525fc10ae87aa6729d"),
        (b"message digest", "d9130a8164549fe818874806e1c7014b"),
        (b"abcdefghijklmnopqrstuvwxyz", "d79e1c308aa5bbcdeea8ed63df412da9"),
        (b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "043f8582f241db351ce627e153e7f0e4"),
        (b"1234567890" * 8, "e33b4ddc9c38f2199c3e7b164fcc0536"),
    ],
)
def test_md4_agrees_with_rfc_1320(text: bytes, digest: str) -> None:
    assert md4(text).hex() == digest


def test_the_keys_of_ntlmv2_agree_with_the_examples() -> None:
    assert nt_hash("Password").hex() == "a4f49c406510bdcab6824ee7c30fd852"  # 4.2.2.1.2
    key = response_key(nt_hash("Password"), "User", "Domain")
    assert key.hex() == "0c868a403bfd7a93a3001ef22ef02e3f"  # 4.2.4.1.1
    temp = ntlm.encode_client_challenge(0, b"\xaa" * 8, PAIRS)
    proof = hmac_md5(key, SERVER_CHALLENGE + temp)
    assert proof.hex() == "68cd0ab851e51c96aabc927bebef6a1c"  # 4.2.4.2.2
    base = hmac_md5(key, proof)
    assert base.hex() == "8de40ccadbc14a82f15cb0ad0de95ca3"  # 4.2.4.1.2
    assert rc4k(base, SESSION_KEY).hex() == "c5dad2544fc9799094ce1ce90bc9d03e"  # 4.2.4.2.3


def test_sealing_agrees_with_the_example() -> None:
    sealed, signature = NtlmSession(SESSION_KEY, is_client=True).seal(b"", "Plaintext".encode("utf-16-le"), b"")
    assert sealed.hex() == "54e50165bf1936dc996020c1811b0f06fb5f"  # 4.2.4.4
    assert signature.hex() == "010000007fb38ec5c55d497600000000"


def test_the_messages_of_the_example_are_read() -> None:
    challenge = ntlm.decode_challenge(CHALLENGE)
    assert (challenge.flags, challenge.server_challenge, challenge.target_name, challenge.target_info) == (
        0xE28A8233, SERVER_CHALLENGE, "Server", PAIRS)
    message = ntlm.decode_authenticate(AUTHENTICATE)
    assert (message.user, message.domain, message.workstation) == ("User", "Domain", "COMPUTER")
    assert (message.mic, message.session_key.hex()) == (b"", "c5dad2544fc9799094ce1ce90bc9d03e")
    proof = ntlm.decode_client_challenge(message.nt_response)
    assert (proof.time, proof.challenge, proof.pairs) == (0, b"\xaa" * 8, PAIRS)
    assert proof.blob == ntlm.encode_client_challenge(0, b"\xaa" * 8, PAIRS)


DECODERS = {1: ntlm.decode_negotiate, 2: ntlm.decode_challenge, 3: ntlm.decode_authenticate}


@pytest.mark.parametrize(("whole", "kind"), [(CHALLENGE, 2), (AUTHENTICATE, 3), (
    ntlm.encode_negotiate(ntlm.Negotiate(0xE2088297)), 1)])
def test_a_message_cut_anywhere_is_malformed_or_lacks_only_hints(whole: bytes, kind: int) -> None:
    decode = DECODERS[kind]
    for cut in range(len(whole)):
        if kind == 1 and cut >= 16:
            decode(whole[:cut])
            continue
        with pytest.raises(Malformed):
            decode(whole[:cut])
    for other in {1, 2, 3} - {kind}:
        with pytest.raises(Malformed):
            DECODERS[other](whole)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.integers(0, 0xFFFFFFFF), st.binary(max_size=30), st.binary(max_size=60), NAMES, NAMES, NAMES,
       st.binary(max_size=16), st.sampled_from([b"", bytes(16), b"m" * 16]))
def test_an_authenticate_message_survives_the_way(
    flags: int, lm: bytes, nt: bytes, domain: str, user: str, workstation: str, key: bytes, mic: bytes
) -> None:
    message = ntlm.Authenticate(flags | ntlm.UNICODE, lm, nt, domain, user, workstation, key, mic)
    assert ntlm.decode_authenticate(ntlm.encode_authenticate(message)) == message


@given(st.binary(max_size=200), st.sampled_from([1, 2, 3]))
def test_any_bytes_are_read_or_malformed(data: bytes, kind: int) -> None:
    for given_bytes in (data, ntlm.SIGNATURE + bytes((kind, 0, 0, 0)) + data):
        try:
            DECODERS[kind](given_bytes)
        except Malformed:
            continue
