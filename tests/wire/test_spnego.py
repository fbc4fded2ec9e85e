"""SPNEGO tokens: strict DER both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import Malformed
from lior.wire import spnego
from lior.wire.spnego import KERBEROS, MS_KERBEROS, NTLMSSP, NegTokenInit, NegTokenResp

INIT = NegTokenInit((KERBEROS, NTLMSSP), spnego.encode_mech_list((KERBEROS, NTLMSSP)), b"token" * 100, b"mic")
RESP = NegTokenResp(1, NTLMSSP, b"answer", b"mic")
# [MS-SPNG] 4: what a server sends first, with its hint
INIT_2 = bytes.fromhex(
    "607606062b0601050502a06c306aa03c303a060a2b06010401823702021e06092a864882f71201020206092a864886f712010202060a"
    "2a864886f71201020203060a2b06010401823702020aa32a3028a0261b246e6f745f646566696e65645f696e5f5246433431373840"
    "706c656173655f69676e6f7265"
)


def test_tokens_survive_the_way() -> None:
    assert spnego.decode(spnego.encode_init(INIT)) == INIT
    assert spnego.decode(spnego.encode_resp(RESP)) == RESP
    assert spnego.decode(spnego.encode_resp(NegTokenResp())) == NegTokenResp()


def test_the_hint_of_a_server_is_no_mic() -> None:
    found = spnego.decode(INIT_2)
    assert isinstance(found, NegTokenInit)
    assert found.mechanisms[1:3] == (MS_KERBEROS, KERBEROS)
    assert found.mechanisms[-1] == NTLMSSP
    assert (found.mech_token, found.mech_list_mic) == (b"", b"")


@pytest.mark.parametrize("token", [spnego.encode_init(INIT), spnego.encode_resp(RESP), INIT_2])
def test_a_token_cut_or_followed_by_anything_is_malformed(token: bytes) -> None:
    for broken in [*(token[:cut] for cut in range(len(token))), token + b"\0"]:
        with pytest.raises(Malformed):
            spnego.decode(broken)


@pytest.mark.parametrize("length", ["8105", "820005", "80", "85000000000a", "ff"])
def test_a_length_is_written_as_der_has_it(length: str) -> None:
    with pytest.raises(Malformed):
        spnego.decode(bytes.fromhex("a1" + length) + bytes(10))


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_malformed(data: bytes) -> None:
    for token in (data, b"\x60" + data, b"\xa1" + bytes((len(data) & 0x7F,)) + data):
        try:
            spnego.decode(token)
        except Malformed:
            continue


@given(st.integers(0, 3), st.binary(max_size=300), st.binary(max_size=300))
def test_an_answer_of_any_size_survives_the_way(state: int, token: bytes, mic: bytes) -> None:
    answer = NegTokenResp(state, NTLMSSP, token, mic)
    assert spnego.decode(spnego.encode_resp(answer)) == answer
