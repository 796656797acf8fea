"""What happens when: Poisson streams spread over the day, merged with what was put off until later."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, time
from typing import NamedTuple

import numpy as np

from churnbench.events import Event, to_millis
from churnbench.registry import DAY_MS
from churnbench_sam._params import Parameters

__all__ = ["Action", "Stream", "Timeline"]

Action = Callable[[], Iterator[Event]]
"""Changes the state of a world and gives the events that say so."""


class Stream(NamedTuple):
    """Something that happens again and again, at any millisecond of the day alike.

    Attributes:
        mean: how often a day.
        action: what happens.
        exact: whether it happens exactly `mean` times, and not a Poisson number of times.
    """

    mean: float
    action: Action
    exact: bool = False


class Timeline:
    """The actions of a world in the order of their times.

    A day is planned at its beginning: how often each stream comes, and when. So the plan of one day is held,
    and what is put off, never more. The total of a Poisson stream over entities, each drawn alike, is the same
    as an independent Poisson process for each.

    Args:
        params: first day and length of the world.
        rng: draws the plans; the actions may share it.
    """

    def __init__(self, params: Parameters, rng: np.random.Generator) -> None:
        self.start_ms = to_millis(datetime.combine(params.start, time(), UTC))
        self._days = params.days
        self._rng = rng
        self._due: list[tuple[int, int, Action]] = []
        self._put_off = 0

    def put_off(self, at_ms: int, action: Action) -> None:
        """Have `action` happen at `at_ms`, which is not in the past; never, if the world ends before."""
        heapq.heappush(self._due, (at_ms, self._put_off, action))
        self._put_off += 1

    def run(self, streams: Sequence[Stream]) -> Iterator[tuple[int, Action]]:
        """(time in milliseconds, action), times never decreasing, up to the end of the world."""
        actions = [stream.action for stream in streams]
        for day in range(self._days):
            day_ms = self.start_ms + day * DAY_MS
            counts = [int(s.mean) if s.exact else int(self._rng.poisson(s.mean)) for s in streams]
            offsets = self._rng.integers(0, DAY_MS, size=sum(counts))
            order = np.argsort(offsets, kind="stable")
            kinds = np.repeat(np.arange(len(streams)), counts)[order].tolist()
            for at_ms, kind in zip((offsets[order] + day_ms).tolist(), kinds, strict=True):
                yield from self._until(at_ms)
                yield at_ms, actions[kind]
            yield from self._until(day_ms + DAY_MS - 1)

    def _until(self, at_ms: int) -> Iterator[tuple[int, Action]]:
        while self._due and self._due[0][0] <= at_ms:
            due_ms, _, action = heapq.heappop(self._due)
            yield due_ms, action
