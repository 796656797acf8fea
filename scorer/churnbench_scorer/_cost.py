"""What keeping the staged copy cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from churnbench.records import Refresh

__all__ = ["RefreshCost", "StagedCost", "distinct", "staged_costs"]


class RefreshCost(msgspec.Struct, frozen=True):
    """Work done for some refreshes.

    Attributes:
        refreshes: how many; of a table each.
        rows: rows written or removed.
        bytes: size of what was written, as JSON.
        source_calls: reads of sources.
        seconds: wall clock, one after another.
    """

    refreshes: int = 0
    rows: int = 0
    bytes: int = 0
    source_calls: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, refreshes: Iterable[Refresh]) -> RefreshCost:
        """The sum over `refreshes`; all zero for none."""
        done = list(refreshes)
        return cls(
            len(done),
            sum(refresh.changed for refresh in done),
            sum(refresh.bytes for refresh in done),
            sum(refresh.source_calls for refresh in done),
            math.fsum(refresh.seconds for refresh in done),
        )


class StagedCost(msgspec.Struct, frozen=True):
    """Work done for one staged table, or for all of a run.

    Attributes:
        staging: the first copy.
        refreshing: everything after it.
    """

    staging: RefreshCost = RefreshCost()
    refreshing: RefreshCost = RefreshCost()


def distinct(refreshes: Iterable[Refresh]) -> list[Refresh]:
    """The refreshes without repeats, in order of time."""
    return sorted({(r.run, r.table, r.tick): r for r in refreshes}.values(), key=lambda r: (r.at_ms, r.tick))


def staged_costs(refreshes: Sequence[Refresh]) -> tuple[StagedCost, dict[str, StagedCost]]:
    """What a run's refreshes cost: in all, and by staged table in the order in which they were staged."""
    first: dict[str, Refresh] = {}
    later: dict[str, list[Refresh]] = {}
    for refresh in distinct(refreshes):
        if refresh.table in first:
            later[refresh.table].append(refresh)
        else:
            first[refresh.table], later[refresh.table] = refresh, []
    by_table = {t: StagedCost(RefreshCost.of([first[t]]), RefreshCost.of(later[t])) for t in first}
    total = StagedCost(RefreshCost.of(first.values()), RefreshCost.of(r for found in later.values() for r in found))
    return total, by_table
