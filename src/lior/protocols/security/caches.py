"""Session keys and certificates that were found good lately ([MS-MQQB] 3.1.1.3.3, 3.1.1.3.4; in memory only).

The document keeps lifetimes in milliseconds and times in seconds; here both are seconds of the monotonic clock.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SLACK = 60.0  # 3.1.6.10 to 3.1.6.13: the next look comes a minute after the oldest entry is due


class AgingCache(Generic[K, V]):
    """A bounded map whose entries live for a time after they were added, however often they are used."""

    def __init__(self, size: int, lifetime: float) -> None:
        self._size = max(size, 1)
        self._lifetime = lifetime
        self._entries: dict[K, tuple[V, float]] = {}  # in the order of their times: additions come at the end
        self.deadline: float | None = None  # when the cleanup timer is due; None while it is idle

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now: float) -> V | None:
        found = self._entries.get(key)
        if found is None:
            return None
        if now - found[1] > self._lifetime:
            del self._entries[key]
            return None
        return found[0]

    def add(self, key: K, value: V, now: float) -> None:
        """Room for one more is made by dropping the oldest half."""
        self._entries.pop(key, None)
        if len(self._entries) >= self._size:
            for oldest in list(self._entries)[: (self._size + 1) // 2]:
                del self._entries[oldest]
        self._entries[key] = (value, now)
        if self.deadline is None:
            self.deadline = now + self._lifetime

    def tick(self, now: float) -> None:
        """The cleanup timer: drop what is too old, and look again when the oldest of the rest is."""
        if self.deadline is None or now < self.deadline:
            return
        for key in [key for key, (_, added) in self._entries.items() if now - added > self._lifetime]:
            del self._entries[key]
        oldest = next(iter(self._entries.values()), None)
        self.deadline = None if oldest is None else oldest[1] + self._lifetime + SLACK

    def clear(self) -> None:
        self._entries.clear()
        self.deadline = None
