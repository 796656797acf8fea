"""Facts that follow from ids and numbers."""

from __future__ import annotations

import pytest

from churnbench.events import Event
from churnbench_sam import _names as names


def test_vendors_of_the_reference_world_in_the_order_of_their_first_signing(reference_events: list[Event]) -> None:
    signed = [event.payload.vendor_idx for event in reference_events if event.kind == "contract_signed"]
    order = names.signing_order(signed)
    assert order == (11, 1, 7, 9, 5, 10, 2, 3, 6, 0)
    assert names.product_vendor("prd_0000", order) == 11
    assert names.product_vendor("prd_0013", order) == 9
    assert names.product_vendor("prd_0000", ()) is None


def test_names_go_round_and_stay_distinct() -> None:
    assert names.vendor_name(0) == "Acme Corp"
    assert names.vendor_name(12) == "Acme Corp 2"
    assert len({names.vendor_name(number) for number in range(1200)}) == 1200
    assert [names.vendor_tier(number) for number in range(4)] == ["strategic", "preferred", "tail", "strategic"]


def test_models_and_units_go_by_number() -> None:
    assert names.license_model("prd_0007") == "consumption"
    assert names.business_unit("cc_007") == "Sales"


def test_ids_read_back() -> None:
    for make in (names.cost_center_id, names.product_id, names.user_id, names.license_id, names.contract_id):
        assert [names.number_of(make(number)) for number in (0, 7, 12_345_678)] == [0, 7, 12_345_678]
    with pytest.raises(ValueError, match="invalid literal"):
        names.number_of("nobody")


def test_a_contracts_value_lies_in_its_range_and_is_stable() -> None:
    values = [names.estimated_annual_value(names.contract_id(number)) for number in range(500)]
    assert all(10_000 <= value < 500_001 for value in values)
    assert names.estimated_annual_value("ctr_0003") == names.estimated_annual_value("ctr_0003")
