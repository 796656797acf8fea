"""A stale answer explained: what it read, from when, and what had happened since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from churnbench.cuts import Cut
from churnbench.events import Event, canonical_line, time_text
from churnbench.records import Verdict
from churnbench_scorer._evidence import shown_events
from churnbench_scorer._results import RunResult, StaleAnswer, stale_answers
from churnbench_scorer._wording import cut_text, days_text, joined, rounded, value_text

__all__ = ["EVENTS_SHOWN", "STALE_SHOWN", "ClassRead", "Explained", "ShownEvent", "explained"]

EVENTS_SHOWN = 20
"""Events listed under a stale answer; all their seqs are in the run's verdicts."""

STALE_SHOWN = 500
"""Stale answers listed of a run; all of them are in the run's verdicts."""


class ClassRead(NamedTuple):
    """A class that the answer read.

    Attributes:
        name: the class.
        as_of: the time of its data.
        age: by its last refresh, at the question's time; `live` where it was read from its source.
        ttl: its time to live, empty where it has none.
        lapsed: whether the age is above it.
        share: its part in the error, as a percentage; empty where it has none.
    """

    name: str
    as_of: str
    age: str
    ttl: str
    lapsed: bool
    share: str


class ShownEvent(NamedTuple):
    """An event behind a stale answer.

    Attributes:
        seq: its place in the ledger.
        marked: whether it is of a class to blame.
        at: when it happened, empty where the event is not at hand, as are the rest.
        kind: what happened.
        entity: to what.
        payload: name -> value as text.
        line: the canonical line.
    """

    seq: int
    marked: bool
    at: str = ""
    kind: str = ""
    entity: str = ""
    payload: Mapping[str, str] = {}
    line: str = ""


class Explained(NamedTuple):
    """A stale answer for people; values are as they were, to be shown by `value_text`.

    Attributes:
        task_id: the task.
        measure: what was asked.
        question: in words.
        answer: what was answered.
        gold: true at the question's time.
        gold_at_vector: true for the data read.
        at: the question's time.
        torn: why the answer was true at no one time; empty where it is not torn.
        blame: the classes to blame, `a and b or c`.
        remedy: which classes, had they been fresh, would have mended it.
        reads: the classes read, by name.
        reread: classes read from several times.
        events: the first of the events between, the marked ones first.
        total: how many events there are.
        marked: how many of them are of classes to blame.
        same_as: an earlier task of the run with the same events; empty for none.
    """

    task_id: str
    measure: str
    question: str
    answer: Any
    gold: Any
    gold_at_vector: Any
    at: str
    torn: str
    blame: str
    remedy: str
    reads: list[ClassRead]
    reread: list[str]
    events: list[ShownEvent]
    total: int
    marked: int
    same_as: str

    @property
    def rest(self) -> int:
        """How many events are not listed."""
        return self.total - len(self.events)


def explained(result: RunResult, events: Mapping[int, Event]) -> Iterator[Explained]:
    """The first `STALE_SHOWN` stale answers of a run, in the order of its questions.

    Args:
        result: the run.
        events: seq -> event; those missing appear by their seq alone.
    """
    ticks = {tick.cut: tick.at_ms for tick in result.ticks}
    seen: dict[tuple[tuple[int, ...], tuple[int, ...]], str] = {}
    for item in stale_answers(result)[:STALE_SHOWN]:
        verdict = item.verdict
        first = seen.setdefault((tuple(verdict.events), tuple(verdict.marked)), verdict.task_id)
        yield _explained(result, item, ticks, events, "" if first == verdict.task_id else first)


def _explained(
    result: RunResult, item: StaleAnswer, ticks: Mapping[Cut, int], events: Mapping[int, Event], same_as: str
) -> Explained:
    question, answer, verdict = item
    sets = verdict.cause.sets if verdict.cause is not None else []
    return Explained(
        task_id=question.task_id,
        measure=question.measure,
        question=question.text,
        answer=answer.value,
        gold=verdict.gold,
        gold_at_vector=verdict.gold_at_vector,
        at=time_text(question.at_ms),
        torn=_torn(verdict, ticks) if verdict.detail == "torn" else "",
        blame=" or ".join(" and ".join(chosen) for chosen in sets) or "unknown",
        remedy=_remedy(sets),
        reads=_reads(verdict, result.ttls_ms, ticks),
        reread=verdict.reread,
        events=_events(verdict, events),
        total=len(verdict.events),
        marked=len(verdict.marked),
        same_as=same_as,
    )


def _torn(verdict: Verdict, ticks: Mapping[Cut, int]) -> str:
    dated: dict[str, list[str]] = {}
    for cls, cut in sorted(verdict.vector.items()):
        dated.setdefault(cut_text(cut, ticks), []).append(cls)
    parts = [f"{joined(classes)} as of {when}" for when, classes in sorted(dated.items())]
    return f"At no single time was this answer true: it puts together {joined(parts)}."


def _remedy(sets: list[list[str]]) -> str:
    if not sets:
        return "No class alone explains it: the data read is later than the question."
    parts = [joined(chosen) for chosen in sets]
    if len(sets) == 1:
        together = " together" if len(sets[0]) > 1 else ""
        return f"Fresh {parts[0]}{together} would have mended it."
    return f"Fresh {' would have mended it, and so would fresh '.join(parts)}; each is to blame in equal parts."


def _reads(verdict: Verdict, ttls_ms: Mapping[str, int], ticks: Mapping[Cut, int]) -> list[ClassRead]:
    shares = verdict.cause.shares if verdict.cause is not None else {}
    reads = []
    for cls, cut in sorted(verdict.vector.items()):
        age, ttl, share = verdict.ages_ms.get(cls), ttls_ms.get(cls), shares.get(cls, 0.0)
        reads.append(
            ClassRead(
                name=cls,
                as_of=cut_text(cut, ticks),
                age="live" if age is None else days_text(age),
                ttl="" if ttl is None else days_text(ttl),
                lapsed=age is not None and ttl is not None and age > ttl,
                share=f"{rounded(100 * share)} %" if share else "",
            )
        )
    return reads


def _events(verdict: Verdict, events: Mapping[int, Event]) -> list[ShownEvent]:
    marked = set(verdict.marked)
    shown = []
    for seq in shown_events(verdict)[:EVENTS_SHOWN]:
        event = events.get(seq)
        if event is None:
            shown.append(ShownEvent(seq, seq in marked))
        else:
            fields = msgspec.to_builtins(event.payload)
            payload = {name: value_text(value) for name, value in fields.items()} if isinstance(fields, dict) else {}
            at, line = time_text(event.at_ms), canonical_line(event)
            shown.append(ShownEvent(seq, seq in marked, at, event.kind, event.entity_id, payload, line))
    return shown
