"""The classes of data and what each event asserts about them.

Attributes hold the present; what happened (who was offboarded, which licence was taken back) is kept as rows of
`user_history` and `assignment_history`, which no source holds. `tickets` has attributes of its own although they
repeat others, because the ticket desk's data is as old as the desk, not as the assignments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from churnbench.domain import Assertion, EntityClass
from churnbench.events import Event
from churnbench.tables import Column
from churnbench_sam import _names as names

__all__ = ["CLASSES", "assertions"]

CLASSES = (
    EntityClass("user_status", ("active",)),
    EntityClass("cost_center_membership", ("cost_center",)),
    EntityClass("assignments", ("holder",)),
    EntityClass("prices", ("product", "seats", "purchase_price", "listed", "price")),
    EntityClass("contract_terms", ("term_start", "term_months", "vendor", "annual_value", "notice_days")),
    EntityClass("vendor_dims", ("vendor_idx", "vendor")),
    EntityClass("tickets", ("left_seq", "holder", "since_seq")),
    EntityClass(
        "consumption_facts",
        columns=(Column("product_id", "text"), Column("session_minutes", "int"), Column("api_calls", "int")),
    ),
    EntityClass("utilization_current", rows_of="consumption_facts"),
    EntityClass("user_history", columns=(Column("change", "text"), Column("cost_center", "text"))),
    EntityClass(
        "assignment_history",
        columns=(Column("change", "text"), Column("from_user", "text"), Column("to_user", "text")),
    ),
)
"""Attributes of users: `active`, `cost_center`, `left_seq` (seq of the last offboarding, -1 while they are here). Of
licences: `holder` (none while free), `since_seq` (seq of the last change of holder), `product`, `seats`,
`purchase_price`. Of products: `listed` (true from the first price on), `price`. Of contracts: `term_start`
(milliseconds), `term_months`, `vendor`, `vendor_idx`, `annual_value`, `notice_days`."""


def _hired(event: Event) -> Iterable[Assertion]:
    user, cost_center = event.entity_id, event.payload.cost_center_id
    return (
        Assertion("user_status", user, "active", True),
        Assertion("cost_center_membership", user, "cost_center", cost_center),
        Assertion("tickets", user, "left_seq", -1),
        Assertion("user_history", user, "", ("hired", cost_center)),
    )


def _moved(event: Event) -> Iterable[Assertion]:
    user, cost_center = event.entity_id, event.payload.cost_center_id
    return (
        Assertion("cost_center_membership", user, "cost_center", cost_center),
        Assertion("user_history", user, "", ("moved", cost_center)),
    )


def _offboarded(event: Event) -> Iterable[Assertion]:
    user = event.entity_id
    return (
        Assertion("user_status", user, "active", False),
        Assertion("tickets", user, "left_seq", event.seq),
        Assertion("user_history", user, "", ("offboarded", None)),
    )


def _purchased(event: Event) -> Iterable[Assertion]:
    bought = event.payload
    return (
        Assertion("prices", event.entity_id, "product", bought.product_id),
        Assertion("prices", event.entity_id, "seats", bought.seats),
        Assertion("prices", event.entity_id, "purchase_price", bought.unit_price_usd),
    )


def _held(event: Event, change: str, before: str | None, after: str | None) -> Iterable[Assertion]:
    return (
        Assertion("assignments", event.entity_id, "holder", after),
        Assertion("tickets", event.entity_id, "holder", after),
        Assertion("tickets", event.entity_id, "since_seq", event.seq),
        Assertion("assignment_history", event.entity_id, "", (change, before, after)),
    )


def _priced(event: Event) -> Iterable[Assertion]:
    return (
        Assertion("prices", event.entity_id, "listed", True),
        Assertion("prices", event.entity_id, "price", event.payload.unit_price_usd),
    )


def _terms(event: Event) -> Iterable[Assertion]:
    contract, terms = event.entity_id, event.payload
    yield Assertion("contract_terms", contract, "term_start", event.at_ms)
    yield Assertion("contract_terms", contract, "term_months", terms.term_months)
    name = terms.vendor
    if terms.vendor_idx is not None:
        name = name or names.vendor_name(terms.vendor_idx)
        yield Assertion("vendor_dims", contract, "vendor_idx", terms.vendor_idx)
    if name is not None:
        yield Assertion("vendor_dims", contract, "vendor", name)
        yield Assertion("contract_terms", contract, "vendor", name)
    if terms.notice_days is not None:
        yield Assertion("contract_terms", contract, "notice_days", terms.notice_days)
    value = terms.annual_value_usd
    if value is None and event.kind == "contract_signed":
        value = names.estimated_annual_value(contract)
    if value is not None:
        yield Assertion("contract_terms", contract, "annual_value", value)


def _consumed(event: Event) -> Iterable[Assertion]:
    used = event.payload
    row = (used.product_id, used.session_minutes, used.api_calls)
    return (Assertion("consumption_facts", event.entity_id, "", row),)


_BY_KIND: dict[str, Callable[[Any], Iterable[Assertion]]] = {
    "user_hired": _hired,
    "user_moved_cost_center": _moved,
    "user_offboarded": _offboarded,
    "license_purchased": _purchased,
    "license_assigned": lambda e: _held(e, "assigned", None, e.payload.to),
    "license_reassigned": lambda e: _held(e, "reassigned", e.payload.from_, e.payload.to),
    "license_unassigned": lambda e: _held(e, "unassigned", e.payload.prev_holder, None),
    "price_changed": _priced,
    "contract_signed": _terms,
    "contract_renewed": _terms,
    "consumption_logged": _consumed,
}


def assertions(event: Event) -> Iterable[Assertion]:
    """What an event says, class by class."""
    return _BY_KIND[event.kind](event)
