"""Timing and the table of results."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

__all__ = ["Result", "best", "peak_memory_mib", "show", "timed"]

T = TypeVar("T")


class Result(NamedTuple):
    """One line: what was measured, its bare limit, and the bound that the ratio (or the seconds) should keep."""

    name: str
    seconds: float
    bare: float | None
    bound: float
    note: str = ""

    @property
    def value(self) -> float:
        """The ratio to the bare limit, or the seconds where there is none."""
        return self.seconds / self.bare if self.bare is not None else self.seconds


@contextmanager
def timed(into: list[float]) -> Iterator[None]:
    """Appends the seconds that its body took."""
    began = time.perf_counter()
    yield
    into.append(time.perf_counter() - began)


def best(work: Callable[[], T], rounds: int = 3) -> tuple[float, T]:
    """The shortest of some rounds, which noise disturbs least, and the last result."""
    seconds: list[float] = []
    for _ in range(rounds):
        with timed(seconds):
            result = work()
    return min(seconds), result


def peak_memory_mib() -> float:
    """The largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def show(results: list[Result]) -> None:
    """Prints the results, one a line."""
    print(f"{'what':<44}{'seconds':>9}{'bare':>9}{'ratio':>8}{'bound':>8}")
    for r in results:
        bare = f"{r.bare:9.3f}{r.value:8.2f}" if r.bare is not None else f"{'':>9}{'':>8}"
        bound = f"{r.bound:g} x" if r.bare is not None else f"{r.bound:g} s"
        print(f"{r.name:<44}{r.seconds:9.3f}{bare}{bound:>8}  {'' if r.value <= r.bound else 'OVER '}{r.note}")
