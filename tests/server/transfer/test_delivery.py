"""Messages from one queue manager to another over real sockets."""

from __future__ import annotations

import asyncio

import pytest

from tests.server.engines import looped
from tests.server.transfer.fleet import LONG, QUEUE, TRANSACTIONAL, fleet, until


@pytest.mark.parametrize("express", [True, False])
@looped
async def test_messages_arrive_in_order_and_leave_nothing_behind(express: bool) -> None:
    async with fleet(2) as (here, there):
        name = there.name(QUEUE)
        async with await here.qm.open_queue(name, "send") as queue:
            for number in range(300):
                await queue.send(b"%d" % number, express=express)
        async with await there.qm.open_queue(QUEUE) as queue:
            for number in range(300):
                message = await queue.receive(timeout=LONG)
                assert message.body == b"%d" % number
        await until(lambda: here.waiting() == 0, "acknowledgement")


@looped
async def test_transactions_arrive_once_and_in_order() -> None:
    async with fleet(2) as (here, there):
        name = there.name(TRANSACTIONAL)
        for number in range(40):
            async with here.qm.transaction() as tx:
                for part in range(5):
                    await tx.send(name, b"%d" % (number * 5 + part))
        async with await there.qm.open_queue(TRANSACTIONAL) as queue:
            for number in range(200):
                assert (await queue.receive(timeout=LONG)).body == b"%d" % number
        await until(lambda: here.waiting() == 0, "order acknowledgement")


@looped
async def test_what_is_sent_while_the_other_side_is_down_arrives_when_it_comes() -> None:
    async with fleet(1) as (here,):
        settings = here.transfer.settings
        from tests.server.transfer.fleet import fresh_address, start_host

        address = fresh_address()
        name = f"DIRECT=TCP:{address}\\private$\\orders"
        for number in range(150):
            await here.qm.send(name, b"%d" % number)
        there = await start_host(settings, address)
        try:
            await there.qm.create_queue(QUEUE)
            async with await there.qm.open_queue(QUEUE) as queue:
                for number in range(150):
                    assert (await queue.receive(timeout=LONG)).body == b"%d" % number
            await until(lambda: here.waiting() == 0, "acknowledgement")
        finally:
            await asyncio.wait_for(there.stop(), LONG)
