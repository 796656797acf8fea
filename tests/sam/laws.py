"""What holds of the events of any estate, kept as plainly as possible: breaking one is an AssertionError."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from churnbench.events import Event

DAY_MS = 86_400_000


class Checker:
    """A fold that refuses what cannot happen."""

    def __init__(self, *, returns: bool = False, to_anybody: bool = False) -> None:
        self.returns, self.to_anybody = returns, to_anybody
        self.users: dict[str, bool] = {}
        self.cost_center: dict[str, str] = {}
        self.product: dict[str, str] = {}
        self.holder: dict[str, str | None] = {}
        self.price: dict[str, float] = {}
        self.value: dict[str, float] = {}
        self.vendor: dict[str, str] = {}
        self.expiry: dict[str, int] = {}

    def holdings(self, user: str) -> set[str]:
        return {number for number, holder in self.holder.items() if holder == user}

    def check(self, events: Iterable[Event]) -> None:
        for event in events:
            getattr(self, event.kind)(event.entity_id, event.payload, event)

    def user_hired(self, user, payload, event):
        assert user not in self.users or (self.returns and not self.users[user])
        if user in self.users:
            assert payload.cost_center_id == self.cost_center[user]
        self.users[user] = True
        self.cost_center[user] = payload.cost_center_id

    def user_offboarded(self, user, payload, event):
        assert self.users[user]
        self.users[user] = False

    def user_moved_cost_center(self, user, payload, event):
        assert self.users[user] or self.returns
        self.cost_center[user] = payload.cost_center_id

    def license_purchased(self, number, payload, event):
        assert number not in self.product
        assert payload.seats == 1
        assert payload.unit_price_usd == self.price[payload.product_id]
        assert payload.contract_id is None or self.expiry[payload.contract_id] >= event.at_ms
        self.product[number], self.holder[number] = payload.product_id, None

    def _to(self, number, user):
        assert self.users[user] or self.to_anybody
        self.holder[number] = user

    def license_assigned(self, number, payload, event):
        assert self.holder[number] is None
        assert payload.product_id == self.product[number]
        self._to(number, payload.to)

    def license_reassigned(self, number, payload, event):
        assert self.holder[number] == payload.from_
        assert self.users[payload.from_] or self.to_anybody
        self._to(number, payload.to)

    def license_unassigned(self, number, payload, event):
        assert self.holder[number] == payload.prev_holder
        if payload.reason == "offboard":
            assert not self.users[payload.prev_holder]
        self.holder[number] = None

    def price_changed(self, product, payload, event):
        assert payload.prev_price == self.price.get(product)
        assert payload.reason == "initial" or product in self.price
        self.price[product] = payload.unit_price_usd

    def contract_signed(self, contract, payload, event):
        assert contract not in self.value
        self.value[contract], self.vendor[contract] = payload.annual_value_usd, payload.vendor
        self.expiry[contract] = event.at_ms + payload.term_months * 30 * DAY_MS

    def contract_renewed(self, contract, payload, event):
        assert (payload.vendor is None) == (payload.vendor_idx is None)
        if payload.vendor is not None:
            assert payload.vendor != self.vendor[contract]
            self.vendor[contract] = payload.vendor
        if payload.annual_value_usd is not None:
            self.value[contract] = payload.annual_value_usd
        self.expiry[contract] = event.at_ms + payload.term_months * 30 * DAY_MS

    def consumption_logged(self, user, payload, event):
        assert self.users[user]
        assert payload.product_id in self.price


def in_order(events: list[Event]) -> None:
    """Seq counts from 0 and time never goes back."""
    assert [event.seq for event in events] == list(range(len(events)))
    assert all(before.at_ms <= after.at_ms for before, after in pairwise(events))
