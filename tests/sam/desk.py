"""A careful clerk: answers tasks by a registry's templates, from tables folded to given cuts and kept in PostgreSQL.

Written for these tests alone: it shares nothing with the stages but the declarations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from churnbench.domain import Domain, Store, Task
from churnbench.events import Event, from_millis
from churnbench.registry import DAY_MS, Query, QueryResult, Registry, Template
from churnbench.tables import Column, EntityTable, Fold, Relation, Row, View

_TYPES = {"text": "text", "int": "bigint", "float": "float8", "bool": "boolean", "time": "timestamptz"}


def store(db: psycopg.Connection[Any], schema: str, name: str, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Makes `schema.name` anew with these rows."""
    db.execute(f"DROP TABLE IF EXISTS {schema}.{name}")
    db.execute(f"CREATE TABLE {schema}.{name} ({', '.join(f'{c.name} {_TYPES[c.type]}' for c in columns)})")
    with db.cursor() as cursor, cursor.copy(f"COPY {schema}.{name} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def store_all(db: psycopg.Connection[Any], schema: str, source: Store, fold: Fold) -> None:
    """All tables of a source and its views as SQL views."""
    db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    db.execute(f"CREATE SCHEMA {schema}")
    for table in source.tables:
        store(db, schema, table.name, table.columns, list(fold.rows(table.name)))
    db.execute(f"SET search_path TO {schema}")
    for view in source.views:
        assert view.sql is not None
        db.execute(f"CREATE VIEW {schema}.{view.name} AS {view.sql}")
    db.execute("SET search_path TO public")


class Desk:
    """Sources of one ledger at one question's time, and staged copies at earlier cuts."""

    def __init__(self, db: psycopg.Connection[Any], domain: Domain, events: Sequence[Event], at_ms: int) -> None:
        self.db, self.domain, self.events, self.at_ms = db, domain, events, at_ms
        self.live = self.cut(at_ms)
        self._folds: dict[tuple[str, int], Fold] = {}
        store_all(db, "warehouse", domain.warehouse, self._fold("warehouse", self.live))
        db.execute("CREATE SCHEMA IF NOT EXISTS staged")

    def cut(self, at_ms: int) -> int:
        """The last seq at or before a time."""
        return max((event.seq for event in self.events if event.at_ms <= at_ms), default=-1)

    def _fold(self, source: str, cut: int) -> Fold:
        if (source, cut) not in self._folds:
            documents = self.domain.documents
            assert documents is not None
            tables = {
                "warehouse": self.domain.warehouse.tables,
                "operations": self.domain.operations.tables,
                "saas": self.domain.saas.tables,
                "documents": (documents.table,),
            }[source]
            if cut < getattr(self, "live", 0):
                tables = tuple(table for table in tables if isinstance(table, EntityTable))
            fold = Fold(tables)
            fold.apply(event for event in self.events if event.seq <= cut)
            self._folds[source, cut] = fold
        return self._folds[source, cut]

    def stage(self, registry: Registry, cuts: Mapping[str, int]) -> None:
        """Makes every staged table as of its cut."""
        self.cuts = dict(cuts)
        for table in registry.tables:
            source = {"warehouse": self.domain.warehouse, "operations": self.domain.operations}[table.source]
            relations: dict[str, Relation] = {r.name: r for r in (*source.tables, *source.views)}
            relation = relations[table.relation]
            names = [column.name for column in relation.columns]
            places = [names.index(name) for name in table.columns]
            rows = self._fold(table.source, cuts[table.name]).relation(relation)
            columns = [relation.columns[place] for place in places]
            store(self.db, "staged", table.name, columns, [tuple(row[place] for place in places) for row in rows])

    def answer(self, template: Template, task: Task) -> Any:
        """What the template makes of the sources."""
        results = {query.name: QueryResult(self._rows(query, task)) for query in template.queries}
        return template.answer(results, task.params, self.at_ms)

    def vector(self, template: Template) -> dict[str, int]:
        """Class -> the seq up to which the template knows it."""
        return {cls: self.cuts.get(name, self.live) for cls, name in template.reads.items()}

    def _rows(self, query: Query, task: Task) -> list[Row]:
        arguments = dict(task.params)
        for name, source in query.arguments.items():
            if source == "@at":
                arguments[name] = from_millis(self.at_ms)
            elif source.startswith("@at-days:"):
                days = task.params[source.removeprefix("@at-days:")]
                arguments[name] = from_millis(self.at_ms - days * DAY_MS)
            else:
                arguments[name] = task.params[source]
        if query.source in ("staged", "warehouse"):
            named = set(re.findall(query.source + r"\.(\w+)", query.statement))
            assert named == set(query.tables), (query.statement, query.tables)
            return self.db.execute(query.statement, arguments).fetchall()
        if query.source == "saas":
            resource = next(r for r in self.domain.saas.resources if r.name == query.statement)
            fold = self._fold("saas", self.live)
            filters = {name: str(arguments[name]) for name in query.arguments}
            assert set(filters) <= set(resource.filters)
            items = resource.items({name: fold.rows(name) for name in resource.inputs}, self.at_ms, filters)
            return [(item,) for item in items]
        assert query.source == "documents" and query.key is not None
        assert query.statement.format(**task.params)
        documents = self.domain.documents
        assert documents is not None
        key = task.params[query.key]
        fold = self._fold("documents", self.cuts["documents"])
        return [(key, documents.render(row, 0)[1]) for row in fold.rows(documents.table.name) if row[0] == key]


def rows_by_sql(db: psycopg.Connection[Any], schema: str, view: View) -> list[Row]:
    """What the view's SQL gives."""
    return db.execute(f"SELECT * FROM {schema}.{view.name}").fetchall()
