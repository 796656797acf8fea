"""Gold by brute force: a plain fold over a list of events, independent of the scorer and slow on purpose.

A *vector* says what was known of each class: class -> seq cut (the facts of that class are those of events
with a seq up to the cut, -1 for none). A class that is missing is known up to the question's time T. The
question's own time (windows, expiry) is always T.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import add
from typing import Any

from churnbench.events import Event
from churnbench_sam import _names as names
from churnbench_sam._tasks import threshold_of

CLASSES = (
    "user_status",
    "cost_center_membership",
    "assignments",
    "prices",
    "contract_terms",
    "vendor_dims",
    "consumption_facts",
    "utilization_current",
    "tickets",
)

DAY_MS = 86_400_000


def day(text: str) -> int:
    """Milliseconds of a date's midnight."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


class Brute:
    """All golds of one ledger."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = list(events)

    def gold(
        self, measure: str, params: Mapping[str, Any], at_ms: int, vector: Mapping[str, int] | int | None = None
    ) -> Any:
        """The true answer; None where the entity asked about does not exist.

        Args:
            measure: one of the 22.
            params: its parameters.
            at_ms: T, the question's time.
            vector: class -> seq cut; one cut for all classes; or None, T for all.
        """
        cuts = dict.fromkeys(CLASSES, vector) if isinstance(vector, int) else dict(vector or {})
        unknown = set(cuts) - set(CLASSES)
        if unknown:
            raise ValueError(f"unknown classes {unknown}")
        return getattr(Facts(self.events, at_ms, cuts), measure)(**params)

    def pools(self, at_ms: int) -> dict[str, list[Any]]:
        """The pools of the task generator at T."""
        facts = Facts(self.events, at_ms, {})
        active = facts.active_cost_center()
        held = {facts.licenses[number][0] for number in facts.held()}
        used = {event.payload.product_id for event in facts.consumption()}
        threshold = threshold_of(list(facts.spends().values()))
        return {
            "cost_centers_active": sorted(set(active.values())),
            "cost_centers_holding": sorted({active[user] for user in facts.holders().values() if user in active}),
            "products": sorted(facts.prices()),
            "products_held": sorted(held),
            "products_used": sorted(used),
            "products_held_and_used": sorted(held & used),
            "contracts": sorted(facts.contracts()),
            "threshold": [] if threshold is None else [threshold],
        }


class Facts:
    """What is known, class by class, and the 22 measures over it."""

    def __init__(self, events: Sequence[Event], at_ms: int, cuts: Mapping[str, int]) -> None:
        self.events, self.at_ms, self.cuts = events, at_ms, cuts
        self.licenses: dict[str, tuple[str, int, float]] = {
            event.entity_id: (event.payload.product_id, event.payload.seats, event.payload.unit_price_usd)
            for event in self.visible("prices", "license_purchased")
        }

    def visible(self, cls: str, *kinds: str) -> list[Event]:
        """Events of these kinds within the cut of a class."""
        if cls in self.cuts:
            return [event for event in self.events if event.kind in kinds and event.seq <= self.cuts[cls]]
        return [event for event in self.events if event.kind in kinds and event.at_ms <= self.at_ms]

    # -- state -----------------------------------------------------------------------------------------

    def active(self) -> set[str]:
        users: set[str] = set()
        for event in self.visible("user_status", "user_hired", "user_offboarded"):
            if event.kind == "user_hired":
                users.add(event.entity_id)
            else:
                users.discard(event.entity_id)
        return users

    def active_cost_center(self) -> dict[str, str]:
        """Active user -> cost center, where both classes know the user."""
        cost_centers = {
            event.entity_id: event.payload.cost_center_id
            for event in self.visible("cost_center_membership", "user_hired", "user_moved_cost_center")
        }
        active = self.active()
        return {user: cost_center for user, cost_center in cost_centers.items() if user in active}

    def holders(self) -> dict[str, str]:
        """Held licence -> holder."""
        holders: dict[str, str] = {}
        for event in self.visible("assignments", "license_assigned", "license_unassigned", "license_reassigned"):
            if event.kind == "license_unassigned":
                holders.pop(event.entity_id, None)
            else:
                holders[event.entity_id] = event.payload.to
        return holders

    def held(self) -> dict[str, str]:
        """Licence that exists and is held -> holder."""
        return {number: user for number, user in self.holders().items() if number in self.licenses}

    def prices(self) -> dict[str, float]:
        """Product -> present price, in the order of first prices."""
        return {event.entity_id: event.payload.unit_price_usd for event in self.visible("prices", "price_changed")}

    def contracts(self) -> dict[str, dict[str, Any]]:
        contracts: dict[str, dict[str, Any]] = {}
        for event in self.visible("contract_terms", "contract_signed", "contract_renewed"):
            terms = contracts.setdefault(event.entity_id, {"vendor": None, "value": None, "vendor_idx": None})
            terms["from_ms"], terms["term"] = event.at_ms, event.payload.term_months
            if event.payload.vendor_idx is not None:
                terms["vendor_idx"] = event.payload.vendor_idx
                terms["vendor"] = names.vendor_name(event.payload.vendor_idx)
            if event.payload.vendor is not None:
                terms["vendor"] = event.payload.vendor
            if event.payload.annual_value_usd is not None:
                terms["value"] = event.payload.annual_value_usd
        return contracts

    def consumption(self) -> list[Event]:
        return [e for e in self.visible("consumption_facts", "consumption_logged") if e.at_ms <= self.at_ms]

    def recent(self, days: int) -> list[Event]:
        return [event for event in self.consumption() if event.at_ms >= self.at_ms - days * DAY_MS]

    def count_window(self, cls: str, kind: str, days: int) -> int:
        start = self.at_ms - days * DAY_MS
        return sum(1 for event in self.visible(cls, kind) if start < event.at_ms <= self.at_ms)

    def spends(self) -> dict[str, float]:
        """Cost center -> spend, of those that have any."""
        active = self.active_cost_center()
        spends: dict[str, float] = {}
        for number, user in self.held().items():
            if user in active:
                _, seats, price = self.licenses[number]
                spends[active[user]] = spends.get(active[user], 0.0) + seats * price
        return spends

    def idle(self, days: int) -> dict[str, str]:
        """Held licence whose holder did not use its product -> holder."""
        used = {(event.entity_id, event.payload.product_id) for event in self.recent(days)}
        return {number: user for number, user in self.held().items() if (user, self.licenses[number][0]) not in used}

    # -- the measures -----------------------------------------------------------------------------------

    def spend_by_cost_center(self, cc: str) -> float:
        return self.spends().get(cc, 0.0)

    def active_user_count_cc(self, cc: str) -> int:
        return list(self.active_cost_center().values()).count(cc)

    def product_price(self, product_id: str) -> float | None:
        return self.prices().get(product_id)

    def total_monthly_spend(self) -> float:
        return reduce(add, self.spends().values(), 0.0)

    def top_spending_cost_center(self) -> str:
        spends = self.spends()
        return min(spends, key=lambda cc: (-spends[cc], cc)) if spends else ""

    def cost_centers_above_threshold(self, threshold: float) -> int:
        # To a millionth of a dollar, so that the order of summing cannot decide.
        return sum(1 for spend in self.spends().values() if round(spend, 6) > threshold)

    def idle_license_count(self, product_id: str, idle_days: int) -> int:
        return sum(1 for number in self.idle(idle_days) if self.licenses[number][0] == product_id)

    def unassigned_license_count(self) -> int:
        return len(set(self.licenses) - set(self.holders()))

    def idle_license_count_cc(self, cc: str, idle_days: int) -> int:
        active = self.active_cost_center()
        return sum(1 for user in self.idle(idle_days).values() if active.get(user) == cc)

    def idle_license_cost(self, idle_days: int) -> float:
        amounts = (self.licenses[number][1] * self.licenses[number][2] for number in self.idle(idle_days))
        return round(reduce(add, amounts, 0.0), 2)

    def license_reclaim_count(self, days_back: int) -> int:
        return self.count_window("assignments", "license_unassigned", days_back)

    def offboard_count_window(self, days_back: int) -> int:
        return self.count_window("user_status", "user_offboarded", days_back)

    def reassignment_count(self, days_back: int) -> int:
        return self.count_window("assignments", "license_reassigned", days_back)

    def _left(self, contract_id: str) -> timedelta | None:
        terms = self.contracts().get(contract_id)
        if terms is None:
            return None
        return timedelta(milliseconds=terms["from_ms"] - self.at_ms, days=30 * terms["term"])

    def contract_status(self, contract_id: str) -> str | None:
        left = self._left(contract_id)
        return None if left is None else "active" if left >= timedelta() else "expired"

    def contract_months_remaining(self, contract_id: str) -> float | None:
        left = self._left(contract_id)
        return None if left is None else round(max(0.0, left.days / 30), 1)

    def contract_vendor(self, contract_id: str) -> str | None:
        terms = self.contracts().get(contract_id)
        return None if terms is None else terms["vendor"]

    def contract_annual_value(self, contract_id: str) -> float | None:
        terms = self.contracts().get(contract_id)
        if terms is None:
            return None
        return names.estimated_annual_value(contract_id) if terms["value"] is None else terms["value"]

    def product_api_calls(self, product_id: str, window_days: int) -> int:
        return sum(e.payload.api_calls for e in self.recent(window_days) if e.payload.product_id == product_id)

    def product_active_users(self, product_id: str, window_days: int) -> int:
        return len({e.entity_id for e in self.recent(window_days) if e.payload.product_id == product_id})

    def top_product_by_session_minutes(self, window_days: int) -> str:
        minutes: dict[str, int] = {}
        for event in self.recent(window_days):
            product = event.payload.product_id
            minutes[product] = minutes.get(product, 0) + event.payload.session_minutes
        place = {product: number for number, product in enumerate(self.prices())}
        order = sorted(minutes, key=lambda product: (-minutes[product], place.get(product, len(place)), product))
        return order[0] if order else ""

    def zero_usage_license_count(self, product_id: str, window_days: int) -> int:
        return self.idle_license_count(product_id, window_days)

    def license_efficiency(self, product_id: str, window_days: int) -> float:
        seats = sum(self.licenses[number][1] for number in self.held() if self.licenses[number][0] == product_id)
        return round(self.product_active_users(product_id, window_days) / seats, 4) if seats else 0.0


def matches(answer: Any, gold: Any, answer_type: str) -> bool:
    """Whether an answer counts as gold: int exactly, float within 1 %, str trimmed and case-folded."""
    if answer is None or gold is None:
        return False
    if answer_type == "str":
        return isinstance(answer, str) and answer.strip().casefold() == str(gold).strip().casefold()
    if isinstance(answer, str):
        return False
    if answer_type == "int":
        return bool(answer == gold)
    return abs(answer - gold) <= (abs(gold) * 0.01 if gold else 1e-6)
