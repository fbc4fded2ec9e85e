"""Messages for others, which go on as they came ([MC-MQSRM] 3.1.5.1.3).

Their identifiers, streams and receipts are between their sender and their destination: envelope and attachments leave
octet for octet, whether they are part of a stream or not (docs/spec-notes.md, SR-146).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from lior.names import DirectName
from lior.queues.change import Change
from lior.queues.sending import EnqueueStatus
from lior.wire.http1 import passed_by
from lior.wire.srmp_message import to_message

if TYPE_CHECKING:
    from lior.server.srmp.hub import Srmp
    from lior.server.srmp.incoming import Received

log = logging.getLogger("lior.srmp")


MOST_HOPS: Final = 15


class Forwarding:
    def __init__(self, hub: Srmp) -> None:
        self._hub = hub

    def take(self, received: Received, name: DirectName) -> int:
        hub, request = self._hub, received.request
        why = self._circle(request.head)
        if why:
            hub.incoming.outcomes["circle"] += 1
            log.warning("a message goes in a circle, and no further", extra={"fields": {
                "message": str(received.envelope.identifier), "to": received.envelope.to, "why": why}})
            return 400
        message = to_message(received.envelope, received.entity, request.head + request.body, hub.clock.wall(),
                             destination=str(name))
        message.delivery_guarantee = 1  # whoever takes it on must not lose it
        change = Change()
        status = hub.manager.transit(change, message, name)
        if status is EnqueueStatus.QUEUE_MANAGER_QUOTA:
            return 500
        if status is not EnqueueStatus.OK:
            hub.incoming.outcomes["dropped"] += 1
            return 200
        hub.incoming.outcomes["forwarded"] += 1
        change.ordered = True
        change.answer(received.reply, 200)
        hub.manager.core.submit(change)
        return 0

    def _circle(self, head: bytes) -> str:
        """SRMP counts no hops: without this a message would go round until its time is over. HTTP has Via for it."""
        passed = passed_by(head)
        own = str(self._hub.manager.core.properties.identifier)
        if any(entry.partition(" ")[2].strip().casefold() == own for entry in passed):
            return "it has been here before"
        return f"{len(passed)} queue managers passed it on" if len(passed) >= MOST_HOPS else ""
