"""A clock that moves when told."""


class FakeClock:
    """Wall and monotonic readings, moved together by `advance`; the wall alone can jump."""

    def __init__(self, wall: float = 1_700_000_000.0, monotonic: float = 1_000.0) -> None:
        self._wall = wall
        self._monotonic = monotonic

    def wall(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._wall += seconds
        self._monotonic += seconds

    def set_wall(self, wall: float) -> None:
        """Somebody set the computer's clock."""
        self._wall = wall
