"""Projecting the reference world cold to T, beside a bare COPY of the warehouse's rows and decoding all lines."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from benchmarks._measure import Result, timed
from benchmarks._world import reference_spec
from churnbench.clock import SystemClock, parse_time
from churnbench.cuts import Cut
from churnbench.domain import find_domain
from churnbench.log import SqliteLog, cut_at
from churnbench.stores.postgres import RunDatabase, embedded_server
from churnbench.tables import FactTable, Fold
from churnbench.worlds import ledger_topic
from churnbench_producers import publish_world
from churnbench_projectors import (
    ContractsProjector,
    OperationsProjector,
    SaasProjector,
    WarehouseProjector,
    catch_up,
    make_embedder,
)

__all__ = ["projection_results"]

_TYPES = {"text": "text", "int": "bigint", "float": "double precision", "bool": "boolean", "time": "timestamptz"}


async def _bare(database: RunDatabase, values: list[bytes], upto: int) -> float:
    """Seconds of a COPY of every warehouse row into tables without keys, and of decoding every line."""
    domain = find_domain("sam")
    seconds: list[float] = []
    with timed(seconds):
        events = [domain.codec.decode(value) for value in values]
    fold = Fold(domain.warehouse.tables)
    fold.apply(events[:upto])
    async with database.pool.connection() as connection:
        for table in domain.warehouse.tables:
            columns = ", ".join(f'"{column.name}" {_TYPES[column.type]}' for column in table.columns)
            await connection.execute(f"CREATE TABLE bare_{table.name} ({columns})".encode())
        with timed(seconds):
            for table in domain.warehouse.tables:
                async with connection.cursor() as cursor:
                    statement = f"COPY bare_{table.name} FROM STDIN".encode()
                    async with cursor.copy(statement) as copy:
                        for row in fold.rows(table.name):
                            await copy.write_row(row)
            await connection.commit()
    facts = sum(len(list(fold.rows(t.name))) for t in domain.warehouse.tables if isinstance(t, FactTable))
    assert facts > 30_000
    return sum(seconds)


async def _measured(folder: Path) -> Result:
    domain, spec = find_domain("sam"), reference_spec()
    log = SqliteLog(folder / "log.db")
    await publish_world(log, domain, spec, SystemClock())
    topic = ledger_topic(spec.name)
    cut = await cut_at(log, topic, parse_time("2024-04-27"))
    values = [record.value async for batch in log.read(topic, {0: 0}) for record in batch][:-1]
    embedder = make_embedder("hashing")
    embedder.embed(["warm"])
    server = await embedded_server(folder)
    cold, bare = [], []
    for number in range(3):
        async with await RunDatabase.open(server, f"bench-{number}") as database:
            bare.append(await _bare(database, values, cut.events))
            projectors = [
                WarehouseProjector(database, domain.warehouse, 1),
                OperationsProjector(database, domain.operations, 1),
                SaasProjector(domain.saas, 1),
                ContractsProjector(database, domain.documents, embedder, 1),
            ]
            for projector in projectors:
                assert await projector.cut() == Cut.empty(1)
            with timed(cold):
                await catch_up(projectors, log, topic, domain.codec, cut)
        await RunDatabase.drop(server, f"bench-{number}")
    await log.close()
    note = f"{cut.events:,} events; bare = COPY of the warehouse's rows + decoding all lines"
    return Result("project all four sources cold to T", min(cold), min(bare), 5, note)


def projection_results() -> list[Result]:
    """Four sources from nothing to T."""
    with tempfile.TemporaryDirectory() as name:
        return [asyncio.run(_measured(Path(name)))]
