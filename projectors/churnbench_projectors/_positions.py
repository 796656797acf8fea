"""The stored positions of projectors, in the same database as their views; and reading both at one moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg_pool import AsyncConnectionPool

from churnbench.cuts import partition_of
from churnbench.errors import CutMovedError, UsageError
from churnbench.events import Event

__all__ = [
    "Pool",
    "ensure_positions",
    "locked_positions",
    "newer",
    "put_positions",
    "read_positions",
    "snapshot",
    "swap_schema",
]

Pool = AsyncConnectionPool[AsyncConnection[Any]]

SETUP_LOCK = 7_209_441
"""Advisory lock of those who make tables; CREATE … IF NOT EXISTS fails when two do so at once."""


async def ensure_positions(connection: AsyncConnection[Any], projector: str, partitions: int) -> None:
    """A position before the first event for each partition that has none."""
    await connection.execute(
        "INSERT INTO meta.positions (projector, partition, position) "
        "SELECT %s, p, -1 FROM generate_series(0, %s - 1) AS p ON CONFLICT DO NOTHING",
        (projector, partitions),
    )


async def read_positions(connection: AsyncConnection[Any], projector: str) -> dict[int, int]:
    """Partition -> position."""
    cursor = await connection.execute(
        "SELECT partition, position FROM meta.positions WHERE projector = %s ORDER BY partition", (projector,)
    )
    return {partition: position async for partition, position in cursor}


async def locked_positions(
    connection: AsyncConnection[Any], projector: str, held: Mapping[int, int], moved: Mapping[int, int]
) -> dict[int, int]:
    """Locks the partitions in `moved` until the transaction ends, and checks that they are where `held` says.

    Returns:
        Partition -> seq of the last event applied, -1 where there is none.

    Raises:
        CutMovedError: one of them is elsewhere, or `moved` lies behind; nothing is changed.
        UsageError: a partition that the ledger does not have.
    """
    cursor = await connection.execute(
        "SELECT partition, position, last_seq FROM meta.positions "
        "WHERE projector = %s AND partition = ANY(%s) ORDER BY partition FOR UPDATE",
        (projector, list(moved)),
    )
    found = {partition: (position, seq) async for partition, position, seq in cursor}
    for partition, target in moved.items():
        if partition not in found:
            raise UsageError(f"{projector} has no partition {partition}; it keeps 0 to {len(held) - 1}")
        position = found[partition][0]
        if position != held.get(partition):
            raise CutMovedError(
                f"{projector} partition {partition} is at {position}, no longer at {held.get(partition)}: "
                "another owner moved it; read its cut anew"
            )
        if target < position:
            raise CutMovedError(
                f"{projector} partition {partition} is at {position}, beyond {target}; read its cut anew"
            )
    return {partition: seq for partition, (_, seq) in found.items()}


async def put_positions(
    connection: AsyncConnection[Any], projector: str, moved: Mapping[int, int], last: Mapping[int, int]
) -> None:
    """Stores positions, and the last seqs, of partitions that are locked."""
    await connection.execute(
        "UPDATE meta.positions AS p SET position = n.position, last_seq = n.seq "
        "FROM unnest(%s::int[], %s::bigint[], %s::bigint[]) AS n(partition, position, seq) "
        "WHERE p.projector = %s AND p.partition = n.partition",
        (list(moved), list(moved.values()), [last[partition] for partition in moved], projector),
    )


def newer(events: Iterable[Event], last: dict[int, int], partitions: int) -> list[Event]:
    """The events beyond the last seq of their partition; `last` is moved along. So repeats are dropped."""
    fresh = []
    for event in events:
        partition = partition_of(event.entity_id, partitions)
        if event.seq > last[partition]:
            last[partition] = event.seq
            fresh.append(event)
    return fresh


@asynccontextmanager
async def snapshot(pool: Pool) -> AsyncIterator[AsyncConnection[Any]]:
    """A connection in one REPEATABLE READ, READ ONLY transaction, which is rolled back.

    A statement finds tables by name as they are now, not as of the snapshot: without the lock, which `swap_schema`
    waits for, a reader could find a table that was swapped in after its snapshot, and see it empty. Rolled back, so
    that no setting of a statement outlives it.
    """
    async with pool.connection() as connection, connection.transaction(force_rollback=True):
        await connection.execute(
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; LOCK TABLE meta.positions IN ACCESS SHARE MODE"
        )
        yield connection


async def swap_schema(connection: AsyncConnection[Any], schemas: tuple[str, str], projectors: tuple[str, str]) -> None:
    """Puts a filled schema and its positions in the place of the old ones, which are removed.

    Waits for readers that have begun; those that come later wait until the caller's transaction ends.

    Args:
        connection: in a transaction.
        schemas: the old one and the new one, which takes its name.
        projectors: the names of their projectors.

    Raises:
        CutMovedError: the old view has gone beyond the new one; nothing is changed.
    """
    await connection.execute("LOCK TABLE meta.positions IN ACCESS EXCLUSIVE MODE")
    old, new = [await read_positions(connection, name) for name in projectors]
    behind = [partition for partition, position in old.items() if new.get(partition, -1) < position]
    if behind:
        raise CutMovedError(
            f"{projectors[0]} has moved on to {old} while {projectors[1]} is at {new}; catch up, then adopt"
        )
    mine, theirs = (sql.Identifier(schema) for schema in schemas)
    await connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(mine))
    await connection.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(theirs, mine))
    await connection.execute("DELETE FROM meta.positions WHERE projector = %s", (projectors[0],))
    await connection.execute(
        "UPDATE meta.positions SET projector = %s WHERE projector = %s", (projectors[0], projectors[1])
    )
