"""Documents and their index in Weaviate: the contracts source of the servers profile."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, LiteralString, NamedTuple

from psycopg import AsyncConnection

from churnbench.cuts import Cut
from churnbench.domain import Documents
from churnbench.errors import CutMovedError, SourceUnavailableError, UsageError
from churnbench.events import Event
from churnbench.sources import Chunk, EmbeddedChunk, Embedder
from churnbench.stores.postgres import RunDatabase, answering
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
from churnbench_projectors._generations import Generations
from churnbench_projectors._positions import SETUP_LOCK, newer, put_positions
from churnbench_projectors._ranking import Candidate, ranked
from churnbench_projectors._weaviate import WeaviateRun, weaviate_answering

__all__ = ["WeaviateContractsProjector"]

_BATCH = 500
"""Objects in one request: with their vectors a few megabytes."""
_SECONDS = 60.0
"""For one request: the client's own retries go on for longer where the server is gone."""
_MOST = 10_000
"""Objects that a server returns at once, by its default."""
_SHADOW = ".shadow"
_IDS = uuid.UUID("5b7c3f9e-6d0f-5a6e-9a30-4a2f8f1b7c21")

_TABLES: LiteralString = """
CREATE TABLE IF NOT EXISTS contracts.indexed (embedder text NOT NULL, dimensions int NOT NULL);
CREATE TABLE IF NOT EXISTS contracts.indexed_versions (
  generation bigint NOT NULL, document text COLLATE "C" NOT NULL, seq bigint NOT NULL, entity text,
  pieces int NOT NULL, PRIMARY KEY (generation, document, seq));
"""
_NEWEST: LiteralString = (
    "SELECT DISTINCT ON (document) document, seq, entity, pieces FROM contracts.indexed_versions "
    "WHERE generation = %(generation)s AND (%(documents)s::text[] IS NULL OR document = ANY(%(documents)s)) "
    "ORDER BY document, seq DESC"
)


class _Newest(NamedTuple):
    """The newest version of a document, and how many chunks it has."""

    document: str
    seq: int
    entity: str | None
    pieces: int


