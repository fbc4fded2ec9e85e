"""Express messages, which no commit carries, on the real engine."""

from __future__ import annotations

import asyncio

from lior.message import Message
from lior.queues.events import Event, MessageDeleted
from lior.server.local import MEMORY, open_local
from tests.server.engines import LONG, looped


@looped
async def test_an_express_message_expires_though_nothing_else_happens() -> None:
    backend = await open_local(MEMORY, describe=dict)
    try:
        await backend.create_queue(r".\private$\q", {})
        handle = await backend.open(r"DIRECT=OS:.\private$\q", 2, False)
        gone = asyncio.Event()

        def listen(event: Event) -> None:
            if isinstance(event, MessageDeleted):
                gone.set()

        backend.manager.subscribe(listen)
        await asyncio.sleep(0)
        await backend.send(handle, Message(b"x", time_to_be_received=1, delivery_guarantee=0), None)
        await asyncio.wait_for(gone.wait(), LONG)
    finally:
        await backend.close()
