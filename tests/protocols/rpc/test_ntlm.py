"""Authentication with NTLM and SPNEGO: against ourselves, against pyspnego and against Samba."""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
from typing import Any

import pytest
import spnego as pyspnego
from spnego.iov import BufferType

from lior.protocols.rpc.ntlm_acceptor import FILETIME_1970, NtlmAcceptor, ServerNames
from lior.protocols.rpc.ntlm_initiator import NtlmInitiator
from lior.protocols.rpc.ntlm_session import nt_hash
from lior.protocols.rpc.security import Acceptor, AuthenticationFailed
from lior.protocols.rpc.spnego import SpnegoAcceptor, SpnegoInitiator
from lior.security import ANONYMOUS_CALLER, Caller
from lior.wire import ntlm, spnego
from lior.wire.spnego import KERBEROS, NTLMSSP, NegTokenInit, NegTokenResp
from tests.protocols.rpc.peers import ALICE

PASSWORD = "pässwörd ✓"
WALL = 1_700_000_000.0


class Accounts:
    def __init__(self) -> None:
        self.refusals: list[str] = []

    def nt_hash(self, user: str, now: float) -> bytes | None:
        return nt_hash(PASSWORD) if user.casefold() == "joe" else None

    def signed_in(self, user: str, workstation: str, now: float) -> Caller:
        return ALICE

    def refused(self, user: str, workstation: str, why: str, now: float) -> None:
        self.refusals.append(user)


def nonce(size: int) -> bytes:
    return bytes(range(size))


def acceptor(accounts: Accounts | None = None, wall: float = WALL, **more: Any) -> NtlmAcceptor:
    return NtlmAcceptor(accounts or Accounts(), ServerNames("HOST", "host.example.org"), nonce, lambda: wall, **more)


def initiator(level: int = 5, user: str = "joe", password: str = PASSWORD, **more: Any) -> NtlmInitiator:
    return NtlmInitiator(user, password, more.pop("domain", "HOST"), level, nonce, lambda: WALL, **more)


def signed_in(client: Any, server: Acceptor, level: int = 5) -> None:
    token, client_done = client.initiate(b"")
    while True:
        answer, done = server.accept(token, level, 0.0)
        if done and client_done:
            assert not answer
            return
        token, client_done = client.initiate(answer)
        if done and not token:
            return


def protected_both_ways(client: Any, server: Any) -> None:
    for sender, receiver in ((client, server), (server, client)) * 3:
        receiver.verify(b"message", sender.sign(b"message"))
        sealed, signature = sender.seal(b"head", b"body of a message", b"tail")
        assert sealed != b"body of a message"
        assert receiver.unseal(b"head", sealed, b"tail", signature) == b"body of a message"


@pytest.mark.parametrize("level", [2, 4, 5, 6])
def test_both_halves_agree(level: int) -> None:
    client, server = initiator(level), acceptor()
    signed_in(client, server, level)
    assert server.caller is ALICE
    protected_both_ways(client.messages, server.messages)
    client, server = SpnegoInitiator(initiator(level)), SpnegoAcceptor({NTLMSSP: acceptor})  # type: ignore[assignment]
    signed_in(client, server, level)
    protected_both_ways(client.messages, server.messages)


def test_a_stolen_hash_is_as_good_as_the_password_and_nothing_else_is() -> None:
    client, server = initiator(secret=nt_hash(PASSWORD)), acceptor()
    signed_in(client, server)
    for wrong in ({"password": PASSWORD + " "}, {"user": "jo"}, {"secret": bytes(16)},
                  {"user": "nobody", "secret": bytes(16)}):
        accounts = Accounts()
        with pytest.raises(AuthenticationFailed):
            signed_in(initiator(**wrong), acceptor(accounts))
        assert len(accounts.refusals) == 1


def exchange(client: NtlmInitiator, server: NtlmAcceptor, level: int = 5) -> bytes:
    first, _ = client.initiate(b"")
    challenge, _ = server.accept(first, level, 0.0)
    return client.initiate(challenge)[0]


