"""Lines of the log that somebody elsewhere causes, as many as he likes: some are written, the others are counted."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

MOST: Final = 20  # lines in an interval
INTERVAL: Final = 10.0  # seconds


class LogLimit:
    """For one kind of line. Who writes one asks before, so that what is left out costs nothing:

    if limit.allows():
        log.info("message refused", extra={...})
    """

    def __init__(
        self, log: logging.Logger, level: int, event: str, loop: asyncio.AbstractEventLoop, *,
        most: int = MOST, interval: float = INTERVAL,
    ) -> None:  # fmt: skip
        self._log = log
        self._level = level
        self._event = event
        self._loop = loop
        self._most = most
        self._interval = interval
        self._since = float("-inf")
        self._written = 0
        self.left_out = 0  # since the last line that said how many
        self._timer: asyncio.TimerHandle | None = None

    def allows(self) -> bool:
        """Whether the line may be written. If not it is counted, and the end of the interval tells."""
        if not self._log.isEnabledFor(self._level):
            return False
        now = self._loop.time()
        if self._timer is None and now - self._since >= self._interval:
            self._since, self._written = now, 0
        if self._written < self._most:
            self._written += 1
            return True
        self.left_out += 1
        if self._timer is None:
            self._timer = self._loop.call_at(self._since + self._interval, self.tell)
        return False

    def tell(self) -> None:
        """The interval is over, or there will be no other: how many lines were left out."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.left_out:
            self._log.log(self._level, "%s: further lines were left out", self._event,
                          extra={"fields": {"lines": self.left_out}})
        self._since, self._written, self.left_out = float("-inf"), 0, 0
