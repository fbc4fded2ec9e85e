"""Messages that could not be delivered: the exception class of their class gets them, on the sender's side."""

from __future__ import annotations

from contextlib import suppress

from lior.client.aio import Queue, QueueManager
from lior.client.message import ReceivedMessage
from lior.components.application import Playback, Rejected
from lior.components.events import described
from lior.components.finals import final_retry
from lior.components.playback import CallFailed, Stage
from lior.components.player import Player
from lior.errors import LiorError


async def play_dead_letters(player: Player, queue: str) -> int:
    """Messages that could not be delivered, in the sender's transactional dead-letter queue: the exception class of
    their class is told with `final_client_retry` and gets their calls. Answers how many it took."""
    manager, count = player.manager, 0
    async with await manager.open_queue(queue) as opened:
        async for found in opened:
            with suppress(Rejected):
                playback = player.application.prepare(found)
                if playback.served.exception_class is not None:
                    count += await _dead_letter(player, manager, opened, found, playback)
    return count


async def _dead_letter(
    player: Player, manager: QueueManager, queue: Queue, message: ReceivedMessage, playback: Playback
) -> int:
    transaction = await manager.transaction().begin()
    try:
        await queue.receive_by_lookup_id(message.lookup_identifier, transaction=transaction)
        stage = Stage(manager, message, transaction, player.reporter, level=0, threads=player.threads)
        await final_retry(playback, stage, "final_client_retry")
    except (LiorError, CallFailed) as error:
        await transaction.abort()
        player.tell("aborted", message, f"exception class: {described(error)}")
        return 0
    except BaseException:
        await transaction.abort()
        raise
    await transaction.commit()
    player.tell("handled", message, "by the exception class, at the sender")
    return 1
