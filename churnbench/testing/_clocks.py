"""A clock that a test moves."""

from __future__ import annotations

__all__ = ["FakeClock"]


class FakeClock:
    """Implements `churnbench.clock.Clock`; stands still until it is moved.

    Args:
        now_ms: where it begins.
    """

    def __init__(self, now_ms: int = 1_704_067_200_000) -> None:
        self._now_ms = now_ms
        self._seconds = 0.0

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return self._now_ms

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Moves both times on."""
        self._seconds += seconds
        self._now_ms += round(seconds * 1000)

    def set_back(self, seconds: float) -> None:
        """Moves the wall clock back, as an administrator may; durations go on."""
        self._now_ms -= round(seconds * 1000)
