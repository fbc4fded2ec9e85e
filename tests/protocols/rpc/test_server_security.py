"""The security contexts of one connection: whose a request is, and when it is nobody's."""

from __future__ import annotations

from typing import Any

import pytest

from lior.protocols.rpc.faults import RpcFault
from lior.protocols.rpc.ntlm_acceptor import NtlmAcceptor, ServerNames
from lior.protocols.rpc.ntlm_initiator import NtlmInitiator
from lior.protocols.rpc.ntlm_session import nt_hash
from lior.protocols.rpc.security import SecurityContext, no_security
from lior.protocols.rpc.server_security import BindRefused, ServerSecurity
from lior.security import ANONYMOUS_CALLER, Caller
from lior.wire.rpc_pdu import SUPPORT_HEADER_SIGN, Authentication
from tests.protocols.rpc.peers import ALICE, BOB

NTLM = 10
PLAIN = no_security(ANONYMOUS_CALLER)


class Accounts:
    def nt_hash(self, user: str, now: float) -> bytes | None:
        return nt_hash(user)

    def signed_in(self, user: str, workstation: str, now: float) -> Caller:
        return {"alice": ALICE, "bob": BOB}[user]

    def refused(self, user: str, workstation: str, why: str, now: float) -> None:
        return None


def acceptor() -> NtlmAcceptor:
    return NtlmAcceptor(Accounts(), ServerNames("HOST", "host"), lambda size: b"n" * size, lambda: 1e9)


def server(limit: int = 4) -> ServerSecurity:
    return ServerSecurity({NTLM: acceptor}, ANONYMOUS_CALLER, limit)


def token(level: int, number: int, content: bytes = b"", service: int = NTLM) -> Authentication:
    return Authentication(service, level, 0, number, content)


def signed_in(security: ServerSecurity, level: int, number: int, user: str = "alice", first: bool = False,
              password: str = "") -> None:  # fmt: skip
    client = NtlmInitiator(user, password or user, "", max(level, 2), lambda size: b"c" * size, lambda: 1e9)
    opening = token(level, number, client.initiate(b"")[0])
    answer = security.start(opening, SUPPORT_HEADER_SIGN, 0.0) if first else security.further(opening, 0, 0.0)
    security.third(token(level, number, client.initiate(answer.token)[0]), 0.0)


def status(security: ServerSecurity, authentication: Authentication | None) -> int:
    with pytest.raises(RpcFault) as refused:
        security.of_request(authentication, PLAIN)
    return refused.value.status


def test_without_any_context_a_request_is_the_transports() -> None:
    assert server().of_request(None, PLAIN) is PLAIN
    assert status(server(), token(5, 1)) == 5


@pytest.mark.parametrize("level", [0, 2])
def test_a_single_context_of_level_connect_needs_not_be_named(level: int) -> None:
    security = server()
    signed_in(security, level, 1, first=True)
    named, implied = security.of_request(token(level, 1), PLAIN), security.of_request(None, PLAIN)
    assert named is implied
    assert named.caller is ALICE


@pytest.mark.parametrize("level", [3, 4, 5, 6])
def test_what_was_to_be_protected_must_be(level: int) -> None:
    security = server()
    signed_in(security, level, 1, first=True)
    assert status(security, None) == 5
    assert security.of_request(token(level, 1), PLAIN).caller is ALICE
    other = 5 if level == 6 else 6
    for wrong in (token(other, 1), token(level, 2), token(level, 1, service=9), token(2, 1)):
        assert status(security, wrong) == 5


def test_contexts_of_two_users_must_be_named() -> None:
    security = server()
    signed_in(security, 2, 1, "alice", first=True)
    signed_in(security, 2, 2, "alice")
    assert security.of_request(None, PLAIN).caller is ALICE
    signed_in(security, 2, 3, "bob")
    assert status(security, None) == 5
    assert security.of_request(token(2, 3), PLAIN).caller is BOB
    assert security.of_request(token(2, 1), PLAIN).caller is ALICE


def test_a_protected_context_beside_takes_the_implied_one_away() -> None:
    security = server()
    signed_in(security, 2, 1, first=True)
    signed_in(security, 5, 2)
    assert status(security, None) == 5


