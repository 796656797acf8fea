"""The presets: named parameters, as data, with the source of each figure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import msgspec

from churnbench.errors import NotFoundError
from churnbench_sam._calibrated import CalibratedParameters
from churnbench_sam._params import Parameters, ReferenceParameters
from churnbench_sam._poisson import PoissonParameters
from churnbench_sam._stress import StressParameters

__all__ = ["PRESETS", "Preset", "preset"]


class Preset(msgspec.Struct, frozen=True):
    """A kind of world.

    Attributes:
        name: what `--preset` takes.
        description: one line for people.
        parameters: every count and rate; their type decides which process simulates them.
        sources: parameter -> where its figure comes from, or `assumed`; one entry for each parameter.
    """

    name: str
    description: str
    parameters: Parameters
    sources: Mapping[str, str]


_PUBLISHED = "ChurnBench paper (Singh & Priyam) and the data released with it"

_REFERENCE = ReferenceParameters(
    start=date(2024, 1, 1),
    days=180,
    vendors=12,
    products=40,
    cost_centers=18,
    users=400,
    contracts=25,
    licenses=200,
    seats_per_license=1,
    hires_per_day=1.8,
    offboards_per_day=1.2,
    reassignments_per_day=3.5,
    price_changes_per_day=0.15,
    renewals_per_day=0.20,
    cost_center_moves_per_day=0.6,
    consumption_per_day=300,
    skew_share=0.60,
    skew_head=0.10,
    skew_min_items=10,
    price_low_usd=20.0,
    price_high_usd=500.0,
    price_change_sd=0.15,
    price_floor_usd=1.0,
    terms_months=(12, 24, 36),
    session_minutes_low=5,
    session_minutes_high=180,
    api_calls_low=0,
    api_calls_high=500,
)

_ASSUMED = "assumed"
_HIRES = "US JOLTS: hires of 3.4 to 4.2 % of the staff a month; 3.8 % of 400"
_SEPARATIONS = "US JOLTS: separations of 3.3 to 3.8 % of the staff a month; 3.6 % of 400"

_STRESS = StressParameters(
    **msgspec.structs.asdict(_REFERENCE),
    licenses_per_hire=0.5,
    reclaim_same_day_share=0.42,
    reclaim_week_share=0.33,
    reclaim_longest_days=30,
    value_low_usd=10_000.0,
    value_high_usd=500_000.0,
    vendor_change_share=0.25,
    value_change_sd=0.15,
    value_floor_usd=1.0,
)

_CALIBRATED = CalibratedParameters(
    start=date(2024, 1, 1),
    days=365,
    vendors=12,
    products=40,
    cost_centers=18,
    users=400,
    contracts=25,
    licenses=1600,
    seats_per_license=1,
    hires_per_day=0.50,
    offboards_per_day=0.47,
    reassignments_per_day=1.0,
    price_changes_per_day=0.01,
    cost_center_moves_per_day=0.15,
    consumption_per_day=95,
    skew_share=0.60,
    skew_head=0.10,
    skew_min_items=10,
    price_low_usd=20.0,
    price_high_usd=500.0,
    price_change_sd=0.15,
    price_floor_usd=1.0,
    licenses_per_hire=4.0,
    reclaim_same_day_share=0.42,
    reclaim_week_share=0.33,
    reclaim_longest_days=30,
    terms_months=(12, 24, 36),
    terms_shares=(0.70, 0.25, 0.05),
    notice_days=(30, 60, 90),
    renewal_share=0.85,
    renewal_price_share=0.73,
    renewal_price_mean=0.12,
    renewal_price_sd=0.06,
    value_low_usd=10_000.0,
    value_high_usd=500_000.0,
    session_minutes_low=5,
    session_minutes_high=180,
    api_calls_low=0,
    api_calls_high=500,
)

_POISSON = PoissonParameters(
    start=date(2024, 1, 1),
    days=180,
    vendors=12,
    products=40,
    cost_centers=18,
    users=400,
    contracts=25,
    licenses=200,
    seats_per_license=1,
    price_low_usd=20.0,
    price_high_usd=500.0,
    terms_months=(12, 24, 36),
    session_minutes_low=5,
    session_minutes_high=180,
    api_calls_low=0,
    api_calls_high=500,
    status_flips_per_user_day=0.005,
    cost_center_moves_per_user_day=0.005,
    holder_changes_per_license_day=0.02,
    free_share=0.2,
    price_changes_per_product_day=0.02,
    renewals_per_contract_day=0.01,
    vendor_change_share=0.25,
    rise_low=0.03,
    rise_high=0.10,
    value_low_usd=10_000.0,
    value_high_usd=500_000.0,
    sessions_per_user_day=0.75,
)


def _sources(params: Parameters) -> dict[str, str]:
    """Figures that the published world has too are taken from it; nothing is known of the others."""
    published = msgspec.structs.asdict(_REFERENCE)
    return {
        name: _PUBLISHED if name in published and published[name] == value else _ASSUMED
        for name, value in msgspec.structs.asdict(params).items()
    }


PRESETS: dict[str, Preset] = {
    "reference": Preset(
        name="reference",
        description="the published world: one estate, 180 days, events at midnight",
        parameters=_REFERENCE,
        sources=_sources(_REFERENCE),
    ),
    "stress": Preset(
        name="stress",
        description="the published rates at any hour, with drifting vendors and values and licences for new users",
        parameters=_STRESS,
        sources=_sources(_STRESS),
    ),
    "calibrated": Preset(
        name="calibrated",
        description="400 staff whose coming and going, contracts and use have the rates of real estates",
        parameters=_CALIBRATED,
        sources=_sources(_CALIBRATED) | {"hires_per_day": _HIRES, "offboards_per_day": _SEPARATIONS},
    ),
    "poisson": Preset(
        name="poisson",
        description="every entity changes by itself at a constant rate: for checking theory",
        parameters=_POISSON,
        sources=_sources(_POISSON),
    ),
}
"""Every preset by its name."""


def preset(name: str) -> Preset:
    """The preset called `name`.

    Raises:
        NotFoundError: there is none.
    """
    if name not in PRESETS:
        raise NotFoundError(f"unknown preset {name!r}; valid ones: {', '.join(PRESETS)}")
    return PRESETS[name]
