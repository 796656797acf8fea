"""A vector of cuts over the index: what measures compute gold from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import duckdb
import msgspec

from churnbench.cuts import Cut
from churnbench.errors import TerminalError
from churnbench.tables import Row
from churnbench_scorer._building import rows_table
from churnbench_scorer._intervals import LedgerIndex, Positions

__all__ = ["IndexView", "values_at", "within"]

_NAMED = re.compile(r"\{(\w+)\}")
_WITH = re.compile(r"\s*WITH\b", re.IGNORECASE)
_decode = msgspec.json.Decoder().decode


def within(positions: Positions, column: str) -> str:
    """A SQL condition: the record whose sequence is in `column` is included in a cut; null where that is null."""
    if len(positions) == 1:
        return f"{column} <= {positions[0]}"
    return f"{column} <= ([{', '.join(map(str, positions))}])[partition + 1]"


def values_at(index: LedgerIndex, cls: str, attribute: str, positions: Positions) -> Mapping[str, Any]:
    """Entity -> value of an attribute at a cut; entities without one are left out. Never to be changed."""
    number = index.attribute(cls, attribute)

    def read() -> Mapping[str, Any]:
        rows = index.db.execute(
            "SELECT entity, value FROM facts WHERE attribute = ? AND value IS NOT NULL "  # noqa: S608 - integers
            f"AND {within(positions, 'from_pseq')} AND NOT coalesce({within(positions, 'to_pseq')}, false) "
            "ORDER BY first_seq",
            [number],
        ).fetchall()
        values = _decode("[" + ",".join([row[1] for row in rows]) + "]")
        return {row[0]: value for row, value in zip(rows, values, strict=True)}

    return index.values_cache.get((number, positions), read)


class IndexView:
    """Implements `churnbench.domain.FactView` over an index; its reads are cached with the index.

    Args:
        index: the ledger.
        vector: class -> cut of the facts of that class.
        default: the cut of every other class.
        reads: class -> attributes that may be read, with the name of the measure that declares them; None: all.
    """

    def __init__(
        self,
        index: LedgerIndex,
        vector: Mapping[str, Cut],
        default: Cut,
        reads: tuple[str, Mapping[str, tuple[str, ...]]] | None = None,
    ) -> None:
        self.index = index
        self._positions = {cls: index.positions(cut) for cls, cut in vector.items()}
        self._default = index.positions(default)
        self._reads = reads

    def positions(self, cls: str) -> Positions:
        """The cut that the facts of a class are of."""
        return self._positions.get(cls, self._default)

    def values(self, cls: str, attribute: str) -> Mapping[str, Any]:
        """Entity -> value of `attribute`, in the order in which the entities first got a value.

        Raises:
            NotFoundError: there is no such class or attribute.
            TerminalError: the measure does not declare that it reads it.
        """
        self._check(cls, attribute)
        return values_at(self.index, cls, attribute, self.positions(cls))

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Rows of a DuckDB SELECT over classes of rows, named in braces; times are aware UTC `datetime`.

        Raises:
            NotFoundError: there is no such class.
            TerminalError: the statement fails, or the measure does not declare that it reads a class.
        """
        classes = sorted(set(_NAMED.findall(sql)))
        for cls in classes:
            self._check(cls, "")
        given = tuple((type(value), value) for value in parameters)
        key = (sql, given, tuple((cls, self.positions(cls)) for cls in classes))
        return self.index.rows_cache.get(key, lambda: self._run(sql, parameters, classes))

    def _run(self, sql: str, parameters: Sequence[Any], classes: Sequence[str]) -> list[Row]:
        tables = [f'"{cls}" AS NOT MATERIALIZED ({self._rows(cls)})' for cls in classes]
        body = _NAMED.sub(r'"\1"', sql)
        if tables:
            started = _WITH.match(body)
            rest = "," + body[started.end() :] if started else " " + body
            body = f"WITH {', '.join(tables)}{rest}"
        given = [value.astimezone(UTC).replace(tzinfo=None) if _aware(value) else value for value in parameters]
        try:
            result = self.index.db.execute(body, given)
            timed = any("TIMESTAMP" in str(column[1]) for column in result.description or ())
            rows = result.fetchall()
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise TerminalError(f"a measure's query fails ({reason}): {sql}") from error
        if timed:
            return [tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row) for row in rows]
        return rows

    def _rows(self, cls: str) -> str:
        declared = self.index.entity_class(cls)
        if declared.attributes:
            raise TerminalError(f"{cls} is a class of attributes and has no rows; read its values")
        owner = self.index.entity_class(declared.rows_of) if declared.rows_of else declared
        columns = ", ".join(f'"{name}"' for name in ("seq", "at_ms", "entity", *(c.name for c in owner.columns)))
        return f"SELECT {columns} FROM {rows_table(declared)} WHERE {within(self.positions(cls), 'pseq')}"  # noqa: S608

    def _check(self, cls: str, attribute: str) -> None:
        if self._reads is None:
            return
        measure, reads = self._reads
        if cls not in reads or (attribute and attribute not in reads[cls]):
            what = f"{cls}.{attribute}" if attribute else cls
            raise TerminalError(f"the measure {measure} reads {what}, which it does not declare in its `reads`")


def _aware(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None
