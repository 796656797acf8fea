"""The saw-tooth: the age of each staged class over simulated time, after Fig. 2 of the published study."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from churnbench.clock import DAY_MS
from churnbench.events import from_millis, time_text
from churnbench.records import Refresh
from churnbench_scorer._cost import distinct
from churnbench_scorer._results import RunResult, windows
from churnbench_scorer._wording import days_text, joined, rounded

__all__ = ["Figure", "Line", "Mark", "Panel", "age_points", "figures"]

WIDTH, HEIGHT = 380, 166
LEFT, RIGHT, TOP, BOTTOM = 28, 276, 10, 140
_LABEL_GAP = 13
_LABEL_HALF = 4
_UNREFRESHED = 2
"""Points of a class that was staged and never refreshed: both ends."""


class Mark(NamedTuple):
    """A text at a place along an axis, in units of the drawing."""

    place: float
    text: str


class Line(NamedTuple):
    """One run's ages of a class: its number among the figure's runs, and the points of a polyline."""

    number: int
    points: str


class Panel(NamedTuple):
    """The ages of one class.

    Attributes:
        name: the class.
        summary: what the panel shows, in words.
        lines: one for each run that stages the class.
        ends: the age at the end, beside the line or lines that end there; `number` of the first of them.
        ttl: the height of its time to live; None where it has none, or it is above the scale.
        ttl_text: its time to live; empty where it has none.
    """

    name: str
    summary: str
    lines: list[Line]
    ends: list[tuple[int, Mark]]
    ttl: float | None
    ttl_text: str


class Figure(NamedTuple):
    """The classes of one window.

    Attributes:
        name: the window.
        runs: the runs' policies (with their ids where two are of one policy), in the order of `Line.number`.
        panels: one for each class.
        across: marks of time.
        up: marks of age in days.
        steady: said instead where nothing was refreshed and no time to live passed: there is no saw-tooth.
    """

    name: str
    runs: list[str]
    panels: list[Panel]
    across: list[Mark]
    up: list[Mark]
    steady: str = ""


def age_points(refreshes: Iterable[Refresh], owner: str, until_ms: int) -> list[tuple[int, int]]:
    """(time, age) of a class, milliseconds, at both sides of each refresh and at `until_ms`.

    The age of a class with several tables is that of the oldest. Empty where none was staged by then.
    """
    last: dict[str, int] = {}
    points: list[tuple[int, int]] = []
    owned = [r for r in distinct(refreshes) if r.owner == owner and r.at_ms <= until_ms]
    for at_ms in sorted({refresh.at_ms for refresh in owned}):
        if last:
            points.append((at_ms, at_ms - min(last.values())))
        last.update((refresh.table, at_ms) for refresh in owned if refresh.at_ms == at_ms)
        points.append((at_ms, at_ms - min(last.values())))
    if last and points[-1][0] < until_ms:
        points.append((until_ms, until_ms - min(last.values())))
    return points


def figures(results: Sequence[RunResult]) -> list[Figure]:
    """A figure for each window whose runs have refreshes."""
    return [
        _figure(window, [run for run in runs if run.refreshes])
        for window, runs in windows(results).items()
        if any(run.refreshes for run in runs)
    ]


def _figure(name: str, runs: Sequence[RunResult]) -> Figure:
    begin, end = min(run.t_prime_ms for run in runs), max(run.t_ms for run in runs)
    owners = sorted({refresh.owner for run in runs for refresh in run.refreshes})
    found = {cls: [age_points(run.refreshes, cls, run.t_ms) for run in runs] for cls in owners}
    oldest = max((age for ages in found.values() for points in ages for _, age in points), default=0)
    step = _step(max(oldest, 1) / DAY_MS, 4)
    top = step * math.ceil(max(oldest, 1) / DAY_MS / step)
    scale = _Scale(begin, max(end, begin + 1), top * DAY_MS)
    names = [run.refresh for run in runs]
    labels = [n if names.count(n) == 1 else f"{n} {run.run_id[-6:]}" for n, run in zip(names, runs, strict=True)]
    ttls = {cls: run.ttls_ms[cls] for run in runs for cls in owners if cls in run.ttls_ms}
    passed = any(age > ttls[cls] for cls, ages in found.items() if cls in ttls for points in ages for _, age in points)
    steady = all(len(points) <= _UNREFRESHED for ages in found.values() for points in ages) and not passed
    return Figure(
        name,
        labels,
        [_panel(cls, found[cls], labels, ttls.get(cls), scale) for cls in owners],
        _dates(begin, end, scale),
        [Mark(scale.y(int(n * step * DAY_MS)), f"{n * step:g}") for n in range(round(top / step) + 1)],
        f"Nothing was refreshed: every class grew {days_text(oldest)} old, within its TTL." if steady else "",
    )


class _Scale(NamedTuple):
    begin_ms: int
    end_ms: int
    top_ms: float

    def x(self, at_ms: int) -> float:
        return round(LEFT + (RIGHT - LEFT) * (at_ms - self.begin_ms) / (self.end_ms - self.begin_ms), 1)

    def y(self, age_ms: int) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * age_ms / self.top_ms, 1)


def _panel(
    name: str, found: Sequence[list[tuple[int, int]]], labels: Sequence[str], ttl: int | None, scale: _Scale
) -> Panel:
    drawn = [(n, points) for n, points in enumerate(found) if points]
    ends: dict[int, list[int]] = {}
    for number, points in drawn:
        ends.setdefault(points[-1][1], []).append(number)
    said = [f"{labels[n]} ends {days_text(points[-1][1])} old, {_peak(points)}" for n, points in drawn]
    return Panel(
        name,
        f"Age of {name} from {time_text(scale.begin_ms)} to {time_text(scale.end_ms)}: {joined(said)}.",
        [Line(n, " ".join(f"{scale.x(at)},{scale.y(age)}" for at, age in points)) for n, points in drawn],
        _apart([(numbers[0], Mark(scale.y(age), _end_text(numbers, labels, age))) for age, numbers in ends.items()]),
        scale.y(ttl) if ttl is not None and ttl <= scale.top_ms else None,
        "" if ttl is None else days_text(ttl),
    )


def _peak(points: Sequence[tuple[int, int]]) -> str:
    return f"{days_text(max(age for _, age in points))} at most"


def _end_text(numbers: Sequence[int], labels: Sequence[str], age: int) -> str:
    whose = "all" if len(numbers) == len(labels) > 2 else joined((labels[n] for n in numbers), "+")
    return f"{whose} {rounded(age / DAY_MS)} d"


def _apart(ends: list[tuple[int, Mark]]) -> list[tuple[int, Mark]]:
    """Moves labels up until none covers another, from the lowest on."""
    placed: list[tuple[int, Mark]] = []
    limit = float(BOTTOM + _LABEL_HALF)
    for number, mark in sorted(ends, key=lambda end: -end[1].place):
        place = min(mark.place + _LABEL_HALF, limit)
        placed.append((number, Mark(round(place, 1), mark.text)))
        limit = place - _LABEL_GAP
    return placed


def _step(span: float, most: int) -> float:
    """The smallest step of 1, 2 or 5 times a power of ten that divides `span` into `most` parts at most."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(power * factor for factor in (1, 2, 5, 10) if span <= power * factor * most * (1 + 1e-9))


def _dates(begin: int, end: int, scale: _Scale) -> list[Mark]:
    """Begin and end, and whole days or weeks in between where there is room."""
    days = (end - begin) / DAY_MS
    step = next((n for n in (1, 2, 7, 14, 28) if days / n <= 5), math.ceil(days / 5)) * DAY_MS
    between = [at for at in range(begin + step, end, step) if end - at > 0.6 * step] if days > 1 else []
    places = [begin, *between, end] if end > begin else [begin]
    form = "%m-%d" if step >= DAY_MS and all(at % DAY_MS == 0 for at in places) else "%m-%d %H:%M"
    if form != "%m-%d":
        places = [begin, end] if end > begin else [begin]
    return [Mark(scale.x(at), from_millis(at).strftime(form)) for at in places]
