"""Recording: [MC-COMQC] 2.1, 2.2.6.1.2 and 3.2."""

import warnings
from typing import Any
from uuid import UUID

import pytest

import lior
from lior import message as lior_message
from lior.components import (
    ANONYMOUS,
    MISSING,
    ByRef,
    Callback,
    CallingAs,
    Locale,
    Long,
    Object,
    Recorder,
    Short,
    Variant,
    aio,
    calling_as,
    default_queue,
    dispid,
    interface,
    parse_moniker,
    propput,
)
from lior.errors import (
    BadConfiguration,
    IllegalPropertyValue,
    InvalidHandle,
    InvalidParameter,
    LiorError,
    MessageTooLarge,
    NotPersistable,
    NotQueueable,
    QueueNotFound,
)
from lior.message import MessageSecurity
from lior.protocols.security.signing import as_sent
from lior.security import Sid
from lior.wire import recorded_call, recorded_call_security
from lior.wire.automation_dispatch import IID_IDISPATCH, read_invocation
from lior.wire.automation_types import AutomationReader
from lior.wire.message_packet import to_user_message
from lior.wire.recorded_call import EXTENSION, GLOBAL_PARTITION
from tests.components.order_scenario import ORDERS, OUT, QUEUE, IOrderSink, Manager, messages, record, run
from tests.wire import second_recorded_call as second
from tests.wire.recorded_call_vectors import CLERK, CONTEXT_A, SYSTEM, A, D

CLERK_SID = Sid.parse(CLERK)


