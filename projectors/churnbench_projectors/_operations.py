"""The operational store of the embedded profile: documents as JSONB in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from churnbench.cuts import Cut
from churnbench.domain import Store
from churnbench.errors import NotFoundError, UsageError
from churnbench.events import Event
from churnbench.stores.postgres import RunDatabase, answering
from churnbench.tables import FactTable, Relation, Row, Table, View, fingerprint
from churnbench_projectors._documents import document_of, document_value, row_of
from churnbench_projectors._positions import (
    SETUP_LOCK,
    ensure_positions,
    locked_positions,
    put_positions,
    read_positions,
    snapshot,
    swap_schema,
)
from churnbench_projectors._stepping import Stored, step_entities

__all__ = ["OperationsProjector"]


class OperationsProjector:
    """Keeps a `Store` as collections of documents; implements `Projector` and `TableSource`.

    A document has the id of its entity, and the seq of its last event guards it: an older write changes nothing, and
    a removed document stays as a tombstone. Documents and position are stored in one transaction, the position by
    compare-and-set.

    Args:
        db: the run's database.
        store: the collections, and views derived when read.
        partitions: of the ledger.
        name: the projector's name.
        schema: where its collections are; made where it is missing.
    """

    def __init__(
        self, db: RunDatabase, store: Store, partitions: int, *, name: str = "operations", schema: str = "operations"
    ) -> None:
        self.name = name
        self.kinds: frozenset[str] = frozenset().union(*(table.kinds for table in store.tables))
        self.schema = schema
        self._db = db
        self._store = store
        self._partitions = partitions
        self._tables: dict[str, Table] = {table.name: table for table in store.tables}
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

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection[Any]]:
        with answering(f"the PostgreSQL of {self.name}"):
            await self._make()
            async with snapshot(self._db.reader) as connection:
                yield connection

    async def _make(self) -> None:
        if self._made:
            return
        async with self._making, self._db.pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
            await ensure_positions(connection, self.name, self._partitions)
            await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.schema)))
            await self._db.let_read(connection, self.schema)
            for name, table in self._tables.items():
                await connection.execute(
                    sql.SQL(
                        "CREATE TABLE IF NOT EXISTS {} (_id text PRIMARY KEY, doc jsonb, seq bigint NOT NULL)"
                    ).format(self._id(name))
                )
                for column in table.indexes:
                    await connection.execute(
                        sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} ((doc -> {}))").format(
                            sql.Identifier(f"{name}_{column}"), self._id(name), sql.Literal(column)
                        )
                    )
        self._made = True

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
            for table in self._tables.values():
                wanted = [event for event in events if event.kind in table.kinds]
                if not wanted:
                    continue
                if isinstance(table, FactTable):
                    facts = [(event.seq, table.row(event)) for event in wanted]
                    await self._upsert(connection, table, {str(row[0]): Stored(row, seq) for seq, row in facts})
                else:
                    touched = {event.entity_id for event in wanted}
                    stored = await self._stored(connection, table, touched)
                    await self._upsert(connection, table, step_entities(table, stored, wanted))
            await put_positions(connection, self.name, cut.positions, last)
        self._held = {**held, **cut.positions}

    async def _stored(
        self, connection: AsyncConnection[Any], table: Table, touched: Iterable[str]
    ) -> dict[str, Stored]:
        cursor = await connection.execute(
            sql.SQL("SELECT _id, doc, seq FROM {} WHERE _id = ANY(%s)").format(self._id(table.name)), (list(touched),)
        )
        return {key: Stored(row_of(table, doc) if doc is not None else None, seq) async for key, doc, seq in cursor}

    async def _upsert(self, connection: AsyncConnection[Any], table: Table, items: Mapping[str, Stored]) -> None:
        if not items:
            return
        documents = [Jsonb(document_of(table, row)) if row is not None else None for row, _ in items.values()]
        await connection.execute(
            sql.SQL(
                "INSERT INTO {table} AS t SELECT * FROM unnest(%s::text[], %s::jsonb[], %s::bigint[]) "
                "ON CONFLICT (_id) DO UPDATE SET doc = excluded.doc, seq = excluded.seq WHERE t.seq < excluded.seq"
            ).format(table=self._id(table.name)),
            (list(items), documents, [seq for _, seq in items.values()]),
        )

    async def reset(self) -> None:
        """See `Projector.reset`; readers see the old view or the empty one."""
        async with self._writing() as connection:
            # The positions first, as `apply` does. Not TRUNCATE: older transactions would see the tables empty.
            await connection.execute(
                "UPDATE meta.positions SET position = -1, last_seq = -1 WHERE projector = %s", (self.name,)
            )
            for name in self._tables:
                await connection.execute(sql.SQL("DELETE FROM {}").format(self._id(name)))
        self._held = dict.fromkeys(range(self._partitions), -1)

    async def shadow(self) -> OperationsProjector:
        """An empty projector of the same store in a schema of its own, to be filled and then adopted."""
        shadow = OperationsProjector(
            self._db, self._store, self._partitions, name=f"{self.name}.shadow", schema=f"{self.schema}_shadow"
        )
        await shadow.reset()
        return shadow

    async def adopt(self, shadow: OperationsProjector) -> None:
        """Takes over the view and cut of a filled `shadow`, in one transaction; readers see the old or the new.

        Raises:
            CutMovedError: this view has gone beyond the shadow, which has to catch up; nothing is changed.
        """
        async with self._writing() as connection:
            await swap_schema(connection, (self.schema, shadow.schema), (self.name, shadow.name))
        self._held = None
        shadow._made = False

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
        rows = {}
        async with self._reading() as connection:
            for name in tables:
                cursor = await connection.execute(
                    sql.SQL("SELECT doc FROM {} WHERE doc IS NOT NULL").format(self._id(name))
                )
                rows[name] = [row_of(self._tables[name], doc) async for (doc,) in cursor]
            return rows, Cut(await read_positions(connection, self.name))

    async def find(self, collection: str, where: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Cut]:
        """Documents whose fields equal those of `where`, by id, and their cut.

        Args:
            collection: a table of the store.
            where: values by field, of the column's type; None finds fields without a value; empty: all documents.

        Returns:
            Each document's fields by the names of the columns, times in milliseconds, and `_id`.

        Raises:
            NotFoundError: no such collection.
            UsageError: no such field.
        """
        table = self._tables.get(collection)
        if table is None:
            raise NotFoundError(f"the {self.name} has no {collection!r}; it has: {', '.join(self._tables)}")
        types = {column.name: column.type for column in table.columns}
        conditions: list[sql.Composable] = [sql.SQL("doc IS NOT NULL")]
        values = []
        for name, value in where.items():
            if name not in types:
                raise UsageError(f"{collection} has no field {name!r}; it has: {', '.join(types)}")
            conditions.append(sql.SQL("doc -> {} = %s").format(sql.Literal(name)))
            values.append(Jsonb(document_value(types[name], value)))
        async with self._reading() as connection:
            cursor = await connection.execute(
                sql.SQL("SELECT _id, doc FROM {} WHERE {} ORDER BY _id").format(
                    self._id(collection), sql.SQL(" AND ").join(conditions)
                ),
                values,
            )
            documents = [{"_id": key, **doc} async for key, doc in cursor]
            return documents, Cut(await read_positions(connection, self.name))
