"""The record of fates on disk: what goes in comes out, within its bounds; damage and a full disk end in a gap."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.errors import StoreCorrupt
from lior.message import NULL_CORRELATION_ID, ObjectId
from lior.store.fate_chunks import CHUNK_ROWS, Chunk, FateRow, columns_of, pack
from lior.store.fates import DAMAGED_FATES_FILE, FATES_FILE, MOST_FOUND, FateLog, Gap
from lior.store.search import Wanted

GUID = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
OTHER = UUID(int=7)

texts = st.text(st.characters(blacklist_categories=()), max_size=20)  # lone surrogates too: labels come from UTF-16
ids = st.builds(ObjectId, st.sampled_from([GUID, OTHER, UUID(int=0)]), st.integers(0, 0xFFFFFFFF))
rows = st.builds(
    FateRow, st.integers(0, 255), st.floats(0, 1e11), texts, texts, ids, st.integers(0, (1 << 64) - 1),
    st.integers(0, 0xFFFFFFFF), texts, st.binary(min_size=20, max_size=20), texts,
)  # fmt: skip


def row(number: int, *, kind: int = 1, time: float = 1000.0, label: str = "", lineage: UUID = GUID) -> FateRow:
    return FateRow(kind, time, r"private$\q", "private", ObjectId(lineage, number), 4 << 56 | number, 0, label,
                   NULL_CORRELATION_ID, "")  # fmt: skip


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Callable[..., FateLog]:
    return lambda **options: FateLog(tmp_path, clock=clock, **options)


def numbers(kept: FateLog, *wanted: int) -> list[int]:
    return [found.identifier.uniquifier for number in wanted for found in kept.find(about(number)).rows]


def about(number: int) -> Wanted:
    return Wanted(ObjectId(GUID, number))


def chunks(directory: Path) -> list[int]:
    connection = sqlite3.connect(directory / FATES_FILE)
    try:
        return [count for (count,) in connection.execute("SELECT rows FROM chunk ORDER BY id")]
    finally:
        connection.close()


# Chunks


@given(st.lists(rows, max_size=40))
def test_rows_come_out_of_a_chunk_as_they_went_in(given_rows: list[FateRow]) -> None:
    chunk = Chunk(pack(columns_of(given_rows)))
    assert [chunk.row(at) for at in range(chunk.count)] == given_rows


@given(st.lists(rows, min_size=1, max_size=40), st.data())
def test_a_chunk_finds_the_rows_of_a_message_a_label_and_a_correlation_id(
    given_rows: list[FateRow], data: st.DataObject
) -> None:
    chunk = Chunk(pack(columns_of(given_rows)))
    one = data.draw(st.sampled_from(given_rows))
    answers = one.identifier.to_bytes()
    assert chunk.about(one.identifier) == [
        at for at, each in enumerate(given_rows) if each.identifier == one.identifier or each.correlation_id == answers
    ]
    if one.label:
        assert chunk.labelled(one.label) == [at for at, each in enumerate(given_rows) if each.label == one.label]
    if one.correlation_id != NULL_CORRELATION_ID:
        same = [at for at, each in enumerate(given_rows) if each.correlation_id == one.correlation_id]
        assert chunk.correlated(one.correlation_id) == same


def test_a_number_that_crosses_two_rows_is_not_taken_for_a_message() -> None:
    given_rows = [row(0x11223344), row(0x55667788)]
    chunk = Chunk(pack(columns_of(given_rows)))
    crossing = int.from_bytes((0x1122334455667788).to_bytes(8, "big")[2:6], "big")
    packed = b"".join(each.identifier.uniquifier.to_bytes(4, "little") for each in given_rows)
    assert chunk.about(ObjectId(GUID, int.from_bytes(packed[2:6], "little"))) == []
    assert chunk.about(ObjectId(GUID, crossing)) == []
    assert chunk.about(ObjectId(OTHER, 0x11223344)) == []


def test_a_chunk_without_its_head_is_refused() -> None:
    with pytest.raises(StoreCorrupt):
        Chunk(b"\1")


# The file


def test_what_was_recorded_is_found_again_after_the_file_was_closed(make: Callable[..., FateLog]) -> None:
    kept = make()
    kept.append(columns_of([row(1, label="one"), row(2), row(1, kind=3, time=1001.0)]))
    kept.close()
    again = make()
    assert [(found.kind, found.time) for found in again.find(about(1)).rows] == [(1, 1000.0), (3, 1001.0)]
    assert numbers(again, 2, 3) == [2]
    again.close()


def test_a_record_without_a_directory_lives_in_memory(tmp_path: Path) -> None:
    kept = FateLog(None)
    kept.append(columns_of([row(1)]))
    assert numbers(kept, 1) == [1]
    kept.close()
    assert not list(tmp_path.iterdir())


def test_the_file_is_for_its_owner_only(make: Callable[..., FateLog], tmp_path: Path) -> None:
    make().append(columns_of([row(1)]))
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.iterdir())


def test_a_label_gives_the_newest_messages_that_have_it_with_everything_about_them(
    make: Callable[..., FateLog],
) -> None:
    kept = make()
    kept.append(columns_of([row(number, label="same") for number in range(1, 6)]))
    kept.append(columns_of([row(5, kind=3), row(6, kind=3)]))
    found = kept.find(Wanted(label="same", limit=2)).rows
    assert [(each.identifier.uniquifier, each.kind) for each in found] == [(4, 1), (5, 1), (5, 3)]
    assert kept.find(Wanted(label="sam")).rows == []


def test_many_small_batches_end_up_in_few_chunks(make: Callable[..., FateLog], tmp_path: Path) -> None:
    kept = make()
    for number in range(200):
        kept.append(columns_of([row(number)]))
        if number == 120:  # also over a restart
            kept.close()
            kept = make()
    assert len(chunks(tmp_path)) < 40
    assert sum(chunks(tmp_path)) == 200
    assert numbers(kept, *range(200)) == list(range(200))


def test_chunks_that_are_large_stay_as_they_are(make: Callable[..., FateLog], tmp_path: Path) -> None:
    kept = make()
    for start in range(0, 4 * 2000, 2000):
        kept.append(columns_of([row(start + number) for number in range(2000)]))
    for number in range(40):
        kept.append(columns_of([row(9000 + number)]))
    assert chunks(tmp_path)[:4] == [2000] * 4
    assert numbers(kept, 0, 7999, 9000, 9039) == [0, 7999, 9000, 9039]


def test_the_oldest_rows_go_when_there_are_too_many(make: Callable[..., FateLog], tmp_path: Path) -> None:
    kept = make(most_rows=5000)
    for start in range(0, 20_000, 1000):
        kept.append(columns_of([row(start + number) for number in range(1000)]))
    assert 5000 <= sum(chunks(tmp_path)) <= 6000
    assert numbers(kept, 0, 19_999) == [19_999]
    kept.close()
    again = make(most_rows=5000)  # the bound holds over a restart
    again.append(columns_of([row(30_000)]))
    assert 5000 <= sum(chunks(tmp_path)) <= 6000


def test_rows_go_when_they_are_old_enough(make: Callable[..., FateLog], clock: Clock) -> None:
    kept = make(longest=100.0)
    kept.append(columns_of([row(number) for number in range(1500)]))
    clock.now = 1099.0
    kept.append(columns_of([row(2000, time=1099.0)]))
    assert numbers(kept, 1, 2000) == [1, 2000]
    clock.now = 1101.0
    kept.append(columns_of([row(2001, time=1101.0)]))
    assert numbers(kept, 1, 2000, 2001) == [2000, 2001]


def test_an_answer_has_a_bound(make: Callable[..., FateLog]) -> None:
    kept = make()
    for start in range(0, MOST_FOUND + CHUNK_ROWS, CHUNK_ROWS):
        kept.append(columns_of([row(1, time=float(start + number)) for number in range(CHUNK_ROWS)]))
    found = kept.find(about(1)).rows
    assert len(found) == MOST_FOUND
    assert found[-1].time > found[0].time > 0


# What is missing is told


def test_what_never_got_here_is_a_gap_in_its_place(make: Callable[..., FateLog]) -> None:
    kept = make()
    kept.append(columns_of([row(1)]))
    kept.append(columns_of([row(2, time=1005.0)]), 17)
    kept.lose(4)
    kept.close()
    assert make().find(about(1)).gaps == [Gap(1005.0, 17), Gap(1000.0, 4)]


def test_a_gap_survives_the_joining_of_small_chunks(make: Callable[..., FateLog]) -> None:
    kept = make()
    for number in range(100):
        kept.append(columns_of([row(number)]), 1)
    assert sum(gap.rows for gap in kept.find(about(1)).gaps) == 100


def test_a_row_that_no_column_can_hold_is_lost_and_nothing_else(make: Callable[..., FateLog]) -> None:
    kept = make()
    kept.append(columns_of([row(1)]))
    kept.append(columns_of([row(2)._replace(lookup_id=1 << 64)]))
    kept.append(columns_of([row(3)]))
    assert numbers(kept, 1, 2, 3) == [1, 3]
    assert [gap.rows for gap in kept.find(about(1)).gaps] == [1]


def spoil_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"garbage" * 100)


def spoil_pages(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 5000)


def flip_a_row(path: Path) -> None:
    """The tree is whole, the content is not what was written."""
    connection = sqlite3.connect(path)
    (data,) = connection.execute("SELECT data FROM chunk LIMIT 1").fetchone()
    changed = data[:20] + bytes([data[20] ^ 1]) + data[21:]
    connection.execute("UPDATE chunk SET data=? WHERE id=(SELECT min(id) FROM chunk)", (changed,))
    connection.commit()
    connection.close()


def another_database(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine(x)")
    connection.commit()
    connection.close()


def a_later_version(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()


def drop_the_table(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE chunk")
    connection.close()


SPOILERS = [spoil_header, spoil_pages, cut, another_database, a_later_version, drop_the_table]


@pytest.mark.parametrize("spoil", SPOILERS)
def test_a_damaged_record_is_put_aside_and_a_new_one_begun_with_a_warning(
    spoil: Callable[[Path], None], make: Callable[..., FateLog], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = make()
    kept.append(columns_of([row(number, label="x" * 50) for number in range(2000)]))
    kept.close()
    spoil(tmp_path / FATES_FILE)
    with caplog.at_level(logging.WARNING):
        again = make()
        found = again.find(about(1))
    assert found.rows == []
    assert found.gaps  # an answer from a record that lost something says so
    assert "a new one is begun" in caplog.text
    assert (tmp_path / DAMAGED_FATES_FILE).exists()
    again.append(columns_of([row(5)]))
    again.close()
    assert numbers(make(), 5) == [5]


@pytest.mark.parametrize("spoil", [spoil_pages, cut, flip_a_row])
def test_damage_that_shows_while_writing_goes_on_does_not_stop_it(
    spoil: Callable[[Path], None], make: Callable[..., FateLog], tmp_path: Path
) -> None:
    kept = make()
    kept.append(columns_of([row(number) for number in range(2000)]))
    kept.close()
    spoil(tmp_path / FATES_FILE)
    again = make()
    for number in range(5000, 5100):
        again.append(columns_of([row(number)]))
    assert numbers(again, 5099) == [5099]


def test_a_chunk_that_does_not_match_its_checksum_becomes_a_gap_and_the_others_stay(
    make: Callable[..., FateLog], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = make()
    for start in range(0, 6000, 2000):
        kept.append(columns_of([row(start + number) for number in range(2000)]))
    kept.close()
    flip_a_row(tmp_path / FATES_FILE)
    again = make()
    assert numbers(again, 1, 2001, 4001) == [2001, 4001]
    assert [gap.rows for gap in again.find(about(2001)).gaps] == [2000]
    assert "left out" in caplog.text
    assert not (tmp_path / DAMAGED_FATES_FILE).exists()


def test_a_place_where_nothing_can_be_written_costs_the_record_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FATES_FILE).mkdir()
    kept = FateLog(tmp_path)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            kept.append(columns_of([row(number)]))
    assert kept.lost == 3
    assert caplog.text.count("is not kept") == 1  # said once, not with every batch
    assert kept.find(about(1)).rows == []
    (tmp_path / FATES_FILE).rmdir()
    kept.append(columns_of([row(4)]))
    assert kept.lost == 0
    found = kept.find(about(4))
    assert ([each.identifier.uniquifier for each in found.rows], [gap.rows for gap in found.gaps]) == ([4], [3])


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b"")
    (tmp_path / FATES_FILE).symlink_to(target)
    kept = FateLog(tmp_path)
    kept.append(columns_of([row(1)]))
    assert kept.lost == 1
    assert target.read_bytes() == b""


def test_a_full_disk_leaves_a_gap_and_the_record_goes_on_when_there_is_room(
    make: Callable[..., FateLog], tmp_path: Path
) -> None:
    kept = make()
    kept.append(columns_of([row(1)]))
    assert kept._connection is not None
    (pages,) = kept._connection.execute("PRAGMA page_count").fetchone()
    kept._connection.execute(f"PRAGMA max_page_count={pages}")
    kept.append(columns_of([row(number, label="x" * 40) for number in range(2, 1002)]))
    assert kept.lost == 1000
    kept._connection.execute(f"PRAGMA max_page_count={1 << 30}")
    kept.append(columns_of([row(2000)]))
    assert numbers(kept, 1, 2, 2000) == [1, 2000]
    assert [gap.rows for gap in kept.find(about(1)).gaps] == [1000]