def test_an_authenticate_message_is_good_once() -> None:
    message = exchange(initiator(), acceptor())
    server = NtlmAcceptor(Accounts(), ServerNames("HOST", "h"), lambda size: b"\x99" * size, lambda: WALL)
    server.accept(ntlm.encode_negotiate(ntlm.Negotiate(0xE2088297)), 5, 0.0)
    with pytest.raises(AuthenticationFailed):
        server.accept(message, 5, 0.0)
    again = acceptor()
    message = exchange(initiator(), again)
    again.accept(message, 5, 0.0)
    with pytest.raises(AuthenticationFailed):
        again.accept(message, 5, 0.0)


def test_every_changed_byte_of_an_authenticate_message_is_found() -> None:
    server = acceptor()
    message = exchange(initiator(), server)
    for at in range(len(message)):
        changed = message[:at] + bytes((message[at] ^ 0x20,)) + message[at + 1:]
        server = acceptor()
        exchange(initiator(), server)
        with pytest.raises(AuthenticationFailed):
            server.accept(changed, 5, 0.0)


def test_a_mic_cannot_be_taken_off() -> None:
    server = acceptor()
    message = ntlm.decode_authenticate(exchange(initiator(), server))
    stripped = ntlm.Authenticate(message.flags, message.lm_response, message.nt_response, message.domain, message.user,
                                 message.workstation, message.session_key, b"")
    with pytest.raises(AuthenticationFailed):
        server.accept(ntlm.encode_authenticate(stripped), 5, 0.0)


@pytest.mark.parametrize(
    "missing", [ntlm.UNICODE, ntlm.EXTENDED_SESSION_SECURITY, ntlm.KEY_128, ntlm.KEY_EXCH, ntlm.SIGN])
def test_weak_session_security_is_refused(missing: int) -> None:
    flags = 0xE2088297 | ntlm.SIGN
    acceptor().accept(ntlm.encode_negotiate(ntlm.Negotiate(flags)), 5, 0.0)
    with pytest.raises(AuthenticationFailed):
        acceptor().accept(ntlm.encode_negotiate(ntlm.Negotiate(flags & ~missing)), 5, 0.0)
    with pytest.raises(AuthenticationFailed):
        acceptor().accept(ntlm.encode_negotiate(ntlm.Negotiate(flags & ~ntlm.SEAL)), 6, 0.0)


def test_ntlm_of_version_1_is_refused() -> None:
    server = acceptor()
    message = ntlm.decode_authenticate(exchange(initiator(), server))
    for response in (bytes(24), b"", message.nt_response[:40]):
        server = acceptor()
        exchange(initiator(), server)
        old = ntlm.Authenticate(
            message.flags, bytes(24), response, message.domain, message.user, "", message.session_key)
        with pytest.raises(AuthenticationFailed):
            server.accept(ntlm.encode_authenticate(old), 5, 0.0)


def test_a_response_of_another_day_is_refused() -> None:
    client, server = initiator(), acceptor()
    first, _ = client.initiate(b"")
    challenge = ntlm.decode_challenge(server.accept(first, 5, 0.0)[0])
    pairs = dict(challenge.target_info)
    assert pairs[ntlm.AV_TIMESTAMP] == (FILETIME_1970 + int(WALL * 10_000_000)).to_bytes(8, "little")
    accounts = Accounts()
    server = acceptor(accounts)
    message = exchange(initiator(), server)
    server._wall = lambda: WALL + 40 * 3600
    with pytest.raises(AuthenticationFailed):
        server.accept(message, 5, 0.0)


def test_the_anonymous_user_signs_in_where_it_may() -> None:
    client, server = initiator(user="", password=""), acceptor()
    signed_in(client, server)
    assert server.caller is ANONYMOUS_CALLER
    protected_both_ways(client.messages, server.messages)
    with pytest.raises(AuthenticationFailed):
        signed_in(initiator(user="", password=""), acceptor(anonymous=False))


def test_a_client_that_computes_without_a_domain_is_let_in() -> None:
    client, server = initiator(domain=""), acceptor()
    message = ntlm.decode_authenticate(exchange(client, server))
    stated = ntlm.Authenticate(message.flags, message.lm_response, message.nt_response, "ELSEWHERE", message.user, "",
                               message.session_key, message.mic)
    with pytest.raises(AuthenticationFailed, match="changed on the way"):  # the proof holds; only the MIC does not
        server.accept(ntlm.encode_authenticate(stated), 5, 0.0)


