"""Recording calls: what the recorders of both faces share. No queue manager here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from lior.components.annotations import OpenScope
from lior.components.context import CallingAs, current_identity, identity_of, local_user
from lior.components.dispatching import invocation
from lior.components.interface import Interface, Method, interface_of
from lior.errors import NotQueueable
from lior.wire import automation_dispatch, recorded_call
from lior.wire.automation_dispatch import IID_IDISPATCH, INVOKE
from lior.wire.automation_types import AutomationWriter
from lior.wire.ndr import FIRST_REFERENT
from lior.wire.recorded_call import LIMITS, Call, RecordedMessage

Record = Callable[[Call, int], Any]  # what becomes of a call, and the referent to go on from
DEFERRED: Final = "deferred"
IMMEDIATE: Final = "immediate"


class Recording:
    """The pending calls of one object on one queue (3.2.1)."""

    def __init__(
        self, class_id: UUID | str, *, partition: UUID | str | None = None, identity: Any = local_user,
        lcid: int | None = None,
    ) -> None:
        self.class_id = class_id if isinstance(class_id, UUID) else UUID(class_id)
        self.partition = UUID(partition) if isinstance(partition, str) else partition
        self.lcid = lcid
        self._identity: CallingAs = identity() if callable(identity) else identity_of(identity)
        self._scope = OpenScope()
        self._calls: list[Call] = []
        self._referent = FIRST_REFERENT

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def calls(self) -> Sequence[Call]:
        return tuple(self._calls)

    def add(self, call: Call, referent: int) -> None:
        if len(self._calls) == LIMITS.calls:
            raise NotQueueable(f"a message has at most {LIMITS.calls} calls", where="recorder",
                               remedy="close the recorder and go on with another one")
        self._calls.append(call)
        self._referent = referent

    def discard(self) -> None:
        self._calls.clear()
        self._referent = FIRST_REFERENT

    def message(self) -> bytes:
        """The body for what is pending; it stays pending until `discard`."""
        return recorded_call.encode(RecordedMessage(self.class_id, self._calls, self.partition))

    def alone(self, call: Call) -> bytes:
        """The body of a message with one call."""
        return recorded_call.encode(RecordedMessage(self.class_id, [call], self.partition))

    # Marshalling happens at the call: what does not fit fails there, and what changes later is not recorded

    def ndr_call(self, interface: Interface, method: Method, values: tuple[Any, ...]) -> tuple[Call, int]:
        writer = AutomationWriter(self._scope, self._referent)
        method.write(writer, values)
        return Call(interface.iid, method.number, self._security(), writer.to_bytes()), writer.referents

    def dispatch_call(self, method: Method, values: tuple[Any, ...]) -> tuple[Call, int]:
        writer = AutomationWriter(self._scope, self._referent)
        automation_dispatch.write_invocation(writer, invocation(method, values, self._scope, self.lcid))
        return Call(IID_IDISPATCH, INVOKE, self._security(), writer.to_bytes()), writer.referents

    def _security(self) -> bytes:
        return (current_identity() or self._identity).extension()


def ndr_proxy(recording: Recording, kind: Any, record: Record) -> Any:
    """An object with the methods of the interface; each records its call. Nobody is asked: it works offline."""
    interface = interface_of(kind)
    proxy = Proxy(interface.name)
    for method in interface.methods.values():
        if method.has_ndr_form:
            setattr(proxy, method.name, _ndr_method(recording, interface, method, record))
    return proxy


def _ndr_method(recording: Recording, interface: Interface, method: Method, record: Record) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        return record(*recording.ndr_call(interface, method, method.bind(arguments, named)))

    call.__name__ = method.name
    return call


class Proxy:
    """The local stand-in for an object that is somewhere else."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __repr__(self) -> str:
        return f"<recorder's {self._name}>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self._name} has no method {name} that can be recorded")

    _name: str


class DispatchProxy:
    """Members by name, without case, in the dispatch form. Setting an attribute puts a property."""

    def __init__(self, recording: Recording, kind: Any, record: Record) -> None:
        self.__dict__.update(_recording=recording, _interface=interface_of(kind), _record=record)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        method = self._member(name)

        def call(*arguments: Any, **named: Any) -> Any:
            return self._record(*self._recording.dispatch_call(method, method.bind(arguments, named)))

        return call

    def __setattr__(self, name: str, value: Any) -> None:
        method = self._member(name)
        if method.invocation_kind == automation_dispatch.METHOD:
            raise NotQueueable("it is a method, no property", where=f"{self._interface.name}.{name}")
        self._record(*self._recording.dispatch_call(method, method.bind((value,), {})))

    def _member(self, name: str) -> Method:
        """What GetIDsOfNames would answer, found here: it has results, and is never recorded."""
        interface: Interface = self._interface
        if name.replace("_", "").casefold() in _NEVER:
            raise NotQueueable("it answers something, and a recorded call has no answer", where=name)
        method = interface.named(name)
        if method is None or method.dispid is None:
            raise NotQueueable("no member of this name has a dispid", where=f"{interface.name}.{name}",
                               remedy="mark the method with @dispid")
        return method

    def __repr__(self) -> str:
        return f"<recorder's {self._interface.name}, dispatch form>"

    _recording: Recording
    _interface: Interface
    _record: Record


_NEVER: Final = frozenset({"gettypeinfocount", "gettypeinfo", "getidsofnames", "invoke", "queryinterface", "addref",
                           "release"})
