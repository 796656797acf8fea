"""Each verdict and each detail, by a story that leads to it."""

from __future__ import annotations

from typing import Any

import pytest

from churnbench.errors import IncompleteError, NotFoundError
from churnbench.records import Answer, Question
from churnbench_scorer import score
from tests.scorer.stories import STORY, Scene, T, day
from tests.toy import REGISTRY, TOY, Moved, event

IN_NORTH = ("parcels_in_depot", {"depot": "north"})
IN_EAST = ("parcels_in_depot", {"depot": "east"})


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(partitions=request.param)


def both(scene: Scene, location: float, registration: float) -> Any:
    return scene.read("parcels_in_depot", {"location": location, "registration": registration})


def test_right_for_the_questions_time_is_correct(scene: Scene) -> None:
    verdict = scene.verdict(*IN_NORTH, 1, both(scene, 4, 4))
    assert (verdict.verdict, verdict.detail, verdict.exposed) == ("correct", "fresh", False)
    assert (verdict.gold, verdict.gold_at_vector, verdict.events, verdict.cause) == (1, 1, [], None)
    assert verdict.vector == {"location": scene.cut(4), "registration": scene.cut(4)}


def test_right_only_for_the_data_that_was_read_is_a_freshness_error(scene: Scene) -> None:
    verdict = scene.verdict(*IN_NORTH, 2, both(scene, 3, 3))
    assert (verdict.verdict, verdict.detail, verdict.exposed) == ("freshness_error", "stale", True)
    assert (verdict.gold, verdict.gold_at_vector) == (1, 2)
    assert verdict.cause is not None
    assert (verdict.cause.sets, verdict.cause.shares) == ([["location"]], {"location": 1.0})
    assert (verdict.events, verdict.marked) == ([9], [9])


def test_old_data_that_gives_the_right_answer_is_correct_and_not_exposed(scene: Scene) -> None:
    # Two parcels stand in the east since day 3.
    verdict = scene.verdict(*IN_EAST, 2, both(scene, 3, 3))
    assert (verdict.verdict, verdict.detail, verdict.exposed) == ("correct", "fresh", False)
    assert verdict.events == []


def test_right_although_the_data_says_otherwise_is_lucky(scene: Scene) -> None:
    verdict = scene.verdict(*IN_NORTH, 1, both(scene, 3, 3))
    assert (verdict.verdict, verdict.detail, verdict.exposed) == ("correct", "lucky", True)
    assert (verdict.cause, verdict.events, verdict.marked) == (None, [9], [])


def test_an_answer_from_two_times_that_one_tick_gives_too_is_stale(scene: Scene) -> None:
    # p3 was registered in the south on day 1; places of day 1 and registrations of day 3 say what day 1 says.
    verdict = scene.verdict("parcels_in_depot", {"depot": "south"}, 2, both(scene, 1, 3))
    assert (verdict.verdict, verdict.detail, verdict.gold) == ("freshness_error", "stale", 1)


def test_an_answer_from_two_times_that_no_tick_gives_is_torn() -> None:
    # Places of day 1 with scans of day 4: p0 was scanned on days 1 and 3; it left the north on day 2.
    story = [*STORY[:5], event(5, day(2), "p0", Moved("west")), event(6, day(3), "p1", STORY[8].payload)]
    scene = Scene(story)
    question = ("scanned_in_depot", {"depot": "north", "days": 3})
    verdict = scene.verdict(*question, 2, scene.read("scanned_in_depot", {"location": 1, "scans": 4}))
    assert (verdict.verdict, verdict.detail, verdict.gold_at_vector) == ("freshness_error", "torn", 2)
    alone = scene.verdict(*question, 0, scene.read("scanned_in_depot", {"location": 0, "scans": 0}))
    assert (alone.verdict, alone.detail) == ("freshness_error", "stale")


