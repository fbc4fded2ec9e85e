"""Warnings before something is full, on queues whose fill the test decides."""

import logging
from typing import Any

import pytest

from lior.server.fill import FillWatch, fills
from lior.testing.engine import ManualEngine

QUOTA = 10  # KB


class Levels:
    """A queue that is filled in steps of a kilobyte, and what the log said."""

    def __init__(self, engine: ManualEngine, caplog: pytest.LogCaptureFixture) -> None:
        self.engine = engine
        self.queue = engine.create(quota=QUOTA)
        self.watch = FillWatch(engine.manager.core)
        self._caplog = caplog
        caplog.set_level(logging.INFO, "lior.quota")

    def fill(self, kilobytes: float) -> list[tuple[str, int]]:
        """Bring it to this fill; what was said of it."""
        self.queue.total_bytes = int(kilobytes * 1024)
        return self.look()

    def look(self) -> list[tuple[str, int]]:
        self._caplog.clear()
        self.watch.look()
        return [(record.levelname, fields(record)["reached"]) for record in self._caplog.records]


def fields(record: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = getattr(record, "fields", {})
    return found


@pytest.fixture
def levels(engine: ManualEngine, caplog: pytest.LogCaptureFixture) -> Levels:
    return Levels(engine, caplog)


def test_each_level_is_told_once_on_the_way_up(levels: Levels) -> None:
    assert levels.fill(7.9) == []
    assert levels.fill(8) == [("WARNING", 80)]
    assert levels.fill(9) == []
    assert levels.fill(9.5) == [("WARNING", 95)]
    assert levels.fill(10) == []


def test_a_jump_over_both_levels_is_told_as_the_higher(levels: Levels) -> None:
    assert levels.fill(9.9) == [("WARNING", 95)]


def test_a_fill_around_a_level_is_not_told_again_and_again(levels: Levels) -> None:
    assert levels.fill(8.1) == [("WARNING", 80)]
    assert [levels.fill(kilobytes) for kilobytes in (7.9, 8.1, 7.6, 8.0)] == [[]] * 4


def test_well_below_the_level_it_is_told_once_and_again_on_the_next_way_up(levels: Levels) -> None:
    levels.fill(9.6)
    assert levels.fill(8.9) == [("INFO", 80)]
    assert levels.fill(9.6) == [("WARNING", 95)]
    assert levels.fill(1) == [("INFO", 0)]
    assert levels.fill(1) == []
    assert levels.fill(8) == [("WARNING", 80)]


def test_a_deleted_queue_is_forgotten(levels: Levels) -> None:
    levels.fill(9.6)
    levels.queue.total_bytes = 0
    levels.engine.do(levels.engine.manager.delete_queue, levels.queue, levels.engine.admin)
    assert levels.look() == []
    assert levels.watch._reached == {}


def test_the_queue_manager_its_journals_and_outgoing_queues_are_watched(engine: ManualEngine) -> None:
    engine.sender(r"DIRECT=OS:far\private$\q")
    engine.create(journaling=True, journal_quota=5)
    engine.do(engine.manager.set_manager_properties, {"queue_manager_quota": 100, "journal_quota": 50}, engine.admin)
    assert {(fill.what, fill.limit) for fill in fills(engine.manager.core)} == {
        ("queue manager", 100 * 1024), ("journals", 50 * 1024), ("outgoing queue", 100 * 1024), ("journal", 5 * 1024),
    }  # fmt: skip


def test_what_has_no_limit_or_takes_nothing_at_all_is_not_watched(engine: ManualEngine) -> None:
    engine.create(quota=0)
    engine.do(engine.manager.set_manager_properties, {"queue_manager_quota": 0xFFFFFFFF}, engine.admin)
    assert list(fills(engine.manager.core)) == []
