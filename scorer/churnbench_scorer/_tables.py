"""The tables of a report, as text in cells; how they are drawn is the renderer's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from churnbench_scorer._cost import RefreshCost, staged_costs
from churnbench_scorer._results import RunResult, windows
from churnbench_scorer._summary import accuracy
from churnbench_scorer._wording import rounded, seconds_text, share_text, size_text

__all__ = [
    "ClassErrors",
    "Table",
    "Window",
    "age_table",
    "class_errors",
    "cost_table",
    "policies",
    "run_table",
    "shared_settings",
    "staged_table",
    "tier_table",
    "verdict_table",
    "window_table",
]


class Table(NamedTuple):
    """A head and its rows, the first column naming the row."""

    head: list[str]
    rows: list[list[str]]


class Window(NamedTuple):
    """A row of Table I: a window, and its runs under each policy."""

    name: str
    cells: list[list[RunResult]]


class ClassErrors(NamedTuple):
    """A row of Table IV.

    Attributes:
        name: the class.
        cells: for each run the freshness errors by the class of the staged table read, as published, and by
            the class whose change was the cause; None where neither is above zero.
    """

    name: str
    cells: list[tuple[str, str] | None]


def policies(results: Sequence[RunResult]) -> list[str]:
    """The refresh policies, in the order in which they appear."""
    return list(dict.fromkeys(result.refresh for result in results))


def window_table(results: Sequence[RunResult]) -> list[Window]:
    """Table I: a row a window, a cell for each of `policies`."""
    names = policies(results)
    return [
        Window(window, [[run for run in runs if run.refresh == policy] for policy in names])
        for window, runs in windows(results).items()
    ]


def _by_run(results: Sequence[RunResult], name: str, column: Callable[[RunResult], Mapping[str, str]]) -> Table:
    """A row for each key of any run's column, a column for each run."""
    columns = [column(result) for result in results]
    keys = sorted({key for found in columns for key in found})
    return Table(
        [name, *(result.label for result in results)],
        [[key, *(found.get(key, "-") for found in columns)] for key in keys],
    )


def age_table(results: Sequence[RunResult]) -> Table:
    """Table II: the age in days of each staged class when the questions were asked."""
    return _by_run(results, "class", lambda run: {cls: rounded(age) for cls, age in run.summary.ages_days.items()})


def class_errors(results: Sequence[RunResult]) -> list[ClassErrors]:
    """Table IV: freshness errors by class, those that caused most in any run first."""
    most: dict[str, float] = {}
    for run in results:
        for shares in (run.summary.by_staged, run.summary.by_cause):
            for cls in shares:
                most[cls] = max(most.get(cls, 0.0), run.summary.by_cause.get(cls, 0.0))

    def cell(run: RunResult, cls: str) -> tuple[str, str] | None:
        staged, cause = run.summary.by_staged.get(cls, 0.0), run.summary.by_cause.get(cls, 0.0)
        return (rounded(staged), rounded(cause)) if staged or cause else None

    return [ClassErrors(cls, [cell(run, cls) for run in results]) for cls in sorted(most, key=lambda c: (-most[c], c))]


def tier_table(results: Sequence[RunResult]) -> Table:
    """Table V: accuracy by tier."""
    return _by_run(
        results,
        "tier",
        lambda run: {tier: share_text(accuracy(counts)) for tier, counts in run.summary.by_tier.items()},
    )


def verdict_table(results: Sequence[RunResult]) -> Table:
    """How many answers got which verdict, a row a run."""
    head = ["run", "answers", "correct", "stale", "of these torn", "reasoning", "of these unanswered"]
    rows = []
    for run in results:
        summary, counts = run.summary, run.summary.counts
        numbers = [
            *(summary.answers, counts.correct, counts.freshness_error, summary.details.get("torn", 0)),
            *(counts.reasoning_error, counts.unanswered, counts.parse_failure, counts.transport_failure),
            *(summary.exposed, summary.ttl_lapses),
        ]
        rows.append([run.label, *(f"{number:,}" for number in numbers)])
    return Table([*head, "parsing", "transport", "exposed", "TTL lapses"], rows)


def _work(first: RefreshCost, later: RefreshCost) -> list[str]:
    written = [f"{later.refreshes:,}", f"{later.rows:,}", size_text(later.bytes), f"{later.source_calls:,}"]
    return [f"{first.rows:,}", *written, seconds_text(later.seconds)]


_WORK = ["rows staged", "refreshes", "rows written", "size", "source calls", "time"]


def cost_table(results: Sequence[RunResult]) -> Table:
    """What staging and refreshing cost, a row a run, beside what was stale all the same."""
    rows = []
    for run in results:
        cost = run.summary.refresh_cost
        rows.append([run.label, *_work(cost.staging, cost.refreshing), f"{run.summary.counts.freshness_error:,}"])
    return Table(["run", *_WORK, "stale"], rows)


def staged_table(result: RunResult) -> Table:
    """What staging and refreshing cost in one run, a row a staged table; no rows where nothing was refreshed."""
    total, by_table = staged_costs(result.refreshes)
    if not total.refreshing.refreshes:
        return Table(["table", *_WORK], [])
    owners = {refresh.table: refresh.owner for refresh in result.refreshes}
    rows = [
        [table if table == owners[table] else f"{table} ({owners[table]})", *_work(cost.staging, cost.refreshing)]
        for table, cost in by_table.items()
    ]
    return Table(["table (class)", *_WORK], [*rows, ["all", *_work(total.staging, total.refreshing)]])


def run_table(results: Sequence[RunResult]) -> Table:
    """What tells the runs apart, a column a run: ids, and the settings that are not the same in all."""
    shared = shared_settings(results)
    names = [name for name in _settings(results) if name not in shared]
    rows = [[name, *(run.settings.get(name, "-") for run in results)] for name in names]
    return Table(["", *(run.label for run in results)], [["id", *(run.run_id for run in results)], *rows])


def shared_settings(results: Sequence[RunResult]) -> dict[str, str]:
    """The settings that are the same in all runs; empty for no runs."""
    found = {name: {run.settings.get(name, "-") for run in results} for name in _settings(results)}
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _settings(results: Sequence[RunResult]) -> list[str]:
    return list(dict.fromkeys(name for run in results for name in run.settings))
