"""A `FactView` over a list of events: the assertions of each class up to its cut, and DuckDB over its rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np

from churnbench.domain import Domain
from churnbench.events import Event
from churnbench.tables import Row

_TYPES = {"text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN", "time": "TIMESTAMPTZ"}


class Index:
    """The assertions of a ledger, class by class, with the rows in DuckDB."""

    def __init__(self, domain: Domain, events: Sequence[Event]) -> None:
        self.classes = {cls.name: cls for cls in domain.classes}
        self.times = [(event.seq, event.at_ms) for event in events]
        self.values: dict[tuple[str, str], list[tuple[int, str, Any]]] = {}
        rows: dict[str, list[Row]] = {name: [] for name, cls in self.classes.items() if cls.columns}
        for event in events:
            for cls, entity, attribute, value in domain.assertions(event):
                if attribute:
                    assert attribute in self.classes[cls].attributes, (cls, attribute)
                    self.values.setdefault((cls, attribute), []).append((event.seq, entity, value))
                else:
                    rows[cls].append((event.seq, event.at_ms, entity, *value))
        self.db = duckdb.connect()
        for cls, kept in rows.items():
            columns = [("seq", "int"), ("at_ms", "int"), ("entity", "text"), *self.classes[cls].columns]
            self.db.execute(f"CREATE TABLE {cls} ({', '.join(f'{column} {_TYPES[kind]}' for column, kind in columns)})")
            if kept:
                arrays = {
                    name: np.array(values, dtype=np.int64 if kind == "int" else object)
                    for (name, kind), values in zip(columns, zip(*kept, strict=True), strict=True)
                }
                self.db.register("arrays", arrays)
                self.db.execute(f"INSERT INTO {cls} SELECT * FROM arrays")
                self.db.unregister("arrays")

    def view(self, at_ms: int, vector: Mapping[str, int] | None = None) -> SimpleView:
        """The facts at `at_ms`, some classes as of a seq of their own."""
        last = max((seq for seq, at in self.times if at <= at_ms), default=-1)
        return SimpleView(self, {name: (vector or {}).get(name, last) for name in self.classes})


class SimpleView:
    """Implements `churnbench.domain.FactView`; cuts are seqs."""

    def __init__(self, index: Index, cuts: Mapping[str, int]) -> None:
        self.index, self.cuts = index, cuts
        self.read: dict[str, set[str]] = {}

    def values(self, cls: str, attribute: str) -> Mapping[str, Any]:
        assert attribute in self.index.classes[cls].attributes
        self.read.setdefault(cls, set()).add(attribute)
        said = self.index.values.get((cls, attribute), ())
        known = {entity: value for seq, entity, value in said if seq <= self.cuts[cls]}
        return {entity: value for entity, value in known.items() if value is not None}

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        def rows(match: re.Match[str]) -> str:
            cls = self.index.classes[match[1]]
            self.read.setdefault(cls.name, set())
            return f"(SELECT * FROM {cls.rows_of or cls.name} WHERE seq <= {self.cuts[cls.name]}) AS {cls.name}"

        return self.index.db.execute(re.sub(r"\{(\w+)\}", rows, sql), list(parameters)).fetchall()