def test_what_was_changed_replayed_or_dropped_does_not_verify() -> None:
    def pair() -> tuple[Any, Any]:
        client, server = initiator(6), acceptor()
        signed_in(client, server, 6)
        return client.messages, server.messages

    for attack in ("body", "head", "tail", "signature", "replay", "gap", "reflection"):
        client, server = pair()
        head, tail = b"head", b"tail"
        body, signature = client.seal(head, b"body", tail)
        if attack == "body":
            body = bytes((body[0] ^ 1,)) + body[1:]
        elif attack == "head":
            head = b"heaD"
        elif attack == "tail":
            tail = b"tai"
        elif attack == "signature":
            signature = signature[:5] + bytes((signature[5] ^ 1,)) + signature[6:]
        elif attack == "replay":
            server.unseal(head, body, tail, signature)
        elif attack == "gap":
            body, signature = client.seal(head, b"body", tail)
        elif attack == "reflection":
            server = client
        with pytest.raises(AuthenticationFailed):
            server.unseal(head, body, tail, signature)


@pytest.mark.parametrize("pair", [
    (ntlm.AV_FLAGS, b"12345678"), (ntlm.AV_TIMESTAMP, b"short"), (ntlm.AV_TIMESTAMP, bytes(9)),
    (ntlm.AV_DNS_TREE_NAME, bytes(60_000))])
def test_a_client_leaves_a_server_with_impossible_target_information(pair: tuple[int, bytes]) -> None:
    client, server = initiator(), acceptor()
    first, _ = client.initiate(b"")
    challenge = ntlm.decode_challenge(server.accept(first, 5, 0.0)[0])
    pairs = {**dict(challenge.target_info), pair[0]: pair[1]}
    odd = ntlm.Challenge(challenge.flags, challenge.server_challenge, "HOST", tuple(pairs.items()))
    with pytest.raises(AuthenticationFailed):
        client.initiate(ntlm.encode_challenge(odd))


# SPNEGO


def test_a_mechanism_that_is_not_the_first_needs_proof_of_the_list() -> None:
    inner, server = initiator(), SpnegoAcceptor({NTLMSSP: acceptor})
    mechanisms = (KERBEROS, NTLMSSP)
    first = NegTokenInit(mechanisms, spnego.encode_mech_list(mechanisms), b"optimistic kerberos")
    answer, done = server.accept(spnego.encode_init(first), 5, 0.0)
    chosen = spnego.decode(answer)
    assert isinstance(chosen, NegTokenResp)
    assert (chosen.state, chosen.mechanism, done) == (spnego.REQUEST_MIC, NTLMSSP, False)
    token, _ = inner.initiate(b"")
    answer, _ = server.accept(spnego.encode_resp(NegTokenResp(response_token=token)), 5, 0.0)
    challenge = spnego.decode(answer)
    assert isinstance(challenge, NegTokenResp)
    token, _ = inner.initiate(challenge.response_token)
    answer, done = server.accept(spnego.encode_resp(NegTokenResp(response_token=token)), 5, 0.0)
    assert not done  # not without the MIC
    shorter = spnego.encode_mech_list((NTLMSSP,))
    with pytest.raises(AuthenticationFailed):
        server.accept(spnego.encode_resp(NegTokenResp(mech_list_mic=inner.messages.mech_list_mic(shorter))), 5, 0.0)


@pytest.mark.parametrize("token", [b"", b"junk", spnego.encode_resp(NegTokenResp(0)), ntlm.SIGNATURE + b"\3\0\0\0",
                                   spnego.encode_init(NegTokenInit((KERBEROS,), spnego.encode_mech_list((KERBEROS,))))])
