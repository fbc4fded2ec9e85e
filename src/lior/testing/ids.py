"""Identifiers that a seed makes repeatable."""

from random import Random
from uuid import UUID


class SeededIds:
    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)

    def guid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)
