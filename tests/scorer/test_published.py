"""The published definition, and the published run scored by it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from churnbench.domain import Task
from churnbench.errors import UsageError
from churnbench_sam import DOMAIN
from churnbench_scorer import Gold, LedgerIndex, PublishedCounts, published_counts, score_published
from tests.scorer.stories import STORY, T, day
from tests.toy import TOY

DATA = Path(__file__).parents[1] / "data"
TASK = Task("t0", "PA", 1, "parcels_in_depot", {"depot": "north"}, "int", "tests")
"""North holds 2, 2, 3, 2, 1 parcels on days 0 to 4."""


@pytest.fixture(scope="module")
def gold() -> Gold:
    return Gold(LedgerIndex.of_events(STORY, TOY), TOY)


def line(**fields: object) -> bytes:
    return json.dumps({"task_id": "t0", "t_eff": "2024-01-05", **fields}).encode()


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"answer_parsed": 1}, "correct"),
        ({"answer_parsed": 1.0, "t_eff": "2024-01-01"}, "correct"),
        ({"answer_raw": " 1 "}, "correct"),
        ({"answer_parsed": 3, "t_eff": "2024-01-03"}, "freshness_error"),
        ({"answer_raw": "3", "t_eff": "2024-01-03T12:00:00Z"}, "freshness_error"),
        ({"answer_parsed": 3, "t_eff": "2024-01-02"}, "reasoning_error"),
        ({"answer_parsed": 2, "t_eff": "2024-01-05"}, "reasoning_error"),
        ({"answer_parsed": None, "answer_raw": "1"}, "parse_failure"),
        ({"answer_raw": "I cannot say"}, "parse_failure"),
        ({"answer_raw": ""}, "parse_failure"),
        ({"answer_raw": None}, "parse_failure"),
    ],
)
def test_the_published_verdict(gold: Gold, fields: dict[str, object], verdict: str) -> None:
    (found,) = score_published(gold, [TASK], T, [line(**fields), b"\n"])
    assert found.verdict == verdict


def test_the_question_moves_to_t_eff_along_with_the_data(gold: Gold) -> None:
    task = Task("t0", "MO", 1, "moves_window", {"days": 2}, "int", "tests")
    (found,) = score_published(gold, [task], T, [line(answer_parsed=1, t_eff="2024-01-03")])
    assert (found.gold, found.gold_at_t_eff, found.t_eff_ms, found.verdict) == (3, 1, day(2), "freshness_error")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"{", "line 2 is no JSON"),
        (b"\xff", "line 2 is not UTF-8"),
        (b"[1]", "line 2 is list, no object"),
        (b'{"t_eff": "2024-01-01", "answer_raw": "1"}', "line 2: task_id is None, not a text"),
        (b'{"task_id": "t1", "t_eff": 5, "answer_raw": "1"}', "line 2: t_eff is 5, not a text"),
        (b'{"task_id": "t1", "t_eff": "2024-01-01"}', "line 2 has no answer, only t_eff, task_id"),
        (b'{"task_id": "t1", "t_eff": "2024-01-01", "answer_raw": [1]}', r"line 2: answer_raw is \[1\]"),
        (b'{"task_id": "t9", "t_eff": "2024-01-01", "answer_raw": "1"}', "line 2: no task 't9' among the 1"),
        (b'{"task_id": "t0", "t_eff": "yesterday", "answer_raw": "1"}', "line 2 repeats the task 't0'"),
    ],
)
def test_a_bad_line_is_named(gold: Gold, bad: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=f"^answers.jsonl {message}"):
        score_published(gold, [TASK], T, [line(answer_raw="1"), bad], "answers.jsonl")


def test_bad_times_and_empty_files_are_named(gold: Gold) -> None:
    with pytest.raises(UsageError, match="the answers line 1: t_eff: 'yesterday' is no time"):
        score_published(gold, [TASK], T, [line(answer_raw="1", t_eff="yesterday")])
    with pytest.raises(UsageError, match="the answers holds no answer"):
        score_published(gold, [TASK], T, [b"", b"\n"])


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_published_run_scores_as_published(partitions: int) -> None:
    events = DOMAIN.simulate(DOMAIN.presets["reference"].parameters, 42)
    index = LedgerIndex.of_events(events, DOMAIN, partitions)
    tasks = [
        msgspec.json.decode(text, type=Task) for text in (DATA / "reference_tasks_180.jsonl").read_bytes().splitlines()
    ]
    lines = (DATA / "published_d1.jsonl").read_bytes().splitlines()
    at_ms = 1_714_176_000_000
    verdicts = score_published(Gold(index, DOMAIN), tasks, at_ms, lines)
    said = [json.loads(text) for text in lines]
    assert [(v.verdict, v.gold, v.gold_at_t_eff) for v in verdicts] == [
        (each["verdict"], each["gold"], each["gold_at_t_eff"]) for each in said
    ]
    assert published_counts(verdicts) == PublishedCounts(correct=121, freshness_error=7, reasoning_error=52)

    zeros = [json.dumps({**each, "answer_parsed": 0}).encode() for each in said]
    right = published_counts(score_published(Gold(index, DOMAIN), tasks, at_ms, zeros)).correct
    assert round(right / len(tasks) * 100, 1) == 1.7
    index.close()
