"""Tables that follow a ledger: the fold, entity by entity, and what is read from it.

An *entity table* holds one row per entity, made by that entity's events alone. So a row depends on one
partition only, partitions may be applied in any order and by any number of workers, and a store needs no
memory: it reads the rows that a batch touches, steps them, and writes them back. A *fact table* holds one row
per event. What needs several entities at once is a *view*, joined when it is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from churnbench.events import Event

__all__ = [
    "Column",
    "ColumnType",
    "EntityTable",
    "FactTable",
    "Fold",
    "Relation",
    "Relations",
    "Row",
    "Table",
    "View",
    "fingerprint",
]

ColumnType = Literal["text", "int", "float", "bool", "time"]
Row = tuple[Any, ...]
"""Values in the order of the table's columns; None where unknown; a time is an aware UTC `datetime`."""

Relations = Mapping[str, Iterable[Row]]
"""Rows by the name of their table."""


class Column(NamedTuple):
    """A column: its name and type. `time` is UTC with milliseconds."""

    name: str
    type: ColumnType


class EntityTable(msgspec.Struct, frozen=True):
    """One row per entity; the first column is the entity's id.

    Attributes:
        name: the table.
        columns: its columns, the key first.
        kinds: the kinds of event that touch it.
        step: the row after an event, from the row before it (None: there is none); None removes the row.
            Pure, and called for each event of the entity in order.
        indexes: columns that are looked up by value, besides the key.
    """

    name: str
    columns: tuple[Column, ...]
    kinds: frozenset[str]
    step: Callable[[Row | None, Event], Row | None]
    indexes: tuple[str, ...] = ()


class FactTable(msgspec.Struct, frozen=True):
    """One row per event, never changed; the first column is the event's seq.

    Attributes:
        name: the table.
        columns: its columns, `seq` first.
        kinds: the kinds of event that it keeps.
        row: the row of an event; pure.
        indexes: columns that are looked up by value, besides the key.
    """

    name: str
    columns: tuple[Column, ...]
    kinds: frozenset[str]
    row: Callable[[Event], Row]
    indexes: tuple[str, ...] = ()


Table = EntityTable | FactTable


class View(msgspec.Struct, frozen=True):
    """A relation derived from tables when it is read.

    Attributes:
        name: the view.
        columns: its columns; the first one identifies a row.
        inputs: the tables that it reads.
        derive: the rows, from the rows of `inputs`; pure, in any order.
        sql: the same as a SELECT for a store that speaks SQL; None: `derive` is used there too.
    """

    name: str
    columns: tuple[Column, ...]
    inputs: tuple[str, ...]
    derive: Callable[[Relations], Iterable[Row]]
    sql: str | None = None


Relation = EntityTable | FactTable | View


class Fold:
    """Tables in memory, folded from events: the reference that every store must equal.

    Applying an event twice changes nothing, and entities do not depend on each other, so events may come in
    any order that keeps each entity's own.
    """

    def __init__(self, tables: Iterable[Table]) -> None:
        self.tables = {table.name: table for table in tables}
        self._rows: dict[str, dict[Any, Row]] = {name: {} for name in self.tables}
        self._done: dict[str, dict[str, int]] = {
            name: {} for name, table in self.tables.items() if isinstance(table, EntityTable)
        }
        self._by_kind: dict[str, list[Table]] = {}
        for table in self.tables.values():
            for kind in table.kinds:
                self._by_kind.setdefault(kind, []).append(table)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of event that any table wants."""
        return frozenset(self._by_kind)

    def apply(self, events: Iterable[Event]) -> None:
        """Folds `events` in."""
        for event in events:
            for table in self._by_kind.get(event.kind, ()):
                rows = self._rows[table.name]
                if isinstance(table, FactTable):
                    rows[event.seq] = table.row(event)
                    continue
                done = self._done[table.name]
                key = event.entity_id
                if done.get(key, -1) >= event.seq:
                    continue
                done[key] = event.seq
                row = table.step(rows.get(key), event)
                if row is None:
                    rows.pop(key, None)
                else:
                    rows[key] = row

    def rows(self, table: str) -> Iterable[Row]:
        """The rows of `table`, in no particular order."""
        return self._rows[table].values()

    def relation(self, relation: Relation) -> list[Row]:
        """The rows of a table or view over this fold."""
        if isinstance(relation, View):
            return list(relation.derive({name: self.rows(name) for name in relation.inputs}))
        return list(self.rows(relation.name))

    def fingerprint(self) -> str:
        """See `fingerprint`."""
        return fingerprint({name: self.rows(name) for name in self.tables})


_canonical = msgspec.json.Encoder()


def _row_digest(name: bytes, row: Sequence[Any]) -> int:
    values = [v.timestamp() * 1000 if isinstance(v, datetime) else float(v) if isinstance(v, float) else v for v in row]
    digest = hashlib.blake2b(_canonical.encode(values), key=name[:64], digest_size=16).digest()
    return int.from_bytes(digest, "big")


def fingerprint(relations: Relations) -> str:
    """32 hex digits that name the rows of `relations`, independent of their order and of the store.

    The sum modulo 2^128 of each row's BLAKE2b digest, keyed by its table's name; an empty table adds nothing.
    """
    total = 0
    for name, rows in relations.items():
        encoded = name.encode()
        for row in rows:
            total += _row_digest(encoded, row)
    return f"{total % (1 << 128):032x}"
