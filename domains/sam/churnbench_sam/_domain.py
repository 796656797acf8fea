"""Software asset management as a `churnbench.domain.Domain`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, time
from typing import Any

import msgspec

from churnbench.domain import (
    Assertion,
    Documents,
    Domain,
    EntityClass,
    FactView,
    Measure,
    PresetInfo,
    Saas,
    Store,
    Task,
)
from churnbench.errors import UsageError
from churnbench.events import Codec, Event, to_millis
from churnbench.registry import DAY_MS, Registry
from churnbench_sam import _classes, _questions
from churnbench_sam._contracts import CONTRACTS
from churnbench_sam._events import KINDS
from churnbench_sam._measures import MEASURES
from churnbench_sam._operations import OPERATIONS
from churnbench_sam._params import Parameters, with_overrides
from churnbench_sam._pools import pools, templates_for
from churnbench_sam._presets import PRESETS
from churnbench_sam._presets import preset as preset_named
from churnbench_sam._rates import measured_rates
from churnbench_sam._registry import REGISTRIES
from churnbench_sam._saas import SAAS
from churnbench_sam._simulator import PROCESSES, simulate
from churnbench_sam._tasks import generate
from churnbench_sam._warehouse import WAREHOUSE

__all__ = ["DOMAIN", "SamDomain"]


class SamDomain:
    """Users in cost centers, the licences they hold, products and their prices, contracts, and use."""

    name = "sam"
    version = 1
    codec = Codec(KINDS)
    classes: tuple[EntityClass, ...] = _classes.CLASSES
    warehouse: Store = WAREHOUSE
    operations: Store = OPERATIONS
    saas: Saas = SAAS
    documents: Documents | None = CONTRACTS
    registries: Mapping[str, Registry] = REGISTRIES
    measures: Mapping[str, Measure] = MEASURES
    presets: Mapping[str, PresetInfo] = {
        name: PresetInfo(name, known.description, msgspec.to_builtins(known.parameters), known.sources)
        for name, known in PRESETS.items()
    }

    def parameters(self, preset: str, overrides: Mapping[str, str]) -> dict[str, Any]:
        """A preset's parameters, some replaced by values given as text.

        Raises:
            NotFoundError: an unknown preset.
            UsageError: an unknown parameter, or a value that does not fit.
        """
        values: dict[str, Any] = msgspec.to_builtins(with_overrides(preset_named(preset).parameters, overrides))
        return values

    def simulate(self, parameters: Mapping[str, Any], seed: int) -> Iterator[Event]:
        """The whole world, in order; the same events for the same arguments, in any process."""
        return simulate(_typed(parameters), seed)

    def span(self, parameters: Mapping[str, Any]) -> tuple[int, int]:
        """First instant of the world and the first after it, milliseconds."""
        params = _typed(parameters)
        start = to_millis(datetime.combine(params.start, time(), UTC))
        return start, start + params.days * DAY_MS

    def assertions(self, event: Event) -> Iterable[Assertion]:
        """What an event says, class by class."""
        return _classes.assertions(event)

    def generate_tasks(
        self, preset: str, gold: Callable[[str, Mapping[str, Any]], Any], facts: FactView, n: int, seed: int
    ) -> list[Task]:
        """`n` tasks over the facts, with their gold under the trivial-responder guard.

        Raises:
            NotFoundError: an unknown preset.
            UsageError: `n` is negative or the facts hold too few questions.
        """
        preset_named(preset)
        return generate(pools(facts), gold, n, seed, templates_for(preset))

    def question(self, task: Task, at_ms: int) -> str:
        """The task in words, as asked at a time; the same wording for the same task id."""
        return _questions.question(task, at_ms)

    def describe(self, events: Iterable[Event], parameters: Mapping[str, Any]) -> list[tuple[str, float, float]]:
        """(parameter, stated, measured) of each stated rate and share of a whole world.

        What the first day sets up is not counted. A rate is 0.0 where there are no events, a share of nothing nan.
        """
        return measured_rates(events, _typed(parameters))


def _typed(parameters: Mapping[str, Any]) -> Parameters:
    """The parameters as the type whose fields they are."""
    for kind in PROCESSES:
        if set(kind.__struct_fields__) == set(parameters):
            try:
                return msgspec.convert(parameters, kind)
            except msgspec.ValidationError as error:
                raise UsageError(f"the parameters of the world do not fit: {error}") from error
    raise UsageError(
        f"no process takes the parameters {', '.join(sorted(parameters)) or 'given, which are none'}; "
        "start from those of a preset"
    )


DOMAIN: Domain = SamDomain()
"""What the entry point `churnbench.domains` names."""
