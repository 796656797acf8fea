"""What events assert: the classes, their attributes, and the history that is kept as rows."""

from __future__ import annotations

from hypothesis import given, settings

from churnbench.events import Event
from churnbench_sam import DOMAIN
from churnbench_sam import _events as ev
from tests.sam.estates import ESTATES, START


def said(kind: str, entity_type: str, entity: str, payload: ev.Payload) -> dict[tuple[str, str], object]:
    event = Event(3, START, kind, entity_type, entity, payload)
    return {(cls, attribute): value for cls, _, attribute, value in DOMAIN.assertions(event)}


@settings(max_examples=40, deadline=None)
@given(ESTATES)
def test_assertions_are_of_declared_classes_and_about_the_events_entity(events: list[Event]) -> None:
    classes = {cls.name: cls for cls in DOMAIN.classes}
    for event in events:
        assertions = list(DOMAIN.assertions(event))
        assert assertions
        for cls, entity, attribute, value in assertions:
            assert entity == event.entity_id
            if attribute:
                assert attribute in classes[cls].attributes
            else:
                assert len(value) == len(classes[cls].columns)


def test_every_kind_of_event_says_something() -> None:
    from churnbench_sam._classes import _BY_KIND

    assert set(_BY_KIND) == set(DOMAIN.codec.kinds)


def test_a_licence_taken_back_has_no_holder_and_leaves_a_row_of_history() -> None:
    facts = said("license_unassigned", "license", "lic_0", ev.LicenseUnassigned("usr_0", "desk"))
    assert facts["assignments", "holder"] is None
    assert facts["tickets", "holder"] is None
    assert facts["assignment_history", ""] == ("unassigned", "usr_0", None)


def test_an_offboarding_is_a_status_a_ticket_and_history() -> None:
    facts = said("user_offboarded", "user", "usr_0", ev.UserOffboarded())
    assert facts["user_status", "active"] is False
    assert facts["tickets", "left_seq"] == 3
    assert facts["user_history", ""] == ("offboarded", None)


def test_a_renewal_asserts_only_what_it_says() -> None:
    facts = said("contract_renewed", "contract", "ctr_0", ev.ContractRenewed(24))
    assert facts == {("contract_terms", "term_start"): START, ("contract_terms", "term_months"): 24}


def test_the_value_of_a_contract_that_states_none_follows_from_its_id() -> None:
    from churnbench_sam._names import estimated_annual_value

    facts = said("contract_signed", "contract", "ctr_0005", ev.ContractSigned(2, 12))
    assert facts["contract_terms", "annual_value"] == estimated_annual_value("ctr_0005")
    assert facts["contract_terms", "vendor"] == facts["vendor_dims", "vendor"] == "Orbit Systems"
