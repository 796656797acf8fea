"""The stored positions of projectors, in the same database as their views."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from churnbench.errors import CutMovedError, SourceUnavailableError

__all__ = ["Pool", "answered", "ensure_positions", "move_positions", "read_positions", "snapshot"]

Pool = AsyncConnectionPool[AsyncConnection[Any]]

SETUP_LOCK = 7_209_441
"""Advisory lock of those who make tables; CREATE … IF NOT EXISTS fails when two do so at once."""


@contextmanager
def answered(source: str) -> Iterator[None]:
    """Turns a server that does not answer into a `SourceUnavailableError`."""
    try:
        yield
    except (psycopg.OperationalError, PoolTimeout) as error:
        text = (str(error).strip().splitlines() or [repr(error)])[0]
        raise SourceUnavailableError(f"the PostgreSQL of {source} did not answer: {text}") from error


async def ensure_positions(connection: AsyncConnection[Any], projector: str, partitions: int) -> None:
    """Makes the table, and a position before the first event for each partition that has none."""
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS meta.positions (projector text NOT NULL, partition int NOT NULL, "
        "position bigint NOT NULL, PRIMARY KEY (projector, partition))"
    )
    await connection.execute(
        "INSERT INTO meta.positions SELECT %s, p, -1 FROM generate_series(0, %s - 1) AS p ON CONFLICT DO NOTHING",
        (projector, partitions),
    )


async def read_positions(connection: AsyncConnection[Any], projector: str) -> dict[int, int]:
    """Partition -> position."""
    cursor = await connection.execute(
        "SELECT partition, position FROM meta.positions WHERE projector = %s ORDER BY partition", (projector,)
    )
    return {partition: position async for partition, position in cursor}


async def move_positions(
    connection: AsyncConnection[Any], projector: str, held: Mapping[int, int], moved: Mapping[int, int]
) -> None:
    """Compare-and-set of the partitions in `moved`, from where `held` says that they are.

    Raises:
        CutMovedError: one of them is elsewhere; the caller's transaction has to be rolled back.
    """
    for partition, position in moved.items():
        cursor = await connection.execute(
            "UPDATE meta.positions SET position = %s WHERE projector = %s AND partition = %s AND position = %s",
            (position, projector, partition, held.get(partition, -1)),
        )
        if cursor.rowcount != 1:
            raise CutMovedError(
                f"{projector} partition {partition} is no longer at {held.get(partition, -1)}: another owner moved it"
            )


@asynccontextmanager
async def snapshot(pool: Pool) -> AsyncIterator[AsyncConnection[Any]]:
    """A connection in one REPEATABLE READ, READ ONLY transaction."""
    async with pool.connection() as connection, connection.transaction():
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield connection
