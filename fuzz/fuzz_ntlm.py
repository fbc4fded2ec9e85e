"""Tokens of NTLM and SPNEGO, read and accepted: values or one typed error, and nobody gets in."""

from contextlib import suppress
from typing import Any

from lior.errors import Malformed
from lior.protocols.rpc.ntlm_acceptor import NtlmAcceptor, ServerNames
from lior.protocols.rpc.ntlm_initiator import NtlmInitiator
from lior.protocols.rpc.ntlm_session import nt_hash
from lior.protocols.rpc.security import AuthenticationFailed
from lior.protocols.rpc.spnego import SpnegoAcceptor, SpnegoInitiator
from lior.security import Caller
from lior.wire import ntlm, spnego
from lior.wire.spnego import NTLMSSP

HASH = nt_hash("a password that no input has")
FIRST = ntlm.encode_negotiate(ntlm.Negotiate(0xE2088297))


class Accounts:
    def nt_hash(self, user: str, now: float) -> bytes | None:
        return HASH

    def signed_in(self, user: str, workstation: str, now: float) -> Caller:
        raise AssertionError("somebody got in")

    def refused(self, user: str, workstation: str, why: str, now: float) -> None:
        return None


def acceptor() -> NtlmAcceptor:
    return NtlmAcceptor(Accounts(), ServerNames("HOST", "host"), bytes, lambda: 0.0, anonymous=False)


def initiator() -> NtlmInitiator:
    return NtlmInitiator("joe", "password", "", 5, bytes, lambda: 0.0)


def target(data: bytes) -> None:
    with suppress(Malformed):
        token = spnego.decode(data)
        again = spnego.encode_resp(token) if isinstance(token, spnego.NegTokenResp) else spnego.encode_init(token)
        assert spnego.decode(again) == token
    with suppress(Malformed):
        message = ntlm.decode_authenticate(data)
        assert ntlm.decode_authenticate(ntlm.encode_authenticate(message)) == message
    with suppress(Malformed):
        ntlm.decode_challenge(data)
    halves: list[tuple[Any, tuple[bytes, ...]]] = [
        (acceptor(), (data, data)), (acceptor(), (FIRST, data)), (SpnegoAcceptor({NTLMSSP: acceptor}), (data, data)),
        (SpnegoAcceptor({NTLMSSP: acceptor}), (FIRST, data))]
    for half, tokens in halves:
        with suppress(AuthenticationFailed):
            for each in tokens:
                assert not half.accept(each, 5, 0.0)[1]
    for client in (initiator(), SpnegoInitiator(initiator())):
        client.initiate(b"")
        with suppress(AuthenticationFailed):
            client.initiate(data)


if __name__ == "__main__":
    from harness import run

    run(target)
