"""What a reader asks first: how many answers were stale, why, and what refreshing cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from churnbench.events import time_text
from churnbench_scorer._results import RunResult, windows
from churnbench_scorer._wording import counted, joined, rounded, seconds_text, share_text, size_text

__all__ = ["Headline", "headline"]


class Headline(NamedTuple):
    """Sentences, by what they answer."""

    how_many: list[str]
    why: list[str]
    cost: list[str]
    rest: list[str]


def headline(results: Sequence[RunResult]) -> Headline:
    """The finding of one or several runs over one world, in words; nothing for no runs."""
    if not results:
        return Headline([], [], [], [])
    return Headline(_how_many(results), _why(results), _cost(results), _rest(results))


def _stale(result: RunResult) -> int:
    return result.summary.counts.freshness_error


def _how_many(results: Sequence[RunResult]) -> list[str]:
    told = []
    for window, runs in windows(results).items():
        asked = max(run.summary.answers for run in runs)
        counts = {_stale(run) for run in runs}
        if len(runs) == 1 or len(counts) > 1:
            parts = [f"{_of(run)} with refresh {run.refresh}" for run in runs]
            said = joined(parts)
        else:
            said = f"{counts.pop()} of {asked}, whatever the refresh policy"
        told.append(f"After {window}: {said}.")
    when = time_text(results[0].t_ms)
    told.append(f"A stale answer was right for the data that it was read from, and no longer right on {when}.")
    return told


def _of(run: RunResult) -> str:
    answers = run.summary.answers
    share = f" ({share_text(_stale(run) / answers)})" if answers else ""
    return f"{_stale(run)} of {answers}{share}"


def _why(results: Sequence[RunResult]) -> list[str]:
    most = max(results, key=_stale)
    if not _stale(most):
        return ["No answer was stale."]
    causes = sorted(most.summary.by_cause.items(), key=lambda item: (-item[1], item[0]))
    told = []
    if causes:
        parts = [f"{cls} ({rounded(share)})" for cls, share in causes]
        stale = "The stale answer" if _stale(most) == 1 else f"The {_stale(most)} stale answers"
        told.append(f"{stale} ({most.label}) {'is' if _stale(most) == 1 else 'are'} due to changes of {joined(parts)}.")
        if len(causes) > 1:
            told.append("An answer with several classes to blame counts for each in part.")
    torn = [(run.summary.details.get("torn", 0), run.label) for run in results]
    parts = [f"{number} ({label})" for number, label in torn if number]
    if parts:
        told.append(f"Torn, put together from data of different ages that was never true at one time: {joined(parts)}.")
    return told


def _cost(results: Sequence[RunResult]) -> list[str]:
    told: list[str] = []
    for window, runs in windows(results).items():
        idle = [run for run in runs if not run.summary.refresh_cost.refreshing.refreshes]
        base = max(idle, key=_stale, default=None)
        told.extend(_refreshed(run, base) for run in runs if run not in idle)
        if len(idle) == len(runs):
            told.append(f"{window}: nothing was refreshed after the first staging.")
    staging = results[0].summary.refresh_cost.staging
    if staging.refreshes:
        told.append(
            f"The first staging wrote {counted(staging.rows, 'row', 'rows')} ({size_text(staging.bytes)}) into "
            f"{counted(staging.refreshes, 'table', 'tables')}."
        )
    paid = [run.summary.cost_usd for run in results if run.summary.cost_usd]
    if paid:
        told.append(f"Answering cost {sum(paid):,.2f} USD.")
    return told


def _refreshed(run: RunResult, base: RunResult | None) -> str:
    cost = run.summary.refresh_cost.refreshing
    text = (
        f"{run.label}: {counted(cost.refreshes, 'refresh', 'refreshes')} wrote {counted(cost.rows, 'row', 'rows')} "
        f"({size_text(cost.bytes)}) in {seconds_text(cost.seconds)}, with "
        f"{counted(cost.source_calls, 'call', 'calls') if cost.source_calls else 'no call'} to a source"
    )
    if base is not None:
        fewer = _stale(base) - _stale(run)
        if fewer > 0:
            text += (
                f", and left {counted(fewer, 'stale answer', 'stale answers')} fewer than {base.refresh}: "
                f"{counted(cost.rows / fewer, 'row', 'rows')} for each"
            )
        else:
            text += f", and left no fewer stale answers than {base.refresh}"
    return text + "."


def _rest(results: Sequence[RunResult]) -> list[str]:
    counts = [result.summary.counts for result in results]
    unanswered = max(c.unanswered for c in counts)
    never = max(c.reasoning_error - c.unanswered for c in counts)
    failed = max(c.parse_failure + c.transport_failure for c in counts)
    return [
        f"In no run were more than {unanswered} left unanswered for want of data, more than {never} wrong for "
        f"any data, or more than {failed} lost in parsing or transport."
    ]
