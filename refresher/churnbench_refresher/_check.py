"""Whether the staged tables are what the run's refreshes say, and their rebuilding where they are not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from churnbench.cuts import Cut
from churnbench.errors import IncompleteError
from churnbench.records import Refresh
from churnbench.registry import Registry
from churnbench.runs import Run
from churnbench.sources import EmbeddedChunk, GenerationSource
from churnbench.tables import Row
from churnbench_refresher._layout import StagedLayout
from churnbench_refresher._replay import Replay
from churnbench_refresher._staged import StagedCache, Stamp

__all__ = ["DocumentsAt", "check_staged", "last_refreshes"]

DocumentsAt = Callable[[Cut], Awaitable[Sequence[EmbeddedChunk]]]
"""The pieces of every document as of a cut."""


async def last_refreshes(run: Run) -> dict[str, tuple[Refresh, int | None]]:
    """Staged name -> its last refresh and the simulated time of the one before, None where it was the first."""
    ticks: dict[str, dict[int, Refresh]] = {}
    for refresh in await run.topic("refreshes").all():
        ticks.setdefault(refresh.table, {}).setdefault(refresh.tick, refresh)
    found = {}
    for table, by_tick in ticks.items():
        order = sorted(by_tick)
        found[table] = (by_tick[order[-1]], by_tick[order[-2]].at_ms if len(order) > 1 else None)
    return found


def _agrees(stamp: Stamp | None, refresh: Refresh) -> bool:
    return (
        stamp is not None
        and (stamp.tick, stamp.refreshed_ms, stamp.fingerprint) == (refresh.tick, refresh.at_ms, refresh.fingerprint)
        and stamp.cuts == refresh.classes
    )


async def check_staged(
    cache: StagedCache,
    run: Run,
    registry: Registry,
    layouts: Mapping[str, StagedLayout],
    replay: Replay,
    documents: GenerationSource | None = None,
    documents_at: DocumentsAt | None = None,
) -> list[str]:
    """Compares the staged tables with the run's refreshes and rebuilds those that differ, to the recorded cut.

    Args:
        cache: the prepared cache; its outbox is published.
        run: whose refreshes.
        registry: names the document index.
        layouts: the staged tables.
        replay: to rebuild tables with; it is moved.
        documents: the live document index, whose generation serves as long as it is still the recorded one.
        documents_at: makes the documents of any cut; None: a generation that is gone cannot be rebuilt.

    Returns:
        The names of the tables that were rebuilt.

    Raises:
        IncompleteError: a table cannot be rebuilt.
    """
    stamps = await cache.stamps()
    differing = []
    for name, (refresh, previous_ms) in (await last_refreshes(run)).items():
        if name not in registry.staged():
            raise IncompleteError(
                f"the run {run.run_id} refreshed {name}, which the registry {registry.name} does not stage; "
                "use the registry that the run began with"
            )
        same = _agrees(stamps.get(name), refresh)
        if not same or cache.fingerprint(name, await cache.rows(name)) != refresh.fingerprint:
            differing.append((refresh, previous_ms))
    # A replay goes forward only: earlier cuts first.
    for refresh, previous_ms in sorted(differing, key=lambda item: item[0].tick):
        cut = refresh.classes[refresh.owner]
        rows: Sequence[Row]
        if refresh.table in layouts:
            layout = layouts[refresh.table]
            await replay.advance({layout.table.source: cut})
            rows = replay.rows(layout)
            found = cache.fingerprint(refresh.table, rows)
        else:
            rows = await _documents(cut, documents, documents_at)
            found = cache.fingerprint(refresh.table, [row[:4] for row in rows])
        if found != refresh.fingerprint:
            raise IncompleteError(
                f"the staged table {refresh.table} of tick {refresh.tick} cannot be rebuilt: its fingerprint would be "
                f"{found}, not {refresh.fingerprint}; start a new run"
            )
        await cache.restore(refresh, previous_ms, rows)
    return [refresh.table for refresh, _ in differing]


async def _documents(
    cut: Cut, documents: GenerationSource | None, documents_at: DocumentsAt | None
) -> Sequence[EmbeddedChunk]:
    if documents_at is not None:
        return await documents_at(cut)
    return (await documents.generation())[0] if documents is not None else []
