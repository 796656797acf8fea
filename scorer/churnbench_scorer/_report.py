"""The plain report of a study, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from churnbench.cuts import Cut
from churnbench.events import Event, canonical_line, time_text
from churnbench.records import Verdict
from churnbench_scorer._evidence import shown_events
from churnbench_scorer._results import RunResult, StaleAnswer, finding, percent, stale_answers

__all__ = ["EVENTS_SHOWN", "study_report"]

EVENTS_SHOWN = 20
"""Events listed under a stale answer; all their seqs are in the run's verdicts."""


def study_report(results: Sequence[RunResult], events: Mapping[int, Event]) -> str:
    """The report of one or several runs over one ledger.

    Args:
        results: the runs, in the order of the columns.
        events: seq -> event, for the events behind stale answers (`events_of`); those missing appear by their
            seq alone.
    """
    parts = [
        "# What stale data cost\n",
        finding(results) + "\n" if results else "There are no runs to report on.\n",
        "## Table I. Accuracy and freshness errors\n",
        _table_one(results),
        "## Table II. Age of each class when asked, days\n",
        _table_two(results),
        "## Table IV. Freshness errors by class\n",
        "By the class of the staged table that the answer came from, as published, beside the classes whose change "
        "made it wrong.\n",
        _table_four(results),
        "## Table V. Accuracy by tier\n",
        _table_five(results),
        "## Verdicts\n",
        _verdicts(results),
        "## Stale answers\n",
        *(_stale_of(result, events) for result in results),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    def line(cells: Sequence[Any]) -> str:
        return "| " + " | ".join(_cell(cell) for cell in cells) + " |"

    body = [line(row) for row in rows]
    if not body:
        return "None.\n"
    return "\n".join([line(head), "|" + "|".join(["---"] * len(head)) + "|", *body]) + "\n"


def _cell(value: Any) -> str:
    return " ".join(str(value).replace("|", r"\|").split())


def _table_one(results: Sequence[RunResult]) -> str:
    windows = list(dict.fromkeys(result.window_text for result in results))
    policies = list(dict.fromkeys(result.refresh for result in results))

    def cell(window: str, policy: str) -> str:
        return "; ".join(
            f"{percent(r.summary.counts)} right, {r.summary.counts.freshness_error} stale"
            for r in results
            if (r.window_text, r.refresh) == (window, policy)
        )

    head = ["window", *(f"refresh {policy}" for policy in policies)]
    return _table(head, ([window, *(cell(window, policy) for policy in policies)] for window in windows))


def _by_run(results: Sequence[RunResult], name: str, columns: Sequence[Mapping[str, str]], missing: str) -> str:
    """A row for each key of any of `columns`, a column for each run."""
    keys = sorted({key for column in columns for key in column})
    head = [name, *(result.label for result in results)]
    return _table(head, ([key, *(column.get(key, missing) for column in columns)] for key in keys))


def _table_two(results: Sequence[RunResult]) -> str:
    columns = [{cls: f"{age:g}" for cls, age in result.summary.ages_days.items()} for result in results]
    return _by_run(results, "class", columns, "-")


def _table_four(results: Sequence[RunResult]) -> str:
    columns = []
    for result in results:
        staged, cause = result.summary.by_staged, result.summary.by_cause
        classes = staged.keys() | cause.keys()
        columns.append({cls: f"{_share(staged.get(cls, 0))} / {_share(cause.get(cls, 0))}" for cls in classes})
    return _by_run(results, "class: table / cause", columns, "-")


def _share(value: float) -> str:
    return f"{round(value, 2):g}"


def _table_five(results: Sequence[RunResult]) -> str:
    columns = [{tier: percent(counts) for tier, counts in result.summary.by_tier.items()} for result in results]
    return _by_run(results, "tier", columns, "-")


def _verdicts(results: Sequence[RunResult]) -> str:
    def row(result: RunResult) -> list[Any]:
        summary = result.summary
        counts = summary.counts
        return [
            result.label,
            summary.answers,
            counts.correct,
            counts.freshness_error,
            counts.reasoning_error,
            counts.unanswered,
            counts.parse_failure,
            counts.transport_failure,
            summary.exposed,
            summary.ttl_lapses,
            f"`{result.run_id}`",
        ]

    head = ["run", "answers", "correct", "stale", "reasoning", "of these unanswered", "parsing", "transport"]
    return _table([*head, "exposed", "TTL lapses", "id"], (row(result) for result in results))


def _stale_of(result: RunResult, events: Mapping[int, Event]) -> str:
    stale = stale_answers(result)
    head = f"### {result.label} (`{result.run_id}`)\n"
    if not stale:
        return f"{head}\nNone.\n"
    return "\n".join([head, *(_stale(result, item, events) for item in stale)])


def _stale(result: RunResult, item: StaleAnswer, events: Mapping[int, Event]) -> str:
    question, answer, verdict = item
    cause = verdict.cause
    sets = " or ".join(" and ".join(chosen) for chosen in cause.sets) if cause is not None else "unknown"
    vector = ", ".join(f"{cls} {_date(cut)}" for cls, cut in sorted(verdict.vector.items()))
    return "\n".join(
        [
            f"#### {question.task_id}: {_cell(question.text)}\n",
            f"- answered: {_text(answer.value)} ({verdict.detail})",
            f"- true on {time_text(question.at_ms)}: {_text(verdict.gold)}",
            f"- true for the data read: {_text(verdict.gold_at_vector)}",
            f"- data read: {vector}",
            f"- made wrong by: {sets}",
            "",
            _events(verdict, events),
        ]
    )


def _events(verdict: Verdict, events: Mapping[int, Event]) -> str:
    marked, shown = set(verdict.marked), shown_events(verdict)[:EVENTS_SHOWN]
    rows = []
    for seq in shown:
        event, flag = events.get(seq), "x" if seq in marked else ""
        if event is None:
            rows.append([seq, flag, "", "", "", ""])
        else:
            line = canonical_line(event)
            rows.append([seq, flag, time_text(event.at_ms), event.kind, event.entity_id, _code(line)])
    rest = len(verdict.events) - len(shown)
    more = f"\n{rest} more; their seqs are in the run's verdicts.\n" if rest > 0 else ""
    return _table(["seq", "cause", "at", "kind", "entity", "line"], rows) + more


def _code(text: str) -> str:
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"


def _text(value: Any) -> str:
    return "none" if value is None else _cell(repr(value))


def _date(cut: Cut) -> str:
    if cut.at_ms is not None:
        return time_text(cut.at_ms)
    return f"after {cut.events} records"
