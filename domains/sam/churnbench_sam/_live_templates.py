"""Templates that read live sources alone, and contract documents: the same in every registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from churnbench.registry import Query, QueryResult, Template
from churnbench_sam._contracts import months_remaining, status, terms_from, value_from, vendor_from
from churnbench_sam._saas import UTILIZATION_DAYS

__all__ = ["LIVE_TEMPLATES", "USED_PAIRS", "Params", "Reply", "Results", "scalar", "users_of_product"]

Results = Mapping[str, QueryResult]
Params = Mapping[str, Any]
Reply = Callable[[Results, Params, int], Any]


# -- live warehouse -------------------------------------------------------------------------------------


def _window(days: str) -> dict[str, str]:
    return {"since": f"@at-days:{days}", "until": "@at"}


_IN_WINDOW = "c.at >= %(since)s AND c.at <= %(until)s"


def users_of_product(days: str) -> Query:
    """Who used the product within the window."""
    return Query(
        "users",
        "warehouse",
        f"SELECT DISTINCT c.user_id FROM warehouse.consumption c WHERE c.product_id = %(product_id)s AND {_IN_WINDOW}",  # noqa: S608
        ("consumption",),
        _window(days),
    )


USED_PAIRS = Query(
    "used",
    "warehouse",
    f"SELECT DISTINCT c.user_id, c.product_id FROM warehouse.consumption c WHERE {_IN_WINDOW}",  # noqa: S608 - constants
    ("consumption",),
    _window("idle_days"),
)


def scalar(kind: Callable[[Any], Any], missing: Any = None) -> Reply:
    """The one value of the query `value`; `missing` where it gave no row or null."""

    def reply(results: Results, params: Params, at_ms: int) -> Any:
        rows = results["value"].rows
        return missing if not rows or rows[0][0] is None else kind(rows[0][0])

    return reply


_UTILIZATION = (
    Template(
        "product_api_calls",
        "warehouse",
        (
            Query(
                "value",
                "warehouse",
                "SELECT coalesce(sum(c.api_calls), 0)::bigint FROM warehouse.consumption c "  # noqa: S608 - constants
                f"WHERE c.product_id = %(product_id)s AND {_IN_WINDOW}",
                ("consumption",),
                _window("window_days"),
            ),
        ),
        {"consumption_facts": "consumption"},
        scalar(int),
    ),
    Template(
        "product_active_users",
        "warehouse",
        (users_of_product("window_days"),),
        {"consumption_facts": "consumption"},
        lambda results, params, at_ms: len(results["users"].rows),
    ),
    Template(
        "top_product_by_session_minutes",
        "warehouse",
        (
            Query(
                "value",
                "warehouse",
                "SELECT c.product_id FROM warehouse.consumption c LEFT JOIN warehouse.products p USING (product_id) "  # noqa: S608
                f"WHERE {_IN_WINDOW} GROUP BY c.product_id, p.first_priced_seq "
                "ORDER BY sum(c.session_minutes) DESC, p.first_priced_seq NULLS LAST, c.product_id LIMIT 1",
                ("consumption", "products"),
                _window("window_days"),
            ),
        ),
        {"consumption_facts": "consumption", "prices": "products"},
        scalar(str, ""),
    ),
)


# -- SaaS ---------------------------------------------------------------------------------------------


def _unused_seats(results: Results, params: Params, at_ms: int) -> int:
    seats = sum(int(row[0]["seats"]) for row in results["held"].rows)
    return max(0, seats - len({row[0]["user_id"] for row in results["use"].rows}))


_BY_PRODUCT = {"product_id": "product_id"}
_SAAS = (
    Template(
        "product_active_users",
        "saas",
        (Query("use", "saas", "utilization", ("utilization",), _BY_PRODUCT),),
        {"consumption_facts": "utilization"},
        lambda results, params, at_ms: len({row[0]["user_id"] for row in results["use"].rows}),
        lambda params: bool(params["window_days"] == UTILIZATION_DAYS),
    ),
    Template(
        "open_ticket_count_cc",
        "saas",
        (Query("tickets", "saas", "tickets", ("tickets",), {"cost_center": "cc"}),),
        {"tickets": "tickets", "cost_center_membership": "tickets"},
        lambda results, params, at_ms: sum(row[0]["status"] == "open" for row in results["tickets"].rows),
    ),
    Template(
        "unused_seat_count",
        "saas",
        (
            Query("held", "saas", "entitlements", ("entitlements",), _BY_PRODUCT),
            Query("use", "saas", "utilization", ("utilization",), _BY_PRODUCT),
        ),
        {"assignments": "entitlements", "prices": "entitlements", "utilization_current": "utilization"},
        _unused_seats,
    ),
)


# -- documents ----------------------------------------------------------------------------------------


def _contract(measure: str, text: str, reply: Callable[[list[str], int], Any]) -> Template:
    """A template that reads one contract's document; `reply` takes its parts and the question's time."""
    return Template(
        measure,
        "documents",
        (Query("contract", "documents", text, ("documents",), key="contract_id"),),
        {"contract_terms": "documents"},
        lambda results, params, at_ms: reply([row[1] for row in results["contract"].rows], at_ms),
    )


def _status(texts: list[str], at_ms: int) -> str | None:
    terms = terms_from(texts)
    return None if terms is None else status(*terms, at_ms)


def _months(texts: list[str], at_ms: int) -> float | None:
    terms = terms_from(texts)
    return None if terms is None else months_remaining(*terms, at_ms)


_TERM_TEXT = "Present term of contract {contract_id}: when it began, how many months it runs, when it expires"
_DOCUMENTS = (
    _contract("contract_status", _TERM_TEXT, _status),
    _contract("contract_months_remaining", _TERM_TEXT, _months),
    _contract(
        "contract_vendor", "Parties of contract {contract_id}: the vendor", lambda texts, at_ms: vendor_from(texts)
    ),
    _contract(
        "contract_annual_value",
        "Estimated annual value of contract {contract_id} in US dollars",
        lambda texts, at_ms: value_from(texts),
    ),
)

LIVE_TEMPLATES: tuple[Template, ...] = (*_SAAS, *_UTILIZATION, *_DOCUMENTS)
"""Those of the SaaS come first: it answers current use for its own 30 days, the warehouse any other window."""
