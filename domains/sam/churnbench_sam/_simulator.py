"""From parameters and a seed to the events of a world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from churnbench.errors import UsageError
from churnbench.events import Event
from churnbench_sam._calibrated import CalibratedParameters, calibrated_events
from churnbench_sam._params import Parameters, ReferenceParameters
from churnbench_sam._poisson import PoissonParameters, poisson_events
from churnbench_sam._reference import reference_events
from churnbench_sam._stress import StressParameters, stress_events

__all__ = ["PROCESSES", "Process", "simulate"]

Process = Callable[[Any, int], Iterator[Event]]
"""Takes parameters of its own type and a seed; gives events in order of their seq, from 0."""

PROCESSES: dict[type[Parameters], Process] = {
    ReferenceParameters: reference_events,
    StressParameters: stress_events,
    CalibratedParameters: calibrated_events,
    PoissonParameters: poisson_events,
}
"""Which process simulates which type of parameters. No two types have the same fields."""


def simulate(params: Parameters, seed: int) -> Iterator[Event]:
    """The events of one world, in order, made as they are read: the ledger is never held.

    The same parameters and seed give the same events in any process.

    Args:
        params: what the world is made of; their type decides the process.
        seed: of the generator, at least 0.

    Raises:
        UsageError: a negative seed, or parameters that no process takes.
    """
    if seed < 0:
        raise UsageError(f"the seed cannot be {seed}; give a whole number from 0 on")
    process = PROCESSES.get(type(params))
    if process is None:
        valid = ", ".join(known.__name__ for known in PROCESSES)
        raise UsageError(f"no process simulates {type(params).__name__}; valid parameters: {valid}")
    return process(params, seed)
