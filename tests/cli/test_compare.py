"""`churnbench runs compare`, over run folders written by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from churnbench.records import RUN_TOPICS, Answer
from churnbench.runs import Manifest, RunFolder
from churnbench.worlds import WorldManifest, WorldSpec
from churnbench_cli import main
from churnbench_scorer import score
from tests.scorer.stories import Scene, T
from tests.scorer.study import ask
from tests.toy import REGISTRY, TOY

QUESTIONS = [ask(0, "parcels_in_depot", {"depot": "north"}), ask(1, "fullest_depot", {})]
Called = Callable[..., tuple[int, str, str]]


def write(home: Path, run_id: str, refresh: str, number: int, values: list[Any], **changes: Any) -> None:
    """The folder of a finished run that read the data of one day."""
    scene = Scene()
    answers = [
        Answer(q.task_id, T, T, str(value), value, "answered", [scene.read(q.measure, {"location": number})])
        for q, value in zip(QUESTIONS, values, strict=True)
    ]
    records: dict[str, Any] = {name: [] for name in RUN_TOPICS}
    verdicts = score(scene.index, TOY, REGISTRY, scene.ticks, QUESTIONS, answers)
    records.update(questions=QUESTIONS, answers=answers, verdicts=verdicts, clock=scene.ticks)
    spec = WorldSpec("toy", 1, "small", {}, changes.get("seed", 7))
    manifest = Manifest(
        run_id=run_id,
        created="2024-02-01T00:00:00+00:00",
        world=WorldManifest(spec, 11, str(changes.get("seed", 7)) * 64, 0, 1),
        config={"refresh": refresh, "reader": "scripted"},
        provenance={},
        tasks=changes.get("tasks", len(QUESTIONS)),
    )
    folder = RunFolder(home / "runs" / run_id)
    folder.write_manifest(manifest)
    for name, found in records.items():
        folder.write(f"{name}.jsonl", b"".join(msgspec.json.encode(record) + b"\n" for record in found))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHURNBENCH_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "20240201-000000-tiered-aa", "tiered", 4, [1, "east"])
    write(tmp_path, "20240201-000000-off-bb", "off", 2, [3, "north"])
    return tmp_path


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Called:
    """Exit code, standard output and standard error of a command."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["churnbench", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_it_tells_which_tasks_flipped_and_why(home: Path, called: Called) -> None:
    code, out, _ = called("runs", "compare", "tiered-aa", "off-bb")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "A 20240201-000000-tiered-aa" in lines
    assert "refresh tiered off" in lines
    assert "stale 0 2" in lines
    assert "accuracy 100.0% 0.0%" in lines
    assert "right in A alone 2, in B alone 0; McNemar's exact test p = 0.500" in lines
    assert "flipped because of location 2" in lines
    assert "2 of 2 tasks flipped" in lines
    assert "t0 right stale location 2024-01-05 2024-01-03" in lines
    assert max(map(len, out.splitlines())) <= 80


def test_json_holds_the_whole_comparison(home: Path, called: Called) -> None:
    code, out, _ = called("runs", "compare", "tiered-aa", str(home / "runs" / "20240201-000000-off-bb"), "--json")
    found = json.loads(out)
    assert code == 0
    assert [flip["task_id"] for flip in found["flips"]] == ["t0", "t1"]
    assert found["flips"][0]["b"]["as_of"] == {"location": "2024-01-03"}
    assert found["moves"] == {"correct": {"freshness_error": 2}}
    assert (found["only_a_right"], found["only_b_right"], found["p_value"]) == (2, 0, 0.5)


def test_a_run_against_itself_has_no_flips(home: Path, called: Called) -> None:
    code, out, _ = called("runs", "compare", "off-bb", "off-bb")
    assert (code, out.splitlines()[-1]) == (0, "no task flipped")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 8}, "are of different worlds"),
        ({"tasks": 3}, "has 2 of 3 questions"),
    ],
)
def test_runs_that_cannot_be_paired_are_refused_in_one_line(
    home: Path, called: Called, changes: dict[str, Any], said: str
) -> None:
    write(home, "20240202-000000-other-cc", "off", 2, [3, "north"], **changes)
    code, out, err = called("runs", "compare", "tiered-aa", "other-cc")
    assert (code, out) == (2, "")
    assert err.startswith("churnbench: ")
    assert said in err
    assert len(err.splitlines()) == 1


def test_an_unknown_run_is_named(home: Path, called: Called) -> None:
    code, _, err = called("runs", "compare", "tiered-aa", "nothing")
    assert code == 2
    assert "no run 'nothing'" in err
