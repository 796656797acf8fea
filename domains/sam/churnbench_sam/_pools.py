"""What tasks are drawn from: the pools of their parameters at the question's time, and further templates."""

from __future__ import annotations

from typing import Any

from churnbench.domain import FactView
from churnbench_sam._measures import active_cost_centers, held_licenses, spends
from churnbench_sam._tasks import TEMPLATES, Parameter, Template, threshold_of

__all__ = ["DESK_TEMPLATES", "pools", "templates_for"]

DESK_TEMPLATES: tuple[Template, ...] = (
    Template("CR7", 1, "open_ticket_count_cc", (Parameter("cc", "cost_centers_active"),), "int", "criticality"),
    Template("UT6", 2, "unused_seat_count", (Parameter("product_id", "products_held"),), "int", "utilization"),
)
"""Questions to the live SaaS that the published task set does not have."""


def templates_for(preset: str) -> tuple[Template, ...]:
    """The published templates for the published world; those and `DESK_TEMPLATES` for any other preset."""
    return TEMPLATES if preset == "reference" else (*TEMPLATES, *DESK_TEMPLATES)


def pools(facts: FactView) -> dict[str, list[Any]]:
    """Every pool of `churnbench_sam._tasks.POOLS`, each sorted; empty where the facts hold nothing for it."""
    members, held = active_cost_centers(facts), held_licenses(facts)
    product = facts.values("prices", "product")
    products_held = {product[number] for number in held}
    products_used = {row[0] for row in facts.query("SELECT DISTINCT product_id FROM {consumption_facts}")}
    threshold = threshold_of(list(spends(facts).values()))
    return {
        "cost_centers_active": sorted(set(members.values())),
        "cost_centers_holding": sorted({members[user] for user in held.values() if user in members}),
        "products": sorted(facts.values("prices", "listed")),
        "products_held": sorted(products_held),
        "products_used": sorted(products_used),
        "products_held_and_used": sorted(products_held & products_used),
        "contracts": sorted(facts.values("contract_terms", "term_start")),
        "threshold": [] if threshold is None else [threshold],
    }
