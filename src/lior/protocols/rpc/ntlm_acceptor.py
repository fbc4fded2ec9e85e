"""The server's half of NTLM ([MS-NLMP] 3.2.5.1): NTLMv2 only, against a table of hashes.

The proof is checked over the response as it came: whoever decodes it and encodes it again changes its padding.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from lior.errors import Malformed
from lior.protocols.rpc.ntlm_session import NtlmSession, hmac_md5, rc4k, response_key
from lior.protocols.rpc.security import AuthenticationFailed
from lior.security import ANONYMOUS_CALLER, Caller
from lior.wire import ntlm
from lior.wire.rpc_pdu import LEVEL_CONNECT, LEVEL_PRIVACY

FILETIME_1970: Final = 116444736000000000
MAX_LIFETIME: Final = 36 * 3600 * 10_000_000  # of a response, in 100 ns (3.1.1.1)
MAX_NAME: Final = 256
_NOBODY: Final = bytes(16)
OFFERED: Final = (
    ntlm.UNICODE | ntlm.SIGN | ntlm.SEAL | ntlm.NTLM | ntlm.ALWAYS_SIGN | ntlm.EXTENDED_SESSION_SECURITY
    | ntlm.VERSION | ntlm.KEY_128 | ntlm.KEY_EXCH | ntlm.KEY_56 | ntlm.IDENTIFY
)  # fmt: skip


class Accounts(Protocol):
    """Who may sign in. Names are compared without case."""

    def nt_hash(self, user: str, now: float) -> bytes | None:
        """None for who does not exist, is disabled or is locked out."""
        ...

    def signed_in(self, user: str, workstation: str, now: float) -> Caller:
        """The password was right."""
        ...

    def refused(self, user: str, workstation: str, why: str, now: float) -> None:
        """It was not, or there is no such user."""
        ...


@dataclass(frozen=True, slots=True)
class ServerNames:
    """What the server calls itself in a challenge."""

    netbios: str
    dns: str


class NtlmAcceptor:
    """One authentication. `nonce` gives random bytes, `wall` the seconds since 1970."""

    def __init__(
        self, accounts: Accounts, names: ServerNames, nonce: Callable[[int], bytes], wall: Callable[[], float],
        *, anonymous: bool = True,
    ) -> None:  # fmt: skip
        self._accounts = accounts
        self._names = names
        self._nonce = nonce
        self._wall = wall
        self._anonymous = anonymous
        self._negotiate = b""
        self._challenge = b""
        self._server_challenge = b""
        self._flags = 0
        self._caller: Caller | None = None
        self._session: NtlmSession | None = None

    @property
    def caller(self) -> Caller:
        assert self._caller is not None
        return self._caller

    @property
    def messages(self) -> NtlmSession:
        assert self._session is not None
        return self._session

    def accept(self, token: bytes, level: int, now: float) -> tuple[bytes, bool]:
        try:
            if self._caller is not None:
                raise AuthenticationFailed("a token after the last one", where="NTLM")
            if not self._challenge:
                return self._challenged(token, level), False
            return b"", self._authenticated(token, level, now)
        except Malformed as error:
            raise AuthenticationFailed(error.what, where="NTLM") from error

    # NEGOTIATE_MESSAGE (3.2.5.1.1)

    def _challenged(self, token: bytes, level: int) -> bytes:
        asked = ntlm.decode_negotiate(token).flags
        check_strength(asked, level)
        wall = FILETIME_1970 + int(self._wall() * 10_000_000)
        name = self._names.netbios.encode("utf-16-le")
        dns = self._names.dns.encode("utf-16-le")
        pairs = [
            (ntlm.AV_NB_DOMAIN_NAME, name), (ntlm.AV_NB_COMPUTER_NAME, name), (ntlm.AV_DNS_DOMAIN_NAME, dns),
            (ntlm.AV_DNS_COMPUTER_NAME, dns), (ntlm.AV_TIMESTAMP, wall.to_bytes(8, "little")),
        ]  # fmt: skip
        self._flags = (asked & OFFERED) | ntlm.REQUEST_TARGET | ntlm.NTLM | ntlm.ALWAYS_SIGN | ntlm.TARGET_INFO \
            | ntlm.TARGET_TYPE_SERVER
        self._server_challenge = self._nonce(8)
        self._negotiate = token
        self._challenge = ntlm.encode_challenge(
            ntlm.Challenge(self._flags, self._server_challenge, self._names.netbios, tuple(pairs)))
        return self._challenge

    # AUTHENTICATE_MESSAGE (3.2.5.1.2)

    def _authenticated(self, token: bytes, level: int, now: float) -> bool:
        message = ntlm.decode_authenticate(token)
        flags = message.flags & self._flags
        check_strength(flags, level)
        if not message.user and not message.nt_response and message.lm_response in (b"", b"\0"):
            return self._null_session(message, flags)
        who = message.user[:MAX_NAME]
        try:
            session_base_key, challenge = self._proven(message, now)
            exported = self._exported(message, flags, session_base_key)
            self._check_mic(token, message, challenge, exported)
            self._check_age(challenge)
        except (AuthenticationFailed, Malformed) as error:
            self._accounts.refused(who, message.workstation[:MAX_NAME], error.what, now)
            raise
        self._caller = self._accounts.signed_in(who, message.workstation[:MAX_NAME], now)
        self._session = NtlmSession(exported, is_client=False, key_exchange=bool(flags & ntlm.KEY_EXCH))
        return True

    def _null_session(self, message: ntlm.Authenticate, flags: int) -> bool:
        if not self._anonymous:
            raise AuthenticationFailed("the anonymous user may not sign in", where="NTLM")
        self._caller = ANONYMOUS_CALLER
        exported = self._exported(message, flags, bytes(16))
        self._session = NtlmSession(exported, is_client=False, key_exchange=bool(flags & ntlm.KEY_EXCH))
        return True

    def _proven(self, message: ntlm.Authenticate, now: float) -> tuple[bytes, ntlm.ClientChallenge]:
        """SessionBaseKey, if the client knows the password. Takes as long for users that do not exist."""
        if len(message.user) > MAX_NAME or len(message.domain) > MAX_NAME:
            raise AuthenticationFailed("a name that is too long", where="NTLM")
        challenge = ntlm.decode_client_challenge(message.nt_response)
        nt_hash = self._accounts.nt_hash(message.user, now)
        found: bytes | None = None
        for domain in (message.domain, ""):  # clients that leave the domain out of the computation (3.2.5.1.2)
            key = response_key(nt_hash or _NOBODY, message.user, domain)
            proof = hmac_md5(key, self._server_challenge + challenge.blob)
            if hmac.compare_digest(proof, challenge.proof) and nt_hash is not None and found is None:
                found = hmac_md5(key, proof)
        if found is None:
            raise AuthenticationFailed("wrong user name or password", where="NTLM")
        return found, challenge

    def _exported(self, message: ntlm.Authenticate, flags: int, key_exchange_key: bytes) -> bytes:
        """ExportedSessionKey; with NTLMv2 KeyExchangeKey is SessionBaseKey (3.4.5.1). Without signing and sealing the
        text exchanges no key, but Samba does."""
        if not flags & ntlm.KEY_EXCH or not (flags & (ntlm.SIGN | ntlm.SEAL) or message.session_key):
            return key_exchange_key
        if len(message.session_key) != 16:
            raise AuthenticationFailed("a session key that is none", where="NTLM")
        return rc4k(key_exchange_key, message.session_key)

    def _check_mic(
        self, token: bytes, message: ntlm.Authenticate, challenge: ntlm.ClientChallenge, exported: bytes
    ) -> None:
        """Nobody on the way has changed one of the three messages; the flag that announces this is itself proven."""
        said = next((value for kind, value in challenge.pairs if kind == ntlm.AV_FLAGS), b"")
        if not int.from_bytes(said, "little") & ntlm.AV_FLAG_MIC:
            return
        blank = b"".join((token[:ntlm.MIC_AT], bytes(ntlm.MIC_SIZE), token[ntlm.MIC_AT + ntlm.MIC_SIZE:]))
        expected = hmac_md5(exported, self._negotiate + self._challenge + blank)
        if not hmac.compare_digest(expected, message.mic):
            raise AuthenticationFailed("messages that were changed on the way", where="NTLM MIC")

    def _check_age(self, challenge: ntlm.ClientChallenge) -> None:
        wall = FILETIME_1970 + int(self._wall() * 10_000_000)
        if abs(wall - challenge.time) > MAX_LIFETIME:
            raise AuthenticationFailed("a response of another time", where="NTLM",
                                       remedy="set the clocks of both computers")


def check_strength(flags: int, level: int) -> None:
    """What is weaker than 128-bit keys of their own under extended session security protects nothing."""
    if not flags & ntlm.UNICODE:
        raise AuthenticationFailed("names that are not Unicode", where="NTLM")
    if level <= LEVEL_CONNECT:
        return
    needed = ntlm.EXTENDED_SESSION_SECURITY | ntlm.KEY_128 | ntlm.KEY_EXCH
    needed |= ntlm.SEAL if level == LEVEL_PRIVACY else ntlm.SIGN
    if flags & needed != needed:
        raise AuthenticationFailed("session security that is too weak", where="NTLM",
                                   remedy="the client must offer NTLMv2 session security with 128-bit keys")
