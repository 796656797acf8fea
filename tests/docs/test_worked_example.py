"""The numbers of docs/concepts.md, against runs of the study and an independent reading of the ledger."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec
import pytest

from churnbench.cuts import Cut
from churnbench.events import Event, time_text
from churnbench.records import Answer, Question, Verdict
from churnbench.runs import RunFolder
from churnbench_scorer import differ
from tests.docs.conftest import ROOT, Shell
from tests.sam.brute import Brute, Facts

PAGE = (ROOT / "docs" / "concepts.md").read_text()
MOVABLE = ("assignments", "cost_center_membership", "user_status")


def table(name: str) -> list[list[str]]:
    """The rows of the worked table `name`, without its head."""
    lines = PAGE.partition(f"<!-- worked: {name} -->\n")[2].partition("\n\n")[0].splitlines()
    return [[cell.strip().strip("*`") for cell in line.strip().strip("|").split("|")] for line in lines[2:]]


class Asked(NamedTuple):
    question: Question
    answer: Answer
    verdict: Verdict


@pytest.fixture(scope="module")
def cells(shell: Shell, study: str) -> dict[str, dict[str, Asked]]:
    """Policy -> task -> what the 28-day run of the study did with it."""
    found = {}
    for run in json.loads(shell("churnbench runs list --json")):
        folder = RunFolder(shell.home / "runs" / run["run_id"])
        manifest = folder.manifest()
        config = manifest.config
        if (config["window"], config["rule"], config["registry"], manifest.tasks) != (28, "exceeds", "paper", 180):
            continue
        answers = {answer.task_id: answer for answer in folder.records("answers")}
        verdicts = {verdict.task_id: verdict for verdict in folder.records("verdicts")}
        found[config["refresh"]] = {
            question.task_id: Asked(question, answers[question.task_id], verdicts[question.task_id])
            for question in folder.records("questions")
        }
    return found


def days_of(cut: Cut, events: list[Event]) -> str:
    """The date of a cut of the one partition, whose sequence is the event's seq."""
    return time_text(events[cut.positions[0]].at_ms)


def test_the_vectors(cells: dict[str, dict[str, Asked]], reference_events: list[Event]) -> None:
    shown = {row[0]: row[2:] for row in table("vectors")}
    for place, policy in enumerate(("tiered", "off")):
        asked = cells[policy]["task_0172"]
        assert {cls: row[place] for cls, row in shown.items()} == {
            cls: days_of(cut, reference_events) for cls, cut in asked.verdict.vector.items()
        }
        read = {cls: r for r in asked.answer.trace for cls in r.classes}
        for cls, where, *_ in table("vectors"):
            kind, relation = where.replace("`", "").split()
            assert kind == ("staged" if cls in read[cls].refreshed else "live")
            assert relation in read[cls].tables


def test_the_golds_and_verdicts(cells: dict[str, dict[str, Asked]]) -> None:
    for place, policy in enumerate(("tiered", "off"), 1):
        _, answer, verdict = cells[policy]["task_0172"]
        assert [row[place].replace("`", "") for row in table("golds")] == [
            str(answer.value),
            str(verdict.gold_at_vector),
            str(verdict.gold),
            f"{verdict.verdict}, {verdict.detail}",
            "yes" if verdict.ttl_lapse else "no",
            str(len(verdict.events)),
            str(len(verdict.marked)),
        ]


def test_the_golds_with_classes_moved_and_the_causes(cells: dict[str, dict[str, Asked]], brute: Brute) -> None:
    rows = table("moved")
    assert len(rows) == 2 ** len(MOVABLE)
    for place, policy in enumerate(("tiered", "off"), 1):
        question, _, verdict = cells[policy]["task_0172"]
        mending = []
        for row in rows:
            moved = set(MOVABLE) if row[0].startswith("all") else {cls for cls in MOVABLE if cls in row[0]}
            vector = {cls: cut.positions[0] for cls, cut in verdict.vector.items() if cls not in moved}
            value = brute.gold(question.measure, question.params, question.at_ms, vector)
            assert row[place] == str(value), row
            # Moving prices too changes nothing.
            vector.pop("prices")
            assert brute.gold(question.measure, question.params, question.at_ms, vector) == value
            if not differ(question.answer_type, value, verdict.gold):
                mending.append(moved)
        fewest = min(map(len, mending))
        assert verdict.cause is not None
        assert verdict.cause.sets == [sorted(chosen) for chosen in mending if len(chosen) == fewest]


def test_the_events_behind_it(cells: dict[str, dict[str, Asked]], reference_events: list[Event]) -> None:
    verdict = cells["tiered"]["task_0172"].verdict
    expected = []
    for seq in verdict.events:
        event = reference_events[seq]
        payload: dict[str, Any] = msgspec.to_builtins(event.payload)
        said = ", ".join(f"{name}: {value}" for name, value in payload.items())
        marked = "x" if seq in verdict.marked else ""
        expected.append([str(seq), marked, time_text(event.at_ms), event.kind, event.entity_id, said])
    assert table("events") == expected


def test_the_two_more(cells: dict[str, dict[str, Asked]]) -> None:
    for task, measure, answered, true, detail, sets in table("more"):
        question, answer, verdict = cells["off"][task]
        assert question.measure == measure
        assert float(answered) == answer.value
        assert float(true) == verdict.gold
        assert detail == verdict.detail
        assert verdict.cause is not None
        assert sets.replace("`", "") == " or ".join(f"{{{', '.join(chosen)}}}" for chosen in verdict.cause.sets)


def test_the_leaver_of_the_first(cells: dict[str, dict[str, Asked]], brute: Brute) -> None:
    question, answer, verdict = cells["off"]["task_0020"]
    cut, truth = verdict.vector["assignments"].positions[0], question.at_ms
    before = Facts(brute.events, truth, dict.fromkeys(MOVABLE, cut))
    now = Facts(brute.events, truth, {})
    used = {(e.entity_id, e.payload.product_id) for e in now.recent(question.params["idle_days"])}
    counted = [
        number
        for number, user in before.held().items()
        if before.active_cost_center().get(user) == question.params["cc"]
        and (user, before.licenses[number][0]) not in used
    ]
    held = [number for number in counted if before.held()[number] == "usr_000123"]
    assert (len(counted), len(held)) == (answer.value, 3)
    assert "usr_000123" in before.active() - now.active()
    assert "usr_000123" not in now.held().values()


def test_the_figures_of_the_comparison(cells: dict[str, dict[str, Asked]]) -> None:
    stale = {p: sum(a.verdict.verdict == "freshness_error" for a in found.values()) for p, found in cells.items()}
    assert f"{stale['tiered']} (tiered) and {stale['off']} (off) stale" in PAGE.replace("\n", " ")
    shares = [asked.verdict.cause.shares for asked in cells["off"].values() if asked.verdict.cause is not None]
    assert sum(sum(share.values()) for share in shares) == pytest.approx(stale["off"])
