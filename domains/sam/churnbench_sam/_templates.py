"""How each measure is answered from the sources: the templates of both registries.

A measure without a template has no data to be answered from: no source keeps the history of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum

from churnbench.registry import Query, Template
from churnbench_sam._live_templates import (
    LIVE_TEMPLATES,
    USED_PAIRS,
    Params,
    Reply,
    Results,
    scalar,
    users_of_product,
)

__all__ = ["NORMALIZED_TEMPLATES", "PAPER_TEMPLATES"]


# -- staged -------------------------------------------------------------------------------------------


def _staged(measure: str, statement: str, reads: Mapping[str, str], reply: Reply) -> Template:
    tables = tuple(dict.fromkeys(reads.values()))
    return Template(measure, "staged", (Query("value", "staged", statement, tables),), reads, reply)


def _idle(results: Results, params: Params, at_ms: int) -> int:
    users = {row[0] for row in results["users"].rows}
    return sum(row[0] not in users for row in results["held"].rows)


def _idle_pairs(results: Results, params: Params, at_ms: int) -> int:
    used = {tuple(row) for row in results["used"].rows}
    return sum(tuple(row) not in used for row in results["held"].rows)


def _idle_cost(results: Results, params: Params, at_ms: int) -> float:
    used = {tuple(row) for row in results["used"].rows}
    return round(fsum(row[2] for row in results["held"].rows if tuple(row[:2]) not in used), 2)


def _efficiency(results: Results, params: Params, at_ms: int) -> float:
    seats = int(results["held"].rows[0][0])
    return round(len(results["users"].rows) / seats, 4) if seats else 0.0


def _unassigned(results: Results, params: Params, at_ms: int) -> int:
    return int(results["licenses"].rows[0][0]) - int(results["held"].rows[0][0])


def _spend(rows: str, reads: Mapping[str, str]) -> tuple[Template, ...]:
    """The spend measures over `rows`, a SELECT of a cost center and an amount for each licence that counts.

    Amounts are compared to a millionth of a dollar, so that the order of summing cannot decide.
    """
    each = f"SELECT r.cost_center, sum(r.amount) AS spend FROM ({rows}) AS r GROUP BY r.cost_center"  # noqa: S608
    return (
        _staged(
            "spend_by_cost_center",
            f"SELECT sum(r.amount) FROM ({rows}) AS r WHERE r.cost_center = %(cc)s",  # noqa: S608 - constants
            reads,
            scalar(float, 0.0),
        ),
        _staged("total_monthly_spend", f"SELECT sum(r.amount) FROM ({rows}) AS r", reads, scalar(float, 0.0)),  # noqa: S608
        _staged(
            "top_spending_cost_center",
            f"SELECT s.cost_center FROM ({each}) AS s "  # noqa: S608 - constants
            'ORDER BY round(s.spend::numeric, 6) DESC, s.cost_center COLLATE "C" LIMIT 1',
            reads,
            scalar(str, ""),
        ),
        _staged(
            "cost_centers_above_threshold",
            f"SELECT count(*) FROM ({each}) AS s "  # noqa: S608 - constants
            "WHERE round(s.spend::numeric, 6)::float8 > %(threshold)s::float8",
            reads,
            scalar(int),
        ),
    )


def _federated(measure: str, live: Query, held: str, reads: Mapping[str, str], reply: Reply) -> Template:
    """Staged licences (`held`) joined with live consumption."""
    tables = tuple(dict.fromkeys(reads.values()))
    queries = (Query("held", "staged", held, tables), live)
    return Template(measure, "federated", queries, {**reads, "consumption_facts": "consumption"}, reply)


_PRODUCT_PRICE = _staged(
    "product_price",
    "SELECT p.price FROM staged.product_prices p WHERE p.product_id = %(product_id)s",
    {"prices": "product_prices"},
    scalar(float),
)


# -- registry `paper` ---------------------------------------------------------------------------------

_PURCHASES = dict.fromkeys(("prices", "assignments", "user_status", "cost_center_membership"), "purchases")
_USERS = {"user_status": "users", "cost_center_membership": "users"}
_ASSIGNMENTS = {"assignments": "assignments", "prices": "assignments"}
_HOLDERS = "SELECT a.holder FROM staged.assignments a WHERE a.product_id = %(product_id)s"

PAPER_TEMPLATES: tuple[Template, ...] = (
    *_spend(
        "SELECT p.cost_center, p.seats * p.purchase_price AS amount FROM staged.purchases p "
        "WHERE p.cost_center IS NOT NULL",
        _PURCHASES,
    ),
    _PRODUCT_PRICE,
    _staged(
        "active_user_count_cc",
        "SELECT count(*) FROM staged.users u WHERE u.active AND u.cost_center = %(cc)s",
        _USERS,
        scalar(int),
    ),
    Template(
        "unassigned_license_count",
        "staged",
        (
            Query("licenses", "staged", "SELECT count(*) FROM staged.purchases", ("purchases",)),
            Query("held", "staged", "SELECT count(*) FROM staged.assignments", ("assignments",)),
        ),
        {"prices": "purchases", "assignments": "assignments"},
        _unassigned,
    ),
    _federated("idle_license_count", users_of_product("idle_days"), _HOLDERS, _ASSIGNMENTS, _idle),
    _federated("zero_usage_license_count", users_of_product("window_days"), _HOLDERS, _ASSIGNMENTS, _idle),
    _federated(
        "idle_license_count_cc",
        USED_PAIRS,
        "SELECT a.holder, a.product_id FROM staged.assignments a JOIN staged.users u ON u.user_id = a.holder "
        "WHERE u.active AND u.cost_center = %(cc)s",
        {**_ASSIGNMENTS, **_USERS},
        _idle_pairs,
    ),
    _federated(
        "license_efficiency",
        users_of_product("window_days"),
        "SELECT coalesce(sum(a.seats), 0)::bigint FROM staged.assignments a WHERE a.product_id = %(product_id)s",
        _ASSIGNMENTS,
        _efficiency,
    ),
    *LIVE_TEMPLATES,
)
"""Spend from the purchases with the cost center frozen in them; idle licences from the held ones and live use.
Idle cost has no template: prices hang on purchases, which do not know their licence."""


# -- registry `normalized` ----------------------------------------------------------------------------

_LICENSES = {"assignments": "assignments", "prices": "licenses"}
_MEMBERS = {"user_status": "users", "cost_center_membership": "memberships"}
_HELD = "staged.assignments a JOIN staged.licenses l USING (license_id)"
_ACTIVE = "staged.users u JOIN staged.memberships m USING (user_id)"
_HOLDERS_BY_PRODUCT = f"SELECT a.holder FROM {_HELD} WHERE l.product_id = %(product_id)s"  # noqa: S608 - constants

NORMALIZED_TEMPLATES: tuple[Template, ...] = (
    *_spend(
        f"SELECT m.cost_center, l.seats * l.purchase_price AS amount FROM {_HELD} "  # noqa: S608 - constants
        "JOIN staged.users u ON u.user_id = a.holder AND u.active JOIN staged.memberships m ON m.user_id = a.holder",
        {**_LICENSES, **_MEMBERS},
    ),
    _PRODUCT_PRICE,
    _staged(
        "active_user_count_cc",
        f"SELECT count(*) FROM {_ACTIVE} WHERE u.active AND m.cost_center = %(cc)s",  # noqa: S608 - constants
        _MEMBERS,
        scalar(int),
    ),
    Template(
        "unassigned_license_count",
        "staged",
        (
            Query("licenses", "staged", "SELECT count(*) FROM staged.licenses", ("licenses",)),
            Query("held", "staged", "SELECT count(*) FROM staged.assignments", ("assignments",)),
        ),
        _LICENSES,
        _unassigned,
    ),
    _federated("idle_license_count", users_of_product("idle_days"), _HOLDERS_BY_PRODUCT, _LICENSES, _idle),
    _federated("zero_usage_license_count", users_of_product("window_days"), _HOLDERS_BY_PRODUCT, _LICENSES, _idle),
    _federated(
        "idle_license_count_cc",
        USED_PAIRS,
        f"SELECT a.holder, l.product_id FROM {_HELD} JOIN staged.users u ON u.user_id = a.holder AND u.active "  # noqa: S608
        "JOIN staged.memberships m ON m.user_id = a.holder WHERE m.cost_center = %(cc)s",
        {**_LICENSES, **_MEMBERS},
        _idle_pairs,
    ),
    _federated(
        "idle_license_cost",
        USED_PAIRS,
        f"SELECT a.holder, l.product_id, l.seats * l.purchase_price FROM {_HELD}",  # noqa: S608 - constants
        _LICENSES,
        _idle_cost,
    ),
    _federated(
        "license_efficiency",
        users_of_product("window_days"),
        f"SELECT coalesce(sum(l.seats), 0)::bigint FROM {_HELD} WHERE l.product_id = %(product_id)s",  # noqa: S608
        _LICENSES,
        _efficiency,
    ),
    *LIVE_TEMPLATES,
)
"""Every class from a table of its own, joined when asked."""
