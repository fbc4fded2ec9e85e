"""A small map from the ordinal of a message's identifier to where the message is. Nearly always there is one: only
the copies of a message for several queues share an identifier, so a list for each would be a waste."""

from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class ByOrdinal(Generic[T]):
    __slots__ = ("_more", "_one")

    def __init__(self) -> None:
        self._one: dict[int, T] = {}
        self._more: dict[int, list[T]] = {}

    def __len__(self) -> int:
        return len(self._one) + sum(map(len, self._more.values()))

    def add(self, ordinal: int, value: T) -> None:
        if self._one.setdefault(ordinal, value) is not value:
            self._more.setdefault(ordinal, []).append(value)

    def add_all(self, ordinals: Sequence[int], values: Sequence[T]) -> None:
        """As `add` for each."""
        one = self._one
        if one.keys().isdisjoint(ordinals) and len(set(ordinals)) == len(ordinals):
            one.update(zip(ordinals, values, strict=True))
            return
        for ordinal, value in zip(ordinals, values, strict=True):
            self.add(ordinal, value)

    def remove_all(self, ordinals: Sequence[int], values: Sequence[T]) -> None:
        """As `remove` for each."""
        if self._more:
            for ordinal, value in zip(ordinals, values, strict=True):
                self.remove(ordinal, value)
            return
        one = self._one
        for ordinal, value in zip(ordinals, values, strict=True):
            if one.get(ordinal) == value:
                del one[ordinal]

    def get(self, ordinal: int) -> Sequence[T]:
        first = self._one.get(ordinal)
        return () if first is None else (first, *self._more.get(ordinal, ()))

    def remove(self, ordinal: int, value: T) -> None:
        """Not there is as good."""
        if ordinal not in self._more:
            if self._one.get(ordinal) == value:
                del self._one[ordinal]
            return
        there = [known for known in self.get(ordinal) if known != value]
        self._one.pop(ordinal, None)
        self._more.pop(ordinal, None)
        for known in there:
            self.add(ordinal, known)
