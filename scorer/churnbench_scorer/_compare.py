"""Two runs side by side: the same tasks, and which of them came out otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from churnbench.cuts import Cut
from churnbench.errors import IncompleteError, UsageError
from churnbench.events import time_text
from churnbench.records import Answer, Question, Tick, Verdict
from churnbench_scorer._answers import last_answers
from churnbench_scorer._summary import Counts, accuracy, counts_of, total_shares
from churnbench_scorer._wording import cut_text

__all__ = ["Comparison", "Flip", "RunRecords", "Side", "compare_runs", "mcnemar"]


class RunRecords(msgspec.Struct, frozen=True, kw_only=True):
    """What comparing needs of a run.

    Attributes:
        run_id: which one.
        world: the world's name.
        sha256: of the world's canonical lines.
        config: everything that can change an answer.
        questions: every question.
        answers: every answer.
        verdicts: one for each question with an answer.
        ticks: the run's clock; dates what was read live.
    """

    run_id: str
    world: str
    sha256: str
    config: Mapping[str, Any]
    questions: Sequence[Question]
    answers: Sequence[Answer]
    verdicts: Sequence[Verdict]
    ticks: Sequence[Tick] = ()


class Side(msgspec.Struct, frozen=True):
    """How a task came out in one run.

    Attributes:
        verdict: the verdict.
        detail: its detail.
        value: the answer.
        gold_at_vector: true for the data read.
        causes: class -> its share of a freshness error; empty otherwise.
        as_of: class -> time of the data read.
    """

    verdict: str
    detail: str
    value: Any
    gold_at_vector: Any
    causes: dict[str, float]
    as_of: dict[str, str]


class Flip(msgspec.Struct, frozen=True):
    """A task with another verdict in the other run.

    Attributes:
        task_id: the task.
        measure: what was asked.
        question: in words.
        gold: true at the question's time.
        a: in the first run.
        b: in the second.
    """

    task_id: str
    measure: str
    question: str
    gold: Any
    a: Side
    b: Side

    @property
    def classes(self) -> list[str]:
        """The classes behind the flip: those to blame in either run, else those read as of different times."""
        blamed = sorted(self.a.causes.keys() | self.b.causes.keys())
        return blamed or sorted(
            c for c in self.a.as_of.keys() & self.b.as_of.keys() if self.a.as_of[c] != self.b.as_of[c]
        )


class Comparison(msgspec.Struct, frozen=True):
    """Two runs, paired by task.

    Attributes:
        a: the first run's id.
        b: the second's.
        world: the world's name.
        t: when the questions were asked.
        settings: what differs between the runs, name -> values of the first and the second.
        tasks: questions asked.
        paired: those with a verdict in both runs; all that follows is of these.
        counts: verdicts of the first run and of the second.
        accuracy: of the first run and of the second, from 0 to 1; None where there is none.
        moves: verdict in the first run -> verdict in the second -> tasks.
        flip_causes: class -> its share of the flips in which one of the answers was stale.
        flips: the tasks whose verdicts differ, in the order of the questions.
        only_a_right: tasks right in the first run alone, of those judged in both (transport failures are not).
        only_b_right: tasks right in the second run alone.
        p_value: McNemar's exact test of these two.
    """

    a: str
    b: str
    world: str
    t: str
    settings: dict[str, tuple[Any, Any]]
    tasks: int
    paired: int
    counts: tuple[Counts, Counts]
    accuracy: tuple[float | None, float | None]
    moves: dict[str, dict[str, int]]
    flip_causes: dict[str, float]
    flips: list[Flip]
    only_a_right: int
    only_b_right: int
    p_value: float


def mcnemar(only_a: int, only_b: int) -> float:
    """McNemar's exact test: two-sided binomial probability of a split at least as uneven, were both equally likely.

    1.0 where no pair differs. Formula: Fagerland, Lydersen & Laake (2013), BMC Med. Res. Methodol. 13:91.
    """
    differing = only_a + only_b
    tail = ways = 1
    for k in range(min(only_a, only_b)):
        ways = ways * (differing - k) // (k + 1)
        tail += ways
    # A quotient of integers is rounded once, however large they are.
    return min(1.0, float(2 * tail / (1 << differing)))


def compare_runs(a: RunRecords, b: RunRecords) -> Comparison:
    """The comparison of two runs over one world that asked the same tasks at the same time.

    Raises:
        UsageError: they are of different worlds, or asked different tasks.
        IncompleteError: no task has a verdict in both.
    """
    _check_pair(a, b)
    first, second = ({verdict.task_id: verdict for verdict in run.verdicts} for run in (a, b))
    paired = [q for q in a.questions if q.task_id in first and q.task_id in second]
    if not paired:
        raise IncompleteError(
            f"no task has a verdict in both {a.run_id} and {b.run_id}; `churnbench run --resume` finishes a run"
        )
    moves: dict[str, dict[str, int]] = {}
    flips, only_a, only_b = [], 0, 0
    sides = _Sides(a), _Sides(b)
    for question in paired:
        was, now = first[question.task_id], second[question.task_id]
        row = moves.setdefault(was.verdict, {})
        row[now.verdict] = row.get(now.verdict, 0) + 1
        if "transport_failure" not in (was.verdict, now.verdict):
            only_a += was.verdict == "correct" != now.verdict
            only_b += now.verdict == "correct" != was.verdict
        if was.verdict != now.verdict:
            told = sides[0].of(was), sides[1].of(now)
            flips.append(Flip(question.task_id, question.measure, question.text, was.gold, *told))
    counts = tuple(counts_of(found[q.task_id] for q in paired) for found in (first, second))
    return Comparison(
        a=a.run_id,
        b=b.run_id,
        world=a.world,
        t=time_text(max(question.at_ms for question in paired)),
        settings=_differing(a.config, b.config),
        tasks=len(a.questions),
        paired=len(paired),
        counts=(counts[0], counts[1]),
        accuracy=(accuracy(counts[0]), accuracy(counts[1])),
        moves=moves,
        flip_causes=total_shares(side.causes for flip in flips for side in (flip.a, flip.b)),
        flips=flips,
        only_a_right=only_a,
        only_b_right=only_b,
        p_value=mcnemar(only_a, only_b),
    )


class _Sides:
    def __init__(self, run: RunRecords) -> None:
        self._answers = last_answers(run.answers)
        self._ticks: dict[Cut, int] = {tick.cut: tick.at_ms for tick in run.ticks}

    def of(self, verdict: Verdict) -> Side:
        answer = self._answers.get(verdict.task_id)
        return Side(
            verdict.verdict,
            verdict.detail,
            answer.value if answer is not None else None,
            verdict.gold_at_vector,
            dict(verdict.cause.shares) if verdict.cause is not None else {},
            {cls: cut_text(cut, self._ticks) for cls, cut in sorted(verdict.vector.items())},
        )


def _check_pair(a: RunRecords, b: RunRecords) -> None:
    if a.sha256 != b.sha256:
        raise UsageError(
            f"{a.run_id} and {b.run_id} are of different worlds ({a.world}, {b.world}); compare runs of one world"
        )
    asked, other = ({q.task_id: q for q in run.questions} for run in (a, b))
    if asked.keys() != other.keys():
        both = len(asked.keys() & other.keys())
        raise UsageError(
            f"{a.run_id} asked {len(asked)} tasks and {b.run_id} {len(other)}, {both} of them the same; "
            "compare runs that asked the same tasks"
        )
    for task, question in asked.items():
        if _meaning(question) != _meaning(other[task]):
            raise UsageError(
                f"{task} is {_asked(question)} in {a.run_id}, and {_asked(other[task])} in {b.run_id}; "
                "compare runs that asked the same tasks at the same time"
            )


def _asked(question: Question) -> str:
    return f"{question.measure} {dict(question.params)} on {time_text(question.at_ms)}"


def _meaning(question: Question) -> tuple[Any, ...]:
    return question.measure, question.params, question.answer_type, question.at_ms


def _differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = list(dict.fromkeys([*a, *b]))
    return {name: (a.get(name), b.get(name)) for name in names if a.get(name) != b.get(name)}
