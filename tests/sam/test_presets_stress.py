"""The preset stress: published rates, drifting vendors and values, an estate that stays alive."""

from __future__ import annotations

import msgspec
import pytest

from churnbench.events import Event
from churnbench_sam import _names as names
from churnbench_sam._presets import PRESETS
from churnbench_sam._simulator import simulate
from tests.sam.laws import DAY_MS, Checker

STRESS = PRESETS["stress"].parameters


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return list(simulate(STRESS, 42))


def of(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event.kind == kind]


def test_rates_and_counts_are_the_published_ones() -> None:
    published = msgspec.structs.asdict(PRESETS["reference"].parameters)
    assert {name: value for name, value in msgspec.structs.asdict(STRESS).items() if name in published} == published


def test_vendors_and_values_are_carried_and_drift(events: list[Event]) -> None:
    first = {event.entity_id: event.payload for event in of(events, "contract_signed")}
    assert all(terms.vendor == names.vendor_name(terms.vendor_idx) for terms in first.values())
    assert len({terms.annual_value_usd for terms in first.values()}) == len(first) == 25
    fold = Checker()
    fold.check(events)
    renewed = {event.entity_id for event in of(events, "contract_renewed")}
    assert all(
        (fold.value[contract] != first[contract].annual_value_usd) == (contract in renewed) for contract in first
    )
    moved = {contract for contract in first if fold.vendor[contract] != first[contract].vendor}
    assert moved and moved < renewed


def test_new_hires_get_licences_free_ones_of_the_product_first(events: list[Event]) -> None:
    free: dict[str, set[str]] = {}
    product_of: dict[str, str] = {}
    seen = set()
    for event in events:
        if event.kind == "license_purchased":
            assert not free.get(event.payload.product_id)
            product_of[event.entity_id] = event.payload.product_id
        elif event.kind == "license_assigned":
            if event.entity_id in free.get(event.payload.product_id, ()):
                assert event.entity_id == min(free[event.payload.product_id])
                free[event.payload.product_id].remove(event.entity_id)
                seen.add("used again")
        elif event.kind == "license_unassigned":
            free.setdefault(product_of[event.entity_id], set()).add(event.entity_id)
    assert seen == {"used again"}
    # The published estate loses licences for good: alive means that as many are held at the end as at first.
    fold = Checker()
    fold.check(events)
    assert sum(holder is not None for holder in fold.holder.values()) >= STRESS.licenses


def test_a_leaver_keeps_licences_untouched_until_all_are_taken_back_at_once(events: list[Event]) -> None:
    fold, waiting, lags = Checker(), {}, []
    for event in events:
        if event.kind == "license_unassigned":
            left_ms, numbers = waiting[event.payload.prev_holder]
            numbers.discard(event.entity_id)
            lags.append(event.at_ms - left_ms)
            waiting[event.payload.prev_holder] = (left_ms, numbers)
        elif event.kind == "license_reassigned":
            assert event.payload.from_ not in waiting
        fold.check([event])
        if event.kind == "user_offboarded":
            waiting[event.entity_id] = (event.at_ms, fold.holdings(event.entity_id))
    assert max(lags) <= STRESS.reclaim_longest_days * DAY_MS
    assert min(lags) > 0
    overdue = events[-1].at_ms - STRESS.reclaim_longest_days * DAY_MS
    assert all(not numbers for left_ms, numbers in waiting.values() if left_ms < overdue)


def test_leavers_with_and_without_licences_exist(events: list[Event]) -> None:
    fold, counts = Checker(), []
    for event in events:
        if event.kind == "user_offboarded":
            counts.append(len(fold.holdings(event.entity_id)))
        fold.check([event])
    assert min(counts) == 0 < max(counts)
