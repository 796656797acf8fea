"""What a world is made of: the counts and rates that processes share, and how texts override them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
from msgspec import Meta

from churnbench.errors import UsageError

__all__ = [
    "SHARES_TOLERANCE",
    "Count",
    "EstateParameters",
    "LivingParameters",
    "Money",
    "Parameters",
    "Rate",
    "ReferenceParameters",
    "Share",
    "Some",
    "with_overrides",
]

Count = Annotated[int, Meta(ge=0, le=10**9)]
Some = Annotated[int, Meta(ge=1, le=10**9)]
Rate = Annotated[float, Meta(ge=0, le=1e9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Money = Annotated[float, Meta(ge=0, le=1e12)]

SHARES_TOLERANCE = 1e-9
"""By how much shares written as decimals may miss their sum."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What the worlds of every process are made of.

    Raises:
        UsageError: the values do not go together.
    """

    # The first day of the world.
    start: date
    # Days that the world lasts, the first included.
    days: Some
    # Vendors that contracts are signed with.
    vendors: Some
    # Products on offer.
    products: Some
    # Cost centers that users belong to.
    cost_centers: Some
    # Users hired on the first day.
    users: Count
    # Contracts in force on the first day.
    contracts: Count
    # Licences bought on the first day; licence i goes to user i mod users.
    licenses: Count
    # Seats of a licence.
    seats_per_license: Some
    # Lowest first price of a product, US dollars.
    price_low_usd: Money
    # Highest first price of a product, US dollars.
    price_high_usd: Money
    # Terms of contracts in months of 30 days; equally likely where no shares are stated.
    terms_months: Annotated[tuple[Some, ...], Meta(min_length=1)]
    # Shortest session, minutes.
    session_minutes_low: Count
    # Sessions are shorter than this, minutes.
    session_minutes_high: Some
    # Fewest calls in a session.
    api_calls_low: Count
    # Sessions have fewer calls than this.
    api_calls_high: Some

    def __post_init__(self) -> None:
        self._below("session_minutes_low", "session_minutes_high")
        self._below("api_calls_low", "api_calls_high")
        self._not_above("price_low_usd", "price_high_usd")
        if self.licenses and not self.users:
            raise UsageError(f"licenses is {self.licenses} and users is 0: licences need a first holder; set users")
        if self.start.toordinal() + self.days > date.max.toordinal():
            raise UsageError(f"days is {self.days}: a world from {self.start} would pass the year 9999; set fewer")

    def _below(self, low: str, high: str) -> None:
        if getattr(self, low) >= getattr(self, high):
            raise UsageError(f"{low} is {getattr(self, low)}: it must be below {high}, {getattr(self, high)}")

    def _not_above(self, low: str, high: str) -> None:
        if getattr(self, low) > getattr(self, high):
            raise UsageError(f"{low} is {getattr(self, low)}: it must not exceed {high}, {getattr(self, high)}")


class EstateParameters(Parameters, frozen=True, kw_only=True):
    """An estate that people come to and leave. Rates are means of Poisson counts, a day of the whole estate."""

    # New users a day.
    hires_per_day: Rate
    # Leaving users a day.
    offboards_per_day: Rate
    # Licences that go to another holder a day.
    reassignments_per_day: Rate
    # List prices that change a day, those that a renewal brings about not counted.
    price_changes_per_day: Rate
    # Users that are put into a cost center anew a day.
    cost_center_moves_per_day: Rate
    # Sessions a day, exactly.
    consumption_per_day: Count
    # Share of picks that go to the head of a list.
    skew_share: Share
    # The head, as a share of the list, rounded down, at least one item.
    skew_head: Share
    # Lists shorter than this have no head.
    skew_min_items: Count
    # Standard deviation of a relative price change; its mean is 0.
    price_change_sd: Rate
    # No price falls below this, US dollars.
    price_floor_usd: Money


class ReferenceParameters(EstateParameters, frozen=True, kw_only=True):
    """The parameters of the reference process."""

    # Contracts that start a new term a day.
    renewals_per_day: Rate


class LivingParameters(EstateParameters, frozen=True, kw_only=True):
    """An estate that stays alive: new users get licences, and leavers' licences are taken back after a while."""

    # Licences that a new user gets, on average: the whole part always, one more with the rest as its chance.
    licenses_per_hire: Annotated[float, Meta(ge=0, le=1000)]
    # Share of leavers whose licences are taken back on the day (UTC) on which they leave.
    reclaim_same_day_share: Share
    # Share of leavers whose licences are taken back later, within 7 days.
    reclaim_week_share: Share
    # The licences of the others are taken back after 7 days and up to this many, any time equally likely.
    reclaim_longest_days: Annotated[int, Meta(ge=8, le=100_000)]
    # Lowest first value of a contract, US dollars a year.
    value_low_usd: Money
    # Highest first value of a contract, US dollars a year.
    value_high_usd: Money

    def __post_init__(self) -> None:
        super().__post_init__()
        self._not_above("value_low_usd", "value_high_usd")
        soon = self.reclaim_same_day_share + self.reclaim_week_share
        if soon > 1 + SHARES_TOLERANCE:
            raise UsageError(
                f"reclaim_same_day_share and reclaim_week_share add up to {soon:g}: "
                "they must not exceed 1; set one lower"
            )

    @property
    def reclaim_longer_share(self) -> float:
        """Share of leavers whose licences are taken back after more than 7 days."""
        return max(0.0, 1 - self.reclaim_same_day_share - self.reclaim_week_share)


P = TypeVar("P", bound=msgspec.Struct)


def with_overrides(params: P, overrides: Mapping[str, str]) -> P:
    """`params` with the named values replaced.

    Args:
        params: where to start; any Struct of parameters.
        overrides: field name -> text. Numbers as Python writes them, dates as YYYY-MM-DD, lists of numbers
            separated by commas. Empty: `params` as it is.

    Raises:
        UsageError: an unknown name, a text that is no value of the field, or values that do not go together.
    """
    hints = get_type_hints(type(params), include_extras=True)
    values: dict[str, Any] = {}
    for name, text in overrides.items():
        if name not in hints:
            raise UsageError(f"unknown parameter {name!r}; valid ones: {', '.join(type(params).__struct_fields__)}")
        values[name] = _parse(name, text, hints[name])
    return msgspec.structs.replace(params, **values) if values else params


def _parse(name: str, text: str, hint: Any) -> Any:
    raw: Any = text.strip()
    if isinstance(msgspec.inspect.type_info(hint), msgspec.inspect.VarTupleType):
        raw = [part.strip() for part in raw.split(",")]
    try:
        value = msgspec.convert(raw, hint, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{name} cannot be {text!r}: {_reason(str(error))}") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{name} cannot be {text!r}: give a finite number")
    return value


def _reason(message: str) -> str:
    """What was expected, in msgspec's words without the path and the marks."""
    if "RFC3339" in message:
        return "expected a date as YYYY-MM-DD"
    message = message.partition(" - at ")[0].replace("`", "").replace(", got str", "")
    return message[0].lower() + message[1:]
