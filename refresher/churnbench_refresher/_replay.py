"""The way `replay`: the staged relations computed from the ledger itself, in step with the sources."""

from __future__ import annotations

from collections.abc import Mapping

from churnbench.cuts import Cut
from churnbench.domain import Domain
from churnbench.log import LedgerReader, Log
from churnbench.tables import Fold, Row, Table
from churnbench_refresher._layout import StagedLayout, inputs, source_store

__all__ = ["Replay"]


class Replay:
    """Folds, source by source, the tables that staged relations need, and moves them forward along the ledger.

    Args:
        log: where the ledger is.
        ledger: its topic.
        domain: whose tables they are.
        layouts: the staged tables.
    """

    def __init__(self, log: Log, ledger: str, domain: Domain, layouts: Mapping[str, StagedLayout]) -> None:
        self._log = log
        self._ledger = ledger
        self._codec = domain.codec
        needed: dict[str, dict[str, Table]] = {}
        for layout in layouts.values():
            store = source_store(domain, layout.table.source)
            for table in inputs(store, layout.relation):
                needed.setdefault(layout.table.source, {})[table.name] = table
        self._tables = {source: tuple(tables.values()) for source, tables in needed.items()}
        self._folds: dict[str, Fold] = {source: Fold(tables) for source, tables in self._tables.items()}
        self._cuts: dict[str, Cut] = {}

    async def advance(self, targets: Mapping[str, Cut]) -> None:
        """Moves each source's fold to its cut in `targets`; back to an earlier one by starting anew.

        Raises:
            SequenceGapError, CorruptLogError, IncompleteError: the ledger is not what it was.
        """
        moves: dict[tuple[Cut, Cut], list[str]] = {}
        for source, target in targets.items():
            if source not in self._folds:
                continue
            at = self._cuts.get(source)
            if at is None or not target.covers(at):
                self._folds[source] = Fold(self._tables[source])
                at = Cut(dict.fromkeys(target.positions, -1))
            # A reading that fails leaves a fold at no known cut.
            self._cuts.pop(source, None)
            moves.setdefault((at, target), []).append(source)
        for (after, upto), sources in moves.items():
            folds = [self._folds[source] for source in sources]
            kinds = frozenset[str]().union(*(fold.kinds for fold in folds))
            reader = LedgerReader(self._log, self._ledger, self._codec, kinds)
            # A record that is no event is passed over as the sources do, which report it as a dead letter.
            async for batch in reader.batches(after, upto, undecodable=lambda record, error: None):
                for fold in folds:
                    fold.apply(batch.events)
            for source in sources:
                self._cuts[source] = upto

    def rows(self, layout: StagedLayout) -> list[Row]:
        """The staged columns of a relation, at the cut that its source was advanced to."""
        return layout.pick(self._folds[layout.table.source].relation(layout.relation))