class WeaviateContractsProjector:
    """Keeps rendered documents, chunked and embedded; implements `Projector`, `DocumentSource` and `GenerationSource`.

    Every event of a document's entity makes a version. Its chunks are objects of Weaviate that are never changed,
    under ids made of (document, seq, number): written twice they are the same. Which versions there are, with the
    entity's row and the count of chunks, is stored after the objects, in one transaction with the position, in the
    run's PostgreSQL, the position by compare-and-set. Readers take the newest versions of one moment there and ask
    Weaviate for the chunks of these alone; so what a batch that is not ended has written is seen by nobody, and no
    read is ever done again.

    The objects of a generation are a collection; an alias names the live one for others (see `Generations`). Distances
    are exact: the collection has a flat index, and the filter comes before the ranking.

    Args:
        db: the run's database in PostgreSQL.
        weaviate: the run's collections; closed by whoever opened them.
        documents: folds and renders.
        embedder: of chunks and searches; an index keeps to one.
        partitions: of the ledger.
        name: the projector's name.
    """

    def __init__(
        self,
        db: RunDatabase,
        weaviate: WeaviateRun,
        documents: Documents,
        embedder: Embedder,
        partitions: int,
        *,
        name: str = "contracts",
    ) -> None:
        self.name = name
        self.kinds = documents.table.kinds
        self.embedder = embedder
        self._db = db
        self._weaviate = weaviate
        self._documents = documents
        self._partitions = partitions
        alias = None if name.endswith(_SHADOW) else f"{weaviate.prefix}_contracts"
        self._generations = Generations(db, name, partitions, _Collections(weaviate, alias))
        self._held: dict[int, int] | None = None
        self._made = False
        self._making = asyncio.Lock()

    @asynccontextmanager
    async def _answered(self) -> AsyncIterator[None]:
        with answering(f"the PostgreSQL of {self.name}"), weaviate_answering(f"the Weaviate of {self.name}"):
            if not self._made:
                async with self._making:
                    if not self._made:
                        await self._make()
                        self._made = True
            yield

    async def _make(self) -> None:
        async with self._db.pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
            await connection.execute(_TABLES)
            row = await (await connection.execute("SELECT embedder, dimensions FROM contracts.indexed")).fetchone()
            if row is None:
                await connection.execute(
                    "INSERT INTO contracts.indexed VALUES (%s, %s)", (self.embedder.name, self.embedder.dimensions)
                )
            elif row != (self.embedder.name, self.embedder.dimensions):
                raise UsageError(
                    f"the documents of this run are indexed by the embedder {row[0]!r}, not {self.embedder.name!r}; "
                    "set the same embedder, or start a new run"
                )
        await self._generations.ensure()

    def _collection(self, generation: int) -> Any:
        return self._weaviate.client.collections.use(_collection(self._weaviate, generation))

    # -- projecting -------------------------------------------------------------------------------------

    async def cut(self) -> Cut:
        """See `Projector.cut`."""
        async with self._answered():
            held = (await self._generations.placed()).positions
        self._held = held
        return Cut(dict(held))

    async def apply(self, events: Sequence[Event], cut: Cut) -> None:
        """See `Projector.apply`; the texts of a batch are embedded at once, outside any transaction."""
        held = self._held if self._held is not None else (await self.cut()).positions
        if not events and all(held.get(p) == position for p, position in cut.positions.items()):
            return
        wanted = [event for event in events if event.kind in self.kinds]
        async with self._answered():
            generation, versions, chunks = await self._rendered(wanted)
            vectors = await self._vectors(chunks)
            await self._insert(generation, chunks, vectors)
            async with self._generations.moving(held, cut.positions) as (connection, place):
                if place.generation != generation:
                    raise CutMovedError(f"{self.name} has been rebuilt meanwhile; read its cut anew")
                await self._write(connection, generation, versions, chunks)
                last = dict(place.last)
                newer(events, last, self._partitions)
                await put_positions(connection, self.name, cut.positions, last)
        self._held = {**held, **cut.positions}

    async def _rendered(self, events: Sequence[Event]) -> tuple[int, list[Version], list[TextChunk]]:
        """What the events make of the live generation; without a lock, which the position is checked for later."""
        async with self._generations.pinned() as (connection, place):
            newest = await self._newest(connection, place.generation, {event.entity_id for event in events})
        table = self._documents.table
        state: dict[str, tuple[int, Row | None]] = {n.document: (n.seq, decode_row(table, n.entity)) for n in newest}
        versions = versions_of(table, state, events)
        return place.generation, versions, chunks_of(self._documents, versions)

    async def _newest(
        self, connection: AsyncConnection[Any], generation: int, documents: Iterable[str] | None
    ) -> list[_Newest]:
        """By document; of all where `documents` is None."""
        wanted = None if documents is None else sorted(documents)
        cursor = await connection.execute(_NEWEST, {"generation": generation, "documents": wanted})
        return [_Newest(*row) for row in await cursor.fetchall()]

    async def _vectors(self, chunks: Sequence[TextChunk]) -> dict[str, Sequence[float]]:
        texts = list(dict.fromkeys(chunk.text for chunk in chunks))
        vectors = await asyncio.to_thread(self.embedder.embed, texts) if texts else []
        return dict(zip(texts, vectors, strict=True))

    async def _insert(self, generation: int, chunks: Sequence[TextChunk], vectors: dict[str, Sequence[float]]) -> None:
        from weaviate.classes.data import DataObject

        collection = self._collection(generation)
        for start in range(0, len(chunks), _BATCH):
            objects = [
                DataObject(uuid=_id(chunk), properties=chunk._asdict(), vector=list(vectors[chunk.text]))
                for chunk in chunks[start : start + _BATCH]
            ]
            async with asyncio.timeout(_SECONDS):
                done = await collection.data.insert_many(objects)
            if done.has_errors:
                first = next(iter(done.errors.values()))
                raise SourceUnavailableError(
                    f"the Weaviate of {self.name} refused {len(done.errors)} of {len(objects)} objects: {first.message}"
                )

    async def _write(
        self,
        connection: AsyncConnection[Any],
        generation: int,
        versions: Sequence[Version],
        chunks: Sequence[TextChunk],
    ) -> None:
        pieces: dict[tuple[str, int], int] = {}
        for chunk in chunks:
            pieces[chunk.document, chunk.seq] = pieces.get((chunk.document, chunk.seq), 0) + 1
        async with connection.cursor() as cursor, cursor.copy("COPY contracts.indexed_versions FROM STDIN") as copy:
            for document, seq, row in versions:
                entity = encode_row(self._documents.table, row)
                await copy.write_row((generation, document, seq, entity, pieces.get((document, seq), 0)))

    async def reset(self) -> None:
        """See `Projector.reset`; readers see the old view or the empty one."""
        async with self._answered():
            await self._generations.renew()
        self._held = dict.fromkeys(range(self._partitions), -1)

    async def shadow(self) -> WeaviateContractsProjector:
        """An empty projector of the same documents beside this one, to be rebuilt and then adopted."""
        shadow = WeaviateContractsProjector(
            self._db, self._weaviate, self._documents, self.embedder, self._partitions, name=f"{self.name}{_SHADOW}"
        )
        await shadow.reset()
        return shadow

    async def adopt(self, shadow: WeaviateContractsProjector) -> None:
        """Takes over the view and cut of a filled `shadow`, in one transaction; readers see the old or the new.

        Raises:
            CutMovedError: this view has gone beyond the shadow, which has to catch up; nothing is changed.
        """
        async with self._answered():
            await self._generations.take(shadow._generations)
        self._held = None
        shadow._made = False
        shadow._held = None

    async def close(self) -> None:
        """See `Projector.close`; connections are closed by whoever opened them."""

    # -- reading ----------------------------------------------------------------------------------------

    async def fingerprint(self) -> str:
        """Of the newest version of each document: keys and texts; `chunks_fingerprint(folded_chunks(…))`."""
        found, _ = await self._all(vectors=False)
        return chunks_fingerprint(TextChunk(*chunk[:4]) for chunk in found)

    async def generation(self) -> tuple[list[EmbeddedChunk], Cut]:
        """See `GenerationSource.generation`; by document and number.

        Raises:
            SourceUnavailableError: a store did not answer, or Weaviate has lost objects.
        """
        return await self._all(vectors=True)

    async def _all(self, *, vectors: bool) -> tuple[list[EmbeddedChunk], Cut]:
        from weaviate.classes.query import Filter

        found: list[EmbeddedChunk] = []
        async with self._answered(), self._generations.pinned() as (connection, place):
            collection = self._collection(place.generation)
            for some in _groups(await self._newest(connection, place.generation, None)):
                pieces = sum(version.pieces for version in some)
                async with asyncio.timeout(_SECONDS):
                    reply = await collection.query.fetch_objects(
                        filters=Filter.by_property("seq").contains_any([version.seq for version in some]),
                        limit=pieces + 1,
                        include_vector=vectors,
                    )
                if len(reply.objects) != pieces:
                    raise SourceUnavailableError(
                        f"the Weaviate of {self.name} has {len(reply.objects)} of {pieces} chunks; "
                        "where it has lost some, rebuild the documents"
                    )
                found += [_embedded(o) for o in reply.objects]
            return sorted(found, key=lambda chunk: chunk[:3]), Cut(place.positions)

    async def search(self, text: str, limit: int, document: str | None = None) -> tuple[list[Chunk], Cut]:
        """See `DocumentSource.search`: by cosine distance among the newest versions, ties by document and number.

        Raises:
            UsageError: `limit` is below 1, or above what a server returns at once.
            SourceUnavailableError: a store did not answer.
        """
        if not 1 <= limit <= _MOST:
            raise UsageError(f"a search returns at least 1 chunk and at most {_MOST}, not {limit}")
        vector = (await asyncio.to_thread(self.embedder.embed, [text]))[0]
        async with self._answered(), self._generations.pinned() as (connection, place):
            wanted = None if document is None else [document]
            newest = [v for v in await self._newest(connection, place.generation, wanted) if v.pieces]
            if not newest:
                return [], Cut(place.positions)
            seqs = [version.seq for version in newest]

            async def nearest(count: int) -> list[Candidate]:
                return await self._nearest(place.generation, seqs, vector, count)

            return await ranked(vector, limit, nearest, _MOST), Cut(place.positions)

    async def _nearest(
        self, generation: int, seqs: Sequence[int], vector: Sequence[float], count: int
    ) -> list[Candidate]:
        from weaviate.classes.query import Filter, MetadataQuery

        async with asyncio.timeout(_SECONDS):
            reply = await self._collection(generation).query.near_vector(
                list(vector),
                limit=count,
                filters=Filter.by_property("seq").contains_any(list(seqs)),
                include_vector=True,
                return_metadata=MetadataQuery(distance=True),
            )
        return [
            Candidate(Chunk(chunk.document, chunk.number, chunk.text), o.metadata.distance, chunk.embedding)
            for o in reply.objects
            for chunk in (_embedded(o),)
        ]


