"""Batches of columns say what the messages say, whichever way they are made."""

import random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from lior.errors import LiorError
from lior.message import INFINITE, Message, MessageSecurity, MessageSoap, MessageTransaction, ObjectId
from lior.server.bulk.columns import Chunk, batch_of, schema
from lior.store.headers import grouped
from lior.store.record import decode, encode
from lior.wire import bulk
from lior.wire.bulk_rows import OF_MESSAGE, OF_ROW, StoredRow

ALL = tuple(bulk.COLUMNS)
QUEUE = r"private$\q"


def row_of(at: int, message: Message, header: bytes | None = None) -> tuple[Any, ...]:
    return (at + 1, message.size, at % 3 * 1000, 1_700_000_000.25 + at, at % 2, at % 5,
            encode(message) if header is None else header, message.body)  # fmt: skip


def chunk_of(rows: list[tuple[Any, ...]], bodies: bool = True) -> Chunk:
    shown = rows if bodies else [(*row[:-1], len(row[-1])) for row in rows]
    return Chunk(list(range(11, 11 + len(rows))), [(QUEUE, len(rows))], shown, bodies)


def expected(rows: list[tuple[Any, ...]], columns: tuple[str, ...]) -> pa.RecordBatch:
    """One message after the other, as slowly as can be."""
    stored = [StoredRow(11 + at, QUEUE, *row) for at, row in enumerate(rows)]
    messages: list[Message | None] = []
    errors: list[str | None] = []
    for each in stored:
        try:
            messages.append(decode(each.header, each.body))
            errors.append(None)
        except LiorError as error:
            messages.append(None)
            errors.append(str(error))
    arrays = []
    for field in schema(columns):
        if field.name == "_error":
            values: list[Any] = errors
        elif field.name in OF_ROW:
            values = [OF_ROW[field.name](each) for each in stored]
        else:
            get = OF_MESSAGE[field.name]
            values = [None if m is None else get(each, m) for each, m in zip(stored, messages, strict=True)]
        arrays.append(pa.array(values, field.type))
    return pa.record_batch(arrays, schema=schema(columns))


def usual(number: int) -> Message:
    return Message(b"body %d" % number, f"label {number}", priority=number % 8, delivery_guarantee=1,
                   negative_journaling_requested=True, destination_queue=r"DIRECT=OS:.\private$\q",
                   identifier=ObjectId(UUID(int=7 + number // 90), number), source_queue_manager=UUID(int=7),
                   sent_time=1_700_000_000.123456 + number)  # fmt: skip


def strange(chance: random.Random, number: int) -> Message:
    """Any of the fields, with values that lie at the edges of what they may be."""
    def one(*values: Any) -> Any:
        return chance.choice(values)

    guid = UUID(int=chance.getrandbits(128))
    return Message(
        one(b"", b"x" * 300, b"text"), one("", "plain", "ümläut", "half \ud800 of a pair", "x" * 249),
        one(0, 8, INFINITE),
        one(b"", b"ext", b"e" * 400), one(0, 7, INFINITE), one(bytes(20), b"c" * 20), one(0, 0x4000, 0x8001),
        priority=one(0, 3, 7), delivery_guarantee=one(0, 1), acknowledgements_requested=one(0, 15),
        positive_journaling_requested=one(False, True), negative_journaling_requested=one(False, True),
        time_to_reach_queue=one(0, 60, INFINITE), time_to_be_received=one(0, 60, INFINITE),
        administration_queue=one("", r"DIRECT=OS:a\private$\admin"), response_queue=one("", "DIRECT=OS:.\\private$\\ä"),
        destination_queue=one("", r"DIRECT=OS:b\q"), destination_multi_queue=one("", "DIRECT=OS:b\\q,DIRECT=OS:c\\q"),
        identifier=one(None, ObjectId(guid, number)), source_queue_manager=one(UUID(int=0), UUID(int=7), guid),
        sent_time=one(0.0, 0.5, 1_700_000_000.1234565), tracing_requested=one(False, True),
        connector_type=one(None, guid), hop_count=one(0, 15), failure_reason=one(0, 0x8002),
        failed_destination=one("", r"DIRECT=OS:d\q"), packet=one(b"", b"not a packet"),
        security=one(None, None, MessageSecurity(1, b"sid", b"cert", b"signature", authentication_level=3)),
        transaction=one(None, MessageTransaction(), MessageTransaction(guid, first_in_transaction=True),
                        MessageTransaction(guid, 5, 6, 7, 8, True, True, True, guid, "status")),
        soap=one(None, None, None, MessageSoap("<envelope/>")),
    )  # fmt: skip


def test_usual_messages_need_no_message_each() -> None:
    headers = [encode(usual(number)) for number in range(1000)]
    groups, alone = grouped(headers)
    assert not alone
    assert len(groups) <= 9  # priority 3 needs no field, and numbers have one to three digits
    rows = [row_of(number, usual(number)) for number in range(1000)]
    assert batch_of(chunk_of(rows), ALL).equals(expected(rows, ALL))


def test_whatever_fields_messages_have_their_columns_say_the_same(seed: int) -> None:
    chance = random.Random(seed)
    for size in (1, 2, 30, 400):
        rows = [row_of(at, strange(chance, at) if chance.random() < 0.7 else usual(at)) for at in range(size)]
        found = batch_of(chunk_of(rows), ALL)
        wanted = expected(rows, ALL)
        for name in ALL:
            assert found[name].to_pylist() == wanted[name].to_pylist(), name
        assert found.equals(wanted)


@pytest.mark.parametrize("bodies", [True, False], ids=["with bodies", "without bodies"])
def test_only_the_columns_that_are_wanted(seed: int, bodies: bool) -> None:
    chance = random.Random(seed)
    rows = [row_of(at, strange(chance, at)) for at in range(50)]
    names = tuple(name for name in ALL if bodies or name not in ("body", "raw", "_error"))
    for _ in range(30):
        columns = tuple(chance.sample(names, chance.randrange(1, 8)))
        assert batch_of(chunk_of(rows, bodies), columns).equals(expected(rows, columns)), columns


def test_a_damaged_row_says_so_and_spoils_no_other(seed: int) -> None:
    chance = random.Random(seed)
    whole = [encode(usual(number)) for number in range(300)]
    for _ in range(200):
        headers = list(whole)
        hit = chance.sample(range(300), 3)
        for at in hit:
            damaged = bytearray(headers[at])
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            headers[at] = bytes(damaged[: chance.choice([len(damaged), chance.randrange(len(damaged))])])
        rows = [row_of(at, usual(at), header) for at, header in enumerate(headers)]
        found = batch_of(chunk_of(rows), ALL)
        assert found.equals(expected(rows, ALL))
        assert sorted(hit) == [at for at, error in enumerate(found["_error"].to_pylist()) if error is not None]


def test_a_damaged_body_is_found_by_the_checksum() -> None:
    rows = [row_of(at, usual(at)) for at in range(20)]
    rows[7] = (*rows[7][:-1], b"another body")
    found = batch_of(chunk_of(rows), ALL)
    assert [at for at, error in enumerate(found["_error"].to_pylist()) if error is not None] == [7]
    assert found["label"][7].as_py() is None and found["body"][7].as_py() == b"another body"
