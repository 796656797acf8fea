"""A run in figures."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from churnbench.clock import DAY_MS
from churnbench.records import Answer, Question, Refresh, Verdict
from churnbench_scorer._answers import last_answers
from churnbench_scorer._cost import StagedCost, distinct, staged_costs

__all__ = ["Counts", "Latency", "Summary", "accuracy", "counts_of", "summarize", "total_shares"]


class Counts(msgspec.Struct, frozen=True):
    """How many answers got which verdict.

    Attributes:
        correct: right at the question's time, or at a time up to the answer's.
        freshness_error: right only for the older data that the answer read.
        reasoning_error: wrong for both.
        parse_failure: nothing could be made of the answer.
        transport_failure: no answer after the retries; outside accuracy.
        unanswered: those of `reasoning_error` whose reader said that it has no data.
    """

    correct: int = 0
    freshness_error: int = 0
    reasoning_error: int = 0
    parse_failure: int = 0
    transport_failure: int = 0
    unanswered: int = 0

    @property
    def answers(self) -> int:
        """All of them."""
        failures = self.parse_failure + self.transport_failure
        return self.correct + self.freshness_error + self.reasoning_error + failures


class Latency(msgspec.Struct, frozen=True):
    """Seconds from question to answer, wall clock; None where there are no answers.

    Attributes:
        p50: half of the answers took at most this long.
        p95: 95 % of them did.
    """

    p50: float | None
    p95: float | None


class Summary(msgspec.Struct, frozen=True):
    """What a run found.

    Attributes:
        tasks: questions asked.
        answers: those with a verdict.
        counts: by verdict.
        details: detail -> answers, of those verdicts that have details.
        exposed: answers whose gold at the cuts that they used differs from gold.
        unattributed: answers with a retrieval that maps to no measure.
        by_measure: measure -> counts.
        by_tier: tier as text -> counts.
        by_intent: intent -> counts.
        by_cause: class -> its share of the freshness errors; sums to those with a cause.
        by_staged: class -> freshness errors by the class that owns the oldest staged table read, as published;
            of several equally old ones in equal shares.
        ages_days: class with a staged table of its own -> age at the last question, days, by its last refresh.
        ttl_lapses: answers that read a class older than its time to live.
        refreshes: refreshes of staged tables.
        cost_usd: of all answers; None where one of them does not know.
        latency: of the answers.
        refresh_cost: work done to stage the copy, and to refresh it.
    """

    tasks: int
    answers: int
    counts: Counts
    details: dict[str, int]
    exposed: int
    unattributed: int
    by_measure: dict[str, Counts]
    by_tier: dict[str, Counts]
    by_intent: dict[str, Counts]
    by_cause: dict[str, float]
    by_staged: dict[str, float]
    ages_days: dict[str, float]
    ttl_lapses: int
    refreshes: int
    cost_usd: float | None
    latency: Latency
    refresh_cost: StagedCost = StagedCost()


def accuracy(counts: Counts) -> float | None:
    """Correct answers over all but transport failures, from 0 to 1; None where there are none."""
    asked = counts.answers - counts.transport_failure
    return counts.correct / asked if asked else None


def summarize(
    questions: Sequence[Question],
    answers: Iterable[Answer],
    verdicts: Sequence[Verdict],
    refreshes: Iterable[Refresh],
) -> Summary:
    """The figures of a run from its topics.

    Of several answers to a question the one of the last attempt counts for its latency; all of them cost.
    """
    asked = {question.task_id: question for question in questions}
    given = list(answers)
    last = last_answers(given)
    cost: float | None = 0.0
    for answer in given:
        cost = None if cost is None or answer.cost_usd is None else cost + answer.cost_usd
    done = distinct(refreshes)

    def by(key: Callable[[Question], Any]) -> dict[str, Counts]:
        groups: dict[Any, list[Verdict]] = defaultdict(list)
        for verdict in verdicts:
            groups[key(asked[verdict.task_id])].append(verdict)
        return {str(name): counts_of(groups[name]) for name in sorted(groups)}

    return Summary(
        tasks=len(asked),
        answers=len(verdicts),
        counts=counts_of(verdicts),
        details=_details(verdicts),
        exposed=sum(verdict.exposed for verdict in verdicts),
        unattributed=sum(verdict.unattributed for verdict in verdicts),
        by_measure=by(lambda question: question.measure),
        by_tier=by(lambda question: question.tier),
        by_intent=by(lambda question: question.intent),
        by_cause=_causes(verdicts),
        by_staged=_staged(verdicts, last, done),
        ages_days=_ages(done, max((question.at_ms for question in asked.values()), default=None)),
        ttl_lapses=sum(verdict.ttl_lapse for verdict in verdicts),
        refreshes=len(done),
        cost_usd=cost,
        latency=_latency([answer.seconds for answer in last.values()]),
        refresh_cost=staged_costs(done)[0],
    )


def counts_of(verdicts: Iterable[Verdict]) -> Counts:
    """How many of `verdicts` are which."""
    counts: dict[str, int] = defaultdict(int)
    for verdict in verdicts:
        counts[verdict.verdict] += 1
        counts["unanswered"] += verdict.detail == "unanswered"
    return Counts(**counts)


def _details(verdicts: Iterable[Verdict]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for verdict in verdicts:
        if verdict.detail:
            counts[verdict.detail] += 1
    return dict(sorted(counts.items()))


def _staged(verdicts: Iterable[Verdict], answers: dict[str, Answer], refreshes: Sequence[Refresh]) -> dict[str, float]:
    """Freshness errors by the owner of the oldest staged table that the answer read."""
    owners = {refresh.table: refresh.owner for refresh in refreshes}
    times: dict[str, list[int]] = defaultdict(list)
    for refresh in refreshes:
        times[refresh.table].append(refresh.at_ms)
    shares: list[dict[str, float]] = []
    for verdict in verdicts:
        answer = answers.get(verdict.task_id)
        if verdict.verdict != "freshness_error" or answer is None:
            continue
        read = {table for retrieval in answer.trace if retrieval.refreshed for table in retrieval.tables}
        dated = {t: max((at for at in times[t] if at <= answer.asked_ms), default=None) for t in read & owners.keys()}
        known = [(at, owners[table]) for table, at in dated.items() if at is not None]
        oldest = sorted({owner for at, owner in known if at == min(known)[0]})
        shares.append({owner: 1 / len(oldest) for owner in oldest})
    return total_shares(shares)


def _causes(verdicts: Iterable[Verdict]) -> dict[str, float]:
    return total_shares(verdict.cause.shares for verdict in verdicts if verdict.cause is not None)


def total_shares(shares: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Class -> the sum of its shares, by class."""
    parts: dict[str, list[float]] = defaultdict(list)
    for each in shares:
        for cls, share in each.items():
            parts[cls].append(share)
    return {cls: math.fsum(parts[cls]) for cls in sorted(parts)}


def _ages(refreshes: Iterable[Refresh], at_ms: int | None) -> dict[str, float]:
    """Class -> days since the last refresh of the tables that it owns; of several tables the oldest."""
    last: dict[tuple[str, str], int] = {}
    for refresh in refreshes:
        if at_ms is not None and refresh.at_ms <= at_ms:
            key = (refresh.owner, refresh.table)
            last[key] = max(last.get(key, refresh.at_ms), refresh.at_ms)
    ages: dict[str, float] = {}
    for (owner, _), refreshed_ms in last.items():
        if at_ms is not None:
            ages[owner] = max(ages.get(owner, 0.0), (at_ms - refreshed_ms) / DAY_MS)
    return dict(sorted(ages.items()))


def _latency(seconds: list[float]) -> Latency:
    ordered = sorted(seconds)

    def rank(share: float) -> float | None:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None

    return Latency(rank(0.50), rank(0.95))
