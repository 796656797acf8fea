"""The reference process: the published simulator, draw for draw.

Each draw is one scalar call on one PCG64 generator, in a fixed order, so the same parameters and seed give
the same events to the byte. No step costs more than the logarithm of the estate (and the move of a few
kilobytes): users and held licences are kept as ascending numbers, in which a place is found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, time

import numpy as np

from churnbench.events import Event, to_millis
from churnbench_sam import _events as ev
from churnbench_sam import _names as names
from churnbench_sam._params import ReferenceParameters

__all__ = ["reference_events"]

_DAY_MS = 86_400_000


def reference_events(params: ReferenceParameters, seed: int) -> Iterator[Event]:
    """The events of one world, in order, made as they are read.

    Args:
        params: counts and rates.
        seed: of the generator, at least 0.
    """
    return _Reference(params, seed).run()


class _Reference:
    """The state of the estate while it is simulated. Entities are numbers; texts are made once each."""

    def __init__(self, params: ReferenceParameters, seed: int) -> None:
        self.params = params
        self.rng = np.random.default_rng(seed)
        self.seq = 0
        self.at_ms = to_millis(datetime.combine(params.start, time(), UTC))
        self.cost_centers = [names.cost_center_id(number) for number in range(params.cost_centers)]
        self.products = [names.product_id(number) for number in range(params.products)]
        self.contracts = [names.contract_id(number) for number in range(params.contracts)]
        self.licenses = [names.license_id(number) for number in range(params.licenses)]
        self.prices: list[float] = []
        self.user_ids: list[str] = []  # of everybody ever hired
        self.users: list[int] = []  # active, ascending
        self.held: list[int] = []  # licences with a holder, ascending
        self.holder: dict[int, int] = {}
        self.holdings: dict[int, set[int]] = {}

    def run(self) -> Iterator[Event]:
        params, poisson = self.params, self.rng.poisson
        yield from self._first_day()
        streams = (
            (params.hires_per_day, self._hire),
            (params.offboards_per_day, self._offboard),
            (params.reassignments_per_day, self._reassign),
            (params.price_changes_per_day, self._change_price),
            (params.renewals_per_day, self._renew),
            (params.cost_center_moves_per_day, self._move),
        )
        for _ in range(params.days):
            counts = [int(poisson(rate)) for rate, _ in streams]
            for count, (_, action) in zip(counts, streams, strict=True):
                for _ in range(count):
                    yield from action()
            yield from self._consume()
            self.at_ms += _DAY_MS

    def _event(self, kind: str, entity_type: str, entity_id: str, payload: ev.Payload) -> Event:
        event = Event(self.seq, self.at_ms, kind, entity_type, entity_id, payload)
        self.seq += 1
        return event

    def _head(self, size: int) -> int:
        """How many items of a list of `size` a skewed pick chooses from."""
        if size < self.params.skew_min_items:
            return size
        return max(1, int(size * self.params.skew_head))

    def _pick(self, size: int) -> int:
        """A skewed place in a list of `size`."""
        top = self._head(size) if self.rng.random() < self.params.skew_share else size
        return int(self.rng.integers(0, top))

    def _term(self) -> int:
        return int(self.rng.choice(self.params.terms_months))

    def _first_day(self) -> Iterator[Event]:
        params, rng = self.params, self.rng
        for product in self.products:
            price = round(float(rng.uniform(params.price_low_usd, params.price_high_usd)), 2)
            self.prices.append(price)
            yield self._event("price_changed", "product", product, ev.PriceChanged(price, reason="initial"))
        for contract in self.contracts:
            vendor = int(rng.integers(0, params.vendors))
            yield self._event("contract_signed", "contract", contract, ev.ContractSigned(vendor, self._term()))
        for _ in range(params.users):
            yield from self._hire()
        for number, license_id in enumerate(self.licenses):
            product_number = int(rng.integers(0, params.products))
            product, price = self.products[product_number], self.prices[product_number]
            bought = ev.LicensePurchased(product, params.seats_per_license, price)
            yield self._event("license_purchased", "license", license_id, bought)
            user = number % params.users
            self.held.append(number)
            self.holder[number] = user
            self.holdings.setdefault(user, set()).add(number)
            assigned = ev.LicenseAssigned(self.user_ids[user], product)
            yield self._event("license_assigned", "license", license_id, assigned)

    def _hire(self) -> Iterator[Event]:
        cost_center = self.cost_centers[int(self.rng.integers(0, len(self.cost_centers)))]
        user = len(self.user_ids)
        self.user_ids.append(names.user_id(user))
        self.users.append(user)
        yield self._event("user_hired", "user", self.user_ids[user], ev.UserHired(cost_center))

    def _offboard(self) -> Iterator[Event]:
        if not self.users:
            return
        user = self.users.pop(self._pick(len(self.users)))
        user_id = self.user_ids[user]
        for number in sorted(self.holdings.pop(user, ())):
            del self.holder[number]
            del self.held[bisect_left(self.held, number)]
            taken = ev.LicenseUnassigned(user_id, "offboard")
            yield self._event("license_unassigned", "license", self.licenses[number], taken)
        yield self._event("user_offboarded", "user", user_id, ev.UserOffboarded())

    def _reassign(self) -> Iterator[Event]:
        if not self.held or len(self.users) < 2:
            return
        number = self.held[self._pick(len(self.held))]
        before = self.holder[number]
        place = self._pick(len(self.users) - 1)
        # Leaving out the present holder moves everybody behind them one place forward.
        after = self.users[place + (place >= bisect_left(self.users, before))]
        self.holdings[before].discard(number)
        self.holdings.setdefault(after, set()).add(number)
        self.holder[number] = after
        moved = ev.LicenseReassigned(self.user_ids[before], self.user_ids[after])
        yield self._event("license_reassigned", "license", self.licenses[number], moved)

    def _change_price(self) -> Iterator[Event]:
        product = self._pick(len(self.products))
        change = float(self.rng.normal(0, self.params.price_change_sd))
        before = self.prices[product]
        after = max(self.params.price_floor_usd, round(before * (1 + change), 2))
        self.prices[product] = after
        changed = ev.PriceChanged(after, before, round(change, 4))
        yield self._event("price_changed", "product", self.products[product], changed)

    def _renew(self) -> Iterator[Event]:
        if not self.contracts:
            return
        contract = self.contracts[int(self.rng.integers(0, len(self.contracts)))]
        yield self._event("contract_renewed", "contract", contract, ev.ContractRenewed(self._term()))

    def _move(self) -> Iterator[Event]:
        if not self.users:
            return
        user = self.users[int(self.rng.integers(0, len(self.users)))]
        cost_center = self.cost_centers[int(self.rng.integers(0, len(self.cost_centers)))]
        moved = ev.UserMovedCostCenter(cost_center)
        yield self._event("user_moved_cost_center", "user", self.user_ids[user], moved)

    def _consume(self) -> Iterator[Event]:
        """The day's sessions. Nearly all events are made here, so the loop holds everything in locals."""
        if not self.users:
            return
        params, users, user_ids, products = self.params, self.users, self.user_ids, self.products
        random, integers, share = self.rng.random, self.rng.integers, params.skew_share
        size, head = len(users), self._head(len(users))
        product_size, product_head = len(products), self._head(len(products))
        minutes_low, minutes_high = params.session_minutes_low, params.session_minutes_high
        calls_low, calls_high = params.api_calls_low, params.api_calls_high
        at_ms = self.at_ms
        first, self.seq = self.seq, self.seq + params.consumption_per_day
        for seq in range(first, self.seq):
            user = users[integers(0, head if random() < share else size)]
            product = products[integers(0, product_head if random() < share else product_size)]
            minutes = int(integers(minutes_low, minutes_high))
            used = ev.ConsumptionLogged(product, minutes, int(integers(calls_low, calls_high)))
            yield Event(seq, at_ms, "consumption_logged", "user", user_ids[user], used)
