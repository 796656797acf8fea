"""What changed between two cuts, and in which events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from churnbench_scorer._building import rows_table
from churnbench_scorer._cache import WeightedCache
from churnbench_scorer._facts import values_at, within
from churnbench_scorer._intervals import LedgerIndex, Positions

__all__ = ["Differences", "is_older"]

_CACHED_SEQS = 1_000_000
_missing = object()


def is_older(positions: Positions, than: Positions) -> bool:
    """Whether a cut lacks records that another has."""
    return any(mine < other for mine, other in zip(positions, than, strict=True))


class Differences:
    """Differences of classes between cuts of an index, as the events that made them.

    Args:
        index: the ledger.
    """

    def __init__(self, index: LedgerIndex) -> None:
        self.index = index
        self._known: WeightedCache[tuple[int, ...]] = WeightedCache(_CACHED_SEQS, len)

    def events(self, cls: str, attributes: Sequence[str], old: Positions, new: Positions) -> tuple[int, ...]:
        """Seqs, ascending, of the events after `old` and up to `new` on facts that differ between the two.

        A fact that changed and changed back does not differ. For a class of rows: the events that added rows.
        Empty where nothing differs.
        """
        key = (cls, tuple(attributes), old, new)
        return self._known.get(key, lambda: tuple(sorted(self._events(cls, attributes, old, new))))

    def _events(self, cls: str, attributes: Sequence[str], old: Positions, new: Positions) -> set[int]:
        declared = self.index.entity_class(cls)
        if not declared.attributes:
            statement = f"SELECT seq FROM {rows_table(declared)} WHERE {_between(old, new, 'pseq')}"  # noqa: S608
            return {row[0] for row in self.index.db.execute(statement).fetchall()}
        found: set[int] = set()
        for attribute in attributes:
            before = values_at(self.index, cls, attribute, old)
            after = values_at(self.index, cls, attribute, new)
            changed = self.index.db.execute(
                "SELECT entity, from_seq FROM facts WHERE attribute = ? "  # noqa: S608 - integers
                f"AND {_between(old, new, 'from_pseq')}",
                [self.index.attribute(cls, attribute)],
            ).fetchall()
            found.update(seq for entity, seq in changed if not _same(before, after, entity))
        return found


def _same(before: Any, after: Any, entity: str) -> bool:
    return bool(before.get(entity, _missing) == after.get(entity, _missing))


def _between(old: Positions, new: Positions, column: str) -> str:
    return f"NOT ({within(old, column)}) AND {within(new, column)}"
