"""The server's side of one connection ([C706] 11 and 12.6, [MS-RPCE] 3.3.3): bytes in, effects out.

A call is invoked when its last fragment is in; answers go out in the order in which they come. What is wrong with one
request ends that request with a fault; what is wrong with the stream ends the connection.
"""

from __future__ import annotations

from collections.abc import Sequence

from lior.errors import Malformed
from lior.protocols.rpc import faults
from lior.protocols.rpc.call import Call, Close, Effect, Invoke, Send
from lior.protocols.rpc.groups import Group, Groups
from lior.protocols.rpc.presentation import Interfaces
from lior.protocols.rpc.security import Providers
from lior.protocols.rpc.server_calls import AssociationSettings, Budget, ServerCalls
from lior.protocols.rpc.server_security import BindRefused
from lior.protocols.rpc.trailer import TRAILER_SIGNATURE, find_trailer
from lior.security import ANONYMOUS_CALLER, Caller
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
    HEADER,
    HEADER_SIZE,
    LITTLE_ENDIAN,
    MUST_RECEIVE,
    NAK_LOCAL_LIMIT,
    NAK_NOT_SPECIFIED,
    NAK_VERSION,
    ORPHANED,
    REQUEST,
    REQUEST_HEAD,
    REQUEST_SIZE,
    SEC_TRAILER_SIZE,
    VERSION,
    WHOLE,
    WHOLE_REQUEST,
    Authentication,
    BindAck,
    PresentationContext,
    decode_authentication,
    decode_bind,
    encode,
    encode_bind_ack,
    encode_bind_nak,
)

__all__ = ["AssociationSettings", "Budget", "ServerAssociation"]

UNBOUNDED = 1 << 62


class ServerAssociation(ServerCalls):
    """One connection. `peer` is the client's address (empty on a Unix socket); `client` tells whether connections come
    from the same client; `caller` is who a request without authentication comes from."""

    def __init__(
        self, interfaces: Interfaces, groups: Groups, providers: Providers, settings: AssociationSettings, now: float,
        *, peer: str = "", client: object = "", caller: Caller = ANONYMOUS_CALLER, secondary_address: str = "",
        budget: Budget | None = None,
    ) -> None:  # fmt: skip
        super().__init__(interfaces, providers, settings, budget or Budget(UNBOUNDED), caller)
        self.peer = peer
        self.group: Group | None = None
        self.deadline: float | None = now + settings.bind_timeout
        self._client = client
        self._groups = groups
        self._secondary_address = secondary_address
        self._rest = bytearray()
        self._needed = HEADER_SIZE  # bytes that `_rest` has to have
        self._rest_deadline = 0.0
        self._timed: Call | None = None  # the request that `_request_deadline` is for
        self._request_deadline = 0.0

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
            if at or not self._rest_deadline:
                self._rest_deadline = now + self._settings.fragment_timeout
        else:
            self._rest_deadline = 0.0
        self._watch(now)
        return effects

    def _length_at(self, data: bytes, at: int) -> int:
        if len(data) - at < HEADER_SIZE:
            return HEADER_SIZE
        return int.from_bytes(data[at + 8:at + 10], "big" if data[at + 4] == BIG_ENDIAN else "little")

    def _watch(self, now: float) -> None:
        """When the peer has to have done what it began: the rest of a PDU, the rest of a request."""
        if self.group is None or self._security.unfinished:
            return  # the deadline of the connection stands
        deadline = self._rest_deadline or None
        if self._partial is not self._timed:
            self._timed = self._partial
            self._request_deadline = now + self._settings.fragment_timeout
        if self._timed is not None and (deadline is None or self._request_deadline < deadline):
            deadline = self._request_deadline
        if deadline is None and self._settings.open_timeout and self._is_stranger:
            deadline = now + self._settings.open_timeout
        self.deadline = deadline

    @property
    def _is_stranger(self) -> bool:
        return self._security.none and not self._plain.caller.authenticated

    def timeout(self, now: float) -> list[Effect]:
        """The deadline has passed."""
        if self.closed or self.deadline is None or now < self.deadline:
            return []
        return [self._close("the client did not finish in time what it began")]

    def _consume(self, data: bytes, effects: list[Effect], now: float) -> int:
        """Whole PDUs off the front; how far they went."""
        at, end = 0, len(data)
        by_id, calls, plain = self._by_id, self.calls, self._plain
        max_calls, budget = self._settings.max_calls, self._budget
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
                if context is not None and call_id not in calls and self._partial is None and len(calls) < max_calls \
                        and budget.held < budget.limit:
                    stub = data[at + REQUEST_SIZE:at + length]
                    at += length
                    call = Call(self, context, plain, call_id, opnum, stub)
                    if TRAILER_SIGNATURE in stub[-128:]:
                        find_trailer(call, self._security.header_sign)
                    calls[call_id] = call
                    self._last_call_id = call_id
                    self.bytes_in_flight += len(stub)
                    budget.held += len(stub)
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
            try:
                answer = self._security.further(authentication, flags, now)
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

    # The end

    def _nak(self, call_id: int, reason: int, why: str) -> list[Effect]:
        return [Send(encode(BIND_NAK, WHOLE, call_id, encode_bind_nak(reason))), self._close(why)]

    def _close(self, reason: str, malformed: bool = False) -> Close:
        self._rest.clear()
        return super()._close(reason, malformed)

    def connection_lost(self) -> list[Call]:
        """The connection is gone: the calls that nobody waits for any more. Whoever serves them stops them first; then
        `leave` runs down the handles, if this was the group's last connection."""
        self._close("connection lost")
        calls = list(self.calls.values())
        self.calls.clear()
        self._hold(-self.bytes_in_flight)
        return calls

    def leave(self) -> None:
        group, self.group = self.group, None
        if group is not None:
            self._groups.leave(group)
