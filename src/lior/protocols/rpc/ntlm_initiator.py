"""The client's half of NTLM ([MS-NLMP] 3.1.5.1): NTLMv2 with a MIC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lior.errors import Malformed
from lior.protocols.rpc.ntlm_acceptor import FILETIME_1970, check_strength
from lior.protocols.rpc.ntlm_session import NtlmSession, hmac_md5, nt_hash, rc4k, response_key
from lior.protocols.rpc.security import AuthenticationFailed
from lior.wire import ntlm
from lior.wire.rpc_pdu import LEVEL_CONNECT, LEVEL_PRIVACY, SERVICE_NTLM

WANTED: Final = (
    ntlm.UNICODE | ntlm.REQUEST_TARGET | ntlm.SIGN | ntlm.NTLM | ntlm.ALWAYS_SIGN | ntlm.EXTENDED_SESSION_SECURITY
    | ntlm.TARGET_INFO | ntlm.VERSION | ntlm.KEY_128 | ntlm.KEY_EXCH | ntlm.KEY_56
)  # fmt: skip
MAX_TARGET_INFO: Final = 8192  # names of a computer and its domain; they go back in a response


class NtlmInitiator:
    """One authentication. A `password` of None with an empty `user` is the anonymous user; `secret` may be given
    instead of a password: its NT hash."""

    service = SERVICE_NTLM
    odd_legs = True

    def __init__(
        self, user: str, password: str | None, domain: str, level: int, nonce: Callable[[int], bytes],
        wall: Callable[[], float], *, secret: bytes | None = None, workstation: str = "", target: str = "",
    ) -> None:  # fmt: skip
        self.level = level
        self._user = user
        self._hash = secret if secret is not None else nt_hash(password or "")
        self._domain = domain
        self._nonce = nonce
        self._wall = wall
        self._workstation = workstation
        self._target = target
        self._negotiate = b""
        self._session: NtlmSession | None = None

    @property
    def messages(self) -> NtlmSession:
        assert self._session is not None
        return self._session

    def initiate(self, token: bytes) -> tuple[bytes, bool]:
        if not self._negotiate:
            flags = WANTED | (ntlm.SEAL if self.level == LEVEL_PRIVACY else 0)
            self._negotiate = ntlm.encode_negotiate(ntlm.Negotiate(flags))
            return self._negotiate, False
        if self._session is not None:
            raise AuthenticationFailed("a token after the last one", where="NTLM")
        try:
            return self._answer(token), True
        except Malformed as error:
            raise AuthenticationFailed(error.what, where="NTLM challenge") from error

    def _answer(self, token: bytes) -> bytes:
        """AUTHENTICATE_MESSAGE (3.1.5.1.2)"""
        challenge = ntlm.decode_challenge(token)
        wanted = WANTED | (ntlm.SEAL if self.level == LEVEL_PRIVACY else 0)
        flags = challenge.flags & wanted | ntlm.TARGET_INFO | ntlm.REQUEST_TARGET
        check_strength(flags, max(self.level, LEVEL_CONNECT))
        pairs, time = self._pairs(challenge)
        if self._user:
            key = response_key(self._hash, self._user, self._domain)
            blob = ntlm.encode_client_challenge(time, self._nonce(8), pairs)
            proof = hmac_md5(key, challenge.server_challenge + blob)
            lm, nt, base_key = bytes(24), proof + blob, hmac_md5(key, proof)
        else:
            lm, nt, base_key = b"\0", b"", bytes(16)
            flags |= ntlm.ANONYMOUS_CONNECTION
        exported, encrypted = base_key, b""
        if flags & ntlm.KEY_EXCH and flags & (ntlm.SIGN | ntlm.SEAL):
            exported = self._nonce(16)
            encrypted = rc4k(base_key, exported)
        domain = self._domain if self._user else ""
        blank = ntlm.encode_authenticate(ntlm.Authenticate(
            flags, lm, nt, domain, self._user, self._workstation, encrypted, bytes(ntlm.MIC_SIZE)))
        mic = hmac_md5(exported, self._negotiate + token + blank)
        self._session = NtlmSession(exported, is_client=True, key_exchange=bool(encrypted))
        return blank[:ntlm.MIC_AT] + mic + blank[ntlm.MIC_AT + ntlm.MIC_SIZE:]

    def _pairs(self, challenge: ntlm.Challenge) -> tuple[list[tuple[int, bytes]], int]:
        """The server's, with what the client adds; and the time of the response."""
        given = dict(challenge.target_info)
        if sum(map(len, given.values())) > MAX_TARGET_INFO or len(given.get(ntlm.AV_FLAGS, b"")) > 4:
            raise Malformed("target information that is none", where="CHALLENGE_MESSAGE")
        if self.level > LEVEL_CONNECT and not {ntlm.AV_NB_COMPUTER_NAME, ntlm.AV_NB_DOMAIN_NAME} <= given.keys():
            raise AuthenticationFailed("the server does not say who it is", where="NTLM challenge")
        stamp = given.get(ntlm.AV_TIMESTAMP)
        time = int.from_bytes(stamp, "little") if stamp else FILETIME_1970 + int(self._wall() * 10_000_000)
        said = int.from_bytes(given.get(ntlm.AV_FLAGS, b""), "little") | ntlm.AV_FLAG_MIC
        given[ntlm.AV_FLAGS] = said.to_bytes(4, "little")
        given[ntlm.AV_CHANNEL_BINDINGS] = bytes(16)
        given[ntlm.AV_TARGET_NAME] = self._target.encode("utf-16-le")
        if time >= 1 << 64 or len(stamp or bytes(8)) != 8:
            raise Malformed("a time that is none", where="MsvAvTimestamp")
        return list(given.items()), time
