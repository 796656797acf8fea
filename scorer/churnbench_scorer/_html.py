"""The report of a study as one HTML page: no script, no asset from elsewhere, on screen and on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from churnbench.events import Event, time_text
from churnbench_scorer import _saw_tooth
from churnbench_scorer._headline import headline
from churnbench_scorer._results import RunResult
from churnbench_scorer._saw_tooth import figures
from churnbench_scorer._stale import STALE_SHOWN, Explained, explained
from churnbench_scorer._tables import (
    age_table,
    class_errors,
    cost_table,
    policies,
    run_table,
    shared_settings,
    staged_table,
    tier_table,
    verdict_table,
    window_table,
)
from churnbench_scorer._wording import clean, value_text

__all__ = ["html_report"]

_KINDS = (
    ("right", "right"),
    ("stale", "stale"),
    ("none", "unanswered for want of data"),
    ("wrong", "wrong for any data"),
    ("lost", "lost in parsing or transport"),
)
_LONGEST = 2000
_ROOM = 0.04
_SIZE = {
    "width": _saw_tooth.WIDTH,
    "height": _saw_tooth.HEIGHT,
    "left": _saw_tooth.LEFT,
    "right": _saw_tooth.RIGHT,
    "bottom": _saw_tooth.BOTTOM,
}


class _Part(NamedTuple):
    kind: str
    number: int
    wide: bool


class _Bar(NamedTuple):
    label: str
    summary: str
    parts: list[_Part]


class _Section(NamedTuple):
    number: int
    label: str
    total: int
    items: list[Explained]
    more: int


def html_report(results: Sequence[RunResult], events: Mapping[int, Event]) -> str:
    """The report of one or several runs over one ledger, as the text of an HTML page.

    What comes from the world, the questions or the answers is escaped; the page loads nothing and runs nothing.

    Args:
        results: the runs, in the order of the columns.
        events: seq -> event, for the events behind stale answers (`events_of`); those missing appear by their
            seq alone.
    """
    bars = [_bar(result) for result in results]
    shown = {part.kind for bar in bars for part in bar.parts}
    return _template().render(
        results=results,
        headline=headline(results),
        bars=bars,
        kinds=[kind for kind in _KINDS if kind[0] in shown],
        policies=policies(results),
        windows=window_table(results),
        ages=age_table(results),
        figures=figures(results),
        size=_SIZE,
        classes=class_errors(results),
        tiers=tier_table(results),
        cost=cost_table(results),
        costs=[(result.label, table) for result in results if (table := staged_table(result)).rows],
        verdicts=verdict_table(results),
        sections=[_section(number, result, events) for number, result in enumerate(results)],
        runs=run_table(results),
        shared=shared_settings(results),
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("churnbench_scorer"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        keep_trailing_newline=True,
    )
    environment.filters.update(time=time_text, value=value_text, shade=_shade)
    return environment.get_template("report.html.jinja")


def _shown(value: Any) -> Any:
    if isinstance(value, str) and not hasattr(value, "__html__"):
        value = clean(value)
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}… ({len(value):,} characters)"
    return value


def _shade(runs: Sequence[RunResult]) -> int:
    """How dark a cell of Table I is, percent: half the share of stale answers."""
    answers = sum(run.summary.answers for run in runs)
    return round(50 * sum(run.summary.counts.freshness_error for run in runs) / answers) if answers else 0


def _bar(result: RunResult) -> _Bar:
    counts = result.summary.counts
    numbers = (
        counts.correct,
        counts.freshness_error,
        counts.unanswered,
        counts.reasoning_error - counts.unanswered,
        counts.parse_failure + counts.transport_failure,
    )
    total = max(1, counts.answers)
    shown = [(kind, name, number) for (kind, name), number in zip(_KINDS, numbers, strict=True) if number]
    return _Bar(
        result.label,
        ", ".join(f"{number} {name}" for _, name, number in shown) or "no answers",
        [_Part(kind, number, number / total >= _ROOM) for kind, _, number in shown],
    )


def _section(number: int, result: RunResult, events: Mapping[int, Event]) -> _Section:
    total = result.summary.counts.freshness_error
    return _Section(number, result.label, total, list(explained(result, events)), total - STALE_SHOWN)
