"""The operational store of the embedded profile: documents as JSONB in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from churnbench.cuts import Cut
from churnbench.domain import Store
from churnbench.errors import NotFoundError, UsageError
from churnbench.events import Event, from_millis, to_millis
from churnbench.stores.postgres import RunDatabase
from churnbench.tables import EntityTable, Relation, Row, Table, View, fingerprint
from churnbench_projectors._positions import (
    SETUP_LOCK,
    answered,
    ensure_positions,
    move_positions,
    read_positions,
    snapshot,
)
from churnbench_projectors._stepping import Stored, sort_events, step_entities

__all__ = ["OperationsProjector", "document_of", "row_of"]


def document_of(table: Table, row: Row) -> dict[str, Any]:
    """A row as a document: the columns by name, times as milliseconds."""
    return {
        column.name: to_millis(value) if column.type == "time" and value is not None else value
        for column, value in zip(table.columns, row, strict=True)
    }


def row_of(table: Table, document: Mapping[str, Any]) -> Row:
    """The row that `document_of` wrote."""
    values = []
    for column in table.columns:
        value = document[column.name]
        if value is not None and column.type == "time":
            value = from_millis(value)
        elif value is not None and column.type == "float":
            value = float(value)
        values.append(value)
    return tuple(values)


class OperationsProjector:
    """Keeps a `Store` as collections of documents; implements `Projector` and `TableSource`.

    A document has the id of its entity, and the seq of its last event guards it: an older write changes nothing, and
    a removed document stays as a tombstone. Documents and position are stored in one transaction, the position by
    compare-and-set.

    Args:
        db: the run's database, with the schema `operations`.
        store: the collections, and views derived when read.
        partitions: of the ledger.
        name: the projector's name.
        schema: where its collections are, which exists.
    """

    def __init__(
        self, db: RunDatabase, store: Store, partitions: int, *, name: str = "operations", schema: str = "operations"
    ) -> None:
        self.name = name
        self.kinds: frozenset[str] = frozenset().union(*(table.kinds for table in store.tables))
        self._db = db
        self._schema = schema
        self._partitions = partitions
        self._tables: dict[str, Table] = {table.name: table for table in store.tables}
        self._relations: dict[str, Relation] = {r.name: r for r in (*store.tables, *store.views)}
        self._held: dict[int, int] | None = None
        self._made = False
        self._making = asyncio.Lock()

    def _id(self, name: str) -> sql.Identifier:
        return sql.Identifier(self._schema, name)

    async def _make(self) -> None:
        if self._made:
            return
        async with self._making, self._db.pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
            await ensure_positions(connection, self.name, self._partitions)
            for name, table in self._tables.items():
                await connection.execute(
                    sql.SQL(
                        "CREATE TABLE IF NOT EXISTS {} (_id text PRIMARY KEY, doc jsonb, seq bigint NOT NULL)"
                    ).format(self._id(name))
                )
                for column in table.indexes:
                    await connection.execute(
                        sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} ((doc ->> {}))").format(
                            sql.Identifier(f"{name}_{column}"), self._id(name), sql.Literal(column)
                        )
                    )
        self._made = True

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
        work = sort_events(self._tables.values(), events)
        with answered(self.name):
            async with self._db.pool.connection() as connection, connection.transaction():
                await move_positions(connection, self.name, held, cut.positions)
                for name, table in self._tables.items():
                    if name in work.facts:
                        rows = [(str(row[0]), row, row[0]) for row in work.facts[name]]
                        await self._upsert(connection, table, rows)
                    elif isinstance(table, EntityTable) and name in work.entities:
                        await self._step(connection, table, work.entities[name])
        self._held = {**held, **cut.positions}

    async def _step(self, connection: AsyncConnection[Any], table: EntityTable, events: Sequence[Event]) -> None:
        touched = list({event.entity_id for event in events})
        cursor = await connection.execute(
            sql.SQL("SELECT _id, doc, seq FROM {} WHERE _id = ANY(%s)").format(self._id(table.name)), (touched,)
        )
        stored = {key: Stored(row_of(table, doc) if doc is not None else None, seq) async for key, doc, seq in cursor}
        changed = step_entities(table, stored, events)
        if changed:
            await self._upsert(connection, table, [(key, now.row, now.seq) for key, now in changed.items()])

    async def _upsert(
        self, connection: AsyncConnection[Any], table: Table, items: Sequence[tuple[str, Row | None, int]]
    ) -> None:
        documents = [Jsonb(document_of(table, row)) if row is not None else None for _, row, _ in items]
        await connection.execute(
            sql.SQL(
                "INSERT INTO {table} AS t SELECT * FROM unnest(%s::text[], %s::jsonb[], %s::bigint[]) "
                "ON CONFLICT (_id) DO UPDATE SET doc = excluded.doc, seq = excluded.seq WHERE t.seq < excluded.seq"
            ).format(table=self._id(table.name)),
            ([key for key, _, _ in items], documents, [seq for _, _, seq in items]),
        )

    async def reset(self) -> None:
        """See `Projector.reset`."""
        with answered(self.name):
            await self._make()
            async with self._db.pool.connection() as connection, connection.transaction():
                names = sql.SQL(", ").join(self._id(name) for name in self._tables)
                await connection.execute(sql.SQL("TRUNCATE {}").format(names))
                await connection.execute("UPDATE meta.positions SET position = -1 WHERE projector = %s", (self.name,))
        self._held = None

    async def fingerprint(self) -> str:
        """See `Projector.fingerprint`; of the collections, not of the views."""
        rows, _ = await self._rows(list(self._tables))
        return fingerprint(rows)

    async def close(self) -> None:
        """See `Projector.close`; the database's owner closes the connections."""

    async def read(self, relation: str) -> tuple[list[Row], Cut]:
        """See `TableSource.read`."""
        declared = self._relations.get(relation)
        if declared is None:
            raise NotFoundError(f"the {self.name} has no {relation!r}; it has: {', '.join(self._relations)}")
        if isinstance(declared, View):
            rows, cut = await self._rows(declared.inputs)
            return list(declared.derive(rows)), cut
        rows, cut = await self._rows([relation])
        return rows[relation], cut

    async def _rows(self, tables: Sequence[str]) -> tuple[dict[str, list[Row]], Cut]:
        with answered(self.name):
            await self._make()
            async with snapshot(self._db.reader) as connection:
                rows = {}
                for name in tables:
                    cursor = await connection.execute(
                        sql.SQL("SELECT doc FROM {} WHERE doc IS NOT NULL").format(self._id(name))
                    )
                    rows[name] = [row_of(self._tables[name], doc) async for (doc,) in cursor]
                return rows, Cut(await read_positions(connection, self.name))

    async def find(self, collection: str, where: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Cut]:
        """Documents of a collection whose fields equal those of `where` (empty: all), by id, and their cut.

        Raises:
            NotFoundError: no such collection.
            UsageError: no such field.
        """
        table = self._tables.get(collection)
        if table is None:
            raise NotFoundError(f"the {self.name} has no {collection!r}; it has: {', '.join(self._tables)}")
        known = [column.name for column in table.columns]
        unknown = [name for name in where if name not in known]
        if unknown:
            raise UsageError(f"{collection} has no field {unknown[0]!r}; it has: {', '.join(known)}")
        with answered(self.name):
            await self._make()
            async with snapshot(self._db.reader) as connection:
                cursor = await connection.execute(
                    sql.SQL("SELECT doc FROM {} WHERE doc @> %s ORDER BY _id").format(self._id(collection)),
                    (Jsonb(dict(where)),),
                )
                documents = [doc async for (doc,) in cursor]
                return documents, Cut(await read_positions(connection, self.name))
