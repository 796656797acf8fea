"""Causes: the classes to blame, the events that made the difference, and the law that ties the two to gold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from churnbench.cuts import Cut
from churnbench.events import Event
from churnbench_scorer import Gold, LedgerIndex, differ
from churnbench_scorer._causes import Causes
from churnbench_scorer._differences import Differences
from tests.scorer.brute import CLASSES, every_question, ledgers
from tests.scorer.stories import STORY, Scene, T, day
from tests.toy import DEPOTS, MEASURES, START_MS, TOY, Moved, Registered, Scanned, event


def without(events: list[Event], gone: Iterable[int]) -> LedgerIndex:
    """The index of a ledger in which some events never happened."""
    never = set(gone)
    return LedgerIndex.of_events([e for e in events if e.seq not in never], TOY)


@st.composite
def lives(draw: st.DrawFn) -> list[Event]:
    """A ledger in which each parcel begins with its registration."""
    events: list[Event] = []
    known: set[str] = set()
    for e in draw(ledgers()):
        payload = e.payload
        if e.entity_id not in known and not isinstance(payload, Registered):
            payload = Registered(draw(st.sampled_from(DEPOTS)), 1.5)
        known.add(e.entity_id)
        events.append(event(e.seq, e.at_ms, e.entity_id, payload))
    return events


@settings(max_examples=30, deadline=None)
@given(lives(), st.sampled_from((1, 3)), st.data())
def test_without_its_events_gold_at_the_questions_time_is_gold_at_the_vector(
    events: list[Event], partitions: int, data: st.DataObject
) -> None:
    index = LedgerIndex.of_events(events, TOY, partitions)
    gold = Gold(index, TOY)
    causes = Causes(gold)
    times = st.sampled_from([START_MS - 1, *(e.at_ms for e in events)])
    at_ms = data.draw(times)
    all_cuts = {cls: index.cut_at(min(at_ms, data.draw(times))) for cls in CLASSES}
    others: dict[tuple[int, ...], LedgerIndex] = {}
    for measure, params in every_question():
        vector = {cls: all_cuts[cls] for cls in MEASURES[measure].reads}
        older = causes.older(measure, vector, index.cut_at(at_ms))
        kind = MEASURES[measure].answer_type
        old, true = gold.gold(measure, params, at_ms, vector), gold.at(measure, params, at_ms)
        if not differ(kind, old, true):
            continue
        assert older
        gone = tuple(sorted({seq for seqs in older.values() for seq in seqs}))
        if gone not in others:
            others[gone] = without(events, gone)
        assert (measure, params, Gold(others[gone], TOY).at(measure, params, at_ms)) == (measure, params, old)

        share = causes.share(measure, params, at_ms, vector, kind, older)
        assert share is not None
        assert sum(share.shares.values()) == pytest.approx(1)
        for chosen in share.sets:
            moved = {cls: cut for cls, cut in vector.items() if cls not in chosen}
            assert not differ(kind, gold.gold(measure, params, at_ms, moved), true)
            for kept in chosen:
                fewer = {**moved, kept: vector[kept]}
                assert differ(kind, gold.gold(measure, params, at_ms, fewer), true)
    for opened in (index, *others.values()):
        opened.close()


@settings(max_examples=30, deadline=None)
@given(ledgers(), st.sampled_from((1, 3)), st.data())
def test_differences_are_the_later_events_on_facts_that_differ(
    events: list[Event], partitions: int, data: st.DataObject
) -> None:
    index = LedgerIndex.of_events(events, TOY, partitions)
    positions = st.tuples(*(st.integers(-1, len(events)) for _ in range(partitions)))
    old, new = (index.positions(Cut(dict(enumerate(data.draw(positions))))) for _ in range(2))
    placed = [(p, q, e) for e in events for p, q in [index.where([e.seq])[e.seq]]]

    def places(cut: tuple[int, ...]) -> dict[str, Any]:
        at = {e.entity_id: e.payload.depot for p, q, e in placed if q <= cut[p] and not isinstance(e.payload, Scanned)}
        return {parcel: depot for parcel, depot in at.items() if depot != "lost"}

    before, after = places(old), places(new)
    between = [e for p, q, e in placed if old[p] < q <= new[p]]
    differences = Differences(index)
    assert differences.events("location", ["depot"], old, new) == tuple(
        e.seq
        for e in between
        if not isinstance(e.payload, Scanned) and before.get(e.entity_id) != after.get(e.entity_id)
    )
    scans = tuple(e.seq for e in between if isinstance(e.payload, Scanned))
    assert differences.events("scans", [], old, new) == differences.events("activity", [], old, new) == scans
    index.close()


def later(seq: int) -> list[Event]:
    """What else happens after day 2."""
    return [event(seq, day(3), "p1", Moved("east")), event(seq + 1, day(4), "p2", Moved("south"))]


def verdict(scene: Scene, location: float, registration: float, value: int, depot: str) -> Any:
    read = scene.read("parcels_in_depot", {"location": location, "registration": registration})
    return scene.verdict("parcels_in_depot", {"depot": depot}, value, read)


def test_the_class_whose_move_mends_the_answer_is_the_cause() -> None:
    # p4 comes to the west on day 2 and has stood there since.
    scene = Scene([*STORY[:6], event(6, day(2), "p4", Registered("west", 3.0)), *later(7)])
    found = verdict(scene, 4, 1, 0, "west")
    assert found.cause.shares == {"registration": 1.0}
    assert (found.events, found.marked) == ([6], [6])


def test_classes_that_mend_it_only_together_share_the_error() -> None:
    scene = Scene([*STORY[:6], event(6, day(2), "p4", Registered("west", 3.0)), *later(7)])
    found = verdict(scene, 1, 1, 0, "west")
    assert found.cause.sets == [["location", "registration"]]
    assert found.cause.shares == {"location": 0.5, "registration": 0.5}
    # Whatever depot was asked about: p1 moved too, but p2 is back where it was.
    assert found.events == found.marked == [6, 7]


def test_either_of_two_classes_mends_it_and_each_bears_half() -> None:
    # p0 is scanned and leaves the north on day 3: not scanned yet, or no longer there, both would be zero.
    story = [event(0, day(0), "p0", Registered("east", 1.0)), event(1, day(3), "p0", Scanned(5))]
    scene = Scene([*story, event(2, day(3), "p0", Moved("north")), event(3, day(4), "p1", Registered("north", 1.0))])
    read = scene.read("scanned_in_depot", {"location": 0, "scans": 0})
    found = scene.verdict("scanned_in_depot", {"depot": "north", "days": 4}, 0, read)
    assert (found.gold, found.cause.sets) == (1, [["location", "scans"]])
    east = scene.verdict(
        "scanned_in_depot", {"depot": "east", "days": 4}, 1, scene.read(None, {"location": 0, "scans": 4})
    )
    assert (east.gold, east.cause.shares) == (0, {"location": 1.0})


def test_events_of_classes_that_are_not_to_blame_are_listed_but_not_marked() -> None:
    scene = Scene([*STORY[:6], event(6, day(2), "p4", Registered("west", 3.0)), *later(7)])
    found = verdict(scene, 2, 1, 3, "north")
    assert found.gold == 1
    assert found.cause.shares == {"location": 1.0}
    assert found.events == [6, 7, 8]
    assert found.marked == [7, 8]


def test_a_fact_that_changed_and_changed_back_is_no_cause() -> None:
    there_and_back = [event(6, day(3), "p0", Moved("west")), event(7, day(3), "p0", Moved("north"))]
    scene = Scene([*STORY[:6], *there_and_back, event(8, day(4), "p1", Moved("east"))])
    found = verdict(scene, 2, 2, 3, "north")
    assert (found.gold, found.events) == (2, [8])


def test_the_events_of_rows_are_those_that_were_added() -> None:
    scene = Scene()
    found = scene.verdict("scans_recent", {"days": 4}, 1, scene.read("scans_recent", {"scans": 2}))
    assert (found.gold, found.verdict, found.events, found.marked) == (2, "freshness_error", [8], [8])
    assert Gold(without(STORY, found.events), TOY).at("scans_recent", {"days": 4}, T) == 1


def test_no_set_mends_what_only_later_data_spoiled() -> None:
    scene = Scene()
    causes = Causes(Gold(scene.index, TOY))
    vector = {"location": scene.index.cut_at(day(4.5)), "registration": scene.cut(4)}
    assert causes.older("parcels_in_depot", vector, scene.cut(4)) == {}
    question = ("parcels_in_depot", {"depot": "north"}, T, vector, "int")
    assert causes.share(*question, []) is None  # type: ignore[arg-type]
    assert causes.share(*question, vector).sets == [["location"]]  # type: ignore[arg-type, union-attr]
