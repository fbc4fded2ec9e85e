"""How many messages came and went since the start: plain numbers, for whoever measures."""

from typing import Final

from lior.message import MessageClass

RECEIVED: Final = MessageClass.ACK_RECEIVE.value
TRANSFERRED: Final = MessageClass.ACK_REACH_QUEUE.value


class Traffic:
    __slots__ = ("arrived", "arrived_bytes", "dropped", "received", "refused", "sent", "transferred")

    def __init__(self) -> None:
        self.sent = 0  # by applications here
        self.arrived = 0  # in a queue, outgoing ones and copies for journals and dead letters included
        self.arrived_bytes = 0
        self.received = 0  # by a reader
        self.transferred = 0  # the next queue manager has it
        self.dropped = 0  # copies and acknowledgements that could not be kept
        self.refused: dict[int, int] = {}  # by message class: expired, purged, refused

    def left(self, reason: int, count: int = 1) -> None:
        """Messages left their queue, or never got into it."""
        if reason == RECEIVED:
            self.received += count
        elif reason == TRANSFERRED:
            self.transferred += count
        else:
            self.refused[int(reason)] = self.refused.get(int(reason), 0) + count
