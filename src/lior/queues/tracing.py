"""Reports on the way of a message to whoever asked for them ([MS-MQQB] 3.1.5.8.9, 3.1.7.1.7).

The message names a public queue by its GUID. Without a directory configuration says which queue that is; for other
GUIDs, and so by default for all, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from lior.message import Message, MessageClass
from lior.queues.change import Change
from lior.queues.sending import Sending

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Tracing:
    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self._queues: dict[UUID, str] = {}

    def configure(self, queues: Mapping[UUID, str]) -> None:
        """The format name of the queue that each GUID stands for."""
        self._queues = dict(queues)

    def arrived(self, change: Change, message: Message, now: float) -> None:
        """The message is in its queue, or in that to the next hop."""
        self._report(change, message, now, "")

    def sent(self, change: Change, message: Message, now: float, next_hop: str) -> None:
        """The message left for the address of the next hop."""
        # The blank before the closing tag is in the grammar.
        more = f"<NEXT HOP>{next_hop}</NEXT HOP>\r\n<HOP COUNT>{message.hop_count:02X} </HOP COUNT>\r\n"
        self._report(change, message, now, more)

    def _report(self, change: Change, message: Message, now: float, more: str) -> None:
        queue = self._queues.get(message.tracing_queue) if message.tracing_requested else None
        identifier = message.identifier
        if queue is None or identifier is None or message.message_class == MessageClass.REPORT:
            return
        text = (
            f"<MESSAGE ID>{identifier.uniquifier:08X}</MESSAGE ID>\r\n"
            f"<TARGET QUEUE>{message.destination_queue}</TARGET QUEUE>\r\n{more}"
        )
        report = Message(
            text.encode("utf-16-le"),
            _label(message, identifier.uniquifier, now),
            message_class=MessageClass.REPORT.value,
        )
        self._sending.stamp_own(change, report)
        self._sending.stage_own(change, queue, report)


def _label(message: Message, ordinal: int, now: float) -> str:
    """The grammar says "received by" in reports on sending too. It names no time zone: UTC."""
    source = str(message.source_queue_manager).upper()
    time = datetime.fromtimestamp(now, UTC)
    half = "AM" if time.hour < 12 else "PM"
    date = f"{_DAYS[time.weekday()]},{_MONTHS[time.month - 1]} {time.day:02} {time.year % 100:02}"
    return f"{source[:4]}:{ordinal:08X}:{message.hop_count:02X} received by {source} at {time:%H:%M:%S} {half} {date}"
