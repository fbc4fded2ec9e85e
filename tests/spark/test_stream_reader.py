"""The stream reader as a plain class, in the order in which Spark calls it, with deaths in between."""

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from lior.errors import BadConfiguration, ClaimFenced
from lior.spark.broker import Position
from lior.spark.memory import MemoryBroker
from lior.spark.options import ReadOptions
from lior.spark.stream import ClaimRange, MsmqStreamReader

ALL = ReadAllAvailable()


def reader(broker: MemoryBroker, **options: str) -> MsmqStreamReader:
    given = {"address": "x", "queue": "q", "subscription": "lake", "maxMessagesPerTrigger": "10", **options}
    found = MsmqStreamReader(ReadOptions.parse(given))
    found._broker = broker
    return found


def filled(count: int) -> MemoryBroker:
    broker = MemoryBroker()
    for number in range(count):
        broker.send(str(number).encode(), priority=number % 8)
    return broker


def bodies(broker: MemoryBroker, partitions: Any) -> list[bytes]:
    found = []
    for part in partitions:
        assert isinstance(part, ClaimRange)
        for batch in broker.fetch("lake", part.epoch, part.low, part.high, ["body"]):
            found += batch.column(0).to_pylist()
    return found


def test_every_message_is_read_once_and_released_when_the_next_batch_is_asked_for() -> None:
    broker = filled(25)
    stream = reader(broker)
    at, seen = stream.initialOffset(), []
    while (end := stream.latestOffset(at, ALL)) != at:
        assert len(broker.received) == at["ord"]
        seen += bodies(broker, stream.partitions(at, end))
        at = end
    assert sorted(seen, key=int) == [str(n).encode() for n in range(25)]
    assert len(broker.received) == 25  # the last batch, too, without a commit


def test_the_initial_offset_is_always_the_same_and_claims_nothing() -> None:
    broker = filled(3)
    assert reader(broker).initialOffset() == reader(broker).initialOffset()
    assert len(broker.waiting) == 3


def test_a_reader_that_died_after_its_first_claim_is_replaced_and_gets_the_same_messages() -> None:
    broker = filled(30)
    first = reader(broker)
    end = first.latestOffset(first.initialOffset(), ALL)
    again = reader(broker)
    other = again.latestOffset(again.initialOffset(), ReadMaxRows(3))
    assert other["ord"] == end["ord"] == 10  # what was claimed, not more and not less
    with pytest.raises(ClaimFenced):
        first.latestOffset(end, ALL)


def test_a_first_batch_that_is_run_again_reads_the_same_messages() -> None:
    broker = filled(30)
    first = reader(broker)
    end = first.latestOffset(first.initialOffset(), ALL)
    before = bodies(broker, first.partitions(first.initialOffset(), end))
    again = reader(broker)
    assert bodies(broker, again.partitions(again.initialOffset(), end)) == before
    assert again.latestOffset(end, ALL)["ord"] == 20


class ForgetfulLine(MemoryBroker):
    """The first answer to `subscribe` is lost on its way, and the client asks again."""

    def subscribe(self, subscription: str, queues: Any, takeover: bool, claim_timeout: float) -> Position:
        if not self._epoch:
            super().subscribe(subscription, queues, takeover, claim_timeout)
        return super().subscribe(subscription, queues, takeover, claim_timeout)


def test_a_reader_whose_subscription_was_made_without_an_answer_is_not_refused_its_own() -> None:
    broker = ForgetfulLine()
    for number in range(3):
        broker.send(b"%d" % number)
    stream = reader(broker)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert len(bodies(broker, stream.partitions(stream.initialOffset(), end))) == 3


def test_a_second_checkpoint_is_refused_while_the_subscription_has_a_reader() -> None:
    broker = filled(30)
    first = reader(broker)
    first.latestOffset(first.latestOffset(first.initialOffset(), ALL), ALL)
    with pytest.raises(ClaimFenced):
        reader(broker).latestOffset(first.initialOffset(), ALL)


def test_a_takeover_goes_on_behind_what_was_released_and_fences_the_other() -> None:
    broker = filled(30)
    first = reader(broker)
    one = first.latestOffset(first.initialOffset(), ALL)
    two = first.latestOffset(one, ALL)
    second = reader(broker, startingPosition="takeover")
    start = second.initialOffset()
    end = second.latestOffset(start, ALL)
    assert end["ord"] == two["ord"]
    assert len(bodies(broker, second.partitions(start, end))) == 10
    with pytest.raises(ClaimFenced):
        first.commit(two)


def test_commit_releases_and_may_come_twice() -> None:
    broker = filled(5)
    stream = reader(broker)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    stream.commit(end)
    stream.commit(end)
    assert len(broker.received) == 5


def test_a_run_that_ends_takes_what_was_there_at_its_beginning() -> None:
    broker = filled(15)
    stream = reader(broker)
    stream.prepareForTriggerAvailableNow()
    for _ in range(50):
        broker.send(b"late")
    one = stream.latestOffset(stream.initialOffset(), ALL)
    two = stream.latestOffset(one, ALL)
    assert (one["ord"], two["ord"]) == (10, 15)
    assert stream.latestOffset(two, ALL) == two


def test_few_messages_are_waited_for_as_long_as_the_options_say() -> None:
    broker = filled(3)
    stream = reader(broker, minMessagesPerTrigger="5", maxTriggerDelay="1h")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert end == stream.initialOffset()
    for _ in range(2):
        broker.send(b"more")
    assert stream.latestOffset(stream.initialOffset(), ALL)["ord"] == 5
    broker.send(b"one")
    at_once = reader(broker, minMessagesPerTrigger="5", maxTriggerDelay="0")
    assert at_once.latestOffset({**stream.initialOffset(), "epoch": broker._epoch, "ord": 5}, ALL)["ord"] == 6


def test_partitions_are_ranges_without_gaps() -> None:
    broker = filled(10)
    stream = reader(broker, minPartitions="3")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    parts = stream.partitions(stream.initialOffset(), end)
    ranges = [(part.low, part.high) for part in parts if isinstance(part, ClaimRange)]
    assert len(ranges) >= 3 and [low for low, _ in ranges] == [0, *(high for _, high in ranges[:-1])]
    assert ranges[-1][1] == 10


def test_progress_says_where_it_would_stand_with_all_that_waits() -> None:
    broker = filled(30)
    stream = reader(broker)
    assert stream.reportLatestOffset() is None
    stream.latestOffset(stream.initialOffset(), ALL)
    found = stream.reportLatestOffset()
    assert found is not None and found["ord"] == 30


@pytest.mark.parametrize("offset", [{}, {"v": 1}, {"v": 2, "sub": "lake", "epoch": "", "ord": 1},
                                    {"v": 1, "sub": "other", "epoch": "", "ord": 1}])  # fmt: skip
def test_a_checkpoint_that_is_not_ours_is_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(BadConfiguration):
        reader(filled(1)).commit(offset)
