"""Who calls: the security context that a recorder captures with each call, and the call that is being played."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from lior.client.message import ReceivedMessage
from lior.errors import LiorError
from lior.security import Sid, unix_user_sid
from lior.wire import recorded_call_security as security
from lior.wire.recorded_call_security import ANONYMOUS_EXTENSION, CallerProperties, SecurityExtension


@dataclass(frozen=True)
class CallingAs:
    """The identity that calls are recorded under. Nobody vouches for it: [MS-COM] calls it supplied by the
    application. `forward`: the callee passes it on as it is and does not add itself."""

    sid: Sid | None = None
    account: str | None = None
    service: int = security.SERVICE_NTLM
    level: int = security.LEVEL_CONNECT
    impersonation: int = security.IMPERSONATE
    authenticated: bool = False
    forward: bool = False

    def extension(self) -> bytes:
        options: dict[str, Any] = {
            "service": self.service, "level": self.level, "impersonation": self.impersonation,
            "account": self.account, "supplied": not self.authenticated,
        }  # fmt: skip
        playing = _current.get()
        if playing is not None:  # whoever had this method called stands in front of us ([MS-COM] 3.14.4)
            return security.extended(playing.security_data, self.sid, **options)
        if self.sid is None and self.account is None:
            return ANONYMOUS_EXTENSION
        data = security.root(self.sid, **options)
        return data[:4] + b"\x02\0" + data[6:] if self.forward else data


ANONYMOUS: Final = CallingAs()


def local_user() -> CallingAs:
    return CallingAs(unix_user_sid(os.geteuid()))


_identity: ContextVar[CallingAs | None] = ContextVar("lior_component_identity", default=None)


@contextmanager
def calling_as(who: CallingAs | Sid | str | None) -> Iterator[CallingAs]:
    """Calls recorded inside the block carry this identity; None is nobody."""
    chosen = identity_of(who)
    token = _identity.set(chosen)
    try:
        yield chosen
    finally:
        _identity.reset(token)


def identity_of(who: CallingAs | Sid | str | None) -> CallingAs:
    if who is None:
        return ANONYMOUS
    if isinstance(who, CallingAs):
        return who
    return CallingAs(Sid.parse(who) if isinstance(who, str) else who)


def current_identity() -> CallingAs | None:
    return _identity.get()


# ---- playing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Caller:
    """Who a played call is from. `authenticated`: the queue manager vouches for the SID, or a trusted sender does."""

    sid: Sid | None = None
    account: str | None = None
    authenticated: bool = False

    @property
    def is_anonymous(self) -> bool:
        return not self.authenticated


class Aborted(LiorError):
    """A played method asked for the whole message to be taken back."""


def _nowhere(*_: Any, **__: Any) -> Any:
    raise LookupError("this call is not being played")


@dataclass
class CurrentCall:
    """The call that is being played, for the method that plays it."""

    message: ReceivedMessage
    index: int  # of the call in its message
    interface: str
    method: str
    caller: Caller
    security: SecurityExtension
    security_data: bytes = field(repr=False, default=ANONYMOUS_EXTENSION)
    retry_level: int = 0  # 0: the first attempt; 1 and up: how far down the ladder
    attempt: int = 1  # at this level
    transaction: Any = None  # to send and receive in; None on a queue that is not transactional
    send: Callable[..., Any] = field(repr=False, default=_nowhere)  # in the transaction; a coroutine's method awaits it
    manager: Any = field(repr=False, default=None)  # for a Recorder: Recorder(queue, manager=call.manager, ...)

    @property
    def chain(self) -> tuple[CallerProperties, ...]:
        """The callers as the message claims them, the direct one first."""
        return self.security.callers

    @property
    def idempotency_key(self) -> str:
        """The same in every attempt at this call, and of no other call."""
        return f"{self.message.id}#{self.index}"

    def abort(self, why: str = "") -> None:
        """Undo what this message did so far, as if the method had failed."""
        raise Aborted(why or "the method aborted the message", where=f"{self.interface}.{self.method}")


_current: ContextVar[CurrentCall | None] = ContextVar("lior_component_call", default=None)


def current_call() -> CurrentCall:
    """The call being played; LookupError outside of one."""
    found = _current.get()
    if found is None:
        raise LookupError("no recorded call is being played here")
    return found


@contextmanager
def playing(call: CurrentCall) -> Iterator[None]:
    """The security table's entry ([MS-COM] 3.16.4): there during the call and gone after it, however it ends."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
