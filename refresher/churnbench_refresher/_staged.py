"""The staged cache: schema `staged` of a run's database, as its owner writes it.

One table per staged table, with the columns of what it copies; `documents` (under the registry's name for it)
for the staged generation of the document index; `_tables` with the stamps, a row per table and class; and
`_outbox`. A refresh writes rows, stamps and its event in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from psycopg import AsyncConnection, sql

from churnbench.cuts import Cut
from churnbench.records import Refresh
from churnbench.registry import Registry
from churnbench.sources import EmbeddedChunk
from churnbench.stores.postgres import RunDatabase
from churnbench.tables import Row, fingerprint
from churnbench_refresher._layout import StagedLayout
from churnbench_refresher._psycopg import translated

__all__ = ["StagedCache", "Stamp", "Written"]

_TYPES = {"text": "text", "int": "bigint", "float": "double precision", "bool": "boolean", "time": "timestamptz"}

_SETUP = """
SELECT pg_advisory_xact_lock(hashtext('churnbench staged'));
CREATE TABLE IF NOT EXISTS staged._tables (
    table_name text, class text, owner boolean NOT NULL, cut json NOT NULL, refreshed_ms bigint NOT NULL,
    previous_ms bigint, tick bigint NOT NULL, fingerprint text NOT NULL, PRIMARY KEY (table_name, class));
CREATE TABLE IF NOT EXISTS staged._outbox (
    id bigint GENERATED ALWAYS AS IDENTITY, run text, table_name text, tick bigint, payload json NOT NULL,
    published boolean NOT NULL DEFAULT false, PRIMARY KEY (run, table_name, tick));
