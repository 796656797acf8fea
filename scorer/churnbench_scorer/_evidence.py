"""The events behind verdicts, fetched from the ledger without reading all of it."""

from __future__ import annotations

from collections.abc import Iterable

from churnbench.cuts import Cut
from churnbench.events import Event
from churnbench.log import LedgerReader
from churnbench.records import Verdict
from churnbench_scorer._intervals import LedgerIndex

__all__ = ["events_of", "wanted_events"]

_GAP = 2000
"""Reading over this many records is cheaper than another read."""


def wanted_events(verdicts: Iterable[Verdict], most: int | None = None) -> set[int]:
    """Seqs of the events behind the freshness errors among `verdicts`.

    Args:
        verdicts: of one run or several over one ledger.
        most: as many of each verdict, the marked ones first; None: all.
    """
    return {
        seq
        for verdict in verdicts
        if verdict.verdict == "freshness_error"
        for seq in shown_events(verdict)[slice(most)]
    }


def shown_events(verdict: Verdict) -> list[int]:
    """The events of a verdict, the marked ones first, each part by seq."""
    marked = set(verdict.marked)
    return [*verdict.marked, *(seq for seq in verdict.events if seq not in marked)]


async def events_of(reader: LedgerReader, index: LedgerIndex, seqs: Iterable[int]) -> dict[int, Event]:
    """Seq -> event, of the events `seqs`; unknown ones are left out."""
    found: dict[int, Event] = {}
    where = index.where(seqs)
    for partition in range(index.partitions):
        places = sorted(pseq for part, pseq in where.values() if part == partition)
        for first, last in _ranges(places):
            async for batch in reader.batches(Cut({partition: first - 1}), Cut({partition: last})):
                found.update((event.seq, event) for event in batch.events if event.seq in where)
    return found


def _ranges(places: list[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for place in places:
        if ranges and place - ranges[-1][1] <= _GAP:
            ranges[-1] = (ranges[-1][0], place)
        else:
            ranges.append((place, place))
    return ranges
