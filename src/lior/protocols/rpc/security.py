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


class AuthenticationFailed(LiorError):
    """The peer is not who it says, or its token is broken. What it is told is only that."""


class MessageSecurity(Protocol):
    """Per-message protection, in sequence. What fails raises AuthenticationFailed."""

    signs_headers: bool  # signatures cover the whole PDU even where header signing was not negotiated

    def signature_size(self, privacy: bool) -> int: ...

    def sign(self, message: bytes) -> bytes: ...

    def verify(self, message: bytes, signature: bytes) -> None: ...

    def seal(self, before: bytes, body: bytes, after: bytes) -> tuple[bytes, bytes]:
        """The body encrypted, and a signature over all three."""
        ...

    def unseal(self, before: bytes, body: bytes, after: bytes, signature: bytes) -> bytes: ...


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

    __slots__ = ("acceptor", "caller", "context_id", "error", "level", "messages", "ready", "service", "whole_pdu")

    def __init__(self, service: int, level: int, context_id: int, caller: Caller) -> None:
        self.service = service
        self.level = level
        self.context_id = context_id
        self.caller = caller
        self.ready = False
        self.error = 0  # the fault for its first request, after an auth3 that failed
        self.acceptor: Any = None
        self.messages: Any = None
        self.whole_pdu = True  # what signatures cover; the body alone otherwise

    def complete(self, messages: MessageSecurity, header_sign: bool) -> None:
        """The authentication succeeded. Header signing is agreed on, or not (3.3.1.5.2.2); NTLM includes what is not to
        be signed nevertheless ([MS-NLMP] 3.4.6, 3.4.8), and that at level packet too. The table of 3.3.1.5.2.2 protects
        no part of a PDU at that level; a provider that takes it at its word would sign nothing, and Samba signs as at
        level integrity. So do we."""
        self.messages = messages
        self.whole_pdu = header_sign or messages.signs_headers
        self.acceptor = None
        self.ready = True

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
            parts = (head, body, trailer) if self.whole_pdu else (b"", body, b"")
            sealed, signature = self.messages.seal(*parts)
            return b"".join((head, sealed, trailer, signature))
        signature = self.messages.sign(b"".join((head, body, trailer)) if self.whole_pdu else body)
        return b"".join((head, body, trailer, signature))

    def unprotect(self, pdu: bytes, auth_length: int, body_at: int) -> bytes:
        """The stub data of a request or response that this context protects."""
        trailer_at = len(pdu) - auth_length - SEC_TRAILER_SIZE
        head, body = pdu[:body_at], pdu[body_at:trailer_at]
        trailer, signature = pdu[trailer_at:trailer_at + SEC_TRAILER_SIZE], pdu[trailer_at + SEC_TRAILER_SIZE:]
        if self.level == LEVEL_PRIVACY:
            parts = (head, body, trailer) if self.whole_pdu else (b"", body, b"")
            body = self.messages.unseal(*parts, signature)
        elif self.level > LEVEL_CONNECT:
            self.messages.verify(b"".join((head, body, trailer)) if self.whole_pdu else body, signature)
        padding = trailer[2]
        if padding > len(body):
            raise Malformed("more padding than body", where="sec_trailer", remedy="the peer sent a broken PDU")
        return body[:len(body) - padding] if padding else body


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
