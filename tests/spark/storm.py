"""A storm: messages of mixed priority arrive while Spark streams them into lakes, and processes die all the time.

What was sent is known without any of them: a message's number says everything else about it. The sender numbers its
batches, so that it, too, sends once whatever dies in between.
"""

import random
import select
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lior.client.bulk import connect
from lior.errors import ServiceNotAvailable
from lior.testing.serving import Serving
from tests.spark.conftest import wait_for_bulk
from tests.spark.processes import TOO_SLOW, Driver, bulk_process, executors, kill, until

PLAIN, EXACT = r"private$\storm", r"private$\exact"  # the second is transactional
QUEUES = (PLAIN, EXACT)
SUBSCRIPTION = "storm"
CHUNK = 250  # messages that the sender publishes at once
PATIENCE = 600.0  # seconds for what takes half a minute on an idle machine
_SCHEMA = pa.schema([("destination", pa.string()), ("body", pa.binary()), ("label", pa.string()),
                     ("priority", pa.int8()), ("app_tag", pa.int64())])  # fmt: skip


class Sent(NamedTuple):
    """What a message's number says of it."""

    queue: str
    label: str
    priority: int
    body: bytes


def message(number: int) -> Sent:
    digest = blake2b(str(number).encode(), digest_size=16).digest()
    body = b"%d " % number + digest * (1 + digest[0] % 16)
    if digest[1] % 8 == 0:
        return Sent(EXACT, f"n{number}", 0, body)  # in a transaction there is one priority
    return Sent(PLAIN, f"n{number}", digest[2] % 8, body)


class Sender(threading.Thread):
    """Sends as far as it may, in order."""

    def __init__(self, server: Serving, total: int) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._total = total
        self._allowed = 0
        self._more = threading.Condition()
        self.failed: BaseException | None = None
        self.repeated = 0
        self.sent = 0

    def allow(self, number: int) -> None:
        with self._more:
            self._allowed = number
            self._more.notify()

    def run(self) -> None:
        try:
            with connect(self._server.data, patience=PATIENCE) as bulk:
                while self.sent < self._total:
                    with self._more:
                        self._more.wait_for(lambda: self._allowed > self.sent)
                        some = range(self.sent, min(self.sent + CHUNK, self._allowed))
                    self._write(bulk, some)
                    self.sent = some.stop
        except BaseException as error:
            self.failed = error

    def _write(self, bulk: Any, numbers: range) -> None:
        rows = [{"app_tag": number, **(said := message(number)._asdict()), "destination": said["queue"]}
                for number in numbers]  # fmt: skip
        table = pa.Table.from_pylist([{name: row[name] for name in _SCHEMA.names} for row in rows], _SCHEMA)
        while True:
            try:
                bulk.write(table, writer="sender", batch=numbers.start)
                return
            except ServiceNotAvailable:  # it died while the rows were on their way
                self.repeated += 1


