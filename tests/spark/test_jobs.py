"""Jobs on traffic whose numbers plain Python knows."""

import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from scapy.utils import wrpcap

from lior.message import ObjectId
from lior.spark.jobs import capture, deadletters, ingest, migrate, samples, trace
from lior.spark.jobs.capture import Capture
from lior.spark.jobs.deadletters import Deadletters
from lior.spark.jobs.ingest import Ingest
from lior.spark.jobs.migrate import Migrate
from lior.spark.jobs.samples import Samples
from lior.spark.jobs.trace import Trace
from lior.spark.jobs.traffic import robust_scores
from lior.spark.packet_sql import is_packet, object_id, packet_priority, packet_size
from lior.testing.serving import Serving
from tests.client.test_capture import packets, segments
from tests.client.test_srmp_archive import GUID, conversation, frames, posted
from tests.spark.conftest import send


def test_samples_are_the_same_for_the_same_seed_and_their_counts_add_up(server: Serving) -> None:
    config = Samples(str(server.data), messages=700, seed=3, queues=("sample1", "sample2"))
    assert list(samples.rows(config)) == list(samples.rows(config))
    assert samples.run(None, config).rows == 700
    with server.connect() as qm:
        assert sum(qm.queue(f".\\private$\\{name}").messages for name in config.queues) == 700


def test_dead_letters_are_counted_by_reason_and_destination(spark: Any, server: Serving, queue: str) -> None:
    send(server, queue, range(7), time_to_be_received=0)
    found = deadletters.run(spark, Deadletters(str(server.data)))
    with server.connect() as qm, qm.open_queue("DIRECT=OS:.\\SYSTEM$;DEADLETTER") as letters:
        there = list(letters)
    assert found.rows == len(there) >= 7
    assert any(group["messages"] == 7 and group["failed"].endswith(queue) for group in found.details["groups"])
    assert {group["failure_reason"] for group in found.details["groups"]} == {
        deadletters.reason_name(letter.failure_reason or None) for letter in there}  # fmt: skip


def test_a_trace_joins_arrivals_with_acknowledgements(
    spark: Any, server: Serving, queue: str, tmp_path: Path
) -> None:
    admin = f"{queue}a"
    with server.connect() as qm:
        qm.create_queue(f".\\{admin}")
    send(server, queue, range(20), acknowledge=14 + 1, admin_queue=f"DIRECT=OS:.\\{admin}")
    with server.connect() as qm, qm.open_queue(f".\\{queue}") as opened:
        for _ in range(8):
            opened.receive(timeout=0)
    lake = str(tmp_path / "lake")
    name = queue.rpartition("\\")[2]
    journal = f"{queue};JOURNAL"
    seen = spark.read.format("msmq").options(address=str(server.data), queues=f"{queue},{journal},{admin}").load()
    seen.write.parquet(f"{lake}/messages")
    found = trace.run(spark, Trace(lake, patience=-3600.0, output=str(tmp_path / name)))
    assert found.rows == 20
    assert found.details["stuck"] == 12 and found.details["lost"] == 0
    rows = spark.read.parquet(str(tmp_path / name)).collect()
    assert sum(row.received is not None for row in rows) == 8
    assert all(row.reached is not None for row in rows)


def test_an_inventory_names_what_queues_use_and_what_has_no_counterpart(
    spark: Any, server: Serving, queue: str, tmp_path: Path
) -> None:
    send(server, queue, range(40), response_queue=f"DIRECT=OS:.\\{queue}")
    lake = str(tmp_path / "lake")
    ingest.run(spark, Ingest(str(server.data), (queue,), lake, f"m{queue[-6:]}", once=True))
    found = migrate.run(spark, Migrate(str(server.data), lake, "kafka", left=lake, right=lake))
    (row,) = [each for each in found.details["queues"] if each["queue"] == queue]
    assert row["uses"] == ["journal", "priority", "queue", "responses"] and row["messages"] == 40
    assert row["mapping"]["priority"] == "" and any(gap.startswith("priority") for gap in found.details["gaps"])
    assert found.details["comparison"] == {"left": 40, "right": 40, "same": 40, "only_left": 0, "only_right": 0}


