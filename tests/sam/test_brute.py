"""The brute-force golds are the published ones, and at a vector each class is read at its own cut."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from churnbench.events import Event
from churnbench_sam import _events as ev
from churnbench_sam._tasks import TEMPLATES
from tests.sam.brute import CLASSES, Brute, day, matches
from tests.sam.test_tasks import published_tasks

DATA = Path(__file__).parents[1] / "data"
T = day("2024-04-27")


def published_run() -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in (DATA / "published_d1.jsonl").read_bytes().splitlines()]


def test_golds_at_t_are_the_published_ones_to_the_last_bit(brute: Brute) -> None:
    for task, line in zip(published_tasks(), published_run(), strict=True):
        assert (task.task_id, brute.gold(task.measure, task.params, T)) == (line["task_id"], line["gold"])


def test_golds_at_t_eff_move_the_question_along_as_published(brute: Brute) -> None:
    for task, line in zip(published_tasks(), published_run(), strict=True):
        assert brute.gold(task.measure, task.params, day(str(line["t_eff"]))) == line["gold_at_t_eff"], task


def test_the_published_method_gives_the_published_verdicts(brute: Brute) -> None:
    counts: Counter[str] = Counter()
    for task, line in zip(published_tasks(), published_run(), strict=True):
        answer, t_eff = line["answer_parsed"], day(str(line["t_eff"]))
        if matches(answer, brute.gold(task.measure, task.params, T), task.answer_type):
            verdict = "correct"
        elif t_eff < T and matches(answer, brute.gold(task.measure, task.params, t_eff), task.answer_type):
            verdict = "freshness_error"
        else:
            verdict = "parse_failure" if answer is None else "reasoning_error"
        assert verdict == line["verdict"]
        counts[verdict] += 1
    assert counts == {"correct": 121, "freshness_error": 7, "reasoning_error": 52}


def test_a_vector_with_every_class_at_t_is_gold_at_t(brute: Brute, reference_events: list[Event]) -> None:
    last = max(event.seq for event in reference_events if event.at_ms <= T)
    for task in {task.measure: task for task in published_tasks()}.values():
        plain = brute.gold(task.measure, task.params, T)
        assert brute.gold(task.measure, task.params, T, last) == plain
        assert brute.gold(task.measure, task.params, T, dict.fromkeys(CLASSES, last)) == plain


def test_nothing_known_gives_the_empty_answer_of_every_measure(brute: Brute) -> None:
    params = {"cc": "cc_000", "product_id": "prd_0000", "contract_id": "ctr_0000", "threshold": 1.0}
    for template in TEMPLATES:
        asked = {parameter.name: params.get(parameter.name, 30) for parameter in template.params}
        assert brute.gold(template.measure, asked, T, -1) in (None, "", 0)


@pytest.fixture
def small() -> Brute:
    """One licence: bought and given to Ann (0 to 4); Ann moves (5), Bob gets it (6), Ann leaves (7)."""
    ann, bob, product, number = "usr_000000", "usr_000001", "prd_0000", "lic_000000"
    day_0, day_9 = day("2024-01-01"), day("2024-01-10")
    return Brute(
        [
            Event(0, day_0, "price_changed", "product", product, ev.PriceChanged(10.0, reason="initial")),
            Event(1, day_0, "user_hired", "user", ann, ev.UserHired("cc_000")),
            Event(2, day_0, "user_hired", "user", bob, ev.UserHired("cc_001")),
            Event(3, day_0, "license_purchased", "license", number, ev.LicensePurchased(product, 2, 10.0)),
            Event(4, day_0, "license_assigned", "license", number, ev.LicenseAssigned(ann, product)),
            Event(5, day_9, "user_moved_cost_center", "user", ann, ev.UserMovedCostCenter("cc_002")),
            Event(6, day_9, "license_reassigned", "license", number, ev.LicenseReassigned(ann, bob)),
            Event(7, day_9, "user_offboarded", "user", ann, ev.UserOffboarded()),
        ]
    )


@pytest.mark.parametrize(
    ("vector", "top"),
    [
        ({}, "cc_001"),
        ({"assignments": 5}, ""),
        ({"assignments": 5, "user_status": 6}, "cc_002"),
        ({"assignments": 5, "user_status": 6, "cost_center_membership": 4}, "cc_000"),
        ({"cost_center_membership": 1}, ""),
        ({"prices": 2}, ""),
        ({"consumption_facts": -1}, "cc_001"),
    ],
)
def test_each_class_is_read_at_its_own_cut(small: Brute, vector: dict[str, int], top: str) -> None:
    now = day("2024-01-11")
    assert small.gold("top_spending_cost_center", {}, now, vector) == top
    assert small.gold("total_monthly_spend", {}, now, vector) == (20.0 if top else 0)


def test_the_questions_time_stays_while_the_data_is_old(small: Brute) -> None:
    late = day("2024-01-20")
    assert small.gold("reassignment_count", {"days_back": 11}, late) == 1
    assert small.gold("reassignment_count", {"days_back": 10}, late) == 0
    assert small.gold("reassignment_count", {"days_back": 11}, late, {"assignments": 5}) == 0
    assert small.gold("offboard_count_window", {"days_back": 11}, late, {"assignments": 5}) == 1


def test_an_unknown_class_is_refused(small: Brute) -> None:
    with pytest.raises(ValueError, match="price"):
        small.gold("product_price", {"product_id": "prd_0000"}, T, {"price": 1})
