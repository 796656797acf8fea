"""Two runs side by side, paired by task."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from churnbench.errors import IncompleteError, UsageError
from churnbench.records import Answer
from churnbench_scorer import Counts, RunRecords, compare_runs, mcnemar, score
from tests.scorer.stories import Scene, T
from tests.scorer.study import Study, ask
from tests.toy import REGISTRY, TOY

QUESTIONS = [
    ask(0, "parcels_in_depot", {"depot": "north"}),
    ask(1, "parcels_in_depot", {"depot": "south"}),
    ask(2, "fullest_depot", {}),
    ask(3, "moves_window", {"days": 7}),
]


def run(scene: Scene, run_id: str, number: int, values: Sequence[Any], **changes: Any) -> RunRecords:
    """A run whose data are all of one day."""
    answers = []
    for question, value in zip(QUESTIONS, values, strict=True):
        read = scene.read(question.measure, {"location": number, "registration": number})
        outcome: Any = "unanswered" if value is None else "transport_failure" if value == "down" else "answered"
        kept = value if outcome == "answered" else None
        answers.append(Answer(question.task_id, T, T, None, kept, outcome, [read] if outcome == "answered" else []))
    records = RunRecords(
        run_id=run_id,
        world="small-7-abcd",
        sha256="0" * 64,
        config={"refresh": "off", "registry": "paper"},
        questions=QUESTIONS,
        answers=answers,
        verdicts=score(scene.index, TOY, REGISTRY, scene.ticks, QUESTIONS, answers),
        ticks=scene.ticks,
    )
    return msgspec.structs.replace(records, **changes)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


@pytest.fixture(scope="module")
def fresh(scene: Scene) -> RunRecords:
    """Day 4: one parcel in the north, one in the south, most in the east."""
    return run(scene, "fresh", 4, [1, 1, "east", None], config={"refresh": "tiered", "registry": "paper"})


@pytest.fixture(scope="module")
def stale(scene: Scene) -> RunRecords:
    """Day 2: three in the north, one in the south."""
    return run(scene, "stale", 2, [3, 1, "north", None])


def test_tasks_that_flipped_are_told_with_the_classes_to_blame_and_the_times_of_their_data(
    fresh: RunRecords, stale: RunRecords
) -> None:
    found = compare_runs(fresh, stale)
    assert [flip.task_id for flip in found.flips] == ["t0", "t2"]
    flip = found.flips[0]
    assert (flip.measure, flip.question, flip.gold) == ("parcels_in_depot", QUESTIONS[0].text, 1)
    assert (flip.a.verdict, flip.a.detail, flip.a.value, flip.a.causes) == ("correct", "fresh", 1, {})
    assert (flip.b.verdict, flip.b.value, flip.b.gold_at_vector) == ("freshness_error", 3, 3)
    assert flip.b.causes == {"location": 1.0}
    assert flip.classes == ["location"]
    assert (flip.a.as_of["location"], flip.b.as_of["location"]) == ("2024-01-05", "2024-01-03")
    assert found.flip_causes == {"location": 2.0}


def test_verdicts_are_counted_in_both_and_moves_between_them(fresh: RunRecords, stale: RunRecords) -> None:
    found = compare_runs(fresh, stale)
    assert (found.tasks, found.paired) == (4, 4)
    assert found.counts[0] == Counts(correct=3, reasoning_error=1, unanswered=1)
    assert found.counts[1] == Counts(correct=1, freshness_error=2, reasoning_error=1, unanswered=1)
    assert found.accuracy == (0.75, 0.25)
    assert found.moves == {"correct": {"freshness_error": 2, "correct": 1}, "reasoning_error": {"reasoning_error": 1}}
    assert (found.only_a_right, found.only_b_right, found.p_value) == (2, 0, 0.5)
    assert found.settings == {"refresh": ("tiered", "off")}
    assert (found.world, found.t) == ("small-7-abcd", "2024-01-05")


def test_turned_round_a_comparison_is_its_mirror(fresh: RunRecords, stale: RunRecords) -> None:
    one, other = compare_runs(fresh, stale), compare_runs(stale, fresh)
    assert [(flip.a, flip.b) for flip in one.flips] == [(flip.b, flip.a) for flip in other.flips]
    assert (one.only_a_right, one.p_value) == (other.only_b_right, other.p_value)


def test_a_run_compared_with_itself_has_no_flips(stale: RunRecords) -> None:
    found = compare_runs(stale, stale)
    assert (found.flips, found.settings, found.p_value) == ([], {}, 1.0)


def test_a_failure_of_transport_flips_but_counts_for_neither_run(scene: Scene, fresh: RunRecords) -> None:
    found = compare_runs(fresh, run(scene, "cut off", 4, ["down", 1, "east", None]))
    assert [flip.b.verdict for flip in found.flips] == ["transport_failure"]
    assert (found.only_a_right, found.only_b_right) == (0, 0)
    assert found.accuracy == (0.75, 2 / 3)


def test_a_flip_that_no_class_is_to_blame_for_names_those_read_from_other_times(
    scene: Scene, fresh: RunRecords
) -> None:
    found = compare_runs(fresh, run(scene, "wrong", 3, [1, 7, "east", None]))
    (flip,) = found.flips
    assert (flip.b.verdict, flip.b.detail) == ("reasoning_error", "wrong")
    assert flip.classes == ["location", "registration"]


def test_what_was_read_live_is_dated_by_the_clock(scene: Scene, fresh: RunRecords, stale: RunRecords) -> None:
    verdicts = [
        msgspec.structs.replace(v, vector={c: msgspec.structs.replace(cut, at_ms=None) for c, cut in v.vector.items()})
        for v in stale.verdicts
    ]
    bare = msgspec.structs.replace(stale, verdicts=verdicts)
    assert compare_runs(fresh, bare).flips == compare_runs(fresh, stale).flips
    unknown = compare_runs(fresh, msgspec.structs.replace(bare, ticks=())).flips[0]
    assert unknown.b.as_of["location"] == f"after {scene.cut(2).events} records"


def test_only_tasks_judged_in_both_are_paired(fresh: RunRecords, stale: RunRecords) -> None:
    found = compare_runs(fresh, msgspec.structs.replace(stale, verdicts=stale.verdicts[1:]))
    assert (found.tasks, found.paired) == (4, 3)
    assert found.counts[0].answers == found.counts[1].answers == 3
    with pytest.raises(IncompleteError, match="no task has a verdict in both"):
        compare_runs(fresh, msgspec.structs.replace(stale, verdicts=[]))


def test_runs_of_different_worlds_are_refused(fresh: RunRecords, stale: RunRecords) -> None:
    other = msgspec.structs.replace(stale, world="small-8-ffff", sha256="1" * 64)
    with pytest.raises(UsageError, match="different worlds \\(small-7-abcd, small-8-ffff\\)"):
        compare_runs(fresh, other)


def test_runs_that_asked_different_tasks_are_refused(fresh: RunRecords, stale: RunRecords) -> None:
    fewer = msgspec.structs.replace(stale, questions=stale.questions[:3])
    with pytest.raises(UsageError, match="asked 4 tasks and stale 3, 3 of them the same"):
        compare_runs(fresh, fewer)
    moved = [msgspec.structs.replace(question, at_ms=T - 1) for question in stale.questions]
    with pytest.raises(UsageError, match="same tasks at the same time"):
        compare_runs(fresh, msgspec.structs.replace(stale, questions=moved))


def test_the_wording_of_a_question_may_differ(fresh: RunRecords, stale: RunRecords) -> None:
    worded = [msgspec.structs.replace(question, text="in other words") for question in stale.questions]
    assert len(compare_runs(fresh, msgspec.structs.replace(stale, questions=worded)).flips) == 2


def test_a_retried_answer_is_the_last_one() -> None:
    study = Study()
    records = RunRecords(
        run_id="r",
        world="w",
        sha256="0",
        config={},
        questions=study.questions,
        answers=study.answers,
        verdicts=study.verdicts,
    )
    lost = [msgspec.structs.replace(v, verdict="reasoning_error") for v in study.verdicts if v.task_id == "t3"]
    (flip,) = compare_runs(records, msgspec.structs.replace(records, verdicts=lost)).flips
    assert flip.a.value == 2.0


def test_mcnemar_of_no_difference_is_one() -> None:
    assert mcnemar(0, 0) == mcnemar(5, 5) == 1.0
    assert mcnemar(0, 5) == 0.0625


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_two_sided_binomial_test(only_a: int, only_b: int) -> None:
    n = only_a + only_b
    # At one half the distribution is symmetric: what is as uneven or more, on either side.
    exact = sum(Fraction(comb(n, k), 2**n) for k in range(n + 1) if abs(2 * k - n) >= abs(only_a - only_b))
    assert mcnemar(only_a, only_b) == pytest.approx(float(exact), rel=1e-12)
    assert mcnemar(only_a, only_b) == mcnemar(only_b, only_a)


def test_mcnemar_takes_many_flips() -> None:
    assert mcnemar(20_000, 20_000) == 1.0
    assert 0 <= mcnemar(9_000, 11_000) < 1e-40
