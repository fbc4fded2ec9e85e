"""Rates of the store, as JSON: the disk alone, bare sqlite3 with the same tables, and SqliteStore.

    python benchmarks/bench_store.py [--seconds S] [--rounds N] [--index 1000000]

Machines are noisy, so the contestants take turns in random order within each round and the ratio is the
median of the rounds' ratios. `busy` repeats the largest grouping while another thread computes.
"""

import argparse
import json
import os
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from lior.message import Message, ObjectId
from lior.queues.ports import DeleteMessage, PutMessage
from lior.store import record, schema
from lior.store.sqlite import SqliteStore

BODY = os.urandom(1024)
GUID = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
PRIORITY_3 = 4 << 56
GROUPS = (1, 16, 64)


def a_message() -> Message:
    return Message(BODY, label="order 1001", body_type=8, delivery_guarantee=1, sent_time=1.7e9,
                   destination_queue=r"DIRECT=OS:.\private$\orders", identifier=ObjectId(GUID, 77),
                   source_queue_manager=GUID)


class Disk:
    """One write and one fdatasync for each group, over a file that has its blocks already."""

    def __init__(self, directory: Path) -> None:
        self.fd = os.open(directory / "raw", os.O_RDWR | os.O_CREAT)
        os.write(self.fd, bytes(16 << 20))
        os.fsync(self.fd)
        self.at = 0

    def put(self, group: int) -> None:
        data = BODY * group
        if self.at + len(data) > 16 << 20:
            self.at = 0
        os.pwrite(self.fd, data, self.at)
        os.fdatasync(self.fd)
        self.at += len(data)

    def close(self) -> None:
        os.close(self.fd)


class BareSqlite:
    """The same table and index by executemany, with the header made beforehand."""

    def __init__(self, directory: Path) -> None:
        self.connection = sqlite3.connect(directory / "bare.db", isolation_level=None, check_same_thread=False)
        schema.create(self.connection)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=OFF", "wal_autocheckpoint=4096"):
            self.connection.execute(f"PRAGMA {pragma}").fetchall()
        self.header, self.next = record.encode(a_message()), PRIORITY_3

    def put(self, group: int) -> None:
        rows = [(1, self.next + n, 1200, 0, 1.7e9, 0, 0, 0.0, 1, self.header, BODY) for n in range(group)]
        self.next += group
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO m(q,l,n,e,t,a,v,u,k,hdr,body) VALUES (?,?,?,?,?,?,?,?,?,?,?)", rows)
        self.connection.execute("COMMIT")

    def close(self) -> None:
        self.connection.close()


class Store:
    def __init__(self, directory: Path) -> None:
        self.store, self.next, self.message = SqliteStore(directory / "data"), PRIORITY_3, a_message()

    def put(self, group: int) -> None:
        self.store.apply([PutMessage(1, self.next + n, self.message, 1.7e9) for n in range(group)])
        self.next += group
        self.store.maintain(idle=False)

    def close(self) -> None:
        self.store.close()


Contestant = Disk | BareSqlite | Store


def rate(put: Callable[[int], None], group: int, seconds: float) -> float:
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        put(group)
        count += group
    return count / (time.perf_counter() - start)


def compare(directory: Path, rounds: int, seconds: float) -> dict[str, object]:
    contestants: dict[str, Contestant] = {
        "disk": Disk(directory), "bare_sqlite": BareSqlite(directory), "store": Store(directory)}
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        turns = [(name, group) for name in contestants for group in GROUPS]
        random.shuffle(turns)
        for name, group in turns:
            found.setdefault((name, group), []).append(rate(contestants[name].put, group, seconds))
    result: dict[str, object] = {
        name: {f"put_{group}": round(statistics.median(found[name, group])) for group in GROUPS}
        for name in contestants}
    result["store_to_bare_sqlite"] = {
        f"put_{group}": round(statistics.median(
            ours / bare for ours, bare in zip(found["store", group], found["bare_sqlite", group], strict=True)), 2)
        for group in GROUPS}
    stop = threading.Event()
    other = threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)])
    other.start()
    try:
        result["busy"] = {name: round(rate(contestants[name].put, 64, seconds)) for name in ("bare_sqlite", "store")}
    finally:
        stop.set()
        other.join()
    for contestant in contestants.values():
        contestant.close()
    return result


def reading(directory: Path, count: int) -> dict[str, object]:
    """A store of `count` small messages: loading the index, fetching, deleting."""
    store = SqliteStore(directory / f"index{count}")
    message = Message(b"x" * 100, delivery_guarantee=1)
    for start in range(0, count, 5000):
        stop = min(start + 5000, count)
        store.apply([PutMessage(n % 10, PRIORITY_3 + n, message, 1.7e9) for n in range(start, stop)])
        store.maintain(idle=False)
    begin = time.perf_counter()
    loaded = sum(1 for _ in store.load_index())
    seconds = time.perf_counter() - begin
    assert loaded == count
    tracemalloc.start()
    for _ in store.load_index():
        pass
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    wanted = random.sample(range(count), 20_000)
    begin = time.perf_counter()
    for n in wanted:
        store.fetch(n % 10, PRIORITY_3 + n)
    fetch = (time.perf_counter() - begin) / len(wanted)
    begin = time.perf_counter()
    for start in range(0, 6400, 64):
        store.apply([DeleteMessage(n % 10, PRIORITY_3 + n) for n in range(start, start + 64)])
    delete = 6400 / (time.perf_counter() - begin)
    store.close()
    begin = time.perf_counter()
    store = SqliteStore(directory / f"index{count}")
    opened = time.perf_counter() - begin
    store.close()
    return {"load_index_s": round(seconds, 3), "load_index_peak_kib": memory >> 10, "fetch_us": round(fetch * 1e6, 1),
            "delete_64_per_s": round(delete), "open_s": round(opened, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--index", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--directory", default=None, help="on the disk to measure")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="lior-bench-", dir=options.directory))
    try:
        result = compare(directory, options.rounds, options.seconds)
        for count in options.index:
            result[f"index_{count}"] = reading(directory, count)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
