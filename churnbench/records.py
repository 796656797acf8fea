"""The records of a run's topics, one Struct each, as they stand on the wire and in the run's folder."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from churnbench.cuts import Cut
from churnbench.domain import AnswerType

__all__ = [
    "RUN_TOPICS",
    "Answer",
    "CauseShare",
    "DeadLetter",
    "Question",
    "Refresh",
    "Retrieval",
    "Tick",
    "Verdict",
    "VerdictName",
    "Watermark",
]


class Tick(msgspec.Struct, frozen=True):
    """A step of simulated time.

    Attributes:
        number: 0 for the first.
        at_ms: the time, milliseconds.
        cut: the ledger's cut for events at or before the time.
        final: whether no tick follows.
    """

    number: int
    at_ms: int = msgspec.field(name="at")
    cut: Cut
    final: bool = False


class Watermark(msgspec.Struct, frozen=True):
    """A projector (or the refresher) has applied a tick's cut in some partitions.

    Attributes:
        projector: who.
        tick: number of the tick.
        positions: partition -> last partition sequence applied.
        events: how many events it has applied since the watermark before.
        seconds: how long that took.
    """

    projector: str
    tick: int
    positions: dict[int, int]
    events: int = 0
    seconds: float = 0.0


class Refresh(msgspec.Struct, frozen=True):
    """A staged table was refreshed; (run, table, tick) identifies it.

    Attributes:
        run: the run.
        table: the staged table.
        tick: the tick's number.
        at_ms: simulated time of the refresh.
        classes: class -> cut of the data, for the owner and the embedded classes.
        owner: the owner class.
        way: replay or extract.
        reason: why, for people: initial, or the age and TTL.
        rows: rows of the table afterwards.
        changed: rows written or removed.
        bytes: size of what was written, as JSON.
        source_calls: reads of the source.
        seconds: how long it took, wall clock.
        fingerprint: of the table's rows afterwards.
    """

    run: str
    table: str
    tick: int
    at_ms: int = msgspec.field(name="at")
    classes: dict[str, Cut]
    owner: str
    way: str
    reason: str
    rows: int
    changed: int
    bytes: int
    source_calls: int
    seconds: float
    fingerprint: str


class Question(msgspec.Struct, frozen=True):
    """A question put to the agent.

    Attributes:
        task_id: its task.
        measure: what it asks; scoring reads it, readers may not.
        params: the measure's parameters.
        answer_type: int, float or str.
        tier: difficulty.
        intent: what a person wants it for.
        template_id: the task template.
        text: the question in words.
        at_ms: when it is asked, simulated.
    """

    task_id: str
    measure: str
    params: dict[str, Any]
    answer_type: AnswerType
    tier: int
    intent: str
    template_id: str
    text: str
    at_ms: int = msgspec.field(name="at")


class Retrieval(msgspec.Struct, frozen=True):
    """One read that an answer used.

    Attributes:
        route: staged, federated, warehouse, saas or documents.
        source: what was asked: staged, warehouse, operations, saas, documents.
        measure: the measure whose template asked; None for a statement that maps to no measure.
        tables: relations read.
        statement: SQL, path or search text.
        rows: rows, items or chunks returned.
        seconds: wall clock; for a virtual SaaS its virtual latency too.
        classes: class -> cut of the data, for the classes whose columns were read.
        refreshed: class -> simulated time of its last refresh, milliseconds; absent for live reads.
        calls: requests sent to the source.
    """

    route: str
    source: str
    measure: str | None
    tables: list[str]
    statement: str
    rows: int
    seconds: float
    classes: dict[str, Cut]
    refreshed: dict[str, int] = {}
    calls: int = 1


class Answer(msgspec.Struct, frozen=True):
    """What the agent answered.

    Attributes:
        task_id: the question's task.
        asked_ms: simulated time of the question.
        answered_ms: simulated time of the answer.
        raw: the text, None where there is none.
        value: the parsed value; None where nothing was parsed or the reader has no answer.
        outcome: `answered`; `unanswered` (the reader says that it has no data), `refusal`, `parse_failure`,
            `transport_failure`, `tool_error` or `step_limit`.
        trace: every retrieval, in order.
        error: what failed, for people.
        reader: who answered.
        attempt: from 1; retries of a failed answer count up, the last one holds.
        cost_usd: model cost; None if unknown, 0 without a model.
        tokens: kind -> tokens.
        seconds: wall clock from question to answer.
    """

    task_id: str
    asked_ms: int
    answered_ms: int
    raw: str | None
    value: int | float | str | None
    outcome: Literal[
        "answered", "unanswered", "refusal", "parse_failure", "transport_failure", "tool_error", "step_limit"
    ]
    trace: list[Retrieval]
    error: str | None = None
    reader: str = "scripted"
    attempt: int = 1
    cost_usd: float | None = 0.0
    tokens: dict[str, int] = {}
    seconds: float = 0.0


VerdictName = Literal["correct", "freshness_error", "reasoning_error", "parse_failure", "transport_failure"]


class CauseShare(msgspec.Struct, frozen=True):
    """The classes whose stale cut made an answer wrong.

    Attributes:
        sets: the smallest sets of classes whose cut, moved to the question's time, mends the answer.
        shares: class -> share of the error, summing to 1.
    """

    sets: list[list[str]]
    shares: dict[str, float]


class Verdict(msgspec.Struct, frozen=True):
    """A scored answer.

    Attributes:
        task_id: the task.
        verdict: see docs/concepts.
        detail: the closed list there.
        gold: true answer at the question's time.
        gold_at_vector: true answer at the cuts that the answer used, the question's time held.
        exposed: whether the two golds differ by the answers' own comparison.
        unattributed: whether a retrieval maps to no measure.
        vector: class -> cut used.
        cause: of a freshness error, else None.
        events: of an exposed answer, the seqs of the events that made the difference.
        marked: those of `events` that belong to the causing classes.
        ttl_lapse: whether a class older than its TTL was read.
        ages_ms: class -> age of the data at the question's time, by its last refresh.
        reread: classes that the answer read at more than one cut; the vector has the oldest.
    """

    task_id: str
    verdict: VerdictName
    detail: str
    gold: Any
    gold_at_vector: Any
    exposed: bool
    unattributed: bool
    vector: dict[str, Cut]
    cause: CauseShare | None = None
    events: list[int] = []
    marked: list[int] = []
    ttl_lapse: bool = False
    ages_ms: dict[str, int] = {}
    reread: list[str] = []


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that a projector could not decode; it makes the run invalid.

    Attributes:
        projector: who met it.
        topic: where it stands.
        partition: where it stands.
        offset: where it stands.
        error: why.
    """

    projector: str
    topic: str
    partition: int
    offset: int
    error: str


RUN_TOPICS: dict[str, type[msgspec.Struct]] = {
    "questions": Question,
    "clock": Tick,
    "watermarks": Watermark,
    "refreshes": Refresh,
    "answers": Answer,
    "verdicts": Verdict,
    "dead-letters": DeadLetter,
}
"""A run's topics besides `manifest`, and the Struct of each."""
