"""What others do to a queue while Spark reads it: each message is in one lake, with one receiver, or expired; never in
two of these, never in none."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lior.client.bulk import connect
from lior.errors import MessagesClaimed, Timeout
from lior.spark.jobs import ingest
from lior.spark.jobs.ingest import Ingest
from lior.testing.serving import Serving
from tests.spark.conftest import messages, send
from tests.spark.processes import until

pytestmark = pytest.mark.timeout(400)
EXPIRY = 12  # seconds in which a claim comes on a slow machine


def config(server: Serving, lake: Path, queue: str, subscription: str, **more: Any) -> Ingest:
    return Ingest(str(server.data), (queue,), str(lake), f"{subscription}{queue[-6:]}", **more)


def tags(lake: Path) -> list[int]:
    if not (lake / "messages").exists():
        return []
    return sorted(pq.read_table(lake / "messages", columns=["app_tag"])["app_tag"].to_pylist())


def figure(server: Serving, subscription: str, name: str) -> int:
    with server.connect() as qm:
        return next((int(each[name]) for each in qm.subscriptions() if each["name"] == subscription), 0)


@contextmanager
def streaming(spark: Any, given: Ingest) -> Iterator[Any]:
    query = ingest.start(spark, given)
    try:
        yield query
    finally:
        query.stop()


def test_what_spark_has_claimed_neither_expires_nor_is_purged_and_the_rest_does(
    spark: Any, server: Serving, queue: str
) -> None:
    first: list[int] = []
    refused: list[str] = []
    seen: list[int] = []
    goes_on = threading.Event()

    def look(df: Any, batch_id: int) -> None:
        rows = [row.app_tag for row in df.select("app_tag").collect()]
        if rows and not first:  # an idle stream begins with an empty batch
            first.extend(rows)
            assert goes_on.wait(120)
            rows = [row.app_tag for row in df.select("app_tag").collect()]  # read again, long after it was to expire
        seen.extend(rows)

    reader = spark.readStream.format("msmq").options(address=str(server.data), queue=queue, maxMessagesPerTrigger="40",
                                                     subscription=f"e{queue[-6:]}")  # fmt: skip
    query = reader.load().writeStream.foreachBatch(look).trigger(processingTime="0 seconds").start()
    try:
        until("the stream looks", lambda: figure(server, f"e{queue[-6:]}", "created"))
        rows = [{"body": b"x", "app_tag": number, "time_to_be_received": EXPIRY} for number in range(100)]
        with connect(server.data) as bulk:
            schema = pa.schema([("body", pa.binary()), ("app_tag", pa.int64()), ("time_to_be_received", pa.int64())])
            bulk.write(pa.Table.from_pylist(rows, schema), destination=queue, writer=queue, batch=1)
        until("a batch", lambda: first or query.exception())
        assert query.exception() is None
        with server.connect() as qm:
            for call in (qm.purge_queue, qm.delete_queue):
                with pytest.raises(MessagesClaimed):
                    call(f".\\{queue}")
                refused.append(call.__name__)
        until("the others expire", lambda: messages(server, queue)[0] == 40)
        with server.connect() as qm, pytest.raises(MessagesClaimed):
            qm.purge_queue(f".\\{queue}")
        goes_on.set()
        until("the batch is released", lambda: messages(server, queue) == (0, 40))
        assert query.exception() is None
    finally:
        goes_on.set()
        query.stop()
    assert refused == ["purge_queue", "delete_queue"]
    assert sorted(seen) == sorted(first) and len(set(first)) == 40
    with server.connect() as qm:
        qm.delete_queue(f".\\{queue}")  # nothing is claimed any more


class Rival(threading.Thread):
    """Receives, in transactions of which it gives back every second, and leaves some open for a while; sends more,
    at every priority where there are any."""

    def __init__(self, server: Serving, queue: str, first: int, transactional: bool) -> None:
        super().__init__(daemon=True)
        self._server, self._queue, self._next = server, queue, first
        self._transactional = transactional
        self.over = threading.Event()
        self.taken: list[int] = []
        self.given_back = 0
        self.failed: BaseException | None = None

    @property
    def sent(self) -> int:
        return self._next

    def run(self) -> None:
        try:
            with self._server.connect() as qm:
                turn = 0
                while not self.over.is_set():
                    turn += 1
                    self._take(qm, turn) if self._transactional else self._receive(qm)
                    if self._next < 1200:
                        self._send(qm)
        except BaseException as error:
            self.failed = error

    def _take(self, qm: Any, turn: int) -> None:
        transaction, found = qm.transaction().begin(), []
        for _ in range(4):
            try:
                found.append(transaction.receive(f".\\{self._queue}", timeout=0).application_tag)
            except Timeout:
                break
        self.over.wait(0.05)  # it stays open while Spark claims
        if turn % 2:
            transaction.abort()
            self.given_back += len(found)
        else:
            transaction.commit()
            self.taken += found

    def _receive(self, qm: Any) -> None:
        try:
            self.taken.append(qm.receive(f".\\{self._queue}", timeout=0).application_tag)
        except Timeout:
            self.over.wait(0.05)

    def _send(self, qm: Any) -> None:
        if self._transactional:
            with qm.transaction() as transaction:
                for number in range(self._next, self._next + 10):
                    transaction.send(f".\\{self._queue}", b"late", app_tag=number)
                self.over.wait(0.05)
        else:
            for number in range(self._next, self._next + 10):
                qm.send(f".\\{self._queue}", b"late", app_tag=number, priority=7 - number % 8)
        self._next += 10


@pytest.mark.parametrize("transactional", [False, True])
def test_two_subscriptions_and_a_receiver_share_a_queue_and_each_message_has_one_of_them(
    spark: Any, server: Serving, tmp_path: Path, transactional: bool
) -> None:
    queue = rf"private$\shared{int(transactional)}{tmp_path.name[-3:]}"
    with server.connect() as qm:
        qm.create_queue(f".\\{queue}", journal=True, transactional=transactional)
    if transactional:
        with server.connect() as qm, qm.transaction() as transaction:
            for number in range(600):
                transaction.send(f".\\{queue}", b"early", app_tag=number)
    else:
        send(server, queue, range(600))
    lakes = [tmp_path / "one", tmp_path / "two"]
    configs = [config(server, lake, queue, lake.name, max_messages=90, trigger_seconds=0.2) for lake in lakes]
    rival = Rival(server, queue, 600, transactional)
    with streaming(spark, configs[0]) as one, streaming(spark, configs[1]) as two:
        rival.start()
        until("all sent", lambda: rival.failed or rival.sent >= 1200, 240)
        until("the rival had a share", lambda: rival.failed or (len(rival.taken) > 10), 240)
        rival.over.set()
        rival.join()
        assert rival.failed is None
        until("the queue is empty", lambda: messages(server, queue)[0] == 0, 240)
        assert (one.exception(), two.exception()) == (None, None)
    shares = [tags(lake) for lake in lakes] + [sorted(rival.taken)]
    assert all(shares), [len(share) for share in shares]
    assert sorted(number for share in shares for number in share) == list(range(rival.sent))
    assert not transactional or rival.given_back > 0
    assert messages(server, queue) == (0, rival.sent)
    assert [figure(server, given.subscription, "claimed") for given in configs] == [0, 0]


def test_a_queue_manager_that_goes_offline_in_between_changes_nothing_for_its_own_queues(
    spark: Any, server: Serving, queue: str, tmp_path: Path
) -> None:
    given = config(server, tmp_path / "lake", queue, "o", max_messages=30, trigger_seconds=0.1)
    with streaming(spark, given) as query, server.connect() as qm:
        try:
            for number, online in enumerate((False, True, False)):
                qm.set_online(online)
                send(server, queue, range(number * 50, number * 50 + 50))
                until("released", lambda least=number * 50 + 50: messages(server, queue) == (0, least))
        finally:
            qm.set_online(True)
        assert query.exception() is None
    assert tags(tmp_path / "lake") == list(range(150))


def test_of_two_drivers_of_one_subscription_the_one_that_was_replaced_ends_and_writes_no_more(
    spark: Any, server: Serving, queue: str, tmp_path: Path
) -> None:
    old = config(server, tmp_path / "old", queue, "z", trigger_seconds=0.1)
    new = config(server, tmp_path / "new", queue, "z", trigger_seconds=0.1, takeover=True)
    late = config(server, tmp_path / "late", queue, "z", trigger_seconds=0.1)
    with streaming(spark, old) as first:
        send(server, queue, range(100))
        until("the first has read", lambda: messages(server, queue) == (0, 100))
        with streaming(spark, late) as refused:  # it did not ask to take over
            until("the third is refused", lambda: refused.exception() is not None)
            assert "ClaimFenced" in str(refused.exception())
        send(server, queue, range(100, 130))
        until("the first goes on", lambda: messages(server, queue) == (0, 130))
        with streaming(spark, new) as second:
            until("the first is fenced off", lambda: first.exception() is not None)
            assert "ClaimFenced" in str(first.exception())
            send(server, queue, range(130, 200))
            until("the second has read", lambda: messages(server, queue) == (0, 200))
            assert second.exception() is None
    assert tags(tmp_path / "old") == list(range(130))
    assert tags(tmp_path / "new") == list(range(130, 200))
    assert tags(tmp_path / "late") == []


def test_an_abandoned_subscription_locks_its_reader_out_and_gives_back_what_it_had(
    spark: Any, server: Serving, queue: str, tmp_path: Path
) -> None:
    """Its batch is in nobody's lake: the reader is stopped before it writes."""
    held, goes_on = threading.Event(), threading.Event()

    def hold(df: Any, batch_id: int) -> None:
        held.set()
        assert goes_on.wait(120)
        assert df.count() >= 0

    name = f"a{queue[-6:]}"
    send(server, queue, range(60))
    query = spark.readStream.format("msmq").options(address=str(server.data), queue=queue, subscription=name).load(
        ).writeStream.foreachBatch(hold).trigger(processingTime="0 seconds").start()  # fmt: skip
    try:
        assert held.wait(120)
        with server.connect() as qm:
            qm.abandon_subscription(name)
        goes_on.set()
        until("the reader is locked out", lambda: query.exception() is not None)
    finally:
        goes_on.set()
        query.stop()
    assert messages(server, queue) == (60, 0)
    other = config(server, tmp_path / "lake", queue, "b", once=True)
    assert ingest.run(spark, other).rows == 60
    assert tags(tmp_path / "lake") == list(range(60))
