"""Bad input: one clear line that says what to do, exit 2, no traceback, and nothing lost."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Churnbench

TASK = {
    "task_id": "t1",
    "template_id": "SV1",
    "tier": 1,
    "measure": "spend_by_cost_center",
    "params": {"cc": "cc_001"},
    "answer_type": "float",
    "intent": "spend_visibility",
}


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line on standard error."""
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "--t-prime", "2024-05-01", "--t", "2024-04-27"), "2024-05-01 is after T 2024-04-27"),
        (("run", "--t-prime", "2023-12-01", "--t", "2024-04-27"), "2023-12-01 is outside the world"),
        (("run", "--window", "1", "--t", "2025-01-01"), "is outside the world"),
        (("run", "--t", "yesterday"), "'yesterday' is no time; write 2024-04-27"),
        (("run", "--window", "7"), "--window 7 is none of 1, 14, 28; give --t-prime"),
        (("run", "--window", "1", "--t-prime", "2024-04-26"), "give one of them"),
        (("run", "--preset", "nope"), "'nope'.*reference"),
        (("run", "--window", "1", "--registry", "nope"), "no registry 'nope'; known: paper, normalized"),
        (("run", "--window", "1", "--refresh", "nope"), "no refresh policy 'nope'; known: off, tiered"),
        (("run", "--window", "1", "--rule", "nope"), "no rule 'nope'; known: exceeds, reaches"),
        (("run", "--window", "1", "--reader", "nope"), "no reader 'nope'; known: scripted"),
        (("run", "--window", "1", "--arm", "nope"), "no arm 'nope'; known: grounding"),
        (("run", "--window", "1", "--refresh-by", "nope"), "'nope'; known: replay, extract"),
        (("run", "--set", "hirez_per_day=1"), "hirez_per_day.*hires_per_day"),
        (("run", "--set", "hires_per_day=many"), "hires_per_day.*many"),
        (("run", "--set", "hires_per_day"), "'hires_per_day' is not NAME=VALUE"),
        (("run", "--tasks", "task_9999", "--window", "1"), "task_9999.*neither a file nor ids"),
        (("run", "--tasks", "missing/tasks.jsonl"), "no task file"),
        (("run", "--resume", "nope"), "no run 'nope'"),
        (("verify", "nope"), "no run 'nope'.*runs list"),
        (("runs", "show", "nope"), "no run 'nope'.*runs list"),
        (("rescore",), "name a run, or give --answers"),
        (("rescore", "--t", "2024-04-27", "--method", "mine", "--answers", "x"), "no method 'mine'; known: paper"),
        (("rescore", "--t", "2024-04-27", "--method", "paper", "--answers", "nope"), "no answers file nope"),
        (("replay", "nope", "--at", "2024-03-01"), "no world 'nope'"),
        (("replay", "reference", "--at", "2030-01-01"), "is outside the world"),
        (("replay", "reference", "--at", "2024-03-01", "--source", "nope"), "no source 'nope'; known: warehouse"),
        (("log", "show", "nope"), "no topic 'nope'.*log topics"),
        (("world", "rm", "nope"), "no world 'nope'"),
    ],
)
def test_it_says_what_is_wrong_in_one_line(
    churnbench: Churnbench, study: dict[Any, Any], arguments: tuple[str, ...], says: str
) -> None:
    line = complaint(churnbench(*arguments, expect=2))
    assert line.startswith("churnbench: ")
    assert re.search(says, line), line


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (json.dumps({**TASK, "measure": "spend_by_moon"}).encode(), "line 1: no measure 'spend_by_moon'; known:"),
        (json.dumps({**TASK, "params": {"moon": "x"}}).encode(), "takes the parameters cc, not moon"),
        (json.dumps({**TASK, "params": {"cc": 7}}).encode(), "the parameter cc of spend_by_cost_center is str, not 7"),
        (json.dumps({**TASK, "answer_type": "int"}).encode(), "is answered with float, not 'int'"),
        (json.dumps(TASK).encode() + b"\n" + json.dumps(TASK).encode(), "line 2 repeats the task id 't1'"),
        (b'{"task_id": "\xff"}', "line 1 is not UTF-8; save the file as UTF-8"),
        (b"task one", "line 1 is no task"),
        (b"\n\n", "holds no task"),
    ],
)
def test_a_wrong_task_file_is_refused_with_its_line(
    churnbench: Churnbench, tmp_path: Path, content: bytes, says: str
) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(content)
    line = complaint(churnbench("run", "--window", "1", "--tasks", str(file), expect=2))
    assert says in line
    assert str(file) in line


