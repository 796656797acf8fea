"""The ledger as valid-time intervals, in DuckDB.

Tables of an index:

- `facts`: one row per assertion of an attribute: `attribute` (its number in `attributes`), entity, value (JSON,
  null: no longer known), partition, `from_pseq`, `to_pseq` (null: still holds), `from_seq`, `at_ms`, and
  `first_seq`, the seq at which the entity first got a value.
- `rows_NAME`: one row per event of a class of rows: seq, at_ms, partition, pseq, entity, the declared columns.
  A class that shares another's rows has no table of its own.
- `events`: seq, at_ms, partition and pseq of every event.

A fact is visible at a cut when `from_pseq <= cut[partition] < to_pseq`; all events of an entity are in one
partition, so that is well defined.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from churnbench.cuts import Cut, partition_of
from churnbench.domain import Domain, EntityClass
from churnbench.errors import IncompleteError, NotFoundError
from churnbench.events import Event
from churnbench.log import LedgerBatch
from churnbench.tables import Row
from churnbench_scorer._building import IndexBuilder, identity, rows_table
from churnbench_scorer._cache import WeightedCache
from churnbench_scorer._files import NewDatabase, limits

__all__ = ["LedgerIndex", "Positions"]

Positions = tuple[int, ...]
"""A cut of an index: the last sequence of each partition, in order, at most the ledger's last; -1 for none."""

_CACHED_VALUES = 1_000_000
_CACHED_ROWS = 500_000
_BATCH = 5000


