"""Examining and repairing stores that are really damaged: bits flipped, files cut, rows and trees broken."""

import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from lior.errors import LiorError, StoreCorrupt, StoreInUse, StoreUnusable, StoreVersion
from lior.message import Message
from lior.queues.ports import DeleteMessage, PutMessage, PutQueue, PutState
from lior.store import recovery
from lior.store.doctor import examine, repair
from lior.store.pages import PageFile
from lior.store.report import Report, Severity
from lior.store.schema import row_check
from lior.store.sqlite import SqliteStore
from tests.store.messages import PRIORITY_3, full_message, put

COUNT = 300


def body_of(n: int) -> bytes:
    return b"%06d" % n * (3 + n % 40 * (40 if n % 7 == 0 else 1))


def fill(directory: Path, *, close: bool = True) -> SqliteStore:
    """Messages 1 to COUNT, some with overflow pages; every third was deleted."""
    store = SqliteStore(directory)
    store.apply([PutQueue(1, "private", "orders", {"quota": 5}),
                 PutState("counter", "lookup", (70000).to_bytes(16, "little"))])
    store.apply([put(n, body=body_of(n)) for n in range(1, COUNT + 1)])
    store.apply([DeleteMessage(1, PRIORITY_3 + n) for n in range(3, COUNT + 1, 3)])
    if close:
        store.close()
    return store


KEPT = {n for n in range(1, COUNT + 1) if n % 3}


def numbers(directory: Path, *, times: bool = True) -> set[int]:
    """The messages of a store, each checked against what was put."""
    store = SqliteStore(directory, full_check=True)
    try:
        found = set()
        for stored in store.scan(1, 0, 1 << 20):
            n = stored.lookup_id - PRIORITY_3
            assert stored.message.body == body_of(n) and (not times or stored.arrival_time == 1000.5 + n)
            found.add(n)
        return found
    finally:
        store.close()


def quarantined(report: Report) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(Path(report.kept_in) / "quarantine.db")
    rows = connection.execute("SELECT q, l, reason, hdr, body FROM quarantine").fetchall()
    connection.close()
    return rows


