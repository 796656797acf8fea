"""The verdict on each answer: right, stale, never true, or not an answer at all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from churnbench.cuts import Cut
from churnbench.domain import Domain
from churnbench.errors import IncompleteError
from churnbench.records import Answer, CauseShare, Question, Tick, Verdict, VerdictName
from churnbench.registry import Registry
from churnbench_scorer._answers import last_answers
from churnbench_scorer._causes import Causes
from churnbench_scorer._differences import is_older
from churnbench_scorer._gold import Gold, compare, differ
from churnbench_scorer._intervals import LedgerIndex

__all__ = ["Judge", "score", "vector_of"]

_OWN_DETAIL = ("unanswered", "refusal", "tool_error", "step_limit")


class _Case(NamedTuple):
    """An answer with what judging it needs again and again.

    `vector` holds the classes that the measure reads; `everything` all that the answer read.
    """

    question: Question
    answer: Answer
    value: Any
    vector: dict[str, Cut]
    everything: dict[str, Cut]
    gold: Any
    gold_at_vector: Any


def vector_of(answer: Answer) -> tuple[dict[str, Cut], list[str]]:
    """The cut of each class that an answer read, and the classes that it read at more than one cut.

    Of several cuts of a class the oldest counts.
    """
    cuts: dict[str, list[Cut]] = {}
    for retrieval in answer.trace:
        for cls, cut in retrieval.classes.items():
            if cut not in cuts.setdefault(cls, []):
                cuts[cls].append(cut)
    vector = {cls: found[0] if len(found) == 1 else Cut.minimum(found) for cls, found in cuts.items()}
    return vector, sorted(cls for cls, found in cuts.items() if len(found) > 1)


class Judge:
    """Judges answers over one ledger, one at a time.

    Args:
        index: the ledger.
        domain: declares the measures.
        registry: the run's; says when a class is older than its time to live.
        ticks: the run's clock, in order.
    """

    def __init__(self, index: LedgerIndex, domain: Domain, registry: Registry, ticks: Sequence[Tick]) -> None:
        self.index = index
        self.gold = Gold(index, domain)
        self.causes = Causes(self.gold)
        self.ttls = {policy.name: policy.ttl_ms for policy in registry.classes if policy.ttl_ms is not None}
        self.ticks = sorted(ticks, key=lambda tick: tick.at_ms)
        self._tick_times = [tick.at_ms for tick in self.ticks]

    def verdict(self, question: Question, answer: Answer) -> Verdict:
        """The verdict on `answer`.

        Raises:
            NotFoundError: the question's measure is unknown.
            TerminalError: the measure fails.
        """
        everything, reread = vector_of(answer)
        reads = self.gold.measure(question.measure).reads
        vector = {cls: cut for cls, cut in everything.items() if cls in reads}
        gold = self.gold.at(question.measure, question.params, question.at_ms)
        at_vector = self.gold.gold(question.measure, question.params, question.at_ms, vector)
        value = answer.value if answer.outcome == "answered" else None
        case = _Case(question, answer, value, vector, everything, gold, at_vector)

        older = self.causes.older(question.measure, vector, self.index.cut_at(question.at_ms))
        name, detail = self._named(case, bool(older))
        exposed = differ(question.answer_type, at_vector, gold)
        cause = self._cause(case, older) if name == "freshness_error" else None
        blamed = cause.shares if cause is not None else {}
        ages = _ages(question, answer)
        return Verdict(
            task_id=question.task_id,
            verdict=name,
            detail=detail,
            gold=gold,
            gold_at_vector=at_vector,
            exposed=exposed,
            unattributed=any(retrieval.measure is None for retrieval in answer.trace),
            vector=vector,
            cause=cause,
            events=_merged(older.values()) if exposed else [],
            marked=_merged(older[cls] for cls in blamed if cls in older),
            ttl_lapse=any(age > self.ttls[cls] for cls, age in ages.items() if cls in self.ttls),
            ages_ms=ages,
            reread=reread,
        )

    def _named(self, case: _Case, older: bool) -> tuple[VerdictName, str]:
        """Verdict and detail, the first that fits."""
        outcome = case.answer.outcome
        if outcome == "transport_failure":
            return "transport_failure", ""
        if outcome == "parse_failure" or (outcome == "answered" and case.value is None):
            return "parse_failure", ""
        right = self._right_at(case)
        if right is not None:
            return "correct", right
        at_vector = self._says(case, case.gold_at_vector)
        if at_vector and older and self._asked_for(case):
            return "freshness_error", "stale" if self._right_at_a_tick(case) else "torn"
        if outcome in _OWN_DETAIL:
            return "reasoning_error", outcome
        if not case.answer.trace:
            return "reasoning_error", "undated"
        if not self._asked_for(case) and (at_vector or self._says(case, self._oldest_gold(case))):
            return "reasoning_error", "coincidental"
        return "reasoning_error", "wrong"

    def _says(self, case: _Case, gold: Any) -> bool:
        return compare(case.question.answer_type, case.value, gold)

    def _right_at(self, case: _Case) -> str | None:
        """The detail of a right answer; None where it is wrong at every time from question to answer."""
        question, answer = case.question, case.answer
        first = last = self._says(case, case.gold)
        between = False
        if case.value is not None and answer.answered_ms > question.at_ms:
            reads = self.gold.measure(question.measure).reads
            for time in self.index.times_between(reads, question.at_ms, answer.answered_ms):
                cut = self.index.cut_at(time)
                last = self._says(case, self.gold.gold(question.measure, question.params, question.at_ms, None, cut))
                between = between or last
        if not (first or between):
            return None
        if not self._says(case, case.gold_at_vector):
            return "lucky"
        return "fresh" if first and last else "in_flight"

    @staticmethod
    def _asked_for(case: _Case) -> bool:
        """Whether the trace answers the measure asked for; statements of no measure are taken to."""
        measures = {retrieval.measure for retrieval in case.answer.trace}
        return None in measures or case.question.measure in measures

    def _oldest_gold(self, case: _Case) -> Any:
        """Gold with all data as old as the oldest that the answer read."""
        oldest = Cut.minimum(case.everything.values()) if case.everything else None
        return self.gold.gold(case.question.measure, case.question.params, case.question.at_ms, None, oldest)

    def _right_at_a_tick(self, case: _Case) -> bool:
        """Whether all classes at one time, from the oldest cut used to the question, give the answer."""
        question = case.question
        oldest = self.index.positions(Cut.minimum(case.vector.values()))
        upto = bisect_right(self._tick_times, question.at_ms)
        truth = self.index.positions(self.index.cut_at(question.at_ms))
        # Cuts between ticks are times too: what came from one of them alone is not torn.
        for cut in (*case.vector.values(), *(tick.cut for tick in self.ticks[:upto])):
            positions = self.index.positions(cut)
            if is_older(positions, oldest) or is_older(truth, positions):
                continue
            if self._says(case, self.gold.gold(question.measure, question.params, question.at_ms, None, cut)):
                return True
        return False

    def _cause(self, case: _Case, older: Mapping[str, Sequence[int]]) -> CauseShare | None:
        question = case.question
        args = (question.measure, question.params, question.at_ms, case.vector, question.answer_type)
        # Classes later than the question are moved too where the older ones alone do not mend it.
        return self.causes.share(*args, older) or self.causes.share(*args, case.vector)


def _merged(seqs: Iterable[Iterable[int]]) -> list[int]:
    return sorted({seq for found in seqs for seq in found})


def _ages(question: Question, answer: Answer) -> dict[str, int]:
    """Class -> age at the question's time by its last refresh; of several reads the oldest, live ones left out."""
    ages: dict[str, int] = {}
    for retrieval in answer.trace:
        for cls, refreshed_ms in retrieval.refreshed.items():
            ages[cls] = max(ages.get(cls, 0), question.at_ms - refreshed_ms)
    return ages


def score(
    index: LedgerIndex,
    domain: Domain,
    registry: Registry,
    ticks: Sequence[Tick],
    questions: Iterable[Question],
    answers: Iterable[Answer],
) -> list[Verdict]:
    """The verdict on each answered question, in the order of the questions.

    Of several answers to a question the one of the last attempt counts. A question without an answer has no
    verdict.

    Raises:
        IncompleteError: an answer's question is missing.
        TerminalError: a measure fails.
    """
    asked = {question.task_id: question for question in questions}
    given = list(answers)
    for answer in given:
        if answer.task_id not in asked:
            raise IncompleteError(
                f"the answer to {answer.task_id!r} has no question; questions and answers must be of one run"
            )
    last = last_answers(given)
    judge = Judge(index, domain, registry, ticks)
    return [judge.verdict(question, last[task]) for task, question in asked.items() if task in last]
