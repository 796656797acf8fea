"""A toy world, a run over it, and sources that are what the law says: folds of the ledger up to the tick reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from churnbench.clock import SystemClock
from churnbench.cuts import Cut
from churnbench.errors import NotFoundError
from churnbench.log import LedgerReader, Log, SqliteLog
from churnbench.records import RUN_TOPICS, Tick, Watermark
from churnbench.runs import Run
from churnbench.sources import EmbeddedChunk
from churnbench.tables import Fold, Row
from churnbench.worlds import WorldSpec, ledger_topic
from churnbench_producers import drive_frozen, frozen_times, publish_world
from churnbench_projectors._chunks import folded_chunks
from churnbench_projectors._embedders import HashingEmbedder
from churnbench_refresher import RefreshSources, layouts
from churnbench_refresher._layout import StagedLayout
from tests.toy import REGISTRY, START_MS, TOY

DAY = 86_400_000
EMBEDDER = HashingEmbedder()
LAYOUTS: dict[str, StagedLayout] = layouts(TOY, REGISTRY)


class FoldedSource:
    """A source of tables at the last tick that it was moved to."""

    def __init__(self, stage: Stage, store) -> None:
        self._stage = stage
        self._store = store
        self.reads = 0

    async def read(self, relation: str) -> tuple[list[Row], Cut]:
        self.reads += 1
        cut = self._stage.cut
        for candidate in (*self._store.tables, *self._store.views):
            if candidate.name == relation:
                fold = Fold(self._store.tables)
                fold.apply(await self._stage.events(cut))
                return fold.relation(candidate), Cut(dict(cut.positions))
        raise NotFoundError(f"no relation {relation!r}")

    async def generation(self) -> tuple[list[EmbeddedChunk], Cut]:
        return await self._stage.documents_at(self._stage.cut), self._stage.cut


class Stage:
    """Log, world, run and sources of one test."""

    def __init__(self, log: Log, ledger: str, run: Run) -> None:
        self.log = log
        self.ledger = ledger
        self.run = run
        self.cut = Cut({})
        self.warehouse = FoldedSource(self, TOY.warehouse)
        self.operations = FoldedSource(self, TOY.operations)
        self.sources = RefreshSources(
            {"warehouse": self.warehouse, "operations": self.operations}, self.warehouse, self.documents_at
        )

    async def events(self, cut: Cut):
        return await LedgerReader(self.log, self.ledger, TOY.codec).events(Cut(dict.fromkeys(cut.positions, -1)), cut)

    async def documents_at(self, cut: Cut) -> list[EmbeddedChunk]:
        chunks = folded_chunks(TOY.documents, await self.events(cut))
        vectors = EMBEDDER.embed([chunk.text for chunk in chunks])
        return [EmbeddedChunk(*chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True)]

    async def staged_at(self, name: str, cut: Cut) -> list[Row]:
        """What a staged table has to hold as of a cut, sorted."""
        if name == "documents":
            return sorted(tuple(chunk[:4]) for chunk in await self.documents_at(cut))
        layout = LAYOUTS[name]
        fold = Fold((TOY.warehouse if layout.table.source == "warehouse" else TOY.operations).tables)
        fold.apply(await self.events(cut))
        return sorted(layout.pick(fold.relation(layout.relation)))

    async def move(self, tick: Tick) -> None:
        """Moves the sources to a tick and says so."""
        self.cut = tick.cut
        marks = [Watermark(name, tick.number, tick.cut.positions) for name in ("warehouse", "operations", "contracts")]
        await self.run.topic("watermarks").append(marks, tick.at_ms)

    async def walk(self, days: Sequence[int], *, waits_for: Sequence[str] = ("refresher",)) -> list[Tick]:
        """A frozen walk over days of the world; the sources follow the clock."""
        times = frozen_times(START_MS + days[0] * DAY, START_MS + days[-1] * DAY)
        following = asyncio.create_task(self._follow())
        try:
            return await drive_frozen(
                self.log,
                self.run,
                self.ledger,
                times,
                ["warehouse", "operations", "contracts", *waits_for],
                patience=20,
            )
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _follow(self) -> None:
        async for _, tick in self.run.topic("clock").read(0, follow=True):
            await self.move(tick)


@asynccontextmanager
async def staged_world(folder: Path, partitions: int = 1, run_id: str = "run") -> AsyncIterator[Stage]:
    """A published toy world of 20 days, and an empty run."""
    log = SqliteLog(folder / "log.db")
    try:
        spec = WorldSpec("toy", 1, "small", TOY.parameters("small", {}), 7, partitions)
        await publish_world(log, TOY, spec, SystemClock())
        run = Run(log, run_id)
        for name in RUN_TOPICS:
            await run.topic(name).create()
        yield Stage(log, ledger_topic(spec.name), run)
    finally:
        await log.close()
