"""The preset calibrated: contracts that run out, and use that leaves licences idle."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import pytest

from churnbench.events import Event
from churnbench_sam._calibrated import IDLE_BAND
from churnbench_sam._presets import PRESETS
from churnbench_sam._simulator import simulate
from tests.sam.laws import DAY_MS, Checker

CALIBRATED = PRESETS["calibrated"].parameters
START_MS = int(np.datetime64(CALIBRATED.start, "ms").astype(int))
MONTH_MS = 30 * DAY_MS


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return list(simulate(CALIBRATED, 42))


def test_the_stated_figures() -> None:
    assert (CALIBRATED.users, CALIBRATED.hires_per_day, CALIBRATED.offboards_per_day) == (400, 0.50, 0.47)
    assert CALIBRATED.mean_term_months == pytest.approx(16.2)
    assert CALIBRATED.expiries_per_contract_year == pytest.approx(0.75, abs=0.005)
    assert max(CALIBRATED.terms_shares) == CALIBRATED.terms_shares[CALIBRATED.terms_months.index(12)] > 0.5
    assert CALIBRATED.notice_days == (30, 60, 90)
    assert (CALIBRATED.renewal_price_share, CALIBRATED.renewal_price_mean) == (0.73, 0.12)
    shares = (CALIBRATED.reclaim_same_day_share, CALIBRATED.reclaim_week_share, CALIBRATED.reclaim_longer_share)
    assert shares == (0.42, 0.33, pytest.approx(0.25))
    assert "JOLTS" in PRESETS["calibrated"].sources["hires_per_day"]
    assert "JOLTS" in PRESETS["calibrated"].sources["offboards_per_day"]
    assert PRESETS["calibrated"].sources["licenses_per_hire"] == "assumed"


def test_contracts_in_force_at_the_start_come_first_in_the_order_of_their_signing(events: list[Event]) -> None:
    early = events[: CALIBRATED.contracts]
    assert {event.kind for event in early} == {"contract_signed"}
    assert [event.entity_id for event in early] == [f"ctr_{number:04d}" for number in range(CALIBRATED.contracts)]
    for event in early:
        assert event.at_ms < START_MS <= event.at_ms + event.payload.term_months * MONTH_MS
    assert all(event.at_ms >= START_MS for event in events[CALIBRATED.contracts :])


def test_terms_at_the_start_are_length_biased_and_their_elapsed_part_uniform() -> None:
    params = msgspec.structs.replace(CALIBRATED, contracts=4000, days=1, users=0, licenses=0)
    signed = [e for e in simulate(params, 5) if e.kind == "contract_signed" and e.at_ms < START_MS]
    count = Counter(event.payload.term_months for event in signed)
    for term, share in zip(params.terms_months, params.terms_shares, strict=True):
        p = share * term / params.mean_term_months
        assert abs(count[term] - 4000 * p) < 4 * (4000 * p * (1 - p)) ** 0.5
    elapsed = np.array([(START_MS - e.at_ms) / (e.payload.term_months * MONTH_MS) for e in signed])
    parts = np.histogram(elapsed, bins=10, range=(0, 1))[0]
    assert np.all(abs(parts - 400) < 4 * (400 * 0.9) ** 0.5)


def test_every_contract_is_renewed_at_its_expiry_or_followed_by_another_vendors() -> None:
    params = msgspec.structs.replace(CALIBRATED, contracts=40, days=1500, users=0, licenses=0, hires_per_day=0.0)
    fold, renewed, lapsed, followers = Checker(), 0, 0, Counter[int]()
    ends: dict[str, int] = {}
    for event in simulate(params, 3):
        if event.kind == "contract_renewed":
            assert event.at_ms == fold.expiry[event.entity_id]
            renewed += 1
        elif event.kind == "contract_signed" and event.at_ms >= START_MS:
            gone = [contract for contract, at_ms in fold.expiry.items() if at_ms == event.at_ms]
            assert gone and any(fold.vendor[contract] != event.payload.vendor for contract in gone)
            followers[event.at_ms] += 1
        fold.check([event])
        ends[event.entity_id] = event.at_ms
    last_ms = START_MS + params.days * DAY_MS
    lapsed = sum(at_ms < last_ms for at_ms in fold.expiry.values())
    assert lapsed == followers.total() > 10
    in_force = sum(at_ms >= last_ms for at_ms in fold.expiry.values())
    assert in_force == params.contracts
    total = renewed + lapsed
    assert abs(renewed - total * 0.85) < 3 * (total * 0.85 * 0.15) ** 0.5


def test_notice_is_one_of_the_stated_and_every_contract_has_a_vendor_and_a_value(events: list[Event]) -> None:
    signed = [event.payload for event in events if event.kind == "contract_signed"]
    assert {terms.notice_days for terms in signed} == {30, 60, 90}
    assert all(terms.vendor and 10_000 <= terms.annual_value_usd <= 500_000 for terms in signed)


def test_prices_change_with_renewals_by_as_much_as_the_value(events: list[Event]) -> None:
    fold, renewal = Checker(), None
    covered: Counter[str] = Counter()
    for event in events:
        if event.kind == "contract_renewed":
            value, before = event.payload.annual_value_usd, fold.value[event.entity_id]
            renewal = (event.entity_id, event.at_ms, None if value is None else value / before - 1)
        elif event.kind == "price_changed" and event.payload.reason == "renewal":
            assert renewal is not None
            assert (event.payload.contract_id, event.at_ms) == renewal[:2]
            assert event.payload.pct_change == pytest.approx(renewal[2], abs=2e-4)
            covered[event.payload.contract_id] += 1
        fold.check([event])
    changes = Counter(e.payload.reason for e in events if e.kind == "price_changed")
    assert changes["renewal"] > changes[None]


def test_licences_are_bought_under_the_contract_that_covers_the_product(events: list[Event]) -> None:
    fold = Checker()  # refuses contracts that have run out
    under: dict[str, set[str]] = {}
    for event in events:
        fold.check([event])
        if event.kind == "license_purchased":
            under.setdefault(event.payload.product_id, set()).add(event.payload.contract_id)
    assert None not in set().union(*under.values())


def test_people_use_what_they_hold(events: list[Event]) -> None:
    held: dict[str, tuple[str, str]] = {}
    pairs: Counter[tuple[str, str]] = Counter()
    product: dict[str, str] = {}
    for event in events[:12_000]:
        if event.kind == "license_purchased":
            product[event.entity_id] = event.payload.product_id
        elif event.kind.startswith("license_"):
            pairs.subtract([held.pop(event.entity_id)] if event.entity_id in held else [])
            to = getattr(event.payload, "to", None)
            if to is not None:
                held[event.entity_id] = (to, product[event.entity_id])
                pairs[held[event.entity_id]] += 1
        elif event.kind == "consumption_logged":
            assert pairs[event.entity_id, event.payload.product_id] > 0


@pytest.mark.parametrize("day", [30, 100, 200, 300, 365])
def test_the_idle_share_comes_out_in_its_band_at_any_time(events: list[Event], day: int) -> None:
    at_ms = START_MS + day * DAY_MS
    known = [event for event in events if event.at_ms <= at_ms]
    fold = Checker()
    fold.check(known)
    used = {
        (event.entity_id, event.payload.product_id)
        for event in known
        if event.kind == "consumption_logged" and event.at_ms >= at_ms - 30 * DAY_MS
    }
    held = [(holder, fold.product[number]) for number, holder in fold.holder.items() if holder is not None]
    assert IDLE_BAND[0] <= sum(pair not in used for pair in held) / len(held) <= IDLE_BAND[1]


def test_the_estate_neither_dies_nor_explodes(events: list[Event]) -> None:
    fold = Checker()
    fold.check(events)
    assert 300 < sum(fold.users.values()) < 500
    assert 1300 < sum(holder is not None for holder in fold.holder.values()) < 2000
