"""Builds the scorer's index of a ledger: the tables that `LedgerIndex` reads.

Assertions are appended in chunks and become intervals at the end, in one window query that DuckDB does out of
core; so Python never holds more than a chunk, however long the ledger is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import duckdb
import msgspec
import numpy as np

from churnbench.domain import Domain, EntityClass
from churnbench.errors import TerminalError
from churnbench.events import Event, to_millis
from churnbench.tables import ColumnType

__all__ = ["IndexBuilder", "identity", "rows_table"]

FORMAT = 1
_CHUNK = 50_000
_TYPES: dict[ColumnType, str] = {
    "text": "VARCHAR",
    "int": "BIGINT",
    "float": "DOUBLE",
    "bool": "BOOLEAN",
    "time": "TIMESTAMP",
}
_PLACE = ("seq", "at_ms", "partition", "pseq")
"""Where a record stands: its event's seq and time, its partition, its sequence there."""

_encode = msgspec.json.Encoder().encode


def identity(domain: Domain) -> str:
    """What an index of `domain` must say of itself to be readable: format, domain, version and classes."""
    stated = [FORMAT, domain.name, domain.version, [msgspec.to_builtins(cls) for cls in domain.classes]]
    return hashlib.sha256(_encode(stated)).hexdigest()


def rows_table(cls: EntityClass) -> str:
    """The table that holds the rows of a class of rows."""
    return f'"rows_{cls.rows_of or cls.name}"'


class _Chunk:
    """Columns of a table, filled row by row and appended together."""

    def __init__(self, db: duckdb.DuckDBPyConnection, table: str, columns: Sequence[tuple[str, ColumnType]]) -> None:
        self.db = db
        self.rows: list[tuple[Any, ...]] = []
        self.table = table
        self.types = [kind for _, kind in columns]
        # "time" arrives as whole milliseconds; the rest is cast from its text, which is exact both ways.
        taken = [f"make_timestamp(c{n}::BIGINT * 1000)" if k == "time" else f"c{n}" for n, k in enumerate(self.types)]
        self._insert = f"INSERT INTO {table} SELECT {', '.join(taken)} FROM chunk"  # noqa: S608 - from declarations
        declared = ", ".join(f'"{name}" {_TYPES[kind]}' for name, kind in columns)
        db.execute(f"CREATE TABLE {table} ({declared})")

    def append(self) -> None:
        """Moves the rows into the table."""
        if not self.rows:
            return
        arrays = {f"c{n}": _array(values) for n, values in enumerate(zip(*self.rows, strict=True))}
        self.db.register("chunk", arrays)
        self.db.execute(self._insert)
        self.db.unregister("chunk")
        self.rows.clear()


def _array(values: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    kinds = set(map(type, values))
    if kinds == {int}:
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            return np.array(values, dtype=object)
    if kinds == {float}:
        return np.array(values, dtype=np.float64)
    if datetime in kinds:
        values = tuple(to_millis(value) if isinstance(value, datetime) else value for value in values)
    return np.array(values, dtype=object)


class IndexBuilder:
    """Takes the events of a ledger, each partition in order, and makes the index of them.

    Args:
        db: an empty database.
        domain: says what events assert.
        partitions: of the ledger.
    """

    def __init__(self, db: duckdb.DuckDBPyConnection, domain: Domain, partitions: int) -> None:
        self.db = db
        self.domain = domain
        self.partitions = partitions
        # Object columns are then taken as text as they are, instead of by a guess from the first of them.
        db.execute("SET pandas_analyze_sample = 0")
        place: list[tuple[str, ColumnType]] = [(name, "int") for name in _PLACE]
        self._events = _Chunk(db, "events", place)
        self._said = _Chunk(
            db, "said", [("attribute", "int"), ("entity", "text"), ("value", "text"), *place, ("number", "int")]
        )
        self._rows = {
            cls.name: _Chunk(db, rows_table(cls), [*place, ("entity", "text"), *cls.columns])
            for cls in domain.classes
            if cls.columns and cls.rows_of is None
        }
        names = [(cls.name, attribute) for cls in domain.classes for attribute in cls.attributes]
        self._attributes = {name: number for number, name in enumerate(names)}
        self._waiting = 0

    def add(self, events: Sequence[Event], partition: int, sequences: Sequence[int]) -> None:
        """Takes consecutive events of one partition with their partition sequences.

        Raises:
            TerminalError: an event asserts something that the domain does not declare, or about another entity.
        """
        places, said, rows = self._events.rows, self._said.rows, self._rows
        for event, pseq in zip(events, sequences, strict=True):
            place = (event.seq, event.at_ms, partition, pseq)
            places.append(place)
            for number, (cls, entity, attribute, value) in enumerate(self.domain.assertions(event)):
                if entity != event.entity_id:
                    raise TerminalError(
                        f"event {event.seq} of {event.entity_id} asserts {cls} of {entity!r}; "
                        "an event speaks of its own entity alone, let the domain move the fact there"
                    )
                try:
                    if attribute:
                        known = self._attributes[cls, attribute]
                        text = None if value is None else _encode(value).decode()
                        said.append((known, entity, text, *place, number))
                    else:
                        rows[cls].rows.append((*place, entity, *value))
                except KeyError as error:
                    raise TerminalError(
                        f"event {event.seq} ({event.kind}) asserts {cls}.{attribute or 'a row'}, "
                        f"which the domain {self.domain.name} does not declare among its classes"
                    ) from error
                self._waiting += 1
            self._waiting += 1
            if self._waiting >= _CHUNK:
                self._append()

    def _append(self) -> None:
        for chunk in self._chunks():
            chunk.append()
        self._waiting = 0

    def _chunks(self) -> Iterator[_Chunk]:
        return chain((self._events, self._said), self._rows.values())

    def finish(self) -> None:
        """Makes the intervals; the index is complete when this returns."""
        self._append()
        # An assertion holds until the next of its entity; entities stand in the order of their first value.
        self.db.execute(
            """
            CREATE TABLE facts AS
            SELECT attribute, entity, value, partition, pseq AS from_pseq,
                   lead(pseq) OVER later AS to_pseq, seq AS from_seq, at_ms,
                   min(seq) FILTER (value IS NOT NULL) OVER (PARTITION BY attribute, entity) AS first_seq
            FROM said
            WINDOW later AS (PARTITION BY attribute, entity ORDER BY seq, number)
            ORDER BY attribute, first_seq, from_seq, number
            """
        )
        self.db.execute("DROP TABLE said")
        declared = _Chunk(self.db, "attributes", [("number", "int"), ("class", "text"), ("attribute", "text")])
        declared.rows += [(number, *name) for name, number in self._attributes.items()]
        declared.append()
        self.db.execute("CREATE TABLE ends AS SELECT partition, max(pseq) AS pseq FROM events GROUP BY partition")
        self.db.execute("CREATE TABLE about (identity VARCHAR, partitions BIGINT, events BIGINT)")
        self.db.execute(
            "INSERT INTO about SELECT ?, ?, (SELECT count(*) FROM events)", [identity(self.domain), self.partitions]
        )
