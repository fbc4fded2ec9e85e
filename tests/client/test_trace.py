"""Where a message is, and what became of it, as the library tells it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import lior
from lior.client import trace
from lior.client.trace import TraceEntry
from lior.errors import AccessDenied, InvalidParameter, Malformed
from lior.message import Acknowledgements, MessageClass, ObjectId
from lior.queues.change import Change
from lior.queues.manager import QueueManager
from lior.queues.outgoing import ConnectionHistoryEntry, ConnectionStatus
from lior.security import local_caller
from lior.server.local import LocalBackend
from lior.store.fates import FATES_FILE
from tests.client.library_scenario import AUDIT, LEDGER, ORDERS

ELSEWHERE = r"DIRECT=TCP:192.0.2.9\private$\far"


def told(entries: list[TraceEntry]) -> list[str]:
    """What happened, then with an `=` where it is."""
    return [("=" if entry.current else "") + entry.what for entry in entries]


def local(qm: lior.QueueManager) -> LocalBackend[Any]:
    backend = qm.aio.backend
    assert isinstance(backend, LocalBackend)
    return backend


def identifier_of(tx: lior.Transaction) -> UUID:
    found = tx.aio.identifier
    assert found is not None
    return found


def on_loop(qm: lior.QueueManager, call: Callable[[QueueManager], Any]) -> Any:
    """Something of the queue manager itself, where it runs."""

    async def run() -> Any:
        return call(local(qm).manager)

    return qm._runner.call(run)


# Where it is


def test_a_message_that_waits(qm: lior.QueueManager) -> None:
    sent = qm.send(ORDERS, b"x", label="order 1001")
    past, now = qm.trace(sent)
    assert (past.what, past.queue, past.label, past.message) == ("sent", r"private$\orders", "order 1001", str(sent))
    assert (now.what, now.state, now.queue, now.current) == ("waiting", "available", r"private$\orders", True)
    assert now.lookup_id == past.lookup_id
    assert now.time == past.time
    assert now.text == r"in private$\orders, available"


@pytest.mark.parametrize("spelled", [str, lambda i: str(i).replace("{", "").replace("}", ""), lambda i: i,
                                     lambda i: str(i).lower()])  # fmt: skip
def test_the_identifier_may_be_written_as_people_do(
    qm: lior.QueueManager, spelled: Callable[[ObjectId], str | ObjectId]
) -> None:
    sent = qm.send(ORDERS, b"x")
    assert told(qm.trace(spelled(sent))) == ["sent", "=waiting"]


def test_an_express_message_is_only_in_memory_and_is_found_there(qm: lior.QueueManager) -> None:
    sent = qm.send(ORDERS, b"x", express=True)
    past, now = qm.trace(sent)
    assert past.express and now.express
    assert now.text == r"in private$\orders, available, in memory only"


def test_a_message_in_a_subqueue(qm: lior.QueueManager) -> None:
    sent = qm.send(LEDGER, b"x")
    with qm.open_queue(LEDGER, "move") as queue, qm.open_queue(LEDGER) as reader:
        queue.move(reader.peek(0), "later")
    entries = qm.trace(sent)
    assert told(entries) == ["sent", "moved", "=waiting"]
    assert entries[1].text == r"moved from private$\ledger to private$\ledger;later"
    assert entries[2].queue == r"private$\ledger;later"


def test_a_message_held_by_a_transaction(qm: lior.QueueManager) -> None:
    sent = qm.send(LEDGER, b"x")
    with qm.open_queue(LEDGER) as queue, qm.transaction() as tx:
        queue.receive(0, transaction=tx)
        now = qm.trace(sent)[-1]
        assert now.state == f"held by the active transaction {identifier_of(tx)}"


def test_a_message_that_a_reader_has_taken_and_not_confirmed(qm: lior.QueueManager) -> None:
    sent = qm.send(ORDERS, b"x")

    async def take() -> Any:
        backend = local(qm)
        return await backend.take(await backend.open(rf"DIRECT=OS:{ORDERS}", 1, False), 0)

    read = qm._runner.call(take)
    assert qm.trace(sent)[-1].state == "held by a reader that has not confirmed it"
    qm._runner.call(local(qm).end_take, read, True)
    assert told(qm.trace(sent)) == ["sent", "received"]


def test_a_message_that_its_transaction_has_not_sent_yet(qm: lior.QueueManager) -> None:
    with qm.transaction() as tx:
        sent = tx.send(LEDGER, b"x")
        (now,) = qm.trace(sent)
        assert (now.what, now.queue, now.current) == ("unsent", r"private$\ledger", True)
        assert now.state == f"held by the active transaction {identifier_of(tx)}"
    assert told(qm.trace(sent)) == ["sent", "=waiting"]


def test_a_message_of_a_prepared_transaction_also_after_a_restart(data: Path) -> None:
    with lior.open(data) as qm:
        qm.create_queue(LEDGER, transactional=True)

        async def prepare() -> ObjectId:
            backend = local(qm)
            identifier = await backend.begin()
            handle = await backend.open(rf"DIRECT=OS:{LEDGER}", 2, False)
            sent = await backend.send(handle, lior.Message(b"x"), identifier)
            await backend._call(backend.manager.prepare, identifier)
            return sent

        sent = qm._runner.call(prepare)
        assert "prepared transaction" in qm.trace(sent)[-1].state
    with lior.open(data) as qm:
        (now,) = qm.trace(sent)
        assert (now.what, now.queue) == ("unsent", r"private$\ledger")
        assert "prepared transaction" in now.state


def test_a_message_on_its_way_says_to_where_and_what_the_trouble_is(qm: lior.QueueManager) -> None:
    sent = qm.send(ELSEWHERE, b"x")

    def fail(manager: QueueManager) -> None:
        (queue,) = manager.core.outgoing.values()
        queue.next_hops = ("IP=192.0.2.9",)
        queue.record_connection(ConnectionHistoryEntry(ConnectionStatus.CONNECT_SOCKET_FAILURE, 0.0))

    on_loop(qm, fail)
    past, now = qm.trace(sent)
    assert past.text == f"put into the outgoing queue to {past.queue}"
    assert (now.what, now.queue_kind) == ("outgoing", "outgoing")
    assert now.detail == "inactive, next hop IP=192.0.2.9, last attempt: CONNECT_SOCKET_FAILURE"
    qm.pause(now.queue)
    assert qm.trace(sent)[-1].detail.startswith("paused")


def test_a_copy_for_each_of_several_destinations(qm: lior.QueueManager) -> None:
    qm.create_queue(r".\private$\second")
    sent = qm.send([ORDERS, r".\private$\second"], b"x")
    assert told(qm.trace(sent)) == ["sent", "sent", "=waiting", "=waiting"]


# What became of it


def test_a_message_that_was_received_and_its_journal_copy(qm: lior.QueueManager) -> None:
    sent = qm.send(AUDIT, b"x")
    qm.receive(AUDIT, 0)
    entries = qm.trace(sent)
    assert sorted(told(entries)) == ["=journal", "journaled", "received", "sent"]
    assert entries[-1].queue == r"private$\audit;JOURNAL"
    assert [entry.time for entry in entries[:-1]] == sorted(entry.time for entry in entries[:-1])


def test_an_aborted_receive_is_told_each_time_it_happens(qm: lior.QueueManager) -> None:
    sent = qm.send(LEDGER, b"x")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), qm.transaction() as tx, qm.open_queue(LEDGER) as queue:
            queue.receive(0, transaction=tx)
            raise ZeroDivisionError
    entries = qm.trace(sent)
    assert told(entries) == ["sent", "given back", "given back", "=waiting"]
    assert [entry.aborts for entry in entries] == [0, 1, 2, 2]
    assert "given back 2 times" in entries[-1].text


def test_a_message_that_aborts_moved_to_the_poison_subqueue(qm: lior.QueueManager) -> None:
    qm.set_queue(LEDGER, max_aborts=0)
    sent = qm.send(LEDGER, b"x")
    with pytest.raises(ZeroDivisionError), qm.transaction() as tx, qm.open_queue(LEDGER) as queue:
        queue.receive(0, transaction=tx)
        raise ZeroDivisionError
    entries = qm.trace(sent)
    assert told(entries)[-2:] == ["moved", "=waiting"]
    assert entries[-1].queue == r"private$\ledger;poison"


def test_a_message_that_expired_is_a_dead_letter_and_says_why(qm: lior.QueueManager) -> None:
    sent = qm.send(ORDERS, b"x", time_to_be_received=0)
    entries = qm.trace(sent)
    assert sorted(told(entries)) == ["=dead letter", "dead letter", "refused"]
    assert all(entry.reason == "NACK_RECEIVE_TIMEOUT" for entry in entries)
    assert "not received in time" in entries[-1].text


def test_a_purged_message_is_gone_and_the_record_says_so(qm: lior.QueueManager) -> None:
    sent = qm.send(ORDERS, b"x")
    qm.purge_queue(ORDERS)
    _, end = qm.trace(sent)
    assert (end.what, end.reason) == ("purged", "NACK_Q_PURGED")


def test_a_message_whose_queue_was_deleted(qm: lior.QueueManager) -> None:
    sent = qm.send(LEDGER, b"x")
    qm.delete_queue(LEDGER)
    entries = qm.trace(sent)
    assert told(entries) == ["sent", "dead letter", "deleted", "=dead letter"]
    assert entries[-1].queue == "system$;DEADXACT"


def test_a_message_that_its_receiver_rejected(qm: lior.QueueManager) -> None:
    sent = qm.send(LEDGER, b"x")
    with qm.transaction() as tx, qm.open_queue(LEDGER) as queue:
        queue.reject(queue.receive(0, transaction=tx), transaction=tx)
    entries = qm.trace(sent)
    assert "rejected" in told(entries)
    assert entries[-1].reason == "NACK_RECEIVE_REJECTED"


def test_acknowledgements_belong_to_the_message_they_speak_of(qm: lior.QueueManager) -> None:
    sent = qm.send(LEDGER, b"x", admin_queue=rf"DIRECT=OS:{ORDERS}", acknowledge=Acknowledgements.FULL_RECEIVE
                   | Acknowledgements.FULL_REACH_QUEUE)  # fmt: skip
    qm.receive(LEDGER, 0)
    entries = qm.trace(sent)
    answers = [(entry.current, entry.reason) for entry in entries if entry.what == "answer"]
    assert answers == [(False, "ACK_REACH_QUEUE"), (False, "ACK_RECEIVE"), (True, "ACK_REACH_QUEUE"),
                       (True, "ACK_RECEIVE")]  # fmt: skip
    assert {entry.message for entry in entries} == {str(sent)}
    qm.receive(ORDERS, 0)
    assert "answer received" in told(qm.trace(sent))


def test_an_acknowledgement_that_could_not_be_kept_is_told(qm: lior.QueueManager) -> None:
    sent = qm.send(ORDERS, b"x", admin_queue=rf"DIRECT=OS:{LEDGER}", acknowledge=Acknowledgements.FULL_REACH_QUEUE)
    entries = qm.trace(sent)
    assert told(entries) == ["sent", "answer dropped", "=waiting"] or told(entries) == [
        "answer dropped", "sent", "=waiting",
    ]  # fmt: skip
    (dropped,) = [entry for entry in entries if entry.what == "answer dropped"]
    assert "outside a transaction" in dropped.text


def test_a_message_of_another_queue_manager_names_it(qm: lior.QueueManager) -> None:
    there = UUID(int=77)

    def come(manager: QueueManager) -> None:
        message = lior.Message(b"x", delivery_guarantee=1, identifier=ObjectId(there, 3), source_queue_manager=there,
                               sent_time=manager.core.clock.wall(), label="from afar")  # fmt: skip
        change = Change()
        manager.sending.accept(manager.find_queue(ORDERS), message, None, change)
        refused = lior.Message(b"y", identifier=ObjectId(there, 4), source_queue_manager=there,
                               destination_queue=r"DIRECT=OS:.\private$\nothing")  # fmt: skip
        manager.removal.refuse(change, manager.find_queue(ORDERS), refused, MessageClass.NACK_BAD_DST_Q)
        manager.core.submit(change)

    on_loop(qm, come)
    past, _ = qm.trace(ObjectId(there, 3))
    assert (past.what, past.origin) == ("came", str(there).upper())
    (refused,) = qm.trace(ObjectId(there, 4))
    assert refused.text == (
        r"refused: the queue does not exist (NACK_BAD_DST_Q); it was for DIRECT=OS:.\private$\nothing"
    )


def test_what_the_next_hop_said_is_told(qm: lior.QueueManager) -> None:
    sent = qm.send(ELSEWHERE, b"x")

    def hand_over(manager: QueueManager) -> None:

        (queue,) = manager.core.outgoing.values()
        first = queue.available.first()
        assert first is not None and manager.core.fates is not None
        position = queue.position(first, manager.core.store)
        queue.lock(position, "a link")
        manager.core.fates.handed(position, "192.0.2.9")

    def acknowledge(manager: QueueManager) -> None:
        (queue,) = manager.core.outgoing.values()
        (position,) = queue.locked_positions()
        change = Change()
        manager.removal.transferred(change, position)
        manager.core.submit(change)

    on_loop(qm, hand_over)
    entries = qm.trace(sent)
    assert told(entries) == ["queued", "handed", "=outgoing"]
    assert entries[1].text.startswith("handed to the next hop 192.0.2.9")
    assert entries[2].state == "sent, waits for its acknowledgement"
    on_loop(qm, acknowledge)
    assert told(qm.trace(sent)) == ["queued", "handed", "acknowledged"]


# Restarts


def test_the_record_outlives_the_queue_manager(data: Path) -> None:
    with lior.open(data) as qm:
        qm.create_queue(ORDERS)
        sent = qm.send(ORDERS, b"x")
        qm.receive(ORDERS, 0)
        kept = qm.send(ORDERS, b"y")
    with lior.open(data) as qm:
        assert told(qm.trace(sent)) == ["sent", "received"]
        assert told(qm.trace(kept)) == ["sent", "=waiting"]


def test_an_express_message_that_ended_with_its_queue_manager_is_said_to_have(data: Path) -> None:
    with lior.open(data) as qm:
        qm.create_queue(ORDERS)
        ended = qm.send(ORDERS, b"x", express=True)
        qm.send(ORDERS, b"y", express=True)
        received = qm.send(ORDERS, b"z", express=True, priority=7)
        qm.receive(ORDERS, 0)
    with lior.open(data) as qm:
        past, end = qm.trace(ended)
        assert (past.what, end.what) == ("sent", "ended")
        assert "lives in memory" in end.text
        assert told(qm.trace(received)) == ["sent", "received"]


def test_without_a_record_the_queues_are_still_searched(data: Path) -> None:
    with lior.open(data, record="off") as qm:
        qm.create_queue(ORDERS)
        sent = qm.send(ORDERS, b"x")
        assert told(qm.trace(sent)) == ["=waiting"]
        qm.receive(ORDERS, 0)
        assert qm.trace(sent) == []


def test_a_record_that_was_lost_says_so_and_the_queues_are_searched(data: Path) -> None:
    with lior.open(data) as qm:
        qm.create_queue(ORDERS)
        sent = qm.send(ORDERS, b"x")
    (data / FATES_FILE).write_bytes(b"garbage" * 1000)
    with lior.open(data) as qm:
        entries = qm.trace(sent)
    assert "=waiting" in told(entries)
    assert "gap" in told(entries)


# Searching


def test_a_label_finds_every_message_that_has_it_one_after_the_other(qm: lior.QueueManager) -> None:
    first = qm.send(ORDERS, b"x", label="same")
    second = qm.send(ORDERS, b"y", label="same")
    qm.send(ORDERS, b"z", label="same but longer")
    qm.receive(ORDERS, 0)
    entries = qm.trace(label="same")
    assert [(entry.message, entry.what) for entry in entries] == [
        (str(first), "sent"), (str(first), "received"), (str(second), "sent"), (str(second), "waiting"),
    ]  # fmt: skip


def test_a_correlation_id_finds_the_messages_that_have_it(qm: lior.QueueManager) -> None:
    request = ObjectId(UUID(int=9), 12)
    answer = qm.send(ORDERS, b"x", correlation_id=request)
    for spelled in (request, str(request), request.to_bytes()):
        assert {entry.message for entry in qm.trace(correlation_id=spelled)} == {str(answer)}


def test_nothing_known_is_an_empty_answer(qm: lior.QueueManager) -> None:
    assert qm.trace(ObjectId(UUID(int=1), 1)) == []
    assert qm.trace(label="nobody's") == []


@pytest.mark.parametrize("wanted", [{}, {"label": "x", "message_id": "y"}])
def test_one_thing_is_looked_for(qm: lior.QueueManager, wanted: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="one of"):
        qm.trace(**wanted)


@pytest.mark.parametrize("text", ["x", "{12}\\1", r"{00000000-0000-0000-0000-000000000001}", "1\\4294967296"])
def test_what_is_no_identifier_is_refused(qm: lior.QueueManager, text: str) -> None:
    with pytest.raises(Malformed):
        qm.trace(text)


def test_progress_is_told_to_who_wants_to_know(qm: lior.QueueManager) -> None:
    for _ in range(5):
        sent = qm.send(ORDERS, b"x")
    seen: list[tuple[int, int]] = []
    qm.trace(sent, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0


def test_only_who_may_look_into_dead_letters_and_journals_may_trace(qm: lior.QueueManager) -> None:
    sent = qm.send(ORDERS, b"x")

    async def ask() -> Any:
        stranger = local(qm).for_caller(local_caller(4711, [4711], is_administrator=False))
        return await stranger.trace(str(sent))

    with pytest.raises(AccessDenied):
        qm._runner.call(ask)


def test_a_search_holds_up_nobody(data: Path) -> None:
    """While the thread searches, the loop serves: a send made from within the search is on disk before it ends."""
    with lior.open(data) as qm:
        qm.create_queue(ORDERS)
        sent = qm.send(ORDERS, b"x")
        backend = local(qm)
        began, go_on = threading.Event(), threading.Event()
        search = backend._store.search

        def slow(wanted: Any) -> Iterator[Any]:
            began.set()
            assert go_on.wait(30)
            yield from search(wanted)

        backend._store.search = slow  # type: ignore[method-assign]

        async def both() -> list[TraceEntry]:
            tracing = asyncio.ensure_future(qm.aio.trace(sent))
            assert await asyncio.to_thread(began.wait, 30)
            await qm.aio.send(ORDERS, b"y")
            go_on.set()
            return await tracing

        assert told(qm._runner.call(both)) == ["sent", "=waiting"]
        assert qm.queue(ORDERS).messages == 2


def test_what_comes_while_the_queues_are_searched_is_told_with_where_it_is(data: Path) -> None:
    """The record is read after the search: it must not speak of arrivals that nothing is said to have become of."""
    with lior.open(data) as qm:
        qm.create_queue(ORDERS)
        qm.send(ORDERS, b"before", label="a")
        backend = local(qm)
        searched, go_on = threading.Event(), threading.Event()
        search = backend._store.search

        def ends_late(wanted: Any) -> Iterator[Any]:
            yield from search(wanted)
            searched.set()
            assert go_on.wait(30)

        backend._store.search = ends_late  # type: ignore[method-assign]

        async def meanwhile() -> list[TraceEntry]:
            tracing = asyncio.ensure_future(qm.aio.trace(label="a"))
            assert await asyncio.to_thread(searched.wait, 30)
            await qm.aio.send(ORDERS, b"there", label="a")
            await qm.aio.send(ORDERS, b"express", label="a", express=True)
            await qm.aio.send(ORDERS, b"moved", label="a")
            async with await qm.aio.open_queue(ORDERS, "peek") as queue:
                moved = [message async for message in queue][-1]
            async with await qm.aio.open_queue(ORDERS, "move") as queue:
                await queue.move(moved, "later")
            await qm.aio.send(ORDERS, b"about something else", label="b")
            first = await qm.aio.receive(ORDERS, 60)  # the one that the search found
            assert first is not None and first.body == b"before"
            go_on.set()
            return await tracing

        entries = qm._runner.call(meanwhile)
        assert told(entries) == [
            "sent", "received", "sent", "=waiting", "sent", "=waiting", "sent", "moved", "=waiting",
        ]  # fmt: skip
        assert [entry.queue for entry in entries if entry.current] == [
            r"private$\orders", r"private$\orders", r"private$\orders;later",
        ]  # fmt: skip
        assert len({entry.lookup_id for entry in entries if entry.current}) == 3


def test_every_entry_has_words_for_people(qm: lior.QueueManager) -> None:
    for current, table in ((True, trace._PLACES), (False, trace._EVENTS)):
        for what in table:
            entry = TraceEntry("id", what, 0.0, current, "queue", reason="NACK_Q_PURGED", detail="detail", count=3)
            assert " " in entry.text and entry.text != what
    assert TraceEntry("id", "fate 99", 0.0, queue="q").text == "fate 99 q"
    assert set(trace.REASONS) >= {each.name for each in MessageClass if each >= MessageClass.NACK_BAD_DST_Q}