def test_wrong_for_any_data_is_a_reasoning_error(scene: Scene) -> None:
    verdict = scene.verdict(*IN_NORTH, 7, both(scene, 3, 3))
    assert (verdict.verdict, verdict.detail, verdict.exposed) == ("reasoning_error", "wrong", True)
    assert scene.verdict(*IN_NORTH, 7, both(scene, 4, 4)).exposed is False


def test_a_wrong_answer_without_any_retrieval_is_undated(scene: Scene) -> None:
    verdict = scene.verdict(*IN_NORTH, 2)
    assert (verdict.verdict, verdict.detail, verdict.exposed) == ("reasoning_error", "undated", False)
    assert scene.verdict(*IN_NORTH, 1).verdict == "correct"


@pytest.mark.parametrize("outcome", ["unanswered", "refusal", "tool_error", "step_limit"])
def test_no_answer_is_a_reasoning_error_named_by_its_outcome(scene: Scene, outcome: str) -> None:
    verdict = scene.verdict(*IN_NORTH, None, both(scene, 3, 3), outcome=outcome)
    assert (verdict.verdict, verdict.detail, verdict.exposed) == ("reasoning_error", outcome, True)


def test_a_failed_transport_and_an_answer_without_value_have_verdicts_of_their_own(scene: Scene) -> None:
    assert scene.verdict(*IN_NORTH, None, outcome="transport_failure").verdict == "transport_failure"
    assert scene.verdict(*IN_NORTH, None, outcome="parse_failure").verdict == "parse_failure"
    assert scene.verdict(*IN_NORTH, None).verdict == "parse_failure"


def test_old_gold_from_another_measures_data_is_coincidental(scene: Scene) -> None:
    other = scene.read("fullest_depot", {"location": 3, "registration": 3})
    verdict = scene.verdict(*IN_NORTH, 2, other)
    assert (verdict.verdict, verdict.detail) == ("reasoning_error", "coincidental")
    # The other measure need not read a class of this one.
    moves = scene.verdict("moves_window", {"days": 4}, 3, scene.read("weight_of", {"weight": 3}))
    assert (moves.gold, moves.verdict, moves.detail) == (4, "reasoning_error", "coincidental")
    assert scene.verdict(*IN_NORTH, 5, other).detail == "wrong"


def test_a_statement_of_no_measure_is_judged_by_its_tables_and_flagged(scene: Scene) -> None:
    verdict = scene.verdict(*IN_NORTH, 2, scene.read(None, {"location": 3, "registration": 3, "weight": 1}))
    assert (verdict.verdict, verdict.detail, verdict.unattributed) == ("freshness_error", "stale", True)
    assert set(verdict.vector) == {"location", "registration"}
    assert scene.verdict(*IN_NORTH, 2, both(scene, 3, 3)).unattributed is False


def test_a_class_read_at_two_cuts_counts_at_the_older_one(scene: Scene) -> None:
    verdict = scene.verdict(*IN_NORTH, 2, both(scene, 4, 4), both(scene, 3, 4))
    assert (verdict.verdict, verdict.reread) == ("freshness_error", ["location"])
    assert verdict.vector == {"location": scene.cut(3), "registration": scene.cut(4)}


def test_classes_that_the_answer_did_not_read_are_those_of_the_questions_time(scene: Scene) -> None:
    verdict = scene.verdict("scanned_in_depot", {"depot": "north", "days": 2}, 1, scene.read(None, {"location": 3}))
    assert (verdict.gold_at_vector, verdict.verdict) == (1, "correct")


# -- while the world goes on ----------------------------------------------------------------------------