def test_a_million_tasks_are_refused_without_reading_them_all(churnbench: Churnbench, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    with file.open("w") as out:
        for number in range(100_002):
            out.write(json.dumps({**TASK, "task_id": f"t{number}"}) + "\n")
        out.write("not a task\n" * 900_000)
    assert "more than 100,000 tasks; split it" in complaint(churnbench("run", "--tasks", str(file), expect=2))


@pytest.fixture
def copied(study: dict[Any, Any], home: Path, tmp_path: Path) -> Path:
    """A copy of a run's folder, to be damaged."""
    return Path(shutil.copytree(home / "runs" / study[1, "tiered"]["run_id"], tmp_path / "a run"))


@pytest.mark.parametrize("file", ["manifest.json", "questions.jsonl", "answers.jsonl", "verdicts.jsonl", "clock.jsonl"])
def test_a_run_folder_with_a_missing_file_is_refused_with_the_way_out(
    churnbench: Churnbench, copied: Path, file: str
) -> None:
    (copied / file).unlink()
    line = complaint(churnbench("verify", str(copied), expect=2))
    assert file in line
    assert "runs export" in line


def test_a_run_folder_with_a_damaged_line_is_refused_with_its_place(churnbench: Churnbench, copied: Path) -> None:
    lines = (copied / "answers.jsonl").read_bytes().splitlines(keepends=True)
    (copied / "answers.jsonl").write_bytes(b"".join(lines[:6]) + lines[6][:40] + b"\n" + b"".join(lines[7:]))
    assert "answers.jsonl line 7 is damaged" in complaint(churnbench("verify", str(copied), expect=2))


def _alone(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CHURNBENCH_")}
    return subprocess.run(
        [sys.executable, "-m", "churnbench_cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=environment.pop("cwd", None),
        env={**kept, "CHURNBENCH_HOME": str(home), **environment},
        timeout=300,
    )


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_log_is_refused_and_left_as_it_is(tmp_path: Path, damage: str) -> None:
    home = tmp_path / "home"
    days = ("--set", "days=20", "--set", "consumption_per_day=30")
    assert _alone(home, "world", "build", *days).returncode == 0
    log = home / "log.db"
    content = log.read_bytes()
    if damage == "truncated":
        broken = content[: len(content) * 2 // 3]
    else:
        at = content.index(b"consumption_logged", len(content) // 2)
        broken = content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]
    log.write_bytes(broken)
    done = _alone(home, "world", "export", *days)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "log.db is damaged" in done.stderr.strip().splitlines()[-1]
    assert "move it away or restore it" in done.stderr
    assert log.read_bytes() == broken


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"CHURNBENCH_LGO": "x"}, "CHURNBENCH_LGO, which is no setting; known: CHURNBENCH_"),
        ({"CHURNBENCH_PROFILE": "cloud"}, "'profile' is wrong"),
        ({"CHURNBENCH_DOMAIN": "moon"}, "no domain 'moon'; installed: sam"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, environment: dict[str, str], says: str) -> None:
    done = _alone(tmp_path / "home", "world", "list", **environment)
    assert done.returncode == 2
    assert says in complaint(done)


def test_a_malformed_settings_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "churnbench.toml").write_text("home = \n")
    done = _alone(tmp_path / "home", "world", "list", cwd=str(tmp_path))
    assert done.returncode == 2
    assert "churnbench.toml is not valid TOML" in complaint(done)


def test_a_home_that_cannot_be_written_or_is_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    done = _alone(tmp_path / "file" / "home", "world", "list")
    assert done.returncode == 2
    assert "set CHURNBENCH_HOME" in complaint(done)
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / "format").write_text("99")
    done = _alone(newer, "world", "list")
    assert done.returncode == 2
    assert "layout '99'" in complaint(done)
    assert "upgrade churnbench" in done.stderr