def _id(chunk: TextChunk) -> uuid.UUID:
    return uuid.uuid5(_IDS, f"{chunk.document}\n{chunk.seq}\n{chunk.number}")


def _embedded(found: Any) -> EmbeddedChunk:
    said = found.properties
    return EmbeddedChunk(said["document"], said["seq"], said["number"], said["text"], found.vector.get("default", ()))


def _groups(versions: Iterable[_Newest]) -> list[list[_Newest]]:
    """Those that have chunks, in groups of one request each."""
    groups: list[list[_Newest]] = []
    pieces = _BATCH
    for version in versions:
        if version.pieces:
            if pieces + version.pieces > _BATCH:
                groups.append([])
                pieces = 0
            groups[-1].append(version)
            pieces += version.pieces
    return groups


def _collection(run: WeaviateRun, generation: int) -> str:
    return f"{run.prefix}_contracts_{generation}"


class _Collections:
    """The collections of generations, and the alias of the live one; implements `Outside`."""

    def __init__(self, run: WeaviateRun, alias: str | None) -> None:
        self._run = run
        self._alias = alias

    async def make(self, generation: int) -> None:
        from weaviate.classes.config import Configure, DataType, Property, Tokenization, VectorDistances

        def text(name: str) -> Property:
            return Property(
                name=name,
                data_type=DataType.TEXT,
                tokenization=Tokenization.FIELD,
                index_filterable=False,
                index_searchable=False,
            )

        await self._run.client.collections.create(
            _collection(self._run, generation),
            vector_config=Configure.Vectors.self_provided(
                vector_index_config=Configure.VectorIndex.flat(distance_metric=VectorDistances.COSINE)
            ),
            properties=[
                text("document"),
                Property(name="seq", data_type=DataType.INT, index_filterable=True),
                Property(name="number", data_type=DataType.INT, index_filterable=False),
                text("text"),
            ],
        )

    async def holds(self, generation: int) -> bool:
        return bool(await self._run.client.collections.exists(_collection(self._run, generation)))

    async def settle(self, connection: AsyncConnection[Any], live: int, kept: Collection[int]) -> None:
        if self._alias is not None:
            # First: the alias of a collection that is gone would dangle.
            await self._run.point(self._alias, _collection(self._run, live))
        names = {_collection(self._run, generation) for generation in kept}
        for name in await self._run.collections():
            number = name.removeprefix(f"{self._run.prefix}_contracts_")
            if number.isdigit() and name not in names:
                await self._run.client.collections.delete(name)
        await connection.execute("DELETE FROM contracts.indexed_versions WHERE generation <> ALL(%s)", (list(kept),))
