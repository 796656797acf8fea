"""Views that are kept outside PostgreSQL: their positions stand in the run's database, and which copy is live.

A store outside does not change in one transaction with a position. What PostgreSQL does for it:

- A view is filled in a *generation*, a copy with a number of its own, and a row here says which one is live. Emptying
  a view, and putting a rebuilt one in its place, makes another generation live in one transaction with the positions.
  A late owner writes to a generation that nobody reads any more, which is swept away.
- Whoever applies a batch holds the rows of its partitions' positions meanwhile, and moves them at its end.
- Whoever reads keeps the live generation in place until it has read, and can hold the next batches until then.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, LiteralString, NamedTuple, Protocol

from psycopg import AsyncConnection

from churnbench.errors import CutMovedError, UsageError
from churnbench.stores.postgres import RunDatabase
from churnbench_projectors._positions import SETUP_LOCK, ensure_positions, locked_positions, read_positions, snapshot

__all__ = ["Generations", "Outside", "Place"]

_TABLES: LiteralString = """
CREATE SEQUENCE IF NOT EXISTS meta.generation_numbers;
CREATE TABLE IF NOT EXISTS meta.generations (projector text PRIMARY KEY, generation bigint NOT NULL);
"""
_PLACE: LiteralString = (
    "SELECT generation, partition, position, last_seq FROM meta.generations JOIN meta.positions USING (projector) "
    "WHERE projector = %s ORDER BY partition"
)


class Place(NamedTuple):
    """Where a view is.

    Attributes:
        generation: the live one.
        positions: partition -> position.
        last: partition -> seq of the last event applied, -1 where there is none.
    """

    generation: int
    positions: dict[int, int]
    last: dict[int, int]


class Outside(Protocol):
    """The store that holds the generations."""

    async def make(self, generation: int) -> None:
        """Makes an empty generation."""

    async def holds(self, generation: int) -> bool:
        """Whether a generation that was made is still there."""

    async def settle(self, connection: AsyncConnection[Any], live: int, kept: Collection[int]) -> None:
        """Shows others the live generation, and removes those that are not `kept`."""


class Generations:
    """The generations and positions of one projector.

    Args:
        db: the run's database.
        name: the projector's.
        partitions: of the ledger.
        outside: where the view is.
    """

    def __init__(self, db: RunDatabase, name: str, partitions: int, outside: Outside) -> None:
        self.name = name
        self._db = db
        self._partitions = partitions
        self._outside = outside
        digest = hashlib.blake2b(f"view {name}".encode(), digest_size=8).digest()
        self._lock = int.from_bytes(digest, "big", signed=True)

    @asynccontextmanager
    async def _arranging(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A transaction of one of those who make, change and remove generations: one at a time."""
        async with self._db.pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
            yield connection

    async def ensure(self) -> None:
        """Makes what is missing. A view that its store has lost is empty at the empty cut, to be filled anew.

        Raises:
            UsageError: another kind of store keeps the view of this run.
        """
        async with self._arranging() as connection:
            await connection.execute(_TABLES)
            await connection.execute(f'GRANT SELECT ON meta.generations TO "{self._db.reader_role}"'.encode())
            await ensure_positions(connection, self.name, self._partitions)
            cursor = await connection.execute(
                "SELECT generation FROM meta.generations WHERE projector = %s", (self.name,)
            )
            row = await cursor.fetchone()
            if row is None:
                positions = await read_positions(connection, self.name)
                if any(position >= 0 for position in positions.values()):
                    raise UsageError(
                        f"the {self.name} of the run {self._db.run_id!r} are kept in another store; "
                        "go on with the profile that began the run, or start a new run"
                    )
            if row is None or not await self._outside.holds(row[0]):
                await self._renewed(connection)
        await self._settle()

    async def _renewed(self, connection: AsyncConnection[Any]) -> None:
        cursor = await connection.execute("SELECT nextval('meta.generation_numbers')")
        row = await cursor.fetchone()
        number = row[0] if row is not None else 0
        await self._outside.make(number)
        # Readers that have begun keep the old generation until they end.
        await connection.execute("LOCK TABLE meta.positions IN ACCESS EXCLUSIVE MODE")
        await connection.execute(
            "INSERT INTO meta.generations VALUES (%s, %s) "
            "ON CONFLICT (projector) DO UPDATE SET generation = excluded.generation",
            (self.name, number),
        )
        await connection.execute(
            "UPDATE meta.positions SET position = -1, last_seq = -1 WHERE projector = %s", (self.name,)
        )

    async def _settle(self) -> None:
        async with self._arranging() as connection:
            cursor = await connection.execute("SELECT projector, generation FROM meta.generations")
            kept = {projector: generation async for projector, generation in cursor}
            if self.name in kept:
                await self._outside.settle(connection, kept[self.name], kept.values())

    async def renew(self) -> None:
        """Makes an empty generation live, at the empty cut, and removes the one before."""
        async with self._arranging() as connection:
            await self._renewed(connection)
        await self._settle()

    async def take(self, shadow: Generations) -> None:
        """Makes the generation of a shadow live, at its cut; the shadow has none afterwards.

        Raises:
            CutMovedError: this view has gone beyond the shadow; nothing is changed.
        """
        async with self._arranging() as connection:
            await connection.execute("LOCK TABLE meta.positions IN ACCESS EXCLUSIVE MODE")
            old, new = [await read_positions(connection, name) for name in (self.name, shadow.name)]
            behind = [partition for partition, position in old.items() if new.get(partition, -1) < position]
            if behind:
                raise CutMovedError(f"{self.name} has moved on to {old} while {shadow.name} is at {new}; catch up")
            for table in ("meta.positions", "meta.generations"):
                await connection.execute(f"DELETE FROM {table} WHERE projector = %s".encode(), (self.name,))  # noqa: S608
                await connection.execute(
                    f"UPDATE {table} SET projector = %s WHERE projector = %s".encode(),  # noqa: S608
                    (self.name, shadow.name),
                )
        await self._settle()

    async def place(self, connection: AsyncConnection[Any]) -> Place:
        """Where the view is, in one statement.

        Raises:
            CutMovedError: it was removed meanwhile.
        """
        rows = await (await connection.execute(_PLACE, (self.name,))).fetchall()
        if not rows:
            raise CutMovedError(f"{self.name} has been put in another's place or removed; read its cut anew")
        return Place(rows[0][0], {row[1]: row[2] for row in rows}, {row[1]: row[3] for row in rows})

    async def placed(self) -> Place:
        """See `place`, in a transaction of its own."""
        async with self._db.pool.connection() as connection:
            return await self.place(connection)

    @asynccontextmanager
    async def moving(
        self, held: Mapping[int, int], moved: Mapping[int, int]
    ) -> AsyncIterator[tuple[AsyncConnection[Any], Place]]:
        """A transaction that owns the partitions in `moved`, to apply a batch and `put_positions` in.

        Raises:
            CutMovedError: see `locked_positions`.
            UsageError: see `locked_positions`.
        """
        async with self._db.pool.connection() as connection, connection.transaction():
            # First, so that whoever wants the table alone waits for the whole of the batch.
            await connection.execute("LOCK TABLE meta.positions IN ROW EXCLUSIVE MODE")
            await connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (self._lock,))
            await locked_positions(connection, self.name, held, moved)
            yield connection, await self.place(connection)

    @asynccontextmanager
    async def reading(self, *, alone: bool) -> AsyncIterator[Place]:
        """Where the view is; its generation stays until the caller has read.

        Args:
            alone: waits for the batches that are being applied, and holds those that come until then.
        """
        async with self._db.reader.connection() as connection, connection.transaction(force_rollback=True):
            await connection.execute("SET TRANSACTION READ ONLY; LOCK TABLE meta.positions IN ACCESS SHARE MODE")
            if alone:
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock,))
            yield await self.place(connection)

    @asynccontextmanager
    async def pinned(self) -> AsyncIterator[tuple[AsyncConnection[Any], Place]]:
        """As `reading`, with the transaction, whose statements all see what the place is of."""
        async with snapshot(self._db.reader) as connection:
            yield connection, await self.place(connection)
