"""What every store does; the same tests run on each."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import InvalidParameter, LiorError, MessageStorageFailed, StoreUnusable
from lior.message import Message
from lior.queues.ports import (
    DeleteMessage,
    DeleteMessages,
    DeleteQueue,
    DeleteState,
    ExpectState,
    MoveMessage,
    Operation,
    PutMessage,
    PutQueue,
    PutState,
    SetCounts,
    StoredMessage,
)
from lior.store.memory import MemoryStore
from lior.store.sqlite import SqliteStore
from tests.store.messages import PRIORITY_3, full_message, put

AnyStore = SqliteStore | MemoryStore


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    opened: AnyStore = SqliteStore(tmp_path / "data") if request.param == "sqlite" else MemoryStore()
    yield opened
    opened.close()


def index(store: AnyStore) -> list[tuple[int, ...]]:
    return [tuple(entry) for entry in store.load_index()]


def lookups(store: AnyStore) -> list[tuple[int, int]]:
    return [(queue_id, lookup_id - PRIORITY_3) for queue_id, lookup_id, *_ in store.load_index()]


class TestConformance:
    def test_is_empty_at_first(self, store: AnyStore) -> None:
        assert index(store) == []
        assert store.load().queues == [] and store.load().state == {}
        assert store.fetch(1, 1) is None and store.scan(1, 0, 10) == []

    def test_gives_back_every_property_of_a_message(self, store: AnyStore) -> None:
        message = full_message()
        store.apply([PutMessage(3, PRIORITY_3 + 9, message, 1234.5, 99, 1, 2, 1230.25)])
        assert store.fetch(3, PRIORITY_3 + 9) == StoredMessage(PRIORITY_3 + 9, message, 1234.5, 1, 2, 1230.25)
        assert index(store) == [(3, PRIORITY_3 + 9, message.size, 99)]

    def test_does_not_share_the_message_with_whoever_put_it(self, store: AnyStore) -> None:
        message = Message(b"body", label="before")
        store.apply([PutMessage(1, 1, message, 0.0)])
        message.label = "after"
        stored = store.fetch(1, 1)
        assert stored is not None and stored.message.label == "before"
        stored.message.label = "mine"
        again = store.fetch(1, 1)
        assert again is not None and again.message.label == "before"

    def test_the_index_is_in_order_of_queue_and_lookup_id(self, store: AnyStore) -> None:
        store.apply([put(7, queue=2), put(1, queue=2), put(5, queue=1), PutMessage(1, 3 << 56 | 9, Message(), 0.0)])
        store.apply([put(3, queue=1)])
        assert [entry[:2] for entry in index(store)] == [
            (1, 3 << 56 | 9), (1, PRIORITY_3 + 3), (1, PRIORITY_3 + 5), (2, PRIORITY_3 + 1), (2, PRIORITY_3 + 7)]

    def test_scan_goes_on_after_a_lookup_id_and_stops_at_the_limit(self, store: AnyStore) -> None:
        store.apply([put(n) for n in range(1, 200)] + [put(500, queue=2)])
        found = store.scan(1, PRIORITY_3 + 10, 3)
        assert [stored.lookup_id - PRIORITY_3 for stored in found] == [11, 12, 13]
        assert found[0].message.body == b"body 11" and found[0].arrival_time == 1011.5
        assert len(store.scan(1, 0, 1000)) == 199
        assert store.scan(1, PRIORITY_3 + 199, 5) == [] and store.scan(1, 0, 0) == [] and store.scan(1, 0, -1) == []

    def test_delete_removes_one_message_and_ignores_one_that_is_gone(self, store: AnyStore) -> None:
        store.apply([put(n) for n in range(1, 140)])
        store.apply([DeleteMessage(1, PRIORITY_3 + n) for n in range(1, 139)] + [DeleteMessage(2, PRIORITY_3 + 139)])
        assert lookups(store) == [(1, 139)]

    def test_move_keeps_content_and_arrival_time(self, store: AnyStore) -> None:
        store.apply([put(1)])
        store.apply([MoveMessage(1, PRIORITY_3 + 1, 5, PRIORITY_3 + 1, 2, 3, 77.5)])
        assert store.fetch(1, PRIORITY_3 + 1) is None
        stored = store.fetch(5, PRIORITY_3 + 1)
        assert stored == StoredMessage(PRIORITY_3 + 1, Message(b"body 1"), 1001.5, 2, 3, 77.5)
        store.apply([MoveMessage(5, PRIORITY_3 + 1, 1, PRIORITY_3 + 4, 0, 4, 78.0, 2000.0)])
        stored = store.fetch(1, PRIORITY_3 + 4)
        assert stored is not None and stored.arrival_time == 2000.0 and lookups(store) == [(1, 4)]

    def test_move_and_counts_of_a_message_that_is_gone_do_nothing(self, store: AnyStore) -> None:
        store.apply([MoveMessage(1, 1, 2, 1, 0, 1, 0.0), SetCounts(1, 1, 5)])
        assert index(store) == []

    def test_a_move_in_place_changes_the_counts(self, store: AnyStore) -> None:
        store.apply([put(1)])
        store.apply([MoveMessage(1, PRIORITY_3 + 1, 1, PRIORITY_3 + 1, 1, 1, 5.0)])
        stored = store.fetch(1, PRIORITY_3 + 1)
        assert stored is not None and (stored.abort_count, stored.move_count, stored.last_move_time) == (1, 1, 5.0)

    def test_counts_are_kept(self, store: AnyStore) -> None:
        store.apply([put(1)])
        store.apply([SetCounts(1, PRIORITY_3 + 1, 3)])
        stored = store.fetch(1, PRIORITY_3 + 1)
        assert stored is not None and stored.abort_count == 3

    def test_queues_and_state_are_replaced_and_forgotten(self, store: AnyStore) -> None:
        store.apply([PutQueue(2, "private", "b", {"x": [1, None, "é"]}), PutQueue(1, "system", "a", {}),
                     PutState("counter", "lookup", b"\x01"), PutState("counter", "", b""), PutState("k", "x", b"y")])
        store.apply([PutQueue(2, "private", "c", {"x": 2}), PutState("counter", "lookup", b"\x02"),
                     DeleteState("k", "x"), DeleteState("k", "never")])
        loaded = store.load()
        assert loaded.queues == [PutQueue(1, "system", "a", {}), PutQueue(2, "private", "c", {"x": 2})]
        assert loaded.state == {("counter", "lookup"): b"\x02", ("counter", ""): b""}

    def test_deleting_a_queue_deletes_its_messages(self, store: AnyStore) -> None:
        store.apply([PutQueue(1, "private", "a", {}), put(1), put(2), put(3, queue=2)])
        store.apply([put(4), DeleteQueue(1), put(5)])
        assert store.load().queues == [] and lookups(store) == [(1, 5), (2, 3)]

    def test_operations_of_a_batch_take_effect_in_order(self, store: AnyStore) -> None:
        at = PRIORITY_3
        store.apply([put(1), MoveMessage(1, at + 1, 2, at + 1, 0, 1, 0.0), put(1), DeleteMessage(2, at + 1),
                     MoveMessage(1, at + 1, 2, at + 1, 0, 1, 0.0), SetCounts(2, at + 1, 4),
                     PutState("a", "b", b"1"), DeleteState("a", "b"), PutState("a", "b", b"2")])
        stored = store.fetch(2, at + 1)
        assert stored is not None and stored.abort_count == 4 and lookups(store) == [(2, 1)]
        assert store.load().state == {("a", "b"): b"2"}

    @pytest.mark.parametrize(("there", "expected"), [(b"1", b"1"), (b"2", b"1"), (b"1", None), (None, b"1"),
                                                     (None, None), (b"", None)])
    @pytest.mark.parametrize("together", [True, False])
    def test_a_batch_that_expects_another_state_is_refused_whole(
            self, store: AnyStore, there: bytes | None, expected: bytes | None, together: bool) -> None:
        earlier: list[Operation] = [DeleteState("a", "b") if there is None else PutState("a", "b", there)]
        batch: list[Operation] = [put(1), ExpectState("a", "b", expected), PutState("a", "b", b"3")]
        before = {} if there is None or together else {("a", "b"): there}
        if not together:
            store.apply(earlier)
        if there == expected:
            store.apply([*earlier, *batch] if together else batch)
            assert store.load().state == {("a", "b"): b"3"} and lookups(store) == [(1, 1)]
            return
        with pytest.raises(MessageStorageFailed):
            store.apply([*earlier, *batch] if together else batch)
        assert store.load().state == before and lookups(store) == []
        store.apply([put(1)])

    @pytest.mark.parametrize("bad", [
        [put(1)], [put(1, body=b"another size")], [put(9), put(9, body=b"another size")],
        [put(n) for n in range(70, 0, -1)],
        [MoveMessage(1, PRIORITY_3 + 2, 1, PRIORITY_3 + 1, 0, 1, 0.0)],
        [PutMessage(1, 50, Message(application_tag=-1), 0.0)], [PutMessage(1, 1 << 64, Message(), 0.0)],
        [PutQueue(1, "private", "x", {"x": {1, 2}})],
    ])
    def test_a_batch_that_cannot_be_applied_changes_nothing(self, store: AnyStore, bad: list[Operation]) -> None:
        store.apply([put(1), put(2), PutState("a", "b", b"1")])
        before = index(store)
        with pytest.raises(InvalidParameter):
            store.apply([put(20), PutState("a", "b", b"2"), DeleteMessage(1, PRIORITY_3 + 2), put(2), *bad])
        assert index(store) == before and store.load().state == {("a", "b"): b"1"}
        with pytest.raises(InvalidParameter):
            store.apply(bad)
        assert index(store) == before
        store.apply([put(30)])
        assert lookups(store) == [(1, 1), (1, 2), (1, 30)]

    def test_an_empty_batch_does_nothing(self, store: AnyStore) -> None:
        store.apply([])
        assert index(store) == []

    def test_holds_bodies_of_four_mebibytes_and_of_nothing(self, store: AnyStore) -> None:
        large = bytes(range(256)) * (1 << 14)
        store.apply([PutMessage(1, n, Message(large if n % 2 else b""), 0.0) for n in range(1, 6)])
        assert [len(stored.message.body) for stored in store.scan(1, 0, 9)] == [1 << 22, 0, 1 << 22, 0, 1 << 22]
        stored = store.fetch(1, 5)
        assert stored is not None and stored.message.body == large

    def test_fetch_sees_what_apply_has_committed_in_another_thread(self, store: AnyStore) -> None:
        for n in range(1, 30):
            writer = threading.Thread(target=store.apply, args=([put(n)],))
            writer.start()
            writer.join()
            assert store.fetch(1, PRIORITY_3 + n) is not None

    def test_maintenance_keeps_everything(self, store: AnyStore) -> None:
        store.apply([put(n, body=bytes(3000)) for n in range(1, 800)])
        store.apply([DeleteMessage(1, PRIORITY_3 + n) for n in range(1, 700)])
        store.maintain()
        store.maintain(idle=False)
        assert store.compact() >= 0
        assert len(lookups(store)) == 100 and len(store.scan(1, 0, 1000)) == 100

    def test_says_how_much_room_is_left(self, store: AnyStore) -> None:
        assert store.free_bytes() > 0

    def test_a_closed_store_refuses_everything(self, store: AnyStore) -> None:
        store.close()
        store.close()
        for call in (store.load, lambda: store.fetch(1, 1), lambda: store.apply([put(1)]), lambda: store.scan(1, 0, 1),
                     lambda: list(store.load_index()), store.maintain):
            with pytest.raises(StoreUnusable):
                call()

    def test_a_snapshot_opens_as_a_store_with_the_same_content(self, store: AnyStore, tmp_path: Path) -> None:
        store.apply([PutQueue(1, "private", "a", {"x": 1}), put(1), put(2), PutState("a", "b", b"1")])
        (tmp_path / "copy").mkdir()
        store.snapshot(str(tmp_path / "copy" / "store.db"))
        with pytest.raises(StoreUnusable, match="exists"):
            store.snapshot(str(tmp_path / "copy" / "store.db"))
        copy = SqliteStore(tmp_path / "copy", full_check=True)
        assert copy.load() == store.load() and index(copy) == index(store)
        assert copy.scan(1, 0, 10) == store.scan(1, 0, 10)
        copy.close()


positions = st.tuples(st.integers(1, 3), st.integers(1, 6))
operations = st.one_of(
    st.builds(lambda p, body: PutMessage(p[0], p[1], Message(body), 1.0), positions,
              st.sampled_from([b"", b"a", b"bc"])),
    st.builds(lambda p: DeleteMessage(*p), positions),
    st.builds(DeleteMessages, st.integers(1, 3), st.lists(st.integers(1, 6), min_size=1, max_size=4)),
    st.builds(lambda p, t, n: MoveMessage(p[0], p[1], t[0], t[1], n, n, float(n)), positions, positions,
              st.integers(0, 9)),
    st.builds(lambda p, n: SetCounts(p[0], p[1], n), positions, st.integers(0, 9)),
    st.builds(DeleteQueue, st.integers(1, 3)),
    st.builds(lambda q, n: PutQueue(q, "private", n, {}), st.integers(1, 3), st.sampled_from("ab")),
    st.builds(PutState, st.sampled_from("kl"), st.sampled_from("xy"), st.sampled_from([b"1", b"2"])),
    st.builds(DeleteState, st.sampled_from("kl"), st.sampled_from("xy")))


@given(batches=st.lists(st.lists(operations, max_size=12), max_size=6))
def test_any_batches_leave_both_stores_the_same(tmp_path_factory: pytest.TempPathFactory,
                                                batches: list[list[Operation]]) -> None:
    """The memory store does one operation after another; the other gathers and reorders them."""
    disk, memory = SqliteStore(tmp_path_factory.mktemp("data")), MemoryStore()
    try:
        for batch in batches:
            outcomes = []
            for store in (disk, memory):
                try:
                    store.apply(batch)
                    outcomes.append("applied")
                except LiorError as error:
                    outcomes.append(type(error).__name__)
            assert outcomes[0] == outcomes[1]
            assert index(disk) == index(memory) and disk.load() == memory.load()
            assert all(disk.scan(queue, 0, 99) == memory.scan(queue, 0, 99) for queue in (1, 2, 3))
    finally:
        disk.close()
