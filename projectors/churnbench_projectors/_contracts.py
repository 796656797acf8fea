"""Documents and their index in PostgreSQL with pgvector: the contracts source of the embedded profile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, LiteralString

import msgspec
import psycopg
from psycopg import sql

from churnbench.cuts import Cut
from churnbench.domain import Documents
from churnbench.errors import CutMovedError, SourceUnavailableError, UsageError
from churnbench.events import Event
from churnbench.sources import Chunk, EmbeddedChunk, Embedder
from churnbench.tables import Row
from churnbench_projectors._chunks import (
    TextChunk,
    Version,
    chunks_fingerprint,
    chunks_of,
    decode_row,
    encode_row,
    versions_of,
)
from churnbench_projectors._ranking import Candidate, ranked

if TYPE_CHECKING:
    from churnbench.stores.postgres import RunDatabase

__all__ = ["ContractsProjector"]

_BATCH = 1000
_SETUP_LOCK = 7_209_441
"""Advisory lock of those who make the tables; CREATE … IF NOT EXISTS fails when two do so at once."""

_TABLES = """
CREATE TABLE IF NOT EXISTS meta.positions (
  projector text NOT NULL, partition int NOT NULL, position bigint NOT NULL, PRIMARY KEY (projector, partition));
CREATE TABLE IF NOT EXISTS {schema}.indexed (embedder text NOT NULL, dimensions int NOT NULL);
CREATE TABLE IF NOT EXISTS {schema}.versions (
  document text COLLATE "C" NOT NULL, seq bigint NOT NULL, entity text, PRIMARY KEY (document, seq));
CREATE TABLE IF NOT EXISTS {schema}.chunks (
  document text COLLATE "C" NOT NULL, seq bigint NOT NULL, number int NOT NULL, body text NOT NULL,
  embedding vector({dimensions}) NOT NULL, PRIMARY KEY (document, seq, number));
