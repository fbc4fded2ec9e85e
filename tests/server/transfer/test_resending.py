"""EOD_RESEND: what has no order acknowledgement goes again when an operator asks for it ([MS-MQMR] 3.1.4.2)."""

from __future__ import annotations

from typing import Any

from lior.queues.outgoing import IncomingTransactionalTransferInfo
from tests.server.engines import looped
from tests.server.transfer.fleet import LONG, TRANSACTIONAL, fleet, until


@looped
async def test_what_was_sent_goes_again_and_is_received_once() -> None:
    async with fleet(2) as (here, there):
        held: list[Any] = []
        acks: Any = there.transfer.order_acks
        schedule = acks._send
        acks._send = held.append
        name = there.name(TRANSACTIONAL)
        async with here.qm.transaction() as tx:
            for number in range(5):
                await tx.send(name, b"%d" % number)
        await until(lambda: len(held) > 0, "the acknowledgement that is held back")
        (outgoing,) = here.manager.core.outgoing.values()
        (info,) = there.manager.core.incoming.values()
        assert isinstance(info, IncomingTransactionalTransferInfo)
        departure = here.transfer._by_queue[outgoing.queue_id].departures[outgoing.queue_id]
        in_flight = here.transfer.departures.in_flight
        await until(lambda: not in_flight and len(departure.unordered) == 5, "acknowledged by the session alone")
        before = info.reject_count
        here.transfer.resend(outgoing)
        await until(lambda: info.reject_count > before, "the same messages again")
        acks._send = schedule
        for stream in held[:1]:
            schedule(stream)
        await until(lambda: here.waiting() == 0, "order acknowledgement")
        async with await there.qm.open_queue(TRANSACTIONAL) as queue:
            for number in range(5):
                assert (await queue.receive(timeout=LONG)).body == b"%d" % number
            assert (await queue.info()).messages == 0


@looped
async def test_without_a_link_there_is_nothing_to_send_again() -> None:
    async with fleet(1) as (here,):
        await here.qm.send(r"DIRECT=TCP:127.0.0.99\private$\q", b"x")
        (outgoing,) = here.manager.core.outgoing.values()
        here.transfer.resend(outgoing)
        assert here.waiting() == 1
