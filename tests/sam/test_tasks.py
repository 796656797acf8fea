"""The 180 tasks, and what guards any task set."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from churnbench.domain import Task
from churnbench.errors import UsageError
from churnbench_sam._tasks import POOLS, TEMPLATES, generate, threshold_of
from tests.sam.brute import Brute, day, matches

DATA = Path(__file__).parents[1] / "data"
T = day("2024-04-27")


def published_tasks() -> list[Task]:
    lines = (DATA / "reference_tasks_180.jsonl").read_text("utf-8").splitlines()
    return [msgspec.json.decode(line, type=Task) for line in lines]


@pytest.fixture(scope="module")
def generated(brute: Brute) -> list[Task]:
    return generate(brute.pools(T), lambda measure, params: brute.gold(measure, params, T), 180, 42)


def test_generated_tasks_are_the_published_ones_in_order(generated: list[Task]) -> None:
    assert generated == published_tasks()
    assert msgspec.json.encode(generated) == msgspec.json.encode(published_tasks())


def test_answering_zero_to_everything_is_right_on_three(generated: list[Task], brute: Brute) -> None:
    golds = [brute.gold(task.measure, task.params, T) for task in generated]
    right = [matches(0, gold, task.answer_type) for task, gold in zip(generated, golds, strict=True)]
    assert sum(right) == 3


def test_fewer_tasks_are_a_prefix(generated: list[Task], brute: Brute) -> None:
    assert generate(brute.pools(T), lambda measure, params: brute.gold(measure, params, T), 20, 42) == generated[:20]


def test_there_are_22_templates_and_every_pool_is_declared() -> None:
    assert len({template.template_id for template in TEMPLATES}) == len(TEMPLATES) == 22
    assert len({template.measure for template in TEMPLATES}) == 22
    drawn = {parameter.pool for template in TEMPLATES for parameter in template.params if parameter.pool}
    assert drawn == set(POOLS)


def test_gold_is_asked_once_for_each_measure_and_parameters() -> None:
    asked: list[object] = []

    def gold(measure: str, params: object) -> int:
        asked.append((measure, params))
        return 5

    pools = {pool: ["a", "b"] for pool in POOLS}
    assert len(generate(pools, gold, 500, 1)) == 500
    assert len(asked) == len({str(key) for key in asked}) < 500


def test_each_template_is_taken_once_at_most_with_a_trivial_gold() -> None:
    pools = {pool: ["a", "b"] for pool in POOLS}
    tasks = generate(pools, lambda measure, _: 1 if measure == "product_price" else 0, 100, 3)
    others = [task.template_id for task in tasks if task.measure != "product_price"]
    assert len(others) == len(set(others)) > 0


@pytest.mark.parametrize("trivial", [None, "", 0, 0.0])
def test_a_world_without_answers_is_refused_with_the_count(trivial: object) -> None:
    pools = {pool: ["a"] for pool in POOLS}
    with pytest.raises(UsageError, match=r"only 2\d of 180"):
        generate(pools, lambda *_: trivial, 180, 1)


def test_empty_pools_draw_nothing() -> None:
    tasks = generate({pool: [] for pool in POOLS}, lambda *_: 1, 30, 1)
    assert len(tasks) == 30
    assert all(task.measure not in ("product_price", "cost_centers_above_threshold") for task in tasks)


def test_no_tasks_and_a_negative_number() -> None:
    assert generate({}, lambda *_: 1, 0, 1) == []
    with pytest.raises(UsageError, match="-3"):
        generate({}, lambda *_: 1, -3, 1)


def test_the_threshold_is_the_lower_quartile_to_the_cent() -> None:
    assert threshold_of([]) is None
    assert threshold_of([9.0]) == 9.0
    assert threshold_of([4.0, 1.0, 3.0, 2.009, 5.0]) == 2.01
