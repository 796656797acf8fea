"""The tables of the SaaS in memory: entity rows as they are, facts in packed columns that are dropped by age."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from churnbench.cuts import partition_of
from churnbench.domain import Saas
from churnbench.errors import NotFoundError
from churnbench.events import Event, from_millis, to_millis
from churnbench.tables import Column, EntityTable, FactTable, Fold, Row, Table, fingerprint

__all__ = ["FactColumns", "SaasView", "retained", "retained_fingerprint"]

_BLOCK = 16_384
_EXACT = {"int": int, "float": float, "text": str, "time": datetime}


def _time_column(table: FactTable) -> int | None:
    for place, column in enumerate(table.columns):
        if column.type == "time":
            return place
    return None


def retained(table: Table, rows: Iterable[Row], at_ms: int | None, keep_ms: int | None) -> Iterable[Row]:
    """The rows of `table` that a SaaS view of the time `at_ms` holds: the rule by which facts are dropped.

    A fact stays while its time (its first column of type `time`) is not before `at_ms - keep_ms`. All rows stay
    in an entity table, in a fact table without a time, and where `at_ms` or `keep_ms` is None; so does a fact
    whose time is None.
    """
    place = _time_column(table) if isinstance(table, FactTable) else None
    if place is None or at_ms is None or keep_ms is None:
        return rows
    since = from_millis(at_ms - keep_ms)
    return [row for row in rows if row[place] is None or row[place] >= since]


def retained_fingerprint(fold: Fold, at_ms: int | None, keep_ms: int | None) -> str:
    """The fingerprint that a SaaS view of the time `at_ms` has if it equals `fold`."""
    return fingerprint({name: retained(table, fold.rows(name), at_ms, keep_ms) for name, table in fold.tables.items()})


def _pack(values: Sequence[Any], column: Column) -> Callable[[], Iterable[Any]]:
    """The values in as few bytes as their type allows; as they are where one is None or of another type."""
    kind = _EXACT.get(column.type)
    if kind is None or set(map(type, values)) != {kind}:
        kept = list(values)
        return lambda: kept
    if column.type == "text":
        codes: dict[str, int] = {}
        packed = array("I", [codes.setdefault(value, len(codes)) for value in values])
        texts = list(codes)
        return lambda: map(texts.__getitem__, packed)
    if column.type == "time":
        millis = array("q", map(to_millis, values))
        return lambda: map(from_millis, millis)
    try:
        numbers = array("d" if column.type == "float" else "q", values)
    except OverflowError:
        kept = list(values)
        return lambda: kept
    return lambda: numbers


class _Block:
    """Consecutive rows, packed column by column."""

    def __init__(self, table: FactTable, rows: Sequence[Row], time: int | None) -> None:
        self.rows = len(rows)
        self.columns = [
            _pack(values, column) for values, column in zip(zip(*rows, strict=True), table.columns, strict=True)
        ]
        times: list[datetime] = [] if time is None else [row[time] for row in rows if row[time] is not None]
        dated = len(times) == len(rows)
        self.first = min(times) if dated else None
        self.last = max(times) if dated else None

    def __iter__(self) -> Iterator[Row]:
        return zip(*(column() for column in self.columns), strict=True)


class FactColumns:
    """The rows of a fact table, about a tenth of the size that tuples have.

    Iterable as often as wanted, as long as nothing is appended or dropped meanwhile.

    Args:
        table: whose rows.
    """

    def __init__(self, table: FactTable) -> None:
        self._table = table
        self._time = _time_column(table)
        self._blocks: list[_Block] = []
        self._tail: list[Row] = []
        self._since: datetime | None = None

    def extend(self, rows: Iterable[Row]) -> None:
        """Adds rows, which nobody else adds again."""
        self._tail.extend(rows)
        while len(self._tail) >= _BLOCK:
            self._blocks.append(_Block(self._table, self._tail[:_BLOCK], self._time))
            del self._tail[:_BLOCK]

    def drop_before(self, time_ms: int) -> None:
        """From now on rows before this time are not there; their memory is freed a block at a time."""
        if self._time is None:
            return
        since = self._since = from_millis(time_ms)
        self._blocks = [block for block in self._blocks if block.last is None or block.last >= since]

    def __iter__(self) -> Iterator[Row]:
        since = self._since
        for block in self._blocks:
            whole = since is None or (block.first is not None and block.first >= since)
            yield from block if whole else self._recent(block)
        yield from self._recent(self._tail)

    def _recent(self, rows: Iterable[Row]) -> Iterable[Row]:
        place, since = self._time, self._since
        if place is None or since is None:
            return rows
        return (row for row in rows if row[place] is None or row[place] >= since)

    @property
    def held(self) -> int:
        """How many rows are in memory, those included that are dropped but not yet freed."""
        return sum(block.rows for block in self._blocks) + len(self._tail)


class SaasView:
    """The fold of a SaaS's tables, minus the facts that `retained` drops at the view's time.

    The view's time is the latest of the times that it was given and of the events in it, so it never goes back.

    Args:
        saas: the tables and how long facts are kept.
        partitions: of the ledger; within one, an event not above the last seq is a repeat and changes nothing.
    """

    def __init__(self, saas: Saas, partitions: int) -> None:
        self.at_ms: int | None = None
        self._keep_ms = saas.keep_ms
        self._partitions = partitions
        self._entities: dict[str, dict[str, Row]] = {}
        self._facts: dict[str, FactColumns] = {}
        self._last: dict[int, int] = {}
        self._by_kind: dict[str, list[Table]] = {}
        for table in saas.tables:
            if isinstance(table, FactTable):
                self._facts[table.name] = FactColumns(table)
            else:
                self._entities[table.name] = {}
            for kind in table.kinds:
                self._by_kind.setdefault(kind, []).append(table)

    def apply(self, events: Sequence[Event], at_ms: int | None) -> None:
        """Folds `events` in and moves the view's time to `at_ms`; all or, where a table's function raises, nothing."""
        last = dict(self._last)
        entities: dict[str, dict[str, Row | None]] = {name: {} for name in self._entities}
        facts: dict[str, list[Row]] = {name: [] for name in self._facts}
        latest = self.at_ms if at_ms is None or (self.at_ms is not None and self.at_ms > at_ms) else at_ms
        for event in events:
            partition = partition_of(event.entity_id, self._partitions)
            if event.seq <= last.get(partition, -1):
                continue
            last[partition] = event.seq
            if latest is None or event.at_ms > latest:
                latest = event.at_ms
            for table in self._by_kind.get(event.kind, ()):
                if isinstance(table, EntityTable):
                    staged, key = entities[table.name], event.entity_id
                    before = staged[key] if key in staged else self._entities[table.name].get(key)
                    staged[key] = table.step(before, event)
                else:
                    facts[table.name].append(table.row(event))
        self._last = last
        for name, changed in entities.items():
            rows = self._entities[name]
            for key, row in changed.items():
                if row is None:
                    rows.pop(key, None)
                else:
                    rows[key] = row
        self.at_ms = latest
        for name, columns in self._facts.items():
            columns.extend(facts[name])
            if latest is not None and self._keep_ms is not None:
                columns.drop_before(latest - self._keep_ms)

    def rows(self, table: str) -> Iterable[Row]:
        """The rows of `table`, iterable as often as wanted until the next `apply`.

        Raises:
            NotFoundError: there is no such table.
        """
        if table in self._facts:
            return self._facts[table]
        if table in self._entities:
            return self._entities[table].values()
        known = ", ".join(sorted([*self._facts, *self._entities]))
        raise NotFoundError(f"the SaaS has no table {table!r}; known: {known}")

    def relations(self, tables: Iterable[str] | None = None) -> Mapping[str, Iterable[Row]]:
        """The rows of `tables`, by name; None: of all."""
        names = [*self._entities, *self._facts] if tables is None else tables
        return {name: self.rows(name) for name in names}

    @property
    def held_facts(self) -> int:
        """How many fact rows are in memory."""
        return sum(columns.held for columns in self._facts.values())
