"""The listings of the SaaS: who, what is held, tickets of leavers, and the use of the last 30 days."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from churnbench.events import Event
from churnbench.tables import Fold
from churnbench_sam import DOMAIN
from churnbench_sam import _events as ev
from tests.sam.estates import DAY_MS, ESTATES, START


def listing(events: list[Event], name: str, at_ms: int, **filters: str) -> list[dict[str, Any]]:
    fold = Fold(DOMAIN.saas.tables)
    fold.apply(events)
    resource = next(resource for resource in DOMAIN.saas.resources if resource.name == name)
    assert set(filters) <= set(resource.filters)
    return resource.items({table: fold.rows(table) for table in resource.inputs}, at_ms, filters)


def story(*entries: tuple[str, str, str, ev.Payload]) -> list[Event]:
    return [Event(seq, START + seq * DAY_MS, *entry) for seq, entry in enumerate(entries)]


LEAVING = story(
    ("user_hired", "user", "usr_0", ev.UserHired("cc_0")),
    ("license_purchased", "license", "lic_0", ev.LicensePurchased("prd_0", 1, 5.0)),
    ("license_purchased", "license", "lic_1", ev.LicensePurchased("prd_1", 2, 5.0)),
    ("license_assigned", "license", "lic_0", ev.LicenseAssigned("usr_0", "prd_0")),
    ("license_assigned", "license", "lic_1", ev.LicenseAssigned("usr_0", "prd_1")),
    ("user_offboarded", "user", "usr_0", ev.UserOffboarded()),
    ("license_unassigned", "license", "lic_1", ev.LicenseUnassigned("usr_0", "desk")),
    ("license_unassigned", "license", "lic_0", ev.LicenseUnassigned("usr_0", "desk")),
)


def test_a_ticket_opens_with_an_offboarding_and_closes_with_the_last_licence_taken_back() -> None:
    assert listing(LEAVING[:5], "tickets", START) == []
    opened = {
        "id": "ticket_usr_0_5",
        "user_id": "usr_0",
        "cost_center": "cc_0",
        "status": "open",
        "opened_at": "2024-01-06",
        "closed_at": None,
        "licenses": ["lic_0", "lic_1"],
    }
    assert listing(LEAVING[:6], "tickets", START) == [opened]
    assert listing(LEAVING[:7], "tickets", START) == [opened]
    assert listing(LEAVING, "tickets", START) == [{**opened, "status": "closed", "closed_at": "2024-01-08"}]
    assert listing(LEAVING[:7], "tickets", START, status="closed") == []


def test_a_leaver_without_licences_opens_no_ticket() -> None:
    events = [*LEAVING[:5], *LEAVING[6:], Event(9, START + 9 * DAY_MS, *_fields(LEAVING[5]))]
    assert listing(events, "tickets", START) == []


def _fields(event: Event) -> tuple[str, str, str, Any]:
    return event.kind, event.entity_type, event.entity_id, event.payload


def test_a_licence_passed_on_after_the_leaving_closes_the_ticket_too() -> None:
    passed = Event(
        6, START + 6 * DAY_MS, "license_reassigned", "license", "lic_0", ev.LicenseReassigned("usr_0", "usr_1")
    )
    taken = Event(
        7, START + 7 * DAY_MS, "license_unassigned", "license", "lic_1", ev.LicenseUnassigned("usr_0", "desk")
    )
    (ticket,) = listing([*LEAVING[:6], passed, taken], "tickets", START)
    assert (ticket["status"], ticket["closed_at"]) == ("closed", "2024-01-08")


def test_a_return_closes_the_ticket_and_a_second_leaving_opens_another() -> None:
    back = Event(6, START + 6 * DAY_MS, "user_hired", "user", "usr_0", ev.UserHired("cc_1"))
    again = Event(7, START + 7 * DAY_MS, "user_offboarded", "user", "usr_0", ev.UserOffboarded())
    (ticket,) = listing([*LEAVING[:6], back], "tickets", START)
    assert (ticket["status"], ticket["closed_at"], ticket["cost_center"]) == ("closed", "2024-01-07", "cc_1")
    first, second = listing([*LEAVING[:6], back, again], "tickets", START)
    assert first == ticket
    assert (second["id"], second["status"], second["opened_at"]) == ("ticket_usr_0_7", "open", "2024-01-08")


def test_utilization_is_that_of_the_last_30_days_both_ends_included() -> None:
    at = START + 40 * DAY_MS
    events = [
        Event(seq, when, "consumption_logged", "user", "usr_0", ev.ConsumptionLogged("prd_0", 10, seq))
        for seq, when in enumerate((at - 30 * DAY_MS - 1, at - 30 * DAY_MS, at, at + 1))
    ]
    assert listing(events, "utilization", at, product_id="prd_0") == [
        {"id": "prd_0:usr_0", "product_id": "prd_0", "user_id": "usr_0", "session_minutes": 20, "api_calls": 3}
    ]
    assert listing(events, "utilization", at, product_id="prd_1") == []


def test_entitlements_are_the_licences_held() -> None:
    assert [item["id"] for item in listing(LEAVING[:7], "entitlements", START)] == ["lic_0"]
    assert listing(LEAVING[:6], "entitlements", START, product_id="prd_1") == [
        {"id": "lic_1", "product_id": "prd_1", "seats": 2, "user_id": "usr_0"}
    ]


def test_users_can_be_listed_by_activity() -> None:
    assert [item["id"] for item in listing(LEAVING[:5], "users", START, active="true")] == ["usr_0"]
    assert listing(LEAVING, "users", START, active="true") == []


@settings(max_examples=40, deadline=None)
@given(ESTATES)
def test_items_are_ordered_by_an_id_that_is_theirs_alone_and_open_tickets_are_leavers_with_licences(
    events: list[Event],
) -> None:
    for resource in DOMAIN.saas.resources:
        ids = [item["id"] for item in listing(events, resource.name, START + 60 * DAY_MS)]
        assert ids == sorted(set(ids))
    left = {item["id"] for item in listing(events, "users", START, active="false")}
    holders = {item["user_id"] for item in listing(events, "entitlements", START)}
    open_tickets = {item["user_id"] for item in listing(events, "tickets", START, status="open")}
    assert open_tickets <= left & holders
