"""Small random estates that do what the reference world never does: several seats, licences bought any day, leavers who
keep theirs, get others' and may return, contracts that change vendor and value, many events an instant."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from churnbench.events import Event
from churnbench_sam import _events as ev
from churnbench_sam import _names as names
from tests.sam.brute import day

START = day("2024-01-01")
DAY_MS = 86_400_000
STEPS = (0, 0, 0, 1, 3_600_000, 40_000_000, DAY_MS)


class _Estate:
    """Draws one event after another, each of them possible."""

    def __init__(self, seed: int, whole_days: bool) -> None:
        self.draw = random.Random(seed)
        self.whole_days = whole_days
        self.at_ms = START
        self.events: list[Event] = []
        self.prices: dict[str, float] = {}
        self.members: dict[str, bool] = {}
        self.licenses: dict[str, str | None] = {}
        self.products: dict[str, str] = {}
        self.contracts: list[str] = []

    def say(self, kind: str, entity_type: str, entity: str, payload: ev.Payload) -> None:
        self.events.append(Event(len(self.events), self.at_ms, kind, entity_type, entity, payload))

    def step(self) -> None:
        pause = self.draw.choice(STEPS)
        self.at_ms += (DAY_MS if pause >= 40_000_000 else 0) if self.whole_days else pause
        weights = {
            "price": 2, "sign": 1, "renew": 2, "hire": 3, "leave": 2, "move": 2, "buy": 3, "hand_out": 4, "pass_on": 3,
            "take_back": 3, "use": 8,
        }  # fmt: skip
        getattr(self, self.draw.choices(list(weights), weights=list(weights.values()))[0])()

    def _one(self, things: Any) -> Any:
        things = list(things)
        return self.draw.choice(things) if things else None

    def _cents(self) -> float:
        # Quarters of a dollar add up without rounding, in any order.
        return self.draw.randrange(4, 400) / 4

    def price(self) -> None:
        product, price = names.product_id(self.draw.randrange(5)), self._cents()
        self.say("price_changed", "product", product, ev.PriceChanged(price, self.prices.get(product)))
        self.prices[product] = price

    def _vendor(self) -> dict[str, Any]:
        return {
            "vendor_idx": self.draw.randrange(4),
            "vendor": self.draw.choice((None, "Blue Ltd")),
            "annual_value_usd": self.draw.choice((None, 100_000.25)),
            "notice_days": self.draw.choice((None, 30, 90)),
        }

    def sign(self) -> None:
        contract = names.contract_id(len(self.contracts))
        self.contracts.append(contract)
        terms = ev.ContractSigned(term_months=self.draw.choice((1, 2, 12)), **self._vendor())
        self.say("contract_signed", "contract", contract, terms)

    def renew(self) -> None:
        contract = self._one(self.contracts)
        if contract is not None:
            changed = self._vendor() if self.draw.random() < 0.5 else {}
            terms = ev.ContractRenewed(term_months=self.draw.choice((1, 2, 12)), **changed)
            self.say("contract_renewed", "contract", contract, terms)

    def hire(self) -> None:
        gone = [user for user, active in self.members.items() if not active]
        back = bool(gone) and self.draw.random() < 0.3
        user = self.draw.choice(gone) if back else names.user_id(len(self.members))
        self.members[user] = True
        self.say("user_hired", "user", user, ev.UserHired(names.cost_center_id(self.draw.randrange(3))))

    def leave(self) -> None:
        user = self._one(u for u, active in self.members.items() if active)
        if user is not None:
            self.members[user] = False
            self.say("user_offboarded", "user", user, ev.UserOffboarded())

    def move(self) -> None:
        user = self._one(self.members)
        if user is not None:
            to = names.cost_center_id(self.draw.randrange(3))
            self.say("user_moved_cost_center", "user", user, ev.UserMovedCostCenter(to))

    def buy(self) -> None:
        product = self._one(self.prices)
        if product is not None:
            number = names.license_id(len(self.licenses))
            self.licenses[number], self.products[number] = None, product
            bought = ev.LicensePurchased(product, self.draw.randrange(1, 4), self.prices[product])
            self.say("license_purchased", "license", number, bought)

    def hand_out(self) -> None:
        number = self._one(n for n, holder in self.licenses.items() if holder is None)
        user = self._one(u for u, active in self.members.items() if active)
        if number is not None and user is not None:
            self.licenses[number] = user
            self.say("license_assigned", "license", number, ev.LicenseAssigned(user, self.products[number]))

    def pass_on(self) -> None:
        number = self._one(n for n, holder in self.licenses.items() if holder is not None)
        user = self._one(self.members)
        if number is not None and user is not None:
            before, self.licenses[number] = self.licenses[number], user
            assert before is not None
            self.say("license_reassigned", "license", number, ev.LicenseReassigned(before, user))

    def take_back(self) -> None:
        number = self._one(n for n, holder in self.licenses.items() if holder is not None)
        if number is not None:
            before, self.licenses[number] = self.licenses[number], None
            assert before is not None
            self.say("license_unassigned", "license", number, ev.LicenseUnassigned(before, "desk"))

    def use(self) -> None:
        user = self._one(u for u, active in self.members.items() if active)
        if user is not None:
            used = ev.ConsumptionLogged(
                names.product_id(self.draw.randrange(6)), self.draw.randrange(1, 5), self.draw.randrange(9)
            )
            self.say("consumption_logged", "user", user, used)


def estate(seed: int, steps: int, whole_days: bool = False) -> list[Event]:
    """The events of `steps` draws; some draws find nothing to do."""
    drawn = _Estate(seed, whole_days)
    for _ in range(steps):
        drawn.step()
    return drawn.events


ESTATES = st.builds(estate, st.integers(0, 10**9), st.integers(1, 220), st.booleans())
"""Ledgers of up to 220 events."""
