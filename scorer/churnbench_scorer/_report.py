"""The plain report of a study, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from churnbench.events import Event
from churnbench_scorer._headline import headline
from churnbench_scorer._results import RunResult
from churnbench_scorer._stale import STALE_SHOWN, Explained, explained
from churnbench_scorer._tables import (
    Table,
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

__all__ = ["study_report"]


def study_report(results: Sequence[RunResult], events: Mapping[int, Event]) -> str:
    """The report of one or several runs over one ledger.

    Args:
        results: the runs, in the order of the columns.
        events: seq -> event, for the events behind stale answers (`events_of`); those missing appear by their
            seq alone.
    """
    parts = [
        "# What stale data cost\n",
        *_headline(results),
        "## Table I. Accuracy and freshness errors\n",
        _table_one(results),
        "## Table II. Age of each class when asked, days\n",
        _table(age_table(results)),
        "## Table IV. Freshness errors by class\n",
        "By the class of the staged table that the answer came from, as published, beside the classes whose change "
        "made it wrong.\n",
        _table_four(results),
        "## Table V. Accuracy by tier\n",
        _table(tier_table(results)),
        "## Refreshing\n",
        "Rows staged are those of the first copy; the rest is what came after it.\n",
        _table(cost_table(results)),
        *(
            f"### {_cell(result.label)}\n\n{_table(table)}"
            for result in results
            if (table := staged_table(result)).rows
        ),
        "## Verdicts\n",
        _table(verdict_table(results)),
        "## Runs\n",
        _table(run_table(results)),
        *(f"- {_cell(name)}: {_cell(value)}" for name, value in shared_settings(results).items()),
        "",
        "## Stale answers\n",
        *(_stale_of(result, events) for result in results),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _headline(results: Sequence[RunResult]) -> list[str]:
    if not results:
        return ["There are no runs to report on.\n"]
    found = headline(results)
    parts = (("How many", found.how_many), ("Why", found.why), ("At what cost", found.cost), ("Besides", found.rest))
    invalid = [
        f"**The run {result.run_id} is invalid: it met {result.dead_letters} records that are no events.**\n"
        for result in results
        if result.dead_letters
    ]
    return invalid + [f"**{name}.** {_cell(' '.join(said))}\n" for name, said in parts if said]


def _lines(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    def line(cells: Sequence[Any]) -> str:
        return "| " + " | ".join(_cell(cell) for cell in cells) + " |"

    body = [line(row) for row in rows]
    if not body:
        return "None.\n"
    return "\n".join([line(head), "|" + "|".join(["---"] * len(head)) + "|", *body]) + "\n"


def _table(table: Table) -> str:
    return _lines(table.head, table.rows)


def _cell(value: Any) -> str:
    return " ".join(str(value).replace("|", r"\|").split())


def _table_one(results: Sequence[RunResult]) -> str:
    head = ["window", *(f"refresh {policy}" for policy in policies(results))]

    def cell(runs: Sequence[RunResult]) -> str:
        return "; ".join(f"{run.accuracy_text} right, {run.summary.counts.freshness_error} stale" for run in runs)

    return _lines(head, ([window.name, *map(cell, window.cells)] for window in window_table(results)))


def _table_four(results: Sequence[RunResult]) -> str:
    head = ["class: table / cause", *(result.label for result in results)]
    rows = [
        [found.name, *("-" if cell is None else " / ".join(cell) for cell in found.cells)]
        for found in class_errors(results)
    ]
    return _lines(head, rows)


def _stale_of(result: RunResult, events: Mapping[int, Event]) -> str:
    parts = [_stale(item) for item in explained(result, events)] or ["None.\n"]
    if (more := result.summary.counts.freshness_error - STALE_SHOWN) > 0:
        parts.append(f"{more} more are in the run's verdicts.\n")
    return "\n".join([f"### {_cell(result.label)} (`{result.run_id}`)\n", *parts])


def _stale(item: Explained) -> str:
    lines = [
        f"#### {item.task_id}: {_cell(item.question)}\n",
        f"- answered: {_text(item.answer)} ({'torn' if item.torn else 'stale'})",
        f"- true on {item.at}: {_text(item.gold)}",
        f"- true for the data read: {_text(item.gold_at_vector)}",
        f"- data read: {', '.join(f'{read.name} {read.as_of}' for read in item.reads)}",
        f"- made wrong by: {item.blame}",
    ]
    if item.torn:
        lines.append(f"- torn: {item.torn}")
    return "\n".join([*lines, "", _events(item)])


def _events(item: Explained) -> str:
    rows = [
        [event.seq, "x" if event.marked else "", event.at, event.kind, event.entity, _code(event.line)]
        for event in item.events
    ]
    more = f"\n{item.rest} more; their seqs are in the run's verdicts.\n" if item.rest > 0 else ""
    return _lines(["seq", "cause", "at", "kind", "entity", "line"], rows) + more


def _code(text: str) -> str:
    if not text:
        return ""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"


def _text(value: Any) -> str:
    return "none" if value is None else _cell(repr(value))
