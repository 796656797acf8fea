"""Gold from the index is that of a plain fold, at any vector of cuts and for any number of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from churnbench.cuts import Cut
from churnbench.domain import Assertion, EntityClass, FactView, Measure
from churnbench.errors import NotFoundError, TerminalError
from churnbench.events import Event, from_millis
from churnbench.tables import Column
from churnbench_scorer import Gold, LedgerIndex
from tests.scorer.brute import CLASSES, DAY_MS, Brute, every_question, ledgers, vectors
from tests.toy import START_MS, TOY, Moved, Registered, Scanned, ToyDomain, event

PARTITIONS = st.sampled_from((1, 2, 3, 5))


@settings(max_examples=30, deadline=None)
@given(ledgers(), PARTITIONS, st.data())
def test_gold_at_any_vector_is_that_of_the_fold(events: list[Event], partitions: int, data: st.DataObject) -> None:
    index = LedgerIndex.of_events(events, TOY, partitions)
    gold, brute = Gold(index, TOY), Brute(events, partitions)
    at_ms = data.draw(st.sampled_from([START_MS, START_MS + 3 * DAY_MS, *(e.at_ms for e in events)]))
    for _ in range(2):
        cuts = data.draw(vectors(events, partitions))
        for measure, params in every_question():
            expected = brute.gold(measure, params, at_ms, cuts)
            assert (measure, params, gold.gold(measure, params, at_ms, cuts)) == (measure, params, expected)
    index.close()


@settings(max_examples=20, deadline=None)
@given(ledgers(), PARTITIONS, st.data())
def test_plain_gold_holds_every_event_up_to_its_time(events: list[Event], partitions: int, data: st.DataObject) -> None:
    index = LedgerIndex.of_events(events, TOY, partitions)
    at_ms = data.draw(st.sampled_from([START_MS - 1, START_MS + 3 * DAY_MS, *(e.at_ms for e in events)]))
    cut = index.cut_at(at_ms)
    assert Brute(events, partitions).up_to(cut) == [e for e in events if e.at_ms <= at_ms]
    for measure, params in every_question():
        expected = Brute(events, partitions).gold(measure, params, at_ms, dict.fromkeys(CLASSES, cut))
        assert Gold(index, TOY).at(measure, params, at_ms) == expected
    index.close()


STORY = [
    event(0, START_MS, "p0", Registered("north", 2.0)),
    event(1, START_MS, "p1", Registered("north", 3.5)),
    event(2, START_MS + DAY_MS, "p0", Moved("east")),
    event(3, START_MS + DAY_MS, "p1", Moved("lost")),
    event(4, START_MS + 2 * DAY_MS, "p1", Scanned(40)),
    event(5, START_MS + 2 * DAY_MS, "p1", Moved("west")),
]


@pytest.fixture
def index() -> LedgerIndex:
    return LedgerIndex.of_events(STORY, TOY)


def test_values_hold_from_their_event_until_the_next_one(index: LedgerIndex) -> None:
    def places(days: int) -> Mapping[str, Any]:
        return Gold(index, TOY).facts(START_MS + days * DAY_MS).values("location", "depot")

    assert places(-1) == {}
    assert places(0) == {"p0": "north", "p1": "north"}
    assert places(1) == {"p0": "east"}
    assert places(2) == {"p0": "east", "p1": "west"}


def test_values_stand_in_the_order_in_which_entities_first_got_one(index: LedgerIndex) -> None:
    facts = Gold(index, TOY).facts(START_MS + 9 * DAY_MS)
    assert list(facts.values("location", "depot")) == ["p0", "p1"]
    moved_first = [event(0, START_MS, "p1", Moved("lost")), event(1, START_MS, "p0", Moved("east"))]
    later = LedgerIndex.of_events([*moved_first, event(2, START_MS, "p1", Moved("west"))], TOY)
    assert list(Gold(later, TOY).facts(START_MS).values("location", "depot")) == ["p0", "p1"]


def test_views_of_one_cut_share_what_they_read(index: LedgerIndex) -> None:
    one, other = Gold(index, TOY).facts(START_MS + DAY_MS), Gold(index, TOY).facts(START_MS + DAY_MS + 5)
    assert one.values("weight", "weight") is other.values("weight", "weight")
    statement = "SELECT entity, seconds FROM {scans} WHERE at_ms > ?"
    assert one.query(statement, [0]) is other.query(statement, [0])
    assert one.query(statement, [0]) == []
    assert Gold(index, TOY).facts(START_MS + 2 * DAY_MS).query(statement, [0]) == [("p1", 40)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT scans.seconds FROM {scans} WHERE scans.seq = ?",
        "SELECT s.seconds FROM {scans} AS s JOIN {activity} a USING (seq) WHERE s.seq = ?",
        "WITH longest AS (SELECT max(seconds) AS seconds, max(seq) AS seq FROM {scans}) "
        "SELECT seconds FROM longest WHERE seq = ?",
    ],
)
def test_a_class_in_braces_reads_like_a_table(index: LedgerIndex, statement: str) -> None:
    assert Gold(index, TOY).facts(START_MS + 2 * DAY_MS).query(statement, [4]) == [(40,)]


def test_a_class_that_shares_rows_has_a_cut_of_its_own(index: LedgerIndex) -> None:
    at_ms, old = START_MS + 2 * DAY_MS, index.cut_at(START_MS + DAY_MS)
    gold = Gold(index, TOY)
    assert gold.gold("activity_of", {"parcel": "p1"}, at_ms, {"scans": old}) == 40
    assert gold.gold("activity_of", {"parcel": "p1"}, at_ms, {"activity": old}) == 0
    assert gold.gold("scans_recent", {"days": 3}, at_ms, {"activity": old}) == 1


def test_the_questions_own_time_stays_where_the_data_moves(index: LedgerIndex) -> None:
    gold, old = Gold(index, TOY), index.cut_at(START_MS + DAY_MS)
    # Three moves in all; the window begins after the second day's first instant for either cut.
    assert gold.gold("moves_window", {"days": 1}, START_MS + 2 * DAY_MS) == 1
    assert gold.gold("moves_window", {"days": 1}, START_MS + 2 * DAY_MS, {"moves": old}) == 0
    assert gold.at("moves_window", {"days": 1}, START_MS + DAY_MS) == 2


def test_a_measure_that_reads_what_it_does_not_declare_is_refused(index: LedgerIndex) -> None:
    def sly(facts: FactView, params: Mapping[str, Any], at_ms: int) -> int:
        return len(facts.values("weight", "weight"))

    class Sly(ToyDomain):
        measures: Mapping[str, Measure] = {"sly": Measure("sly", {}, "int", {"location": ("depot",)}, sly)}

    with pytest.raises(TerminalError, match=r"sly reads weight\.weight, which it does not declare"):
        Gold(index, Sly()).at("sly", {}, START_MS)


def test_unknown_names_list_the_known_ones(index: LedgerIndex) -> None:
    gold = Gold(index, TOY)
    with pytest.raises(NotFoundError, match="no measure 'weigth_of'; known: parcels_in_depot"):
        gold.at("weigth_of", {}, START_MS)
    with pytest.raises(NotFoundError, match="no class 'place'; known: registration, location"):
        gold.facts(START_MS).values("place", "depot")
    with pytest.raises(NotFoundError, match="location has no attribute 'city'; known: depot"):
        gold.facts(START_MS).values("location", "city")
    with pytest.raises(TerminalError, match="a measure's query fails"):
        gold.facts(START_MS).query("SELECT minutes FROM {scans}")
    with pytest.raises(TerminalError, match="location is a class of attributes"):
        gold.facts(START_MS).query("SELECT * FROM {location}")


def test_columns_keep_their_types() -> None:
    columns = (
        Column("at", "time"),
        Column("by", "text"),
        Column("n", "int"),
        Column("x", "float"),
        Column("ok", "bool"),
    )
    rows = [(from_millis(START_MS + 7), "é", 2**60 + 1, 0.1, True), (None, None, None, None, None)]

    class Timed(ToyDomain):
        classes = (EntityClass("checks", columns=columns),)

        def assertions(self, event: Event) -> Iterable[Assertion]:
            return [Assertion("checks", event.entity_id, "", rows[event.seq])]

    facts = Gold(LedgerIndex.of_events(STORY[:2], Timed()), Timed()).facts(START_MS)
    assert facts.query('SELECT "at", "by", n, x, ok FROM {checks} ORDER BY seq') == rows
    assert facts.query('SELECT seq FROM {checks} WHERE "at" = ?', [rows[0][0]]) == [(0,)]


def test_a_cut_beyond_the_end_is_the_end(index: LedgerIndex) -> None:
    gold = Gold(index, TOY)
    beyond = Cut({0: 400})
    assert gold.gold("weight_of", {"parcel": "p1"}, START_MS, {"weight": beyond}) == 3.5
    assert index.positions(beyond) == index.positions(index.end)


def test_an_empty_ledger_has_golds_of_nothing() -> None:
    gold = Gold(LedgerIndex.of_events([], TOY, 3), TOY)
    assert [gold.at(m, p, START_MS) for m, p in (("fullest_depot", {}), ("scans_recent", {"days": 7}))] == ["", 0]
    assert msgspec.json.encode(gold.index.cut_at(START_MS).positions) == b'{"0":-1,"1":-1,"2":-1}'
