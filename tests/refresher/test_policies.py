"""Which tables are refreshed when."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from churnbench.cuts import Cut
from churnbench.errors import NotFoundError, UsageError
from churnbench.records import Tick
from churnbench_refresher import Off, Policy, Tiered, find_policy
from tests.toy import REGISTRY

DAY = 86_400_000
TTL_DAYS = {"locations": 1, "stock": 3, "depots": 3, "documents": 5}


def walk(policy: Policy, days: Sequence[int]) -> dict[str, list[int]]:
    """Staged name -> the days on which it was refreshed."""
    state: dict[str, int] = {}
    found: dict[str, list[int]] = {name: [] for name in REGISTRY.staged()}
    for number, day in enumerate(days):
        for due in policy.due(Tick(number, day * DAY, Cut({0: day})), REGISTRY, state):
            state[due.table] = day * DAY
            found[due.table].append(day)
    return found


def test_a_tier_of_one_day_is_refreshed_every_second_day_when_its_age_has_to_exceed_the_ttl() -> None:
    found = walk(Tiered("exceeds"), range(12))
    assert found["locations"] == [0, 2, 4, 6, 8, 10]
    assert found["stock"] == found["depots"] == [0, 4, 8]
    assert found["documents"] == [0, 6]


def test_a_tier_of_one_day_is_refreshed_every_day_when_its_age_has_to_reach_the_ttl() -> None:
    found = walk(Tiered("reaches"), range(12))
    assert found["locations"] == list(range(12))
    assert found["stock"] == [0, 3, 6, 9]
    assert found["documents"] == [0, 5, 10]


def test_off_stages_everything_once() -> None:
    assert walk(Off(), range(12)) == {name: [0] for name in REGISTRY.staged()}


def test_the_reason_says_age_and_ttl() -> None:
    state = dict.fromkeys(REGISTRY.staged(), 0)
    assert Tiered().due(Tick(1, 2 * DAY, Cut({0: 0})), REGISTRY, state) == [("locations", "age 2 d exceeds TTL 1 d")]
    assert Tiered().due(Tick(0, 0, Cut({0: 0})), REGISTRY, {})[0] == ("locations", "initial")


@given(st.lists(st.integers(1, 4), min_size=1, max_size=20), st.sampled_from(["exceeds", "reaches"]))
def test_no_tier_is_ever_older_than_its_ttl_after_a_tick(steps: list[int], rule: str) -> None:
    days = [sum(steps[:number]) for number in range(len(steps) + 1)]
    for table, refreshed in walk(Tiered(rule), days).items():
        for day in days:
            age = day - max(past for past in refreshed if past <= day)
            assert age <= TTL_DAYS[table] if rule == "exceeds" else age < TTL_DAYS[table]


def test_an_unknown_policy_or_rule_names_the_known_ones() -> None:
    assert find_policy("off").name == "off"
    with pytest.raises(NotFoundError, match="no refresh policy 'of'; known: off, tiered"):
        find_policy("of")
    for name in ("tiered", "off"):
        with pytest.raises(UsageError, match="no rule 'equals'; known: exceeds, reaches"):
            find_policy(name, "equals")
