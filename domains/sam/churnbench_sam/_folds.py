"""How users, licences, products and contracts change, event by event: the rows that several sources keep."""

from __future__ import annotations

from churnbench.events import Event
from churnbench.tables import Column, Row
from churnbench_sam import _events as ev
from churnbench_sam import _names as names

__all__ = [
    "CONTRACT_COLUMNS",
    "CONTRACT_KINDS",
    "HOLDER_KINDS",
    "LICENSE_COLUMNS",
    "LICENSE_KINDS",
    "USER_COLUMNS",
    "USER_KINDS",
    "contract_step",
    "license_step",
    "new_holder",
    "user_step",
]

USER_KINDS = frozenset({"user_hired", "user_moved_cost_center", "user_offboarded"})
HOLDER_KINDS = frozenset({"license_assigned", "license_reassigned", "license_unassigned"})
LICENSE_KINDS = HOLDER_KINDS | {"license_purchased"}
CONTRACT_KINDS = frozenset({"contract_signed", "contract_renewed"})

USER_COLUMNS = (
    Column("user_id", "text"),
    Column("cost_center", "text"),
    Column("active", "bool"),
    Column("hired_at", "time"),
    Column("offboarded_at", "time"),
)
LICENSE_COLUMNS = (
    Column("license_id", "text"),
    Column("purchase_no", "int"),
    Column("product_id", "text"),
    Column("seats", "int"),
    Column("purchase_price", "float"),
    Column("purchased_at", "time"),
    Column("holder", "text"),
)
CONTRACT_COLUMNS = (
    Column("contract_id", "text"),
    Column("signed_seq", "int"),
    Column("signed_at", "time"),
    Column("signed_vendor_idx", "int"),
    Column("signed_vendor", "text"),
    Column("vendor_idx", "int"),
    Column("vendor", "text"),
    Column("term_start", "time"),
    Column("term_months", "int"),
    Column("renewals", "int"),
    Column("notice_days", "int"),
    Column("annual_value", "float"),
)


def user_step(row: Row | None, event: Event) -> Row | None:
    """A row of `USER_COLUMNS`; leavers stay, inactive and in their last cost center, until they are hired again."""
    payload = event.payload
    if isinstance(payload, ev.UserHired):
        return (event.entity_id, payload.cost_center_id, True, event.at, None)
    if row is None:
        return None
    if isinstance(payload, ev.UserMovedCostCenter):
        return (row[0], payload.cost_center_id, *row[2:])
    return (row[0], row[1], False, row[3], event.at)


def new_holder(event: Event) -> str | None:
    """Who holds a licence after an event of `LICENSE_KINDS`; None: nobody."""
    payload = event.payload
    return payload.to if isinstance(payload, ev.LicenseAssigned | ev.LicenseReassigned) else None


def license_step(row: Row | None, event: Event) -> Row | None:
    """A row of `LICENSE_COLUMNS`; its purchase number is the purchase's seq, its holder None while nobody has it."""
    payload = event.payload
    if isinstance(payload, ev.LicensePurchased):
        bought = (payload.product_id, payload.seats, payload.unit_price_usd, event.at)
        return (event.entity_id, event.seq, *bought, None)
    return None if row is None else (*row[:6], new_holder(event))


def contract_step(row: Row | None, event: Event) -> Row | None:
    """A row of `CONTRACT_COLUMNS`. What a renewal does not say stays as it was."""
    payload = event.payload
    if isinstance(payload, ev.ContractSigned):
        vendor = payload.vendor or names.vendor_name(payload.vendor_idx)
        value = payload.annual_value_usd
        return (
            event.entity_id,
            event.seq,
            event.at,
            payload.vendor_idx,
            vendor,
            payload.vendor_idx,
            vendor,
            event.at,
            payload.term_months,
            0,
            payload.notice_days,
            names.estimated_annual_value(event.entity_id) if value is None else value,
        )
    if row is None:
        return None
    _, _, _, _, _, vendor_idx, vendor, _, _, renewals, notice_days, annual_value = row
    if payload.vendor_idx is not None:
        vendor_idx, vendor = payload.vendor_idx, names.vendor_name(payload.vendor_idx)
    return (
        *row[:5],
        vendor_idx,
        payload.vendor or vendor,
        event.at,
        payload.term_months,
        renewals + 1,
        notice_days if payload.notice_days is None else payload.notice_days,
        annual_value if payload.annual_value_usd is None else payload.annual_value_usd,
    )
