"""The presets: named parameters, as data, with the source of each figure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import msgspec

from churnbench.errors import NotFoundError
from churnbench_sam._params import Parameters

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

_REFERENCE = Parameters(
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

PRESETS: dict[str, Preset] = {
    "reference": Preset(
        name="reference",
        description="the published world: one estate, 180 days, events at midnight",
        parameters=_REFERENCE,
        sources=dict.fromkeys(Parameters.__struct_fields__, _PUBLISHED),
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
