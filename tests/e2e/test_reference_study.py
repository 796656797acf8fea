"""The published study, end to end: figures that must come out, and laws that hold on the way."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from churnbench.clock import parse_time
from churnbench.events import Event
from tests.e2e.conftest import Churnbench
from tests.sam.brute import Brute, matches

DATA = Path(__file__).parents[1] / "data"
SHA256 = "4c49ac0318ef4739eeaaf1d01912c9fb9abfd1a9cdce311ba6d7c2027c6680e9"
Study = dict[tuple[int, str], dict[str, Any]]
Cell = Callable[..., dict[str, Any]]


def lines(home: Path, run_id: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home / "runs" / run_id / f"{topic}.jsonl").read_text().splitlines()]


def told(home: Path, run: dict[str, Any]) -> list[dict[str, Any]]:
    """A run's verdicts without the labels of cuts."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if k != "at"}
        return [plain(v) for v in value] if isinstance(value, list) else value

    return [plain(verdict) for verdict in lines(home, run["run_id"], "verdicts")]


@pytest.mark.parametrize(
    ("window", "refresh", "correct", "stale"),
    [(1, "tiered", 139, 8), (1, "off", 139, 8), (28, "tiered", 122, 25), (28, "off", 78, 69)],
)
def test_the_study_gives_the_published_finding(
    study: Study, window: int, refresh: str, correct: int, stale: int
) -> None:
    run = study[window, refresh]
    assert run["counts"] == {
        "correct": correct,
        "freshness_error": stale,
        "reasoning_error": 33,
        "parse_failure": 0,
        "transport_failure": 0,
        "unanswered": 33,
    }
    assert run["exposed"] == stale
    assert run["tasks"] == 180
    assert run["world"]["sha256"] == SHA256
    assert run["world"]["events"] == 56_370
    assert run["cost_usd"] == 0
    assert sum(run["by_cause"].values()) == pytest.approx(stale)
    assert {"world", "publish", "project", "walk", "ask", "score"} <= run["seconds"].keys()


@pytest.mark.parametrize("refresh", ["tiered", "off"])
def test_the_eight_stale_answers_of_one_day_are_of_the_measures_that_they_must_be(study: Study, refresh: str) -> None:
    by_measure = study[1, refresh]["by_measure"]
    assert {name: counts["freshness_error"] for name, counts in by_measure.items() if counts["freshness_error"]} == {
        "top_spending_cost_center": 5,
        "spend_by_cost_center": 1,
        "zero_usage_license_count": 1,
        "idle_license_count_cc": 1,
    }
    assert {name for name, counts in by_measure.items() if counts["unanswered"]} == {
        "idle_license_cost",
        "license_reclaim_count",
        "offboard_count_window",
        "reassignment_count",
    }


def test_the_ages_at_the_end_of_28_days_are_the_published_ones(study: Study) -> None:
    published = {"assignments": (1, 29), "user_status": (1, 29), "prices": (5, 29), "contract_terms": (29, 29)}
    for cls, (tiered, off) in published.items():
        assert study[28, "tiered"]["ages_days"][cls] == tiered
        assert study[28, "off"]["ages_days"][cls] == off


@pytest.mark.parametrize(("window", "stale"), [(1, 6), (28, 8)])
def test_refreshing_when_the_age_reaches_the_ttl_leaves_fewer_stale(cell: Cell, window: int, stale: int) -> None:
    run = cell("--window", str(window), "--refresh", "tiered", "--rule", "reaches")
    assert (run["counts"]["freshness_error"], run["counts"]["unanswered"]) == (stale, 33)


def test_extracting_gives_the_same_tables_and_verdicts_as_replaying(home: Path, study: Study, cell: Cell) -> None:
    replayed = study[28, "tiered"]
    extracted = cell("--window", "28", "--refresh", "tiered", "--refresh-by", "extract")
    assert told(home, extracted) == told(home, replayed)

    def tables(run: dict[str, Any]) -> list[tuple[Any, ...]]:
        refreshes = lines(home, run["run_id"], "refreshes")
        return [(r["tick"], r["table"], r["rows"], r["changed"], r["fingerprint"]) for r in refreshes]

    assert tables(extracted) == tables(replayed)
    assert extracted["config_hash"] != replayed["config_hash"]