def test_spnego_refuses_what_does_not_begin_a_negotiation(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        SpnegoAcceptor({NTLMSSP: acceptor}).accept(token, 5, 0.0)


def test_ntlm_without_spnego_around_it_is_understood() -> None:
    client, server = initiator(), SpnegoAcceptor({NTLMSSP: acceptor})
    signed_in(client, server)
    protected_both_ways(client.messages, server.messages)


@pytest.mark.parametrize("answer", [b"junk", spnego.encode_resp(NegTokenResp(spnego.REJECT)),
                                    spnego.encode_resp(NegTokenResp(spnego.ACCEPT_COMPLETED)),
                                    spnego.encode_resp(NegTokenResp(1, KERBEROS, b"x")),
                                    spnego.encode_resp(NegTokenResp(1, NTLMSSP, b"no challenge"))])
def test_a_client_leaves_a_server_that_negotiates_nonsense(answer: bytes) -> None:
    client = SpnegoInitiator(initiator())
    client.initiate(b"")
    with pytest.raises(AuthenticationFailed):
        client.initiate(answer)


# Others' halves


@pytest.mark.parametrize("protocol", ["ntlm", "negotiate"])
def test_pyspnego_signs_in_and_its_messages_verify(protocol: str) -> None:
    client = pyspnego.client("joe", PASSWORD, hostname="host", service="rpc", protocol=protocol,
                             options=pyspnego.NegotiateOptions.use_ntlm)
    server: Any = acceptor(wall=time.time())
    if protocol == "negotiate":
        inner = server
        server = SpnegoAcceptor({NTLMSSP: lambda: inner})
    token: bytes | None = client.step()
    done = False
    while not done:
        assert token is not None
        answer, done = server.accept(token, 6, 0.0)
        token = client.step(answer) if answer else None
    assert client.complete
    for _ in range(3):
        parts: list[Any] = [(BufferType.sign_only, b"head"), (BufferType.data, b"body"),
                            (BufferType.sign_only, b"tail"), BufferType.header]
        wrapped = client.wrap_iov(parts)
        sealed, signature = wrapped.buffers[1].data, wrapped.buffers[3].data
        assert sealed is not None
        assert signature is not None
        assert server.messages.unseal(b"head", sealed, b"tail", signature) == b"body"
        sealed, signature = server.messages.seal(b"HEAD", b"BODY", b"TAIL")
        back = client.unwrap_iov([(BufferType.sign_only, b"HEAD"), (BufferType.data, sealed),
                                  (BufferType.sign_only, b"TAIL"), (BufferType.header, signature)])
        assert back.buffers[1].data == b"BODY"
        client.verify(b"signed here", server.messages.sign(b"signed here"))
        server.messages.verify(b"signed there", client.sign(b"signed there"))


class Helper:
    """Samba's half, on a pipe."""

    def __init__(self, protocol: str) -> None:
        self.process = subprocess.Popen(
            ["ntlm_auth", f"--helper-protocol={protocol}", "--username=joe", "--domain=SAMBA", f"--password={PASSWORD}",
             "--configfile=/dev/null"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


@pytest.mark.skipif(shutil.which("ntlm_auth") is None, reason="Samba's ntlm_auth (Debian: winbind) is not installed")
def test_samba_signs_in() -> None:
    helper = Helper("ntlmssp-client-1")
    try:
        server = acceptor(wall=time.time())
        kind, _, token = helper.ask("YR").partition(" ")
        assert kind == "YR"
        answer, _ = server.accept(base64.b64decode(token), 2, 0.0)
        kind, _, token = helper.ask(f"TT {base64.b64encode(answer).decode()}").partition(" ")
        assert kind in ("KK", "AF")
        assert server.accept(base64.b64decode(token), 2, 0.0) == (b"", True)
        kind, _, key = helper.ask("GK").partition(" ")
        assert base64.b64decode(key) == server.messages.exported_session_key
    finally:
        helper.close()


@pytest.mark.skipif(shutil.which("ntlm_auth") is None, reason="Samba's ntlm_auth (Debian: winbind) is not installed")
def test_samba_negotiates() -> None:
    helper = Helper("gss-spnego-client")
    try:
        server = SpnegoAcceptor({NTLMSSP: lambda: acceptor(wall=time.time())})
        _, _, token = helper.ask("YR").partition(" ")
        done, said = False, ""
        while not done:
            answer, done = server.accept(base64.b64decode(token), 2, 0.0)
            said, _, token = helper.ask(f"TT {base64.b64encode(answer).decode()}").partition(" ")
        assert said == "AF"
        assert server.caller is ALICE
    finally:
        helper.close()
