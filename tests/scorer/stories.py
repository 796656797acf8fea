"""What tests of verdicts share: a short ledger of the toy domain, questions about it and answers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from churnbench.cuts import Cut
from churnbench.events import Event
from churnbench.records import Answer, Question, Retrieval, Tick, Verdict
from churnbench_scorer import LedgerIndex, score
from tests.toy import MEASURES, REGISTRY, START_MS, TOY, Moved, Registered, Scanned, event

DAY_MS = 86_400_000
T = START_MS + 4 * DAY_MS
"""The questions' time: day 4."""


def day(number: float) -> int:
    return START_MS + int(number * DAY_MS)


STORY = [
    event(0, day(0), "p0", Registered("north", 2.0)),
    event(1, day(0), "p1", Registered("north", 4.0)),
    event(2, day(0), "p2", Registered("south", 8.0)),
    event(3, day(1), "p3", Registered("south", 1.0)),
    event(4, day(1), "p0", Scanned(30)),
    event(5, day(2), "p2", Moved("north")),
    event(6, day(3), "p1", Moved("east")),
    event(7, day(3), "p3", Moved("east")),
    event(8, day(3), "p0", Scanned(60)),
    event(9, day(4), "p2", Moved("south")),
    event(10, day(4.5), "p0", Moved("south")),
]
"""Parcels in depots by day:

day 0: north p0 p1, south p2
day 1: north p0 p1, south p2 p3
day 2: north p0 p1 p2, south p3
day 3: north p0 p2, east p1 p3
day 4: north p0, east p1 p3, south p2
day 4.5: east p1 p3, south p0 p2
"""


class Scene:
    """A ledger, its clock, and verdicts on answers to one question about it."""

    def __init__(self, events: Sequence[Event] = STORY, partitions: int = 1, days: int = 4) -> None:
        self.index = LedgerIndex.of_events(events, TOY, partitions)
        self.ticks = [Tick(n, day(n), self.index.cut_at(day(n))) for n in range(days + 1)]

    def cut(self, number: float) -> Cut:
        return self.index.cut_at(day(number))

    def read(
        self, measure: str | None, days: Mapping[str, float], refreshed: Mapping[str, float] | None = None
    ) -> Retrieval:
        """A retrieval that read each class as of a day."""
        cuts = {cls: self.cut(number) for cls, number in days.items()}
        times = {cls: day(number) for cls, number in (days if refreshed is None else refreshed).items()}
        return Retrieval("staged", "staged", measure, sorted(days), "SELECT", 1, 0.0, cuts, times)

    def verdict(
        self,
        measure: str,
        params: dict[str, Any],
        value: Any,
        *trace: Retrieval,
        outcome: Any = "answered",
        answered_ms: int = T,
    ) -> Verdict:
        kind = MEASURES[measure].answer_type
        question = Question("t0", measure, params, kind, 1, "tests", "T0", f"{measure}?", T)
        answer = Answer("t0", T, answered_ms, str(value), value, outcome, list(trace))
        (verdict,) = score(self.index, TOY, REGISTRY, self.ticks, [question], [answer])
        return verdict
