"""The trace of a message that goes from one queue manager to another, and what a kill leaves of the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lior
from lior.client.trace import TraceEntry
from lior.message import ObjectId
from lior.testing.serving import Serving

SECONDS = 60.0
QUEUE = r".\private$\q"
QUICK = {"binary.order_ack": 0.05, "log.level": "warning"}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Serving, Serving]]:
    with Serving(tmp_path / "here", settings=QUICK) as here, Serving(tmp_path / "there", settings=QUICK) as there:
        yield here, there


def traced(
    qm: lior.QueueManager, message: ObjectId, enough: Callable[[list[str]], bool]
) -> tuple[list[str], list[TraceEntry]]:
    """The trace as soon as it has what is waited for."""
    end = time.monotonic() + SECONDS
    while True:
        entries = qm.trace(message)
        told = [("=" if entry.current else "") + entry.what for entry in entries]
        if enough(told) or time.monotonic() > end:
            return told, entries
        time.sleep(0.02)


def test_both_ends_tell_their_part_of_the_way(pair: tuple[Serving, Serving]) -> None:
    here, there = pair
    with here.connect() as sender, there.connect() as receiver:
        receiver.create_queue(QUEUE)
        sent = sender.send(there.queue("q"), b"x", label="over the wire")
        told, entries = traced(sender, sent, lambda told: "acknowledged" in told)
        assert told == ["queued", "handed", "acknowledged"]
        assert there.address in entries[1].detail
        told, entries = traced(receiver, sent, lambda told: "came" in told)
        assert told == ["came", "=waiting"]
        assert str(sent.lineage).upper() in entries[0].origin
        receiver.receive(QUEUE, 60)
        assert traced(receiver, sent, lambda told: len(told) == 2)[0] == ["came", "received"]


def test_a_transactional_message_waits_for_its_final_acknowledgement_and_gets_it(pair: tuple[Serving, Serving]) -> None:
    here, there = pair
    with here.connect() as sender, there.connect() as receiver:
        receiver.create_queue(QUEUE, transactional=True)
        sent = sender.send(there.queue("q"), b"x", transactional=True)
        told, entries = traced(sender, sent, lambda told: "=unconfirmed" in told)
        assert told == ["queued", "handed", "acknowledged", "=unconfirmed"]
        assert "final acknowledgement" in entries[-1].text
        with receiver.transaction() as tx, receiver.open_queue(QUEUE) as queue:
            queue.receive(60, transaction=tx)
        told, entries = traced(sender, sent, lambda told: "confirmed" in told)
        assert told == ["queued", "handed", "acknowledged", "confirmed"]
        assert entries[-1].reason == "ACK_RECEIVE"


def test_a_refusal_is_told_at_both_ends_with_its_reason(pair: tuple[Serving, Serving]) -> None:
    here, there = pair
    with here.connect() as sender, there.connect() as receiver:
        receiver.create_queue(QUEUE, transactional=True)  # takes no messages without a transaction
        sent = sender.send(there.queue("q"), b"x")
        told, entries = traced(receiver, sent, lambda told: {"refused", "=dead letter"} <= set(told))
        assert sorted(told) == ["=dead letter", "dead letter", "refused"]  # kept there: nobody else would know of it
        assert {entry.reason for entry in entries} == {"NACK_NOT_TRANSACTIONAL_MSG"}


def test_a_record_after_a_kill_may_end_early_and_tells_nothing_that_was_not(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings=QUICK) as server:
        with server.connect() as qm:
            qm.create_queue(QUEUE)
            received = [qm.send(QUEUE, b"x") for _ in range(50)]
            for _ in received:
                qm.receive(QUEUE, 60)
            qm.trace(received[0])  # everything up to here is written down
            last = [qm.send(QUEUE, b"y") for _ in range(50)]
        server.kill()
        server.start()
        with server.connect() as qm:
            for message in received:
                assert [entry.what for entry in qm.trace(message)] == ["sent", "received"]
            for message in last:
                entries = qm.trace(message)
                assert entries[-1].what == "waiting" and entries[-1].current
                assert [entry.what for entry in entries[:-1]] in (["sent"], [])
            assert qm.receive(QUEUE, 60).identifier == last[0]
