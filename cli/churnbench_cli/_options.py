"""Options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

from churnbench.domain import Domain
from churnbench.errors import UsageError
from churnbench.worlds import WorldSpec

__all__ = ["Json", "Partitions", "Preset", "Seed", "SetRate", "overrides", "world_spec"]

Preset = Annotated[str, typer.Option(help="The world's preset; `world describe` shows its parameters.")]
Seed = Annotated[int, typer.Option(help="The world's seed.")]
SetRate = Annotated[
    list[str] | None, typer.Option("--set", metavar="RATE=VALUE", help="Replace a parameter; repeatable.")
]
Partitions = Annotated[int, typer.Option(min=1, max=1024, help="Partitions of the ledger.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


def overrides(pairs: list[str] | None) -> dict[str, str]:
    """`name=value` texts as a mapping.

    Raises:
        UsageError: one has no `=`.
    """
    found = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {pair!r} is not NAME=VALUE; for example --set hires_per_day=3")
        found[name.strip()] = value.strip()
    return found


def world_spec(domain: Domain, preset: str, seed: int, pairs: list[str] | None, partitions: int) -> WorldSpec:
    """What makes the world that the options name.

    Raises:
        UsageError: an unknown preset or parameter, or a bad value.
    """
    parameters = domain.parameters(preset, overrides(pairs))
    return WorldSpec(domain.name, domain.version, preset, parameters, seed, partitions)
