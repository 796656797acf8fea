"""Which of several answers to a question counts."""

from __future__ import annotations

from collections.abc import Iterable

from churnbench.records import Answer

__all__ = ["last_answers"]


def last_answers(answers: Iterable[Answer]) -> dict[str, Answer]:
    """Task -> the answer of its last attempt; of equal attempts the later one."""
    last: dict[str, Answer] = {}
    for answer in answers:
        if answer.task_id not in last or answer.attempt >= last[answer.task_id].attempt:
            last[answer.task_id] = answer
    return last
