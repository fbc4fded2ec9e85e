"""The SQLite store: files, versions, refusals, maintenance."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from lior.errors import LiorError, MessageStorageFailed, StoreCorrupt, StoreForeign, StoreUnusable, StoreVersion
from lior.message import Message
from lior.queues.ports import DeleteMessage, DeleteMessages, PutMessage, PutQueue, PutState
from lior.store import plan, recovery, schema
from lior.store.sqlite import SqliteStore
from tests.store.messages import PRIORITY_3, put


def fill(directory: Path, count: int = 50) -> None:
    store = SqliteStore(directory)
    store.apply([PutQueue(1, "private", "orders", {}), PutState("counter", "lookup", b"\xff\xff"),
                 *[put(n, body=bytes([n % 256]) * 900) for n in range(1, count + 1)]])
    store.close()


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "lock"}


def refused(directory: Path, kind: type[LiorError]) -> LiorError:
    """Open, expect this very error with a remedy, and nothing changed."""
    before = contents(directory)
    with pytest.raises(kind) as caught:
        SqliteStore(directory)
    assert type(caught.value) is kind and caught.value.remedy and caught.value.where
    assert contents(directory) == before
    return caught.value


def test_makes_the_directory_and_a_private_file_with_its_identity(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "a" / "b").close()
    path = tmp_path / "a" / "b" / "store.db"
    assert sorted(os.listdir(path.parent)) == ["lock", "store.db"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    head = path.read_bytes()[:100]
    assert head[68:72] == b"LIOR" and int.from_bytes(head[60:64], "big") == schema.VERSION
    assert int.from_bytes(head[64:68], "big") == 1  # incremental vacuum


def test_everything_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    fill(tmp_path)
    store = SqliteStore(tmp_path, full_check=True)
    assert len(list(store.load_index())) == 50 and store.load().queues[0].name == "orders"
    store.close()


def test_commits_with_full_synchronization_in_wal_mode(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._writer.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    store.close()


def test_the_reader_cannot_write(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    with pytest.raises(sqlite3.OperationalError):
        store._reader.execute("DELETE FROM m")
    store.close()


def test_does_not_make_a_store_when_asked_not_to(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable):
        SqliteStore(tmp_path, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("DM-144")
def test_refuses_a_file_that_is_not_sqlite(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"a letter to somebody" * 100)
    refused(tmp_path, StoreForeign)


def test_refuses_an_sqlite_file_of_another_application(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "store.db")
    other.executescript("PRAGMA application_id=77; CREATE TABLE m(x)")
    other.close()
    assert "0x0000004D" in refused(tmp_path, StoreForeign).what


def test_refuses_a_newer_version(tmp_path: Path) -> None:
    fill(tmp_path)
    newer = sqlite3.connect(tmp_path / "store.db")
    newer.execute(f"PRAGMA user_version={schema.VERSION + 1}")
    newer.close()
    refused(tmp_path, StoreVersion)


@pytest.mark.spec("DM-144")
@pytest.mark.parametrize("size", [0, 1, 50, 99, 100, 4096, 8192, -4096, -1])
def test_refuses_a_truncated_file(tmp_path: Path, size: int) -> None:
    fill(tmp_path)
    path = tmp_path / "store.db"
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)
    refused(tmp_path, StoreCorrupt)


def test_refuses_a_log_without_its_file(tmp_path: Path) -> None:
    (tmp_path / "store.db-wal").write_bytes(b"x" * 100)
    refused(tmp_path, StoreCorrupt)


def test_refuses_an_unfinished_repair(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / recovery.REPAIRED_FILE).write_bytes(b"x")
    refused(tmp_path, StoreUnusable)


def test_refuses_a_store_without_its_tables(tmp_path: Path) -> None:
    fill(tmp_path)
    broken = sqlite3.connect(tmp_path / "store.db")
    broken.execute("DROP TABLE state")
    broken.close()
    refused(tmp_path, StoreCorrupt)


def test_refuses_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnusable):
        SqliteStore(tmp_path / "file")
    with pytest.raises(StoreUnusable):
        SqliteStore(tmp_path / "file" / "below")


def test_refuses_a_directory_that_it_may_not_write(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    (tmp_path / "data" / "lock").unlink()
    before = contents(tmp_path / "data")
    program = ("import os, sys\nfrom lior.errors import LiorError\nfrom lior.store.sqlite import SqliteStore\n"
               "os.chdir(sys.argv[1])\nos.chmod('.', 0o555)\n"
               "if os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
               "try: SqliteStore('.')\nexcept LiorError as error: print(type(error).__name__, bool(error.remedy))\n")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "data")], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, check=False)
    os.chmod(tmp_path / "data", 0o755)
    assert done.stdout == "StoreUnusable True\n", done.stderr
    assert contents(tmp_path / "data") == before


def test_an_unnamed_new_file_is_thrown_away(tmp_path: Path) -> None:
    (tmp_path / recovery.NEW_FILE).write_bytes(b"half a store")
    SqliteStore(tmp_path).close()
    assert sorted(os.listdir(tmp_path)) == ["lock", "store.db"]


def old_store(path: Path) -> None:
    header = b"\x01" + zlib.crc32(b"B", zlib.crc32(b"\x01\x02hi", 1)).to_bytes(4, "little") + b"\x01\x02hi"
    script = Path(__file__).with_name("schema_1.sql").read_text().replace("CRC", header.hex())
    old = sqlite3.connect(path)
    old.executescript(script)
    old.close()


def test_brings_a_store_of_version_1_up_to_date(tmp_path: Path) -> None:
    old_store(tmp_path / "store.db")
    store = SqliteStore(tmp_path, full_check=True)
    stored = store.fetch(1, PRIORITY_3 + 7)
    assert stored is not None and stored.message == Message(b"B", label="hi")
    assert (stored.arrival_time, stored.abort_count, stored.move_count, stored.last_move_time) == (1000.5, 1, 2, 999.5)
    assert [tuple(entry) for entry in store.load_index()] == [(1, PRIORITY_3 + 7, 125, 0)]
    assert store.load().queues == [PutQueue(1, "private", "orders", {"transactional": True})]
    assert store.load().state == {("counter", "lookup"): b"\x07\x00"}
    store.apply([put(8)])
    store.close()
    fresh = SqliteStore(tmp_path / "fresh")
    both = [sqlite3.connect(path / "store.db").execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
            .fetchall() for path in (tmp_path, tmp_path / "fresh")]
    assert both[0] == both[1]
    fresh.close()


def test_a_migration_that_fails_leaves_the_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_store(tmp_path / "store.db")

    def fail_midway(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE state")
        connection.execute("SELECT * FROM nothing")

    monkeypatch.setitem(schema.MIGRATIONS, 1, fail_midway)
    with pytest.raises(StoreUnusable):
        SqliteStore(tmp_path)
    monkeypatch.undo()
    store = SqliteStore(tmp_path, full_check=True)
    assert store.load().state == {("counter", "lookup"): b"\x07\x00"}
    store.close()


@pytest.mark.spec("DM-144", "MQ-208")
def test_a_full_disk_refuses_the_batch_whole_and_the_store_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.apply([put(1), PutState("a", "b", b"1")])
    (pages,) = store._writer.execute("PRAGMA page_count").fetchone()
    store._writer.execute(f"PRAGMA max_page_count={pages + 2}")  # SQLite's own way to be full
    with pytest.raises(MessageStorageFailed) as caught:
        store.apply([put(2), DeleteMessage(1, PRIORITY_3 + 1), PutState("a", "b", b"2"), put(3, body=bytes(100_000))])
    assert caught.value.code == 0xC00E002A and caught.value.remedy
    with pytest.raises(MessageStorageFailed):
        store.apply([put(3, body=bytes(100_000))])
    assert len(list(store.load_index())) == 1 and store.load().state == {("a", "b"): b"1"}
    store.apply([DeleteMessage(1, PRIORITY_3 + 1)])
    store._writer.execute("PRAGMA max_page_count=1000000")
    store.apply([put(3, body=bytes(100_000))])
    assert [entry[1] for entry in store.load_index()] == [PRIORITY_3 + 3]
    store.close()


@pytest.mark.spec("DM-144")
def test_a_flipped_bit_in_a_body_is_an_error_and_not_a_message(tmp_path: Path) -> None:
    fill(tmp_path, 5)
    path = tmp_path / "store.db"
    data = path.read_bytes()
    body = b"\x03" * 900  # wherever it is: pages that split leave old copies behind
    path.write_bytes(data.replace(body, body[:450] + b"\x02" + body[451:]))
    store = SqliteStore(tmp_path)
    with pytest.raises(StoreCorrupt) as caught:
        store.fetch(1, PRIORITY_3 + 3)
    assert "queue 1" in caught.value.where and "lior doctor" in caught.value.remedy
    assert store.fetch(1, PRIORITY_3 + 2) is not None
    with pytest.raises(StoreCorrupt):
        store.scan(1, 0, 5)
    store.close()


@pytest.mark.spec("DM-144")
@pytest.mark.parametrize("change", [
    "UPDATE state SET value=x'00'", "UPDATE queue SET definition='{\"quota\":1}'", "UPDATE queue SET definition=x'00'"])
def test_damaged_definitions_and_state_stop_the_store(tmp_path: Path, change: str) -> None:
    fill(tmp_path, 1)
    meddler = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    meddler.execute(change)
    meddler.close()
    store = SqliteStore(tmp_path)
    with pytest.raises(StoreCorrupt):
        store.load()
    with pytest.raises(StoreUnusable):
        store.apply([put(9)])
    store.close()


@pytest.mark.spec("DM-144")
def test_an_index_entry_that_names_another_row_is_noticed(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    path = tmp_path / "store.db"
    data = bytearray(path.read_bytes())
    entries = [at for at in range(len(data)) if data[at:at + 8] == (PRIORITY_3 + 2).to_bytes(8, "big")]
    at = next(at for at in entries if data[at + 8:at + 10] == (120 + 900).to_bytes(2, "big") and data[at + 10] == 2)
    data[at + 10] = 1  # the rowid at the end of the index entry (q, l, n, e, rowid)
    path.write_bytes(data)
    store = SqliteStore(tmp_path)
    with pytest.raises(StoreCorrupt, match="do not match"):
        store.fetch(1, PRIORITY_3 + 2)
    store.close()
    with pytest.raises(StoreCorrupt):
        SqliteStore(tmp_path, full_check=True)


def test_damage_inside_a_tree_is_store_corrupt_and_ends_the_use(tmp_path: Path) -> None:
    fill(tmp_path, 500)
    store = SqliteStore(tmp_path)
    # In another process: a close of the file in this one would drop SQLite's locks.
    program = ("import os, sys\nfd = os.open(sys.argv[1], os.O_WRONLY)\n"
               "for page in range(6, os.fstat(fd).st_size // 4096): os.pwrite(fd, b'\\xff' * 8, page * 4096)")
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "store.db")], check=True)
    with pytest.raises(StoreCorrupt):
        store.scan(1, 0, 1000)
    with pytest.raises(StoreUnusable):
        store.apply([put(1000)])
    with pytest.raises(StoreUnusable):
        store.fetch(1, PRIORITY_3 + 1)
    store.close()


def test_another_program_that_locks_the_file_is_an_error_that_passes(tmp_path: Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "BUSY_TIMEOUT", 0.01)
    store = SqliteStore(tmp_path)
    meddler = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    meddler.execute("BEGIN IMMEDIATE")
    with pytest.raises(MessageStorageFailed, match="locked"):
        store.apply([put(1), PutState("a", "b", b"")])
    meddler.execute("ROLLBACK")
    meddler.close()
    store.apply([put(1)])
    store.close()


def test_replays_the_log_of_a_process_that_died(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data")
    store.apply([put(n) for n in range(1, 100)])
    shutil.copytree(tmp_path / "data", tmp_path / "died")  # what a crash would leave
    store.close()
    assert (tmp_path / "died" / "store.db-wal").stat().st_size
    survivor = SqliteStore(tmp_path / "died", full_check=True)
    assert len(survivor.scan(1, 0, 1000)) == 99
    survivor.close()


def test_a_torn_end_of_the_log_is_not_corruption(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data")
    store.apply([put(1)])
    size = (tmp_path / "data" / "store.db-wal").stat().st_size
    store.apply([put(2, body=bytes(20_000))])
    shutil.copytree(tmp_path / "data", tmp_path / "died")
    store.close()
    log = tmp_path / "died" / "store.db-wal"
    os.truncate(log, (size + log.stat().st_size) // 2)
    survivor = SqliteStore(tmp_path / "died", full_check=True)
    assert [stored.lookup_id for stored in survivor.scan(1, 0, 9)] == [PRIORITY_3 + 1]
    survivor.close()


def test_the_log_is_overwritten_in_place_after_a_checkpoint(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    log, sizes = tmp_path / "store.db-wal", []
    for round_number in range(6):
        for n in range(40):
            store.apply([PutMessage(1, round_number * 100 + n, Message(bytes(50_000)), 0.0)])
        for n in range(40):
            store.apply([DeleteMessage(1, round_number * 100 + n)])
        store.maintain()
        sizes.append(log.stat().st_size)
    assert sizes[-1] == max(sizes[:3])
    store.close()


def test_the_log_is_copied_while_commits_go_on_and_starts_over_after_that(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    log = tmp_path / "store.db-wal"
    for n in range(30):
        store.apply([PutMessage(1, n, Message(bytes(100_000)), 0.0)])
    copy = store._copier.copy

    def copy_while_somebody_writes() -> None:
        with store._writing:  # so no commit waits for it
            copy()
        store.apply([put(77)])

    store._copier.copy = copy_while_somebody_writes  # type: ignore[method-assign]
    assert store._log_bytes > 1 << 20
    store.copy_log()
    assert store.path.stat().st_size > 3_000_000
    store.maintain()
    assert store._log_bytes == 0
    size = log.stat().st_size
    store.apply([put(78)])
    assert log.stat().st_size == size
    assert len(store.scan(1, -1, 99)) == 32
    store.close()
    SqliteStore(tmp_path, full_check=True).close()


def test_a_checkpoint_that_finds_the_copier_at_work_is_tried_again(tmp_path: Path) -> None:
    class Busy:
        def execute(self, statement: str) -> "Busy":
            assert "wal_checkpoint" in statement
            return self

        def fetchone(self) -> tuple[int, int, int]:
            return 1, -1, -1  # what SQLite answers while another connection copies the log

    store = SqliteStore(tmp_path)
    store.apply([PutMessage(1, n, Message(bytes(1_000_000)), 0.0) for n in range(20)])
    writer, store._writer = store._writer, Busy()  # type: ignore[assignment]
    store._checkpoint()
    store._writer = writer
    assert store._log_bytes > 16 << 20
    store.maintain(idle=False)
    assert store._log_bytes == 0
    store.close()


def test_a_file_that_cannot_be_synced_ends_the_stores_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    store = SqliteStore(tmp_path)
    store.apply([PutMessage(1, 1, Message(bytes(2_000_000)), 0.0)])
    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises(StoreUnusable):
        store.copy_log()
    with pytest.raises(StoreUnusable):
        store.apply([put(2)])
    store.close()


def test_a_log_that_nobody_maintains_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lior.store.sqlite.LOG_LIMIT_BYTES", 1 << 20)
    store = SqliteStore(tmp_path)
    for n in range(100):
        store.apply([PutMessage(1, n, Message(bytes(100_000)), 0.0)])
    assert (tmp_path / "store.db-wal").stat().st_size < 3 << 20
    store.close()


def test_compaction_gives_the_space_back_while_in_use(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.apply([PutMessage(1, n, Message(bytes(100_000)), 0.0) for n in range(100)])
    store.apply([DeleteMessage(1, n) for n in range(99)])
    store._checkpoint()
    full = store.path.stat().st_size
    assert store.compact() > 9_000_000
    assert store.path.stat().st_size < full // 10
    assert len(store.scan(1, 0, 10)) == 1
    store.close()


def test_idle_moments_give_space_back_in_small_steps(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.apply([PutMessage(1, n, Message(bytes(100_000)), 0.0) for n in range(200)])
    store.apply([DeleteMessage(1, n) for n in range(200)])
    sizes = []
    for _ in range(60):
        store.maintain()
        sizes.append(store._writer.execute("PRAGMA page_count").fetchone()[0])
    steps = [before - after for before, after in pairwise(sizes) if before != after]
    assert steps and max(steps) < 600
    assert store._writer.execute("PRAGMA freelist_count").fetchone()[0] == 4 * 512
    store.close()


def test_reads_go_on_while_another_thread_writes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    committed, failures = [0], list[object]()

    def write() -> None:
        for n in range(1, 300):
            store.apply([put(n), *([DeleteMessage(1, PRIORITY_3 + n - 200)] if n > 200 else [])])
            committed[0] = n
            store.maintain(idle=False)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        last = committed[0]
        if last and store.fetch(1, PRIORITY_3 + last) is None:
            failures.append(last)
    writer.join()
    assert failures == [] and len(store.scan(1, 0, 1000)) == 200
    store.close()


def test_a_batch_of_one_kind_is_one_statement_and_kinds_that_alternate_are_gathered() -> None:
    planned = plan.Plan(0)
    planned.add([put(n) for n in range(1, 65)])
    assert len(planned.statements) == 1
    planned = plan.Plan(0)
    planned.add([operation for n in range(1, 33) for operation in
                 (put(n + 100), DeleteMessage(1, n), PutState("counter", "x", b"%d" % n))])
    assert len(planned.statements) == 3


@pytest.mark.parametrize("gone", [range(2, 9), [2, 3, 5], [5, 3, 4], [3, 3, 5], [2, 2, 2], [7], []])
def test_what_is_deleted_is_what_was_named_whether_or_not_it_is_a_run(tmp_path: Path, gone: Sequence[int]) -> None:
    store = SqliteStore(tmp_path)
    store.apply([put(n) for n in range(1, 11)])
    store.apply([DeleteMessages(1, [PRIORITY_3 + n for n in gone])])
    left = [stored.lookup_id - PRIORITY_3 for stored in store.scan(1, 0, 100)]
    assert left == [n for n in range(1, 11) if n not in gone]
    store.close()


def test_deletes_and_fetches_use_the_index(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    planned = plan.Plan(0)
    planned.add([*[DeleteMessage(1, n) for n in range(40)], *[DeleteMessage(2, 2 * n) for n in range(40)]])
    assert len(planned.statements) == 2
    for sql, values in [*planned.statements, ("SELECT hdr FROM m WHERE q=? AND l=?", (1, 1))]:
        (row,) = store._writer.execute("EXPLAIN QUERY PLAN " + sql, values).fetchall()
        assert "SEARCH m USING INDEX m_position" in row[3]
    store.close()