@dataclass
class Storm:
    server: Serving
    folder: Path
    seed: int
    total: int
    kills: int
    kinds: tuple[str, ...]
    formats: tuple[str, ...]
    master: str = "local[2]"
    settings: dict[str, str] = field(default_factory=dict)
    max_messages: int = 2000

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.killed: list[tuple[str, int, int]] = []  # what, its process id, how much was released by then
        self.by_themselves: list[str] = []  # ends of drivers that no kill explains, as they said them
        self.lives = self.too_slow = 0
        self.driver: Driver | None = None
        self._doomed: set[int] = set()
        self._over = threading.Event()

    # What runs

    def run(self) -> None:
        begun = time.monotonic()
        with self.server.connect() as qm:
            qm.create_queue(f".\\{PLAIN}", journal=True)
            qm.create_queue(f".\\{EXACT}", journal=True, transactional=True)
        sender, keeper = Sender(self.server, self.total), threading.Thread(target=self._keep_driver, daemon=True)
        sender.start()
        keeper.start()
        try:
            self._kill_all(sender)
            sender.allow(self.total)
            until("all sent", lambda: sender.failed or sender.sent == self.total, PATIENCE)
            assert sender.failed is None, sender.failed
            until("all released", lambda: self._figure("released") == self.total, PATIENCE * 2)
            until("nothing is claimed", lambda: self._figure("claimed") == 0)
            (self.folder / "enough").touch()
            keeper.join(PATIENCE)
        finally:
            self._over.set()
            if self.driver is not None:
                self.driver.end()
            keeper.join()
        kinds = Counter(kind for kind, _, _ in self.killed)
        print(f"storm: seed {self.seed}, {self.total} messages, {len(self.killed)} kills {dict(kinds)}, "
              f"{self.lives} drivers of which {len(self.by_themselves)} ended by themselves and {self.too_slow} for "
              f"Spark's lack of patience, {sender.repeated} writes repeated, "
              f"{time.monotonic() - begun:.0f} s")  # fmt: skip

    def _given(self) -> dict[str, Any]:
        lakes = [{"address": str(self.server.data), "queues": QUEUES, "lake": str(self.folder / kind), "format": kind,
                  "subscription": SUBSCRIPTION, "checkpoint": str(self.folder / "checkpoint"),
                  "max_messages": self.max_messages} for kind in self.formats]  # fmt: skip
        return {"lakes": lakes, "master": self.master, "settings": self.settings,
                "enough": str(self.folder / "enough")}  # fmt: skip

    def _keep_driver(self) -> None:
        """As a supervisor does: started again whenever it ends."""
        while not self._over.is_set():
            self.lives += 1
            self.driver = Driver("storm_driver.py", self._given(), self.folder, f"driver{self.lives}")
            code = self.driver.process.wait()
            if code == 0 and (self.folder / "enough").exists():
                return
            if self.driver.process.pid not in self._doomed and not self._over.is_set():
                if TOO_SLOW in self.driver.log:
                    self.too_slow += 1
                else:
                    self.by_themselves.append(f"life {self.lives}, code {code}: {self.driver.log[-1500:]}")

    def _figure(self, name: str) -> int:
        with self.server.connect() as qm:
            for each in qm.subscriptions():
                if each["name"] == SUBSCRIPTION:
                    return int(each[name])
        return 0

    # Kills

    def _kill_all(self, sender: Sender) -> None:
        """Each kind as often as the others, in random order; most of them while messages flow, some while something
        starts again after the one before."""
        schedule = [self.kinds[number % len(self.kinds)] for number in range(self.kills)]
        self.chance.shuffle(schedule)
        for number, kind in enumerate(schedule):
            share, before = self.total // (self.kills + 1), self._figure("released")
            sender.allow(share * (number + 1))
            if number == 0 or self.chance.random() < 0.75:
                wanted = before + int(self.chance.random() * 0.8 * min(share, share * (number + 1) - before)) + 1
                until(f"{wanted} released, before kill {number + 1}",
                      lambda least=wanted: self._released(least, sender), PATIENCE)  # fmt: skip
            select.select([], [], [], self.chance.uniform(0.0, 3.0))
            self._kill_one(kind)

    def _released(self, wanted: int, sender: Sender) -> bool:
        assert sender.failed is None, sender.failed
        return self._figure("released") >= wanted

    def _kill_one(self, kind: str) -> None:
        released = self._figure("released")
        pid = until(f"there is a {kind} to kill", lambda: self._killed(kind), PATIENCE)
        self.killed.append((kind, pid, released))

    def _killed(self, kind: str) -> int:
        """The process id of what was seen to die; 0 if there was none."""
        pid = self._victim(kind)
        if not pid:
            return 0
        driver = self.driver
        if kind in ("driver", "jvm") and driver is not None:
            self._doomed.add(driver.process.pid)
        if not kill(pid):
            return 0
        if kind == "queue manager":
            self.server.wait()
            self.server.start()
            wait_for_bulk(self.server)
        if kind == "jvm" and driver is not None:
            driver.process.wait(PATIENCE)
        return pid

    def _victim(self, kind: str) -> int | None:
        driver = self.driver
        if kind == "driver":
            return driver.process.pid if driver is not None and driver.running else None
        if kind == "jvm":
            return driver.jvm() if driver is not None and driver.running else None
        if kind == "executor":
            found = executors(self.folder)
            return self.chance.choice(found) if found else None
        return int(self.server.ready["pid"]) if kind == "queue manager" else bulk_process(self.server)

    # What is there afterwards

    def check(self) -> None:
        assert len(self.killed) == self.kills
        assert {kind for kind, _, _ in self.killed} == set(self.kinds)
        assert self.by_themselves == []
        with self.server.connect() as qm:
            (figures,) = qm.subscriptions()
            found = [qm.queue(f".\\{name}") for name in QUEUES]
        assert {name: figures[name] for name in ("last", "released", "claimed", "claimed_bytes", "lag")} == {
            "last": self.total, "released": self.total, "claimed": 0, "claimed_bytes": 0, "lag": 0}  # fmt: skip
        assert [queue.messages for queue in found] == [0, 0]
        assert sum(queue.journal_messages for queue in found) == self.total
        identifiers = self._journals()
        for kind in self.formats:
            assert not (self.folder / kind / "quarantine").exists()
            assert self._lake(kind) == identifiers, kind
        self._check_staging()

    def _journals(self) -> dict[int, str]:
        found: dict[int, str] = {}
        with connect(self.server.data) as bulk:
            for name in QUEUES:
                table = bulk.read(f"{name};JOURNAL", ["app_tag", "message_id"])
                numbers = table["app_tag"].to_pylist()
                assert all(message(number).queue == name for number in numbers)
                found |= dict(zip(numbers, table["message_id"].to_pylist(), strict=True))
        assert len(found) == self.total == len(set(found.values()))
        return found

    def _lake(self, kind: str) -> dict[int, str]:
        """Identifiers by number, of a table in which every row is as it was sent, once."""
        names = ["app_tag", "message_id", "ordinal", "label", "priority", "body"]
        table = table_of(self.folder / kind, kind, [*names, "queue"])
        assert table.num_rows == self.total, f"{kind} has {table.num_rows} rows"
        assert sorted(table["app_tag"].to_pylist()) == list(range(self.total))
        assert sorted(table["ordinal"].to_pylist()) == list(range(1, self.total + 1))
        for row in table.to_pylist():
            assert Sent(row["queue"], row["label"], row["priority"], row["body"]) == message(row["app_tag"]), row
        return dict(zip(table["app_tag"].to_pylist(), table["message_id"].to_pylist(), strict=True))

    def _check_staging(self) -> None:
        """What died between putting aside and publishing is left, and goes away by itself."""
        self.server.settings["bulk.stage_timeout"] = 1
        self.server.restart()
        until("nothing is put aside", lambda: not any((self.server.data / "staging").iterdir()))


def table_of(lake: Path, kind: str, names: list[str]) -> Any:
    """As readers of each format see it, without Spark."""
    if kind in ("parquet", "archive"):
        return pq.read_table(lake / "messages", columns=names)
    if kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(lake / "messages")).to_pyarrow_table(columns=names)
    from lior.spark.sinks import open_catalog

    return open_catalog(str(lake)).load_table("lior.messages").scan(selected_fields=tuple(names)).to_arrow()
