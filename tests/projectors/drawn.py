"""Toy ledgers drawn by hypothesis, as a projector gets them: in batches of one partition each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from churnbench.cuts import Cut, partition_of
from churnbench.events import Event
from tests.toy import START_MS, Moved, Registered, Scanned, event

HOUR_MS = 3_600_000
_payloads = st.one_of(
    st.builds(Registered, st.sampled_from(("north", "south")), st.sampled_from((1.5, 2.0, 0.1))),
    st.builds(Moved, st.sampled_from(("north", "south", "lost"))),
    st.builds(Scanned, st.integers(0, 90)),
)


class Batch(NamedTuple):
    events: list[Event]
    cut: Cut


@st.composite
def ledgers(draw: st.DrawFn, most: int = 40) -> list[Event]:
    at = START_MS
    events = []
    for seq in range(draw(st.integers(0, most))):
        at += draw(st.sampled_from((0, 1, HOUR_MS, 30 * HOUR_MS)))
        parcel = f"p{draw(st.integers(0, 4))}"
        events.append(event(seq, at, parcel, draw(_payloads)))
    return events


def sequences(events: Sequence[Event], partitions: int) -> dict[int, list[Event]]:
    """The events of each partition; an event's partition sequence is its place."""
    parts: dict[int, list[Event]] = {p: [] for p in range(partitions)}
    for e in events:
        parts[partition_of(e.entity_id, partitions)].append(e)
    return parts


@st.composite
def batches(draw: st.DrawFn, events: Sequence[Event], partitions: int) -> list[Batch]:
    """Every event once, partition by partition in batches of any size, the partitions interleaved in any way."""
    parts = sequences(events, partitions)
    done = dict.fromkeys(parts, 0)
    found: list[Batch] = []
    while open_parts := [p for p in parts if done[p] < len(parts[p])]:
        part = draw(st.sampled_from(open_parts))
        size = draw(st.integers(1, 7))
        got = parts[part][done[part] : done[part] + size]
        done[part] += len(got)
        found.append(Batch(got, Cut({part: done[part] - 1})))
    return found