def test_right_at_the_answers_time_alone_is_in_flight(scene: Scene) -> None:
    # On day 4.5 the last parcel leaves the north.
    live = scene.read("parcels_in_depot", {"location": 4.5, "registration": 4.5}, {})
    verdict = scene.verdict(*IN_NORTH, 0, live, answered_ms=day(5))
    assert (verdict.verdict, verdict.detail, verdict.gold) == ("correct", "in_flight", 1)
    early = scene.verdict(*IN_NORTH, 1, both(scene, 4, 4), answered_ms=day(5))
    assert (early.verdict, early.detail) == ("correct", "in_flight")
    unchanged = scene.verdict(*IN_EAST, 2, both(scene, 4, 4), answered_ms=day(5))
    assert unchanged.detail == "fresh"


def test_right_only_between_question_and_answer_is_in_flight_too() -> None:
    back = event(11, day(4.75), "p2", Moved("north"))
    scene = Scene([*STORY, back])
    live = scene.read("parcels_in_depot", {"location": 4.5, "registration": 4.5}, {})
    assert scene.verdict(*IN_NORTH, 0, live, answered_ms=day(5)).detail == "in_flight"
    assert scene.verdict(*IN_NORTH, 0, live, answered_ms=day(4.4)).verdict == "reasoning_error"


def test_stale_data_is_a_freshness_error_however_late_the_answer(scene: Scene) -> None:
    verdict = scene.verdict(*IN_NORTH, 3, both(scene, 2, 2), answered_ms=day(5))
    assert (verdict.verdict, verdict.detail) == ("freshness_error", "stale")
    assert verdict.events == [6, 7, 9]


def test_only_data_later_than_the_question_is_no_freshness_error(scene: Scene) -> None:
    live = scene.read("parcels_in_depot", {"location": 4.5, "registration": 4.5}, {})
    verdict = scene.verdict(*IN_NORTH, 0, live)
    assert (verdict.verdict, verdict.detail, verdict.exposed) == ("reasoning_error", "wrong", True)


# -- ages -----------------------------------------------------------------------------------------------


def test_reading_a_class_older_than_its_time_to_live_is_a_lapse(scene: Scene) -> None:
    # A place may be one day old, a registration three.
    on_time = scene.verdict(
        *IN_NORTH, 1, scene.read("parcels_in_depot", {"location": 4}, {"location": 3, "registration": 1})
    )
    assert on_time.ttl_lapse is False
    assert on_time.ages_ms == {"location": day(1) - day(0), "registration": day(3) - day(0)}
    late = scene.verdict(*IN_NORTH, 1, scene.read("parcels_in_depot", {"location": 4}, {"location": 2.5}))
    assert late.ttl_lapse is True
    live = scene.verdict(*IN_NORTH, 1, scene.read("parcels_in_depot", {"location": 0}, {}))
    assert (live.ttl_lapse, live.ages_ms) == (False, {})


# -- runs -----------------------------------------------------------------------------------------------


def ask(task: str) -> Question:
    return Question(task, *IN_NORTH, "int", 1, "tests", "T0", "?", T)


def test_the_last_attempt_counts_and_questions_without_answers_have_no_verdict(scene: Scene) -> None:
    first = Answer("a", T, T, None, None, "transport_failure", [], attempt=1)
    second = Answer("a", T, T, "1", 1, "answered", [], attempt=2)
    verdicts = score(scene.index, TOY, REGISTRY, scene.ticks, [ask("a"), ask("b")], [second, first])
    assert [(verdict.task_id, verdict.verdict) for verdict in verdicts] == [("a", "correct")]


def test_answers_and_questions_of_different_runs_are_refused(scene: Scene) -> None:
    with pytest.raises(IncompleteError, match="the answer to 'x' has no question"):
        score(scene.index, TOY, REGISTRY, scene.ticks, [ask("a")], [Answer("x", T, T, "1", 1, "answered", [])])
    unknown = Question("a", "parcels", {}, "int", 1, "tests", "T0", "?", T)
    with pytest.raises(NotFoundError, match="no measure 'parcels'"):
        score(scene.index, TOY, REGISTRY, [], [unknown], [Answer("a", T, T, "1", 1, "answered", [])])
