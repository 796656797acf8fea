"""Cuts: how far along a partitioned ledger something is.

A cut maps each partition to the last partition sequence applied, -1 where nothing is. Positions, watermarks
and as-of stamps are all cuts; a time is only a cut's label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from zlib import crc32

import msgspec

__all__ = ["Cut", "partition_of"]


def partition_of(entity_id: str, partitions: int) -> int:
    """The partition of an entity among `partitions` (at least 1): crc32 of its id, modulo the count."""
    return crc32(entity_id.encode()) % partitions if partitions > 1 else 0


class Cut(msgspec.Struct, frozen=True):
    """A position in every partition of a ledger.

    Attributes:
        positions: partition -> last partition sequence included, -1 for none.
        at_ms: label: the time, in milliseconds, up to which events are included; None where unknown. Two cuts
            of the same positions are equal whatever their labels.
    """

    positions: dict[int, int]
    at_ms: int | None = msgspec.field(default=None, name="at")

    @classmethod
    def empty(cls, partitions: int) -> Cut:
        """The cut before the first event."""
        return cls(dict.fromkeys(range(partitions), -1))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cut) and self.positions == other.positions

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.positions.items())))

    @property
    def key(self) -> tuple[tuple[int, int], ...]:
        """The positions as a hashable, ordered tuple."""
        return tuple(sorted(self.positions.items()))

    @property
    def events(self) -> int:
        """How many records are included, over all partitions."""
        return sum(position + 1 for position in self.positions.values())

    def covers(self, other: Cut) -> bool:
        """Whether every record of `other` is in this cut too."""
        return all(self.positions.get(p, -1) >= position for p, position in other.positions.items())

    def includes(self, partition: int, sequence: int) -> bool:
        """Whether the record `sequence` of `partition` is in."""
        return sequence <= self.positions.get(partition, -1)

    def moved(self, positions: Mapping[int, int], at_ms: int | None = None) -> Cut:
        """This cut with some partitions moved to new positions."""
        return Cut({**self.positions, **positions}, at_ms)

    @staticmethod
    def minimum(cuts: Iterable[Cut]) -> Cut:
        """The largest cut that all of `cuts` cover.

        Raises:
            ValueError: there is none to take the minimum of.
        """
        items = list(cuts)
        if not items:
            raise ValueError("the minimum of no cuts is not defined")
        partitions = {p for cut in items for p in cut.positions}
        labels = [cut.at_ms for cut in items if cut.at_ms is not None]
        return Cut(
            {p: min(cut.positions.get(p, -1) for cut in items) for p in sorted(partitions)},
            min(labels) if len(labels) == len(items) else None,
        )
