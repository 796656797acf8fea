"""Why an answer was stale: the classes to blame, and the events that made the difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from churnbench.cuts import Cut
from churnbench.domain import AnswerType
from churnbench.records import CauseShare
from churnbench_scorer._differences import Differences, is_older
from churnbench_scorer._gold import Gold, differ

__all__ = ["Causes"]


class Causes:
    """Finds causes over one ledger.

    Law: without the events of an answer whose vector is nowhere later than its question, the ledger's gold at
    the question's time equals gold at the vector. An event goes as a whole; so where one speaks of several
    classes that a measure reads, the law holds as far as the measure joins them, as with the event that an
    entity begins with.

    Args:
        gold: the ledger's.
    """

    def __init__(self, gold: Gold) -> None:
        self.gold = gold
        self.differences = Differences(gold.index)

    def older(self, measure: str, vector: Mapping[str, Cut], truth: Cut) -> dict[str, tuple[int, ...]]:
        """Class -> seqs of the events that its cut lacks on facts that the measure reads and that differ.

        Only classes of the vector that the measure reads, that are older than `truth`, and whose facts differ.
        """
        found: dict[str, tuple[int, ...]] = {}
        new = self.gold.index.positions(truth)
        for cls, attributes in self.gold.measure(measure).reads.items():
            if cls not in vector:
                continue
            old = self.gold.index.positions(vector[cls])
            if is_older(old, new):
                seqs = self.differences.events(cls, attributes, old, new)
                if seqs:
                    found[cls] = seqs
        return found

    def share(
        self,
        measure: str,
        params: Mapping[str, Any],
        at_ms: int,
        vector: Mapping[str, Cut],
        answer_type: AnswerType,
        candidates: Iterable[str],
    ) -> CauseShare | None:
        """The smallest sets of classes whose cut, moved to the question's time, mends the answer.

        Several sets share the error equally, and so do the classes within a set. None where no set mends it,
        which only a vector later than the question can cause.
        """
        true = self.gold.gold(measure, params, at_ms)
        names = sorted(candidates)
        for size in range(1, len(names) + 1):
            sets = []
            for chosen in combinations(names, size):
                moved = {cls: cut for cls, cut in vector.items() if cls not in chosen}
                if not differ(answer_type, self.gold.gold(measure, params, at_ms, moved), true):
                    sets.append(list(chosen))
            if sets:
                return CauseShare(sets, _shares(sets))
        return None


def _shares(sets: list[list[str]]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for chosen in sets:
        for cls in chosen:
            shares[cls] = shares.get(cls, 0.0) + 1.0 / (len(sets) * len(chosen))
    return dict(sorted(shares.items()))