"""
_NEWEST = (
    "{schema}.chunks JOIN (SELECT document, max(seq) AS seq FROM {schema}.versions GROUP BY document) newest "
    "USING (document, seq)"
)
_NEWEST_OF_ONE = (
    "{schema}.chunks WHERE document = %(document)s "
    "AND seq = (SELECT max(seq) FROM {schema}.versions WHERE document = %(document)s)"
)


@contextmanager
def _answered() -> Iterator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        text = str(error).strip().splitlines()
        raise SourceUnavailableError(
            f"the contracts' PostgreSQL did not answer: {text[0] if text else error!r}"
        ) from error


class ContractsProjector:
    """Keeps rendered documents, chunked and embedded; implements `Projector`, `DocumentSource` and `GenerationSource`.

    Every event of a document's entity makes a version, which is never changed: its row as JSON, and its chunks
    under (document, seq, number). Readers take the newest version of each document. View and position are stored in
    one transaction, the position by compare-and-set: the loser of a race changes nothing.

    Args:
        db: the run's database, with the extension `vector`.
        documents: folds and renders.
        embedder: of chunks and searches; an index keeps to one.
        partitions: of the ledger.
        name: the projector's name.
        schema: where its tables are, which exists.
    """

    def __init__(
        self,
        db: RunDatabase,
        documents: Documents,
        embedder: Embedder,
        partitions: int,
        *,
        name: str = "contracts",
        schema: str = "contracts",
    ) -> None:
        self.name = name
        self.kinds = documents.table.kinds
        self.embedder = embedder
        self._db = db
        self._documents = documents
        self._partitions = partitions
        self._schema = schema
        self._held: dict[int, int] | None = None
        self._made = False
        self._making = asyncio.Lock()

    def _sql(self, text: LiteralString, chunks: LiteralString = "") -> sql.Composed:
        schema, dimensions = sql.Identifier(self._schema), sql.Literal(self.embedder.dimensions)
        return sql.SQL(text).format(
            schema=schema, dimensions=dimensions, newest_chunks=sql.SQL(chunks or _NEWEST).format(schema=schema)
        )

    @asynccontextmanager
    async def _transaction(self, *, snapshot: bool = False) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        with _answered():
            await self._make()
            async with self._db.pool.connection() as connection, connection.transaction():
                if snapshot:
                    await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                yield connection

    async def _make(self) -> None:
        if self._made:
            return
        async with self._making, self._db.pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
            await connection.execute(self._sql(_TABLES))
            cursor = await connection.execute(self._sql("SELECT embedder, dimensions FROM {schema}.indexed"))
            row = await cursor.fetchone()
            if row is None:
                await connection.execute(
                    self._sql("INSERT INTO {schema}.indexed VALUES (%s, %s)"),
                    (self.embedder.name, self.embedder.dimensions),
                )
            elif row != (self.embedder.name, self.embedder.dimensions):
                raise UsageError(
                    f"the documents of this run are indexed by the embedder {row[0]!r}, not {self.embedder.name!r}; "
                    "set the same embedder, or start a new run"
                )
            for partition in range(self._partitions):
                await connection.execute(
                    "INSERT INTO meta.positions VALUES (%s, %s, -1) ON CONFLICT DO NOTHING", (self.name, partition)
                )
            self._made = True

    async def _positions(self, connection: psycopg.AsyncConnection[Any]) -> dict[int, int]:
        cursor = await connection.execute(
            "SELECT partition, position FROM meta.positions WHERE projector = %s ORDER BY partition", (self.name,)
        )
        return dict(await cursor.fetchall())

    async def cut(self) -> Cut:
        """See `Projector.cut`."""
        async with self._transaction() as connection:
            held = await self._positions(connection)
        self._held = held
        return Cut(dict(held))

    async def apply(self, events: Sequence[Event], cut: Cut) -> None:
        """See `Projector.apply`; the texts of a batch are embedded at once, outside the transaction."""
        if self._held is None:
            await self.cut()
        held = self._held or {}
        for partition, position in cut.positions.items():
            if partition not in held:
                raise UsageError(f"{self.name} keeps partitions 0 to {self._partitions - 1}, not {partition}")
            if position < held[partition]:
                raise CutMovedError(
                    f"{self.name} partition {partition} is at {held[partition]}, beyond {position}; read its cut anew"
                )
        wanted = [event for event in events if event.kind in self.kinds]
        state = await self._state({event.entity_id for event in wanted}) if wanted else {}
        versions = versions_of(self._documents.table, state, wanted)
        chunks = chunks_of(self._documents, versions)
        vectors = await self._vectors(chunks)
        async with self._transaction() as connection:
            # The state was read without a lock; that the positions still are where they were says that it holds.
            for partition, position in sorted(cut.positions.items()):
                cursor = await connection.execute(
                    "UPDATE meta.positions SET position = %s WHERE projector = %s AND partition = %s AND position = %s",
                    (position, self.name, partition, held[partition]),
                )
                if cursor.rowcount != 1:
                    raise CutMovedError(
                        f"{self.name} partition {partition} is no longer at {held[partition]}; read its cut anew"
                    )
            await self._write(connection, versions, chunks, vectors)
        self._held = {**held, **cut.positions}

    async def _state(self, documents: set[str]) -> dict[str, tuple[int, Row | None]]:
        async with self._transaction() as connection:
            cursor = await connection.execute(
                self._sql(
                    "SELECT DISTINCT ON (document) document, seq, entity FROM {schema}.versions "
                    "WHERE document = ANY(%s) ORDER BY document, seq DESC"
                ),
                (sorted(documents),),
            )
            rows = await cursor.fetchall()
        return {document: (seq, decode_row(self._documents.table, entity)) for document, seq, entity in rows}

    async def _vectors(self, chunks: Sequence[TextChunk]) -> dict[str, bytes]:
        texts = list(dict.fromkeys(chunk.text for chunk in chunks))
        if not texts:
            return {}
        vectors = await asyncio.to_thread(self.embedder.embed, texts)
        return {text: msgspec.json.encode(vector) for text, vector in zip(texts, vectors, strict=True)}

    async def _write(
        self,
        connection: psycopg.AsyncConnection[Any],
        versions: Sequence[Version],
        chunks: Sequence[TextChunk],
        vectors: dict[str, bytes],
    ) -> None:
        if not versions:
            return
        cursor = connection.cursor()
        async with cursor.copy(self._sql("COPY {schema}.versions FROM STDIN")) as copy:
            for document, seq, row in versions:
                await copy.write_row((document, seq, encode_row(self._documents.table, row)))
        async with cursor.copy(self._sql("COPY {schema}.chunks FROM STDIN")) as copy:
            for chunk in chunks:
                await copy.write_row((*chunk, vectors[chunk.text].decode()))

    async def reset(self) -> None:
        """See `Projector.reset`; readers see the old view or the empty one."""
        async with self._transaction() as connection:
            await connection.execute("UPDATE meta.positions SET position = -1 WHERE projector = %s", (self.name,))
            # Not TRUNCATE: it would show the empty tables to transactions that began before.
            await connection.execute(self._sql("DELETE FROM {schema}.chunks"))
            await connection.execute(self._sql("DELETE FROM {schema}.versions"))
        self._held = dict.fromkeys(range(self._partitions), -1)

    async def shadow(self) -> ContractsProjector:
        """An empty projector of the same documents in a schema of its own, to be rebuilt and then adopted."""
        schema = f"{self._schema}_shadow"
        async with self._transaction() as connection:
            await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        shadow = ContractsProjector(
            self._db,
            self._documents,
            self.embedder,
            self._partitions,
            name=f"{self.name}.shadow",
            schema=schema,
        )
        await shadow.reset()
        return shadow

    async def adopt(self, shadow: ContractsProjector) -> None:
        """Takes over the view and cut of a rebuilt `shadow`, in one transaction, and removes it.

        Readers see the old view or the new one; whoever applies to the old one meanwhile loses by compare-and-set.
        """
        async with self._transaction() as connection:
            await connection.execute(
                "UPDATE meta.positions live SET position = rebuilt.position FROM meta.positions rebuilt "
                "WHERE live.projector = %s AND rebuilt.projector = %s AND rebuilt.partition = live.partition",
                (self.name, shadow.name),
            )
            for table in ("versions", "chunks"):
                ours, theirs = sql.Identifier(self._schema, table), sql.Identifier(shadow._schema, table)
                await connection.execute(sql.SQL("DELETE FROM {}").format(ours))
                await connection.execute(sql.SQL("INSERT INTO {} SELECT * FROM {}").format(ours, theirs))
            await connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(shadow._schema)))
            await connection.execute("DELETE FROM meta.positions WHERE projector = %s", (shadow.name,))
            self._held = await self._positions(connection)

    async def fingerprint(self) -> str:
        """Of the newest version of each document: keys and texts; `chunks_fingerprint(folded_chunks(…))`."""
        async with self._transaction(snapshot=True) as connection:
            cursor = await connection.execute(self._sql("SELECT document, seq, number, body FROM {newest_chunks}"))
            return chunks_fingerprint(TextChunk(*row) for row in await cursor.fetchall())

    async def close(self) -> None:
        """Nothing of its own is open; the database is closed by whoever opened it."""

    async def search(self, text: str, limit: int, document: str | None = None) -> tuple[list[Chunk], Cut]:
        """See `DocumentSource.search`: an exact scan by cosine distance, ties by document and number.

        Raises:
            UsageError: `limit` is below 1.
            SourceUnavailableError: PostgreSQL did not answer.
        """
        if limit < 1:
            raise UsageError(f"a search returns at least 1 chunk, not {limit}")
        vector = (await asyncio.to_thread(self.embedder.embed, [text]))[0]
        statement = self._sql(
            "SELECT document, number, body, embedding <=> %(vector)s::vector AS distance, embedding::real[] "
            "FROM {newest_chunks} ORDER BY distance, document, number LIMIT %(count)s",
            _NEWEST if document is None else _NEWEST_OF_ONE,
        )
        parameters = {"vector": msgspec.json.encode(vector).decode(), "document": document}
        async with self._transaction(snapshot=True) as connection:

            async def nearest(count: int) -> list[Candidate]:
                cursor = await connection.execute(statement, {**parameters, "count": count})
                return [Candidate(Chunk(*row[:3]), row[3], row[4]) for row in await cursor.fetchall()]

            chunks = await ranked(vector, limit, nearest)
            return chunks, Cut(await self._positions(connection))

    async def generation(self) -> tuple[list[EmbeddedChunk], Cut]:
        """See `GenerationSource.generation`; `stream` is for those too large for memory."""
        async with self.stream() as (batches, cut):
            return [chunk async for batch in batches for chunk in batch], cut

    @asynccontextmanager
    async def stream(self, batch: int = _BATCH) -> AsyncIterator[tuple[AsyncIterator[list[EmbeddedChunk]], Cut]]:
        """The newest version of every document with its vectors, in batches, and their cut; all of one transaction.

        ```
        async with contracts.stream() as (batches, cut):
            async for chunks in batches: ...
        ```

        Args:
            batch: most chunks held in memory at once.
        """
        async with self._transaction(snapshot=True) as connection:
            cut = Cut(await self._positions(connection))
            async with connection.cursor(name="generation") as cursor:
                await cursor.execute(
                    self._sql(
                        "SELECT document, seq, number, body, embedding::real[] FROM {newest_chunks} "
                        "ORDER BY document, number"
                    )
                )

                async def batches() -> AsyncIterator[list[EmbeddedChunk]]:
                    while rows := await cursor.fetchmany(batch):
                        yield [EmbeddedChunk(*row) for row in rows]

                yield batches(), cut
