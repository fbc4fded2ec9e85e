"""What the methods of all interfaces share: the queue manager, who may do what, and the tables of open things."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from secrets import randbits
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from lior.errors import (
    HRESULTS,
    AccessDenied,
    InsufficientResources,
    InvalidHandle,
    InvalidParameter,
    LiorError,
    QueueNotFound,
    TransactionSequence,
    UnsupportedFormatNameOperation,
    error_from_code,
)
from lior.message import Message
from lior.names import DirectName, QueueFormat, SingleName, from_queue_format
from lior.protocols.rpc.faults import RpcFault
from lior.queues.definition import QueueType
from lior.queues.descriptor import OpenQueueDescriptor
from lior.queues.events import AccessAudited
from lior.queues.outgoing import OutgoingQueue
from lior.queues.queue import Queue
from lior.queues.transaction import Transaction
from lior.security import ANONYMOUS, Caller, QueueAccess
from lior.server.engine import Engine
from lior.server.rpc.methods.answers import Failed, Values, code_only
from lior.server.rpc.methods.remote_reader import RemoteReader
from lior.server.rpc.methods.settings import MethodSettings
from lior.server.rpc.methods.tables import (
    Cursors,
    Numbers,
    OpenQueue,
    OpenRemote,
    Owner,
    RemoteProxy,
    UnitOfWork,
    not_yours,
    uow_of,
)
from lior.wire.dtyp import encode_sid

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

Handler = Callable[["Call", Any], Any]
_MOST_HINTS: Final = 1024


class Ports(Protocol):
    """Where the interfaces listen; 0 where they do not."""

    def handshake(self) -> int:
        """qmcomm, qmcomm2 and RemoteRead: 2103."""
        ...

    def read(self) -> int:
        """qm2qm: 2105."""
        ...


class Coordinator(Protocol):
    """A transaction coordinator outside ([MS-DTCO])."""

    def whereabouts(self) -> bytes: ...

    async def enlist(self, uow: UUID, cookie: bytes) -> None: ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class QueueService:
    """One for a queue manager; the shell registers its handlers for each interface."""

    def __init__(
        self,
        engine: Engine,
        ports: Ports,
        *,
        settings: MethodSettings | None = None,
        reader: RemoteReader | None = None,
        coordinator: Coordinator | None = None,
        decrypt: Callable[[Message, str, float], bytes | None] | None = None,
        compact: Callable[[], Awaitable[int]] | None = None,
        resend: Callable[[OutgoingQueue], None] | None = None,
        random: Callable[[int], int] = randbits,
        later: Callable[[float, Callable[[], None]], Timer] | None = None,
    ) -> None:
        self.engine = engine
        self.manager = engine.manager
        self.core = engine.manager.core
        self.sending = engine.manager.sending
        self.ports = ports
        self.settings = settings or MethodSettings()
        self.reader = reader
        self.coordinator = coordinator
        self.decrypt = decrypt  # the clear body of a message that was encrypted for this queue manager
        self.compact = compact
        self.resend = resend or _nothing_to_resend
        self.numbers = Numbers(random)
        self.handed_out = HandedOut(self, later or _later)
        self.opened: dict[int, OpenQueue | RemoteProxy] = {}  # by pdwQMContext: one name space (MP-081)
        self.remote_opened: dict[int, OpenRemote] = {}  # by phQueue of R_QMOpenRemoteQueue
        self.units_of_work: dict[UUID, UnitOfWork] = {}
        self.move_targets: dict[int, Any] = {}  # by pMoveContext of R_OpenQueueForMove
        self._held: Counter[Owner] = Counter()
        self._hints: OrderedDict[tuple[Owner, str], None] = OrderedDict()
        self._sids: dict[Any, bytes] = {}
        self.tasks: set[asyncio.Task[Any]] = set()  # calls to other computers

    # Who may

    def require_supporting_server(self, call: Call) -> None:
        """3.1.4, 3.1.5: who serves no dependent clients answers opnums 2, 3, 4 and 31 only. Programs on this computer,
        which come by the Unix socket, are the queue manager's own."""
        if call.peer and not self.core.properties.supporting_server:
            raise error_from_code(
                HRESULTS["MQ_ERROR_WKS_CANT_SERVE_CLIENT"], "this queue manager serves no clients of this protocol",
                where="supporting_server", remedy="set supporting_server on the queue manager",
            )  # fmt: skip

    def hold(self, owner: Owner) -> None:
        """Count something that a client keeps open."""
        if self._held[owner] >= self.settings.max_open:
            raise InsufficientResources(f"{self._held[owner]} queues and transactions are open already",
                                        where=str(owner.sid), remedy="close some, or raise rpc.max_open")
        self._held[owner] += 1

    def let_go(self, owner: Owner) -> None:
        self._held[owner] -= 1
        if self._held[owner] <= 0:
            del self._held[owner]

    def sender_sid(self, caller: Caller) -> bytes:
        """What a message may say of who sent it: who was authenticated, and nobody else (MP-161)."""
        if not caller.authenticated or caller.sid == ANONYMOUS:
            return b""
        return encode_sid(caller.sid)

    # Queues

    def queue_of(self, queue_format: QueueFormat | None) -> Queue:
        """The private queue here that an OBJECT_FORMAT means (3.1.4.6 to 3.1.4.10)."""
        name = name_of(queue_format)
        queue = self.manager.find_queue(name)
        if isinstance(queue, OutgoingQueue):
            raise QueueNotFound("the queue is on another computer", where=str(name),
                                remedy="ask the queue manager of that computer")
        if queue.kind is not QueueType.PRIVATE:
            raise UnsupportedFormatNameOperation("journals, subqueues and system queues are no objects of their own",
                                                 where=str(name), remedy="name the queue itself")
        return queue

    # Open queues

    def add_open_queue(self, descriptor: OpenQueueDescriptor, name: SingleName, caller: Caller, owner: Owner
                       ) -> OpenQueue:  # fmt: skip
        context = self.numbers.free(self.opened)
        cursors = Cursors(self.numbers, self.settings.max_cursors)
        entry = OpenQueue(context, descriptor, name, owner, caller, cursors, direct=isinstance(name, DirectName),
                          sender_sid=self.sender_sid(caller))
        self.opened[context] = entry
        return entry

    def close_open_queue(self, entry: OpenQueue) -> None:
        """3.1.4.18 and the rundown of 3.1.7.1: waits end, cursors go, the share is free."""
        if self.opened.pop(entry.context, None) is None:
            return
        self.let_go(entry.owner)
        if not entry.descriptor.closed:  # the queue manager's stop closes all
            self.manager.close(entry.descriptor)

    def opened_by(self, context: int, call: Call) -> OpenQueue | RemoteProxy:
        """The open queue behind a bare DWORD, for the client it was made for (MP-176)."""
        entry = self.opened.get(context)
        if entry is None:
            raise InvalidHandle(f"no open queue has the context 0x{context:08X}", where="hQMContext",
                                remedy="open the queue first")
        if entry.owner.sid != call.caller.sid or entry.owner.host != call.peer:
            self._refused(call, "hQMContext")
        return entry

    def _refused(self, call: Call, what: str) -> None:
        """Somebody tries a number that is another client's: an audit event says who, and from where."""
        where = f"{what} of another client, from {call.peer or 'this computer'}"
        everything = int(QueueAccess.RECEIVE_MESSAGE)
        self.core.emit(AccessAudited(call.caller, where, everything, everything))
        raise not_yours(what)

    # Queues that others read

    def remote_open(self, number: int) -> OpenRemote | None:
        return self.remote_opened.get(number)

    def close_remote_open(self, entry: OpenRemote) -> None:
        if self.remote_opened.pop(entry.number, None) is None:
            return
        self.let_go(entry.owner)
        if not entry.descriptor.closed:
            self.manager.close(entry.descriptor)

    # Hints to other computers

    def hinted(self, owner: Owner, name: SingleName) -> None:
        """This client was told where that queue is."""
        self._hints[owner, name.key] = None
        self._hints.move_to_end((owner, name.key))
        while len(self._hints) > _MOST_HINTS:
            self._hints.popitem(last=False)

    def require_reachable(self, owner: Owner, name: SingleName, computer: str) -> RemoteReader:
        """MP-135: the server connects only where the client was pointed to, or where its operator allows, so that
        nobody makes it knock on doors."""
        hosts = self.settings.remote_hosts
        allowed = computer.casefold() in {host.casefold() for host in hosts} if hosts else (
            (owner, name.key) in self._hints)
        if not allowed:
            raise AccessDenied("this server does not connect to that computer for its clients", where=computer,
                               remedy="open the queue without hRemoteQueue first, or list the computer in "
                                      "rpc.remote_hosts")  # fmt: skip
        if self.reader is None:
            raise error_from_code(HRESULTS["MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE"],
                                  "queues of other computers are not read from here", where=computer,
                                  remedy="connect to that computer")
        return self.reader

    # Transactions

    def transaction_of(self, uow: UUID | bytes, call: Call) -> Transaction:
        """The unit of work that a send or receive names: enlisted, and by this client (MP-121)."""
        identifier = uow_of(uow)
        entry = self.units_of_work.get(identifier)
        if entry is None:
            raise TransactionSequence("the unit of work was not enlisted", where=str(identifier),
                                      remedy="call R_QMEnlistInternalTransaction first")
        if entry.owner.sid != call.caller.sid or entry.owner.host != call.peer:
            self._refused(call, "XACTUOW")
        return self.manager.transactions.find(identifier)

    # Work that waits for another computer

    def start(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def close(self) -> None:
        """The server stops: nothing is asked of other computers any more."""
        self.handed_out.stop()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def _later(seconds: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, call)


def _nothing_to_resend(queue: OutgoingQueue) -> None:
    """Without a transfer nothing was sent."""


class Returnable(Protocol):
    def put_back(self) -> None: ...


class HandedOut:
    """Messages that wait for their readers' word, in the order in which their time ends ([MS-MQRR] 3.1.2.2): one timer
    for all of them."""

    def __init__(self, service: QueueService, later: Callable[[float, Callable[[], None]], Timer]) -> None:
        self._service = service
        self._later = later
        self._ends: dict[Returnable, float] = {}
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, entry: Returnable) -> None:
        self.add_all((entry,))

    def add_all(self, entries: Iterable[Returnable]) -> None:
        timeout = self._service.settings.end_timeout
        self._ends.update(dict.fromkeys(entries, self._service.core.clock.monotonic() + timeout))
        if self._timer is None:
            self._timer = self._later(timeout, self._look)

    def discard(self, entry: Returnable) -> None:
        self._ends.pop(entry, None)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """3.1.5.1: whoever has not said that it has its message is not waited for any longer."""
        self._timer = None
        now = self._service.core.clock.monotonic()
        for entry, end in list(self._ends.items()):
            if end > now:
                self._timer = self._later(end - now, self._look)
                break
            del self._ends[entry]
            entry.put_back()


def name_of(queue_format: QueueFormat | None) -> SingleName:
    if queue_format is None:
        raise InvalidParameter("no QUEUE_FORMAT was given", where="pQueueFormat", remedy="point to one")
    return from_queue_format(queue_format)


def method(
    run: Callable[[QueueService, Call, Any], Values | Any], failed: Failed = code_only, *, gated: bool = True
) -> Callable[[QueueService], Handler]:
    """A handler from what a method does. An HRESULT that is raised becomes the values of its failure."""

    def bind(service: QueueService) -> Handler:
        def handle(call: Call, request: Any) -> Any:
            try:
                if gated:
                    service.require_supporting_server(call)
                return run(service, call, request)
            except LiorError as error:
                if isinstance(error, RpcFault):
                    raise
                return failed(request, error.code)

        return handle

    return bind


def bound(methods: Mapping[int, Callable[[QueueService], Handler]], service: QueueService) -> dict[int, Handler]:
    return {opnum: bind(service) for opnum, bind in methods.items()}
