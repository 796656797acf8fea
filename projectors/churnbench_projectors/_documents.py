"""Rows as the documents of a document store, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from churnbench.events import from_millis, to_millis
from churnbench.tables import ColumnType, Row, Table

__all__ = ["document_of", "document_value", "row_of"]


def document_value(kind: ColumnType, value: Any) -> Any:
    """A value of a column as it stands in a document: a time in milliseconds, others as they are; None stays None."""
    return to_millis(value) if kind == "time" and value is not None else value


def document_of(table: Table, row: Row) -> dict[str, Any]:
    """A row as a document: the columns by name."""
    return {column.name: document_value(column.type, value) for column, value in zip(table.columns, row, strict=True)}


def row_of(table: Table, document: Mapping[str, Any]) -> Row:
    """The row that `document_of` wrote; fields that are no columns are left out."""
    values = []
    for column in table.columns:
        value = document[column.name]
        if value is not None and column.type == "time":
            value = from_millis(value)
        elif value is not None and column.type == "float":
            value = float(value)
        values.append(value)
    return tuple(values)
