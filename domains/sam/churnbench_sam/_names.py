"""Ids, and the facts that no event of the reference world carries because they follow from an id or a number."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

__all__ = [
    "BUSINESS_UNITS",
    "LICENSE_MODELS",
    "VENDOR_NAMES",
    "VENDOR_TIERS",
    "business_unit",
    "contract_id",
    "cost_center_id",
    "estimated_annual_value",
    "license_id",
    "license_model",
    "number_of",
    "product_id",
    "product_vendor",
    "signing_order",
    "user_id",
    "vendor_name",
    "vendor_tier",
]

VENDOR_NAMES = (
    "Acme Corp",
    "Nexus Software",
    "Orbit Systems",
    "Pinnacle Tech",
    "Quantum Labs",
    "Rapid Solutions",
    "Stellar Dynamics",
    "Titan Networks",
    "Unity Platforms",
    "Vanguard Analytics",
    "Warp Digital",
    "Xenon Cloud",
)
VENDOR_TIERS = ("strategic", "preferred", "tail")
LICENSE_MODELS = ("user", "device", "concurrent", "consumption")
BUSINESS_UNITS = ("Engineering", "Sales", "Marketing", "Finance", "HR", "Operations")


def cost_center_id(number: int) -> str:
    """`cc_` and at least three digits, numbers from 0."""
    return f"cc_{number:03d}"


def product_id(number: int) -> str:
    """`prd_` and at least four digits, numbers from 0."""
    return f"prd_{number:04d}"


def user_id(number: int) -> str:
    """`usr_` and at least six digits, numbers from 0."""
    return f"usr_{number:06d}"


def license_id(number: int) -> str:
    """`lic_` and at least six digits, numbers from 0."""
    return f"lic_{number:06d}"


def contract_id(number: int) -> str:
    """`ctr_` and at least four digits, numbers from 0."""
    return f"ctr_{number:04d}"


def number_of(entity_id: str) -> int:
    """The number in an id.

    Raises:
        ValueError: `entity_id` does not end in an underscore and digits.
    """
    return int(entity_id.rpartition("_")[2])


def vendor_name(vendor_idx: int) -> str:
    """The vendor's name; from the 13th vendor on, the names repeat with a number: `Acme Corp 2`."""
    turn, place = divmod(vendor_idx, len(VENDOR_NAMES))
    return VENDOR_NAMES[place] if turn == 0 else f"{VENDOR_NAMES[place]} {turn + 1}"


def vendor_tier(vendor_idx: int) -> str:
    """strategic, preferred or tail, in turn."""
    return VENDOR_TIERS[vendor_idx % len(VENDOR_TIERS)]


def license_model(product: str) -> str:
    """How a product is licensed: user, device, concurrent or consumption, in turn by its number."""
    return LICENSE_MODELS[number_of(product) % len(LICENSE_MODELS)]


def business_unit(cost_center: str) -> str:
    """The business unit of a cost center, in turn by its number."""
    return BUSINESS_UNITS[number_of(cost_center) % len(BUSINESS_UNITS)]


def estimated_annual_value(contract: str) -> float:
    """A contract's value a year in US dollars, 10,000 to 500,000, drawn from the sha1 of its id."""
    digest = int(hashlib.sha1(contract.encode(), usedforsecurity=False).hexdigest(), 16)
    return round(10000 + digest % 490000 + (digest % 100) * 0.01, 2)


def signing_order(vendor_idxs: Iterable[int]) -> tuple[int, ...]:
    """The vendors in the order of their first signing.

    Args:
        vendor_idxs: the vendor of each `contract_signed` event, in the ledger's order.
    """
    return tuple(dict.fromkeys(vendor_idxs))


def product_vendor(product: str, order: Sequence[int]) -> int | None:
    """The vendor of a product: product i takes vendor i mod n of the n vendors in `order`.

    Args:
        product: the product's id.
        order: what `signing_order` gives.

    Returns:
        The vendor's number, or None if no vendor has a contract.
    """
    return order[number_of(product) % len(order)] if order else None
