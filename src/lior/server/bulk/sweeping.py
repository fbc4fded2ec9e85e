"""Stages that nobody publishes go away: their writers died, or were replaced by others that wrote the batch again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lior.store import stages

log = logging.getLogger("lior.bulk")

LONGEST: Final = 600.0  # seconds between two looks


class Sweeper:
    """`wall` is a clock of the kind that files are dated by."""

    def __init__(self, directory: Path, timeout: float, wall: Callable[[], float]) -> None:
        self._directory = directory
        self._timeout = timeout
        self._wall = wall
        self._stopped = threading.Event()

    @property
    def interval(self) -> float:
        """Nothing stays for more than half as long again as it may."""
        return min(self._timeout / 2, LONGEST)

    def sweep(self) -> int:
        removed = stages.expire(self._directory, self._wall() - self._timeout)
        if removed:
            log.info("removed what nobody published", extra={"fields": {"files": removed}})
        return removed

    def start(self) -> None:
        threading.Thread(target=self._run, name="lior-sweeper", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.sweep()
            if self._stopped.wait(self.interval):
                return

    def stop(self) -> None:
        self._stopped.set()