def test_three_partitions_give_the_same_verdicts_as_one(home: Path, study: Study, cell: Cell) -> None:
    one, three = study[28, "tiered"], cell("--window", "28", "--refresh", "tiered", "--partitions", "3")
    assert three["world"]["sha256"] == SHA256

    def verdicts(run: dict[str, Any]) -> list[dict[str, Any]]:
        return [{k: v for k, v in verdict.items() if k != "vector"} for verdict in told(home, run)]

    assert verdicts(three) == verdicts(one)
    prints = [[r["fingerprint"] for r in lines(home, run["run_id"], "refreshes")] for run in (one, three)]
    assert prints[0] == prints[1]


def test_the_same_run_twice_has_the_same_hash_and_verdicts_under_another_id(
    home: Path, study: Study, cell: Cell
) -> None:
    first, again = study[1, "off"], cell("--window", "1", "--refresh", "off")
    assert again["config_hash"] == first["config_hash"]
    assert again["run_id"] != first["run_id"]
    assert told(home, again) == told(home, first)


@pytest.mark.parametrize(("window", "refresh"), [(1, "tiered"), (1, "off"), (28, "tiered"), (28, "off")])
def test_without_the_events_of_a_stale_answer_the_world_is_what_the_answer_saw(
    home: Path, study: Study, reference_events: list[Event], window: int, refresh: str
) -> None:
    """The law of causes: take the events away, and gold at T equals gold at the vector."""
    run = study[window, refresh]
    asked = {q["task_id"]: q for q in lines(home, run["run_id"], "questions")}
    stale = [v for v in lines(home, run["run_id"], "verdicts") if v["verdict"] == "freshness_error"]
    assert len(stale) == run["counts"]["freshness_error"]
    at_ms = parse_time(run["t"])
    known: dict[tuple[str, ...], Brute] = {}
    for verdict in stale:
        question = asked[verdict["task_id"]]
        gone = set(verdict["events"])
        assert gone
        assert set(verdict["marked"]) <= gone
        key = tuple(map(str, sorted(gone)))
        world = known.setdefault(key, Brute([e for e in reference_events if e.seq not in gone and e.at_ms <= at_ms]))
        gold = world.gold(question["measure"], question["params"], at_ms)
        assert matches(gold, verdict["gold_at_vector"], question["answer_type"])
        assert not matches(verdict["gold"], verdict["gold_at_vector"], question["answer_type"])
        assert sum(verdict["cause"]["shares"].values()) == pytest.approx(1)


def test_every_route_is_taken(home: Path, study: Study) -> None:
    answers = lines(home, study[28, "tiered"]["run_id"], "answers")
    routes = {retrieval["route"] for answer in answers for retrieval in answer["trace"]}
    assert routes == {"staged", "federated", "warehouse", "saas", "documents"}


