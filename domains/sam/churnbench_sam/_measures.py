"""The measures: what each question means, as a function of the facts.

Gold is defined for facts of one time and for facts of several: then every fact is taken as its class's cut has
it, and what several classes must know is an inner join of them. The question's own time (windows, expiry) is
never moved. Definitions: ChurnBench paper (Singh & Priyam) and the data released with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any

from churnbench.domain import FactView, Measure
from churnbench.registry import DAY_MS
from churnbench_sam._contracts import months_remaining, status
from churnbench_sam._saas import UTILIZATION_DAYS

__all__ = ["MEASURES", "active_cost_centers", "held_licenses", "spends"]

Params = Mapping[str, Any]


# -- what several measures share ----------------------------------------------------------------------


def active_cost_centers(facts: FactView) -> dict[str, str]:
    """Active user -> cost center, of users whom both classes know."""
    active = facts.values("user_status", "active")
    members = facts.values("cost_center_membership", "cost_center")
    return {user: cost_center for user, cost_center in members.items() if active.get(user)}


def held_licenses(facts: FactView) -> dict[str, str]:
    """Licence that was bought and is held -> holder."""
    product = facts.values("prices", "product")
    return {number: user for number, user in facts.values("assignments", "holder").items() if number in product}


def spends(facts: FactView) -> dict[str, float]:
    """Cost center -> seats times purchase price over the licences that its active users hold; those with any."""
    seats, price = facts.values("prices", "seats"), facts.values("prices", "purchase_price")
    cost_centers = active_cost_centers(facts)
    # Summed one by one in the order of the first assignments, as the published golds were, to the last bit.
    amounts: dict[str, float] = {}
    for number, user in held_licenses(facts).items():
        if user in cost_centers:
            cost_center = cost_centers[user]
            amounts[cost_center] = amounts.get(cost_center, 0.0) + seats[number] * price[number]
    return amounts


def _amount(value: float) -> float:
    """To a millionth of a dollar: sums in another order compare as equal."""
    return round(value, 6)


def _window(params: Params, at_ms: int, name: str = "window_days") -> list[int]:
    return [at_ms - params[name] * DAY_MS, at_ms]


def _used(facts: FactView, params: Params, at_ms: int, days: str) -> set[tuple[str, str]]:
    """(user, product) pairs in Recent."""
    rows = facts.query(
        "SELECT DISTINCT entity, product_id FROM {consumption_facts} WHERE at_ms BETWEEN ? AND ?",
        _window(params, at_ms, days),
    )
    return {(row[0], row[1]) for row in rows}


def _idle_of_product(facts: FactView, params: Params, at_ms: int, days: str) -> int:
    wanted, product = params["product_id"], facts.values("prices", "product")
    rows = facts.query(
        "SELECT DISTINCT entity FROM {consumption_facts} WHERE product_id = ? AND at_ms BETWEEN ? AND ?",
        [wanted, *_window(params, at_ms, days)],
    )
    users = {row[0] for row in rows}
    return sum(product[number] == wanted and user not in users for number, user in held_licenses(facts).items())


# -- spend visibility ---------------------------------------------------------------------------------


def _spend_by_cost_center(facts: FactView, params: Params, at_ms: int) -> float:
    return spends(facts).get(params["cc"], 0.0)


def _active_user_count_cc(facts: FactView, params: Params, at_ms: int) -> int:
    return sum(cost_center == params["cc"] for cost_center in active_cost_centers(facts).values())


def _product_price(facts: FactView, params: Params, at_ms: int) -> Any:
    return facts.values("prices", "price").get(params["product_id"])


def _total_monthly_spend(facts: FactView, params: Params, at_ms: int) -> float:
    # One after the other: sum() of floats differs between versions of Python.
    return reduce(add, spends(facts).values(), 0.0)


def _top_spending_cost_center(facts: FactView, params: Params, at_ms: int) -> str:
    by_cost_center = spends(facts)
    return min(by_cost_center, key=lambda cc: (-_amount(by_cost_center[cc]), cc), default="")


def _cost_centers_above_threshold(facts: FactView, params: Params, at_ms: int) -> int:
    return sum(_amount(spend) > params["threshold"] for spend in spends(facts).values())


# -- savings opportunity ------------------------------------------------------------------------------


def _idle_license_count(facts: FactView, params: Params, at_ms: int) -> int:
    return _idle_of_product(facts, params, at_ms, "idle_days")


def _unassigned_license_count(facts: FactView, params: Params, at_ms: int) -> int:
    # A difference of counts: with facts of two times it can differ from the count of a difference.
    return len(facts.values("prices", "product")) - len(facts.values("assignments", "holder"))


def _idle_license_count_cc(facts: FactView, params: Params, at_ms: int) -> int:
    product, cost_centers = facts.values("prices", "product"), active_cost_centers(facts)
    used = _used(facts, params, at_ms, "idle_days")
    return sum(
        cost_centers.get(user) == params["cc"] and (user, product[number]) not in used
        for number, user in held_licenses(facts).items()
    )


def _idle_license_cost(facts: FactView, params: Params, at_ms: int) -> float:
    product, seats = facts.values("prices", "product"), facts.values("prices", "seats")
    price = facts.values("prices", "purchase_price")
    used = _used(facts, params, at_ms, "idle_days")
    idle = [n for n, user in held_licenses(facts).items() if (user, product[n]) not in used]
    return round(reduce(add, (seats[number] * price[number] for number in idle), 0.0), 2)


def _count_changes(facts: FactView, cls: str, change: str, params: Params, at_ms: int) -> int:
    statement = f"SELECT count(*) FROM {{{cls}}} WHERE change = ? AND at_ms > ? AND at_ms <= ?"  # noqa: S608 - constants
    return int(facts.query(statement, [change, *_window(params, at_ms, "days_back")])[0][0])


def _license_reclaim_count(facts: FactView, params: Params, at_ms: int) -> int:
    return _count_changes(facts, "assignment_history", "unassigned", params, at_ms)


# -- criticality --------------------------------------------------------------------------------------


def _offboard_count_window(facts: FactView, params: Params, at_ms: int) -> int:
    return _count_changes(facts, "user_history", "offboarded", params, at_ms)


def _reassignment_count(facts: FactView, params: Params, at_ms: int) -> int:
    return _count_changes(facts, "assignment_history", "reassigned", params, at_ms)


def _contract_status(facts: FactView, params: Params, at_ms: int) -> str | None:
    start = facts.values("contract_terms", "term_start").get(params["contract_id"])
    months = facts.values("contract_terms", "term_months").get(params["contract_id"])
    return None if start is None or months is None else status(start, months, at_ms)


def _contract_months_remaining(facts: FactView, params: Params, at_ms: int) -> float | None:
    start = facts.values("contract_terms", "term_start").get(params["contract_id"])
    months = facts.values("contract_terms", "term_months").get(params["contract_id"])
    return None if start is None or months is None else months_remaining(start, months, at_ms)


def _contract_vendor(facts: FactView, params: Params, at_ms: int) -> Any:
    return facts.values("contract_terms", "vendor").get(params["contract_id"])


def _contract_annual_value(facts: FactView, params: Params, at_ms: int) -> Any:
    return facts.values("contract_terms", "annual_value").get(params["contract_id"])


# -- utilization --------------------------------------------------------------------------------------


def _product_api_calls(facts: FactView, params: Params, at_ms: int) -> int:
    rows = facts.query(
        "SELECT coalesce(sum(api_calls), 0) FROM {consumption_facts} WHERE product_id = ? AND at_ms BETWEEN ? AND ?",
        [params["product_id"], *_window(params, at_ms)],
    )
    return int(rows[0][0])


def _product_active_users(facts: FactView, params: Params, at_ms: int) -> int:
    rows = facts.query(
        "SELECT count(DISTINCT entity) FROM {consumption_facts} WHERE product_id = ? AND at_ms BETWEEN ? AND ?",
        [params["product_id"], *_window(params, at_ms)],
    )
    return int(rows[0][0])


def _top_product_by_session_minutes(facts: FactView, params: Params, at_ms: int) -> str:
    rows = facts.query(
        "SELECT product_id, sum(session_minutes) FROM {consumption_facts} WHERE at_ms BETWEEN ? AND ? GROUP BY 1",
        _window(params, at_ms),
    )
    place = {product: number for number, product in enumerate(facts.values("prices", "listed"))}
    ranked = min(rows, key=lambda row: (-row[1], place.get(row[0], len(place)), row[0]), default=("",))
    return str(ranked[0])


def _zero_usage_license_count(facts: FactView, params: Params, at_ms: int) -> int:
    return _idle_of_product(facts, params, at_ms, "window_days")


def _license_efficiency(facts: FactView, params: Params, at_ms: int) -> float:
    product, seats = facts.values("prices", "product"), facts.values("prices", "seats")
    held = sum(seats[number] for number in held_licenses(facts) if product[number] == params["product_id"])
    return round(_product_active_users(facts, params, at_ms) / held, 4) if held else 0.0


# -- the desk -----------------------------------------------------------------------------------------


def _open_ticket_count_cc(facts: FactView, params: Params, at_ms: int) -> int:
    left, since = facts.values("tickets", "left_seq"), facts.values("tickets", "since_seq")
    members = facts.values("cost_center_membership", "cost_center")
    # A ticket is about the licences held when their holder left, not about later ones.
    holders = facts.values("tickets", "holder").items()
    leavers = {user for number, user in holders if left.get(user, -1) > since[number]}
    return sum(members.get(user) == params["cc"] for user in leavers)


def _unused_seat_count(facts: FactView, params: Params, at_ms: int) -> int:
    wanted, product = params["product_id"], facts.values("prices", "product")
    seats = facts.values("prices", "seats")
    held = [int(seats[number]) for number in held_licenses(facts) if product[number] == wanted]
    users = facts.query(
        "SELECT count(DISTINCT entity) FROM {utilization_current} WHERE product_id = ? AND at_ms BETWEEN ? AND ?",
        [wanted, at_ms - UTILIZATION_DAYS * DAY_MS, at_ms],
    )
    return max(0, sum(held) - int(users[0][0]))


# -- the table ----------------------------------------------------------------------------------------

_MEMBERS = {"user_status": ("active",), "cost_center_membership": ("cost_center",)}
_SPEND = {**_MEMBERS, "assignments": ("holder",), "prices": ("product", "seats", "purchase_price")}
_USED = {"consumption_facts": ()}
_IDLE = {"assignments": ("holder",), "prices": ("product",), **_USED}
_IDLE_COST = {**_IDLE, "prices": ("product", "seats", "purchase_price")}
_TERM = {"contract_terms": ("term_start", "term_months")}
_USD, _LICENSES, _USERS = "US dollars a month", "licences", "users"

_DEFINED: tuple[Measure, ...] = (
    Measure("spend_by_cost_center", {"cc": str}, "float", _SPEND, _spend_by_cost_center, _USD),
    Measure("active_user_count_cc", {"cc": str}, "int", _MEMBERS, _active_user_count_cc, _USERS),
    Measure("product_price", {"product_id": str}, "float", {"prices": ("price",)}, _product_price, _USD),
    Measure("total_monthly_spend", {}, "float", _SPEND, _total_monthly_spend, _USD),
    Measure("top_spending_cost_center", {}, "str", _SPEND, _top_spending_cost_center, "cost center"),
    Measure(
        "cost_centers_above_threshold",
        {"threshold": float},
        "int",
        _SPEND,
        _cost_centers_above_threshold,
        "cost centers",
    ),
    Measure("idle_license_count", {"product_id": str, "idle_days": int}, "int", _IDLE, _idle_license_count, _LICENSES),
    Measure(
        "unassigned_license_count",
        {},
        "int",
        {"prices": ("product",), "assignments": ("holder",)},
        _unassigned_license_count,
        _LICENSES,
    ),
    Measure(
        "idle_license_count_cc",
        {"cc": str, "idle_days": int},
        "int",
        {**_MEMBERS, **_IDLE},
        _idle_license_count_cc,
        _LICENSES,
    ),
    Measure("idle_license_cost", {"idle_days": int}, "float", _IDLE_COST, _idle_license_cost, _USD),
    Measure(
        "license_reclaim_count",
        {"days_back": int},
        "int",
        {"assignment_history": ()},
        _license_reclaim_count,
        _LICENSES,
    ),
    Measure("offboard_count_window", {"days_back": int}, "int", {"user_history": ()}, _offboard_count_window, _USERS),
    Measure(
        "reassignment_count",
        {"days_back": int},
        "int",
        {"assignment_history": ()},
        _reassignment_count,
        "reassignments",
    ),
    Measure("contract_status", {"contract_id": str}, "str", _TERM, _contract_status),
    Measure(
        "contract_months_remaining",
        {"contract_id": str},
        "float",
        _TERM,
        _contract_months_remaining,
        "months of 30 days",
    ),
    Measure("contract_vendor", {"contract_id": str}, "str", {"contract_terms": ("vendor",)}, _contract_vendor),
    Measure(
        "contract_annual_value",
        {"contract_id": str},
        "float",
        {"contract_terms": ("annual_value",)},
        _contract_annual_value,
        "US dollars a year",
    ),
    Measure("product_api_calls", {"product_id": str, "window_days": int}, "int", _USED, _product_api_calls, "calls"),
    Measure(
        "product_active_users", {"product_id": str, "window_days": int}, "int", _USED, _product_active_users, _USERS
    ),
    Measure(
        "top_product_by_session_minutes",
        {"window_days": int},
        "str",
        {**_USED, "prices": ("listed",)},
        _top_product_by_session_minutes,
        "product",
    ),
    Measure(
        "zero_usage_license_count",
        {"product_id": str, "window_days": int},
        "int",
        _IDLE,
        _zero_usage_license_count,
        _LICENSES,
    ),
    Measure(
        "license_efficiency",
        {"product_id": str, "window_days": int},
        "float",
        {**_IDLE, "prices": ("product", "seats")},
        _license_efficiency,
        "users a seat",
    ),
    Measure(
        "open_ticket_count_cc",
        {"cc": str},
        "int",
        {"tickets": ("left_seq", "holder", "since_seq"), "cost_center_membership": ("cost_center",)},
        _open_ticket_count_cc,
        "tickets",
    ),
    Measure(
        "unused_seat_count",
        {"product_id": str},
        "int",
        {"assignments": ("holder",), "prices": ("product", "seats"), "utilization_current": ()},
        _unused_seat_count,
        "seats",
    ),
)

MEASURES: Mapping[str, Measure] = {measure.name: measure for measure in _DEFINED}
"""The 22 published measures and two more over the live SaaS, by name."""
