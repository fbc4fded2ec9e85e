"""An application: which classes it serves, by which interfaces, to whom; and what it makes of a message.

    orders = Application("Orders")

    @orders.serves(ORDERS, IOrderSink, roles={"place_order": {"clerk"}}, exception_class=OrderFailures)
    class Orders:
        def place_order(self, order_id, customer, amount): ...

Only what is registered here can be reached by a message: nothing is looked up by a name that a message carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

from lior.client.message import ReceivedMessage
from lior.components.annotations import guid, scope_of
from lior.components.context import Caller
from lior.components.dispatching import arguments_of
from lior.components.interface import Interface, Method, interface_of
from lior.errors import CallRefused, LiorError, Malformed, NotQueueable
from lior.message import NULL_GUID, SenderIdentifierType
from lior.security import Sid
from lior.wire import recorded_call, recorded_call_security
from lior.wire.automation_dispatch import IID_IDISPATCH, INVOKE, MEMBER_NOT_FOUND, DispatchRefused, read_invocation
from lior.wire.automation_types import AutomationReader, Budget, Scope
from lior.wire.dtyp import decode_sid
from lior.wire.recorded_call import GLOBAL_PARTITION, LIMITS, Call, Limits, RecordedMessage
from lior.wire.recorded_call_security import SecurityExtension

T = TypeVar("T", bound=type)
Members = Mapping[str, Iterable[Sid | str]]

FORMAT: Final = "format"
CLASS: Final = "class"
SECURITY: Final = "security"
PARAMETERS: Final = "parameters"


class Rejected(Exception):
    """A message that is not played. `stage` is the check that it failed; the cause says why."""

    def __init__(self, stage: str, error: LiorError) -> None:
        super().__init__(f"{stage}: {error}")
        self.stage = stage
        self.error = error


@dataclass(frozen=True)
class Served:
    """One entry of the object table (3.1.1)."""

    class_id: UUID
    partition: UUID
    factory: Callable[[], Any]
    interfaces: Mapping[UUID, Interface]
    dispatch: Mapping[int, tuple[Interface, Method]]
    roles: Mapping[str, frozenset[str]]
    exception_class: Callable[[], Any] | None
    scope: Scope
    name: str


@dataclass(frozen=True)
class PreparedCall:
    """A call whose every parameter has been read: all that is left is to make it."""

    index: int
    interface: str
    method: str
    arguments: tuple[Any, ...]
    caller: Caller
    security: SecurityExtension
    security_data: bytes


@dataclass(frozen=True)
class Playback:
    """A message that passed every check."""

    served: Served
    calls: Sequence[PreparedCall]
    skipped: tuple[bytes, ...] = ()


@dataclass
class Application:
    """`members`: who has which role, by SID or account name. `trusted_senders`: SIDs whose signed messages may speak
    for other callers ("QC Trusted User"). `values`: classes of by-value objects and records that `Any` may carry.
    `partition_required` leaves the choice for messages that name an unknown partition to the global one otherwise."""

    name: str
    members: Members = field(default_factory=dict)
    trusted_senders: Iterable[Sid | str] = ()
    values: Iterable[type] = ()
    limits: Limits = LIMITS
    strict: bool = False

    def __post_init__(self) -> None:
        self._table: dict[tuple[UUID, UUID], Served] = {}
        self._trusted = frozenset(map(str, self.trusted_senders))
        self._roles = {role: frozenset(str(who).casefold() for who in holders) for role, holders in
                       self.members.items()}

    # Registration

    def serves(
        self,
        class_id: str | UUID,
        *interfaces: Any,
        partition: str | UUID = GLOBAL_PARTITION,
        roles: Mapping[str, Iterable[str]] | Iterable[str] = (),
        exception_class: Callable[[], Any] | None = None,
        factory: Callable[[], Any] | None = None,
        instance: Any = None,
    ) -> Callable[[T], T]:
        """Serve a class. A message gets a new object of it, unless `factory` or `instance` says otherwise. `roles` are
        those that may call: of all methods, or by method. Whoever has none of them is refused, and so is everybody
        whom nobody vouches for."""

        def mark(cls: T) -> T:
            where = cls.__name__
            entry = Served(
                guid(class_id, where), guid(partition, where),
                factory or (cls if instance is None else lambda: instance),
                *_tables(cls, interfaces), _roles(roles, interfaces), exception_class,
                scope_of((kind for each in interfaces for kind in interface_of(each).kinds), self.values,
                         limits=self.limits), where,
            )  # fmt: skip
            if self._table.setdefault((entry.partition, entry.class_id), entry) is not entry:
                raise NotQueueable("the class is served already", where=str(entry.class_id))
            return cls

        return mark

    @property
    def served(self) -> Sequence[Served]:
        return tuple(self._table.values())

    def find(self, class_id: UUID, partition: UUID | None) -> Served:
        """In its partition; in the global one if it names none, or one that is not known here ([MS-COM] 3.10.4)."""
        known = {part for part, _ in self._table}
        wanted = partition if partition is not None and partition != NULL_GUID and partition in known else (
            GLOBAL_PARTITION)
        found = self._table.get((wanted, class_id))
        if found is None:
            raise CallRefused(f"nobody serves the class {class_id}", where=self.name,
                              remedy="register it with serves, or send to the application that has it")
        return found

    # What a message says (3.1.5): each check in its turn, and no code of the application before the last has passed

    def prepare(self, message: ReceivedMessage) -> Playback:
        recorded = self._checked(FORMAT, self._format, message)
        served = self._checked(CLASS, self.find, recorded.class_id, recorded.partition)
        contexts = self._checked(SECURITY, self._security, recorded, message)
        calls = self._checked(PARAMETERS, self._calls, served, recorded, contexts)
        return Playback(served, calls, recorded.skipped)

    @staticmethod
    def _checked(stage: str, check: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return check(*arguments)
        except LiorError as error:
            raise Rejected(stage, error) from error

    def _format(self, message: ReceivedMessage) -> RecordedMessage:
        if not recorded_call.is_recorded(message.extension):
            raise Malformed("its Extension is not that of a recorded message", where=message.id,
                            remedy="this queue is for queued components: send other messages elsewhere")
        return recorded_call.decode(message.body, self.limits, strict=self.strict)

    def _security(
        self, recorded: RecordedMessage, message: ReceivedMessage
    ) -> dict[bytes, tuple[SecurityExtension, Caller]]:
        """Each context of the message, once; all of them, before the first call."""
        sender = authenticated_sender(message)
        found = {}
        for data in dict.fromkeys(call.security for call in recorded.calls):
            extension = recorded_call_security.decode(data)
            found[data] = extension, self._caller(extension, sender)
        return found

    def _caller(self, extension: SecurityExtension, sender: Sid | None) -> Caller:
        """The sender writes who called: that is believed of himself, or of anyone if he is trusted."""
        claimed = extension.direct_caller
        if claimed is None:
            return Caller()
        trusted = sender is not None and (str(sender) in self._trusted or claimed.sid == sender)
        return Caller(claimed.sid, claimed.account if trusted else None, trusted) if trusted else Caller()

    def _calls(
        self, served: Served, recorded: RecordedMessage, contexts: Mapping[bytes, tuple[SecurityExtension, Caller]]
    ) -> list[PreparedCall]:
        budget = Budget(self.limits.elements)
        prepared = []
        for index, call in enumerate(recorded.calls):
            extension, caller = contexts[call.security]
            try:
                interface, method, arguments = _read(served, call, budget)
                self._allow(served, method, caller)
            except LiorError as error:
                error.where = f"call {index} at offset {call.offset}: {error.where}"
                raise
            prepared.append(PreparedCall(index, interface.name, method.name, arguments, caller, extension,
                                         call.security))
        return prepared

    def _allow(self, served: Served, method: Method, caller: Caller) -> None:
        wanted = served.roles.get(method.name)
        if wanted is None:
            return
        names = {str(name).casefold() for name in (caller.sid, caller.account) if name is not None}
        if caller.authenticated and any(names & self._roles.get(role, frozenset()) for role in wanted):
            return
        who = str(caller.sid) if caller.authenticated else "a caller whom nobody vouches for"
        raise CallRefused(f"{who} has none of the roles {', '.join(sorted(wanted))}", where=method.name,
                          remedy="give the caller a role, sign the message, or name its sender a trusted one")


def authenticated_sender(message: ReceivedMessage) -> Sid | None:
    """The SID that the queue manager verified."""
    security = message.security
    if security is None or not security.authentication_level:
        return None
    if security.sender_identifier_type != SenderIdentifierType.SID:
        return None
    try:
        return decode_sid(security.sender_identifier)[0]
    except LiorError:
        return None


def _read(served: Served, call: Call, budget: Budget) -> tuple[Interface, Method, tuple[Any, ...]]:
    reader = AutomationReader(call.data, served.scope, budget)
    if call.interface_id == IID_IDISPATCH:
        return _read_dispatch(served, call, reader)
    interface = served.interfaces.get(call.interface_id)
    if interface is None:
        raise CallRefused(f"{served.name} is not served by the interface {call.interface_id}", where=served.name)
    method = interface.methods.get(call.method_number)
    if method is None or not method.has_ndr_form:
        raise CallRefused(f"no method {call.method_number}", where=interface.name)
    reader.where = f"{interface.name}.{method.name}"
    return interface, method, method.read(reader)


def _read_dispatch(
    served: Served, call: Call, reader: AutomationReader
) -> tuple[Interface, Method, tuple[Any, ...]]:
    if call.method_number != INVOKE:
        raise CallRefused(f"method {call.method_number} of IDispatch answers something", where=served.name)
    invocation = read_invocation(reader)
    found = served.dispatch.get(invocation.dispid)
    if found is None:
        raise DispatchRefused(MEMBER_NOT_FOUND, f"no member {invocation.dispid}", where=served.name)
    interface, method = found
    return interface, method, arguments_of(method, invocation, served.scope)


def _tables(
    cls: type, interfaces: Sequence[Any]
) -> tuple[dict[UUID, Interface], dict[int, tuple[Interface, Method]]]:
    if not interfaces:
        raise NotQueueable("it is served by no interface", where=cls.__name__)
    by_iid: dict[UUID, Interface] = {}
    by_dispid: dict[int, tuple[Interface, Method]] = {}
    for each in map(interface_of, interfaces):
        if by_iid.setdefault(each.iid, each) is not each:
            raise NotQueueable(f"two interfaces {each.iid}", where=cls.__name__)
        for method in each.methods.values():
            if not callable(getattr(cls, method.name, None)):
                raise NotQueueable(f"it has no method {method.name}", where=cls.__name__,
                                   remedy=f"define every method of {each.name}")
            if method.dispid is not None and by_dispid.setdefault(method.dispid, (each, method))[1] is not method:
                raise NotQueueable(f"two members {method.dispid}", where=cls.__name__)
    return by_iid, by_dispid


def _roles(
    roles: Mapping[str, Iterable[str]] | Iterable[str], interfaces: Sequence[Any]
) -> dict[str, frozenset[str]]:
    names = {method.name for each in interfaces for method in interface_of(each).methods.values()}
    if not isinstance(roles, Mapping):
        held = frozenset(roles)
        return dict.fromkeys(names, held) if held else {}
    unknown = set(roles) - names
    if unknown:
        raise NotQueueable(f"roles for methods that are not there: {', '.join(sorted(unknown))}", where="serves")
    return {name: frozenset(held) for name, held in roles.items()}
