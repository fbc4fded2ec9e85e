"""The calls of one connection, as its server sees them: requests put together, answers taken apart ([C706] 12.6.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from lior.errors import Malformed
from lior.protocols.rpc import faults
from lior.protocols.rpc.call import Call, Cancelled, Close, Effect, Invoke, Orphaned, Send
from lior.protocols.rpc.presentation import Interfaces, PresentationTable
from lior.protocols.rpc.security import AuthenticationFailed, Providers, SecurityContext, no_security
from lior.protocols.rpc.server_security import ServerSecurity
from lior.protocols.rpc.trailer import TRAILER_SIGNATURE, find_trailer
from lior.security import Caller
from lior.wire.rpc_pdu import BODY_START as RESPONSE_START
from lior.wire.rpc_pdu import (
    DID_NOT_EXECUTE,
    FIRST_FRAG,
    HEADER_SIZE,
    LARGEST_FRAGMENT,
    LAST_FRAG,
    LEVEL_CONNECT,
    LITTLE_ENDIAN,
    OBJECT_UUID,
    PENDING_CANCEL,
    REQUEST_SIZE,
    RESPONSE,
    RESPONSE_HEAD,
    RESPONSE_SIZE,
    SEC_TRAILER_SIZE,
    WHOLE,
    WHOLE_RESPONSE,
    decode_authentication,
    encode,
    encode_fault,
)

if TYPE_CHECKING:
    from lior.protocols.rpc.server_association import ServerAssociation

OLD_CALLS: Final = 150  # fragments of so many earlier calls are dropped without a word ([MS-RPCE] 3.3.3.5.6)
SMALL: Final = 4096  # a request of this size is taken whatever else is held


@dataclass(frozen=True, slots=True)
class AssociationSettings:
    """Bounds of a connection. Seconds and bytes."""

    max_fragment: int = LARGEST_FRAGMENT  # we take and send; the peer may want less
    max_stub: int = 0x430000  # qm2qm allows packets of 0x420000 bytes, more than the 4 MiB of 3.3.3.5.4 (MP-024)
    max_open_stub: int = 0x430000  # of who has not said who he is, before that is found out
    max_calls: int = 2048  # under way
    max_contexts: int = 64
    max_security_contexts: int = 8
    bind_timeout: float = 15.0  # from the connection to the end of the authentication
    fragment_timeout: float = 60.0  # for the rest of a PDU, or of a request
    open_timeout: float = 0.0  # without a word from who has not said who he is; 0: as long as he likes


class Budget:
    """What all connections of a server together may hold of requests, in bytes."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0


class Unbound:
    """Where no server shell is: nobody answers through `call.answer`."""

    def answer(self, call: Call, values: Any) -> None:
        raise AssertionError("no shell")

    def fault(self, call: Call, status: int) -> None:
        raise AssertionError("no shell")


class ServerCalls:
    """What ServerAssociation is built on."""

    def __init__(
        self, interfaces: Interfaces, providers: Providers, settings: AssociationSettings, budget: Budget,
        caller: Caller,
    ) -> None:  # fmt: skip
        self.calls: dict[int, Call] = {}  # under way, by call_id
        self.bytes_in_flight = 0  # of their stubs, and of the request that comes in
        self.closed = False
        self.host: Any = Unbound()
        self._settings = settings
        self._budget = budget
        self._contexts = PresentationTable(interfaces, settings.max_contexts)
        self._by_id = self._contexts.by_id
        self._plain = no_security(caller)
        self._plain_limit = settings.max_stub if caller.authenticated else settings.max_open_stub
        self._security = ServerSecurity(providers, caller, settings.max_security_contexts)
        self._max_xmit = settings.max_fragment
        self._partial: Call | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._original = b""  # the PDU that is looked at, as a big-endian client sent it
        self._dropped = -1  # call whose further fragments are ignored
        self._last_call_id = 0

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
        if refused := self._too_much(security, len(stub), len(stub)):
            return self._refuse(call_id, context_id, refused)
        association = cast("ServerAssociation", self)  # nothing else is built on this
        call = Call(association, context, security, call_id, opnum, stub)
        if self._original:
            if context.ndr64:  # always little-endian ([MS-RPCE] 2.2.5)
                return self._protocol_error(call_id, "NDR64 in another byte order than its own")
            call.big_endian = True
        if flags & OBJECT_UUID:
            call.object = pdu[REQUEST_SIZE:REQUEST_SIZE + 16]
        self._last_call_id, self._dropped = call_id, -1
        self._hold(len(stub))
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
        if refused := self._too_much(security, self._size + len(stub), len(stub)):
            self._drop_partial()
            self._dropped = call_id
            return self._refuse(call_id, context_id, refused)
        self._parts.append(stub)
        self._size += len(stub)
        self._hold(len(stub))
        if not flags & LAST_FRAG:
            call.cancelled |= bool(flags & PENDING_CANCEL)
            return []
        call.stub = call.whole_stub = b"".join(self._parts)
        self._partial, self._parts, self._size = None, [], 0
        return self._whole(call, flags)

    def _too_much(self, security: SecurityContext, size: int, more: int) -> int:
        """The fault for a request that has become so long; 0 if it may."""
        if size > (self._plain_limit if security is self._plain else self._settings.max_stub):
            return faults.ACCESS_DENIED
        if size > SMALL and self._budget.held + more > self._budget.limit:
            return faults.TOO_BUSY
        return 0

    def _hold(self, size: int) -> None:
        self.bytes_in_flight += size
        self._budget.held += size

    def _drop_partial(self) -> None:
        self._hold(-self._size)
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
        self._hold(-len(call.whole_stub))
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
        self._hold(-len(call.whole_stub))
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

    # The end

    def _close(self, reason: str, malformed: bool = False) -> Close:
        self.closed = True
        self._parts = []
        self._partial = None
        return Close(reason, malformed)
