"""The kinds of event of software asset management, a Struct each.

Fields stand in the order in which they are written. A field that defaults to None is left out of the
encoding while it is None: presets whose events say more fill it, and the bytes of the others stay as
they are. New fields go to the end, with the default None.
"""

from __future__ import annotations

import msgspec

from churnbench.events import EventKind

__all__ = [
    "KINDS",
    "ConsumptionLogged",
    "ContractRenewed",
    "ContractSigned",
    "LicenseAssigned",
    "LicensePurchased",
    "LicenseReassigned",
    "LicenseUnassigned",
    "Payload",
    "PriceChanged",
    "UserHired",
    "UserMovedCostCenter",
    "UserOffboarded",
]


class Payload(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What all payloads have in common: only numbers and texts, no unknown fields, unset ones not written."""


class PriceChanged(Payload, frozen=True):
    """A product's list price, the first one included. Licences keep the price they were bought at.

    A change that a renewal brings about has the renewal's time and comes after it.

    Attributes:
        unit_price_usd: the new price, US dollars a seat and month.
        prev_price: the price before; None for the first.
        pct_change: the relative change (0.1 is 10 %), four decimals; None for the first.
        reason: `initial` for the first price, `renewal` for a change by a contract's renewal, else None.
        contract_id: the contract whose renewal changed the price, if one did.
    """

    unit_price_usd: float
    prev_price: float | None = None
    pct_change: float | None = None
    reason: str | None = None
    contract_id: str | None = None


class ContractSigned(Payload, frozen=True):
    """A contract begins, and its first term, at the time of the event.

    A contract that was in force when the world began may be dated before the world's start; such events come
    first, in the order of their times. A term ends 30 days times `term_months` after its beginning. If the
    contract is not renewed at that instant, it has lapsed; no event says so. The contract that follows a lapsed
    one has an id of its own.

    Attributes:
        vendor_idx: number of the vendor, from 0.
        term_months: the term in months of 30 days.
        vendor: the vendor's name; None where it follows from the number.
        annual_value_usd: what the contract is worth a year; None where it follows from the contract's id.
        notice_days: days before the expiry at which notice can last be given; None where nothing is agreed.
    """

    vendor_idx: int
    term_months: int
    vendor: str | None = None
    annual_value_usd: float | None = None
    notice_days: int | None = None


class ContractRenewed(Payload, frozen=True):
    """A new term begins, at the time of the event.

    Where contracts run out, that is the instant at which the term before ended, whenever the renewal was agreed.

    Attributes:
        term_months: the term in months of 30 days.
        vendor_idx: number of the vendor; None if unchanged.
        vendor: the vendor's name; None if unchanged.
        annual_value_usd: what the contract is worth a year; None if unchanged.
        notice_days: days of notice; None if unchanged.
    """

    term_months: int
    vendor_idx: int | None = None
    vendor: str | None = None
    annual_value_usd: float | None = None
    notice_days: int | None = None


class UserHired(Payload, frozen=True):
    """A user is active from now on, in `cost_center_id`: a new one, or one who had left and comes back."""

    cost_center_id: str


class UserOffboarded(Payload, frozen=True):
    """A user is active no longer.

    Licences that they hold stay with them until each is taken back or goes to somebody else.
    """


class UserMovedCostCenter(Payload, frozen=True):
    """A user belongs to `cost_center_id`, which may be the one before."""

    cost_center_id: str


class LicensePurchased(Payload, frozen=True):
    """A licence exists, without a holder.

    Attributes:
        product_id: the product that it licenses.
        seats: its seats.
        unit_price_usd: the product's price at the purchase, US dollars a seat and month.
        contract_id: the contract in force that covered the product at the purchase, where that is kept.
    """

    product_id: str
    seats: int
    unit_price_usd: float
    contract_id: str | None = None


class LicenseAssigned(Payload, frozen=True):
    """A licence without a holder gets one.

    Attributes:
        to: the new holder.
        product_id: the licence's product.
        seats: its seats, where the event repeats them.
        unit_price_usd: its purchase price, where the event repeats it.
    """

    to: str
    product_id: str
    seats: int | None = None
    unit_price_usd: float | None = None


class LicenseUnassigned(Payload, frozen=True):
    """A licence loses its holder.

    Attributes:
        prev_holder: who held it.
        reason: `offboard` (at the time of the offboarding, or after a lag), or why else.
        product_id: the licence's product, where the event repeats it.
        seats: its seats, where the event repeats them.
        unit_price_usd: its purchase price, where the event repeats it.
    """

    prev_holder: str
    reason: str
    product_id: str | None = None
    seats: int | None = None
    unit_price_usd: float | None = None


class LicenseReassigned(Payload, frozen=True):
    """A licence goes from one holder to another.

    Attributes:
        from_: who held it; written `from`.
        to: who holds it now.
        product_id: the licence's product, where the event repeats it.
        seats: its seats, where the event repeats them.
        unit_price_usd: its purchase price, where the event repeats it.
    """

    from_: str = msgspec.field(name="from")
    to: str
    product_id: str | None = None
    seats: int | None = None
    unit_price_usd: float | None = None


class ConsumptionLogged(Payload, frozen=True):
    """A user used a product.

    Attributes:
        product_id: the product.
        session_minutes: length of the session.
        api_calls: calls made in it.
    """

    product_id: str
    session_minutes: int
    api_calls: int


KINDS: tuple[EventKind, ...] = (
    EventKind("price_changed", "product", PriceChanged),
    EventKind("contract_signed", "contract", ContractSigned),
    EventKind("contract_renewed", "contract", ContractRenewed),
    EventKind("user_hired", "user", UserHired),
    EventKind("user_offboarded", "user", UserOffboarded),
    EventKind("user_moved_cost_center", "user", UserMovedCostCenter),
    EventKind("license_purchased", "license", LicensePurchased),
    EventKind("license_assigned", "license", LicenseAssigned),
    EventKind("license_unassigned", "license", LicenseUnassigned),
    EventKind("license_reassigned", "license", LicenseReassigned),
    EventKind("consumption_logged", "user", ConsumptionLogged),
)
"""Every kind of the domain, in the order in which an estate comes to life."""
