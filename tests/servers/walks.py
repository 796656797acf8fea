"""Worlds that are walked tick by tick, with the embedded engine beside the one under test."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from churnbench.cuts import Cut
from churnbench.domain import Domain
from churnbench.events import Event
from churnbench.log import Log, SqliteLog, cut_at
from churnbench.stores.postgres import PostgresServer, embedded_server, stop_embedded
from churnbench.testing import write_ledger
from churnbench_sam import DOMAIN as SAM
from tests.toy import TOY

DAY_MS = 86_400_000
LEDGER = "world.ledger"


class World(NamedTuple):
    domain: Domain
    preset: str
    overrides: dict[str, str]
    partitions: int


TOY_WORLD = World(TOY, "small", {}, 3)
REFERENCE_20_DAYS = World(SAM, "reference", {"days": "20"}, 4)


class Walk(NamedTuple):
    log: Log
    domain: Domain
    events: Sequence[Event]
    ticks: Sequence[tuple[int, Cut]]
    partitions: int


@asynccontextmanager
async def walked(world: World, folder: Path) -> AsyncIterator[Walk]:
    """A world's ledger, with a tick at the end of each day."""
    domain = world.domain
    parameters = domain.parameters(world.preset, world.overrides)
    events = list(domain.simulate(parameters, 7))
    log = SqliteLog(folder / "log.db")
    try:
        await write_ledger(log, LEDGER, domain.codec, events, world.partitions)
        start, end = domain.span(parameters)
        times = range(start + DAY_MS - 1, end, DAY_MS)
        ticks = [(at_ms, await cut_at(log, LEDGER, at_ms)) for at_ms in times]
        yield Walk(log, domain, events, ticks, world.partitions)
    finally:
        await log.close()


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    # A socket's path is short on every system; pytest's own folders are not.
    home = Path(tempfile.mkdtemp(prefix="cb"))
    try:
        yield asyncio.run(embedded_server(home))
    finally:
        asyncio.run(stop_embedded(home))
        shutil.rmtree(home, ignore_errors=True)
