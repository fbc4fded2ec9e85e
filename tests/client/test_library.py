"""The library as its users see it: every call of both faces, on a real data directory."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from uuid import UUID

import pytest

import lior
from lior.client import aio, sync
from lior.errors import (
    AccessDenied,
    IllegalPropertyValue,
    InvalidHandle,
    LiorError,
    MessageAlreadyReceived,
    MessageNotFound,
    QueueNotFound,
    SharingViolation,
    Timeout,
    TransactionSequence,
    UnsupportedFormatNameOperation,
)
from lior.message import Acknowledgements, Message, MessageClass, ObjectId
from tests.client.library_scenario import AUDIT, DEAD_TRANSACTIONAL, LEDGER, ORDERS, bodies


def test_the_example_of_the_readme_works(data: Path) -> None:
    with lior.open(data) as qm:
        qm.create_queue(r".\private$\orders", transactional=True, journal=True)
        with qm.transaction() as tx:
            tx.send(r".\private$\orders", b"...", label="order 1001")
        with qm.open_queue(r".\private$\orders") as q:
            message = q.receive(timeout=60)
        assert (message.body, message.label) == (b"...", "order 1001")
        assert bodies(qm, r".\private$\orders;JOURNAL") == [b"..."]


def test_the_sync_face_has_every_call_of_the_asyncio_face() -> None:
    for name in ("QueueManager", "Queue", "Cursor", "Transaction"):
        async_class, sync_class = getattr(aio, name), getattr(sync, name)
        for call, function in inspect.getmembers(async_class, inspect.isfunction):
            if call.startswith("_"):
                continue
            other = getattr(sync_class, call, None)
            assert other is not None, f"{name}.{call}"
            assert list(inspect.signature(other).parameters) == list(inspect.signature(function).parameters) or (
                "options" in inspect.signature(function).parameters
            ), f"{name}.{call}"


# Sending and receiving


def test_a_message_carries_every_property_it_was_sent_with(qm: lior.QueueManager) -> None:
    correlated = ObjectId(UUID(int=7), 9)
    sent = qm.send(
        ORDERS,
        "grüße",
        label="label",
        priority=6,
        recoverable=True,
        extension=b"extension",
        app_tag=17,
        correlation_id=correlated,
        class_=0x0041,
        acknowledge=Acknowledgements.FULL_RECEIVE,
        admin_queue=rf"DIRECT=OS:{ORDERS}",
        response_queue=rf"DIRECT=OS:{LEDGER}",
        time_to_be_received=3600,
        time_to_reach_queue=60,
        tracing_requested=True,
        tracing_queue=UUID(int=3),
        connector_type=UUID(int=4),
        journal=True,
        dead_letter=False,
    )
    message = qm.receive(ORDERS, 0)
    assert message.identifier == sent and message.id == str(sent)
    assert message.value() == "grüße"
    assert ObjectId.from_bytes(message.correlation_id) == correlated
    assert (message.label, message.priority, message.extension) == ("label", 6, b"extension")
    assert (message.application_tag, message.message_class, message.delivery_guarantee) == (17, 0x41, 1)
    assert (message.time_to_be_received, message.time_to_reach_queue) == (3600, 60)
    assert message.administration_queue == rf"DIRECT=OS:{ORDERS}"
    assert message.response_queue == rf"DIRECT=OS:{LEDGER}"
    assert (message.tracing_requested, message.tracing_queue) == (True, UUID(int=3))
    assert message.connector_type == UUID(int=4)
    assert (message.positive_journaling_requested, message.negative_journaling_requested) == (True, False)
    assert message.arrival_time >= message.sent_time > 0 and message.lookup_identifier
    assert qm.receive(ORDERS, 0).message_class == MessageClass.ACK_RECEIVE


@pytest.mark.parametrize("value", [b"bytes", "text", 5, 2.5, True])
def test_values_come_back_as_they_were_sent(qm: lior.QueueManager, value: object) -> None:
    qm.send(ORDERS, value)
    assert qm.receive(ORDERS, 0).value() == value


def test_a_formatter_can_be_named_or_given(qm: lior.QueueManager) -> None:
    qm.send(ORDERS, {"n": 1}, formatter="json")
    assert qm.receive(ORDERS, 0).value("json") == {"n": 1}


def test_the_order_is_by_priority_then_by_arrival(qm: lior.QueueManager) -> None:
    for number, priority in enumerate([3, 7, 0, 3, 7]):
        qm.send(ORDERS, b"%d" % number, priority=priority, recoverable=number % 2 == 0)
    with qm.open_queue(ORDERS) as q:
        assert [q.receive(0).body for _ in range(5)] == [b"1", b"4", b"0", b"3", b"2"]


def test_a_received_message_that_is_sent_on_is_a_new_message(qm: lior.QueueManager) -> None:
    qm.send(LEDGER, b"x", label="y")
    first = qm.receive(LEDGER, 0)
    assert first.transaction is not None
    second_id = qm.send(ORDERS, first)
    second = qm.receive(ORDERS, 0)
    assert second.identifier == second_id != first.identifier
    assert second.transaction is None and second.body == b"x" and second.label == "y"


def test_receive_and_peek_time_out(qm: lior.QueueManager) -> None:
    with qm.open_queue(ORDERS) as q:
        for read in (q.receive, q.peek):
            for timeout in (0, 0.01):
                with pytest.raises(Timeout):
                    read(timeout)
    with pytest.raises(Timeout):
        qm.receive(ORDERS, 0)


def test_an_open_queue_sends_peeks_purges_and_describes_itself(qm: lior.QueueManager) -> None:
    with qm.open_queue(ORDERS, "send") as q:
        q.send(b"one")
        q.send("two", label="2", recoverable=True)
        with pytest.raises(AccessDenied):
            q.receive(0)
    with qm.open_queue(ORDERS) as q:
        assert q.peek(0).body == b"one" == q.peek(0).body
        assert q.info().messages == 2 and q.info().readers == 1
        assert q.info().bytes == sum(message.size for message in q)
        q.purge()
        assert q.info().messages == 0


@pytest.mark.spec("DM-091", "SR-220")
@pytest.mark.parametrize(("name", "access"), [
    ("MULTICAST=234.1.1.1:8001", "receive"), ("MULTICAST=234.1.1.1:8001", "peek"),
    ("DIRECT=HTTP://elsewhere/msmq/private$/q", "receive"), ("DIRECT=HTTPS://elsewhere/msmq/private$/q", "peek"),
    (ORDERS + ";sub", "send"),
])  # fmt: skip
def test_a_kind_of_name_that_does_not_open_so_has_the_same_code_everywhere(
    qm: lior.QueueManager, name: str, access: str
) -> None:
    with pytest.raises(UnsupportedFormatNameOperation) as refused:
        qm.open_queue(name, access)
    assert refused.value.code == 0xC00E0020


def test_exclusive_opening_keeps_other_readers_out(qm: lior.QueueManager) -> None:
    with qm.open_queue(ORDERS, exclusive=True):
        with pytest.raises(SharingViolation):
            qm.open_queue(ORDERS)
        qm.send(ORDERS, b"x")
    assert qm.receive(ORDERS, 0).body == b"x"


@pytest.mark.spec("SR-043")
def test_text_for_the_soap_header_is_kept_with_the_message_and_well_formed(qm: lior.QueueManager) -> None:
    qm.send(ORDERS, b"x", soap_header='<mine xmlns="urn:m">ü</mine>')
    qm.send(ORDERS, b"y", soap_header="")
    received = [qm.receive(ORDERS, 30) for _ in range(2)]
    assert [message.soap_header for message in received] == ['<mine xmlns="urn:m">ü</mine>', ""]
    envelope_own = '<path xmlns="http://schemas.xmlsoap.org/rp/"/>'
    for wrong in ("a<b", "<a>", "</se:Header>", "<a:b/>", envelope_own, "<properties/>", "<!DOCTYPE a>", "\0", 7,
                  "<a>" + "b" * 33000 + "</a>", "</se:Header><se:Header>", "<?x y?>", "\ud800"):  # fmt: skip
        with pytest.raises(IllegalPropertyValue):
            qm.send(ORDERS, b"x", soap_header=wrong)
    assert bodies(qm, ORDERS) == []


# Cursors, lookups, correlation


def test_a_cursor_walks_the_queue_and_takes_what_it_stands_on(qm: lior.QueueManager) -> None:
    for number in range(4):
        qm.send(ORDERS, b"%d" % number)
    with qm.open_queue(ORDERS) as q, q.cursor() as cursor:
        assert cursor.current(0).body == b"0"
        assert cursor.next(0).body == b"1"
        assert cursor.receive(0).body == b"1"
        assert cursor.current(0).body == b"2"
        other = q.receive_by_lookup_id(cursor.current(0).lookup_identifier)
        assert other.body == b"2"
        with pytest.raises(MessageAlreadyReceived):
            cursor.current(0)
        assert cursor.next(0).body == b"3"
        with pytest.raises(Timeout):
            cursor.next(0)
    assert bodies(qm, ORDERS) == [b"0", b"3"]


def test_iterating_leaves_the_messages_in_the_queue(qm: lior.QueueManager) -> None:
    for number in range(150):
        qm.send(ORDERS, b"%d" % number)
    assert bodies(qm, ORDERS) == [b"%d" % number for number in range(150)] == bodies(qm, ORDERS)


def test_messages_are_found_by_lookup_id(qm: lior.QueueManager) -> None:
    for number in range(4):
        qm.send(ORDERS, b"%d" % number)
    with qm.open_queue(ORDERS) as q:
        ids = [message.lookup_identifier for message in q]
        assert q.peek_by_lookup_id(ids[1]).body == b"1"
        assert q.peek_by_lookup_id(ids[1], "next").body == b"2"
        assert q.peek_by_lookup_id(ids[1], "previous").body == b"0"
        assert q.peek_by_lookup_id(0, "first").body == b"0"
        assert q.receive_by_lookup_id(0, "last").body == b"3"
        assert q.receive_by_lookup_id(ids[1]).body == b"1"
        with pytest.raises(MessageNotFound):
            q.receive_by_lookup_id(ids[1])
        with pytest.raises(ValueError):
            q.receive_by_lookup_id(ids[2], "sideways")


def test_a_reply_is_found_by_the_identifier_of_its_request(qm: lior.QueueManager) -> None:
    request = qm.send(ORDERS, b"request")
    qm.send(ORDERS, b"other")
    qm.send(ORDERS, b"reply", correlation_id=request)
    with qm.open_queue(ORDERS) as q:
        assert q.receive_by_correlation_id(request, 0).body == b"reply"
        assert q.receive_by_id(request, 0).body == b"request"
        assert q.receive_by_id(str(q.peek(0).identifier).lower(), 0).body == b"other"
        with pytest.raises(Timeout):
            q.receive_by_correlation_id(request.to_bytes(), 0.01)


def test_a_receiver_waits_for_the_correlated_message_and_passes_over_the_others(data: Path) -> None:
    async def main() -> None:
        async with lior.aio.open(data) as qm:
            await qm.create_queue(ORDERS)
            wanted = ObjectId(UUID(int=1), 1)
            async with await qm.open_queue(ORDERS) as q:
                waiting = asyncio.create_task(q.receive_by_correlation_id(wanted, 5))
                await qm.send(ORDERS, b"other")
                await asyncio.sleep(0)
                await qm.send(ORDERS, b"wanted", correlation_id=wanted)
                assert (await waiting).body == b"wanted"
                assert [message.body async for message in q] == [b"other"]

    asyncio.run(main())


# Transactions


def test_a_transaction_commits_sends_and_receives_over_several_queues(qm: lior.QueueManager) -> None:
    qm.send(LEDGER, b"debit")
    with qm.transaction() as tx:
        assert tx.receive(LEDGER, 0).body == b"debit"
        tx.send(AUDIT, b"seen")
        tx.send(LEDGER, b"credit")
        assert bodies(qm, LEDGER) == bodies(qm, AUDIT) == []
    assert bodies(qm, LEDGER) == [b"credit"] and bodies(qm, AUDIT) == [b"seen"]


def test_an_exception_aborts_the_transaction(qm: lior.QueueManager) -> None:
    qm.send(LEDGER, b"debit")
    with pytest.raises(ZeroDivisionError), qm.transaction() as tx:
        tx.receive(LEDGER, 0)
        tx.send(AUDIT, b"never")
        raise ZeroDivisionError
    assert bodies(qm, AUDIT) == []
    with qm.open_queue(LEDGER) as q:
        assert q.peek(0).abort_count == 1


def test_a_transaction_ends_once(qm: lior.QueueManager) -> None:
    tx = qm.transaction()
    with pytest.raises(InvalidHandle):
        tx.send(LEDGER, b"too early")
    tx.begin()
    tx.send(LEDGER, b"x")
    assert [t["state"] for t in qm.transactions()] == ["active"]
    tx.abort()
    with pytest.raises(InvalidHandle):
        tx.commit()
    assert qm.transactions() == [] and bodies(qm, LEDGER) == []
    with qm.transaction() as tx:
        tx.send(LEDGER, b"y")
        tx.commit()
    assert bodies(qm, LEDGER) == [b"y"]


def test_reads_of_every_kind_join_a_transaction(qm: lior.QueueManager) -> None:
    request = ObjectId(UUID(int=1), 1)
    for number in range(4):
        qm.send(LEDGER, b"%d" % number, correlation_id=request if number == 2 else bytes(20))
    with qm.open_queue(LEDGER) as q, pytest.raises(ZeroDivisionError), qm.transaction() as tx:
        assert q.receive(0, transaction=tx).body == b"0"
        assert q.receive_by_lookup_id(0, "last", transaction=tx).body == b"3"
        assert q.receive_by_correlation_id(request, 0, transaction=tx).body == b"2"
        identifier = q.peek(0).identifier
        assert identifier is not None
        assert q.receive_by_id(identifier, 0, transaction=tx).body == b"1"
        raise ZeroDivisionError
    assert bodies(qm, LEDGER) == [b"0", b"1", b"2", b"3"]
    with qm.open_queue(LEDGER) as q, q.cursor() as cursor, qm.transaction() as tx:
        cursor.current(0)
        assert cursor.receive(0, transaction=tx).body == b"0"
    assert bodies(qm, LEDGER) == [b"1", b"2", b"3"]


def test_a_send_to_a_transactional_queue_is_a_transaction_of_its_own(qm: lior.QueueManager) -> None:
    qm.send(LEDGER, b"x")
    message = qm.receive(LEDGER, 0)
    assert message.transaction is not None
    assert message.transaction.first_in_transaction and message.transaction.last_in_transaction
    assert message.delivery_guarantee == 1 and qm.transactions() == []
    with pytest.raises(LiorError):
        qm.send(LEDGER, b"x", transactional=False)
    with pytest.raises(LiorError):
        qm.send(ORDERS, b"x", transactional=True)
    assert qm.transactions() == [] and bodies(qm, ORDERS) == []


def test_one_send_goes_to_several_queues_or_to_none(qm: lior.QueueManager) -> None:
    sent = qm.send([LEDGER, AUDIT], b"both")
    assert bodies(qm, LEDGER) == bodies(qm, AUDIT) == [b"both"]
    assert qm.receive(AUDIT, 0).identifier == sent
    with pytest.raises(LiorError):
        qm.send([LEDGER, ORDERS], b"mixed", transactional=True)
    with pytest.raises(QueueNotFound):
        qm.send([LEDGER, r".\private$\missing"], b"x")
    with qm.transaction() as tx:
        tx.send([LEDGER, AUDIT], b"in one")
    assert bodies(qm, LEDGER) == [b"both", b"in one"]


def test_a_prepared_transaction_survives_a_restart_and_is_decided_by_hand(data: Path) -> None:
    async def prepare() -> tuple[UUID, UUID]:
        async with lior.aio.open(data) as qm:
            await qm.create_queue(LEDGER, transactional=True)
            await qm.send(LEDGER, b"taken")
            identifiers = []
            backend = qm.backend
            for body in (b"committed", b"aborted"):
                identifier = backend.manager.begin(single_phase=False).identifier  # type: ignore[attr-defined]
                handle = await backend.open(f"DIRECT=OS:{LEDGER}", 0x02, False)
                await backend.send(handle, Message(body), identifier)
                if body == b"committed":
                    reader = await backend.open(f"DIRECT=OS:{LEDGER}", 0x01, False)
                    await backend.receive(reader, 0, transaction=identifier)
                await backend.engine.call(backend.manager.prepare, identifier)  # type: ignore[attr-defined]
                identifiers.append(identifier)
            return identifiers[0], identifiers[1]

    committed, aborted = asyncio.run(prepare())
    with lior.open(data) as qm:
        states = {UUID(t["identifier"]): t["state"] for t in qm.transactions()}
        assert states == {committed: "prepared", aborted: "prepared"}
        assert bodies(qm, LEDGER) == []
        qm.decide(committed, commit=True)
        qm.decide(aborted, commit=False)
        with pytest.raises(TransactionSequence):
            qm.decide(aborted, commit=True)
        assert bodies(qm, LEDGER) == [b"committed"] and qm.transactions() == []


# Subqueues, rejection, poison


def test_messages_move_into_a_subqueue_and_back(qm: lior.QueueManager) -> None:
    for number in range(3):
        qm.send(ORDERS, b"%d" % number, recoverable=True)
    with qm.open_queue(ORDERS) as q:
        message = q.peek(0)
        q.move(message, "later")
        assert bodies(qm, ORDERS) == [b"1", b"2"] and bodies(qm, ORDERS + ";later") == [b"0"]
        q.move(q.peek(0).lookup_identifier, "later")
    with qm.open_queue(ORDERS + ";later") as later:
        assert later.peek(0).lookup_identifier == message.lookup_identifier and later.peek(0).move_count == 1
        later.move(message, "")
        assert later.receive(0).body == b"1"
    assert bodies(qm, ORDERS) == [b"0", b"2"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_move_in_a_transaction_happens_with_it_and_keeps_the_message(qm: lior.QueueManager, commit: bool) -> None:
    qm.send(LEDGER, b"x")
    with qm.open_queue(LEDGER) as q:
        tx = qm.transaction().begin()
        q.move(q.peek(0), "held", transaction=tx)
        assert bodies(qm, LEDGER) == [] == bodies(qm, LEDGER + ";held")
        tx.commit() if commit else tx.abort()
    assert bodies(qm, LEDGER + (";held" if commit else "")) == [b"x"]
    assert bodies(qm, LEDGER + ("" if commit else ";held")) == []


def test_a_rejected_message_is_a_dead_letter_with_its_reason(qm: lior.QueueManager) -> None:
    qm.send(LEDGER, b"x")
    with qm.open_queue(LEDGER) as q, qm.transaction() as tx:
        q.reject(q.receive(0, transaction=tx), transaction=tx)
    with qm.open_queue(DEAD_TRANSACTIONAL) as dead:
        assert dead.receive(0).failure_reason == MessageClass.NACK_RECEIVE_REJECTED
    assert bodies(qm, LEDGER) == []


def test_a_message_aborted_too_often_goes_to_the_poison_subqueue(qm: lior.QueueManager) -> None:
    qm.set_queue(LEDGER, max_aborts=1)
    qm.send(LEDGER, b"x")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), qm.transaction() as tx:
            tx.receive(LEDGER, 0)
            raise ZeroDivisionError
    assert bodies(qm, LEDGER) == [] and bodies(qm, LEDGER + ";poison") == [b"x"]


def test_the_asyncio_face_does_what_the_sync_face_does(data: Path, tmp_path: Path) -> None:
    async def main() -> None:
        qm = await lior.aio.open(data)
        await qm.create_queue(LEDGER, transactional=True, journal=True)
        await qm.create_queue(ORDERS)
        assert await qm.exists(LEDGER) and not await qm.exists(r".\private$\missing")
        async with qm.transaction() as tx:
            sent = await tx.send([LEDGER], b"0", label="zero")
            await tx.send(LEDGER, {"n": 1})
        async with await qm.open_queue(LEDGER, "send") as q:
            await q.send("2")
        async with await qm.open_queue(LEDGER) as q:
            assert [message.label async for message in q] == ["zero", "", ""]
            async with await q.cursor() as cursor:
                assert (await cursor.current(0)).identifier == sent
                assert (await cursor.next(0)).value("json") == {"n": 1}
                assert (await cursor.receive(0)).value("json") == {"n": 1}
            last = await q.peek_by_lookup_id(0, "last")
            async with qm.transaction() as tx:
                await q.move(last, "later", transaction=tx)
            with pytest.raises(ZeroDivisionError):
                async with qm.transaction() as tx:
                    assert (await tx.receive(LEDGER, 0)).body == b"0"
                    raise ZeroDivisionError
            tx = await qm.transaction().begin()
            await q.reject(await q.receive_by_id(sent, 0, transaction=tx), transaction=tx)
            await tx.commit()
            assert (await q.info()).messages == 0 and (await q.info()).journal_messages == 1
            await q.purge()
        assert (await qm.receive(LEDGER + ";later", 0)).value() == "2"
        assert (await qm.queue(DEAD_TRANSACTIONAL)).messages == 1
        await qm.send(ORDERS, b"r", correlation_id=sent)
        async with await qm.open_queue(ORDERS) as q:
            assert (await q.peek(0)).body == b"r"
            assert (await q.receive_by_correlation_id(sent, 0)).body == b"r"
        security = await qm.get_security(ORDERS)
        await qm.set_security(ORDERS, security)
        await qm.set_queue(ORDERS, label="new")
        await qm.set_properties(queue_manager_quota=1 << 20)
        await qm.set_online(False)
        assert (await qm.properties())["connection_active"] is False
        await qm.send(r"DIRECT=OS:elsewhere.example\private$\x", b"", recoverable=True)
        await qm.pause(r"DIRECT=OS:elsewhere.example\private$\x")
        await qm.resume(r"DIRECT=OS:elsewhere.example\private$\x")
        await qm.backup(str(tmp_path / "backup.db"))
        assert await qm.compact() >= 0 and await qm.transactions() == []
        await qm.purge_queue(ORDERS)
        await qm.delete_queue(ORDERS)
        assert ORDERS.rpartition("\\")[2] not in [info.name for info in await qm.queues()]
        await qm.close()
        await qm.close()

    asyncio.run(main())
