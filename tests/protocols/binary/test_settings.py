"""The defaults of the documents, and values that cannot be."""

from dataclasses import fields

import pytest

from lior.errors import BadConfiguration
from lior.protocols.binary.settings import MAX_WINDOW, SessionSettings


@pytest.mark.spec("QB-095", "QB-103", "QB-107", "QB-108", "MQ-122")
def test_the_defaults_are_those_of_the_document() -> None:
    s = SessionSettings()
    assert (s.initialisation, s.cleanup, s.retry, s.ack_wait, s.ping_response) == (60, 300, 5, 20, 1)
    assert (s.ack_wait_multiplier, s.direct_ack_wait_multiplier) == (1, 2)
    assert (s.shortest_recoverable_ack, s.longest_recoverable_ack) == (0.5, 120)
    assert (s.order_ack, s.longest_order_ack_delay) == (0.5, 10)
    assert (s.window_size, s.window_recovery) == (64, 30)
    assert (s.id_history_size, s.id_history_age) == (10_000, 1800)
    assert (s.receive_keys, s.send_keys, s.key_age, s.certificates, s.certificate_age) == (127, 53, 600, 53, 1200)
    assert not s.send_pings and not s.answer_pings and not s.server_class


@pytest.mark.parametrize("name", [one.name for one in fields(SessionSettings) if one.type is not bool])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_a_time_or_size_that_is_no_length_is_refused(name: str, value: float) -> None:
    with pytest.raises(BadConfiguration, match=name):
        SessionSettings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [
    {"ack_wait": 19.9}, {"ack_wait": 120.1}, {"window_size": 0}, {"window_size": MAX_WINDOW + 1}, {"cleanup": 0},
    {"shortest_recoverable_ack": 0.4}, {"longest_recoverable_ack": 121.0}, {"id_history_size": 0},
    {"shortest_recoverable_ack": 3.0, "longest_recoverable_ack": 2.0}])
def test_what_the_wire_cannot_carry_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadConfiguration):
        SessionSettings(**wrong)  # type: ignore[arg-type]


def test_a_line_without_delay_is_usual() -> None:
    assert SessionSettings(round_trip_delay=0.0).round_trip_delay == 0
