"""The operational store: what the desk works on, with nothing of the past.

A licence's seats and product stand with the licence; an assignment's row goes when the licence is taken back.
"""

from __future__ import annotations

from collections.abc import Iterable

from churnbench.domain import Store
from churnbench.events import Event
from churnbench.tables import Column, EntityTable, Relations, Row, View
from churnbench_sam import _events as ev
from churnbench_sam._folds import HOLDER_KINDS, LICENSE_KINDS, USER_KINDS, new_holder, user_step

__all__ = ["OPERATIONS"]


def _user_step(row: Row | None, event: Event) -> Row | None:
    known = None if row is None else (row[0], row[2], row[1], None, None)
    stepped = user_step(known, event)
    return None if stepped is None else (stepped[0], stepped[2], stepped[1])


def _license_step(row: Row | None, event: Event) -> Row | None:
    bought = event.payload
    return (event.entity_id, bought.product_id, bought.seats, event.at)


def _assignment_step(row: Row | None, event: Event) -> Row | None:
    holder = new_holder(event)
    return None if holder is None else (event.entity_id, holder, event.at)


def _entitlement_step(row: Row | None, event: Event) -> Row | None:
    payload = event.payload
    if isinstance(payload, ev.LicensePurchased):
        return (event.entity_id, payload.product_id, payload.seats, "available", event.at)
    if row is None:
        return None
    return (*row[:3], "available" if new_holder(event) is None else "granted", event.at)


USERS = EntityTable(
    "users",
    (Column("user_id", "text"), Column("active", "bool"), Column("cost_center", "text")),
    USER_KINDS,
    _user_step,
    indexes=("cost_center",),
)
LICENSES = EntityTable(
    "licenses",
    (
        Column("license_id", "text"),
        Column("product_id", "text"),
        Column("seats", "int"),
        Column("purchased_at", "time"),
    ),
    frozenset({"license_purchased"}),
    _license_step,
    indexes=("product_id",),
)
ASSIGNMENTS = EntityTable(
    "assignments",
    (Column("license_id", "text"), Column("holder", "text"), Column("since", "time")),
    HOLDER_KINDS,
    _assignment_step,
    indexes=("holder",),
)
ENTITLEMENTS = EntityTable(
    "entitlements",
    (
        Column("license_id", "text"),
        Column("product_id", "text"),
        Column("seats", "int"),
        Column("state", "text"),
        Column("changed_at", "time"),
    ),
    LICENSE_KINDS,
    _entitlement_step,
    indexes=("product_id",),
)


def _held(relations: Relations) -> Iterable[Row]:
    licenses = {row[0]: row for row in relations["licenses"]}
    for license_id, holder, _ in relations["assignments"]:
        if license_id in licenses:
            _, product, seats, _ = licenses[license_id]
            yield (license_id, holder, product, seats)


HELD_LICENSES = View(
    "held_licenses",
    (Column("license_id", "text"), Column("holder", "text"), Column("product_id", "text"), Column("seats", "int")),
    ("assignments", "licenses"),
    _held,
    "SELECT a.license_id, a.holder, l.product_id, l.seats FROM assignments a JOIN licenses l USING (license_id)",
)

OPERATIONS = Store((USERS, LICENSES, ASSIGNMENTS, ENTITLEMENTS), (HELD_LICENSES,))
"""Collections `users` (user, active, cost center), `licenses`, `assignments` (held licences alone) and
`entitlements` (whether a licence is granted or available); the view `held_licenses` joins holders to products."""
