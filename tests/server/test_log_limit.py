"""Lines that somebody elsewhere causes: a few, then a count."""

from __future__ import annotations

import asyncio
import logging

import pytest

from lior.server.log_limit import LogLimit
from tests.server.engines import LONG, looped

log = logging.getLogger("lior.limited")


@looped
async def test_some_lines_are_written_and_the_others_counted_in_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lior.limited")
    limit = LogLimit(log, logging.INFO, "thing", asyncio.get_running_loop(), most=3, interval=1000.0)
    assert [limit.allows() for _ in range(10)] == [True] * 3 + [False] * 7
    limit.tell()
    limit.tell()
    (record,) = caplog.records
    assert record.getMessage() == "thing: further lines were left out"
    assert record.__dict__["fields"] == {"lines": 7}


@looped
async def test_the_end_of_an_interval_tells_and_begins_another(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lior.limited")
    limit = LogLimit(log, logging.INFO, "thing", asyncio.get_running_loop(), most=1, interval=0.02)
    assert [limit.allows(), limit.allows()] == [True, False]

    async def told() -> None:
        while not caplog.records:
            await asyncio.sleep(0.005)

    await asyncio.wait_for(told(), LONG)
    assert limit.allows()


@looped
async def test_what_nobody_reads_is_neither_written_nor_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "lior.limited")
    limit = LogLimit(log, logging.INFO, "thing", asyncio.get_running_loop(), most=1)
    assert not limit.allows() and not limit.left_out
    limit.tell()
    assert not caplog.records
