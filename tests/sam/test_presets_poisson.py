"""The preset poisson: entities change by themselves, so a copy's error is known in closed form."""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import msgspec
import numpy as np
import pytest

from churnbench.events import Event
from churnbench_sam._presets import PRESETS
from churnbench_sam._simulator import simulate
from tests.sam.laws import DAY_MS, Checker

POISSON = msgspec.structs.replace(
    PRESETS["poisson"].parameters,
    users=1500,
    licenses=1500,
    products=1500,
    contracts=1500,
    vendors=5,
    cost_centers=6,
    free_share=0.0,
    status_flips_per_user_day=0.02,
    cost_center_moves_per_user_day=0.02,
    holder_changes_per_license_day=0.03,
    price_changes_per_product_day=0.02,
    renewals_per_contract_day=0.03,
    vendor_change_share=0.5,
    sessions_per_user_day=0.0,
    days=61,
)
START_MS = int(np.datetime64(POISSON.start, "ms").astype(int))
T_DAYS, AGES = 60, (7, 28)


@pytest.fixture(scope="module")
def states() -> dict[int, Checker]:
    """Age in days -> the world as a copy of that age has it."""
    events = list(simulate(POISSON, 11))
    out = {}
    for age in (0, *AGES):
        out[age] = Checker(returns=True, to_anybody=True)
        out[age].check(event for event in events if event.at_ms <= START_MS + (T_DAYS - age) * DAY_MS)
    return out


def jumps(rate: float, states: int) -> Callable[[int], float]:
    return lambda age: (1 - 1 / states) * (1 - exp(-rate * age * states / (states - 1)))


def changes(rate: float) -> Callable[[int], float]:
    return lambda age: 1 - exp(-rate * age)


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize(
    ("facts", "wrong"),
    [
        ("users", jumps(0.02, 2)),
        ("cost_center", jumps(0.02, 6)),
        ("holder", jumps(0.03, 1500)),
        ("price", changes(0.02)),
        ("value", changes(0.03)),
        ("expiry", changes(0.03)),
        ("vendor", jumps(0.03 * 0.5, 5)),
    ],
)
def test_a_copy_is_wrong_as_often_as_theory_says(
    states: dict[int, Checker], facts: str, wrong: Callable[[int], float], age: int
) -> None:
    now, then = getattr(states[0], facts), getattr(states[age], facts)
    differs = sum(then[entity] != value for entity, value in now.items())
    p = wrong(age)
    assert len(now) == 1500
    assert abs(differs - 1500 * p) < 3.5 * (1500 * p * (1 - p)) ** 0.5


@pytest.mark.parametrize("age", AGES)
def test_no_old_price_or_value_counts_as_right_again(states: dict[int, Checker], age: int) -> None:
    for facts in ("price", "value"):
        now, then = getattr(states[0], facts), getattr(states[age], facts)
        assert all(value == then[entity] or value - then[entity] > 0.01 * value for entity, value in now.items())


def test_every_change_changes_something() -> None:
    fold = Checker(returns=True, to_anybody=True)
    for event in simulate(msgspec.structs.replace(POISSON, free_share=0.2, days=30), 2):
        assert changed(fold, event)
        fold.check([event])


def changed(fold: Checker, event: Event) -> bool:
    if event.kind == "user_moved_cost_center":
        return fold.cost_center[event.entity_id] != event.payload.cost_center_id
    if event.kind == "license_reassigned":
        return event.payload.from_ != event.payload.to
    if event.kind == "price_changed" and event.payload.prev_price is not None:
        return event.payload.unit_price_usd > event.payload.prev_price * 1.01
    return True


def test_counts_of_one_entity_are_those_of_a_poisson_process() -> None:
    """Mean and variance of the moves of each user are both rate times days, and users do not depend on each other."""
    moves = dict.fromkeys((f"usr_{number:06d}" for number in range(POISSON.users)), 0)
    for event in simulate(POISSON, 4):
        if event.kind == "user_moved_cost_center":
            moves[event.entity_id] += 1
    counts = np.array(list(moves.values()))
    expected = POISSON.cost_center_moves_per_user_day * POISSON.days
    assert abs(counts.mean() - expected) < 3 * (expected / len(counts)) ** 0.5
    assert counts.var() / counts.mean() == pytest.approx(1, abs=4 * (2 / len(counts)) ** 0.5)


def test_licences_become_free_and_are_given_again() -> None:
    kinds = [e.kind for e in simulate(msgspec.structs.replace(POISSON, free_share=0.5, days=20), 2)]
    assert kinds.count("license_unassigned") > 50
    assert kinds.count("license_assigned") > POISSON.licenses + 20


def test_only_active_users_use_anything() -> None:
    fold = Checker(returns=True, to_anybody=True)  # refuses use by others
    fold.check(simulate(msgspec.structs.replace(POISSON, sessions_per_user_day=0.2, days=20), 2))
