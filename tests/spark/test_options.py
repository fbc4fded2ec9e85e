"""Options of the source and the sink."""

import pytest

from lior.errors import BadConfiguration, InvalidParameter
from lior.spark.options import ReadOptions, WriteOptions, duration, size

GIVEN = {"address": "127.0.0.1", "queue": "private$\\orders"}


@pytest.mark.parametrize(
    ("name", "near"),
    [("queu", "queue"), ("maxMesagesPerTrigger", "maxMessagesPerTrigger"), ("subscripton", "subscription")],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(name: str, near: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        ReadOptions.parse({**GIVEN, name: "1"})
    assert caught.value.remedy == f"did you mean {near}?"


def test_an_option_like_no_other_is_refused_with_all_names() -> None:
    with pytest.raises(BadConfiguration, match="zzz") as caught:
        WriteOptions.parse({"address": "x", "zzz": "1"})
    assert "writerId" in caught.value.remedy


def test_names_of_options_ignore_case() -> None:
    options = ReadOptions.parse({**GIVEN, "MAXMESSAGESPERTRIGGER": "7", "startingposition": "takeover"})
    assert options.max_messages_per_trigger == 7
    assert options.starting_position == "takeover"


def test_options_of_spark_itself_are_left_to_spark() -> None:
    assert ReadOptions.parse({**GIVEN, "path": "x", "checkpointLocation": "y"}).address == "127.0.0.1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxMessagesPerTrigger", "many"), ("maxMessagesPerTrigger", "0"), ("minPartitions", "-1"),
        ("failOnDataLoss", "perhaps"), ("mode", "LENIENT"), ("readMode", "steal"), ("claimTimeout", "soon"),
        ("broker", "carrier pigeon"), ("queues", "a,b"),
    ],
)  # fmt: skip
def test_a_value_that_an_option_cannot_have_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadConfiguration):
        ReadOptions.parse({**GIVEN, name: value})


def test_a_column_that_no_message_has_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="colour"):
        _ = ReadOptions.parse({**GIVEN, "columns": "body,colour"}).column_names


def test_sizes_and_durations_may_have_units() -> None:
    assert [size(text) for text in ("10", "4k", "2M", "1g")] == [10, 4096, 2 << 20, 1 << 30]
    assert [duration(text) for text in ("1.5", "2m", "1h")] == [1.5, 120, 3600]


def test_what_a_sink_says_for_every_row_is_what_was_given() -> None:
    options = WriteOptions.parse({"address": "x", "queue": "q", "delivery": "express", "timeToBeReceived": "2m",
                                  "deadLetter": "false", "journal": "true"})  # fmt: skip
    assert options.defaults() == {
        "destination": "q", "delivery_mode": 0, "transactional": False, "priority": 3, "journal": 2, "acknowledge": 0,
        "time_to_be_received": 120,
    }  # fmt: skip