def test_a_capture_becomes_tables_of_messages_and_packets(spark: Any, tmp_path: Path, seed: int) -> None:
    (tmp_path / "in").mkdir()
    wrpcap(str(tmp_path / "in" / "a.pcap"), segments(b"".join(packets(60)), random.Random(seed)))
    found = capture.run(spark, Capture(str(tmp_path / "in"), str(tmp_path / "lake")))
    assert (found.rows, found.details["packets"], found.details["kinds"]) == (60, 60, {"message": 60})
    rows = spark.read.parquet(f"{found.output}/messages").collect()
    assert sorted(row.label for row in rows) == sorted(f"n{number}" for number in range(60))
    df = spark.read.parquet(f"{found.output}/packets").where(is_packet("packet"))
    assert {(row[0], row[1]) for row in df.select(packet_size("packet") - df.packet.substr(1, 0).isNotNull().cast("int")
                                                  + 1, packet_priority("packet")).collect()} == {
        (len(packet), 3) for packet in packets(60)}  # fmt: skip


def test_a_capture_tells_sessions_and_acknowledgements_of_both_protocols(
    spark: Any, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    (tmp_path / "in").mkdir()
    conversation(tmp_path / "in", chance)
    posts = b"".join(posted(number) for number in range(6))
    wrpcap(str(tmp_path / "in" / "b.pcap"), frames(posts, chance, "192.0.2.1", 50001, "192.0.2.2", 80))
    found = capture.run(spark, Capture(str(tmp_path / "in"), str(tmp_path / "lake")))
    assert found.rows == 2 * 6 + 6 and found.details["sessions"] == 3 and found.details["acknowledgements"] == 4
    sessions = spark.read.parquet(f"{found.output}/sessions").orderBy("began_at").collect()
    assert {(row.transport, row.messages, row.acknowledgements, row.window_size) for row in sessions} == {
        ("mqqb", 5, 2, 32), ("srmp", 6, 0, None)}  # fmt: skip
    acks = spark.read.parquet(f"{found.output}/acknowledgements").where("kind = 'message'").collect()
    assert {(row.reason, row.message_id) for row in acks} == {("NACK_ACCESS_DENIED", str(ObjectId(GUID, 3)))}


def test_an_archive_of_srmp_becomes_the_same_tables(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(5):
        (tmp_path / "in" / f"{number}.http").write_bytes(posted(number))
    (tmp_path / "in" / "noise").write_bytes(b"?")
    found = capture.run(spark, Capture(str(tmp_path / "in"), str(tmp_path / "lake"), kind="srmp"))
    assert found.rows == 5 and found.details["kinds"] == {"user message": 5, "damaged": 1}
    rows = spark.read.parquet(f"{found.output}/messages").orderBy("label").collect()
    assert [(row.label, row.transport, row.body) for row in rows] == [
        (f"n{number}", "srmp", b"%d" % number * 300) for number in range(5)]  # fmt: skip


def test_an_identifier_in_sql_is_what_it_is_in_python(spark: Any, seed: int) -> None:
    chance = random.Random(seed)
    every = [ObjectId(UUID(int=chance.getrandbits(128)), chance.getrandbits(32)) for _ in range(50)]
    df = spark.createDataFrame([(str(each),) for each in every], "message_id string")
    assert [bytes(row[0]) for row in df.select(object_id("message_id")).collect()] == [e.to_bytes() for e in every]


@pytest.mark.parametrize("values", [[], [1.0], [5.0] * 10])
def test_nothing_stands_out_where_nothing_does(values: list[float]) -> None:
    assert robust_scores(values) == [0.0] * len(values)


def test_one_that_is_far_from_the_others_stands_out() -> None:
    scores = robust_scores([10, 11, 9, 10, 12, 10, 90])
    assert scores[-1] > 10 and all(abs(score) < 3 for score in scores[:-1])
