"""An estate that stays alive: what happens to users, licences and prices where events are spread over the day.

Entities are numbers; texts are made once each. Users, holders and held licences are kept as sorted lists, in
which no place costs more than the logarithm of the estate.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from sortedcontainers import SortedList

from churnbench.events import Event
from churnbench.registry import DAY_MS
from churnbench_sam import _events as ev
from churnbench_sam import _names as names
from churnbench_sam._params import LivingParameters
from churnbench_sam._timeline import Stream, Timeline

__all__ = ["Estate"]


class Estate(ABC):
    """The state of an estate while it is simulated, and its changes.

    A licence of a leaver stays with them until it is taken back; meanwhile nobody else can get it. A licence
    that was taken back goes to the next new user who needs its product.
    """

    def __init__(self, params: LivingParameters, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.timeline = Timeline(params, self.rng)
        self.at_ms = self.timeline.start_ms
        self._estate = params
        self._seq = 0
        self.cost_centers = [names.cost_center_id(number) for number in range(params.cost_centers)]
        self.products = [names.product_id(number) for number in range(params.products)]
        self.prices: list[float] = []
        self.user_ids: list[str] = []  # of everybody ever hired
        self.users: SortedList[int] = SortedList()  # active
        self.holders: SortedList[int] = SortedList()  # active, with a licence
        self.license_ids: list[str] = []
        self.product_of: list[int] = []  # of each licence
        self.held: SortedList[int] = SortedList()  # licences that an active user holds
        self.holder: dict[int, int] = {}
        self.holdings: dict[int, list[int]] = {}  # of active users, ascending
        self.free: dict[int, list[int]] = {}  # product -> heap of licences without a holder

    def run(self) -> Iterator[Event]:
        """All events, in order."""
        yield from self.before_start()
        self.at_ms = self.timeline.start_ms
        yield from self._first_users()
        for at_ms, action in self.timeline.run(self.streams()):
            self.at_ms = at_ms
            yield from action()

    @abstractmethod
    def before_start(self) -> Iterator[Event]:
        """Contracts, and prices by `first_prices`."""

    @abstractmethod
    def streams(self) -> Sequence[Stream]:
        """What happens again and again."""

    def contract_of(self, product: int) -> str | None:
        """The contract under which a product is bought now; None where that is not kept."""
        return None

    # -- draws --------------------------------------------------------------------------------------------

    def event(self, kind: str, entity_type: str, entity_id: str, payload: ev.Payload) -> Event:
        """The next event, at the present time."""
        event = Event(self._seq, self.at_ms, kind, entity_type, entity_id, payload)
        self._seq += 1
        return event

    def below(self, size: int) -> int:
        """A whole number from 0 to size - 1, each alike; `size` is at least 1 and far below 2**53."""
        return int(self.rng.random() * size)

    def amount(self, low: float, high: float) -> float:
        """An amount of money between two others, to the cent."""
        return round(low + (high - low) * self.rng.random(), 2)

    def pick(self, size: int) -> int:
        """A skewed place in a list of `size`."""
        params = self._estate
        if self.rng.random() < params.skew_share and size >= params.skew_min_items:
            size = max(1, int(size * params.skew_head))
        return self.below(size)

    # -- the first day ------------------------------------------------------------------------------------

    def first_prices(self) -> Iterator[Event]:
        """A price for each product."""
        for product in self.products:
            price = self.amount(self._estate.price_low_usd, self._estate.price_high_usd)
            self.prices.append(price)
            yield self.event("price_changed", "product", product, ev.PriceChanged(price, reason="initial"))

    def _first_users(self) -> Iterator[Event]:
        for _ in range(self._estate.users):
            yield self._join()
        for number in range(self._estate.licenses):
            yield from self._provide(number % self._estate.users)

    # -- users --------------------------------------------------------------------------------------------

    def _join(self) -> Event:
        user = len(self.user_ids)
        self.user_ids.append(names.user_id(user))
        self.users.add(user)
        cost_center = self.cost_centers[self.below(len(self.cost_centers))]
        return self.event("user_hired", "user", self.user_ids[user], ev.UserHired(cost_center))

    def hire(self) -> Iterator[Event]:
        """A new user, with licences."""
        yield self._join()
        whole, rest = divmod(self._estate.licenses_per_hire, 1)
        for _ in range(int(whole) + (self.rng.random() < rest)):
            yield from self._provide(len(self.user_ids) - 1)

    def offboard(self) -> Iterator[Event]:
        """A user leaves, skewed to those hired first; their licences are taken back after a drawn lag."""
        if not self.users:
            return
        user: int = self.users.pop(self.pick(len(self.users)))
        kept = self.holdings.pop(user, [])
        for number in kept:
            self.held.remove(number)
        if kept:
            self.holders.remove(user)
            self.timeline.put_off(self._reclaim_ms(), partial(self._take_back, kept))
        yield self.event("user_offboarded", "user", self.user_ids[user], ev.UserOffboarded())

    def _reclaim_ms(self) -> int:
        """When the licences of somebody who leaves now are taken back."""
        params, now = self._estate, self.at_ms
        next_day, week = now - now % DAY_MS + DAY_MS, now + 7 * DAY_MS
        turn = self.rng.random()
        if turn < params.reclaim_same_day_share:
            return now + self.below(next_day - now)
        if turn < params.reclaim_same_day_share + params.reclaim_week_share:
            return next_day + self.below(week - next_day + 1)
        return week + 1 + self.below((params.reclaim_longest_days - 7) * DAY_MS)

    def move(self) -> Iterator[Event]:
        """A user is put into a cost center, which may be the one before; not skewed."""
        if not self.users:
            return
        user = self.users[self.below(len(self.users))]
        moved = ev.UserMovedCostCenter(self.cost_centers[self.below(len(self.cost_centers))])
        yield self.event("user_moved_cost_center", "user", self.user_ids[user], moved)

    def use(self, user: int, product: int) -> Event:
        """A session."""
        params = self._estate
        minutes = params.session_minutes_low + self.below(params.session_minutes_high - params.session_minutes_low)
        calls = params.api_calls_low + self.below(params.api_calls_high - params.api_calls_low)
        used = ev.ConsumptionLogged(self.products[product], minutes, calls)
        return self.event("consumption_logged", "user", self.user_ids[user], used)

    # -- licences -----------------------------------------------------------------------------------------

    def _provide(self, user: int) -> Iterator[Event]:
        """A licence of any product for a user: one that was taken back, else a new one."""
        product = self.below(len(self.products))
        free = self.free.get(product)
        if free:
            number = heapq.heappop(free)
        else:
            number = len(self.license_ids)
            self.license_ids.append(names.license_id(number))
            self.product_of.append(product)
            seats, contract = self._estate.seats_per_license, self.contract_of(product)
            bought = ev.LicensePurchased(self.products[product], seats, self.prices[product], contract)
            yield self.event("license_purchased", "license", self.license_ids[number], bought)
        self.held.add(number)
        self._give(number, user)
        given = ev.LicenseAssigned(self.user_ids[user], self.products[product])
        yield self.event("license_assigned", "license", self.license_ids[number], given)

    def _give(self, number: int, user: int) -> None:
        holdings = self.holdings.setdefault(user, [])
        if not holdings:
            self.holders.add(user)
        insort(holdings, number)
        self.holder[number] = user

    def _take_back(self, numbers: Sequence[int]) -> Iterator[Event]:
        for number in numbers:
            heapq.heappush(self.free.setdefault(self.product_of[number], []), number)
            taken = ev.LicenseUnassigned(self.user_ids[self.holder.pop(number)], "offboard")
            yield self.event("license_unassigned", "license", self.license_ids[number], taken)

    def reassign(self) -> Iterator[Event]:
        """A licence goes from one active user to another; both picks are skewed."""
        if not self.held or len(self.users) < 2:
            return
        number = self.held[self.pick(len(self.held))]
        before = self.holder[number]
        place = self.pick(len(self.users) - 1)
        # Leaving out the present holder moves everybody behind them one place forward.
        after = self.users[place + (place >= self.users.bisect_left(before))]
        left = self.holdings[before]
        del left[bisect_left(left, number)]
        if not left:
            del self.holdings[before]
            self.holders.remove(before)
        self._give(number, after)
        moved = ev.LicenseReassigned(self.user_ids[before], self.user_ids[after])
        yield self.event("license_reassigned", "license", self.license_ids[number], moved)

    # -- prices -------------------------------------------------------------------------------------------

    def change_price(self) -> Iterator[Event]:
        """The list price of a product changes; the pick is skewed."""
        change = float(self.rng.normal(0, self._estate.price_change_sd))
        yield self.reprice(self.pick(len(self.products)), change)

    def reprice(self, product: int, change: float, reason: str | None = None, contract: str | None = None) -> Event:
        """A product's price changes by a share of it."""
        before = self.prices[product]
        after = max(self._estate.price_floor_usd, round(before * (1 + change), 2))
        self.prices[product] = after
        changed = ev.PriceChanged(after, before, round(change, 4), reason, contract)
        return self.event("price_changed", "product", self.products[product], changed)
