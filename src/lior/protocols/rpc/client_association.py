"""The client's side of one connection ([C706] 11, [MS-RPCE] 3.3.2): calls in, bytes out, and answers back.

`bind` first; when `Bound` has come, `request` as often as wanted, without waiting for the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from lior.errors import LiorError, Malformed
from lior.protocols.rpc.call import Close, Send
from lior.protocols.rpc.faults import RpcFault
from lior.protocols.rpc.security import AuthenticationFailed, Initiator, SecurityContext, effective_level
from lior.protocols.rpc.trailer import encode_trailer
from lior.security import ANONYMOUS_CALLER
from lior.wire.rpc_pdu import (
    ACCEPTANCE,
    ALTER_CONTEXT,
    ALTER_CONTEXT_RESP,
    AUTH_3,
    BIND,
    BIND_ACK,
    BIND_NAK,
    CO_CANCEL,
    CONC_MPX,
    FAULT,
    FEATURE_CONTEXT_MULTIPLEXING,
    FEATURE_KEEP_ON_ORPHAN,
    FIRST_FRAG,
    HEADER,
    HEADER_SIZE,
    LARGEST_FRAGMENT,
    LAST_FRAG,
    LEVEL_CONNECT,
    LEVEL_INTEGRITY,
    LITTLE_ENDIAN,
    MUST_RECEIVE,
    NDR,
    NEGOTIATE_ACK,
    ORPHANED,
    REQUEST,
    REQUEST_HEAD,
    REQUEST_SIZE,
    RESPONSE,
    RESPONSE_SIZE,
    SEC_TRAILER_SIZE,
    SHUTDOWN,
    SUPPORT_HEADER_SIGN,
    VERSION,
    WHOLE,
    WHOLE_REQUEST,
    WHOLE_RESPONSE,
    Authentication,
    Bind,
    PresentationContext,
    Result,
    Syntax,
    decode_authentication,
    decode_bind_ack,
    decode_bind_nak,
    decode_fault,
    encode,
    encode_bind,
    features,
)
from lior.wire.rpc_pdu import BODY_START as REQUEST_START

MAX_STUB: Final = 0x430000
FEATURES: Final = features(FEATURE_CONTEXT_MULTIPLEXING | FEATURE_KEEP_ON_ORPHAN)


class BindFailed(LiorError):
    """The server takes no calls on this connection."""


@dataclass(slots=True)
class Bound:
    """Calls may be made. `contexts` tells which of the interfaces given to `bind` the server has: their numbers."""

    group_id: int
    contexts: dict[UUID, int]


@dataclass(slots=True)
class Answer:
    """A call succeeded."""

    call_id: int
    stub: bytes


@dataclass(slots=True)
class Fault:
    """A call failed."""

    call_id: int
    status: int
    executed: bool  # False: the server has not begun it


ClientEffect = Send | Bound | Answer | Fault | Close


class ClientAssociation:
    """One connection. `interfaces` are offered in the bind, each as a presentation context; objects with `uuid` and
    `version`. `group_id` joins the association group of another connection. Without `initiator` calls carry no
    authentication."""

    def __init__(
        self, interfaces: Sequence[Any], *, initiator: Initiator | None = None, group_id: int = 0,
        max_fragment: int = LARGEST_FRAGMENT, max_stub: int = MAX_STUB,
    ) -> None:  # fmt: skip
        self.group_id = group_id
        self.bound = False
        self.closed = False
        self.contexts: dict[UUID, int] = {}  # interface -> number of its presentation context
        self.results: tuple[Result, ...] = ()
        self.calls: dict[int, int] = {}  # under way: call_id -> bytes of its answer so far
        self.features = 0
        self.multiplexes = False  # whether the server takes a call before the one before it is answered ([C706] 12.6.3)
        self._interfaces = tuple(interfaces)
        self._initiator = initiator
        self._max_fragment = max_fragment
        self._max_stub = max_stub
        self._max_xmit = max_fragment
        self._last_call_id = 1
        self._bind_call_id = 1
        self._security: SecurityContext | None = None
        self._header_sign = False
        self._done = initiator is None
        self._rest = bytearray()
        self._needed = HEADER_SIZE
        self._parts: dict[int, list[bytes]] = {}
        self._untold: set[int] = set()  # presentation contexts whose first request carries a verification trailer

    # Binding

    def bind(self) -> list[ClientEffect]:
        """The first PDU."""
        offered = self._offered()
        authentication, flags = None, WHOLE | CONC_MPX
        if self._initiator is not None:
            token, self._done = self._initiator.initiate(b"")
            level = effective_level(self._initiator.level)
            self._security = SecurityContext(self._initiator.service, level, 1, ANONYMOUS_CALLER)
            authentication = self._authentication(token)
            flags |= SUPPORT_HEADER_SIGN if self._initiator.level >= LEVEL_INTEGRITY else 0
        body = encode_bind(Bind(self._max_fragment, self._max_fragment, self.group_id, offered))
        return [Send(encode(BIND, flags, self._bind_call_id, body, authentication))]

    def _offered(self) -> tuple[PresentationContext, ...]:
        contexts = [PresentationContext(n, _abstract(each), (NDR,)) for n, each in enumerate(self._interfaces)]
        if contexts:
            contexts.append(PresentationContext(len(contexts), contexts[-1].abstract, (FEATURES,)))
        return tuple(contexts)

    def _authentication(self, token: bytes) -> Authentication:
        assert self._security is not None
        return Authentication(self._security.service, self._security.level, 0, self._security.context_id, token)

    def _acknowledged(self, pdu: bytes, ptype: int, flags: int, auth_length: int) -> list[ClientEffect]:
        end = len(pdu) - auth_length - SEC_TRAILER_SIZE if auth_length else len(pdu)
        token = decode_authentication(pdu, auth_length).token if auth_length else b""
        ack = decode_bind_ack(pdu, end)
        if ptype == BIND_ACK:
            if len(ack.results) != len(self._interfaces) + (1 if self._interfaces else 0):
                raise Malformed("a result for each presentation context belongs here", where="bind_ack")
            self.group_id = ack.assoc_group_id
            self._max_xmit = max(min(ack.max_recv_frag, self._max_fragment), MUST_RECEIVE)
            self._header_sign = bool(flags & SUPPORT_HEADER_SIGN)
            self.multiplexes = bool(flags & CONC_MPX)
            self.results = ack.results
        if not self._done:
            return self._next_leg(token)
        if token and self._initiator is not None:  # of SPNEGO, to an initiator that was done already
            self._initiator.initiate(token)
        return self._complete()

    def _next_leg(self, token: bytes) -> list[ClientEffect]:
        assert self._initiator is not None
        answer, self._done = self._initiator.initiate(token)
        if not answer:
            if not self._done:
                raise AuthenticationFailed("the provider has nothing more to say", where="security context")
            return self._complete()
        if self._done and self._initiator.odd_legs:
            return [Send(encode(AUTH_3, WHOLE, self._bind_call_id, bytes(4), self._authentication(answer))),
                    *self._complete()]
        body = encode_bind(Bind(self._max_fragment, self._max_fragment, self.group_id, self._offered()))
        flags = WHOLE | CONC_MPX | (SUPPORT_HEADER_SIGN if self._header_sign else 0)
        return [Send(encode(ALTER_CONTEXT, flags, self._bind_call_id, body, self._authentication(answer)))]

    def _complete(self) -> list[ClientEffect]:
        if self._initiator is not None and self._security is not None:
            self._security.complete(self._initiator.messages, self._header_sign)
        for number, (interface, result) in enumerate(zip(self._interfaces, self.results, strict=False)):
            if result.result == ACCEPTANCE and result.transfer == NDR:
                self.contexts[interface.uuid] = number
        if self.results and self.results[-1].result == NEGOTIATE_ACK:
            self.features = self.results[-1].reason
        if not self.contexts and self._interfaces:
            reason = self.results[0].reason
            raise BindFailed(f"the server has none of these interfaces (reason {reason})", where="bind_ack",
                             remedy="check the port, and that the other side is a queue manager")
        self._untold = set(self.contexts.values()) if self._security is not None and self._security.signs else set()
        self.bound = True
        return [Bound(self.group_id, self.contexts)]

    # Calls

    def request(self, interface: Any, opnum: int, stub: bytes) -> tuple[int, bytes]:
        """The call_id, and what to send. Whoever joins many of them to one write saves most of its cost."""
        context_id = self.contexts[interface.uuid]
        self._last_call_id += 1
        call_id = self._last_call_id
        self.calls[call_id] = 0
        size = REQUEST_SIZE + len(stub)
        if size <= self._max_xmit and (self._security is None or not self._security.signs):
            return call_id, REQUEST_HEAD.pack(
                WHOLE_REQUEST, LITTLE_ENDIAN, size, 0, call_id, len(stub), context_id, opnum) + stub
        if context_id in self._untold:
            self._untold.discard(context_id)
            stub += bytes(-len(stub) % 4) + encode_trailer(_abstract(interface), NDR, self._header_sign)
        return call_id, self._fragmented(call_id, context_id, opnum, stub)

    def _fragmented(self, call_id: int, context_id: int, opnum: int, stub: bytes) -> bytes:
        security = self._security if self._security is not None and self._security.signs else None
        room = (self._max_xmit - REQUEST_SIZE - (security.overhead() if security else 0)) & -16
        parts: list[bytes] = []
        at, flags = 0, FIRST_FRAG
        while not flags & LAST_FRAG:
            left = len(stub) - at
            if left <= room:
                flags |= LAST_FRAG
            piece, start = stub[at:at + room], REQUEST_START.pack(left, context_id, opnum)
            if security:
                parts.append(security.protect(REQUEST, flags, call_id, start, piece))
            else:
                parts.append(encode(REQUEST, flags, call_id, start + piece))
            at += room
            flags &= ~FIRST_FRAG
        return b"".join(parts)

    def cancel(self, call_id: int) -> bytes:
        """Ask the server to end a call soon; its answer or fault still comes. Empty if it has come already."""
        return self._about(CO_CANCEL, call_id)

    def orphan(self, call_id: int) -> bytes:
        """Give a call up: no answer to it will be told. Only where the server keeps connections (3.3.1.5.10)."""
        if not self.features & FEATURE_KEEP_ON_ORPHAN:
            return self.cancel(call_id)
        data = self._about(ORPHANED, call_id)
        self.calls.pop(call_id, None)
        self._parts.pop(call_id, None)
        return data

    def _about(self, ptype: int, call_id: int) -> bytes:
        return encode(ptype, WHOLE, call_id, b"") if call_id in self.calls else b""

    # What comes in

    def receive(self, data: bytes) -> list[ClientEffect]:
        effects: list[ClientEffect] = []
        if self.closed:
            return effects
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return effects
            data = bytes(self._rest)
            self._rest.clear()
        try:
            at = self._consume(data, effects)
        except (Malformed, AuthenticationFailed, BindFailed) as error:
            effects.append(self._close(str(error), malformed=isinstance(error, Malformed)))
            return effects
        if at < len(data) and not self.closed:
            self._rest += data[at:] if at else data
            short = len(data) - at < HEADER_SIZE
            self._needed = HEADER_SIZE if short else int.from_bytes(data[at + 8:at + 10], "little")
        return effects

    def _consume(self, data: bytes, effects: list[ClientEffect]) -> int:
        at, end, calls = 0, len(data), self.calls
        plain = self._security is None or not self._security.signs
        while end - at >= HEADER_SIZE and not self.closed:
            first, drep, length, auth_length, call_id = HEADER.unpack_from(data, at)
            if drep & 0xFF != LITTLE_ENDIAN or first & 0xFFFF != VERSION or length < HEADER_SIZE:
                raise Malformed("not RPC 5.0 in little-endian representation", where="header")
            if length > end - at:
                break
            if first == WHOLE_RESPONSE and plain and not auth_length and calls.get(call_id) == 0 \
                    and length >= RESPONSE_SIZE:
                del calls[call_id]
                effects.append(Answer(call_id, data[at + RESPONSE_SIZE:at + length]))
            else:
                pdu = data[at:at + length]
                effects.extend(self._pdu(pdu, first >> 16 & 0xFF, first >> 24, auth_length, call_id))
            at += length
        return at

    def _pdu(self, pdu: bytes, ptype: int, flags: int, auth_length: int, call_id: int) -> list[ClientEffect]:
        if ptype == RESPONSE and self.bound:
            return self._response(pdu, flags, auth_length, call_id)
        if ptype == FAULT:
            return self._fault(pdu, flags, call_id)
        if ptype in (BIND_ACK, ALTER_CONTEXT_RESP) and not self.bound and (ptype == BIND_ACK) != bool(self.results):
            return self._acknowledged(pdu, ptype, flags, auth_length)
        if ptype == BIND_NAK and not self.bound:
            raise refusal(decode_bind_nak(pdu))
        if ptype == SHUTDOWN:
            return [self._close("the server wishes to end the connection")]
        raise Malformed(f"a server does not send PDU type {ptype} now", where="header")

    def _response(self, pdu: bytes, flags: int, auth_length: int, call_id: int) -> list[ClientEffect]:
        if len(pdu) < RESPONSE_SIZE:
            raise Malformed("cut", where="response")
        authentication = decode_authentication(pdu, auth_length, RESPONSE_SIZE) if auth_length else None
        if self._security is not None and self._security.signs:
            if authentication is None or authentication.context_id != self._security.context_id \
                    or authentication.level != self._security.level:
                raise AuthenticationFailed("a response without the protection that was agreed on", where="response")
            stub = self._security.unprotect(pdu, auth_length, RESPONSE_SIZE)
        elif authentication is not None:
            stub = pdu[RESPONSE_SIZE:len(pdu) - auth_length - SEC_TRAILER_SIZE - authentication.pad_length]
        else:
            stub = pdu[RESPONSE_SIZE:]
        if call_id not in self.calls:
            return []  # of a call that was orphaned
        parts = self._parts.get(call_id)
        if (parts is None) != bool(flags & FIRST_FRAG):
            raise Malformed("fragments out of order", where="response")
        size = self.calls[call_id] + len(stub)
        if size > self._max_stub:
            raise Malformed("longer than any answer can be", where="response")
        if flags & LAST_FRAG:
            self._parts.pop(call_id, None)
            del self.calls[call_id]
            return [Answer(call_id, b"".join([*parts, stub]) if parts else stub)]
        if not stub:
            raise Malformed("a fragment without data", where="response")
        self._parts.setdefault(call_id, []).append(stub)
        self.calls[call_id] = size
        return []

    def _fault(self, pdu: bytes, flags: int, call_id: int) -> list[ClientEffect]:
        status = decode_fault(pdu)
        if not self.bound:
            raise BindFailed(str(RpcFault(status)), where="bind", remedy="check user name, password and level")
        self._parts.pop(call_id, None)
        if self.calls.pop(call_id, None) is None:
            return []
        return [Fault(call_id, status, not flags & 0x20)]

    def _close(self, reason: str, malformed: bool = False) -> Close:
        self.closed = True
        self._rest.clear()
        self._parts.clear()
        return Close(reason, malformed)


def _abstract(interface: Any) -> Syntax:
    major, minor = interface.version
    return Syntax(interface.uuid, major | minor << 16)


NAK_REASONS: Final = {
    0: "no reason given",
    1: "the server is congested",
    2: "the server is at its limit",
    4: "the server speaks another version",
    8: "the server does not offer this kind of authentication",
    9: "the authentication failed",
}


def refusal(reason: int) -> BindFailed:
    return BindFailed(NAK_REASONS.get(reason, f"reason {reason}"), where="bind_nak",
                      remedy="see docs/rpc.md: accounts, levels and limits")


__all__ = ["Answer", "BindFailed", "Bound", "ClientAssociation", "ClientEffect", "Fault", "LEVEL_CONNECT", "refusal"]
