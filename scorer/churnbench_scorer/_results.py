"""What a report is made of, apart from how it looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from churnbench.clock import DAY_MS
from churnbench.records import Answer, Question, Refresh, Tick, Verdict
from churnbench_scorer._answers import last_answers
from churnbench_scorer._summary import Summary, accuracy
from churnbench_scorer._wording import share_text

__all__ = ["RunResult", "StaleAnswer", "stale_answers", "windows"]


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
        refreshes: every refresh of a staged table; without them a report cannot draw ages.
        ticks: the run's clock; dates what was read live.
        ttls_ms: class -> time to live, for the classes that have one.
        settings: name -> what else was set, for people.
        dead_letters: records that were no events; above 0 the run is invalid.
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
    refreshes: Sequence[Refresh] = ()
    ticks: Sequence[Tick] = ()
    ttls_ms: Mapping[str, int] = {}
    settings: Mapping[str, str] = {}
    dead_letters: int = 0

    @property
    def window_text(self) -> str:
        """The window for people: `28 days`, or its days where the times were given."""
        days = self.window if self.window is not None else (self.t_ms - self.t_prime_ms) / DAY_MS
        return f"{days:g} {'day' if days == 1 else 'days'}"

    @property
    def label(self) -> str:
        """Window and refresh policy."""
        return f"{self.window_text}, {self.refresh}"

    @property
    def accuracy_text(self) -> str:
        """Accuracy as a percentage, `-` where there is none."""
        return share_text(accuracy(self.summary.counts))


class StaleAnswer(NamedTuple):
    """A freshness error with all that explains it."""

    question: Question
    answer: Answer
    verdict: Verdict


def stale_answers(result: RunResult) -> list[StaleAnswer]:
    """The freshness errors of a run, in the order of its questions."""
    verdicts = {verdict.task_id: verdict for verdict in result.verdicts}
    answers = last_answers(result.answers)
    return [
        StaleAnswer(question, answers[question.task_id], verdicts[question.task_id])
        for question in result.questions
        if question.task_id in verdicts and verdicts[question.task_id].verdict == "freshness_error"
    ]


def windows(results: Iterable[RunResult]) -> dict[str, list[RunResult]]:
    """Window -> its runs, both in the order given."""
    found: dict[str, list[RunResult]] = {}
    for result in results:
        found.setdefault(result.window_text, []).append(result)
    return found
