"""Stepping the entities of a batch where each stored row knows the seq of its last event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from churnbench.events import Event
from churnbench.tables import EntityTable, Row

__all__ = ["Stored", "step_entities"]


class Stored(NamedTuple):
    """An entity as a store has it: its row, None where it was removed, and the seq of its last event."""

    row: Row | None
    seq: int


def step_entities(table: EntityTable, stored: Mapping[str, Stored], events: Iterable[Event]) -> dict[str, Stored]:
    """The entities that `events` change, as they are afterwards; events that are not newer change nothing."""
    changed: dict[str, Stored] = {}
    for event in events:
        key = event.entity_id
        row, seq = changed.get(key) or stored.get(key) or Stored(None, -1)
        if event.seq > seq:
            changed[key] = Stored(table.step(row, event), event.seq)
    return changed
