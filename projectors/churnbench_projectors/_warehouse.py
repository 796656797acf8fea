"""The warehouse: a domain's tables and views in a schema of PostgreSQL."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.pq import TransactionStatus

from churnbench.cuts import Cut
from churnbench.domain import Store
from churnbench.errors import NotFoundError, SourceUnavailableError, UsageError
from churnbench.events import Event
from churnbench.stores.postgres import RunDatabase, answering
from churnbench.tables import Column, EntityTable, FactTable, Relation, Row, View, fingerprint
from churnbench_projectors._positions import (
    SETUP_LOCK,
    ensure_positions,
    locked_positions,
    newer,
    put_positions,
    read_positions,
    snapshot,
    swap_schema,
)

__all__ = ["WarehouseProjector"]

_TYPES: dict[str, LiteralString] = {
    "text": "text",
    "int": "bigint",
    "float": "double precision",
    "bool": "boolean",
    "time": "timestamptz",
}
_COMMENTS = re.compile(r"\s+|--[^\n]*|/\*.*?\*/", re.DOTALL)
_READS = re.compile(r"\(*\s*(select|with|values|table)\b", re.IGNORECASE)


def _columns(columns: Sequence[Column]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)


def _typed(columns: Sequence[Column]) -> sql.Composed:
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(_TYPES[column.type])) for column in columns
    )


class WarehouseProjector:
    """Keeps a `Store` in a schema of the run's database; implements `Projector` and `SqlSource`.

    View and position are stored in one transaction, the position by compare-and-set: the loser of a race changes
    nothing. Beside the position stands the seq of the partition's last event, and an event not beyond it changes
    nothing either, so that tables hold the declared columns and rows alone.

    Args:
        db: the run's database.
        store: the tables and views.
        partitions: of the ledger.
        name: the projector's name.
        schema: where its tables are; made where it is missing.
    """

    def __init__(
        self, db: RunDatabase, store: Store, partitions: int, *, name: str = "warehouse", schema: str = "warehouse"
    ) -> None:
        self.name = name
        self.schema = schema
        self.kinds: frozenset[str] = frozenset().union(*(table.kinds for table in store.tables))
        self._db = db
        self._store = store
        self._partitions = partitions
        self._relations: dict[str, Relation] = {r.name: r for r in (*store.tables, *store.views)}
        self._held: dict[int, int] | None = None
        self._made = False
        self._making = asyncio.Lock()

    def _id(self, name: str) -> sql.Identifier:
        return sql.Identifier(self.schema, name)

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection[Any]]:
        with answering(f"the PostgreSQL of {self.name}"):
            await self._make()
            async with self._db.pool.connection() as connection, connection.transaction():
                yield connection

    # -- making -----------------------------------------------------------------------------------------

    async def _make(self) -> None:
        if self._made:
            return
        async with self._making, self._db.pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
            await ensure_positions(connection, self.name, self._partitions)
            await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.schema)))
            await self._db.let_read(connection, self.schema)
            cursor = await connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = %s", (self.schema,))
            found = await cursor.fetchone()
            if found == (0,):
                await self._make_tables(connection)
        self._made = True

    async def _make_tables(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(sql.SQL("SET LOCAL search_path TO {}, public").format(sql.Identifier(self.schema)))
        for table in self._store.tables:
            await connection.execute(
                sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))").format(
                    self._id(table.name), _typed(table.columns), sql.Identifier(table.columns[0].name)
                )
            )
            for column in table.indexes:
                await connection.execute(
                    sql.SQL("CREATE INDEX ON {} ({})").format(self._id(table.name), sql.Identifier(column))
                )
        for view in self._store.views:
            if view.sql is not None:
                head = sql.SQL("CREATE VIEW {} AS ").format(self._id(view.name))
                await connection.execute(head.as_bytes(connection) + view.sql.encode())

    # -- projecting -------------------------------------------------------------------------------------

    async def cut(self) -> Cut:
        """See `Projector.cut`."""
        async with self._writing() as connection:
            held = await read_positions(connection, self.name)
        self._held = held
        return Cut(dict(held))

    async def apply(self, events: Sequence[Event], cut: Cut) -> None:
        """See `Projector.apply`."""
        held = self._held if self._held is not None else (await self.cut()).positions
        if not events and all(held.get(p) == position for p, position in cut.positions.items()):
            return
        async with self._writing() as connection:
            last = await locked_positions(connection, self.name, held, cut.positions)
            fresh = newer(events, last, self._partitions)
            for table in self._store.tables:
                wanted = [event for event in fresh if event.kind in table.kinds]
                if not wanted:
                    continue
                if isinstance(table, FactTable):
                    await self._append(connection, table, [table.row(event) for event in wanted])
                else:
                    await self._step(connection, table, wanted)
            await put_positions(connection, self.name, cut.positions, last)
        self._held = {**held, **cut.positions}

    async def _append(
        self, connection: AsyncConnection[Any], table: FactTable | EntityTable, rows: Sequence[Row]
    ) -> None:
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            self._id(table.name), _columns(table.columns)
        )
        async with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_TYPES[column.type] for column in table.columns])
            for row in rows:
                await copy.write_row(row)

    async def _step(self, connection: AsyncConnection[Any], table: EntityTable, events: Sequence[Event]) -> None:
        key = sql.Identifier(table.columns[0].name)
        cursor = await connection.execute(
            sql.SQL("SELECT {} FROM {} WHERE {} = ANY(%s)").format(_columns(table.columns), self._id(table.name), key),
            (list({event.entity_id for event in events}),),
        )
        before: dict[str, Row] = {row[0]: row async for row in cursor}
        rows: dict[str, Row | None] = dict(before)
        for event in events:
            rows[event.entity_id] = table.step(rows.get(event.entity_id), event)
        gone = [entity for entity, row in before.items() if rows[entity] != row]
        if gone:
            await connection.execute(
                sql.SQL("DELETE FROM {} WHERE {} = ANY(%s)").format(self._id(table.name), key), (gone,)
            )
        written = [row for entity, row in rows.items() if row is not None and row != before.get(entity)]
        if written:
            await self._append(connection, table, written)

    async def reset(self) -> None:
        """See `Projector.reset`; readers see the old view or the empty one."""
        async with self._writing() as connection:
            # The positions first, as `apply` does. Not TRUNCATE: older transactions would see the tables empty.
            await connection.execute(
                "UPDATE meta.positions SET position = -1, last_seq = -1 WHERE projector = %s", (self.name,)
            )
            for table in self._store.tables:
                await connection.execute(sql.SQL("DELETE FROM {}").format(self._id(table.name)))
        self._held = dict.fromkeys(range(self._partitions), -1)

    async def fingerprint(self) -> str:
        """See `Projector.fingerprint`; of the tables, not of the views."""
        rows, _ = await self._read([table.name for table in self._store.tables])
        return fingerprint(rows)

    async def close(self) -> None:
        """See `Projector.close`; the database's owner closes the connections."""

    # -- rebuilding -------------------------------------------------------------------------------------

    async def shadow(self) -> WarehouseProjector:
        """An empty projector of the same store in a schema of its own, to be filled and then adopted."""
        shadow = WarehouseProjector(
            self._db, self._store, self._partitions, name=f"{self.name}.shadow", schema=f"{self.schema}_shadow"
        )
        await shadow.reset()
        return shadow

    async def adopt(self, shadow: WarehouseProjector) -> None:
        """Takes over the view and cut of a filled `shadow`, in one transaction; readers see the old or the new.

        Raises:
            CutMovedError: this view has gone beyond the shadow, which has to catch up; nothing is changed.
        """
        async with self._writing() as connection:
            await swap_schema(connection, (self.schema, shadow.schema), (self.name, shadow.name))
        self._held = None
        shadow._made = False

    # -- reading ----------------------------------------------------------------------------------------

    async def read(self, relation: str) -> tuple[list[Row], Cut]:
        """See `TableSource.read`."""
        declared = self._relations.get(relation)
        if declared is None:
            raise NotFoundError(f"the {self.name} has no {relation!r}; it has: {', '.join(self._relations)}")
        if isinstance(declared, View) and declared.sql is None:
            rows, cut = await self._read(declared.inputs)
            return list(declared.derive(rows)), cut
        rows, cut = await self._read([relation])
        return rows[relation], cut

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection[Any]]:
        with answering(f"the PostgreSQL of {self.name}"):
            await self._make()
            async with snapshot(self._db.reader) as connection:
                yield connection

    async def _read(self, relations: Sequence[str]) -> tuple[dict[str, list[Row]], Cut]:
        rows = {}
        async with self._reading() as connection:
            for name in relations:
                cursor = await connection.execute(
                    sql.SQL("SELECT {} FROM {}").format(_columns(self._relations[name].columns), self._id(name))
                )
                rows[name] = await cursor.fetchall()
            return rows, Cut(await read_positions(connection, self.name))

    async def query(self, statement: str, parameters: Mapping[str, Any]) -> tuple[list[Row], Cut]:
        """See `SqlSource.query`; runs as the run's read-only role.

        Without parameters, a `%` in the statement stands for itself; with some, `%%` does.
        """
        if _READS.match(_COMMENTS.sub(" ", statement).strip()) is None:
            raise UsageError(f"the {self.name} runs one SELECT, not {statement.strip()[:60]!r}")
        async with self._reading() as connection:
            try:
                # Prepared, because the server prepares one statement only: `SELECT 1; COMMIT` is refused.
                cursor = await connection.execute(statement.encode(), dict(parameters) or None, prepare=True)
                rows = await cursor.fetchall()
            except psycopg.errors.QueryCanceled as error:
                raise SourceUnavailableError(f"a query of the {self.name} took too long and was cancelled") from error
            except psycopg.OperationalError:
                raise
            except psycopg.Error as error:
                raise UsageError(f"the {self.name} refuses the statement: {_first_line(error)}") from error
            if connection.info.transaction_status != TransactionStatus.INTRANS:
                raise UsageError(f"the {self.name} runs one SELECT, not {statement.strip()[:60]!r}")
            return rows, Cut(await read_positions(connection, self.name))


def _first_line(error: psycopg.Error) -> str:
    return (str(error).strip().splitlines() or [repr(error)])[0]
