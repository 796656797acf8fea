"""The registries: which class is kept how fresh, what is staged, and from where."""

from __future__ import annotations

from collections.abc import Mapping

from churnbench.registry import DAY_MS, ClassPolicy, Registry, StagedDocuments, StagedTable
from churnbench_sam._templates import NORMALIZED_TEMPLATES, PAPER_TEMPLATES

__all__ = ["REGISTRIES"]


def _policies() -> tuple[ClassPolicy, ...]:
    """Tiers and times to live as published (ChurnBench paper, Table I); every class of the domain."""
    return (
        ClassPolicy("assignments", "operations", "hot", DAY_MS),
        ClassPolicy("user_status", "operations", "hot", DAY_MS),
        ClassPolicy("prices", "warehouse", "warm", 7 * DAY_MS),
        ClassPolicy("cost_center_membership", "warehouse", "warm", 7 * DAY_MS),
        ClassPolicy("contract_terms", "contracts", "cold", 30 * DAY_MS),
        ClassPolicy("vendor_dims", "warehouse", "cold", 30 * DAY_MS),
        ClassPolicy("consumption_facts", "warehouse", "live"),
        ClassPolicy("utilization_current", "saas", "live"),
        ClassPolicy("tickets", "saas", "live"),
        # No source keeps history: these are named so that what cannot be answered is named too.
        ClassPolicy("user_history", "operations", "live"),
        ClassPolicy("assignment_history", "operations", "live"),
    )


_PRODUCT_PRICES = StagedTable("product_prices", "prices", "warehouse", "product_prices", ("product_id", "price"))
_VENDORS = StagedTable("vendors", "vendor_dims", "warehouse", "dim_vendor", ("vendor_idx", "vendor", "tier"))

_PAPER = Registry(
    "paper",
    _policies(),
    (
        StagedTable(
            "assignments",
            "assignments",
            "operations",
            "held_licenses",
            ("license_id", "holder", "product_id", "seats"),
            ("prices",),
        ),
        StagedTable(
            "users",
            "user_status",
            "operations",
            "users",
            ("user_id", "active", "cost_center"),
            ("cost_center_membership",),
        ),
        StagedTable(
            "purchases",
            "prices",
            "warehouse",
            "purchases",
            ("purchase_no", "product_id", "seats", "purchase_price", "cost_center"),
            ("assignments", "user_status", "cost_center_membership"),
        ),
        _PRODUCT_PRICES,
        StagedTable(
            "cost_centers",
            "cost_center_membership",
            "warehouse",
            "dim_cost_center",
            ("cost_center", "business_unit"),
        ),
        _VENDORS,
    ),
    StagedDocuments("contract_terms"),
    PAPER_TEMPLATES,
)

_NORMALIZED = Registry(
    "normalized",
    _policies(),
    (
        StagedTable("assignments", "assignments", "operations", "assignments", ("license_id", "holder")),
        StagedTable("users", "user_status", "operations", "users", ("user_id", "active")),
        StagedTable(
            "licenses",
            "prices",
            "warehouse",
            "licenses",
            ("license_id", "product_id", "seats", "purchase_price"),
        ),
        _PRODUCT_PRICES,
        StagedTable("memberships", "cost_center_membership", "warehouse", "users", ("user_id", "cost_center")),
        _VENDORS,
    ),
    StagedDocuments("contract_terms"),
    NORMALIZED_TEMPLATES,
)

REGISTRIES: Mapping[str, Registry] = {registry.name: registry for registry in (_PAPER, _NORMALIZED)}
"""`paper`: as published, with what its tables freeze beside their own class. `normalized`: one table a class
(prices: one of licences, one of products), nothing embedded."""
