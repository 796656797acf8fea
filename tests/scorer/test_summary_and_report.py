"""A run in figures, and the plain report."""

from __future__ import annotations

import msgspec
import pytest

from churnbench.records import Verdict
from churnbench_scorer import (
    Counts,
    Latency,
    accuracy,
    study_report,
    summarize,
    wanted_events,
)
from tests.scorer.stories import STORY, day
from tests.scorer.study import Study
from tests.toy import Moved, event


@pytest.fixture(scope="module")
def study() -> Study:
    return Study()


def test_counts_add_up_with_the_unanswered_among_the_reasoning_errors(study: Study) -> None:
    summary = study.summary
    # Two parcels stand in the east on day 4; for the data of day 2 there were none, so 2 was luck.
    assert summary.counts == Counts(
        correct=2, freshness_error=1, reasoning_error=1, parse_failure=0, transport_failure=1, unanswered=1
    )
    assert (summary.tasks, summary.answers, summary.counts.answers) == (5, 5, 5)
    assert summary.details == {"fresh": 1, "lucky": 1, "stale": 1, "unanswered": 1}
    assert (summary.exposed, summary.unattributed) == (2, 0)


def test_failures_of_transport_are_outside_accuracy(study: Study) -> None:
    assert accuracy(study.summary.counts) == 0.5
    assert accuracy(Counts(transport_failure=3)) is None


def test_groups_add_up_to_the_whole(study: Study) -> None:
    summary = study.summary
    assert summary.by_measure["parcels_in_depot"] == Counts(correct=1, freshness_error=1)
    assert summary.by_measure["moves_window"] == Counts(reasoning_error=1, unanswered=1)
    assert summary.by_tier["2"] == Counts(correct=2)
    assert summary.by_intent == {"tests": summary.counts}


def test_causes_stand_beside_the_classes_of_the_staged_tables(study: Study) -> None:
    assert study.summary.by_cause == {"location": 1.0}
    assert study.summary.by_staged == {"location": 1.0}


def test_ages_are_those_of_the_tables_that_a_class_owns(study: Study) -> None:
    # Registrations own two tables, of days 3 and 1: the older one counts. What is live has no age.
    assert study.summary.ages_days == {"location": 2.0, "registration": 3.0, "weight": 4.0}
    assert study.summary.refreshes == 5
    assert study.summary.ttl_lapses == 2


def test_every_attempt_costs_and_the_last_one_lasts(study: Study) -> None:
    assert study.summary.cost_usd == 0.75
    assert study.summary.latency == Latency(3.0, 60.0)
    unknown = msgspec.structs.replace(study.answers[0], cost_usd=None)
    assert summarize(study.questions, [unknown], [], []).cost_usd is None


def test_a_run_of_nothing_has_a_summary() -> None:
    summary = summarize([], [], [], [])
    assert (summary.counts, summary.latency, summary.ages_days) == (Counts(), Latency(None, None), {})
    assert msgspec.json.decode(msgspec.json.encode(summary), type=type(summary)) == summary


def test_the_report_shows_each_stale_answer_with_both_golds_and_the_events(study: Study) -> None:
    events = {e.seq: e for e in STORY}
    assert wanted_events(study.verdicts) == {6, 7, 9}
    report = study_report([study.result()], events)
    assert "**How many.** After 4 days: 1 of 5 (20.0 %) with refresh tiered." in report
    assert "**Why.** The stale answer (4 days, tiered) is due to changes of location (1)." in report
    assert "| 4 days | 50.0 % right, 1 stale |" in report
    assert "| registration | 3 |" in report
    assert "| location | 1 / 1 |" in report
    assert "| 1 | 33.3 % |" not in report
    assert "#### t0: parcels_in_depot {'depot': 'north'}?" in report
    assert "- answered: 3 (stale)" in report
    assert "- true on 2024-01-05: 1" in report
    assert "- true for the data read: 3" in report
    assert "- data read: location 2024-01-03, registration 2024-01-03" in report
    assert "- made wrong by: location" in report
    assert '| 9 | x | 2024-01-05 | parcel_moved | p2 | `{"seq": 9, "at": "2024-01-05"' in report
    assert report.count("####") == 1


def test_a_study_has_a_column_for_each_policy_and_a_row_for_each_window(study: Study) -> None:
    calm = summarize(study.questions[3:4], study.answers[3:5], [v for v in study.verdicts if v.task_id == "t3"], [])
    off = {"refresh": "off", "summary": calm, "verdicts": [], "run_id": "run-2"}
    report = study_report([study.result(window=28), study.result(window=28, **off), study.result(window=1, **off)], {})
    assert "| window | refresh tiered | refresh off |" in report
    assert "| 28 days | 50.0 % right, 1 stale | 100.0 % right, 0 stale |" in report
    assert "| 1 day |  | 100.0 % right, 0 stale |" in report
    assert "After 28 days: 1 of 5 (20.0 %) with refresh tiered and 0 of 1 (0.0 %) with refresh off." in report
    # Events that were not fetched appear by their seq.
    assert "| 9 | x |  |  |  |  |" in report


def test_many_events_are_counted_not_listed(study: Study) -> None:
    verdict = next(v for v in study.verdicts if v.verdict == "freshness_error")
    many = msgspec.structs.replace(verdict, events=list(range(50)), marked=[40, 41])
    report = study_report([study.result(verdicts=[many])], {})
    assert report.index("| 40 | x |") < report.index("| 41 | x |") < report.index("| 0 |  |")
    assert "| 17 |  |" in report
    assert "| 18 |  |" not in report
    assert "30 more; their seqs are in the run's verdicts." in report
    assert wanted_events([many], 3) == {0, 40, 41}


def test_text_from_the_world_cannot_break_the_tables(study: Study) -> None:
    sly = {9: event(9, day(4), "p2|`x`\n# head", Moved("south"))}
    report = study_report([study.result()], sly)
    row = next(line for line in report.splitlines() if line.startswith("| 9 |"))
    assert r"p2\|`x` # head" in row
    assert "\n# head" not in report


def test_a_report_of_no_runs_says_so() -> None:
    assert "There are no runs to report on." in study_report([], {})


def test_verdicts_survive_the_wire(study: Study) -> None:
    for verdict in study.verdicts:
        assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict
