"""Refresh policies: which staged tables to refresh at a tick, and why.

A policy is a pure function of the tick, the registry and the state. More policies join by the entry-point group
`churnbench.policies`: each entry names a callable that takes the rule and gives a `Policy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import NamedTuple, Protocol

from churnbench.clock import DAY_MS
from churnbench.errors import NotFoundError, UsageError
from churnbench.records import Tick
from churnbench.registry import Registry

__all__ = ["POLICY_GROUP", "RULES", "Due", "Off", "Policy", "State", "Tiered", "find_policy", "policies"]

POLICY_GROUP = "churnbench.policies"
RULES = ("exceeds", "reaches")

State = Mapping[str, int]
"""Staged name -> simulated time of its last refresh, milliseconds; a table that was never staged is not in it."""


class Due(NamedTuple):
    """A staged table to refresh, and why, for people."""

    table: str
    reason: str


class Policy(Protocol):
    """Decides what is refreshed.

    Attributes:
        name: as the manifest states it.
    """

    name: str

    def due(self, tick: Tick, registry: Registry, state: State) -> list[Due]:
        """What to refresh at `tick`, in order; pure. A table that is not in `state` has to be among it."""


def _initial(registry: Registry, state: State) -> list[Due]:
    return [Due(name, "initial") for name in registry.staged() if name not in state]


class Off:
    """Stages everything once and never refreshes it."""

    name = "off"

    def due(self, tick: Tick, registry: Registry, state: State) -> list[Due]:
        """See `Policy.due`."""
        return _initial(registry, state)


class Tiered:
    """Refreshes a table when its owner class lapses (ChurnBench paper, freshness tiers).

    Args:
        rule: `exceeds`: lapsed when the age is above the TTL, as published; `reaches`: when it is the TTL or more.

    Raises:
        UsageError: an unknown rule.
    """

    name = "tiered"

    def __init__(self, rule: str = "exceeds") -> None:
        if rule not in RULES:
            raise UsageError(f"no rule {rule!r}; known: {', '.join(RULES)}")
        self.rule = rule

    def due(self, tick: Tick, registry: Registry, state: State) -> list[Due]:
        """See `Policy.due`. An owner class without a TTL never lapses."""
        found = []
        for name, (owner, _) in registry.staged().items():
            if name not in state:
                found.append(Due(name, "initial"))
                continue
            ttl = registry.policy(owner).ttl_ms
            age = tick.at_ms - state[name]
            if ttl is not None and (age > ttl if self.rule == "exceeds" else age >= ttl):
                found.append(Due(name, f"age {age / DAY_MS:g} d {self.rule} TTL {ttl / DAY_MS:g} d"))
        return found


def policies() -> dict[str, Callable[[str], Policy]]:
    """Every known policy's maker by name; it takes the rule.

    Raises:
        UsageError: an installed one fails to load, or takes a name that is taken.
    """
    known: dict[str, Callable[[str], Policy]] = {Tiered.name: Tiered, Off.name: lambda rule: Off()}
    for entry in entry_points(group=POLICY_GROUP):
        if entry.name in known:
            raise UsageError(f"two refresh policies are named {entry.name!r}; remove the package of {entry.value}")
        try:
            known[entry.name] = entry.load()
        except Exception as error:
            raise UsageError(f"the refresh policy {entry.name!r} ({entry.value}) fails to load: {error}") from error
    return known


def find_policy(name: str, rule: str = "exceeds") -> Policy:
    """The policy `name` under `rule`.

    Raises:
        NotFoundError: there is none.
        UsageError: an unknown rule, or an installed policy fails to load.
    """
    known = policies()
    if name not in known:
        raise NotFoundError(f"no refresh policy {name!r}; known: {', '.join(sorted(known))}")
    if rule not in RULES:
        raise UsageError(f"no rule {rule!r}; known: {', '.join(RULES)}")
    return known[name](rule)
