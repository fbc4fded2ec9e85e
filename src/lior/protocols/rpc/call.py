"""A call as a server sees it, and what an association wants done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lior.security import Caller
from lior.wire.ndr import NDR_BIG_ENDIAN

if TYPE_CHECKING:
    from lior.protocols.rpc.groups import Group
    from lior.protocols.rpc.presentation import Presentation
    from lior.protocols.rpc.security import SecurityContext
    from lior.protocols.rpc.server_association import ServerAssociation


class Call:
    """One request, whole and checked. Its opnum may be none of the interface's."""

    __slots__ = ("association", "big_endian", "call_id", "cancelled", "context", "data", "object", "on_cancel", "opnum",
                 "request", "security", "stub", "trailer", "whole_stub")  # fmt: skip

    def __init__(
        self, association: ServerAssociation, context: Presentation, security: SecurityContext, call_id: int,
        opnum: int, stub: bytes,
    ) -> None:  # fmt: skip
        self.association = association
        self.context = context
        self.big_endian = False  # the request; answers never are
        self.security = security
        self.call_id = call_id
        self.opnum = opnum
        self.stub = stub  # without verification trailer
        self.whole_stub = stub  # with what looks like one: a body may end like that by chance
        self.trailer = 0  # the fault with which the request is refused if that is a trailer indeed; 0 if it is right
        self.object = b""  # object UUID
        self.cancelled = False
        self.request: Any = None  # decoded
        # Set by a handler that answers later: called once when the client cancels the call (`answer` or `fault` is
        # still expected), gives it up, or is gone (then nobody reads the answer, and nothing may be consumed for it)
        self.on_cancel: Callable[[Call], None] | None = None
        self.data: Any = None  # of whoever handles the call

    @property
    def interface(self) -> Any:  # lior.wire.rpc_interface.Interface
        return self.context.interface

    @property
    def syntax(self) -> Any:
        """How the request's stub is coded; responses are in the context's own."""
        return NDR_BIG_ENDIAN if self.big_endian else self.context.syntax

    @property
    def ndr64(self) -> bool:
        return self.context.ndr64

    @property
    def is_over(self) -> bool:
        """Answered, or given up by the client."""
        return self.association.calls.get(self.call_id) is not self

    @property
    def caller(self) -> Caller:
        return self.security.caller

    @property
    def service(self) -> int:
        """auth_type"""
        return self.security.service

    @property
    def level(self) -> int:
        """auth_level; LEVEL_NONE without authentication."""
        return self.security.level

    @property
    def group(self) -> Group:
        """The association group, with its context handles."""
        group = self.association.group
        assert group is not None  # a call comes after bind
        return group

    @property
    def peer(self) -> str:
        """The client's address; empty on the Unix socket."""
        return self.association.peer

    # The two ways to end a call whose handler answered PENDING. Once, and from the loop; a second time does nothing.

    def answer(self, values: Any) -> None:
        """The values of the response, in the order of its Codec.fields."""
        self.association.host.answer(self, values)

    def fault(self, status: int) -> None:
        self.association.host.fault(self, status)


class Pending:
    """What a handler returns that will use `call.answer` or `call.fault` later: it costs less than a future."""

    __slots__ = ()


PENDING = Pending()


@dataclass(slots=True)
class Send:
    """Write these bytes to the peer."""

    data: bytes


@dataclass(slots=True)
class Invoke:
    """Carry out a call; `respond` or `fault` ends it."""

    call: Call


@dataclass(slots=True)
class Cancelled:
    """The client wishes the call to end soon; it still waits for an answer."""

    call: Call


@dataclass(slots=True)
class Orphaned:
    """Nobody waits for this call any more: stop, and consume nothing for it. It is over as far as RPC goes."""

    call: Call


@dataclass(slots=True)
class Close:
    """Close the connection. Nothing comes after it."""

    reason: str
    malformed: bool = False  # the peer broke the protocol


Effect = Send | Invoke | Cancelled | Orphaned | Close
