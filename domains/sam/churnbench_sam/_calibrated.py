"""The calibrated process: an estate of which as many figures as possible are those of real ones.

Contracts run out and are renewed or lapse; prices change with renewals; people use the licences they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import fsum
from typing import Annotated

from msgspec import Meta

from churnbench.errors import UsageError
from churnbench.events import Event
from churnbench.registry import DAY_MS
from churnbench_sam import _events as ev
from churnbench_sam import _names as names
from churnbench_sam._estate import Estate
from churnbench_sam._params import SHARES_TOLERANCE, LivingParameters, Rate, Share, Some
from churnbench_sam._timeline import Stream

__all__ = ["IDLE_BAND", "CalibratedParameters", "calibrated_events"]

IDLE_BAND = (0.35, 0.50)
"""Between which the share of held licences that nobody used for 30 days is meant to come out."""

_MONTH_MS = 30 * DAY_MS


class CalibratedParameters(LivingParameters, frozen=True, kw_only=True):
    """The parameters of the calibrated process."""

    # Share of the new terms that last as long as each of terms_months.
    terms_shares: Annotated[tuple[Share, ...], Meta(min_length=1)]
    # Days of notice of a contract, equally likely.
    notice_days: Annotated[tuple[Some, ...], Meta(min_length=1)]
    # Share of expiring contracts that are renewed; the others lapse and another vendor's contract follows.
    renewal_share: Share
    # Share of renewals at which the prices under the contract, and its value, change.
    renewal_price_share: Share
    # Mean of the relative change at these.
    renewal_price_mean: Annotated[float, Meta(ge=-1, le=1e3)]
    # Its standard deviation.
    renewal_price_sd: Rate

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.terms_shares) != len(self.terms_months):
            raise UsageError(
                f"terms_shares has {len(self.terms_shares)} shares and terms_months {len(self.terms_months)} terms: "
                "give one share for each term"
            )
        if abs(fsum(self.terms_shares) - 1) > SHARES_TOLERANCE:
            raise UsageError(f"terms_shares add up to {fsum(self.terms_shares):g}: they must add up to 1")

    @property
    def mean_term_months(self) -> float:
        """Mean of a new term, months of 30 days."""
        return fsum(share * term for share, term in zip(self.terms_shares, self.terms_months, strict=True))

    @property
    def expiries_per_contract_year(self) -> float:
        """Terms that end in a year (365 days) of one contract, on average: a renewal process's rate."""
        return 365 / (30 * self.mean_term_months)

    @property
    def idle_share(self) -> float:
        """The middle of `IDLE_BAND`; it follows from the use, and nothing draws it."""
        return sum(IDLE_BAND) / 2


def calibrated_events(params: CalibratedParameters, seed: int) -> Iterator[Event]:
    """The events of one world, in order, made as they are read.

    The first events are those of contracts signed before the world's start, at their own dates.

    Args:
        params: counts and rates.
        seed: of the generator, at least 0.
    """
    return _Calibrated(params, seed).run()


class _Calibrated(Estate):
    def __init__(self, params: CalibratedParameters, seed: int) -> None:
        super().__init__(params, seed)
        self.params = params
        self.contract_ids: list[str] = []
        self.vendors: list[int] = []
        self.values: list[float] = []
        self.covers: list[list[int]] = []  # products bought under each contract
        self.covered_by: dict[int, int] = {}

    def streams(self) -> Sequence[Stream]:
        params = self.params
        return (
            Stream(params.hires_per_day, self.hire),
            Stream(params.offboards_per_day, self.offboard),
            Stream(params.reassignments_per_day, self.reassign),
            Stream(params.price_changes_per_day, self.change_price),
            Stream(params.cost_center_moves_per_day, self.move),
            Stream(params.consumption_per_day, self._consume, exact=True),
        )

    def contract_of(self, product: int) -> str | None:
        number = self.covered_by.get(product)
        return None if number is None else self.contract_ids[number]

    def before_start(self) -> Iterator[Event]:
        """Contracts in the order of their signing, then prices at the start.

        Whoever looks at a renewal process at some instant sees a term with a chance in proportion to its
        length, and every place in it alike (the inspection paradox).
        """
        params, start_ms = self.params, self.timeline.start_ms
        lengths = [share * term for share, term in zip(params.terms_shares, params.terms_months, strict=True)]
        signings = []
        for _ in range(params.contracts):
            term = self._drawn(lengths)
            signings.append((start_ms - 1 - self.below(term * _MONTH_MS), term))
        for number, (self.at_ms, term) in enumerate(sorted(signings)):
            products = list(range(number, params.products, params.contracts))
            yield self._sign(self.below(params.vendors), term, products)
        self.at_ms = start_ms
        yield from self.first_prices()

    def _drawn(self, weights: Sequence[float]) -> int:
        """One of the terms."""
        turn = self.rng.random() * fsum(weights)
        for term, weight in zip(self.params.terms_months, weights, strict=True):
            turn -= weight
            if turn < 0:
                return term
        return max(term for term, weight in zip(self.params.terms_months, weights, strict=True) if weight)

    def _sign(self, vendor: int, term: int, products: list[int]) -> Event:
        params, number = self.params, len(self.contract_ids)
        self.contract_ids.append(names.contract_id(number))
        self.vendors.append(vendor)
        self.values.append(self.amount(params.value_low_usd, params.value_high_usd))
        self.covers.append(products)
        self.covered_by.update(dict.fromkeys(products, number))
        self._expires(number, term)
        notice = params.notice_days[self.below(len(params.notice_days))]
        signed = ev.ContractSigned(vendor, term, names.vendor_name(vendor), self.values[number], notice)
        return self.event("contract_signed", "contract", self.contract_ids[number], signed)

    def _expires(self, number: int, term: int) -> None:
        self.timeline.put_off(self.at_ms + term * _MONTH_MS, partial(self._expire, number))

    def _expire(self, number: int) -> Iterator[Event]:
        """At the end of a term: the next one, or nothing but another contract for the same products."""
        params, term = self.params, self._drawn(self.params.terms_shares)
        if self.rng.random() >= params.renewal_share:
            place, before = self.below(max(1, params.vendors - 1)), self.vendors[number]
            vendor = place + (place >= before) if params.vendors > 1 else before
            products, self.covers[number] = self.covers[number], []
            yield self._sign(vendor, term, products)
            return
        self._expires(number, term)
        contract, value, change = self.contract_ids[number], None, 0.0
        if self.rng.random() < params.renewal_price_share:
            change = max(-1.0, float(self.rng.normal(params.renewal_price_mean, params.renewal_price_sd)))
            value = self.values[number] = round(self.values[number] * (1 + change), 2)
        renewed = ev.ContractRenewed(term, annual_value_usd=value)
        yield self.event("contract_renewed", "contract", contract, renewed)
        if value is not None:
            for product in self.covers[number]:
                yield self.reprice(product, change, "renewal", contract)

    def _consume(self) -> Iterator[Event]:
        """A skewed pick of those who hold a licence, and of their licences."""
        if self.holders:
            user = self.holders[self.pick(len(self.holders))]
            holdings = self.holdings[user]
            yield self.use(user, self.product_of[holdings[self.pick(len(holdings))]])
