"""What each staged table copies: the relation of its source, and the columns that it keeps of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from churnbench.domain import Domain, Store
from churnbench.errors import NotFoundError
from churnbench.registry import Registry, StagedTable
from churnbench.tables import Column, Relation, Row, Table, View

__all__ = ["StagedLayout", "inputs", "layouts", "source_store"]


class StagedLayout(NamedTuple):
    """A staged table, the relation that it copies, its columns, and where these stand in the relation's rows."""

    table: StagedTable
    relation: Relation
    columns: tuple[Column, ...]
    places: tuple[int, ...]

    def pick(self, rows: Iterable[Row]) -> list[Row]:
        """Rows of the relation, reduced to the staged columns."""
        return [tuple(row[place] for place in self.places) for row in rows]


def source_store(domain: Domain, source: str) -> Store:
    """The tables and views of a source that staged tables may copy.

    Raises:
        NotFoundError: no such source.
    """
    stores = {"warehouse": domain.warehouse, "operations": domain.operations}
    if source not in stores:
        raise NotFoundError(f"no source {source!r} to stage from; known: {', '.join(stores)}")
    return stores[source]


def _layout(domain: Domain, table: StagedTable) -> StagedLayout:
    store = source_store(domain, table.source)
    relations: dict[str, Relation] = {relation.name: relation for relation in (*store.tables, *store.views)}
    if table.relation not in relations:
        raise NotFoundError(
            f"the staged table {table.name} copies {table.source}.{table.relation}, which is not there; "
            f"known: {', '.join(sorted(relations))}"
        )
    relation = relations[table.relation]
    names = [column.name for column in relation.columns]
    missing = [name for name in table.columns if name not in names]
    if missing or not table.columns:
        raise NotFoundError(
            f"the staged table {table.name} keeps the columns {', '.join(missing) or 'none'} of "
            f"{table.source}.{table.relation}; known: {', '.join(names)}"
        )
    places = tuple(names.index(name) for name in table.columns)
    return StagedLayout(table, relation, tuple(relation.columns[place] for place in places), places)


def layouts(domain: Domain, registry: Registry) -> dict[str, StagedLayout]:
    """Staged name -> layout, for every staged table of the registry.

    Raises:
        NotFoundError: one copies a source, relation or column that the domain does not have.
    """
    return {table.name: _layout(domain, table) for table in registry.tables}


def inputs(store: Store, relation: Relation) -> list[Table]:
    """The tables of `store` that `relation` is read from, itself where it is a table."""
    if isinstance(relation, View):
        return [table for table in store.tables if table.name in relation.inputs]
    return [relation]
