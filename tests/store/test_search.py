"""Looking for messages in the whole store, by what their headers hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from lior.errors import StoreUnusable
from lior.message import Message, MessageClass, ObjectId
from lior.queues.ports import DeleteMessage, MoveMessage, PutMessage
from lior.store import search as searching
from lior.store.memory import MemoryStore
from lior.store.record import encoded_field
from lior.store.search import Place, Wanted
from lior.store.sqlite import SqliteStore

GUID = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
Store = SqliteStore | MemoryStore


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = SqliteStore(tmp_path) if request.param == "sqlite" else MemoryStore()
    yield made
    made.close()


def put(store: Store, number: int, queue_id: int = 1, **fields: object) -> ObjectId:
    identifier = ObjectId(GUID, number)
    message = Message(b"body", delivery_guarantee=1, identifier=identifier, sent_time=1.0)
    for name, value in fields.items():
        setattr(message, name, value)
    store.apply([PutMessage(queue_id, 4 << 56 | number, message, 1.5)])
    return identifier


def found(store: Store, wanted: Wanted) -> list[tuple[int, int]]:
    return [(place.queue_id, place.stored.lookup_id & 0xFFFF) for place in places(store, wanted)]


def places(store: Store, wanted: Wanted) -> list[Place]:
    return [place for step in store.search(wanted) for place in step.places]


def test_a_message_is_found_by_its_identifier_in_whatever_queue_it_is(store: Store) -> None:
    for number in range(1, 50):
        put(store, number, queue_id=number % 3 + 1)
    assert found(store, Wanted(ObjectId(GUID, 7))) == [(2, 7)]
    assert found(store, Wanted(ObjectId(GUID, 50))) == []
    assert found(store, Wanted(ObjectId(UUID(int=1), 7))) == []
    (place,) = places(store, Wanted(ObjectId(GUID, 7)))
    assert (place.stored.message.body, place.stored.arrival_time) == (b"body", 1.5)


def test_every_copy_is_found_and_one_that_was_removed_is_not(store: Store) -> None:
    identifier = put(store, 3)
    for number in (10, 11):
        store.apply([PutMessage(2, number, Message(identifier=identifier), 2.0)])
    store.apply([DeleteMessage(2, 10)])
    store.apply([MoveMessage(1, 4 << 56 | 3, 5, 4 << 56 | 3, 0, 1, 3.0)])
    assert sorted(found(store, Wanted(identifier))) == [(2, 11), (5, 3)]


def test_acknowledgements_of_a_message_are_found_with_it_and_other_answers_are_not(store: Store) -> None:
    identifier = put(store, 3)
    put(store, 4, correlation_id=identifier.to_bytes(), message_class=MessageClass.ACK_RECEIVE.value)
    put(store, 5, correlation_id=identifier.to_bytes())  # of an application: its own message
    assert sorted(found(store, Wanted(identifier))) == [(1, 3), (1, 4)]
    assert sorted(found(store, Wanted(correlation_id=identifier.to_bytes()))) == [(1, 4), (1, 5)]


@pytest.mark.parametrize("label", ["order 1001", "x", "ü" * 200, "half \ud83d", "a'b\"c\0d"])
def test_messages_are_found_by_their_label_and_no_part_of_it(store: Store, label: str) -> None:
    put(store, 1, label=label)
    put(store, 2, label=label + "2")
    put(store, 3, label="other", body=label.encode("utf-8", "surrogatepass"))
    put(store, 4, extension=encoded_field("label", label))
    assert found(store, Wanted(label=label)) == [(1, 1)]


def test_the_search_goes_in_bounded_steps_and_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "STEP", 10)
    with_rows = SqliteStore(tmp_path)
    for number in range(1, 96):
        put(with_rows, number)
    with_rows.apply([DeleteMessage(1, 4 << 56 | number) for number in range(1, 6)])
    steps = list(with_rows.search(Wanted(ObjectId(GUID, 95))))
    assert [(step.done, step.total) for step in steps] == [(done, 90) for done in range(10, 100, 10)]
    with_rows.close()


def test_what_comes_in_while_the_search_goes_on_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "STEP", 10)
    store = SqliteStore(tmp_path)
    for number in range(1, 31):
        put(store, number, label="seen" if number > 29 else "")
    steps = store.search(Wanted(label="seen"))
    next(steps)
    put(store, 40, label="seen")  # while a reader has the file open
    assert [place.stored.message.identifier for step in steps for place in step.places] == [
        ObjectId(GUID, 30), ObjectId(GUID, 40),
    ]  # fmt: skip
    store.close()


def test_an_empty_store_is_searched_at_once(store: Store) -> None:
    assert found(store, Wanted(label="x")) == []


def test_a_message_whose_record_is_damaged_is_shown_as_such(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    identifier = put(store, 1)
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE m SET body=x'00'")
    connection.close()
    (place,) = places(store, Wanted(identifier))
    assert "checksum" in place.damage
    store.close()


def test_a_store_that_stopped_is_not_searched(store: Store) -> None:
    store.close()
    search: Callable[[Wanted], Iterator[object]] = store.search
    with pytest.raises(StoreUnusable):
        list(search(Wanted(label="x")))
