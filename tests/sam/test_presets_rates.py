"""What is measured in the events agrees with what the parameters state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import msgspec
import numpy as np
import pytest

from churnbench.events import Event
from churnbench_sam import _events as ev
from churnbench_sam._calibrated import IDLE_BAND
from churnbench_sam._params import Parameters
from churnbench_sam._presets import PRESETS
from churnbench_sam._rates import measured_rates
from churnbench_sam._simulator import simulate
from tests.sam.laws import DAY_MS

SEEDS = range(20)


def measured(params: Parameters, seeds: Sequence[int]) -> dict[str, tuple[float, list[float]]]:
    """Parameter -> stated value, and those measured in the worlds of the seeds."""
    out: dict[str, tuple[float, list[float]]] = {}
    for seed in seeds:
        for name, stated, value in measured_rates(simulate(params, seed), params):
            out.setdefault(name, (stated, []))[1].append(value)
    return out


def within(stated: float, values: Sequence[float], errors: float = 3) -> bool:
    """Whether the mean lies within so many of its standard errors; rounding counts as nothing."""
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return abs(float(np.mean(values)) - stated) <= errors * error + 1e-9


@pytest.fixture(scope="module")
def calibrated() -> dict[str, tuple[float, list[float]]]:
    return measured(PRESETS["calibrated"].parameters, SEEDS)


def test_calibrated_rates_lie_within_three_standard_errors_over_20_seeds(
    calibrated: dict[str, tuple[float, list[float]]],
) -> None:
    assert len(calibrated) == 17
    off = {name: (row[0], np.mean(row[1])) for name, row in calibrated.items() if not within(*row)}
    assert set(off) <= {"idle_share"}, off  # a band is stated of it, not a mean


def test_calibrated_idle_share_lies_in_its_band_for_every_seed(
    calibrated: dict[str, tuple[float, list[float]]],
) -> None:
    assert all(IDLE_BAND[0] <= share <= IDLE_BAND[1] for share in calibrated["idle_share"][1])


def test_calibrated_standard_errors_are_small_enough_to_tell(
    calibrated: dict[str, tuple[float, list[float]]],
) -> None:
    for name, (stated, values) in calibrated.items():
        if name != "price_changes_per_day":  # rare by design
            assert np.std(values, ddof=1) / math.sqrt(len(values)) <= 0.07 * stated, name


@pytest.mark.parametrize(("name", "days"), [("reference", 90), ("stress", 90), ("poisson", 40)])
def test_rates_of_the_other_presets_are_those_stated(name: str, days: int) -> None:
    fewer = {} if name == "poisson" else {"consumption_per_day": 50}
    params = msgspec.structs.replace(PRESETS[name].parameters, days=days, **fewer)
    rows = measured(params, SEEDS)
    off = {parameter: (row[0], np.mean(row[1])) for parameter, row in rows.items() if not within(*row, errors=4)}
    assert not off, off


@pytest.mark.parametrize("name", PRESETS)
def test_rows_are_named_by_what_the_parameters_hold_and_end_without_events(name: str) -> None:
    params = PRESETS[name].parameters
    rows = measured_rates([], params)
    assert [stated for _, stated, _ in rows] == [getattr(params, row) for row, _, _ in rows]
    assert len({row for row, _, _ in rows}) == len(rows)
    assert all(value == 0 or math.isnan(value) for _, _, value in rows)


def test_every_rate_a_day_of_a_preset_is_measured() -> None:
    for known in PRESETS.values():
        stated = {name for name in known.parameters.__struct_fields__ if name.endswith("_day")}
        assert stated <= {name for name, _, _ in measured_rates([], known.parameters)}


def test_events_are_read_once_as_they_come() -> None:
    params = msgspec.structs.replace(PRESETS["stress"].parameters, days=3)
    left = iter(simulate(params, 1))
    measured_rates(left, params)
    assert next(left, None) is None


def rows_of(events: list[tuple[float, str, str, str, ev.Payload]], preset: str) -> dict[str, float]:
    params = msgspec.structs.replace(
        PRESETS[preset].parameters, users=2, licenses=2, contracts=1, days=100, skew_min_items=2, skew_head=0.5
    )
    start_ms = int(np.datetime64(params.start, "ms").astype(int))
    made = [
        Event(seq, start_ms + round(day * DAY_MS), kind, entity_type, entity_id, payload)
        for seq, (day, kind, entity_type, entity_id, payload) in enumerate(events)
    ]
    return {name: value for name, _, value in measured_rates(made, params)}


FIRST_DAY: list[tuple[float, str, str, str, ev.Payload]] = [
    (-360, "contract_signed", "contract", "ctr_0000", ev.ContractSigned(1, 12, "Nexus Software", 1000.0, 30)),
    (0, "price_changed", "product", "prd_0000", ev.PriceChanged(10.0, reason="initial")),
    (0, "user_hired", "user", "usr_000000", ev.UserHired("cc_000")),
    (0, "user_hired", "user", "usr_000001", ev.UserHired("cc_000")),
    (0, "license_purchased", "license", "lic_000000", ev.LicensePurchased("prd_0000", 1, 10.0)),
    (0, "license_assigned", "license", "lic_000000", ev.LicenseAssigned("usr_000000", "prd_0000")),
    (0, "license_purchased", "license", "lic_000001", ev.LicensePurchased("prd_0000", 1, 10.0)),
    (0, "license_assigned", "license", "lic_000001", ev.LicenseAssigned("usr_000001", "prd_0000")),
]


def test_the_first_day_is_not_counted() -> None:
    rows = rows_of(FIRST_DAY, "calibrated")
    assert rows["hires_per_day"] == rows["price_changes_per_day"] == 0
    assert math.isnan(rows["licenses_per_hire"])


def test_lags_are_told_apart_by_day_and_week_and_the_last_week_is_left_out() -> None:
    def leaves(day: float, lag: float, number: int) -> list[tuple[float, str, str, str, ev.Payload]]:
        user, held = f"usr_00000{number}", f"lic_00000{number}"
        return [
            (day, "user_offboarded", "user", user, ev.UserOffboarded()),
            (day + lag, "license_unassigned", "license", held, ev.LicenseUnassigned(user, "offboard")),
        ]

    def shares(*events: list[tuple[float, str, str, str, ev.Payload]]) -> list[float]:
        rows = rows_of(FIRST_DAY + sorted(chain(*events), key=lambda event: event[0]), "calibrated")
        return [rows[f"reclaim_{lag}_share"] for lag in ("same_day", "week", "longer")]

    assert shares(leaves(3.5, 0.4, 0)) == [1, 0, 0]
    assert shares(leaves(3.5, 0.6, 0), leaves(4.5, 7, 1)) == [0, 1, 0]
    assert shares(leaves(3.5, 7.1, 0), leaves(60, 0.1, 1)) == [0.5, 0, 0.5]
    assert shares(leaves(3.5, 0.1, 0), leaves(94, 0.1, 1)) == [1, 0, 0]


def test_an_expiry_is_a_renewal_or_a_lapse() -> None:
    renewed = (0.0, "contract_renewed", "contract", "ctr_0000", ev.ContractRenewed(1, annual_value_usd=1120.0))
    rows = rows_of([*FIRST_DAY[:1], renewed, *FIRST_DAY[1:]], "calibrated")
    assert rows["renewal_share"] == 0.5  # the new term of 30 days lapses
    assert rows["renewal_price_mean"] == pytest.approx(0.12)
    assert rows["mean_term_months"] == 1
    assert rows["expiries_per_contract_year"] == pytest.approx(2 / 30 * 365)


def test_idle_licences_are_those_whose_holder_did_not_use_the_product_in_the_span() -> None:
    used = ("consumption_logged", "user", "usr_000000", ev.ConsumptionLogged("prd_0000", 5, 1))
    rows = rows_of([*FIRST_DAY, (29.5, *used), (31.0, *used)], "calibrated")
    assert rows["idle_share"] == 0.5
    rows = rows_of([*FIRST_DAY, (29.5, *used), (95.0, *used)], "calibrated")
    assert rows["idle_share"] == pytest.approx((0.5 + 1 + 1) / 3)


def test_skew_is_the_surplus_of_the_head() -> None:
    def used(number: int) -> tuple[float, str, str, str, ev.Payload]:
        return (1, "consumption_logged", "user", f"usr_00000{number}", ev.ConsumptionLogged("prd_0000", 5, 1))

    assert rows_of([*FIRST_DAY, *[used(0)] * 4], "calibrated")["skew_share"] == 1
    assert rows_of([*FIRST_DAY, *[used(0)] * 3, used(1)], "calibrated")["skew_share"] == 0.5
    assert rows_of([*FIRST_DAY, used(0), used(1)], "calibrated")["skew_share"] == 0
