"""The public test kit: contract suites for engines of the log and for projectors, a clock to move, faults to inject.

It needs the packages pytest and hypothesis.
"""

from churnbench.testing._clocks import FakeClock
from churnbench.testing._faults import FaultyLog, FaultyProjector
from churnbench.testing._log_contract import LogContract
from churnbench.testing._projector_contract import MakeProjector, ProjectorContract
from churnbench.testing._scripts import Batch, Mark, Script, partitioned, scripts, write_ledger

__all__ = [
    "Batch",
    "FakeClock",
    "FaultyLog",
    "FaultyProjector",
    "LogContract",
    "MakeProjector",
    "Mark",
    "ProjectorContract",
    "Script",
    "partitioned",
    "scripts",
    "write_ledger",
]
