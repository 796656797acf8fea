"""One batch of events, table by table: the rows that it touches, stepped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from churnbench.events import Event
from churnbench.tables import EntityTable, FactTable, Row, Table

__all__ = ["Stored", "Work", "sort_events", "step_entities"]


class Stored(NamedTuple):
    """An entity as a store has it: its row, None where it was removed, and the seq of its last event."""

    row: Row | None
    seq: int


class Work(NamedTuple):
    """What a batch holds for each table."""

    entities: dict[str, list[Event]]
    facts: dict[str, list[Row]]


def sort_events(tables: Iterable[Table], events: Sequence[Event]) -> Work:
    """The events of each entity table, and the new rows of each fact table; tables without any are left out."""
    entities: dict[str, list[Event]] = {}
    facts: dict[str, list[Row]] = {}
    for table in tables:
        wanted = [event for event in events if event.kind in table.kinds]
        if not wanted:
            continue
        if isinstance(table, FactTable):
            facts[table.name] = [table.row(event) for event in wanted]
        else:
            entities[table.name] = wanted
    return Work(entities, facts)


def step_entities(table: EntityTable, stored: Mapping[str, Stored], events: Iterable[Event]) -> dict[str, Stored]:
    """The entities that `events` change, as they are afterwards; events that are not newer change nothing."""
    changed: dict[str, Stored] = {}
    for event in events:
        key = event.entity_id
        row, seq = changed.get(key) or stored.get(key) or Stored(None, -1)
        if event.seq > seq:
            changed[key] = Stored(table.step(row, event), event.seq)
    return changed
