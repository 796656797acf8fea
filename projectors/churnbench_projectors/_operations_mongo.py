"""The operational store of the servers profile: documents in MongoDB."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, TypeVar

from psycopg import AsyncConnection

from churnbench.cuts import Cut, partition_of
from churnbench.domain import Store
from churnbench.errors import NotFoundError, SourceUnavailableError, UsageError
from churnbench.events import Event
from churnbench.stores.postgres import RunDatabase, answering
from churnbench.tables import EntityTable, FactTable, Relation, Row, Table, View, fingerprint
from churnbench_projectors._documents import document_of, document_value, row_of
from churnbench_projectors._generations import Generations, Place
from churnbench_projectors._mongo import MongoRun, mongo_answering
from churnbench_projectors._positions import newer, put_positions
from churnbench_projectors._stepping import Stored, step_entities

__all__ = ["MongoOperationsProjector"]

_T = TypeVar("_T")
_BATCH = 1000
_DUPLICATE = 11000
"""MongoDB's code for a key that is there."""
_OURS = {"_seq": 0, "_part": 0, "_gone": 0}


class MongoOperationsProjector:
    """Keeps a `Store` as collections of MongoDB; implements `Projector` and `TableSource`.

    A document is `{_id, _seq, _part, _gone, field…}`: the id of its entity, the seq of its last event, its partition,
    and whether it is a tombstone. A write is an upsert filtered by `_seq < new`: an older one changes nothing, a
    repeated one neither. Position and seq of the last event are stored after the batch, in the run's PostgreSQL,
    whose rows of the partitions are held meanwhile.

    A read is of the position at its beginning where no document of its collections has a `_seq` beyond it at its end;
    else a batch came between, and it is done again. After three tries it holds the next batch until it has ended.

    The collections of one generation are named `TABLE.GENERATION`; see `Generations`.

    Args:
        db: the run's database in PostgreSQL.
        mongo: the run's database in MongoDB; closed by whoever opened it.
        store: the collections, and views derived when read.
        partitions: of the ledger.
        name: the projector's name.
    """

    def __init__(
        self, db: RunDatabase, mongo: MongoRun, store: Store, partitions: int, *, name: str = "operations"
    ) -> None:
        self.name = name
        self.kinds: frozenset[str] = frozenset().union(*(table.kinds for table in store.tables))
        self._db = db
        self._mongo = mongo
        self._store = store
        self._partitions = partitions
        self._tables: dict[str, Table] = {table.name: table for table in store.tables}
        self._relations: dict[str, Relation] = {r.name: r for r in (*store.tables, *store.views)}
        self._generations = Generations(db, name, partitions, _Collections(mongo, store.tables))
        self._held: dict[int, int] | None = None
        self._made = False
        self._making = asyncio.Lock()

    @asynccontextmanager
    async def _answered(self) -> AsyncIterator[None]:
        with answering(f"the PostgreSQL of {self.name}"), mongo_answering(f"the MongoDB of {self.name}"):
            if not self._made:
                async with self._making:
                    if not self._made:
                        await self._generations.ensure()
                        self._made = True
            yield

    # -- projecting -------------------------------------------------------------------------------------

    async def cut(self) -> Cut:
        """See `Projector.cut`."""
        async with self._answered():
            held = (await self._generations.placed()).positions
        self._held = held
        return Cut(dict(held))

    async def apply(self, events: Sequence[Event], cut: Cut) -> None:
        """See `Projector.apply`; what a batch that failed has written is seen by nobody, and done again."""
        held = self._held if self._held is not None else (await self.cut()).positions
        if not events and all(held.get(p) == position for p, position in cut.positions.items()):
            return
        async with self._answered(), self._generations.moving(held, cut.positions) as (connection, place):
            last = dict(place.last)
            fresh = newer(events, last, self._partitions)
            for table in self._tables.values():
                wanted = [event for event in fresh if event.kind in table.kinds]
                if wanted:
                    await self._write(table, place.generation, wanted)
            await put_positions(connection, self.name, cut.positions, last)
        self._held = {**held, **cut.positions}

    async def _write(self, table: Table, generation: int, events: Sequence[Event]) -> None:
        documents: list[dict[str, Any]] = []
        if isinstance(table, FactTable):
            for event in events:
                row = table.row(event)
                documents.append(self._document(table, str(row[0]), event.entity_id, Stored(row, event.seq)))
        else:
            stored = await self._stored(table, generation, {event.entity_id for event in events})
            changed = step_entities(table, stored, events)
            documents += [self._document(table, key, key, entity) for key, entity in changed.items()]
        await self._upsert(_collection(table, generation), documents)

    def _document(self, table: Table, key: str, entity: str, stored: Stored) -> dict[str, Any]:
        ours = {
            "_id": key,
            "_seq": stored.seq,
            "_part": partition_of(entity, self._partitions),
            "_gone": stored.row is None,
        }
        return ours if stored.row is None else {**ours, **document_of(table, stored.row)}

    async def _stored(self, table: EntityTable, generation: int, touched: Iterable[str]) -> dict[str, Stored]:
        found: dict[str, Stored] = {}
        keys = iter(sorted(touched))
        while some := list(islice(keys, _BATCH)):
            async for document in self._mongo.owner[_collection(table, generation)].find({"_id": {"$in": some}}):
                row = None if document["_gone"] else row_of(table, document)
                found[document["_id"]] = Stored(row, document["_seq"])
        return found

    async def _upsert(self, collection: str, documents: Sequence[dict[str, Any]]) -> None:
        left = await self._upserted(collection, documents)
        # A key can have been inserted by a late owner in the same moment, with a lower seq: that is not newer. The
        # second time it is there, and what is refused then is older than what is stored.
        if left:
            await self._upserted(collection, left)

    async def _upserted(self, collection: str, documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of `documents` whose key is there with a seq that is not lower."""
        from pymongo import ReplaceOne
        from pymongo.errors import BulkWriteError

        refused: list[dict[str, Any]] = []
        for start in range(0, len(documents), _BATCH):
            some = documents[start : start + _BATCH]
            upserts = [
                ReplaceOne({"_id": document["_id"], "_seq": {"$lt": document["_seq"]}}, document, upsert=True)
                for document in some
            ]
            try:
                await self._mongo.owner[collection].bulk_write(upserts, ordered=False)
            except BulkWriteError as error:
                failed = error.details.get("writeErrors", [])
                other = [e for e in failed if e["code"] != _DUPLICATE] + error.details.get("writeConcernErrors", [])
                if other:
                    raise SourceUnavailableError(
                        f"the MongoDB of {self.name} did not write: {other[0].get('errmsg')}"
                    ) from error
                refused += [some[e["index"]] for e in failed]
        return refused

    async def reset(self) -> None:
        """See `Projector.reset`; readers see the old view or the empty one."""
        async with self._answered():
            await self._generations.renew()
        self._held = dict.fromkeys(range(self._partitions), -1)

    async def shadow(self) -> MongoOperationsProjector:
        """An empty projector of the same store beside this one, to be filled and then adopted."""
        shadow = MongoOperationsProjector(
            self._db, self._mongo, self._store, self._partitions, name=f"{self.name}.shadow"
        )
        await shadow.reset()
        return shadow

    async def adopt(self, shadow: MongoOperationsProjector) -> None:
        """Takes over the view and cut of a filled `shadow`, in one transaction; readers see the old or the new.

        Raises:
            CutMovedError: this view has gone beyond the shadow, which has to catch up; nothing is changed.
        """
        async with self._answered():
            await self._generations.take(shadow._generations)
        self._held = None
        shadow._made = False
        shadow._held = None

    async def fingerprint(self) -> str:
        """See `Projector.fingerprint`; of the collections, not of the views."""
        rows, _ = await self._rows(list(self._tables))
        return fingerprint(rows)

    async def close(self) -> None:
        """See `Projector.close`; connections are closed by whoever opened them."""

    # -- reading ----------------------------------------------------------------------------------------

    async def read(self, relation: str) -> tuple[list[Row], Cut]:
        """See `TableSource.read`.

        Raises:
            NotFoundError: no such table or view.
            SourceUnavailableError: a store did not answer, or a batch was broken off and nobody ends it.
        """
        declared = self._relations.get(relation)
        if declared is None:
            raise NotFoundError(f"the {self.name} has no {relation!r}; it has: {', '.join(self._relations)}")
        if isinstance(declared, View):
            rows, cut = await self._rows(declared.inputs)
            return list(declared.derive(rows)), cut
        rows, cut = await self._rows([relation])
        return rows[relation], cut

    async def _rows(self, tables: Sequence[str]) -> tuple[dict[str, list[Row]], Cut]:
        async def get(generation: int) -> dict[str, list[Row]]:
            rows = {}
            for name in tables:
                table = self._tables[name]
                cursor = self._mongo.reader[_collection(table, generation)].find({"_gone": False}, _OURS)
                rows[name] = [row_of(table, document) async for document in cursor]
            return rows

        return await self._consistent(tables, get)

    async def _consistent(self, tables: Collection[str], get: Callable[[int], Awaitable[_T]]) -> tuple[_T, Cut]:
        async with self._answered():
            for alone in (False, False, False, True):
                async with self._generations.reading(alone=alone) as place:
                    found = await get(place.generation)
                    if not await self._beyond(tables, place):
                        return found, Cut(place.positions)
        raise SourceUnavailableError(
            f"the {self.name} hold a batch that was broken off; it is read again when their projector has ended it"
        )

    async def _beyond(self, tables: Iterable[str], place: Place) -> bool:
        """Whether a document has changed since `place`."""
        for name in tables:
            collection = self._mongo.reader[_collection(self._tables[name], place.generation)]
            # Not one query with $or: not every server takes the index for it.
            for part, seq in place.last.items():
                if await collection.find_one({"_part": part, "_seq": {"$gt": seq}}, {"_id": 1}) is not None:
                    return True
        return False

    async def find(self, collection: str, where: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Cut]:
        """Documents whose fields equal those of `where`, by id, and their cut.

        Ids and the columns that the table declares as indexed are looked up; other fields are searched for in all
        documents.

        Args:
            collection: a table of the store.
            where: values by field, of the column's type; None finds fields without a value; empty: all documents.

        Returns:
            Each document's fields by the names of the columns, times in milliseconds, and `_id`.

        Raises:
            NotFoundError: no such collection.
            UsageError: no such field, or a value of no column's type.
        """
        table = self._tables.get(collection)
        if table is None:
            raise NotFoundError(f"the {self.name} has no {collection!r}; it has: {', '.join(self._tables)}")
        types = {column.name: column.type for column in table.columns}
        query: dict[str, Any] = {"_gone": False}
        for name, value in where.items():
            if name not in types:
                raise UsageError(f"{collection} has no field {name!r}; it has: {', '.join(types)}")
            wanted = document_value(types[name], value)
            if not isinstance(wanted, str | int | float | None):  # a dict would be taken for an operator
                raise UsageError(f"{name} of {collection} is a {types[name]}, not {wanted!r}")
            query[name] = wanted

        async def get(generation: int) -> list[dict[str, Any]]:
            found = self._mongo.reader[_collection(table, generation)].find(query, _OURS).sort("_id")
            return [document async for document in found]

        return await self._consistent([collection], get)


def _collection(table: Table, generation: int) -> str:
    return f"{table.name}.{generation}"


class _Collections:
    """The collections of generations; implements `Outside`."""

    def __init__(self, mongo: MongoRun, tables: Sequence[Table]) -> None:
        self._database = mongo.owner
        self._tables = tables

    async def make(self, generation: int) -> None:
        from pymongo import IndexModel

        for table in self._tables:
            indexes = [IndexModel([("_part", 1), ("_seq", 1)])]
            columns = dict.fromkeys((table.columns[0].name, *table.indexes))
            indexes += [IndexModel([(column, 1), ("_gone", 1)]) for column in columns]
            await self._database[_collection(table, generation)].create_indexes(indexes)

    async def holds(self, generation: int) -> bool:
        names = await self._database.list_collection_names()
        return all(_collection(table, generation) in names for table in self._tables)

    async def settle(self, connection: AsyncConnection[Any], live: int, kept: Collection[int]) -> None:
        ours = {table.name for table in self._tables}
        for name in await self._database.list_collection_names():
            table, _, number = name.rpartition(".")
            if table in ours and number.isdigit() and int(number) not in kept:
                await self._database.drop_collection(name)
