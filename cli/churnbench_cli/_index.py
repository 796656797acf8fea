"""A world's scoring index: built once, shared by all runs over the world."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from churnbench.cuts import Cut
from churnbench.log import LedgerReader
from churnbench.worlds import WorldManifest, ledger_topic
from churnbench_cli._home import Home, world_lock
from churnbench_cli._output import Steps
from churnbench_scorer import LedgerIndex

__all__ = ["opened_index"]


@asynccontextmanager
async def opened_index(home: Home, world: WorldManifest, progress: Steps) -> AsyncIterator[LedgerIndex]:
    """The index of a world, built from its topic where it is missing; one process builds, others wait."""
    path = home.index_path(world.spec.name)
    async with home.locks.waiting(world_lock(world.spec.name), progress.waiting):
        if not LedgerIndex.is_built(path, home.domain):
            progress.advance("indexing the ledger", 0)
            reader = LedgerReader(home.log, ledger_topic(world.spec.name), home.domain.codec)
            batches = reader.batches(Cut.empty(world.spec.partitions))
            await LedgerIndex.build(batches, home.domain, world.spec.partitions, path)
    index = LedgerIndex.open(path, home.domain)
    try:
        yield index
    finally:
        index.close()
