"""The stress process: the published rates, spread over the day, in an estate that stays alive.

Vendors and contract values are carried by the events and drift with the renewals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta

from churnbench.events import Event
from churnbench_sam import _events as ev
from churnbench_sam import _names as names
from churnbench_sam._estate import Estate
from churnbench_sam._params import LivingParameters, Rate, Share
from churnbench_sam._timeline import Stream

__all__ = ["StressParameters", "stress_events"]


class StressParameters(LivingParameters, frozen=True, kw_only=True):
    """The parameters of the stress process."""

    # Contracts that start a new term a day.
    renewals_per_day: Rate
    # Share of renewals that go to another vendor.
    vendor_change_share: Share
    # Standard deviation of the relative change of a contract's value at a renewal; its mean is 0.
    value_change_sd: Rate
    # No contract's value falls below this, US dollars a year.
    value_floor_usd: Annotated[float, Meta(ge=0, le=1e12)]


def stress_events(params: StressParameters, seed: int) -> Iterator[Event]:
    """The events of one world, in order, made as they are read.

    Args:
        params: counts and rates.
        seed: of the generator, at least 0.
    """
    return _Stress(params, seed).run()


class _Stress(Estate):
    def __init__(self, params: StressParameters, seed: int) -> None:
        super().__init__(params, seed)
        self.params = params
        self.vendors: list[int] = []
        self.values: list[float] = []

    def streams(self) -> Sequence[Stream]:
        params = self.params
        return (
            Stream(params.hires_per_day, self.hire),
            Stream(params.offboards_per_day, self.offboard),
            Stream(params.reassignments_per_day, self.reassign),
            Stream(params.price_changes_per_day, self.change_price),
            Stream(params.renewals_per_day, self._renew),
            Stream(params.cost_center_moves_per_day, self.move),
            Stream(params.consumption_per_day, self._consume, exact=True),
        )

    def before_start(self) -> Iterator[Event]:
        yield from self.first_prices()
        for number in range(self.params.contracts):
            vendor = self.below(self.params.vendors)
            value = self.amount(self.params.value_low_usd, self.params.value_high_usd)
            self.vendors.append(vendor)
            self.values.append(value)
            signed = ev.ContractSigned(vendor, self._term(), names.vendor_name(vendor), value)
            yield self.event("contract_signed", "contract", names.contract_id(number), signed)

    def _term(self) -> int:
        return self.params.terms_months[self.below(len(self.params.terms_months))]

    def _renew(self) -> Iterator[Event]:
        if not self.vendors:
            return
        number = self.below(len(self.vendors))
        change = float(self.rng.normal(0, self.params.value_change_sd))
        self.values[number] = max(self.params.value_floor_usd, round(self.values[number] * (1 + change), 2))
        vendor, vendor_name = None, None
        if self.rng.random() < self.params.vendor_change_share and self.params.vendors > 1:
            place = self.below(self.params.vendors - 1)
            vendor = self.vendors[number] = place + (place >= self.vendors[number])
            vendor_name = names.vendor_name(vendor)
        renewed = ev.ContractRenewed(self._term(), vendor, vendor_name, self.values[number])
        yield self.event("contract_renewed", "contract", names.contract_id(number), renewed)

    def _consume(self) -> Iterator[Event]:
        """As published: who uses what has nothing to do with the licences."""
        if self.users:
            yield self.use(self.users[self.pick(len(self.users))], self.pick(len(self.products)))