def meddle(directory: Path, *statements: str) -> None:
    connection = sqlite3.connect(directory / "store.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def texts(report: Report) -> str:
    return "\n".join(map(str, report.findings))


def test_a_sound_store_has_no_findings_and_is_not_touched(tmp_path: Path) -> None:
    fill(tmp_path)
    before = (tmp_path / "store.db").read_bytes()
    report = examine(tmp_path)
    assert report.findings == [] and report.healthy and (report.messages, report.queues) == (len(KEPT), 1)
    assert repair(tmp_path).repaired is False
    assert (tmp_path / "store.db").read_bytes() == before and sorted(os.listdir(tmp_path)) == ["lock", "store.db"]


def test_examines_a_store_in_use_and_repairs_it_only_when_it_is_not(tmp_path: Path) -> None:
    store = fill(tmp_path, close=False)
    report = examine(tmp_path)
    assert report.healthy and f"process {os.getpid()}" in texts(report) and report.messages == len(KEPT)
    store.apply([put(1000, queue=77)])
    with pytest.raises(StoreInUse):
        repair(tmp_path)
    store.apply([put(1001)])
    assert store.fetch(1, PRIORITY_3 + 1001) is not None
    store.close()


def test_examines_the_log_of_a_process_that_died(tmp_path: Path) -> None:
    store = fill(tmp_path / "data", close=False)
    shutil.copytree(tmp_path / "data", tmp_path / "died")
    store.close()
    report = examine(tmp_path / "died")
    assert report.healthy and report.messages == len(KEPT)


@pytest.mark.parametrize(("statement", "severity", "says"), [
    ("UPDATE m SET q=9, k=0 WHERE id=1", Severity.ERROR, "position, times or counts"),
    ("UPDATE m SET hdr=x'0100000000' WHERE id=1", Severity.ERROR, "checksum"),
    ("UPDATE m SET a=a+1 WHERE id=1", Severity.ERROR, "position, times or counts"),
    ("DELETE FROM queue", Severity.WARNING, "no queue has this number"),
    ("UPDATE queue SET definition='{}'", Severity.ERROR, "definition of queue 1"),
    ("UPDATE state SET value=x'01'", Severity.ERROR, "state counter lookup"),
    ("INSERT INTO m SELECT 9999, q, l, n + 1, e, t, a, v, u, k, hdr, body FROM m WHERE id=1", Severity.ERROR,
     "two messages have this position"),
])
def test_finds_and_repairs_a_row_that_is_wrong(tmp_path: Path, statement: str, severity: Severity, says: str) -> None:
    fill(tmp_path)
    meddle(tmp_path, statement)
    report = examine(tmp_path)
    assert says in texts(report) and report.worst == severity
    assert all(finding.where and finding.remedy for finding in report.findings if finding.severity)
    repaired = repair(tmp_path)
    assert repaired.repaired and numbers(tmp_path) >= KEPT - {1}
    again = examine(tmp_path)
    assert again.healthy, texts(again)


def test_finds_lookup_ids_with_an_impossible_priority(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.apply([PutQueue(1, "private", "a", {}), PutMessage(1, 8 << 56, Message(), 0.0),
                 PutMessage(1, -5, Message(), 0.0)])
    store.close()
    assert texts(examine(tmp_path)).count("high byte") == 2


def test_lifts_a_counter_that_is_behind_the_ids_in_use(tmp_path: Path) -> None:
    fill(tmp_path)
    store = SqliteStore(tmp_path)
    store.apply([PutState("counter", "lookup", (10).to_bytes(16, "little"))])
    store.close()
    report = examine(tmp_path)
    assert not report.healthy and "counter lookup stands at 10" in texts(report)
    repair(tmp_path)
    store = SqliteStore(tmp_path)
    assert int.from_bytes(store.load().state["counter", "lookup"], "little") == COUNT - 1
    store.close()
    assert numbers(tmp_path) == KEPT and examine(tmp_path).healthy


def test_lists_the_first_of_many_alike_and_counts_the_rest(tmp_path: Path) -> None:
    fill(tmp_path)
    meddle(tmp_path, "DELETE FROM queue")
    report = examine(tmp_path)
    assert len(report.findings) == 21 and f"{len(KEPT) - 20} more" in texts(report)


def test_names_foreign_files_and_says_nothing_of_its_own(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "holiday.jpg").write_bytes(b"")
    (tmp_path / "admin.sock").write_bytes(b"")
    (finding,) = examine(tmp_path).findings
    assert finding.severity == Severity.NOTE and finding.where.endswith("holiday.jpg")


def test_a_directory_without_a_store_and_one_that_is_missing(tmp_path: Path) -> None:
    assert "no store file" in texts(examine(tmp_path))
    assert not examine(tmp_path / "missing").healthy
    with pytest.raises(StoreUnusable):
        repair(tmp_path / "missing")


@pytest.mark.spec("DM-144")
@pytest.mark.parametrize("share", [0.95, 0.6, 0.3])
def test_salvages_what_a_truncated_file_still_holds_and_names_the_rest(tmp_path: Path, share: float) -> None:
    fill(tmp_path)
    path = tmp_path / "store.db"
    os.truncate(path, int(path.stat().st_size * share))
    damaged = path.read_bytes()
    with pytest.raises(StoreCorrupt):
        SqliteStore(tmp_path)
    assert "cut off" in texts(examine(tmp_path))
    report = repair(tmp_path)
    found = numbers(tmp_path)
    assert found and found <= KEPT and (Path(report.kept_in) / "store.db").read_bytes() == damaged
    assert len(found) > len(KEPT) * share / 3 and report.messages == len(found)


@pytest.mark.spec("DM-144")
def test_flipped_bits_anywhere_never_bring_a_wrong_or_a_deleted_message_and_lose_none_silently(tmp_path: Path,
                                                                                               seed: int) -> None:
    fill(tmp_path / "sound")
    sound = (tmp_path / "sound" / "store.db").read_bytes()
    chance = random.Random(seed)
    for turn in range(60):
        directory = tmp_path / str(turn)
        directory.mkdir()
        data = bytearray(sound)
        for _ in range(chance.choice([1, 1, 3, 40])):
            page_header = chance.randrange(len(data) // 4096) * 4096 + chance.randrange(16)
            at = chance.choice([chance.randrange(len(data)), page_header])
            data[at] ^= 1 << chance.randrange(8)
        (directory / "store.db").write_bytes(data)
        report = repair(directory)
        if not report.repaired:  # the bits fell where nothing is kept
            assert numbers(directory) == KEPT, turn
            continue
        found = numbers(directory, times=False)
        assert found <= KEPT, turn
        if found != KEPT:
            assert report.lost or report.quarantined, turn
        assert examine(directory).healthy or "queue" in texts(examine(directory)), turn
        shutil.rmtree(directory)


def test_a_destroyed_page_costs_only_its_own_rows(tmp_path: Path) -> None:
    fill(tmp_path)
    path = tmp_path / "store.db"
    source = PageFile(path)
    victim = next(cell.page for cell in source.cells()
                  if cell.table and cell.values and len(cell.values) == 12 and cell.live and cell.page > 8)
    gone = {cell.values[2] - PRIORITY_3 for cell in source.cells()  # type: ignore[operator]
            if cell.page == victim and cell.values and cell.live}
    source.close()
    data = bytearray(path.read_bytes())
    data[(victim - 1) * 4096:victim * 4096] = os.urandom(4096)
    path.write_bytes(data)
    report = repair(tmp_path)
    assert numbers(tmp_path) == KEPT - gone and report.lost == len(gone)
    lost = sqlite3.connect(Path(report.kept_in) / "quarantine.db").execute("SELECT l FROM lost").fetchall()
    assert {lookup_id - PRIORITY_3 for (lookup_id,) in lost} == gone


@pytest.mark.parametrize("kept", [0, 16, 100])
def test_salvages_a_file_whose_header_is_gone(tmp_path: Path, kept: int) -> None:
    fill(tmp_path)
    path = tmp_path / "store.db"
    data = path.read_bytes()
    path.write_bytes(data[:kept] + bytes(4096 - kept) + data[4096:])
    assert not examine(tmp_path).healthy
    repair(tmp_path)
    assert numbers(tmp_path) == KEPT


def test_salvages_what_only_the_log_has(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data")
    store.close()
    store = fill(tmp_path / "data", close=False)
    shutil.copytree(tmp_path / "data", tmp_path / "died")
    store.close()
    with (tmp_path / "died" / "store.db").open("r+b") as file:
        file.write(bytes(4096))
    assert (tmp_path / "died" / "store.db-wal").stat().st_size
    report = repair(tmp_path / "died")
    assert numbers(tmp_path / "died") == KEPT and (Path(report.kept_in) / "store.db-wal").exists()


def test_a_damaged_row_goes_to_quarantine_with_what_is_left_of_it(tmp_path: Path) -> None:
    fill(tmp_path)
    path = tmp_path / "store.db"
    data = path.read_bytes()
    path.write_bytes(data.replace(body_of(4), b"X" + body_of(4)[1:]))
    report = repair(tmp_path)
    (row,) = quarantined(report)
    assert row[:2] == (1, PRIORITY_3 + 4) and isinstance(row[4], bytes) and len(row[4]) == len(body_of(4))
    assert numbers(tmp_path) == KEPT - {4} and report.lost == 1


def test_a_repair_cut_short_is_finished_by_the_next(tmp_path: Path) -> None:
    fill(tmp_path)
    os.rename(tmp_path / "store.db", tmp_path / recovery.REPAIRED_FILE)
    (tmp_path / "store.db").write_bytes(b"the damaged one")
    (tmp_path / "store.db-wal").write_bytes(b"and its log")
    with pytest.raises(StoreUnusable, match="repair"):
        SqliteStore(tmp_path)
    repair(tmp_path)
    assert numbers(tmp_path) == KEPT and sorted(os.listdir(tmp_path)) == ["lock", "store.db"]


def test_refuses_to_repair_a_damaged_store_of_an_older_version(tmp_path: Path) -> None:
    fill(tmp_path)
    meddle(tmp_path, "PRAGMA user_version=1", "DROP INDEX m_position")
    with pytest.raises(StoreVersion):
        repair(tmp_path)


def test_repeated_repairs_keep_every_damaged_file(tmp_path: Path) -> None:
    fill(tmp_path)
    for _ in range(2):
        meddle(tmp_path, "UPDATE m SET a=a+1 WHERE id=(SELECT min(id) FROM m)")
        repair(tmp_path)
    assert len([name for name in os.listdir(tmp_path) if name.startswith("damaged-")]) == 2


def test_every_property_survives_a_repair(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.apply([PutQueue(1, "private", "orders", {"x": 1}), PutState("a", "b", b"c"),
                 PutMessage(1, PRIORITY_3 + 1, full_message(), 12.5, 99, 1, 2, 3.5), put(2), put(3, queue=99)])
    before = (store.load(), store.scan(1, 0, 9), [tuple(entry) for entry in store.load_index()])
    store.close()
    assert repair(tmp_path).repaired  # because no queue has the number 99
    store = SqliteStore(tmp_path, full_check=True)
    state = store.load()
    assert state.state.pop(("counter", "lookup")) == (3).to_bytes(16, "little")
    assert (state, store.scan(1, 0, 9), [tuple(entry) for entry in store.load_index()]) == before
    store.close()


def test_the_page_reader_reads_any_bytes_without_an_untyped_error(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(40):
        (tmp_path / "store.db").write_bytes(chance.randbytes(chance.randrange(0, 5 * 4096)))
        try:
            repair(tmp_path)
        except LiorError:
            continue
        assert content_of(tmp_path) == []
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()


def content_of(directory: Path) -> list[object]:
    store = SqliteStore(directory)
    try:
        return list(store.load_index())
    finally:
        store.close()


def test_finds_a_size_that_is_not_the_messages(tmp_path: Path) -> None:
    fill(tmp_path)
    connection = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    connection.create_function("row_check", 8, row_check)
    connection.execute("UPDATE m SET n=n+1, k=row_check(q, l, n+1, e, t, a, v, u) WHERE id=1")
    connection.close()
    report = examine(tmp_path)
    assert "counts as" in texts(report) and report.worst == Severity.WARNING
    repair(tmp_path)
    assert examine(tmp_path).worst < Severity.WARNING and numbers(tmp_path) == KEPT


def test_a_message_whose_counts_are_damaged_keeps_its_place_and_is_reported(tmp_path: Path) -> None:
    fill(tmp_path)
    meddle(tmp_path, "UPDATE m SET v=v+1 WHERE id=1")
    report = repair(tmp_path)
    assert numbers(tmp_path) == KEPT and "times or counts may be wrong" in texts(report) and report.lost == 0
    assert examine(tmp_path).worst < Severity.WARNING and len(quarantined(report)) == 1
