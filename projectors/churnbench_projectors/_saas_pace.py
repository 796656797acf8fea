"""The pace of the SaaS: real seconds, or virtual ones that cost no waiting but are accounted all the same."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Literal, Protocol

from churnbench.clock import Clock

__all__ = ["Pace", "RealPace", "RequestBudget", "SlidingWindow", "VirtualPace"]

_ROUNDING = 1e-6
"""Seconds that sums of floats may be off by; less than any limit that matters."""


class Pace(Protocol):
    """What a client or server of the SaaS takes time from and waits on.

    Attributes:
        name: `real` or `virtual`; client and server must agree.
    """

    name: Literal["real", "virtual"]

    def now(self) -> float:
        """Seconds since some beginning; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Returns when `seconds` (0 or less: none) have passed at this pace."""

    def reach(self, now: float) -> None:
        """Learns that it is `now` at least; a real pace ignores it."""


class RealPace:
    """The wall clock's pace.

    Args:
        clock: where durations come from.
    """

    name: Literal["real", "virtual"] = "real"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> float:
        """See `Pace.now`."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See `Pace.sleep`."""
        await asyncio.sleep(max(0.0, seconds))

    def reach(self, now: float) -> None:
        """See `Pace.reach`."""


class VirtualPace:
    """A clock that starts at 0 and is moved by waiting alone: every sleep ends at once and counts in full.

    Sleeps of concurrent tasks follow each other, so that the same calls always take the same time.
    """

    name: Literal["real", "virtual"] = "virtual"

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """See `Pace.now`."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """See `Pace.sleep`."""
        self._now += max(0.0, seconds)
        await asyncio.sleep(0)

    def reach(self, now: float) -> None:
        """See `Pace.reach`."""
        self._now = max(self._now, now)


class SlidingWindow:
    """At most `limit` admissions in any `seconds`: the server's side of the limit.

    Args:
        limit: at least 1.
        seconds: length of the window.
    """

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._admitted: deque[float] = deque()

    def admit(self, now: float) -> float:
        """0.0 if a request is admitted at `now` (and counted), else the seconds until one would be."""
        while self._admitted and self._admitted[0] + self._seconds <= now + _ROUNDING:
            self._admitted.popleft()
        if len(self._admitted) < self._limit:
            self._admitted.append(now)
            return 0.0
        return self._admitted[0] + self._seconds - now


class RequestBudget:
    """The client's side of the limit: never more than `limit` requests that a server could see within `seconds`.

    A request counts from when it is begun until `seconds` after it ended, because the client does not know when in
    between the server saw it.

    Args:
        pace: what it waits on.
        limit: at least 1.
        seconds: length of the window.
    """

    def __init__(self, pace: Pace, limit: int, seconds: float) -> None:
        self._pace = pace
        self._limit = limit
        self._seconds = seconds
        self._ended: deque[float] = deque()
        self._open = 0
        self._turn = asyncio.Lock()
        self._closed = asyncio.Event()

    async def begin(self) -> float:
        """Returns when one more request may be sent, with the seconds that were waited for it."""
        waited = 0.0
        async with self._turn:
            while (seconds := self._until_free()) > 0:
                if math.isinf(seconds):
                    before = self._pace.now()
                    self._closed.clear()
                    await self._closed.wait()
                    waited += self._pace.now() - before
                else:
                    await self._pace.sleep(seconds)
                    waited += seconds
            self._open += 1
        return waited

    def end(self) -> None:
        """The request that was begun has its answer, or none will come."""
        self._open -= 1
        self._ended.append(self._pace.now())
        self._closed.set()

    def _until_free(self) -> float:
        now = self._pace.now()
        while self._ended and self._ended[0] + self._seconds <= now + _ROUNDING:
            self._ended.popleft()
        if self._open + len(self._ended) < self._limit:
            return 0.0
        return self._ended[0] + self._seconds - now if self._ended else math.inf
