"""The slow REST service: users, entitlements, tickets and current utilization.

A ticket is opened when a user who holds licences leaves, and closed when the last of these licences is taken
back, or the user returns. It spans entities, so it is derived when listed: each licence's row keeps the spans of
its holders, each user's row the spans of absence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from churnbench.domain import Resource, Saas
from churnbench.events import Event, from_millis, time_text
from churnbench.registry import DAY_MS
from churnbench.tables import Column, EntityTable, Relations, Row
from churnbench_sam import _events as ev
from churnbench_sam._folds import LICENSE_KINDS, USER_KINDS, new_holder
from churnbench_sam._warehouse import CONSUMPTION

__all__ = ["SAAS", "UTILIZATION_DAYS"]

UTILIZATION_DAYS = 30
"""Current utilization covers the days up to the view's time, the first instant included."""

Span = tuple[str, int, int, int | None, int | None]
"""Who, the seq and time (milliseconds) from which, and those up to which; None while it lasts."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(list[Span])


def _ended(text: str, event: Event) -> list[Span]:
    """The spans, the last one ended by the event if it was not before."""
    spans = _decoder.decode(text)
    if spans and spans[-1][3] is None:
        spans[-1] = (*spans[-1][:3], event.seq, event.at_ms)
    return spans


def _begun(spans: list[Span], who: str, event: Event) -> str:
    return _encoder.encode([*spans, (who, event.seq, event.at_ms, None, None)]).decode()


def _user_step(row: Row | None, event: Event) -> Row | None:
    payload = event.payload
    if isinstance(payload, ev.UserHired):
        absences = "[]" if row is None else _encoder.encode(_ended(row[3], event)).decode()
        return (event.entity_id, payload.cost_center_id, True, absences)
    if row is None:
        return None
    if isinstance(payload, ev.UserMovedCostCenter):
        return (row[0], payload.cost_center_id, *row[2:])
    return (row[0], row[1], False, _begun(_ended(row[3], event), event.entity_id, event))


def _license_step(row: Row | None, event: Event) -> Row | None:
    payload = event.payload
    if isinstance(payload, ev.LicensePurchased):
        return (event.entity_id, payload.product_id, payload.seats, None, "[]")
    if row is None:
        return None
    spans, holder = _ended(row[4], event), new_holder(event)
    text = _encoder.encode(spans).decode() if holder is None else _begun(spans, holder, event)
    return (*row[:3], holder, text)


USERS = EntityTable(
    "users",
    (
        Column("user_id", "text"),
        Column("cost_center", "text"),
        Column("active", "bool"),
        Column("absences", "text"),
    ),
    USER_KINDS,
    _user_step,
)
LICENSES = EntityTable(
    "licenses",
    (
        Column("license_id", "text"),
        Column("product_id", "text"),
        Column("seats", "int"),
        Column("holder", "text"),
        Column("spans", "text"),
    ),
    LICENSE_KINDS,
    _license_step,
)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kept(items: list[dict[str, Any]], filters: Mapping[str, str]) -> list[dict[str, Any]]:
    """Those whose fields equal the filters (truth values as `true` and `false`), by id."""
    kept = [item for item in items if all(_text(item[name]) == value for name, value in filters.items())]
    return sorted(kept, key=lambda item: str(item["id"]))


def _users(relations: Relations, at_ms: int, filters: Mapping[str, str]) -> list[dict[str, Any]]:
    items = [{"id": row[0], "cost_center": row[1], "active": row[2]} for row in relations["users"]]
    return _kept(items, filters)


def _entitlements(relations: Relations, at_ms: int, filters: Mapping[str, str]) -> list[dict[str, Any]]:
    items = [
        {"id": license_id, "product_id": product, "seats": seats, "user_id": holder}
        for license_id, product, seats, holder, _ in relations["licenses"]
        if holder is not None
    ]
    return _kept(items, filters)


def _tickets(relations: Relations, at_ms: int, filters: Mapping[str, str]) -> list[dict[str, Any]]:
    leavers = {row[0]: (row[1], _decoder.decode(row[3])) for row in relations["users"] if row[3] != "[]"}
    held: dict[str, list[tuple[str, Span]]] = {}
    for license_id, _, _, _, text in relations["licenses"]:
        for span in _decoder.decode(text):
            if span[0] in leavers:
                held.setdefault(span[0], []).append((license_id, span))
    items = []
    for user, spans in held.items():
        cost_center, absences = leavers[user]
        for _, left_seq, left_ms, _, back_ms in absences:
            left_with = [(number, s) for number, s in spans if s[1] < left_seq and (s[3] is None or s[3] > left_seq)]
            if left_with:
                items.append(_ticket(user, cost_center, left_seq, left_ms, back_ms, left_with))
    return _kept(items, filters)


def _ticket(
    user: str, cost_center: str, left_seq: int, left_ms: int, back_ms: int | None, left_with: list[tuple[str, Span]]
) -> dict[str, Any]:
    ends = [span[4] for _, span in left_with if span[4] is not None]
    closings = [] if back_ms is None else [back_ms]
    if len(ends) == len(left_with):
        closings.append(max(ends))
    return {
        "id": f"ticket_{user}_{left_seq}",
        "user_id": user,
        "cost_center": cost_center,
        "status": "closed" if closings else "open",
        "opened_at": time_text(left_ms),
        "closed_at": time_text(min(closings)) if closings else None,
        "licenses": sorted({license_id for license_id, _ in left_with}),
    }


def _utilization(relations: Relations, at_ms: int, filters: Mapping[str, str]) -> list[dict[str, Any]]:
    since, until = from_millis(at_ms - UTILIZATION_DAYS * DAY_MS), from_millis(at_ms)
    product_wanted = filters.get("product_id")
    totals: dict[tuple[str, str], list[int]] = {}
    for _, at, user, product, minutes, calls in relations["consumption"]:
        if since <= at <= until and product_wanted in (None, product):
            total = totals.setdefault((product, user), [0, 0])
            total[0] += minutes
            total[1] += calls
    items = [
        {"id": f"{product}:{user}", "product_id": product, "user_id": user, "session_minutes": m, "api_calls": c}
        for (product, user), (m, c) in totals.items()
    ]
    return _kept(items, filters)


SAAS = Saas(
    (USERS, LICENSES, CONSUMPTION),
    (
        Resource("users", ("users",), _users, ("cost_center", "active")),
        Resource("entitlements", ("licenses",), _entitlements, ("product_id", "user_id")),
        Resource("tickets", ("users", "licenses"), _tickets, ("cost_center", "status", "user_id")),
        Resource("utilization", ("consumption",), _utilization, ("product_id", "user_id")),
    ),
    # A day more than a listing needs, so that a listing pinned to an earlier cut still finds its rows.
    keep_ms=(UTILIZATION_DAYS + 1) * DAY_MS,
)
"""`users`, `entitlements` (licences held), `tickets` and `utilization` (a product's minutes and calls by user)."""
