"""The server's side of one connection ([C706] 11 and 12.6, [MS-RPCE] 3.3.3): bytes in, effects out.

A call is invoked when its last fragment is in; answers go out in the order in which they come. What is wrong with one
request ends that request with a fault; what is wrong with the stream ends the connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lior.errors import Malformed
from lior.protocols.rpc import faults
from lior.protocols.rpc.call import Call, Cancelled, Close, Effect, Invoke, Orphaned, Send
from lior.protocols.rpc.groups import Group, Groups
from lior.protocols.rpc.presentation import Interfaces, PresentationTable
from lior.protocols.rpc.security import AuthenticationFailed, Providers, SecurityContext, no_security
from lior.protocols.rpc.server_security import BindRefused, ServerSecurity
from lior.protocols.rpc.trailer import TRAILER_SIGNATURE, find_trailer
from lior.security import ANONYMOUS_CALLER, Caller
from lior.wire.ndr import NDR_BIG_ENDIAN
from lior.wire.rpc_big_endian import BIG_ENDIAN, frag_length, turned
from lior.wire.rpc_pdu import (
    ALTER_CONTEXT,
    ALTER_CONTEXT_RESP,
    AUTH_3,
    BIND,
    BIND_ACK,
    BIND_NAK,
    CO_CANCEL,
    CONC_MPX,
    DID_NOT_EXECUTE,
    FIRST_FRAG,
    HEADER,
    HEADER_SIZE,
    LARGEST_FRAGMENT,
    LAST_FRAG,
    LEVEL_CONNECT,
    LITTLE_ENDIAN,
    MUST_RECEIVE,
    NAK_LOCAL_LIMIT,
    NAK_NOT_SPECIFIED,
    NAK_VERSION,
    OBJECT_UUID,
    ORPHANED,
    PENDING_CANCEL,
    REQUEST,
    REQUEST_HEAD,
    REQUEST_SIZE,
    RESPONSE,
    RESPONSE_HEAD,
    RESPONSE_SIZE,
    SEC_TRAILER_SIZE,
    VERSION,
    WHOLE,
    WHOLE_REQUEST,
    WHOLE_RESPONSE,
    Authentication,
    BindAck,
    PresentationContext,
    decode_authentication,
    decode_bind,
    encode,
    encode_bind_ack,
    encode_bind_nak,
    encode_fault,
)
from lior.wire.rpc_pdu import BODY_START as RESPONSE_START

OLD_CALLS: Final = 150  # fragments of so many earlier calls are dropped without a word ([MS-RPCE] 3.3.3.5.6)
MAX_CALL_ID: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class AssociationSettings:
    """Bounds of a connection. Seconds and bytes."""

    max_fragment: int = LARGEST_FRAGMENT  # we take and send; the peer may want less
    max_stub: int = 0x430000  # qm2qm allows packets of 0x420000 bytes, more than the 4 MiB of 3.3.3.5.4 (MP-024)
    max_calls: int = 2048  # under way
    max_contexts: int = 64
    max_security_contexts: int = 8
    bind_timeout: float = 15.0  # from the connection to the end of the authentication
    fragment_timeout: float = 60.0  # for the rest of a PDU, or of a request


class Unbound:
    """Where no server shell is: nobody answers through `call.answer`."""

    def answer(self, call: Call, values: Any) -> None:
        raise AssertionError("no shell")

    def fault(self, call: Call, status: int) -> None:
        raise AssertionError("no shell")


class ServerAssociation:
    """One connection. `peer` is the client's address (empty on a Unix socket); `client` tells whether connections come
    from the same client; `caller` is who a request without authentication comes from."""

    def __init__(
        self, interfaces: Interfaces, groups: Groups, providers: Providers, settings: AssociationSettings, now: float,
        *, peer: str = "", client: object = "", caller: Caller = ANONYMOUS_CALLER, secondary_address: str = "",
    ) -> None:  # fmt: skip
        self.peer = peer
        self.group: Group | None = None
        self.calls: dict[int, Call] = {}  # under way, by call_id
        self.bytes_in_flight = 0  # of their stubs, and of the request that comes in
        self.closed = False
        self.host: Any = Unbound()
        self.deadline: float | None = now + settings.bind_timeout
        self._settings = settings
        self._client = client
        self._groups = groups
        self._secondary_address = secondary_address
        self._contexts = PresentationTable(interfaces, settings.max_contexts)
        self._by_id = self._contexts.by_id
        self._plain = no_security(caller)
        self._security = ServerSecurity(providers, caller, settings.max_security_contexts)
        self._max_xmit = settings.max_fragment
        self._rest = bytearray()
        self._needed = HEADER_SIZE  # bytes that `_rest` has to have
        self._partial: Call | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._original = b""  # the PDU that is looked at, as a big-endian client sent it
        self._dropped = -1  # call whose further fragments are ignored
        self._last_call_id = 0

    # What comes in

    def receive(self, data: bytes, now: float) -> list[Effect]:
        """The next bytes of the stream."""
        effects: list[Effect] = []
        if self.closed:
            return effects
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return effects
            data = bytes(self._rest)
            self._rest.clear()
        at = self._consume(data, effects, now)
        if self.closed:
            return effects
        if at < len(data):
            self._rest += data[at:] if at else data
            self._needed = self._length_at(data, at)
        self._watch(now)
        return effects

    def _length_at(self, data: bytes, at: int) -> int:
        if len(data) - at < HEADER_SIZE:
            return HEADER_SIZE
        return int.from_bytes(data[at + 8:at + 10], "big" if data[at + 4] == BIG_ENDIAN else "little")

    def _watch(self, now: float) -> None:
        """When the peer has to have done what it began."""
        if self.group is None or self._security.unfinished:
            return  # the deadline of the connection stands
        if self._rest or self._partial is not None:
            if self.deadline is None:
                self.deadline = now + self._settings.fragment_timeout
        else:
            self.deadline = None

    def timeout(self, now: float) -> list[Effect]:
        """The deadline has passed."""
        if self.closed or self.deadline is None or now < self.deadline:
            return []
        return [self._close("the client did not finish in time what it began")]

    def _consume(self, data: bytes, effects: list[Effect], now: float) -> int:
        """Whole PDUs off the front; how far they went."""
        at, end = 0, len(data)
        by_id, calls, plain = self._by_id, self.calls, self._plain
        max_calls = self._settings.max_calls
        while end - at >= HEADER_SIZE:
            first, drep, length, auth_length, call_id = HEADER.unpack_from(data, at)
            big = drep & 0xFF == BIG_ENDIAN
            if big:
                length = frag_length(data, at)
            if not (big or drep & 0xFF == LITTLE_ENDIAN) or first & 0xFFFF != VERSION or length < HEADER_SIZE:
                effects.extend(self._refuse_stream(data, at))
                return end
            if length > end - at:
                break
            if big:
                effects.extend(self._big_endian(data[at:at + length], now))
                at += length
                if self.closed:
                    return end
                continue
            if first == WHOLE_REQUEST and not auth_length and self._security.none and length >= REQUEST_SIZE:
                # The common shape: whole, without authentication
                _, _, _, _, _, _, context_id, opnum = REQUEST_HEAD.unpack_from(data, at)
                context = by_id.get(context_id)
                if context is not None and call_id not in calls and self._partial is None and len(calls) < max_calls:
                    stub = data[at + REQUEST_SIZE:at + length]
                    at += length
                    call = Call(self, context, plain, call_id, opnum, stub)
                    if TRAILER_SIGNATURE in stub[-128:]:
                        find_trailer(call, self._security.header_sign)
                    calls[call_id] = call
                    self._last_call_id = call_id
                    self.bytes_in_flight += len(stub)
                    effects.append(Invoke(call))
                    continue
            effects.extend(self._whole_pdu(data[at:at + length], now))
            at += length
            if self.closed:
                return end
        return at

    def _whole_pdu(self, pdu: bytes, now: float) -> list[Effect]:
        first, _, _, auth_length, call_id = HEADER.unpack_from(pdu)
        try:
            return self._pdu(pdu, first >> 16 & 0xFF, first >> 24, auth_length, call_id, now)
        except Malformed as error:
            return [Send(self._fault_pdu(call_id, 0, faults.NCA_PROTOCOL_ERROR)),
                    self._close(str(error), malformed=True)]

    def _big_endian(self, pdu: bytes, now: float) -> list[Effect]:
        """Answers are little-endian: whoever receives makes it right."""
        try:
            framed = turned(pdu)
        except Malformed as error:
            call_id = int.from_bytes(pdu[12:16], "big")
            return [Send(self._fault_pdu(call_id, 0, faults.NCA_PROTOCOL_ERROR)),
                    self._close(str(error), malformed=True)]
        self._original = pdu
        effects = self._whole_pdu(framed, now)
        self._original = b""
        return effects

    def _refuse_stream(self, data: bytes, at: int) -> list[Effect]:
        """Another version, EBCDIC, or no PDU at all."""
        ptype, big = data[at + 2], data[at + 4] & 0xF0 == 0
        call_id = int.from_bytes(data[at + 12:at + 16], "big" if big else "little")
        if ptype == BIND:
            answer = encode(BIND_NAK, WHOLE, call_id, encode_bind_nak(NAK_VERSION))
        else:
            answer = self._fault_pdu(call_id, 0, faults.NCA_PROTOCOL_ERROR)
        return [Send(answer), self._close("not RPC 5.0 in little-endian representation", malformed=True)]

    def _pdu(self, pdu: bytes, ptype: int, flags: int, auth_length: int, call_id: int, now: float) -> list[Effect]:
        if self.group is None and ptype != BIND:
            return self._protocol_error(call_id, "a connection starts with bind")
        if ptype == REQUEST:
            return self._request(pdu, flags, auth_length, call_id)
        if ptype == ALTER_CONTEXT:
            return self._alter_context(pdu, flags, auth_length, call_id, now)
        if ptype == AUTH_3:
            return self._auth3(pdu, auth_length, call_id, now)
        if ptype == CO_CANCEL:
            return self._cancel(call_id)
        if ptype == ORPHANED:
            return self._orphaned(call_id)
        if ptype == BIND and self.group is None:
            return self._bind(pdu, flags, auth_length, call_id, now)
        return self._protocol_error(call_id, f"a client does not send PDU type {ptype} now")

    # Binding

    def _bind(self, pdu: bytes, flags: int, auth_length: int, call_id: int, now: float) -> list[Effect]:
        authentication = decode_authentication(pdu, auth_length) if auth_length else None
        bind = decode_bind(pdu, len(pdu) - auth_length - SEC_TRAILER_SIZE if auth_length else len(pdu))
        if not self._contexts.has_room(bind.contexts):
            return self._nak(call_id, NAK_LOCAL_LIMIT, "too many presentation contexts")
        try:
            answer = self._security.start(authentication, flags, now) if authentication else None
        except BindRefused as refused:
            return self._nak(call_id, refused.reason, str(refused))
        group = self._groups.join(bind.assoc_group_id, self._client)
        if group is None:
            reason = NAK_NOT_SPECIFIED if bind.assoc_group_id else NAK_LOCAL_LIMIT
            return self._nak(call_id, reason, "no such association group for this client")
        self.group = group
        self._max_xmit = self._agreed(bind.max_recv_frag)
        receive = self._agreed(bind.max_xmit_frag)
        results = self._contexts.negotiate(bind.contexts)
        ack = BindAck(self._max_xmit, receive, group.identifier, self._secondary_address, results)
        return [Send(self._acknowledge(BIND_ACK, flags, call_id, ack, answer))]

    def _acknowledge(self, ptype: int, flags: int, call_id: int, ack: BindAck, answer: Authentication | None) -> bytes:
        flags = WHOLE | (flags & CONC_MPX) | (self._security.sign_flag(flags) if answer else 0)
        return encode(ptype, flags, call_id, encode_bind_ack(ack), answer)

    def _alter_context(self, pdu: bytes, flags: int, auth_length: int, call_id: int, now: float) -> list[Effect]:
        authentication = decode_authentication(pdu, auth_length) if auth_length else None
        bind = decode_bind(pdu, len(pdu) - auth_length - SEC_TRAILER_SIZE if auth_length else len(pdu))
        if not self._has_room(bind.contexts):
            return self._nak(call_id, NAK_LOCAL_LIMIT, "too many presentation contexts")
        answer = None
        if authentication:
            multiplexing = bool(self._contexts.features & 1)
            try:
                answer = self._security.further(authentication, flags, now, multiplexing)
            except faults.RpcFault as fault:
                return [Send(self._fault_pdu(call_id, 0, fault.status, WHOLE | DID_NOT_EXECUTE))]
        assert self.group is not None
        results = self._contexts.negotiate(bind.contexts)
        ack = BindAck(self._max_xmit, self._agreed(bind.max_xmit_frag), self.group.identifier, "", results)
        return [Send(self._acknowledge(ALTER_CONTEXT_RESP, flags, call_id, ack, answer))]

    def _agreed(self, fragment: int) -> int:
        """The smaller of both sides' limits; what everybody has to take is not too much for anybody."""
        return max(min(fragment, self._settings.max_fragment), MUST_RECEIVE)

    def _has_room(self, contexts: Sequence[PresentationContext]) -> bool:
        return self._contexts.has_room([each for each in contexts if each.identifier not in self._by_id])

    def _auth3(self, pdu: bytes, auth_length: int, call_id: int, now: float) -> list[Effect]:
        """The third leg is never answered (3.3.1.5.2.1): what is wrong with it, the first request learns."""
        if not auth_length:
            return self._protocol_error(call_id, "auth3 without a token")
        self._security.third(decode_authentication(pdu, auth_length), now)
        return []

    # Requests

    def _request(self, pdu: bytes, flags: int, auth_length: int, call_id: int) -> list[Effect]:
        if len(pdu) < REQUEST_SIZE:
            raise Malformed("cut", where="request", remedy="the peer sent a broken PDU")
        _, context_id, opnum = RESPONSE_START.unpack_from(pdu, HEADER_SIZE)
        body_at = REQUEST_SIZE + (16 if flags & OBJECT_UUID else 0)
        if len(pdu) < body_at:
            raise Malformed("cut", where="request", remedy="the peer sent a broken PDU")
        authentication = decode_authentication(pdu, auth_length, body_at) if auth_length else None
        try:
            security = self._security.of_request(authentication, self._plain)
            if authentication is not None and security.level > LEVEL_CONNECT:
                stub = security.unprotect(self._original or pdu, auth_length, body_at)
            elif authentication is not None:
                stub = pdu[body_at:len(pdu) - auth_length - SEC_TRAILER_SIZE - authentication.pad_length]
            else:
                stub = pdu[body_at:]
        except faults.RpcFault as fault:
            return self._refuse(call_id, context_id, fault.status)
        except AuthenticationFailed as error:  # sequence and keys no longer fit: nothing further can be believed
            return [Send(self._fault_pdu(call_id, context_id, faults.ACCESS_DENIED, WHOLE | DID_NOT_EXECUTE)),
                    self._close(str(error), malformed=True)]
        if flags & FIRST_FRAG:
            return self._first_fragment(pdu, flags, call_id, context_id, opnum, security, stub)
        return self._next_fragment(flags, call_id, context_id, opnum, security, stub)

    def _first_fragment(
        self, pdu: bytes, flags: int, call_id: int, context_id: int, opnum: int, security: SecurityContext, stub: bytes
    ) -> list[Effect]:
        if self._partial is not None:
            return self._protocol_error(call_id, "a request within a request")
        if call_id in self.calls:
            return self._protocol_error(call_id, "a call_id that is in use")
        context = self._by_id.get(context_id)
        if context is None:
            return self._refuse(call_id, context_id, faults.UNKNOWN_INTERFACE)
        if len(self.calls) >= self._settings.max_calls:
            return self._refuse(call_id, context_id, faults.TOO_BUSY)
        if len(stub) > self._settings.max_stub:
            return self._refuse(call_id, context_id, faults.ACCESS_DENIED)
        call = Call(self, context, security, call_id, opnum, stub)
        if self._original:
            if context.ndr64:  # always little-endian ([MS-RPCE] 2.2.5)
                return self._protocol_error(call_id, "NDR64 in another byte order than its own")
            call.syntax = NDR_BIG_ENDIAN
        if flags & OBJECT_UUID:
            call.object = pdu[REQUEST_SIZE:REQUEST_SIZE + 16]
        self._last_call_id, self._dropped = call_id, -1
        self.bytes_in_flight += len(stub)
        if flags & LAST_FRAG:
            return self._whole(call, flags)
        self._partial, self._parts, self._size = call, [stub], len(stub)
        if flags & PENDING_CANCEL:
            call.cancelled = True
        return []

    def _next_fragment(
        self, flags: int, call_id: int, context_id: int, opnum: int, security: SecurityContext, stub: bytes
    ) -> list[Effect]:
        call = self._partial
        if call is None or call.call_id != call_id:
            if call is None and (call_id == self._dropped or 0 <= self._last_call_id - call_id < OLD_CALLS):
                return []
            return self._protocol_error(call_id, "a fragment of no request")
        if call.context.identifier != context_id or call.opnum != opnum or call.security is not security:
            return self._protocol_error(call_id, "fragments that do not belong together")
        if not stub and not flags & LAST_FRAG:
            return self._protocol_error(call_id, "a fragment without data")
        if self._size + len(stub) > self._settings.max_stub:
            self._drop_partial()
            self._dropped = call_id
            return self._refuse(call_id, context_id, faults.ACCESS_DENIED)
        self._parts.append(stub)
        self._size += len(stub)
        self.bytes_in_flight += len(stub)
        if not flags & LAST_FRAG:
            call.cancelled |= bool(flags & PENDING_CANCEL)
            return []
        call.stub = call.whole_stub = b"".join(self._parts)
        self._partial, self._parts, self._size = None, [], 0
        return self._whole(call, flags)

    def _drop_partial(self) -> None:
        self.bytes_in_flight -= self._size
        self._partial, self._parts, self._size = None, [], 0

    def _whole(self, call: Call, flags: int) -> list[Effect]:
        if TRAILER_SIGNATURE in call.stub[-128:]:
            find_trailer(call, self._security.header_sign)
        self.calls[call.call_id] = call
        if not (call.cancelled or flags & PENDING_CANCEL):
            return [Invoke(call)]
        call.cancelled = True
        return [Invoke(call), Cancelled(call)]

    def _cancel(self, call_id: int) -> list[Effect]:
        """A call that is over, or was never there, has nothing to cancel: the two may have met on the way."""
        call = self.calls.get(call_id)
        if call is None or call.cancelled:
            if self._partial is not None and self._partial.call_id == call_id:
                self._partial.cancelled = True
            return []
        call.cancelled = True
        return [Cancelled(call)]

    def _orphaned(self, call_id: int) -> list[Effect]:
        if self._partial is not None and self._partial.call_id == call_id:
            self._drop_partial()
            self._dropped = call_id
            return []
        call = self.calls.pop(call_id, None)
        if call is None:
            return []
        self.bytes_in_flight -= len(call.whole_stub)
        return [Orphaned(call)]

    # What goes out

    def respond(self, call: Call, stub: bytes, now: float) -> list[Effect]:
        """The call succeeded. Nothing is sent for one that is over already."""
        data = self.response(call, stub)
        return [Send(data)] if data else []

    def response(self, call: Call, stub: bytes) -> bytes:
        """The PDUs of a response; empty for a call that is over already."""
        if not self._end(call):
            return b""
        size = RESPONSE_SIZE + len(stub)
        if call.security.level <= LEVEL_CONNECT and size <= self._max_xmit:
            return RESPONSE_HEAD.pack(WHOLE_RESPONSE, LITTLE_ENDIAN, size, 0, call.call_id, len(stub),
                                      call.context.identifier, 0, 0) + stub
        return self._fragmented(call, stub)

    def _fragmented(self, call: Call, stub: bytes) -> bytes:
        security = call.security
        room = (self._max_xmit - RESPONSE_SIZE - security.overhead()) & -16  # every fragment but the last is aligned
        parts: list[bytes] = []
        at, flags = 0, FIRST_FRAG
        while flags & LAST_FRAG == 0:
            left = len(stub) - at
            if left <= room:
                flags |= LAST_FRAG
            piece = stub[at:at + room]
            start = RESPONSE_START.pack(left, call.context.identifier, 0)
            if security.signs:
                parts.append(security.protect(RESPONSE, flags, call.call_id, start, piece))
            else:
                parts.append(encode(RESPONSE, flags, call.call_id, start + piece))
            at += room
            flags &= ~FIRST_FRAG
        return b"".join(parts)

    def fault(self, call: Call, status: int, now: float = 0.0, executed: bool = True) -> list[Effect]:
        """The call failed."""
        data = self.fault_response(call, status, executed)
        return [Send(data)] if data else []

    def fault_response(self, call: Call, status: int, executed: bool = True) -> bytes:
        if not self._end(call):
            return b""
        flags = WHOLE if executed else WHOLE | DID_NOT_EXECUTE
        return self._fault_pdu(call.call_id, call.context.identifier, status, flags)

    def _end(self, call: Call) -> bool:
        if self.calls.get(call.call_id) is not call:
            return False
        del self.calls[call.call_id]
        self.bytes_in_flight -= len(call.whole_stub)
        return not self.closed

    def _fault_pdu(self, call_id: int, context_id: int, status: int, flags: int = WHOLE) -> bytes:
        return encode_fault(call_id, context_id, faults.UNSPECIFIED if status in faults.FORBIDDEN else status, flags)

    def _refuse(self, call_id: int, context_id: int, status: int) -> list[Effect]:
        """A request that will not be carried out; what else comes of it is dropped."""
        self._last_call_id, self._dropped = call_id, call_id
        return [Send(self._fault_pdu(call_id, context_id, status, WHOLE | DID_NOT_EXECUTE))]

    def _protocol_error(self, call_id: int, reason: str) -> list[Effect]:
        """[MS-RPCE] 3.3.3.5.7"""
        return [Send(self._fault_pdu(call_id, 0, faults.NCA_PROTOCOL_ERROR)), self._close(reason, malformed=True)]

    def _nak(self, call_id: int, reason: int, why: str) -> list[Effect]:
        return [Send(encode(BIND_NAK, WHOLE, call_id, encode_bind_nak(reason))), self._close(why)]

    # The end

    def _close(self, reason: str, malformed: bool = False) -> Close:
        self.closed = True
        self._rest.clear()
        self._parts = []
        self._partial = None
        return Close(reason, malformed)

    def connection_lost(self) -> list[Call]:
        """The connection is gone: the calls that nobody waits for any more. Whoever serves them stops them first; then
        `leave` runs down the handles, if this was the group's last connection."""
        self._close("connection lost")
        calls = list(self.calls.values())
        self.calls.clear()
        self.bytes_in_flight = 0
        return calls

    def leave(self) -> None:
        group, self.group = self.group, None
        if group is not None:
            self._groups.leave(group)
