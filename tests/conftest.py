"""What the tests of software asset management share."""

from __future__ import annotations

import pytest

from churnbench.events import Event
from churnbench_sam._presets import PRESETS
from churnbench_sam._simulator import simulate
from tests.sam.brute import Brute


@pytest.fixture(scope="session")
def reference_events() -> list[Event]:
    """The whole reference ledger."""
    return list(simulate(PRESETS["reference"].parameters, 42))


@pytest.fixture(scope="session")
def brute(reference_events: list[Event]) -> Brute:
    """The brute-force fold over it."""
    return Brute(reference_events)
