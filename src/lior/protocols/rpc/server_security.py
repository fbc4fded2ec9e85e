"""The security contexts of a server's connection: how they are built, and which one a request is made in."""

from __future__ import annotations

from typing import Final

from lior.protocols.rpc import faults
from lior.protocols.rpc.faults import RpcFault
from lior.protocols.rpc.security import AuthenticationFailed, Providers, SecurityContext, effective_level
from lior.security import Caller
from lior.wire.rpc_pdu import (
    LEVEL_CONNECT,
    NAK_AUTHENTICATION_TYPE,
    NAK_INVALID_CHECKSUM,
    SERVICE_DEFAULT,
    SERVICE_NTLM,
    SUPPORT_HEADER_SIGN,
    Authentication,
)

MAX_LEGS: Final = 8


class BindRefused(Exception):
    """A bind that is answered with bind_nak."""

    def __init__(self, reason: int, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class ServerSecurity:
    """The Table of Security Context Handles of one connection."""

    def __init__(self, providers: Providers, caller: Caller, limit: int) -> None:
        self.none = True  # whether there is no security context at all
        self.header_sign = False
        self._providers = providers
        self._caller = caller  # of the transport, until a context says who it is
        self._limit = limit
        self._contexts: dict[int, SecurityContext] = {}
        self._legs: dict[int, int] = {}

    @property
    def unfinished(self) -> bool:
        return not self.none and any(not each.ready and not each.error for each in self._contexts.values())

    def sign_flag(self, flags: int) -> int:
        return SUPPORT_HEADER_SIGN if flags & SUPPORT_HEADER_SIGN and self.header_sign else 0

    def start(self, authentication: Authentication, flags: int, now: float) -> Authentication:
        """The first leg, in a bind."""
        service = SERVICE_NTLM if authentication.service == SERVICE_DEFAULT else authentication.service
        if service not in self._providers:
            raise BindRefused(NAK_AUTHENTICATION_TYPE, f"authentication type {service} is not offered here")
        try:
            return self._first_leg(authentication, service, flags, now)
        except AuthenticationFailed as error:
            raise BindRefused(NAK_INVALID_CHECKSUM, str(error)) from error

    def _first_leg(self, authentication: Authentication, service: int, flags: int, now: float) -> Authentication:
        level = effective_level(authentication.level)
        context = SecurityContext(authentication.service, level, authentication.context_id, self._caller)
        context.acceptor = self._providers[service]()
        if flags & SUPPORT_HEADER_SIGN:
            self.header_sign = True
        answer = self._leg(context, authentication, now)
        self._contexts[authentication.context_id] = context
        self.none = False
        return answer

    def _leg(self, context: SecurityContext, authentication: Authentication, now: float) -> Authentication:
        legs = self._legs[context.context_id] = self._legs.get(context.context_id, 0) + 1
        if legs > MAX_LEGS:
            raise AuthenticationFailed("this takes too many legs", where="security context")
        token, done = context.acceptor.accept(authentication.token, context.level, now)
        if done:
            context.caller = context.acceptor.caller
            context.complete(context.acceptor.messages, self.header_sign)
        return Authentication(authentication.service, authentication.level, 0, authentication.context_id, token)

    def further(self, authentication: Authentication, flags: int, now: float) -> Authentication:
        """A leg in an alter_context: of a context under way, or the first of a new one. Raises RpcFault. A client that
        did not negotiate several contexts (3.3.1.5.4) may have them nevertheless: each request names its own, and
        impacket makes one for each interface."""
        context = self._contexts.get(authentication.context_id)
        try:
            if context is not None:
                if context.ready or context.error or context.service != authentication.service:
                    raise RpcFault(faults.NCA_PROTOCOL_ERROR, "this security context is complete")
                return self._leg(context, authentication, now)
            if len(self._contexts) >= self._limit:
                raise RpcFault(faults.PROTOCOL_ERROR, "too many security contexts")
            service = SERVICE_NTLM if authentication.service == SERVICE_DEFAULT else authentication.service
            if service not in self._providers:
                raise RpcFault(NAK_AUTHENTICATION_TYPE, "this authentication type is not offered here")
            return self._first_leg(authentication, service, flags, now)
        except AuthenticationFailed as error:
            if context is not None:
                context.error = faults.ACCESS_DENIED
                context.acceptor = None
            raise RpcFault(faults.ACCESS_DENIED, str(error)) from error

    def third(self, authentication: Authentication, now: float) -> None:
        """The last leg, in an auth3, which is never answered."""
        context = self._contexts.get(authentication.context_id)
        if context is None or context.ready or context.error:
            return
        try:
            self._leg(context, authentication, now)
        except AuthenticationFailed:
            context.error = faults.ACCESS_DENIED
            context.acceptor = None
            return
        if not context.ready:  # the provider wants a leg more than an auth3 leaves room for
            context.error = faults.ACCESS_DENIED

    def of_request(self, authentication: Authentication | None, plain: SecurityContext) -> SecurityContext:
        """The context that a request is made in; RpcFault where there is none."""
        if authentication is None:
            return self._implied(plain)
        context = self._contexts.get(authentication.context_id)
        if context is None:
            raise RpcFault(faults.ACCESS_DENIED, "no such security context")
        if context.error:
            raise RpcFault(context.error, "the authentication failed")
        if not context.ready:
            raise RpcFault(faults.ACCESS_DENIED, "the authentication is not complete")
        if authentication.service != context.service or effective_level(authentication.level) != context.level:
            raise RpcFault(faults.ACCESS_DENIED, "another level than the security context's")
        return context

    def _implied(self, plain: SecurityContext) -> SecurityContext:
        """Without authentication in the request: the connection's only context, if its level is connect (3.3.1.5.4);
        several of them will do if they are all of one user. Where a context protects what is sent, somebody may have
        taken the protection off: refused."""
        if not self._contexts:
            return plain
        first, *others = self._contexts.values()
        if first.error:
            raise RpcFault(first.error, "the authentication failed")
        if first.ready and first.level == LEVEL_CONNECT and all(
            each.ready and each.level == LEVEL_CONNECT and each.caller.sid == first.caller.sid for each in others
        ):
            return first
        raise RpcFault(faults.ACCESS_DENIED, "a request without the protection that was agreed on")