class LedgerIndex:
    """An index that has been built, read only; made by `build`, `of_events` or `open`.

    Attributes:
        domain: whose ledger it is.
        partitions: of the ledger.
        events: how many events it holds.
        end: the cut of all of them.
    """

    def __init__(self, db: duckdb.DuckDBPyConnection, domain: Domain, partitions: int, events: int) -> None:
        self.db = db
        self.domain = domain
        self.partitions = partitions
        self.events = events
        self.classes: dict[str, EntityClass] = {cls.name: cls for cls in domain.classes}
        found = db.execute("SELECT class, attribute, number FROM attributes").fetchall()
        self.attributes: dict[tuple[str, str], int] = {(cls, name): number for cls, name, number in found}
        ends = dict(db.execute("SELECT partition, pseq FROM ends").fetchall())
        self._last: Positions = tuple(ends.get(p, -1) for p in range(partitions))
        self.end = Cut(dict(enumerate(self._last)))
        self._cuts: dict[int, Cut] = {}
        # Shared by all views of the index.
        self.values_cache: WeightedCache[Mapping[str, Any]] = WeightedCache(_CACHED_VALUES, len)
        self.rows_cache: WeightedCache[list[Row]] = WeightedCache(_CACHED_ROWS, len)

    # -- making one -------------------------------------------------------------------------------------

    @staticmethod
    def is_built(path: Path, domain: Domain) -> bool:
        """Whether `path` holds a whole index of `domain` as it is declared now."""
        if not path.is_file():
            return False
        try:
            with duckdb.connect(str(path), read_only=True) as db:
                return db.execute("SELECT identity FROM about").fetchall() == [(identity(domain),)]
        except duckdb.Error:
            return False

    @staticmethod
    async def build(
        source: AsyncIterable[LedgerBatch], domain: Domain, partitions: int = 1, path: Path | None = None
    ) -> LedgerIndex:
        """Builds the index of a ledger, streaming.

        Args:
            source: every batch of the ledger, as `LedgerReader.batches` gives them.
            domain: says what events assert.
            partitions: of the ledger.
            path: the file to make; it appears whole or not at all, and replaces an older one. None: in memory.

        Returns:
            The index, open.
        """
        with NewDatabase(path) as new:
            builder = IndexBuilder(new.db, domain, partitions)
            async for batch in source:
                builder.add(batch.events, batch.partition, batch.sequences)
            builder.finish()
            return LedgerIndex._opened(new.keep(), domain)

    @staticmethod
    def of_events(
        events: Iterable[Event], domain: Domain, partitions: int = 1, path: Path | None = None
    ) -> LedgerIndex:
        """The same from events by seq, for example from a domain's simulation; they are partitioned here."""
        following = [0] * partitions
        waiting: list[tuple[list[Event], list[int]]] = [([], []) for _ in range(partitions)]
        with NewDatabase(path) as new:
            builder = IndexBuilder(new.db, domain, partitions)
            for event in events:
                partition = partition_of(event.entity_id, partitions)
                taken, sequences = waiting[partition]
                taken.append(event)
                sequences.append(following[partition])
                following[partition] += 1
                if len(taken) >= _BATCH:
                    builder.add(taken, partition, sequences)
                    waiting[partition] = ([], [])
            for partition, (taken, sequences) in enumerate(waiting):
                builder.add(taken, partition, sequences)
            builder.finish()
            return LedgerIndex._opened(new.keep(), domain)

    @staticmethod
    def open(path: Path, domain: Domain) -> LedgerIndex:
        """The index in a file; any number of processes may have it open.

        Raises:
            NotFoundError: there is no such file.
            IncompleteError: it is no index of `domain` as it is declared now.
        """
        if not path.is_file():
            raise NotFoundError(f"no scoring index {path}; build it from the ledger")
        try:
            db = duckdb.connect(str(path), read_only=True, config=limits(path))
            about = db.execute("SELECT identity FROM about").fetchall()
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise IncompleteError(f"{path} is no scoring index ({reason}); delete it and build it anew") from error
        if about != [(identity(domain),)]:
            db.close()
            raise IncompleteError(
                f"the scoring index {path} is of another domain or version than {domain.name} {domain.version}; "
                "delete it and build it anew"
            )
        return LedgerIndex._opened(db, domain)

    @staticmethod
    def _opened(db: duckdb.DuckDBPyConnection, domain: Domain) -> LedgerIndex:
        partitions, events = db.execute("SELECT partitions, events FROM about").fetchall()[0]
        return LedgerIndex(db, domain, partitions, events)

    def close(self) -> None:
        """Frees the database; the index cannot be used afterwards."""
        self.db.close()

    # -- reading ----------------------------------------------------------------------------------------

    def positions(self, cut: Cut) -> Positions:
        """`cut` as this index compares cuts; partitions that it does not name are at -1."""
        given = cut.positions
        return tuple(min(given.get(p, -1), last) for p, last in enumerate(self._last))

    def cut_at(self, at_ms: int) -> Cut:
        """The cut of all events at or before a time, labelled with it."""
        if at_ms not in self._cuts:
            found = dict(
                self.db.execute(
                    "SELECT partition, max(pseq) FROM events WHERE at_ms <= ? GROUP BY partition", [at_ms]
                ).fetchall()
            )
            self._cuts[at_ms] = Cut({p: found.get(p, -1) for p in range(self.partitions)}, at_ms)
        return self._cuts[at_ms]

    def where(self, seqs: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Seq -> (partition, partition sequence) of the events `seqs`; unknown ones are left out."""
        wanted = sorted(set(seqs))
        found = self.db.execute(
            "SELECT seq, partition, pseq FROM events WHERE seq IN (SELECT unnest(?::BIGINT[]))", [wanted]
        ).fetchall()
        return {seq: (partition, pseq) for seq, partition, pseq in found}

    def times_between(self, reads: Mapping[str, Iterable[str]], after_ms: int, upto_ms: int) -> list[int]:
        """Times in (after, upto] at which a fact of `reads` (class -> attributes) changed, ascending."""
        if upto_ms <= after_ms:
            return []
        times: set[int] = set()
        for cls, attributes in reads.items():
            declared = self.entity_class(cls)
            if declared.attributes:
                numbers = [self.attribute(cls, attribute) for attribute in attributes]
                table, further = "facts", f"attribute IN ({', '.join(map(str, numbers))}) AND "
            else:
                table, further = rows_table(declared), ""
            statement = f"SELECT DISTINCT at_ms FROM {table} WHERE {further}at_ms > ? AND at_ms <= ?"  # noqa: S608
            times.update(row[0] for row in self.db.execute(statement, [after_ms, upto_ms]).fetchall())
        return sorted(times)

    def entity_class(self, name: str) -> EntityClass:
        """The class `name`.

        Raises:
            NotFoundError: there is none.
        """
        if name not in self.classes:
            raise NotFoundError(f"no class {name!r}; known: {', '.join(self.classes)}")
        return self.classes[name]

    def attribute(self, cls: str, attribute: str) -> int:
        """The number of an attribute of a class.

        Raises:
            NotFoundError: there is no such class or attribute.
        """
        number = self.attributes.get((cls, attribute))
        if number is None:
            known = ", ".join(self.entity_class(cls).attributes) or "none, it is a class of rows"
            raise NotFoundError(f"{cls} has no attribute {attribute!r}; known: {known}")
        return number