def test_there_are_no_more_contexts_than_allowed() -> None:
    security = server(limit=2)
    signed_in(security, 5, 1, first=True)
    signed_in(security, 5, 2)
    with pytest.raises(RpcFault) as refused:
        signed_in(security, 5, 3)
    assert refused.value.status == 0x6C0


def test_a_wrong_password_in_the_third_leg_is_told_to_the_first_request_and_to_every_other() -> None:
    security = server()
    signed_in(security, 5, 1, first=True, password="wrong")
    for _ in range(2):
        assert status(security, token(5, 1)) == 5
        assert status(security, None) == 5
    assert not security.unfinished


def test_a_request_before_the_third_leg_is_refused() -> None:
    security = server()
    client = NtlmInitiator("alice", "alice", "", 5, lambda size: b"c" * size, lambda: 1e9)
    security.start(token(5, 1, client.initiate(b"")[0]), 0, 0.0)
    assert security.unfinished
    assert status(security, token(5, 1)) == 5
    security.third(token(5, 9, b"of another context"), 0.0)
    assert security.unfinished


@pytest.mark.parametrize("level", [1, 7, 255])
def test_a_level_that_there_is_none_of_is_refused(level: int) -> None:
    with pytest.raises(BindRefused):
        signed_in(server(), level, 1, first=True)


def test_a_complete_context_takes_no_further_leg() -> None:
    security = server()
    signed_in(security, 5, 1, first=True)
    with pytest.raises(RpcFault):
        security.further(token(5, 1, b"more"), 0, 0.0)
    with pytest.raises(RpcFault) as refused:
        security.further(token(5, 2, b"x", service=0x44), 0, 0.0)
    assert refused.value.status == 8
    with pytest.raises(RpcFault) as refused:
        security.further(token(5, 2, b"no token"), 0, 0.0)
    assert refused.value.status == 5


class Endless:
    """A provider that never comes to an end."""

    caller = ALICE
    messages: Any = None

    def accept(self, token: bytes, level: int, now: float) -> tuple[bytes, bool]:
        return b"more", False


def test_an_authentication_without_end_is_given_up() -> None:
    security = ServerSecurity({16: Endless}, ANONYMOUS_CALLER, 4)
    security.start(token(5, 1, b"x", service=16), 0, 0.0)
    with pytest.raises(RpcFault):
        for _ in range(20):
            security.further(token(5, 1, b"x", service=16), 0, 0.0)
    assert status(security, token(5, 1, service=16)) == 5


def test_header_signing_is_agreed_on_only_when_it_was_asked_for() -> None:
    for flags in (0, SUPPORT_HEADER_SIGN):
        security = server()
        client = NtlmInitiator("alice", "alice", "", 5, lambda size: b"c" * size, lambda: 1e9)
        security.start(token(5, 1, client.initiate(b"")[0]), flags, 0.0)
        assert security.header_sign == bool(flags)
        assert security.sign_flag(SUPPORT_HEADER_SIGN) == flags
        assert security.sign_flag(0) == 0


def test_a_provider_that_does_not_sign_headers_signs_them_only_when_agreed_on() -> None:
    class Recording:
        signs_headers = False
        signed: bytes = b""

        def signature_size(self, privacy: bool) -> int:
            return 4

        def sign(self, message: bytes) -> bytes:
            self.signed = message
            return b"sign"

        def verify(self, message: bytes, signature: bytes) -> None:
            assert (message, signature) == (self.signed, b"sign")

        def seal(self, before: bytes, body: bytes, after: bytes) -> tuple[bytes, bytes]:
            self.signed = before + body + after
            return body[::-1], b"seal"

        def unseal(self, before: bytes, body: bytes, after: bytes, signature: bytes) -> bytes:
            assert (before + body[::-1] + after, signature) == (self.signed, b"seal")
            return body[::-1]

    for header_sign in (False, True):
        for level in (4, 5, 6):
            messages = Recording()
            context = SecurityContext(16, level, 1, ALICE)
            context.complete(messages, header_sign)
            data = context.protect(0, 3, 7, bytes(8), b"a stub")
            assert len(data) % 4 == 0
            assert (messages.signed[:4] == data[:4]) == header_sign
            assert b"a stub" in messages.signed
            assert context.unprotect(data, 4, 24) == b"a stub"
