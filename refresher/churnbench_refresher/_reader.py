"""The staged cache as the agent reads it: rows and stamps of one snapshot, as the run's read-only role."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from psycopg import AsyncConnection, sql

from churnbench.cuts import Cut
from churnbench.errors import NotFoundError
from churnbench.registry import Registry
from churnbench.sources import Chunk, Embedder, StagedRead
from churnbench.stores.postgres import RunDatabase
from churnbench_refresher._psycopg import translated

__all__ = ["StagedReader"]


class StagedReader:
    """Implements `churnbench.sources.StagedSource`.

    Args:
        database: the run's.
        registry: names the document index.
        embedder: the one that the document index was made with; None: there is no search.
    """

    def __init__(self, database: RunDatabase, registry: Registry, embedder: Embedder | None = None) -> None:
        self._pool = database.reader
        self._documents = registry.documents.name if registry.documents is not None else None
        self._embedder = embedder

    async def query(self, statement: str, parameters: Mapping[str, Any], tables: Sequence[str]) -> StagedRead:
        """See `StagedSource.query`.

        Raises:
            NotFoundError: one of `tables` was never staged.
            UsageError: the statement is refused or fails.
            SourceUnavailableError: PostgreSQL did not answer, or the statement took too long.
        """
        with translated("a query of the staged tables"):
            async with self._pool.connection() as conn, conn.transaction():
                await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                cuts, refreshed = await _stamps(conn, tables)
                found = await conn.execute(statement.encode(), parameters)
                return StagedRead(await found.fetchall(), cuts, refreshed)

    async def search(
        self, text: str, limit: int, document: str | None = None
    ) -> tuple[list[Chunk], dict[str, Cut], int]:
        """See `StagedSource.search`. Pieces equally near come in the order of document and place.

        Raises:
            NotFoundError: the registry has no documents, or none were staged yet.
            SourceUnavailableError: PostgreSQL did not answer, or the search took too long.
        """
        name = self._documents
        if name is None or self._embedder is None:
            raise NotFoundError("no document index is staged: the registry names none, or there is no embedder")
        vector = (await asyncio.to_thread(self._embedder.embed, [text]))[0]
        asked = {"vector": "[" + ",".join(map(repr, map(float, vector))) + "]", "limit": limit, "document": document}
        which = sql.SQL("WHERE document = %(document)s" if document is not None else "")
        statement = sql.SQL(
            "SELECT document, chunk, text FROM {} {} ORDER BY embedding <=> %(vector)s::vector, document, chunk "
            "LIMIT %(limit)s"
        ).format(sql.Identifier("staged", name), which)
        with translated("a search of the staged documents"):
            async with self._pool.connection() as conn, conn.transaction():
                await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                cuts, refreshed = await _stamps(conn, [name])
                rows = await (await conn.execute(statement, asked)).fetchall()
                return [Chunk(*row) for row in rows], cuts[name], refreshed[name]


async def _stamps(
    conn: AsyncConnection[Any], tables: Sequence[str]
) -> tuple[dict[str, dict[str, Cut]], dict[str, int]]:
    cuts: dict[str, dict[str, Cut]] = {}
    refreshed: dict[str, int] = {}
    rows = await conn.execute(
        "SELECT table_name, class, cut::text, refreshed_ms FROM staged._tables WHERE table_name = ANY(%s)",
        (list(tables),),
    )
    async for name, cls, cut, at_ms in rows:
        cuts.setdefault(name, {})[cls] = msgspec.json.decode(cut, type=Cut)
        refreshed[name] = at_ms
    missing = [name for name in tables if name not in refreshed]
    if missing:
        raise NotFoundError(
            f"never staged: {', '.join(missing)}; see that the registry names them and the refresher ran"
        )
    return cuts, refreshed
