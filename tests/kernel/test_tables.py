"""The fold: entity by entity, and its fingerprint."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from churnbench.cuts import partition_of
from churnbench.events import Event
from churnbench.tables import Fold, fingerprint
from tests.toy import DEPOT_VIEW, PARCELS, PLACES, SCANS, TOY, Moved, Registered, event

TABLES = (PARCELS, PLACES, SCANS)
EVENTS = list(TOY.simulate(TOY.parameters("small", {}), 5))


def folded(events: list[Event]) -> Fold:
    fold = Fold(TABLES)
    fold.apply(events)
    return fold


@given(st.integers(0, len(EVENTS)), st.integers(1, 5), st.randoms(use_true_random=False))
def test_partitions_may_be_applied_in_any_order(upto: int, partitions: int, draw: random.Random) -> None:
    expected = folded(EVENTS[:upto]).fingerprint()
    groups: list[list[Event]] = [[] for _ in range(partitions)]
    for e in EVENTS[:upto]:
        groups[partition_of(e.entity_id, partitions)].append(e)
    draw.shuffle(groups)
    assert folded([e for group in groups for e in group]).fingerprint() == expected


@given(st.lists(st.tuples(st.integers(0, 80), st.integers(0, 40)), max_size=5))
def test_applying_events_again_changes_nothing(repeats: list[tuple[int, int]]) -> None:
    fold = folded(EVENTS[:120])
    for start, length in repeats:
        fold.apply(EVENTS[start : start + length])
    assert fold.fingerprint() == folded(EVENTS[:120]).fingerprint()


def test_a_removed_row_is_not_brought_back_by_an_old_event() -> None:
    here, gone = event(0, 0, "p1", Registered("north", 1.0)), event(1, 0, "p1", Moved("lost"))
    fold = Fold((PLACES,))
    fold.apply([here, gone, here])
    assert list(fold.rows("places")) == []


def test_a_view_is_derived_from_its_tables() -> None:
    fold = folded([event(n, 0, f"p{n}", Registered("north" if n < 3 else "west", 1.0)) for n in range(5)])
    assert sorted(fold.relation(DEPOT_VIEW)) == [("north", 3), ("west", 2)]


def test_a_fingerprint_ignores_order_and_tells_tables_rows_and_types_apart() -> None:
    rows = [("a", 1), ("b", 2)]
    print_ = fingerprint({"t": rows})
    assert fingerprint({"t": rows[::-1], "empty": []}) == print_
    assert len(print_) == 32
    others = [
        {"u": rows},
        {"t": [("a", 2), ("b", 1)]},
        {"t": [("a", 1)]},
        {"t": [("a", "1"), ("b", 2)]},
        {"t": [*rows, rows[0]]},
    ]
    assert len({print_, *(fingerprint(other) for other in others)}) == 6
