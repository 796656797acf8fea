"""Time: the only place, besides the command line, that reads the wall clock; and times as people write them."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime
from typing import Protocol

from churnbench.errors import UsageError
from churnbench.events import to_millis

__all__ = ["DAY_MS", "Clock", "SystemClock", "parse_time"]

DAY_MS = 86_400_000


class Clock(Protocol):
    """Where a service takes wall-clock time from."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may jump."""

    def monotonic(self) -> float:
        """Seconds that never go back, for durations."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.perf_counter()


def parse_time(text: str) -> int:
    """Milliseconds of an ISO date (midnight UTC) or an ISO time; without an offset it is UTC.

    Raises:
        UsageError: it is neither.
    """
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            day = date.fromisoformat(text)
            return to_millis(datetime(day.year, day.month, day.day, tzinfo=UTC))
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no time; write 2024-04-27 or 2024-04-27T09:30:00Z") from error
    return to_millis(at if at.tzinfo is not None else at.replace(tzinfo=UTC))