def test_the_tasks_are_the_published_180(churnbench: Churnbench) -> None:
    generated = churnbench("tasks", "generate", "--preset", "reference").stdout.splitlines()
    published = (DATA / "reference_tasks_180.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in generated] == [json.loads(line) for line in published]


def test_the_exported_world_has_the_published_digest(churnbench: Churnbench) -> None:
    exported = churnbench("world", "export", "--preset", "reference").stdout
    assert hashlib.sha256(exported.encode()).hexdigest() == SHA256
    assert SHA256 in churnbench("world", "verify", "--preset", "reference").stdout


def test_published_answers_are_scored_as_published_by_the_published_method(churnbench: Churnbench) -> None:
    found = json.loads(
        churnbench(
            *("rescore", "--preset", "reference", "--t-prime", "2024-04-26", "--t", "2024-04-27"),
            *("--method", "paper", "--answers", str(DATA / "published_d1.jsonl"), "--json"),
        ).stdout
    )
    published = [json.loads(line) for line in (DATA / "published_d1.jsonl").read_text().splitlines()]
    counts = found["counts"]
    assert (counts["correct"], counts["freshness_error"], counts["reasoning_error"]) == (121, 7, 52)
    for mine, theirs in zip(found["verdicts"], published, strict=True):
        assert (mine["task_id"], mine["verdict"]) == (theirs["task_id"], theirs["verdict"])
        for gold, name in ((mine["gold"], "gold"), (mine["gold_at_t_eff"], "gold_at_t_eff")):
            assert gold == (theirs[name] if isinstance(gold, str) else pytest.approx(theirs[name], rel=1e-12))


def test_answering_zero_to_everything_is_right_on_3_of_180(churnbench: Churnbench, tmp_path: Path) -> None:
    tasks = [json.loads(line) for line in (DATA / "reference_tasks_180.jsonl").read_text().splitlines()]
    file = tmp_path / "zeros.jsonl"
    file.write_text(
        "".join(json.dumps({"task_id": t["task_id"], "answer_raw": "0", "t_eff": "2024-04-27"}) + "\n" for t in tasks)
    )
    found = json.loads(
        churnbench("rescore", "--t", "2024-04-27", "--method", "paper", "--answers", str(file), "--json").stdout
    )
    assert found["counts"]["correct"] == 3
    assert f"{3 / 180:.1%}" == "1.7%"


def test_verify_derives_every_verdict_anew_and_tells_a_changed_one(
    churnbench: Churnbench, home: Path, study: Study
) -> None:
    run_id = study[1, "tiered"]["run_id"]
    assert "180 verdicts derived anew, none differs" in churnbench("verify", run_id).stdout
    copy = home / "runs" / "changed"
    shutil.copytree(home / "runs" / run_id, copy)
    verdicts = lines(home, "changed", "verdicts")
    verdicts[3]["verdict"] = "correct" if verdicts[3]["verdict"] != "correct" else "reasoning_error"
    (copy / "verdicts.jsonl").write_text("".join(json.dumps(v) + "\n" for v in verdicts))
    assert verdicts[3]["task_id"] in churnbench("verify", str(copy), expect=1).stdout
    shutil.rmtree(copy)


def test_rescoring_writes_new_verdicts_beside_the_old(churnbench: Churnbench, home: Path, study: Study) -> None:
    run = study[28, "off"]
    before = (home / "runs" / run["run_id"] / "verdicts.jsonl").read_bytes()
    found = json.loads(churnbench("rescore", run["run_id"], "--json").stdout)
    assert found["counts"] == run["counts"]
    assert (home / "runs" / run["run_id"] / "verdicts.jsonl").read_bytes() == before
    assert (home / "runs" / run["run_id"] / "verdicts-1.jsonl").read_bytes() == before


def test_a_finished_run_leaves_no_database(churnbench: Churnbench, study: Study) -> None:
    assert churnbench("runs", "gc").stdout.strip() == "nothing to remove"


def test_replay_shows_the_sources_at_a_time(
    churnbench: Churnbench, study: Study, reference_events: list[Event]
) -> None:
    world = study[1, "off"]["world"]["name"]
    found = json.loads(churnbench("replay", world, "--at", "2024-03-10", "--json").stdout)
    until = [e for e in reference_events if e.at_ms <= parse_time("2024-03-10")]
    rows = found["sources"]["warehouse"]["rows"]
    assert rows["consumption"] == sum(e.kind == "consumption_logged" for e in until)
    assert found["sources"]["operations"]["rows"]["users"] == sum(e.kind == "user_hired" for e in until)
    assert found["sources"]["contracts"]["rows"]["documents"] == 25
    again = json.loads(churnbench("replay", world, "--at", "2024-03-10", "--json").stdout)
    assert again["sources"] == found["sources"]
    one = json.loads(churnbench("replay", world, "--at", "2024-03-10", "--source", "operations", "--json").stdout)
    assert one["sources"] == {"operations": found["sources"]["operations"]}
