"""The domain as everything outside it sees it."""

from __future__ import annotations

import json

import pytest

from churnbench.domain import Domain
from churnbench.errors import NotFoundError, UsageError
from churnbench.events import Event
from churnbench_sam import DOMAIN
from tests.sam.brute import day


def test_parameters_are_plain_values_and_simulate_the_same_world(reference_events: list[Event]) -> None:
    domain: Domain = DOMAIN
    parameters = domain.parameters("reference", {})
    assert parameters["start"] == "2024-01-01"
    assert list(domain.simulate(parameters, 42)) == reference_events
    assert domain.span(parameters) == (day("2024-01-01"), day("2024-06-29"))


def test_overrides_are_texts() -> None:
    parameters = DOMAIN.parameters("reference", {"days": "3", "hires_per_day": "0"})
    assert (parameters["days"], parameters["hires_per_day"]) == (3, 0.0)
    hired = sum(event.kind == "user_hired" for event in DOMAIN.simulate(parameters, 1))
    assert hired == parameters["users"]


def simulate_small() -> list[Event]:
    return list(DOMAIN.simulate(DOMAIN.parameters("reference", {"days": "2"}), 1))


def test_an_unknown_preset_rate_or_parameter_set_is_refused() -> None:
    with pytest.raises(NotFoundError, match=r"unknown preset 'referense'; valid ones: .*reference"):
        DOMAIN.parameters("referense", {})
    with pytest.raises(UsageError, match="unknown parameter 'hires'; valid ones: "):
        DOMAIN.parameters("reference", {"hires": "1"})
    with pytest.raises(UsageError, match="no process takes the parameters days"):
        DOMAIN.simulate({"days": 1}, 1)
    with pytest.raises(UsageError, match="do not fit"):
        DOMAIN.simulate({**DOMAIN.parameters("reference", {}), "days": "many"}, 1)


def test_describe_sets_measured_beside_stated(reference_events: list[Event]) -> None:
    described = DOMAIN.describe(reference_events, DOMAIN.parameters("reference", {}))
    rows = {name: (stated, measured) for name, stated, measured in described}
    assert rows["consumption_per_day"] == (300.0, 300.0)
    assert rows["hires_per_day"] == (1.8, pytest.approx(317 / 180))
    assert rows["price_changes_per_day"] == (0.15, pytest.approx(37 / 180))


@pytest.mark.parametrize("preset", sorted(DOMAIN.presets))
def test_every_preset_is_simulated_and_described_from_plain_values(preset: str) -> None:
    parameters = json.loads(json.dumps(DOMAIN.parameters(preset, {"days": "5"})))
    events = list(DOMAIN.simulate(parameters, 3))
    start, end = DOMAIN.span(parameters)
    assert end - start == 5 * 86_400_000
    assert [event.seq for event in events] == list(range(len(events)))
    assert all(event.at_ms < end for event in events)
    # Contracts alone may be older than the world.
    assert {event.kind for event in events if event.at_ms < start} <= {"contract_signed"}
    assert DOMAIN.describe(events, parameters)


def test_presets_say_where_every_figure_comes_from() -> None:
    for name, preset in DOMAIN.presets.items():
        assert preset.name == name
        assert set(preset.sources) == set(preset.parameters)


def test_events_survive_the_wire() -> None:
    for event in simulate_small():
        assert DOMAIN.codec.decode(DOMAIN.codec.encode(event)) == event
