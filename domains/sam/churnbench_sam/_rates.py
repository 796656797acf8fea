"""The rates at which a world really changed, measured in its events, beside those that its parameters state."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, time

from sortedcontainers import SortedList

from churnbench.events import Event, to_millis
from churnbench.registry import DAY_MS
from churnbench_sam import _names as names
from churnbench_sam._calibrated import CalibratedParameters
from churnbench_sam._contracts import expiry_ms
from churnbench_sam._params import EstateParameters, Parameters, ReferenceParameters
from churnbench_sam._poisson import PoissonParameters
from churnbench_sam._stress import StressParameters

__all__ = ["IDLE_DAYS", "measured_rates"]

IDLE_DAYS = 30
"""A held licence is idle when its holder did not use its product for this long."""

_ESTATE = (
    "hires_per_day",
    "offboards_per_day",
    "reassignments_per_day",
    "price_changes_per_day",
    "cost_center_moves_per_day",
    "consumption_per_day",
    "skew_share",
)
_LIVING = ("licenses_per_hire", "reclaim_same_day_share", "reclaim_week_share", "reclaim_longer_share")

_ROWS: Mapping[type[Parameters], Sequence[str]] = {
    ReferenceParameters: (*_ESTATE, "renewals_per_day"),
    StressParameters: (*_ESTATE, "renewals_per_day", "vendor_change_share", *_LIVING),
    CalibratedParameters: (
        *_ESTATE,
        *_LIVING,
        "expiries_per_contract_year",
        "mean_term_months",
        "renewal_share",
        "renewal_price_share",
        "renewal_price_mean",
        "idle_share",
    ),
    PoissonParameters: (
        "status_flips_per_user_day",
        "cost_center_moves_per_user_day",
        "holder_changes_per_license_day",
        "free_share",
        "price_changes_per_product_day",
        "renewals_per_contract_day",
        "vendor_change_share",
        "sessions_per_user_day",
    ),
}


def measured_rates(events: Iterable[Event], params: Parameters) -> list[tuple[str, float, float]]:
    """(parameter, stated value, value measured) of each stated rate and share, read in one pass.

    What the first day sets up is not counted. Beside parameters there are what follows from them
    (`reclaim_longer_share`, `mean_term_months`, `expiries_per_contract_year`) and `idle_share`: the share of the
    held licences that are idle over `IDLE_DAYS` days, on average over the ends of the spans of so many days;
    stated is the middle of the band that it is meant to come out in. Shares of leavers leave out those of the
    last week, whose lag is not known yet.

    Args:
        events: of one whole world, in order. They are not kept; the estate's present state is.
        params: what the world was made of.

    Returns:
        Rows in a fixed order. A share of nothing is nan; a rate is 0.0 where there are no events.
    """
    tally = _Tally(params)
    for event in events:
        tally.add(event)
    measured = tally.measured()
    return [(name, float(getattr(params, name)), measured[name]) for name in _ROWS[type(params)]]


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


class _Tally:
    """Counts of events, and of what they mean in the state they meet."""

    def __init__(self, params: Parameters) -> None:
        self.params = params
        self.start_ms = to_millis(datetime.combine(params.start, time(), UTC))
        self.end_ms = self.start_ms + params.days * DAY_MS
        self.kinds: Counter[str] = Counter()
        self.users = _Users(params)
        self.contracts = _Contracts(self.start_ms, self.end_ms)
        self.lags = _Lags(self.end_ms)
        self.idle = _Idle(self.start_ms) if isinstance(params, CalibratedParameters) else None
        self.repriced = 0

    def add(self, event: Event) -> None:
        kind, payload, user = event.kind, event.payload, event.entity_id
        self.kinds[kind] += 1
        if kind == "consumption_logged":
            self.users.used(user)
            if self.idle is not None:
                self.idle.used(event.at_ms, user, payload.product_id)
        elif kind == "user_hired":
            self.users.joined(user, event.at_ms)
        elif kind == "user_offboarded":
            self.lags.left(user, event.at_ms, self.users.left(user, event.at_ms))
        elif kind == "price_changed":
            self.repriced += payload.reason not in ("initial", "renewal")
        elif event.entity_type == "contract":
            self.contracts.add(event)
        elif kind.startswith("license_") and kind != "license_purchased":
            before = payload.from_ if kind == "license_reassigned" else getattr(payload, "prev_holder", None)
            after = getattr(payload, "to", None)
            if before is not None:
                self.users.gave_up(before)
                self.lags.taken_back(before, event.at_ms)
            if after is not None:
                self.users.got(after)
            if self.idle is not None:
                self.idle.held(event, after)

    def measured(self) -> dict[str, float]:
        params, kinds, days = self.params, self.kinds, self.params.days
        hired = max(0, kinds["user_hired"] - params.users)
        assigned = max(0, kinds["license_assigned"] - params.licenses)
        left_free, passed_on = kinds["license_unassigned"], kinds["license_reassigned"]
        rates = {
            "hires_per_day": hired / days,
            "offboards_per_day": kinds["user_offboarded"] / days,
            "reassignments_per_day": passed_on / days,
            "price_changes_per_day": self.repriced / days,
            "renewals_per_day": kinds["contract_renewed"] / days,
            "cost_center_moves_per_day": kinds["user_moved_cost_center"] / days,
            "consumption_per_day": kinds["consumption_logged"] / days,
            "licenses_per_hire": _share(assigned, hired),
            "status_flips_per_user_day": _share(hired + kinds["user_offboarded"], params.users * days),
            "cost_center_moves_per_user_day": _share(kinds["user_moved_cost_center"], params.users * days),
            "holder_changes_per_license_day": _share(assigned + left_free + passed_on, params.licenses * days),
            "free_share": _share(left_free, left_free + passed_on),
            "price_changes_per_product_day": self.repriced / (params.products * days),
            "renewals_per_contract_day": _share(kinds["contract_renewed"], params.contracts * days),
            "sessions_per_user_day": _share(kinds["consumption_logged"], self.users.active_days(self.end_ms)),
            "skew_share": self.users.skew(),
        }
        return rates | self.lags.measured() | self.contracts.measured() | (self.idle.measured() if self.idle else {})


class _Users:
    """Who is active, what they hold, and how much of the use comes from the head of the list.

    In the calibrated process only holders use anything, so the head is that of the list of the holders.
    """

    def __init__(self, params: Parameters) -> None:
        self._params = params if isinstance(params, EstateParameters) else None
        self._holders_only = isinstance(params, CalibratedParameters)
        self._active: set[str] = set()
        self._holdings: Counter[str] = Counter()
        self._list: SortedList[int] = SortedList()
        self._head: tuple[int, float] | None = None  # last user of the head, and its share of the list
        self._surplus, self._room = 0.0, 0.0
        self._active_ms, self._since_ms = 0, 0

    def _listed(self, user: str) -> None:
        number = names.number_of(user)
        wanted = user in self._active and (self._holdings[user] > 0 or not self._holders_only)
        if wanted != (number in self._list):
            (self._list.add if wanted else self._list.remove)(number)
            self._head = None

    def _at(self, at_ms: int) -> None:
        self._active_ms += len(self._active) * (at_ms - self._since_ms)
        self._since_ms = at_ms

    def joined(self, user: str, at_ms: int) -> None:
        self._at(at_ms)
        self._active.add(user)
        self._listed(user)

    def left(self, user: str, at_ms: int) -> int:
        """The licences that they leave with."""
        self._at(at_ms)
        self._active.discard(user)
        self._listed(user)
        return self._holdings[user]

    def got(self, user: str) -> None:
        self._holdings[user] += 1
        if self._holders_only:
            self._listed(user)

    def gave_up(self, user: str) -> None:
        self._holdings[user] -= 1
        if not self._holdings[user]:
            del self._holdings[user]
        if self._holders_only:
            self._listed(user)

    def used(self, user: str) -> None:
        params = self._params
        if params is None or len(self._list) < params.skew_min_items:
            return
        if self._head is None:
            size = max(1, int(len(self._list) * params.skew_head))
            self._head = (self._list[size - 1], size / len(self._list))
        last, share = self._head
        self._surplus += (names.number_of(user) <= last) - share
        self._room += 1 - share

    def skew(self) -> float:
        """The head is picked with chance s + (1 - s) h, where h is its share of the list: solved for s."""
        return _share(self._surplus, self._room)

    def active_days(self, end_ms: int) -> float:
        self._at(end_ms)
        return self._active_ms / DAY_MS


class _Lags:
    """How long leavers keep their licences."""

    def __init__(self, end_ms: int) -> None:
        self._known_ms = end_ms - 7 * DAY_MS  # who left later may yet turn out to be of any kind
        self._waiting: dict[str, int] = {}
        self._leavers = self._same_day = self._week = 0

    def left(self, user: str, at_ms: int, licenses: int) -> None:
        if licenses and at_ms < self._known_ms:
            self._waiting[user] = at_ms
            self._leavers += 1

    def taken_back(self, user: str, at_ms: int) -> None:
        left_ms = self._waiting.pop(user, None)
        if left_ms is None:
            return
        if at_ms // DAY_MS == left_ms // DAY_MS:
            self._same_day += 1
        elif at_ms <= left_ms + 7 * DAY_MS:
            self._week += 1

    def measured(self) -> dict[str, float]:
        soon = self._same_day + self._week
        return {
            "reclaim_same_day_share": _share(self._same_day, self._leavers),
            "reclaim_week_share": _share(self._week, self._leavers),
            "reclaim_longer_share": _share(self._leavers - soon, self._leavers),
        }


class _Contracts:
    """Terms, how they end, and what a renewal changes."""

    def __init__(self, start_ms: int, end_ms: int) -> None:
        self._start_ms, self._end_ms = start_ms, end_ms
        self._terms: dict[str, tuple[int, int]] = {}  # beginning and end of the present term
        self._values: dict[str, float] = {}
        self._in_force_ms = self._months = self._begun = 0
        self._renewals = self._vendor_changes = 0
        self._rises: list[float] = []

    def add(self, event: Event) -> None:
        contract, payload = event.entity_id, event.payload
        value, before = payload.annual_value_usd, self._values.get(contract)
        if event.kind == "contract_renewed":
            self._renewals += 1
            self._vendor_changes += payload.vendor_idx is not None
            if value is not None and before:
                self._rises.append(value / before - 1)
            self._end(contract, event.at_ms)
        if value is not None:
            self._values[contract] = value
        if event.at_ms >= self._start_ms:
            self._begun += 1
            self._months += payload.term_months
        self._terms[contract] = (event.at_ms, expiry_ms(event.at_ms, payload.term_months))

    def _end(self, contract: str, at_ms: int) -> None:
        begun_ms, expires_ms = self._terms[contract]
        self._in_force_ms += max(0, min(expires_ms, at_ms) - max(begun_ms, self._start_ms))

    def measured(self) -> dict[str, float]:
        lapsed = sum(expires_ms < self._end_ms for _, expires_ms in self._terms.values())
        for contract in self._terms:
            self._end(contract, self._end_ms)
        expiries = self._renewals + lapsed
        return {
            "vendor_change_share": _share(self._vendor_changes, self._renewals),
            "expiries_per_contract_year": _share(expiries * 365 * DAY_MS, self._in_force_ms),
            "mean_term_months": _share(self._months, self._begun),
            "renewal_share": _share(self._renewals, expiries),
            "renewal_price_share": _share(len(self._rises), self._renewals),
            "renewal_price_mean": _share(math.fsum(self._rises), len(self._rises)),
        }


class _Idle:
    """Held licences that nobody uses, counted at the end of every span of `IDLE_DAYS` days."""

    def __init__(self, start_ms: int) -> None:
        self._next_ms = start_ms + IDLE_DAYS * DAY_MS
        self._held: dict[str, tuple[str, str]] = {}  # licence -> holder, product
        self._products: dict[str, str] = {}
        self._recent: set[tuple[str, str]] = set()  # holder, product, since the last end
        self._shares: list[float] = []

    def _until(self, at_ms: int) -> None:
        while at_ms > self._next_ms:
            if self._held:
                idle = sum(held not in self._recent for held in self._held.values())
                self._shares.append(idle / len(self._held))
            self._recent.clear()
            self._next_ms += IDLE_DAYS * DAY_MS

    def used(self, at_ms: int, user: str, product: str) -> None:
        self._until(at_ms)
        self._recent.add((user, product))

    def held(self, event: Event, holder: str | None) -> None:
        self._until(event.at_ms)
        if event.kind == "license_assigned":
            self._products[event.entity_id] = event.payload.product_id
        if holder is None:
            self._held.pop(event.entity_id, None)
        else:
            self._held[event.entity_id] = (holder, self._products[event.entity_id])

    def measured(self) -> dict[str, float]:
        return {"idle_share": _share(math.fsum(self._shares), len(self._shares))}