"""

_refresh = msgspec.json.Decoder(Refresh)
_json = msgspec.json.Encoder()
Key = tuple[str, int]
"""Table and tick of a refresh."""


class Stamp(NamedTuple):
    """When a staged table was refreshed and what it holds.

    Attributes:
        tick: number of the tick of its last refresh.
        refreshed_ms: simulated time of that refresh.
        previous_ms: of the one before it; None where that was the first.
        cuts: class -> cut of the data.
        fingerprint: of its rows after the refresh.
    """

    tick: int
    refreshed_ms: int
    previous_ms: int | None
    cuts: dict[str, Cut]
    fingerprint: str


class Written(NamedTuple):
    """What writing a table came to: its rows, those written or removed, bytes written as JSON, its fingerprint."""

    rows: int
    changed: int
    bytes: int
    fingerprint: str


class StagedCache:
    """The staged cache of a run, to be written.

    Args:
        database: the run's.
        registry: names the document index.
        layouts: the staged tables.
    """

    def __init__(self, database: RunDatabase, registry: Registry, layouts: Mapping[str, StagedLayout]) -> None:
        self.run_id = database.run_id
        self._pool = database.pool
        self._layouts = dict(layouts)
        self._documents = registry.documents.name if registry.documents is not None else None

    async def prepare(self) -> None:
        """Makes the tables that are missing.

        Raises:
            SourceUnavailableError: PostgreSQL does not answer (so all methods).
        """
        with translated("staging"):
            async with self._pool.connection() as conn, conn.transaction():
                for statement in _SETUP.strip().split(";\n"):
                    await conn.execute(statement.strip(";").encode())
                for name, layout in self._layouts.items():
                    columns = [
                        sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(_TYPES[column.type]))
                        for column in layout.columns
                    ]
                    key = sql.SQL("PRIMARY KEY ({})").format(sql.Identifier(layout.columns[0].name))
                    await conn.execute(
                        sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(
                            _named(name), sql.SQL(", ").join([*columns, key])
                        )
                    )
                if self._documents is not None:
                    await conn.execute(
                        sql.SQL(
                            "CREATE TABLE IF NOT EXISTS {} (document text, seq bigint NOT NULL, chunk bigint, "
                            "text text NOT NULL, embedding vector NOT NULL, PRIMARY KEY (document, chunk))"
                        ).format(_named(self._documents))
                    )

    async def stamps(self) -> dict[str, Stamp]:
        """Staged name -> stamp, of the tables that were ever refreshed."""
        found: dict[str, Stamp] = {}
        with translated("reading the stamps"):
            async with self._pool.connection() as conn:
                rows = await conn.execute(
                    "SELECT table_name, class, cut::text, refreshed_ms, previous_ms, tick, fingerprint "
                    "FROM staged._tables ORDER BY table_name, class"
                )
                async for name, cls, cut, refreshed, previous, tick, mark in rows:
                    stamp = found.setdefault(name, Stamp(tick, refreshed, previous, {}, mark))
                    stamp.cuts[cls] = msgspec.json.decode(cut, type=Cut)
        return found

    async def rows(self, name: str) -> list[Row]:
        """The rows of a staged table; of the document index (document, seq, chunk, text)."""
        with translated(f"reading staged.{name}"):
            async with self._pool.connection() as conn:
                return await self._rows(conn, name)

    def fingerprint(self, name: str, rows: Iterable[Row]) -> str:
        """The fingerprint that a refresh of table `name` states for `rows`."""
        return fingerprint({name: rows})

    async def refresh(
        self, name: str, tick: int, rows: Sequence[Row], describe: Callable[[Written], Refresh]
    ) -> Refresh | None:
        """Replaces the contents of `name`, with stamps and event, in one transaction.

        A table of rows is changed by difference; the document index is replaced as a whole.

        Args:
            name: the staged table.
            tick: number of the tick.
            rows: all its rows afterwards, keys first and unique; of the document index `EmbeddedChunk`s.
            describe: makes the event.

        Returns:
            The event, or None where this tick or a later one has refreshed the table before; then nothing changes.
        """
        with translated(f"refreshing staged.{name}"):
            async with self._pool.connection() as conn, conn.transaction():
                stamp = await self._locked(conn, name)
                if stamp is not None and stamp[0] >= tick:
                    return None
                refresh = describe(await self._write(conn, name, rows))
                await self._stamp(conn, refresh, None if stamp is None else stamp[1])
                await conn.execute(
                    "INSERT INTO staged._outbox (run, table_name, tick, payload) VALUES (%s, %s, %s, %s)",
                    (self.run_id, name, tick, _json.encode(refresh).decode()),
                )
                return refresh

    async def restore(self, refresh: Refresh, previous_ms: int | None, rows: Sequence[Row]) -> Written:
        """Makes a table what it was after `refresh`, whose event is published; no new event comes of it."""
        with translated(f"restoring staged.{refresh.table}"):
            async with self._pool.connection() as conn, conn.transaction():
                await self._locked(conn, refresh.table)
                written = await self._write(conn, refresh.table, rows)
                await self._stamp(conn, refresh, previous_ms)
                await conn.execute(
                    "DELETE FROM staged._outbox WHERE run = %s AND table_name = %s AND tick > %s",
                    (self.run_id, refresh.table, refresh.tick),
                )
                return written

    async def outbox(self, *, published: bool = False) -> list[Refresh]:
        """The events that are not marked as published, in the order of their refreshes; `published`: all."""
        with translated("reading the outbox"):
            async with self._pool.connection() as conn:
                rows = await conn.execute(
                    "SELECT payload::text FROM staged._outbox WHERE (%s OR NOT published) AND run = %s ORDER BY id",
                    (published, self.run_id),
                )
                return [_refresh.decode(payload) async for (payload,) in rows]

    async def mark_published(self, keys: Sequence[Key]) -> None:
        """Marks the events of these (table, tick) as published."""
        with translated("marking the outbox"):
            async with self._pool.connection() as conn, conn.transaction():
                await conn.execute(
                    "UPDATE staged._outbox SET published = true WHERE run = %s AND (table_name, tick) IN "
                    "(SELECT * FROM unnest(%s::text[], %s::bigint[]))",
                    (self.run_id, [name for name, _ in keys], [tick for _, tick in keys]),
                )

    # -- within a transaction -------------------------------------------------------------------------

    async def _locked(self, conn: AsyncConnection[Any], name: str) -> tuple[int, int] | None:
        """Keeps other writers (not readers) of the table out; its last tick and refresh time."""
        await conn.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(_named(name)))
        found = await conn.execute(
            "SELECT max(tick), max(refreshed_ms) FROM staged._tables WHERE table_name = %s", (name,)
        )
        row = await found.fetchone()
        return None if row is None or row[0] is None else (row[0], row[1])

    async def _rows(self, conn: AsyncConnection[Any], name: str) -> list[Row]:
        columns = (
            ("document", "seq", "chunk", "text")
            if name == self._documents
            else [column.name for column in self._layouts[name].columns]
        )
        listed = sql.SQL(", ").join(sql.Identifier(column) for column in columns)
        found = await conn.execute(sql.SQL("SELECT {} FROM {}").format(listed, _named(name)))
        return await found.fetchall()

    async def _write(self, conn: AsyncConnection[Any], name: str, rows: Sequence[Row]) -> Written:
        if name == self._documents:
            return await self._replace(conn, name, [EmbeddedChunk(*row) for row in rows])
        after = {row[0]: row for row in rows}
        before = {row[0]: row for row in await self._rows(conn, name)}
        new = [row for key, row in after.items() if before.get(key) != row]
        gone = [key for key in before if key not in after]
        replaced = [row[0] for row in new if row[0] in before]
        if gone or replaced:
            await conn.execute(
                sql.SQL("DELETE FROM {} WHERE {} = ANY(%s)").format(
                    _named(name), sql.Identifier(self._layouts[name].columns[0].name)
                ),
                (gone + replaced,),
            )
        await _copy(conn, name, new)
        size = sum(len(_json.encode(row)) for row in new)
        return Written(len(after), len(new) + len(gone), size, self.fingerprint(name, after.values()))

    async def _replace(self, conn: AsyncConnection[Any], name: str, chunks: Sequence[EmbeddedChunk]) -> Written:
        removed = await conn.execute(sql.SQL("DELETE FROM {}").format(_named(name)))
        rows = [(*chunk[:4], "[" + ",".join(map(repr, map(float, chunk.embedding))) + "]") for chunk in chunks]
        await _copy(conn, name, rows)
        size = sum(len(_json.encode(row)) for row in rows)
        mark = self.fingerprint(name, [chunk[:4] for chunk in chunks])
        return Written(len(rows), len(rows) + removed.rowcount, size, mark)

    async def _stamp(self, conn: AsyncConnection[Any], refresh: Refresh, previous_ms: int | None) -> None:
        await conn.execute("DELETE FROM staged._tables WHERE table_name = %s", (refresh.table,))
        for cls, cut in refresh.classes.items():
            await conn.execute(
                "INSERT INTO staged._tables VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                (
                    refresh.table,
                    cls,
                    cls == refresh.owner,
                    _json.encode(cut).decode(),
                    refresh.at_ms,
                    previous_ms,
                    refresh.tick,
                    refresh.fingerprint,
                ),
            )


def _named(name: str) -> sql.Identifier:
    return sql.Identifier("staged", name)


async def _copy(conn: AsyncConnection[Any], name: str, rows: Sequence[Row]) -> None:
    if not rows:
        return
    async with conn.cursor() as cursor, cursor.copy(sql.SQL("COPY {} FROM STDIN").format(_named(name))) as copy:
        for row in rows:
            await copy.write_row(row)
