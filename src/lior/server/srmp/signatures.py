"""XML signatures of messages that arrive ([MC-MQSRM] 3.1.5.1.6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lior.message import Message
from lior.queues.queue import Queue

if TYPE_CHECKING:
    from lior.server.srmp.hub import Srmp
    from lior.server.srmp.incoming import Received


class Signatures:
    def __init__(self, hub: Srmp) -> None:
        self._hub = hub

    def verify(self, received: Received, queue: Queue, message: Message) -> bool:
        """Whether the message may be delivered: unsigned where no signature is asked for."""
        return received.envelope.signature is None and not queue.main.properties.authentication
