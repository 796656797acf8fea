"""What a report is made of, apart from how it looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from churnbench.clock import DAY_MS
from churnbench.events import time_text
from churnbench.records import Answer, Question, Verdict
from churnbench_scorer._summary import Counts, Summary, accuracy

__all__ = ["RunResult", "StaleAnswer", "finding", "percent", "stale_answers"]


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """A scored run.

    Attributes:
        run_id: which one.
        world: the world's name.
        t_prime_ms: when the staged copy was made.
        t_ms: when the questions were asked.
        window: the window in days that was asked for; None: the times were.
        refresh: the refresh policy.
        registry: the registry's name.
        reader: who answered.
        questions: every question.
        answers: every answer.
        verdicts: one for each question with an answer.
        summary: the run in figures.
    """

    run_id: str
    world: str
    t_prime_ms: int
    t_ms: int
    window: int | None = None
    refresh: str
    registry: str
    reader: str
    questions: Sequence[Question]
    answers: Sequence[Answer]
    verdicts: Sequence[Verdict]
    summary: Summary

    @property
    def window_text(self) -> str:
        """The window for people: `28 days`, or its days where the times were given."""
        days = self.window if self.window is not None else (self.t_ms - self.t_prime_ms) / DAY_MS
        return f"{days:g} {'day' if days == 1 else 'days'}"

    @property
    def label(self) -> str:
        """Window and refresh policy."""
        return f"{self.window_text}, {self.refresh}"


class StaleAnswer(NamedTuple):
    """A freshness error with all that explains it."""

    question: Question
    answer: Answer
    verdict: Verdict


def stale_answers(result: RunResult) -> list[StaleAnswer]:
    """The freshness errors of a run, in the order of its questions."""
    verdicts = {verdict.task_id: verdict for verdict in result.verdicts}
    answers: dict[str, Answer] = {}
    for answer in result.answers:
        if answer.task_id not in answers or answer.attempt >= answers[answer.task_id].attempt:
            answers[answer.task_id] = answer
    return [
        StaleAnswer(question, answers[question.task_id], verdicts[question.task_id])
        for question in result.questions
        if question.task_id in verdicts and verdicts[question.task_id].verdict == "freshness_error"
    ]


def percent(counts: Counts) -> str:
    """Accuracy as a percentage, `-` where there is none."""
    share = accuracy(counts)
    return "-" if share is None else f"{share * 100:.1f} %"


def finding(results: Sequence[RunResult]) -> str:
    """One paragraph: how many answers were stale, why, and what refreshing changes. Empty for no runs."""
    if not results:
        return ""
    most = max(results, key=lambda result: result.summary.counts.freshness_error)
    least = min(results, key=lambda result: result.summary.counts.freshness_error)
    stale, asked = most.summary.counts.freshness_error, most.summary.answers
    text = (
        f"Questions about the world {most.world} were asked as of {time_text(most.t_ms)}. "
        f"{stale} of {asked} answers ({most.label}) were right only for data that had since changed"
    )
    if most.summary.by_cause:
        cls, share = max(most.summary.by_cause.items(), key=lambda item: item[1])
        text += f", {round(share, 1):g} of them because of {cls}"
    text += "."
    if least.summary.counts.freshness_error < stale:
        text += f" The fewest, {least.summary.counts.freshness_error}, came with {least.label}."
    unanswered = max(result.summary.counts.unanswered for result in results)
    never = max(r.summary.counts.reasoning_error - r.summary.counts.unanswered for r in results)
    failed = max(r.summary.counts.parse_failure + r.summary.counts.transport_failure for r in results)
    text += (
        f" In no run were more than {unanswered} left unanswered for want of data, more than {never} wrong for "
        f"any data, or more than {failed} lost in parsing or transport."
    )
    return text
