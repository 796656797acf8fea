"""Scripted ledgers: events, and marks of what happens to the projector between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from hypothesis import strategies as st

from churnbench.cuts import Cut, partition_of
from churnbench.events import Codec, Event
from churnbench.log import LedgerWriter, Log

__all__ = ["Batch", "Mark", "Script", "partitioned", "scripts", "write_ledger"]


class Mark(Enum):
    """What happens to a projector."""

    CRASH = "killed while it applies the next batch; a new one goes on"
    RESTART = "closed between two batches; a new one goes on"
    REPEAT = "given the batch before once more"
    RESET = "emptied, and given everything from the first event on"


class Batch(NamedTuple):
    """Events of one partition as a projector gets them, and the cut that they lead to."""

    events: list[Event]
    cut: Cut


Script = Sequence[Batch | Mark]
"""Batches that follow each other, with marks between them."""


def partitioned(events: Iterable[Event], partitions: int) -> dict[int, list[Event]]:
    """The events of each partition; an event's partition sequence is its place in its list."""
    parts: dict[int, list[Event]] = {p: [] for p in range(partitions)}
    for event in events:
        parts[partition_of(event.entity_id, partitions)].append(event)
    return parts


@st.composite
def scripts(draw: st.DrawFn, events: Sequence[Event], partitions: int, largest: int = 7) -> list[Batch | Mark]:
    """Every event once, partition by partition in batches of any size, interleaved in any way, with marks anywhere.

    Args:
        draw: hypothesis.
        events: the ledger.
        partitions: of the ledger.
        largest: most events in a batch.
    """
    parts = partitioned(events, partitions)
    done = dict.fromkeys(parts, 0)
    script: list[Batch | Mark] = []
    while open_parts := [p for p in parts if done[p] < len(parts[p])]:
        script += draw(st.lists(st.sampled_from(Mark), max_size=1))
        part = draw(st.sampled_from(open_parts))
        got = parts[part][done[part] :][: draw(st.integers(1, largest))]
        done[part] += len(got)
        script.append(Batch(got, Cut({part: done[part] - 1})))
    return script


async def write_ledger(log: Log, topic: str, codec: Codec, events: Sequence[Event], partitions: int = 1) -> Cut:
    """Makes a ledger of `events` that is closed by its completion records; the cut after the last event."""
    await log.create_topic(topic, partitions)
    writer = LedgerWriter(log, topic, codec, partitions)
    cut = await writer.append(events)
    at_ms = events[-1].at_ms if events else 0
    await writer.complete(b"{}", at_ms, range(partitions))
    return Cut(cut.positions, at_ms)
