"""Figures, times and values as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from churnbench.clock import DAY_MS
from churnbench.cuts import Cut
from churnbench.events import time_text

__all__ = ["clean", "counted", "cut_text", "days_text", "joined", "rounded", "seconds_text", "share_text", "size_text"]

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_SIGNIFICANT = 1e-4


def rounded(value: float) -> str:
    """A figure with one decimal at most, thousands apart; what is above zero but rounds to it as `< 0.1`."""
    if 0 < value < 0.05:
        return "< 0.1"
    return f"{round(value, 1) + 0.0:,.1f}".removesuffix(".0")


def share_text(share: float | None) -> str:
    """A share from 0 to 1 as a percentage, `-` where there is none."""
    return "-" if share is None else f"{share * 100:.1f} %"


def size_text(size: int) -> str:
    """Bytes in kB or MB of 1000."""
    if size < 1000:
        return f"{size} B"
    return f"{rounded(size / 1e3)} kB" if size < 1e6 else f"{rounded(size / 1e6)} MB"


def seconds_text(seconds: float) -> str:
    """Seconds, or minutes from 120 seconds on."""
    return f"{rounded(seconds)} s" if seconds < 120 else f"{rounded(seconds / 60)} min"


def days_text(millis: float) -> str:
    """Milliseconds in days, in hours or minutes below one."""
    if 0 < abs(millis) < DAY_MS:
        hours = millis / 3_600_000
        return f"{rounded(hours)} h" if abs(hours) >= 1 else f"{rounded(hours * 60)} min"
    days = rounded(millis / DAY_MS)
    return f"{days} {'day' if days == '1' else 'days'}"


def counted(number: float, one: str, several: str) -> str:
    """A number with its noun."""
    text = rounded(number)
    return f"{text} {one if text == '1' else several}"


def joined(names: Iterable[str], word: str = "and") -> str:
    """`a, b and c`; empty for none."""
    *first, last = [*names] or [""]
    return f"{', '.join(first)} {word} {last}" if first else last


def value_text(value: Any) -> str:
    """An answer or a gold: numbers with at most four decimals, text as it is, `none` for None."""
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else str(value)
    if value and not _SIGNIFICANT <= abs(value) < 1e15:
        return f"{value:.4g}"
    return f"{round(value, 4):,}".removesuffix(".0")


def cut_text(cut: Cut, ticks: Mapping[Cut, int]) -> str:
    """The time of a cut: its label, else that of the tick with the same cut, else how many records it holds.

    Args:
        cut: the cut.
        ticks: cut -> time of the run's clock, milliseconds.
    """
    at_ms = ticks.get(cut) if cut.at_ms is None else cut.at_ms
    return time_text(at_ms) if at_ms is not None else f"after {cut.events} records"


def clean(text: str) -> str:
    """Text without what no document may hold: control characters and halves of surrogate pairs become U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)
