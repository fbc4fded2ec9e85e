"""Negotiation of the kind of authentication (RFC 4178 as [MS-SPNG] extends it), around what does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lior.errors import Malformed
from lior.protocols.rpc.security import Acceptor, AuthenticationFailed, Initiator, MessageSecurity
from lior.security import Caller
from lior.wire import spnego
from lior.wire.ntlm import NEGOTIATE_MESSAGE, message_type
from lior.wire.rpc_pdu import SERVICE_NEGOTIATE
from lior.wire.spnego import (
    ACCEPT_COMPLETED,
    ACCEPT_INCOMPLETE,
    NTLMSSP,
    REJECT,
    REQUEST_MIC,
    NegTokenInit,
    NegTokenResp,
)

Mechanisms = Mapping[bytes, Callable[[], Acceptor]]  # object identifier -> a new acceptor
_WHERE: Final = "SPNEGO"


def mech_list_mic(messages: Any, mech_list: bytes) -> bytes:
    """NTLM has a way of its own ([MS-SPNG] 3.2.5.1); others sign."""
    sign = getattr(messages, "mech_list_mic", messages.sign)
    return bytes(sign(mech_list))


def verify_mech_list_mic(messages: Any, mech_list: bytes, mic: bytes) -> None:
    getattr(messages, "verify_mech_list_mic", messages.verify)(mech_list, mic)


class SpnegoAcceptor:
    """The client's first mechanism that is offered here is taken."""

    def __init__(self, mechanisms: Mechanisms) -> None:
        self._mechanisms = mechanisms
        self._inner: Acceptor | None = None
        self._mech_list = b""
        self._needs_mic = False
        self._inner_done = False
        self._raw = False  # NTLM without SPNEGO around it, as some clients send it

    @property
    def caller(self) -> Caller:
        assert self._inner is not None
        return self._inner.caller

    @property
    def messages(self) -> MessageSecurity:
        assert self._inner is not None
        return self._inner.messages

    def accept(self, token: bytes, level: int, now: float) -> tuple[bytes, bool]:
        try:
            if self._inner is None and message_type(token) == NEGOTIATE_MESSAGE and NTLMSSP in self._mechanisms:
                self._raw, self._inner = True, self._mechanisms[NTLMSSP]()
            if self._raw and self._inner is not None:
                return self._inner.accept(token, level, now)
            decoded = spnego.decode(token)
        except Malformed as error:
            raise AuthenticationFailed(error.what, where=_WHERE) from error
        if self._inner is None:
            if not isinstance(decoded, NegTokenInit):
                raise AuthenticationFailed("an answer before the question", where=_WHERE)
            return self._first(decoded, level, now)
        if not isinstance(decoded, NegTokenResp) or decoded.state == REJECT:
            raise AuthenticationFailed("the client has given up", where=_WHERE)
        return self._next(decoded.response_token, decoded.mech_list_mic, level, now, first=False)

    def _first(self, token: NegTokenInit, level: int, now: float) -> tuple[bytes, bool]:
        mechanism = next((each for each in token.mechanisms if each in self._mechanisms), None)
        if mechanism is None:
            raise AuthenticationFailed("none of the client's mechanisms is offered here", where=_WHERE)
        self._inner = self._mechanisms[mechanism]()
        self._mech_list = token.mech_list
        if mechanism != token.mechanisms[0]:  # somebody may have taken the better ones off the list: 5 (d)
            self._needs_mic = True
            return spnego.encode_resp(NegTokenResp(REQUEST_MIC, mechanism)), False
        if not token.mech_token:
            return spnego.encode_resp(NegTokenResp(ACCEPT_INCOMPLETE, mechanism)), False
        return self._next(token.mech_token, token.mech_list_mic, level, now, first=True, mechanism=mechanism)

    def _next(
        self, token: bytes, mic: bytes, level: int, now: float, *, first: bool, mechanism: bytes = b""
    ) -> tuple[bytes, bool]:
        assert self._inner is not None
        answer = b""
        if not self._inner_done:
            answer, self._inner_done = self._inner.accept(token, level, now)
            if not self._inner_done:
                return spnego.encode_resp(NegTokenResp(ACCEPT_INCOMPLETE, mechanism, answer)), False
        if not mic:
            if self._needs_mic:
                return spnego.encode_resp(NegTokenResp(ACCEPT_INCOMPLETE, mechanism, answer)), False
            return spnego.encode_resp(NegTokenResp(ACCEPT_COMPLETED, mechanism, answer)), True
        verify_mech_list_mic(self._inner.messages, self._mech_list, mic)
        own = mech_list_mic(self._inner.messages, self._mech_list)
        return spnego.encode_resp(NegTokenResp(ACCEPT_COMPLETED, mechanism, answer, own)), True


class SpnegoInitiator:
    """Offers what one initiator can do."""

    service = SERVICE_NEGOTIATE
    odd_legs = False

    def __init__(self, inner: Initiator, mechanisms: Sequence[bytes] = (NTLMSSP,)) -> None:
        self.level = inner.level
        self._inner = inner
        self._mechanisms = tuple(mechanisms)
        self._mech_list = spnego.encode_mech_list(mechanisms)
        self._started = False
        self._inner_done = False
        self._sent_mic = False

    @property
    def messages(self) -> MessageSecurity:
        return self._inner.messages

    def initiate(self, token: bytes) -> tuple[bytes, bool]:
        if not self._started:
            self._started = True
            first, self._inner_done = self._inner.initiate(b"")
            return spnego.encode_init(NegTokenInit(self._mechanisms, self._mech_list, first)), False
        try:
            answer = spnego.decode(token)
        except Malformed as error:
            raise AuthenticationFailed(error.what, where=_WHERE) from error
        if not isinstance(answer, NegTokenResp) or answer.state == REJECT:
            raise AuthenticationFailed("the server refuses", where=_WHERE)
        return self._next(answer)

    def _next(self, answer: NegTokenResp) -> tuple[bytes, bool]:
        if answer.mechanism and answer.mechanism not in self._mechanisms:
            raise AuthenticationFailed("the server chose what was not offered", where=_WHERE)
        token = b""
        if answer.response_token:
            token, self._inner_done = self._inner.initiate(answer.response_token)
        if not self._inner_done:
            if not token:
                raise AuthenticationFailed("the server does not go on", where=_WHERE)
            return spnego.encode_resp(NegTokenResp(response_token=token)), False
        if answer.mech_list_mic:
            verify_mech_list_mic(self._inner.messages, self._mech_list, answer.mech_list_mic)
        elif answer.state == ACCEPT_COMPLETED and self._sent_mic:
            raise AuthenticationFailed("the server does not prove what was negotiated", where=_WHERE)
        if answer.state == ACCEPT_COMPLETED and not token:
            return b"", True
        if self._sent_mic and not token:
            raise AuthenticationFailed("the server does not come to an end", where=_WHERE)
        self._sent_mic = True
        mic = mech_list_mic(self._inner.messages, self._mech_list)
        return spnego.encode_resp(NegTokenResp(response_token=token, mech_list_mic=mic)), False
