"""The Poisson process: every entity changes by itself, at a constant rate, whatever the others do.

So what a copy of age `a` days gets wrong is known in closed form, and a benchmark can be checked against it.
With `r` the entity's rate a day:

- a price or a contract's value only rises, by more than the 1 % within which answers count as right: a copy is
  wrong with probability 1 - exp(-r a), where `r` counts prices' changes or contracts' renewals;
- a cost center, and a holder where no licence is ever free, jumps to one of the m - 1 others alike: wrong with
  probability (1 - 1/m) (1 - exp(-r a m / (m - 1))); the vendor too, with `r` the renewals times the share that
  change it; a user's status is the case m = 2, (1 - exp(-2 r a)) / 2.

These are the transition probabilities of continuous-time Markov chains with equal rates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from msgspec import Meta

from churnbench.events import Event
from churnbench_sam import _events as ev
from churnbench_sam import _names as names
from churnbench_sam._params import Money, Parameters, Rate, Share
from churnbench_sam._timeline import Stream, Timeline

__all__ = ["PoissonParameters", "poisson_events"]


class PoissonParameters(Parameters, frozen=True, kw_only=True):
    """The parameters of the Poisson process: rates a day of one entity."""

    # Leavings and returns of a user.
    status_flips_per_user_day: Rate
    # Moves of a user, active or not, to another cost center.
    cost_center_moves_per_user_day: Rate
    # Changes of a licence's holder, to nobody and back included.
    holder_changes_per_license_day: Rate
    # Share of the changes of a held licence that leave it without a holder.
    free_share: Share
    # Price rises of a product.
    price_changes_per_product_day: Rate
    # New terms of a contract.
    renewals_per_contract_day: Rate
    # Share of the renewals that go to another vendor.
    vendor_change_share: Share
    # Smallest relative rise of a price, or of a contract's value.
    rise_low: Annotated[float, Meta(ge=0.02, le=1e3)]
    # Largest relative rise.
    rise_high: Annotated[float, Meta(ge=0.02, le=1e3)]
    # Lowest first value of a contract, US dollars a year.
    value_low_usd: Money
    # Highest first value of a contract, US dollars a year.
    value_high_usd: Money
    # Sessions of an active user, of any product.
    sessions_per_user_day: Rate

    def __post_init__(self) -> None:
        super().__post_init__()
        self._not_above("rise_low", "rise_high")
        self._not_above("value_low_usd", "value_high_usd")


def poisson_events(params: PoissonParameters, seed: int) -> Iterator[Event]:
    """The events of one world, in order, made as they are read.

    Args:
        params: counts and rates.
        seed: of the generator, at least 0.
    """
    return _Poisson(params, seed).run()


class _Poisson:
    """Entities are numbers, as many as on the first day, for good."""

    def __init__(self, params: PoissonParameters, seed: int) -> None:
        self.params = params
        self.rng = np.random.default_rng(seed)
        self.timeline = Timeline(params, self.rng)
        self.at_ms = self.timeline.start_ms
        self.seq = 0
        self.products = [names.product_id(number) for number in range(params.products)]
        self.users = [names.user_id(number) for number in range(params.users)]
        self.licenses = [names.license_id(number) for number in range(params.licenses)]
        self.contracts = [names.contract_id(number) for number in range(params.contracts)]
        self.prices: list[float] = []
        self.values: list[float] = []
        self.vendors: list[int] = []
        self.cost_centers: list[int] = []
        self.active = [True] * params.users
        self.product_of: list[int] = []
        self.holder: list[int | None] = []

    def run(self) -> Iterator[Event]:
        params = self.params
        yield from self._first_day()
        streams = (
            Stream(params.users * params.status_flips_per_user_day, self._flip),
            Stream(params.users * params.cost_center_moves_per_user_day, self._move),
            Stream(params.licenses * params.holder_changes_per_license_day, self._change_holder),
            Stream(params.products * params.price_changes_per_product_day, self._raise_price),
            Stream(params.contracts * params.renewals_per_contract_day, self._renew),
            Stream(params.users * params.sessions_per_user_day, self._use),
        )
        for at_ms, action in self.timeline.run(streams):
            self.at_ms = at_ms
            yield from action()

    def _event(self, kind: str, entity_type: str, entity_id: str, payload: ev.Payload) -> Event:
        event = Event(self.seq, self.at_ms, kind, entity_type, entity_id, payload)
        self.seq += 1
        return event

    def _below(self, size: int) -> int:
        return int(self.rng.random() * size)

    def _other(self, size: int, than: int) -> int:
        """One of `size` numbers other than `than`, each alike; `than` where there is no other."""
        if size < 2:
            return than
        place = self._below(size - 1)
        return place + (place >= than)

    def _amount(self, low: float, high: float) -> float:
        return round(low + (high - low) * self.rng.random(), 2)

    def _risen(self, amount: float) -> float:
        params = self.params
        rise = params.rise_low + (params.rise_high - params.rise_low) * self.rng.random()
        return max(round(amount * (1 + rise), 2), round(amount + 0.01, 2))

    def _term(self) -> int:
        return self.params.terms_months[self._below(len(self.params.terms_months))]

    def _first_day(self) -> Iterator[Event]:
        params = self.params
        for product in self.products:
            self.prices.append(self._amount(params.price_low_usd, params.price_high_usd))
            yield self._event("price_changed", "product", product, ev.PriceChanged(self.prices[-1], reason="initial"))
        for contract in self.contracts:
            self.vendors.append(self._below(params.vendors))
            self.values.append(self._amount(params.value_low_usd, params.value_high_usd))
            vendor = names.vendor_name(self.vendors[-1])
            signed = ev.ContractSigned(self.vendors[-1], self._term(), vendor, self.values[-1])
            yield self._event("contract_signed", "contract", contract, signed)
        for user in self.users:
            self.cost_centers.append(self._below(params.cost_centers))
            hired = ev.UserHired(names.cost_center_id(self.cost_centers[-1]))
            yield self._event("user_hired", "user", user, hired)
        for number, license_id in enumerate(self.licenses):
            kind, holder = self._below(params.products), number % params.users
            self.product_of.append(kind)
            self.holder.append(holder)
            bought = ev.LicensePurchased(self.products[kind], params.seats_per_license, self.prices[kind])
            yield self._event("license_purchased", "license", license_id, bought)
            given = ev.LicenseAssigned(self.users[holder], self.products[kind])
            yield self._event("license_assigned", "license", license_id, given)

    def _flip(self) -> Iterator[Event]:
        user = self._below(len(self.users))
        self.active[user] = not self.active[user]
        if self.active[user]:
            back = ev.UserHired(names.cost_center_id(self.cost_centers[user]))
            yield self._event("user_hired", "user", self.users[user], back)
        else:
            yield self._event("user_offboarded", "user", self.users[user], ev.UserOffboarded())

    def _move(self) -> Iterator[Event]:
        user = self._below(len(self.users))
        self.cost_centers[user] = self._other(self.params.cost_centers, self.cost_centers[user])
        moved = ev.UserMovedCostCenter(names.cost_center_id(self.cost_centers[user]))
        yield self._event("user_moved_cost_center", "user", self.users[user], moved)

    def _change_holder(self) -> Iterator[Event]:
        number = self._below(len(self.licenses))
        license_id, before = self.licenses[number], self.holder[number]
        if before is None:
            after = self.holder[number] = self._below(len(self.users))
            given = ev.LicenseAssigned(self.users[after], self.products[self.product_of[number]])
            yield self._event("license_assigned", "license", license_id, given)
        elif self.rng.random() < self.params.free_share:
            self.holder[number] = None
            taken = ev.LicenseUnassigned(self.users[before], "returned")
            yield self._event("license_unassigned", "license", license_id, taken)
        else:
            after = self.holder[number] = self._other(len(self.users), before)
            moved = ev.LicenseReassigned(self.users[before], self.users[after])
            yield self._event("license_reassigned", "license", license_id, moved)

    def _raise_price(self) -> Iterator[Event]:
        product = self._below(len(self.products))
        before = self.prices[product]
        after = self.prices[product] = self._risen(before)
        changed = ev.PriceChanged(after, before, round(after / before - 1, 4) if before else None)
        yield self._event("price_changed", "product", self.products[product], changed)

    def _renew(self) -> Iterator[Event]:
        number = self._below(len(self.contracts))
        self.values[number] = self._risen(self.values[number])
        vendor, name = None, None
        if self.rng.random() < self.params.vendor_change_share and self.params.vendors > 1:
            vendor = self.vendors[number] = self._other(self.params.vendors, self.vendors[number])
            name = names.vendor_name(vendor)
        renewed = ev.ContractRenewed(self._term(), vendor, name, self.values[number])
        yield self._event("contract_renewed", "contract", self.contracts[number], renewed)

    def _use(self) -> Iterator[Event]:
        """Each user has a process of sessions; those of an inactive one do not happen."""
        params, user = self.params, self._below(len(self.users))
        if self.active[user]:
            minutes = params.session_minutes_low + self._below(params.session_minutes_high - params.session_minutes_low)
            calls = params.api_calls_low + self._below(params.api_calls_high - params.api_calls_low)
            used = ev.ConsumptionLogged(self.products[self._below(len(self.products))], minutes, calls)
            yield self._event("consumption_logged", "user", self.users[user], used)
