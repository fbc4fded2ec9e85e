"""What a player tells: events for a hook, figures for metrics, one line of the log for each call."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

log = logging.getLogger("lior.components")

Kind = Literal["played", "aborted", "moved", "dead", "rejected", "duplicate", "skipped", "interrupted", "handled"]


@dataclass(frozen=True)
class Event:
    """One thing that happened to a message. `moved_to` is a subqueue; `call` the index of the call that failed."""

    kind: Kind
    message_id: str
    lookup_id: int
    reason: str = ""
    moved_to: str = ""
    call: int | None = None
    level: int = 0


Hook = Callable[[Event], None]


@dataclass
class Figures:
    """What a player did since it started."""

    messages_played: int = 0
    calls_played: int = 0
    calls_failed: int = 0
    messages_aborted: int = 0
    messages_rejected: int = 0
    messages_moved: int = 0
    messages_dead: int = 0
    duplicates: int = 0
    active: int = 0
    call_seconds: float = 0.0
    last_error: str = ""


_COUNTERS: Final = {
    "messages_played": "Messages whose calls were all made.",
    "calls_played": "Calls made.",
    "calls_failed": "Calls that raised.",
    "messages_aborted": "Attempts at messages that were taken back.",
    "messages_rejected": "Messages that were refused before any call.",
    "messages_moved": "Moves into retry queues.",
    "messages_dead": "Messages that went to the dead queue.",
    "duplicates": "Messages that came a second time and were dropped.",
    "call_seconds": "Time spent in calls.",
}


@dataclass(eq=False)
class Reporter(Collector):
    """A player's voice. A collector of prometheus_client: register it to publish its figures."""

    application: str
    queue: str
    hook: Hook | None = None
    figures: Figures = field(default_factory=Figures)

    def event(self, event: Event) -> None:
        level = logging.INFO if event.kind in ("played", "handled") else logging.WARNING
        if event.kind != "played":
            facts = {name: value for name, value in vars(event).items() if value not in ("", None)}
            self._write(level, {"event": facts.pop("kind")} | facts)
        if self.hook is not None:
            try:
                self.hook(event)
            except Exception as error:  # whatever it raises, the message goes its way
                self.trouble(error)

    def call(self, message_id: str, index: int, method: str, seconds: float, error: BaseException | None) -> None:
        self.figures.call_seconds += seconds
        if error is None:
            self.figures.calls_played += 1
        else:
            self.figures.calls_failed += 1
        level = logging.INFO if error is None else logging.WARNING
        if log.isEnabledFor(level):
            facts = {"event": "call", "outcome": "done" if error is None else "failed", "message_id": message_id,
                     "call": index, "method": method, "seconds": round(seconds, 6)}  # fmt: skip
            self._write(level, facts if error is None else facts | {"error": described(error)})

    def trouble(self, error: BaseException) -> None:
        self.figures.last_error = described(error)
        self._write(logging.ERROR, {"event": "trouble", "error": described(error)})

    def _write(self, level: int, facts: dict[str, Any]) -> None:
        """One line of JSON: nothing that a message says can break out of it."""
        log.log(level, "%s", json.dumps({"application": self.application, "queue": self.queue} | facts))

    def collect(self) -> Iterator[Metric]:
        labels = ["application", "queue"]
        values = [self.application, self.queue]
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"lior_component_{name}", text, labels=labels)
            counter.add_metric(values, getattr(self.figures, name))
            yield counter
        gauge = GaugeMetricFamily("lior_component_active", "Messages being played.", labels=labels)
        gauge.add_metric(values, self.figures.active)
        yield gauge


def described(error: BaseException) -> str:
    """An error in one bounded line."""
    text = str(error)
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__
