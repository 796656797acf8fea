"""The published way of scoring, to re-check the published files; our own verdicts never use it.

It knows one time for all data, t_eff, and moves the question's own time there along with it. Source: ChurnBench
paper (Singh & Priyam) and the data released with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from churnbench.clock import parse_time
from churnbench.domain import AnswerType, Task
from churnbench.errors import UsageError
from churnbench_scorer._gold import Gold, compare, parsed

__all__ = ["PublishedCounts", "PublishedVerdict", "published_counts", "score_published"]

_FIELDS = "task_id, answer_raw or answer_parsed, t_eff"

PublishedName = Literal["correct", "freshness_error", "parse_failure", "reasoning_error"]


class PublishedVerdict(msgspec.Struct, frozen=True):
    """A verdict by the published definition.

    Attributes:
        task_id: the task.
        verdict: its name.
        gold: at the question's time.
        gold_at_t_eff: with question and data moved to t_eff.
        t_eff_ms: that time, milliseconds.
    """

    task_id: str
    verdict: PublishedName
    gold: Any
    gold_at_t_eff: Any
    t_eff_ms: int


class PublishedCounts(msgspec.Struct, frozen=True):
    """How many answers got which published verdict.

    Attributes:
        correct: matches gold at the question's time.
        freshness_error: matches gold at an earlier t_eff.
        reasoning_error: matches neither.
        parse_failure: nothing was parsed.
    """

    correct: int = 0
    freshness_error: int = 0
    reasoning_error: int = 0
    parse_failure: int = 0


def score_published(
    gold: Gold, tasks: Iterable[Task], at_ms: int, lines: Iterable[bytes], name: str = "the answers"
) -> list[PublishedVerdict]:
    """Published verdicts on answers from elsewhere, in their order.

    `correct` if the parsed answer matches gold at the question's time, else `freshness_error` if t_eff is earlier
    and it matches gold at t_eff, else `parse_failure` if nothing was parsed, else `reasoning_error`.

    Args:
        gold: of the world that was asked about.
        tasks: the tasks that were asked.
        at_ms: the question's time.
        lines: JSON lines with task_id, answer_parsed or else answer_raw, and t_eff (ISO); empty ones are skipped,
            further fields are not read. An answer_parsed of null says that nothing was parsed.
        name: what `lines` are called in errors.

    Raises:
        UsageError: a line is not such an object, names an unknown task or repeats one; or there are none.
    """
    known = {task.task_id: task for task in tasks}
    found: dict[str, PublishedVerdict] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name} line {number}"
        fields = _fields(line, where)
        task = known.get(fields["task_id"])
        if task is None:
            raise UsageError(
                f"{where}: no task {fields['task_id']!r} among the {len(known)} of the task set; "
                "give the set that was asked with --tasks"
            )
        if task.task_id in found:
            raise UsageError(f"{where} repeats the task {task.task_id!r}; keep one answer a task")
        try:
            t_eff_ms = parse_time(fields["t_eff"])
        except UsageError as error:
            raise UsageError(f"{where}: t_eff: {error}") from error
        value = _value(task.answer_type, fields)
        found[task.task_id] = _judged(gold, task, at_ms, t_eff_ms, value)
    if not found:
        raise UsageError(f"{name} holds no answer; each line is an object with {_FIELDS}")
    return list(found.values())


def published_counts(verdicts: Iterable[PublishedVerdict]) -> PublishedCounts:
    """How many of `verdicts` there are of each name."""
    counts = Counter[str](verdict.verdict for verdict in verdicts)
    return PublishedCounts(**counts)


def _judged(gold: Gold, task: Task, at_ms: int, t_eff_ms: int, value: Any) -> PublishedVerdict:
    true = gold.at(task.measure, task.params, at_ms)
    old = gold.at(task.measure, task.params, t_eff_ms)
    verdict: PublishedName = "reasoning_error"
    if compare(task.answer_type, value, true):
        verdict = "correct"
    elif t_eff_ms < at_ms and compare(task.answer_type, value, old):
        verdict = "freshness_error"
    elif value is None:
        verdict = "parse_failure"
    return PublishedVerdict(task.task_id, verdict, true, old, t_eff_ms)


def _fields(line: bytes, where: str) -> Mapping[str, Any]:
    try:
        line.decode()
        fields = msgspec.json.decode(line)
    except UnicodeDecodeError as error:
        raise UsageError(f"{where} is not UTF-8; save the file as UTF-8") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{where} is no JSON: {error}; each line is an object with {_FIELDS}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"{where} is {type(fields).__name__}, no object; each line is an object with {_FIELDS}")
    for field in ("task_id", "t_eff"):
        if not isinstance(fields.get(field), str):
            raise UsageError(f"{where}: {field} is {fields.get(field)!r}, not a text; each line has {_FIELDS}")
    if "answer_parsed" not in fields and "answer_raw" not in fields:
        raise UsageError(f"{where} has no answer, only {', '.join(sorted(fields))}; each line has {_FIELDS}")
    for field in ("answer_parsed", "answer_raw"):
        if isinstance(fields.get(field), (list, dict)):
            raise UsageError(f"{where}: {field} is {fields[field]!r}; give a number, a text or null")
    return fields


def _value(answer_type: AnswerType, fields: Mapping[str, Any]) -> Any:
    if "answer_parsed" in fields:
        return fields["answer_parsed"]
    value = parsed(answer_type, fields["answer_raw"])
    return None if value == "" else value
