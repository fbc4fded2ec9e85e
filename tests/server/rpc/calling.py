"""Calls of the RPC methods without a socket: requests and responses pass through the codecs, so what a method takes and
gives is what the wire carries. The engine is driven by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any
from uuid import UUID

from lior.message import ObjectId
from lior.names import QueueFormat, parse_format_name, to_queue_format
from lior.protocols.rpc.call import PENDING, Call
from lior.protocols.rpc.faults import RpcFault
from lior.protocols.rpc.groups import Group, Groups
from lior.queues.manager import QueueManager
from lior.security import Caller, local_caller
from lior.server.rpc.methods import (
    machine,
    management,
    messages,
    objects,
    qm2qm,
    queues,
    remote_read,
    transactions,
)
from lior.server.rpc.methods.quick_reads import usual_reads
from lior.server.rpc.methods.read_batches import read_batches
from lior.server.rpc.methods.send_batches import send_batches
from lior.server.rpc.methods.service import QueueService, bound
from lior.server.rpc.methods.settings import MethodSettings
from lior.testing.clock import FakeClock
from lior.testing.engine import ManualEngine
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.remote_read import REMOTE_READ
from lior.wire.interfaces.structures import CACCreateRemoteCursor, CACTransferBufferV2, ObjectFormat, Receive, Send
from lior.wire.ndr import NDR, NULL

NO_GUID = UUID(int=0)
NO_OBJECT = ObjectId(NO_GUID, 0)
QUEUE = r"DIRECT=OS:.\private$\q"


class Fault(Exception):
    """The call ended in a fault."""

    def __init__(self, status: int) -> None:
        super().__init__(f"fault 0x{status:08X}")
        self.status = status


class Answered:
    """What became of a call."""

    def __init__(self) -> None:
        self.values: Any = None
        self.status = 0
        self.told: Callable[[], None] = lambda: None  # when it is answered

    @property
    def done(self) -> bool:
        return self.values is not None or self.status != 0


class Security:
    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.service = 10
        self.level = 6


class Association:
    """One connection of a client, as far as methods see it."""

    def __init__(self, group: Group, peer: str, usual: Any) -> None:
        self.group = group
        self.usual = usual  # interfaces as they are registered
        self.peer = peer
        self.host = self
        self.calls: dict[int, Any] = {}
        self.answers: dict[int, Answered] = {}

    def answer(self, call: Any, values: Any) -> None:
        if self.calls.pop(call.call_id, None) is not call:
            return
        method = call.interface.methods[call.opnum]
        registered = self.usual.get(call.interface.name, call.interface)
        stub = registered.methods[call.opnum].response.encode(values, call.request)
        self._told(call, method.response.decode(stub, call.request))

    def answer_stub(self, call: Any, stub: bytes) -> None:
        if self.calls.pop(call.call_id, None) is call:
            self._told(call, call.interface.methods[call.opnum].response.decode(stub, call.request))

    def _told(self, call: Any, values: Any) -> None:
        answered = self.answers[call.call_id]
        answered.values = values
        answered.told()

    def fault(self, call: Any, status: int) -> None:
        if self.calls.pop(call.call_id, None) is call:
            answered = self.answers[call.call_id]
            answered.status = status
            answered.told()


class Context:
    def __init__(self, interface: Any) -> None:
        self.interface = interface
        self.syntax = NDR
        self.ndr64 = False
        self.syntax = NDR


class Ports:
    def handshake(self) -> int:
        return 2103

    def read(self) -> int:
        return 2105


class Timers:
    """`later` of a service, by hand."""

    def __init__(self) -> None:
        self.waiting: list[FakeTimer] = []

    def __call__(self, seconds: float, call: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self, call)
        self.waiting.append(timer)
        return timer

    def fire(self) -> None:
        for timer in list(self.waiting):
            timer.cancel()
            timer.call()


class FakeTimer:
    def __init__(self, timers: Timers, call: Callable[[], None]) -> None:
        self._timers = timers
        self.call = call

    def cancel(self) -> None:
        if self in self._timers.waiting:
            self._timers.waiting.remove(self)


class DrivenEngine(ManualEngine):
    """What a service asks of an engine, besides its manager."""

    crowded = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.line: list[Callable[[], None]] = []

    def line_up(self, call: Callable[[], None]) -> None:
        self.line.append(call)


class Server:
    """A queue manager that serves clients of the RPC interfaces."""

    def __init__(self, *, supporting: bool = True, seed: int = 1, settings: MethodSettings | None = None,
                 engine: DrivenEngine | None = None, **options: Any) -> None:  # fmt: skip
        self.engine = engine or DrivenEngine()
        self.clock: FakeClock = self.engine.clock
        self.manager: QueueManager = self.engine.manager
        self.manager.core.properties.supporting_server = supporting
        self.timers = Timers()
        random = Random(seed)
        self.service = QueueService(self.engine, Ports(), settings=settings, random=random.getrandbits,  # type: ignore[arg-type]
                                    later=self.timers, **options)  # fmt: skip
        self.usual = {"qmcomm2": messages.usual_sends(QMCOMM2), "RemoteRead": usual_reads(REMOTE_READ)}
        token = Random(seed + 1)
        self.groups = Groups(lambda: token.randbytes(16))
        self.handlers: dict[str, Mapping[int, Any]] = {
            "qmcomm": bound({**queues.METHODS, **objects.METHODS, **transactions.METHODS, **machine.METHODS},
                            self.service),
            "qmcomm2": bound(messages.METHODS, self.service),
            "qm2qm": bound(qm2qm.METHODS, self.service),
            "RemoteRead": bound(remote_read.METHODS, self.service),
            "qmmgmt": bound(management.METHODS, self.service),
        }
        self.batches = {("qmcomm2", opnum): batch for opnum, batch in send_batches(self.service).items()}
        self.batches |= {("RemoteRead", opnum): batch for opnum, batch in read_batches(self.service).items()}

    def client(self, caller: Caller | None = None, peer: str = "192.0.2.1") -> Client:
        return Client(self, caller or self.engine.admin, peer)

    def create(self, name: str = "q", **properties: Any) -> Any:
        return self.engine.create(rf".\private$\{name}", **properties)


class Client:
    """One client: an association group with one connection."""

    _last = 0
    in_batches = False  # calls go to batch handlers first, as the dispatcher has it

    def __init__(self, server: Server, caller: Caller, peer: str, group: Group | None = None) -> None:
        self.server = server
        self.caller = caller
        self.peer = peer
        if group is None:
            joined = server.groups.join(0, peer)
            assert joined is not None
            group = joined
        else:
            group.connections += 1
        self.group = group
        self.association = Association(group, peer, server.usual)
        self._security: Any = Security(caller)
        self._contexts: dict[str, Context] = {}
        self.alive = True

    def another(self) -> Client:
        """A second connection of the same client."""
        return Client(self.server, self.caller, self.peer, self.group)

    def start(self, interface: Any, opnum: int, **fields: Any) -> Answered:
        """Send a request; the answer comes when the engine is driven."""
        call, answered = self._call(interface, opnum, fields)
        batch = self.server.batches.get((interface.name, opnum)) if self.in_batches else None
        if batch is None or batch([call], 0) == 0:
            self._run(call)
        return answered

    def _call(self, interface: Any, opnum: int, fields: Mapping[str, Any]) -> tuple[Any, Answered]:
        method = interface.methods[opnum]
        assert set(fields) == set(method.request.fields), f"{method.name} has not {fields}"
        Client._last += 1
        association: Any = self.association
        call: Any = Call(association, self._context(interface), self._security, Client._last, opnum, b"")
        registered = self.server.usual.get(interface.name, interface)
        stub = method.request.encode([fields[name] for name in method.request.fields])
        call.request = registered.methods[opnum].request.decode(stub)
        answered = self.association.answers[call.call_id] = Answered()
        self.association.calls[call.call_id] = call
        answered.call = call  # type: ignore[attr-defined]
        return call, answered

    def _context(self, interface: Any) -> Any:
        return self._contexts.setdefault(interface.name, Context(interface))

    def _run(self, call: Any) -> None:
        try:
            values = self.server.handlers[call.interface.name][call.opnum](call, call.request)
        except RpcFault as fault:
            self.association.fault(call, fault.status)
            return
        if values is not PENDING:
            self.association.answer(call, values)

    def together(self, interface: Any, opnum: int, requests: Sequence[Mapping[str, Any]]) -> list[Answered]:
        """Calls that one chunk of the network brought, as the dispatcher carries them out."""
        calls, answers = [], []
        for fields in requests:
            call, answered = self._call(interface, opnum, fields)
            calls.append(call)
            answers.append(answered)
        batch, at = self.server.batches[interface.name, opnum], 0
        while at < len(calls):
            before, at = at, batch(calls, at)
            if at == before:
                self._run(calls[at])
                at += 1
        return answers

    def call(self, interface: Any, opnum: int, **fields: Any) -> Any:
        """The response, when everything that is pending is on disk."""
        answered = self.start(interface, opnum, **fields)
        self.server.engine.commit()
        return self.result(answered)

    def result(self, answered: Answered) -> Any:
        assert answered.done, "not answered yet"
        if answered.status:
            raise Fault(answered.status)
        return answered.values

    def cancel(self, answered: Answered) -> None:
        """As when a cancel PDU comes."""
        call = answered.call  # type: ignore[attr-defined]
        call.cancelled = True
        if call.on_cancel is not None:
            call.on_cancel(call)
        self.server.engine.commit()

    def die(self) -> None:
        """The connection is lost; with the last one of its group the handles are run down."""
        self.alive = False
        calls = list(self.association.calls.values())
        self.association.calls.clear()
        for call in calls:
            call.cancelled = True
            if call.on_cancel is not None:
                call.on_cancel(call)
        self.group.connections -= 1
        if not self.group.connections:
            self.group.handles.run_down()
        self.server.engine.commit()

    # Methods as an application uses them

    def qmcomm(self, opnum: int, **fields: Any) -> Any:
        return self.call(QMCOMM, opnum, **fields)

    def open(self, name: str = QUEUE, access: int = 1, share: int = 0, *, remote: Any = (0, 0, 0)) -> Any:
        queue, dwp_queue, context = remote
        return self.qmcomm(19, p_queue_format=format_of(name), dw_desired_access=access, dw_share_mode=share,
                           h_remote_queue=queue, lplp_remote_queue_name=NULL, dwp_queue=dwp_queue,
                           p_lic_guid=NO_GUID, lp_client_name="client", dw_remote_protocol=0,
                           dwp_remote_context=context)  # fmt: skip

    def opened(self, name: str = QUEUE, access: int = 1, share: int = 0) -> Any:
        """A queue that opens; its response has ph_queue and pdw_qm_context."""
        response = self.open(name, access, share)
        assert response.result == 0, hex(response.result)
        return response

    def send(self, handle: bytes, body: bytes = b"hello", **members: Any) -> Any:
        return self.call(QMCOMM2, 1, h_queue=handle, ptb=sent(body, **members), p_message_id=NO_OBJECT)

    def receive(self, context: int, timeout: int = 0, **members: Any) -> Any:
        return self.call(QMCOMM2, 2, h_qm_context=context, ptb=wanted(timeout=timeout, **members))

    def start_receive(self, context: int, timeout: int = 60_000, **members: Any) -> Answered:
        answered = self.start(QMCOMM2, 2, h_qm_context=context, ptb=wanted(timeout=timeout, **members))
        self.server.engine.commit()
        return answered

    def cursor(self, handle: bytes) -> Any:
        return self.call(QMCOMM2, 3, h_queue=handle, pcc=CACCreateRemoteCursor(1, 2, 3))



def format_of(name: str) -> QueueFormat:
    return to_queue_format(parse_format_name(name))  # type: ignore[arg-type]


def object_of(name: str) -> ObjectFormat:
    return ObjectFormat(p_queue_format=format_of(name))


def sent(body: bytes | None = b"hello", *, response: str = "", admin: str = "", label: str | None = None,
         **members: Any) -> CACTransferBufferV2:  # fmt: skip
    """The buffer of a send."""
    ptb = CACTransferBufferV2(0, Send(format_of(admin) if admin else None, format_of(response) if response else None))
    ptb.ul_relative_time_to_live = 0xFFFFFFFF
    ptb.p_delivery = 1
    if body is not None:
        ptb.pp_body = body
        ptb.ul_body_buffer_size_in_bytes = ptb.ul_alloc_body_buffer_in_bytes = len(body)
    if label is not None:
        ptb.pp_title, ptb.ul_title_buffer_size_in_wchars = label + "\0", len(label) + 1
    for name, value in members.items():
        setattr(ptb, name, value)
    return ptb


def wanted(*, timeout: int = 0, action: int = 0, cursor: int = 0, room: int = 1000, title: int = 250, names: int = 500,
           **members: Any) -> CACTransferBufferV2:  # fmt: skip
    """The buffer of a receive that wants everything."""
    receive = Receive(timeout, action, 0, cursor)
    for each in ("response", "admin", "dest", "ordering"):
        setattr(receive, f"ul_{each}_format_name_len", names)
        setattr(receive, f"pp_{each}_format_name", "")
        setattr(receive, f"pul_{each}_format_name_len_prop", names)
    ptb = CACTransferBufferV2(1, receive, pp_message_id=NO_OBJECT, pp_correlation_id=bytes(20))
    ptb.pp_body, ptb.ul_body_buffer_size_in_bytes, ptb.ul_alloc_body_buffer_in_bytes = bytes(room), room, room
    ptb.p_body_size = 0
    ptb.pp_title, ptb.ul_title_buffer_size_in_wchars, ptb.pul_title_buffer_size_in_wchars = "", title, title
    for name in ("p_class", "p_sent_time", "p_arrived_time", "p_priority", "p_delivery", "p_acknowledge", "p_auditing",
                 "p_application_tag", "pul_relative_time_to_queue", "pul_relative_time_to_live", "p_trace",
                 "pul_sender_id_type", "pul_sender_id_len_prop", "pul_priv_level", "p_authenticated",
                 "pul_hash_alg", "pul_encrypt_alg",
                 "pul_sender_cert_len_prop", "pul_auth_prov_name_len_prop", "pul_prov_type", "pul_symm_keys_size_prop",
                 "pul_signature_size_prop", "p_msg_extension_size", "pul_body_type", "pul_version", "pb_first_in_xact",
                 "pb_last_in_xact"):  # fmt: skip
        setattr(ptb, name, 0)
    ptb.pp_sender_id, ptb.u_sender_id_len = bytes(100), 100
    ptb.pp_sender_cert, ptb.ul_sender_cert_len = bytes(600), 600
    ptb.ppwcs_prov_name, ptb.ul_prov_name_len = "", 100
    ptb.pp_symm_keys, ptb.ul_symm_keys_size = bytes(300), 300
    ptb.pp_signature, ptb.ul_signature_size = bytes(300), 300
    ptb.pp_msg_extension, ptb.ul_msg_extension_buffer_in_bytes = bytes(room), room
    ptb.pp_src_qm_id, ptb.pp_connector_type, ptb.pp_xact_id = NO_GUID, NO_GUID, NO_OBJECT
    for name, value in members.items():
        setattr(ptb, name, value)
    return ptb


def body_of(response: Any) -> bytes:
    """The body without what follows it in the client's buffer."""
    return bytes(response.ptb.pp_body)[: response.ptb.p_body_size]


def user(number: int) -> Caller:
    """Somebody without special rights."""
    return local_caller(1000 + number, (1000 + number,))