class NoManager:
    """A queue manager that must not be asked for anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the queue manager was asked to {name}")


def offline(**options: Any) -> Recorder:
    return Recorder(QUEUE, class_id=ORDERS, manager=NoManager(), **options)  # type: ignore[arg-type]


def bodies(work: Any, **options: Any) -> list[bytes]:
    async def scenario(manager: Manager) -> list[bytes]:
        await work(manager)
        return [message.body for message in await messages(manager)]

    found: list[bytes] = run(scenario, **options)
    return found


@pytest.mark.spec("QC-001", "QC-003", "QC-136", "QC-138", "QC-064", "QC-121")
def test_a_recorder_sends_the_worked_example_octet_for_octet() -> None:
    """The steps of 4.1: ask for the interface, call, call again, destroy the stand-in."""

    async def work(manager: Manager) -> Any:
        recorder = aio.Recorder(QUEUE, class_id=ORDERS, manager=manager, partition=GLOBAL_PARTITION, identity=CLERK_SID)
        orders = recorder.interface(IOrderSink)
        assert len(list(recorder.pending)) == 0
        orders.place_order(1001, "Zoë", 249.5)
        orders.add_lines(-2, [10, 20, -30], True)
        assert [call.method_number for call in recorder.pending] == [3, 4]
        assert await messages(manager) == []
        await recorder.close()
        return await messages(manager)

    (message,) = run(work)
    assert message.body == A
    assert message.extension == second.EXTENSION
    assert message.body_type == 0
    assert len(message.body) == int.from_bytes(message.body[32:36], "little")


@pytest.mark.spec("QC-123")
def test_a_block_sends_one_message_and_an_exception_none() -> None:
    async def work(manager: Manager) -> Any:
        await record(manager, 1, 2, 3)
        with pytest.raises(KeyError):
            async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager) as recorder:
                recorder.interface(IOrderSink).place_order(4, "x", 1.0)
                raise KeyError
        async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager) as recorder:
            recorder.interface(IOrderSink).place_order(5, "x", 1.0)
            assert await recorder.close() is not None
            assert await recorder.close() is None
        return [len(recorded_call.decode(message.body).calls) for message in await messages(manager)]

    assert run(work) == [3, 1]


def test_the_synchronous_recorder_does_the_same() -> None:
    with lior.open(":memory:") as qm:
        qm.create_queue(QUEUE, transactional=True)
        with Recorder(QUEUE, class_id=ORDERS, manager=qm, application_tag=6, label="orders") as recorder:
            recorder.interface(IOrderSink).place_order(1, "x", 1.0)
        with pytest.raises(KeyError), Recorder(QUEUE, class_id=ORDERS, manager=qm) as recorder:
            recorder.interface(IOrderSink).place_order(2, "x", 1.0)
            raise KeyError
        with qm.open_queue(QUEUE, "send") as queue, Recorder(queue, class_id=ORDERS) as recorder:
            recorder.interface(IOrderSink).place_order(3, "x", 1.0)
        with qm.transaction() as transaction:
            with Recorder(QUEUE, class_id=ORDERS, manager=qm, transaction=transaction) as recorder:
                recorder.interface(IOrderSink).place_order(4, "x", 1.0)
            transaction.abort()
        with qm.open_queue(QUEUE) as queue:
            found = list(queue)
        assert [(message.application_tag, message.label) for message in found] == [(6, "orders"), (0, "")]


@pytest.mark.spec("QC-124", "QC-120")
def test_nothing_recorded_sends_nothing_and_asks_nobody() -> None:
    with offline() as recorder:
        recorder.interface(IOrderSink)
        recorder.dispatch(IOrderSink)
    assert recorder.close() is None


@pytest.mark.spec("QC-120")
def test_recording_needs_no_queue_manager_until_the_end() -> None:
    recorder = offline()
    recorder.interface(IOrderSink).place_order(1, "x", 1.0)
    assert len(recorder.pending) == 1
    with pytest.raises(AssertionError, match="asked to open_queue"):
        recorder.close()
    assert len(recorder.pending) == 1
    recorder.discard()


@pytest.mark.spec("QC-121", "QC-107", "QC-067")
def test_a_call_that_cannot_be_recorded_fails_at_its_line_and_leaves_nothing() -> None:
    @interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f39}")
    class IThings:
        def put(self, first: Long, thing: Object) -> None: ...

    with offline() as recorder:
        orders = recorder.interface(IOrderSink)
        orders.place_order(1, "x", 1.0)
        before = recorder.pending
        for arguments in ((1 << 31, "x", 1.0), ("1", "x", 1.0), (1, 7, 1.0), (1, "x", "much")):
            with pytest.raises(InvalidParameter):
                orders.place_order(*arguments)
        with pytest.raises(TypeError):
            orders.place_order(1)  # type: ignore[call-arg]
        with pytest.raises(InvalidParameter):
            orders.add_lines(1, [1, "two"], True)  # type: ignore[list-item]
        with pytest.raises(NotPersistable):
            recorder.interface(IThings).put(1, object())
        with pytest.raises(AttributeError):
            orders.delete_everything()  # type: ignore[attr-defined]
        assert recorder.pending == before
        recorder.discard()


@pytest.mark.spec("QC-121")
def test_arguments_and_identity_are_those_of_the_moment_of_the_call() -> None:
    with offline(identity=CLERK_SID) as recorder:
        orders = recorder.interface(IOrderSink)
        quantities = [1, 2]
        orders.add_lines(1, quantities, False)
        quantities.append(3)
        with calling_as(SYSTEM):
            orders.add_lines(1, quantities, False)
        orders.add_lines(1, [], False)
        calls = recorder.pending
        recorder.discard()
    assert [second.Parameters(bytes(call.data)).read("short safearray")[1][2] for call in calls] == [
        [1, 2], [1, 2, 3], []]  # fmt: skip
    who = [recorded_call_security.decode(call.security).callers[0].sid for call in calls]
    assert who == [CLERK_SID, Sid.parse(SYSTEM), CLERK_SID]
    assert calls[0].security == CONTEXT_A


@pytest.mark.spec("QC-040", "QC-042", "QC-049")
def test_a_change_of_identity_writes_a_context_and_a_return_refers_to_it() -> None:
    async def work(manager: Manager) -> None:
        async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager, identity=CLERK_SID) as recorder:
            orders = recorder.interface(IOrderSink)
            for who in (CLERK, SYSTEM, CLERK, CLERK, None):
                with calling_as(who):
                    orders.place_order(1, None, 0.0)

    (body,) = bodies(work)
    signatures = [signature.decode() for signature, _, _ in second.headers(body)]
    assert signatures == ["CHDR", "SECD", "METH", "SECD", "SMTH", "SECR", "SMTH", "SMTH", "SECD", "SMTH"]
    last = recorded_call.decode(body).calls[-1]
    assert last.security == bytes.fromhex("0100010002000000")


def test_an_identity_may_forbid_that_the_callee_adds_itself() -> None:
    with offline(identity=CallingAs(CLERK_SID, "orders\\clerk", forward=True)) as recorder:
        recorder.interface(IOrderSink).place_order(1, None, 0.0)
        found = recorded_call_security.decode(recorder.pending[0].security)
        recorder.discard()
    assert found.style == 2
    assert found.callers[0].account == "orders\\clerk"


@pytest.mark.spec("QC-119")
def test_two_recorders_of_one_class_make_two_messages() -> None:
    async def work(manager: Manager) -> None:
        one = aio.Recorder(QUEUE, class_id=ORDERS, manager=manager)
        two = aio.Recorder(QUEUE, class_id=ORDERS, manager=manager)
        one.interface(IOrderSink).place_order(1, None, 1.0)
        two.interface(IOrderSink).place_order(2, None, 1.0)
        one.interface(IOrderSink).place_order(3, None, 1.0)
        await two.close()
        await one.close()

    assert [len(recorded_call.decode(body).calls) for body in bodies(work)] == [1, 2]


@pytest.mark.spec("QC-122")
def test_in_the_immediate_mode_each_call_is_a_message_at_once() -> None:
    async def work(manager: Manager) -> None:
        async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager, mode="immediate") as recorder:
            orders = recorder.interface(IOrderSink)
            for number in range(3):
                waiting: Any = orders.place_order(number, None, 1.0)  # type: ignore[func-returns-value]
                await waiting
                assert len(await messages(manager)) == number + 1
                assert recorder.pending == ()

    found = bodies(work)
    assert [[signature for signature, _, _ in second.headers(body)] for body in found] == [
        [b"CHDR", b"SECD", b"METH"]] * 3  # fmt: skip
    with pytest.raises(ValueError):
        offline(mode="later")


@pytest.mark.spec("QC-006")
def test_the_queue_is_opened_to_send_shared_and_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(manager: Manager) -> None:
        opened: list[tuple[int, bool]] = []
        closed: list[Any] = []
        backend = manager.backend
        open_, close = backend.open, backend.close_handle

        def watched_open(name: str, access: int, exclusive: bool) -> Any:
            opened.append((access, exclusive))
            return open_(name, access, exclusive)

        def watched_close(handle: Any) -> Any:
            closed.append(handle)
            return close(handle)

        monkeypatch.setattr(backend, "open", watched_open)
        monkeypatch.setattr(backend, "close_handle", watched_close)
        await record(manager, 1)
        assert opened == [(2, False)]  # MQ_SEND_ACCESS, MQ_DENY_NONE
        assert len(closed) == 1

    bodies(work)


@pytest.mark.spec("QC-125", "QC-015")
def test_a_send_that_fails_says_so_and_loses_nothing() -> None:
    async def work(manager: Manager) -> None:
        recorder = aio.Recorder(r".\private$\nowhere", class_id=ORDERS, manager=manager)
        recorder.interface(IOrderSink).place_order(1, None, 1.0)
        with pytest.raises(QueueNotFound):
            await recorder.close()
        assert len(recorder.pending) == 1
        recorder.destination = QUEUE
        await recorder.close()
        large = aio.Recorder(QUEUE, class_id=ORDERS, manager=manager)
        for _ in range(5):
            large.interface(IOrderSink).place_order(1, "x" * (1 << 19), 1.0)
        with pytest.raises(MessageTooLarge):
            await large.close()
        large.discard()

    assert len(bodies(work)) == 1


@pytest.mark.spec("QC-125")
def test_acknowledgements_of_the_transport_report_the_transfer() -> None:
    async def work(manager: Manager) -> Any:
        admin = r".\private$\acknowledgements"
        await manager.create_queue(admin)
        wanted: dict[str, Any] = {"acknowledge": int(lior.Acknowledgements.FULL_REACH_QUEUE),
                  "administration_queue": rf"DIRECT=OS:{admin}"}  # fmt: skip
        async with aio.Recorder(QUEUE, class_id=ORDERS, manager=manager, **wanted) as recorder:
            recorder.interface(IOrderSink).place_order(1, None, 1.0)
        return [message.message_class for message in await messages(manager, admin)]

    assert run(work, transactional=False) == [lior.MessageClass.ACK_REACH_QUEUE]


PROPERTIES: dict[str, Any] = {
    "priority": 7, "label": "orders of today", "application_tag": 77, "journal": True, "dead_letter": True,
    "time_to_reach_queue": 60, "time_to_be_received": 600, "administration_queue": r"DIRECT=OS:.\private$\acks",
    "acknowledge": 5, "recoverable": True, "correlation_id": bytes(range(20)), "tracing_requested": True,
}  # fmt: skip


@pytest.mark.spec("QC-010")
@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_every_property_of_messages_can_be_chosen(name: str) -> None:
    async def work(manager: Manager) -> Any:
        await record(manager, 1, **{name: PROPERTIES[name]})
        return (await messages(manager))[0]

    message = run(work, transactional=False)
    fields = {"journal": "positive_journaling_requested", "dead_letter": "negative_journaling_requested",
              "acknowledge": "acknowledgements_requested", "recoverable": "is_recoverable"}  # fmt: skip
    assert getattr(message, fields.get(name, name)) == PROPERTIES[name]


@pytest.mark.spec("QC-003", "QC-002")
def test_in_the_packet_the_extension_stands_behind_its_size_between_label_and_body() -> None:
    async def work(manager: Manager) -> Any:
        await record(manager, 1, label="odd")
        return (await messages(manager))[0]

    message = run(work, transactional=False)
    packet = to_user_message(as_sent(message, f"DIRECT=OS:{QUEUE}", UUID(int=1), False)).encode()
    label = "odd\0".encode("utf-16-le")
    assert label + EXTENSION + message.body in bytes(packet)
    properties = bytes(packet).index(label) - 56  # MessagePropertiesHeader
    assert bytes(packet)[properties + 52:properties + 56] == (0x10).to_bytes(4, "little")


@pytest.mark.spec("QC-010")
def test_signature_hash_connector_and_lifetime_are_chosen_like_the_rest() -> None:
    identity = lior.Identity.create("clerk", sid=CLERK, hash_algorithm=lior_message.HashAlgorithm.SHA256)
    recorder = offline(sign=identity, connector_type=UUID(int=9), privacy="advanced", express=True)
    sent = recorder._properties
    assert (sent["sign"], sent["connector_type"], sent["privacy"], sent["express"]) == (
        identity, UUID(int=9), "advanced", True)  # fmt: skip

    async def work(manager: Manager) -> Any:
        await record(manager, 1, connector_type=UUID(int=9), express=True)
        return (await messages(manager))[0]

    message = run(work, transactional=False)
    assert (message.connector_type, message.is_recoverable) == (UUID(int=9), False)


@pytest.mark.spec("QC-009")
def test_messages_are_not_signed_unless_asked_and_never_in_a_workgroup() -> None:
    async def work(manager: Manager) -> Any:
        await record(manager, 1, workgroup=True)
        return (await messages(manager))[0]

    message = run(work)
    security = message.security or MessageSecurity()
    assert (security.authentication_level, security.signature) == (0, b"")
    assert security.sender_identifier_type == 0
    with pytest.raises(IllegalPropertyValue):
        offline(workgroup=True, sign=object())


@pytest.mark.spec("QC-008")
def test_a_transaction_of_the_caller_carries_the_message() -> None:
    async def work(manager: Manager) -> Any:
        async with manager.transaction() as transaction:
            await record(manager, 1, transaction=transaction)
            await transaction.send(OUT, b"x")
            assert await messages(manager) == []
        async with manager.transaction() as transaction:
            await record(manager, 2, transaction=transaction)
            await transaction.abort()
        return len(await messages(manager)), len(await messages(manager, OUT))

    assert run(work) == (1, 1)


def test_a_recorder_that_is_dropped_with_calls_warns() -> None:
    recorder = offline()
    recorder.interface(IOrderSink).place_order(1, None, 1.0)
    with pytest.warns(ResourceWarning, match="dropped with 1 calls"):
        recorder.__del__()
    recorder.discard()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recorder.__del__()


def test_a_closed_recorder_records_no_more() -> None:
    with offline() as recorder:
        orders = recorder.interface(IOrderSink)
    with pytest.raises(InvalidHandle):
        orders.place_order(1, None, 1.0)


def test_a_message_has_at_most_ten_thousand_calls() -> None:
    with offline(identity=ANONYMOUS) as recorder:
        orders = recorder.interface(IOrderSink)
        for _ in range(10_000):
            orders.place_order(1, None, 1.0)
        with pytest.raises(NotQueueable):
            orders.place_order(1, None, 1.0)
        recorder.discard()


# ---- the dispatch form ----------------------------------------------------------------------------------------------


@interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f34}", base="IDispatch")
class IDesk:
    @dispid(7)
    def ship(self, what: str, weight: ByRef[float], quantities: list[Long]) -> None: ...

    @dispid(9)
    @propput
    def priority(self, value: Long) -> None: ...

    @dispid(10)
    def note(self, text: str, colour: Any = MISSING, size: Short = 5) -> None: ...

    @dispid(11)
    def log(self, text: str, *more: Any) -> None: ...

    @dispid(12)
    def localised(self, text: str, lcid: Locale) -> None: ...

    def plain(self, number: Long) -> None: ...


def invocations(recorder: Recorder) -> list[Any]:
    found = [read_invocation(AutomationReader(call.data)) for call in recorder.pending]
    assert all(call.interface_id == IID_IDISPATCH and call.method_number == 6 for call in recorder.pending)
    recorder.discard()
    return found


@pytest.mark.spec("QC-097", "QC-099", "QC-100", "QC-101", "QC-103", "QC-138")
def test_late_bound_calls_are_recorded_as_the_dispatch_example_has_them() -> None:
    with offline(identity=CLERK_SID, partition=GLOBAL_PARTITION) as recorder:
        desk = recorder.dispatch(IDesk)
        weight = 3.25
        desk.Ship("Zoë", weight, [1, 2, 3])
        desk.Priority = 4
        assert weight == 3.25
        message = recorded_call.RecordedMessage(recorder.class_id, recorder.pending, GLOBAL_PARTITION)
        recorder.discard()
    assert recorded_call.encode(message) == D


@pytest.mark.spec("QC-105")
def test_names_are_looked_up_here_without_case_and_questions_are_never_recorded() -> None:
    with offline() as recorder:
        desk = recorder.dispatch(IDesk)
        for name in ("Ship", "ship", "SHIP"):
            getattr(desk, name)("x", 1.0, [])
        assert {found.dispid for found in invocations(recorder)} == {7}
        for name in ("GetTypeInfo", "GetTypeInfoCount", "GetIDsOfNames", "Invoke", "QueryInterface", "Nothing",
                     "plain"):  # fmt: skip
            with pytest.raises(NotQueueable):
                getattr(desk, name)
        with pytest.raises(NotQueueable):
            desk.ship = 1
        assert recorder.pending == ()


@pytest.mark.spec("QC-104")
def test_what_is_left_out_is_sent_as_a_default_or_as_the_marker() -> None:
    with offline() as recorder:
        desk = recorder.dispatch(IDesk)
        desk.note("a")
        desk.note("a", "red", 6)
        desk.note("a", size=7)
        first, both, named = invocations(recorder)
    marker = Variant(10, 0x80020004)
    assert first.arguments == (Variant(2, 5), marker, Variant(8, "a"))
    assert both.arguments == (Variant(2, 6), Variant(8, "red"), Variant(8, "a"))
    assert named.arguments == (Variant(2, 7), marker, Variant(8, "a"))


@pytest.mark.spec("QC-104")
def test_further_arguments_go_into_one_array_and_the_locale_into_its_field() -> None:
    with offline(lcid=0x0800) as recorder:
        desk = recorder.dispatch(IDesk)
        desk.log("a", 1, "two")
        desk.log("b")
        desk.localised("c", 0x0407)
        desk.note("d")
        some, none, localised, usual = invocations(recorder)
    assert [variant.value for variant in some.arguments[0].value.elements] == [1, "two"]
    assert some.arguments[0].vt == 0x200C
    assert len(none.arguments[0].value.elements) == 0
    assert (localised.lcid, len(localised.arguments)) == (0x0407, 1)
    assert usual.lcid == 0x0800


@pytest.mark.spec("QC-102")
def test_a_recorder_wants_nothing_back() -> None:
    with offline() as recorder:
        recorder.dispatch(IDesk).note("a")
        (found,) = invocations(recorder)
    assert found.flags == 0xE0001
    assert found.lcid == 0x0409


@pytest.mark.spec("QC-101")
def test_a_method_with_references_has_no_form_of_its_own() -> None:
    with offline() as recorder:
        with pytest.raises(AttributeError):
            recorder.interface(IDesk).ship("x", 1.0, [])
        with pytest.raises(NotQueueable):
            recorder.interface(IDesk).note("x")
        assert recorder.pending == ()


# ---- destinations ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("QC-012", "QC-013")
def test_default_queues_are_private_in_a_workgroup_and_public_with_a_directory() -> None:
    assert default_queue("Orders", "SRV01.example.com") == r"srv01\PRIVATE$\Orders"
    assert default_queue("My Orders") == r".\PRIVATE$\My Orders"
    assert default_queue("Orders", "SRV01.example.com", directory=True) == r"srv01\Orders"


@pytest.mark.spec("QC-012")
def test_the_default_queue_is_found_in_any_case() -> None:
    async def work(manager: Manager) -> int:
        async with aio.Recorder(default_queue("oRDERS"), class_id=ORDERS, manager=manager) as recorder:
            recorder.interface(IOrderSink).place_order(1, None, 1.0)
        return len(await messages(manager))

    assert run(work) == 1


def test_the_string_for_a_queued_object_is_read() -> None:
    found = parse_moniker(f"queue:Priority=6,ComputerName=SRV01,QueueName=Orders,PrivLevel=BODY/new:{ORDERS}")
    assert found.queue == r"srv01\PRIVATE$\Orders"
    assert found.class_id == UUID(ORDERS)
    assert found.properties == {"priority": 6, "privacy": "advanced"}
    named = parse_moniker(r"Queue:PathName=srv\private$\q/new:Shop.Orders", {"shop.orders": ORDERS})
    assert (named.queue, named.class_id) == (r"srv\private$\q", UUID(ORDERS))
    direct = parse_moniker(rf"queue:FormatName=DIRECT=OS:srv\q,Journal=2,Delivery=express/new:{ORDERS}")
    assert direct.queue == r"DIRECT=OS:srv\q"
    assert direct.properties == {"journaling": {"dead_letter": False, "journal": True}, "recoverable": False}
    for bad in ("", "queue:", "queue:/new:", f"queue:/new:{ORDERS}", f"new:{ORDERS}", "queue:QueueName=q/new:x",
                f"queue:QueueName=q,Colour=red/new:{ORDERS}", f"queue:QueueName=q,Priority=high/new:{ORDERS}"):
        with pytest.raises(BadConfiguration):
            parse_moniker(bad)


def test_a_recorder_can_be_made_of_that_string() -> None:
    async def work(manager: Manager) -> Any:
        text = rf"queue:PathName={QUEUE},Priority=6,Journal=2/new:{ORDERS}"
        async with aio.Recorder.of_moniker(text, manager=manager) as recorder:
            recorder.interface(IOrderSink).place_order(1, None, 1.0)
        return (await messages(manager))[0]

    message = run(work, transactional=False)
    assert (message.priority, message.positive_journaling_requested) == (6, True)


def test_a_callback_is_data_and_bad_data_is_refused() -> None:
    callback = Callback(QUEUE, UUID(ORDERS))
    assert Callback.load(callback.dump()) == callback
    for bad in (b"", b"{}", b'{"queue": 1, "class_id": "x"}', b"x" * 5000):
        with pytest.raises((LiorError, KeyError, ValueError)):
            Callback.load(bad)
