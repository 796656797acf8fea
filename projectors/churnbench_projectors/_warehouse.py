"""The warehouse: a domain's tables and views in a schema of PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from churnbench.cuts import Cut
from churnbench.domain import Store
from churnbench.errors import NotFoundError, SourceUnavailableError, UsageError
from churnbench.events import Event
from churnbench.stores.postgres import RunDatabase
from churnbench.tables import Column, EntityTable, FactTable, Relation, Row, View, fingerprint
from churnbench_projectors._positions import (
    SETUP_LOCK,
    answered,
    ensure_positions,
    move_positions,
    read_positions,
    snapshot,
)
from churnbench_projectors._stepping import Stored, sort_events, step_entities

__all__ = ["WarehouseProjector"]

_TYPES = {"text": "text", "int": "bigint", "float": "double precision", "bool": "boolean", "time": "timestamptz"}
_SNAPSHOT_TRIES = 5


def _columns(columns: Sequence[Column]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)


def _typed(columns: Sequence[Column]) -> sql.Composed:
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(_TYPES[column.type])) for column in columns
    )


class WarehouseProjector:
    """Keeps a `Store` in a schema of the run's database; implements `Projector` and `SqlSource`.

    View and position are stored in one transaction, the position by compare-and-set: the loser of a race changes
    nothing. Each row of an entity table carries the seq of its entity's last event, and a removed one leaves it
    behind, so that an old event changes nothing either.

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

    # -- making -----------------------------------------------------------------------------------------

    async def _make(self) -> None:
        if self._made:
            return
        async with self._making, self._db.pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
            await ensure_positions(connection, self.name, self._partitions)
            await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.schema)))
            cursor = await connection.execute("SELECT to_regclass(%s)", (f'"{self.schema}"."_generation"',))
            found = await cursor.fetchone()
            if found is None or found[0] is None:
                await self._make_tables(connection)
        self._made = True

    async def _make_tables(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(sql.SQL("SET LOCAL search_path TO {}, public").format(sql.Identifier(self.schema)))
        for table in self._store.tables:
            hidden = sql.SQL(", _seq bigint NOT NULL") if isinstance(table, EntityTable) else sql.SQL("")
            key = sql.Identifier(table.columns[0].name)
            await connection.execute(
                sql.SQL("CREATE TABLE {} ({}{}, PRIMARY KEY ({}))").format(
                    self._id(table.name), _typed(table.columns), hidden, key
                )
            )
            for column in table.indexes:
                await connection.execute(
                    sql.SQL("CREATE INDEX ON {} ({})").format(self._id(table.name), sql.Identifier(column))
                )
        await connection.execute(
            "CREATE TABLE _removed (relation text NOT NULL, entity text NOT NULL, seq bigint NOT NULL, "
            "PRIMARY KEY (relation, entity))"
        )
        for view in self._store.views:
            if view.sql is not None:
                text = view.sql.encode()
                await connection.execute(sql.SQL("CREATE VIEW {} AS ").format(self._id(view.name)).as_bytes() + text)
        # A reader whose snapshot is older than this row would see the tables of a swapped schema as empty.
        await connection.execute("CREATE TABLE _generation (made bigint NOT NULL)")
        await connection.execute("INSERT INTO _generation VALUES (txid_current())")

    # -- projecting -------------------------------------------------------------------------------------

    async def cut(self) -> Cut:
        """See `Projector.cut`."""
        with answered(self.name):
            await self._make()
            async with self._db.pool.connection() as connection:
                self._held = await read_positions(connection, self.name)
        return Cut(dict(self._held))

    async def apply(self, events: Sequence[Event], cut: Cut) -> None:
        """See `Projector.apply`."""
        held = self._held if self._held is not None else (await self.cut()).positions
        if not events and all(held.get(p) == position for p, position in cut.positions.items()):
            return
        work = sort_events(self._store.tables, events)
        with answered(self.name):
            async with self._db.pool.connection() as connection, connection.transaction():
                await move_positions(connection, self.name, held, cut.positions)
                for table in self._store.tables:
                    if isinstance(table, FactTable):
                        if table.name in work.facts:
                            await self._append(connection, table, work.facts[table.name])
                    elif table.name in work.entities:
                        await self._step(connection, table, work.entities[table.name])
        self._held = {**held, **cut.positions}

    async def _append(self, connection: AsyncConnection[Any], table: FactTable, rows: Sequence[Row]) -> None:
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(self._id(table.name), _columns(table.columns))
        async with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                await copy.write_row(row)

    async def _step(self, connection: AsyncConnection[Any], table: EntityTable, events: Sequence[Event]) -> None:
        touched = list({event.entity_id for event in events})
        key = sql.Identifier(table.columns[0].name)
        cursor = await connection.execute(
            sql.SQL("SELECT {}, _seq FROM {} WHERE {} = ANY(%s)").format(
                _columns(table.columns), self._id(table.name), key
            ),
            (touched,),
        )
        stored = {row[0]: Stored(tuple(row[:-1]), row[-1]) async for row in cursor}
        cursor = await connection.execute(
            sql.SQL("SELECT entity, seq FROM {} WHERE relation = %s AND entity = ANY(%s)").format(self._id("_removed")),
            (table.name, touched),
        )
        stored |= {entity: Stored(None, seq) async for entity, seq in cursor}
        changed = step_entities(table, stored, events)
        kept = [(*now.row, now.seq) for now in changed.values() if now.row is not None]
        removed = {entity: now.seq for entity, now in changed.items() if now.row is None}
        returned = [e for e, now in changed.items() if now.row is not None and e in stored and stored[e].row is None]
        if kept:
            await self._upsert(connection, table, kept)
        if removed:
            await connection.execute(
                sql.SQL("DELETE FROM {} WHERE {} = ANY(%s)").format(self._id(table.name), key), (list(removed),)
            )
            await connection.execute(
                sql.SQL(
                    "INSERT INTO {} SELECT %s, * FROM unnest(%s::text[], %s::bigint[]) "
                    "ON CONFLICT (relation, entity) DO UPDATE SET seq = excluded.seq"
                ).format(self._id("_removed")),
                (table.name, list(removed), list(removed.values())),
            )
        if returned:
            await connection.execute(
                sql.SQL("DELETE FROM {} WHERE relation = %s AND entity = ANY(%s)").format(self._id("_removed")),
                (table.name, returned),
            )

    async def _upsert(self, connection: AsyncConnection[Any], table: EntityTable, rows: list[Row]) -> None:
        arrays = [sql.SQL("%s::{}[]").format(sql.SQL(_TYPES[column.type])) for column in table.columns]
        rest = [sql.Identifier(column.name) for column in table.columns[1:]] + [sql.Identifier("_seq")]
        await connection.execute(
            sql.SQL(
                "INSERT INTO {table} ({columns}, _seq) SELECT * FROM unnest({arrays}, %s::bigint[]) "
                "ON CONFLICT ({key}) DO UPDATE SET {changes}"
            ).format(
                table=self._id(table.name),
                columns=_columns(table.columns),
                arrays=sql.SQL(", ").join(arrays),
                key=sql.Identifier(table.columns[0].name),
                changes=sql.SQL(", ").join(sql.SQL("{} = excluded.{}").format(name, name) for name in rest),
            ),
            [list(values) for values in zip(*rows, strict=True)],
        )

    async def reset(self) -> None:
        """See `Projector.reset`."""
        with answered(self.name):
            await self._make()
            async with self._db.pool.connection() as connection, connection.transaction():
                names = [self._id(table.name) for table in self._store.tables] + [self._id("_removed")]
                await connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(names)))
                await connection.execute("UPDATE meta.positions SET position = -1 WHERE projector = %s", (self.name,))
        self._held = None

    async def fingerprint(self) -> str:
        """See `Projector.fingerprint`; of the tables, not of the views."""
        rows, _ = await self._read([table.name for table in self._store.tables])
        return fingerprint(rows)

    async def close(self) -> None:
        """See `Projector.close`; the database's owner closes the connections."""

    # -- rebuilding -------------------------------------------------------------------------------------

    async def shadow(self) -> WarehouseProjector:
        """An empty projector of the same store in a schema of its own, to be rebuilt and then adopted."""
        shadow = WarehouseProjector(
            self._db, self._store, self._partitions, name=f"{self.name}.shadow", schema=f"{self.schema}_shadow"
        )
        await shadow.discard()
        return shadow

    async def discard(self) -> None:
        """Removes this projector's schema and positions; missing ones are no error."""
        with answered(self.name):
            async with self._db.pool.connection() as connection, connection.transaction():
                await ensure_positions(connection, self.name, self._partitions)
                await connection.execute(
                    sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self.schema))
                )
                await connection.execute("DELETE FROM meta.positions WHERE projector = %s", (self.name,))
        self._made = False
        self._held = None

    async def adopt(self, shadow: WarehouseProjector) -> None:
        """Takes over the view and cut of a rebuilt `shadow`, in one transaction; readers see the old or the new."""
        with answered(self.name):
            async with self._db.pool.connection() as connection, connection.transaction():
                mine, theirs = sql.Identifier(self.schema), sql.Identifier(shadow.schema)
                await connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(mine))
                await connection.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(theirs, mine))
                await self._db.let_read(connection, self.schema)
                await connection.execute("DELETE FROM meta.positions WHERE projector = %s", (self.name,))
                await connection.execute(
                    "UPDATE meta.positions SET projector = %s WHERE projector = %s", (self.name, shadow.name)
                )
        self._held = None

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

    async def _read(self, relations: Sequence[str]) -> tuple[dict[str, list[Row]], Cut]:
        statements = {
            name: sql.SQL("SELECT {} FROM {}").format(_columns(self._relations[name].columns), self._id(name))
            for name in relations
        }
        rows, positions = await self._snapshot(statements, {})
        return rows, Cut(positions)

    async def _snapshot(
        self, statements: Mapping[str, sql.Composed | bytes], parameters: Mapping[str, Any]
    ) -> tuple[dict[str, list[Row]], dict[int, int]]:
        """The rows of `statements` and the position, of one snapshot."""
        with answered(self.name):
            await self._make()
            for _ in range(_SNAPSHOT_TRIES):
                async with snapshot(self._db.reader) as connection:
                    rows = {}
                    for name, statement in statements.items():
                        cursor = await connection.execute(statement, parameters or None)
                        rows[name] = await cursor.fetchall()
                    made = await connection.execute(sql.SQL("SELECT 1 FROM {}").format(self._id("_generation")))
                    if await made.fetchone() is not None:
                        return rows, await read_positions(connection, self.name)
        raise SourceUnavailableError(f"the {self.name} was swapped during {_SNAPSHOT_TRIES} reads; try again")

    async def query(self, statement: str, parameters: Mapping[str, Any]) -> tuple[list[Row], Cut]:
        """See `SqlSource.query`; runs as the run's read-only role."""
        try:
            rows, positions = await self._snapshot({"": statement.encode()}, parameters)
        except psycopg.errors.QueryCanceled as error:
            raise SourceUnavailableError(f"a query of the {self.name} took too long and was cancelled") from error
        except (psycopg.ProgrammingError, psycopg.DataError, psycopg.InternalError) as error:
            text = (str(error).strip().splitlines() or [repr(error)])[0]
            raise UsageError(f"the {self.name} refuses the statement: {text}") from error
        return rows[""], Cut(positions)
