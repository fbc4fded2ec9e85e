"""Security contexts of a connection, and how they protect PDUs ([MS-RPCE] 3.3.1.5.2).

A provider does the authentication and the cryptography behind two small interfaces; which part of a PDU is protected
is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from lior.errors import LiorError, Malformed
from lior.security import Caller
from lior.wire.rpc_pdu import (
    HEADER,
    LEVEL_CALL,
    LEVEL_CONNECT,
    LEVEL_DEFAULT,
    LEVEL_NONE,
    LEVEL_PACKET,
    LEVEL_PRIVACY,
    LITTLE_ENDIAN,
    REQUEST_SIZE,
    SEC_TRAILER,
    SEC_TRAILER_SIZE,
    SERVICE_NONE,
    VERSION,
)

ALIGNMENT: Final = 16  # of sec_trailer, from the start of the body (2.2.2.11)

# What a signature covers: the whole PDU up to itself, its body, or nothing but the sequence number
WHOLE_PDU, BODY_ONLY, NOTHING = range(3)


class AuthenticationFailed(LiorError):
    """The peer is not who it says, or its token is broken. What it is told is only that."""


class MessageSecurity(Protocol):
    """Per-message protection, in sequence. What fails raises AuthenticationFailed.

    `candidates` are the parts (before, after) of the PDU that a signature may cover besides the body; the answer says
    which of them it does.
    """

    signs_headers: bool  # covers the whole PDU even where header signing was not negotiated

    def signature_size(self, privacy: bool) -> int: ...

    def sign(self, message: bytes) -> bytes: ...

    def verify(self, messages: list[bytes], signature: bytes) -> int: ...

    def seal(self, before: bytes, body: bytes, after: bytes) -> tuple[bytes, bytes]:
        """The body encrypted, and a signature over all three."""
        ...

    def unseal(self, body: bytes, candidates: list[tuple[bytes, bytes]], signature: bytes) -> tuple[bytes, int]: ...


class Acceptor(Protocol):
    """The server's half of an authentication, one for each security context."""

    def accept(self, token: bytes, level: int, now: float) -> tuple[bytes, bool]:
        """The token to answer, and whether that is the end. Raises AuthenticationFailed."""
        ...

    @property
    def caller(self) -> Caller: ...

    @property
    def messages(self) -> MessageSecurity: ...


class Initiator(Protocol):
    """The client's half."""

    service: int  # auth_type
    level: int  # auth_level
    odd_legs: bool  # whether the last token goes in an auth3, which is not answered

    def initiate(self, token: bytes) -> tuple[bytes, bool]:
        """The token to send (may be empty), and whether that is the end. The first one is for b""."""
        ...

    @property
    def messages(self) -> MessageSecurity: ...


Providers = Mapping[int, Callable[[], Acceptor]]  # auth_type -> a new acceptor


class SecurityContext:
    """One entry of the Table of Security Context Handles."""

    __slots__ = ("acceptor", "caller", "context_id", "error", "form", "header_sign", "level", "messages", "ready",
                 "service")  # fmt: skip

    def __init__(self, service: int, level: int, context_id: int, caller: Caller) -> None:
        self.service = service
        self.level = level
        self.context_id = context_id
        self.caller = caller
        self.header_sign = False
        self.ready = False
        self.error = 0  # the fault for its first request, after an auth3 that failed
        self.acceptor: Any = None
        self.messages: Any = None
        self.form = WHOLE_PDU

    def complete(self, messages: MessageSecurity, header_sign: bool) -> None:
        """The authentication succeeded."""
        self.messages = messages
        self.header_sign = header_sign
        self.form = self._forms()[0]
        self.acceptor = None
        self.ready = True

    def _forms(self) -> list[int]:
        """What a signature may cover. Where header signing was agreed on, no doubt is left. Without, the table of
        3.3.1.5.2.2 protects the body alone, but NTLM with extended session security signs whole PDUs on Windows, in
        Samba and in impacket: both are taken, and answered in kind. At level packet the table protects no part, so
        that the signature proves the sequence only; Samba signs the same parts as at level integrity."""
        if self.header_sign:
            forms = [WHOLE_PDU]
        elif self.messages.signs_headers:
            forms = [WHOLE_PDU, BODY_ONLY]
        else:
            forms = [BODY_ONLY]
        return [*forms, NOTHING] if self.level == LEVEL_PACKET else forms

    @property
    def signs(self) -> bool:
        return self.level > LEVEL_CONNECT

    def overhead(self) -> int:
        """Bytes that protection adds to a fragment, padding apart."""
        return SEC_TRAILER_SIZE + int(self.messages.signature_size(self.level == LEVEL_PRIVACY)) if self.signs else 0

    def protect(self, ptype: int, flags: int, call_id: int, start: bytes, stub: bytes) -> bytes:
        """A PDU whose body starts with the eight bytes `start`."""
        padding = -len(stub) % ALIGNMENT
        body = stub + bytes(padding) if padding else stub
        trailer = SEC_TRAILER.pack(self.service, self.level, padding, 0, self.context_id)
        privacy = self.level == LEVEL_PRIVACY
        size = self.messages.signature_size(privacy)
        head = HEADER.pack(VERSION | ptype << 16 | flags << 24, LITTLE_ENDIAN,
                           REQUEST_SIZE + len(body) + SEC_TRAILER_SIZE + size, size, call_id) + start
        if privacy:
            around = (head, trailer) if self.form == WHOLE_PDU else (b"", b"")
            sealed, signature = self.messages.seal(around[0], body, around[1])
            return b"".join((head, sealed, trailer, signature))
        signature = self.messages.sign(_signed(self.form, head, body, trailer))
        return b"".join((head, body, trailer, signature))

    def unprotect(self, pdu: bytes, auth_length: int, body_at: int) -> bytes:
        """The stub data of a request or response that this context protects."""
        trailer_at = len(pdu) - auth_length - SEC_TRAILER_SIZE
        head, body = pdu[:body_at], pdu[body_at:trailer_at]
        trailer, signature = pdu[trailer_at:trailer_at + SEC_TRAILER_SIZE], pdu[trailer_at + SEC_TRAILER_SIZE:]
        forms = self._forms()
        if self.level == LEVEL_PRIVACY:
            around = [(head, trailer) if form == WHOLE_PDU else (b"", b"") for form in forms]
            body, which = self.messages.unseal(body, around, signature)
            self.form = forms[which]
        elif self.level > LEVEL_CONNECT:
            which = self.messages.verify([_signed(form, head, body, trailer) for form in forms], signature)
            self.form = forms[which]
        padding = trailer[2]
        if padding > len(body):
            raise Malformed("more padding than body", where="sec_trailer", remedy="the peer sent a broken PDU")
        return body[:len(body) - padding] if padding else body


def _signed(form: int, head: bytes, body: bytes, trailer: bytes) -> bytes:
    if form == WHOLE_PDU:
        return b"".join((head, body, trailer))
    return body if form == BODY_ONLY else b""


def no_security(caller: Caller) -> SecurityContext:
    """What requests without authentication are made in."""
    context = SecurityContext(SERVICE_NONE, LEVEL_NONE, 0, caller)
    context.ready = True
    return context


def effective_level(level: int) -> int:
    """The level that a number stands for ([MS-RPCE] 2.2.1.1.8)."""
    if level == LEVEL_DEFAULT:
        return LEVEL_CONNECT
    if level == LEVEL_CALL:
        return LEVEL_PACKET
    if not LEVEL_CONNECT <= level <= LEVEL_PRIVACY:
        raise AuthenticationFailed(f"there is no authentication level {level}", where="sec_trailer")
    return level
