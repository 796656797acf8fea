"""A run that was killed at any moment is gone on with to the same verdicts, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

WORLD = ("--set", "days=70", "--set", "consumption_per_day=40")
CELL = ("run", *WORLD, "--window", "28", "--refresh", "tiered", "--limit", "40", "--json")
MOMENTS = 30


class Home:
    """A home folder, and the command line on it in processes of their own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("CHURNBENCH_")}
        self.environment["CHURNBENCH_HOME"] = str(path)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "churnbench_cli", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=self.environment)

    def call(self, *arguments: str) -> str:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        return out

    def unfinished(self) -> list[str]:
        folders = self.path.glob("runs/*/manifest.json")
        return [m.parent.name for m in folders if not (m.parent / "summary.json").exists()]

    def verdicts(self, run_id: str) -> list[Any]:
        lines = (self.path / "runs" / run_id / "verdicts.jsonl").read_text().splitlines()
        last = {verdict["task_id"]: verdict for verdict in map(json.loads, lines)}
        return [_unlabelled(last[task_id]) for task_id in sorted(last)]

    def kill_postgres(self) -> None:
        with suppress(FileNotFoundError, ProcessLookupError, IndexError):
            os.kill(int((self.path / "postgres" / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)


def _unlabelled(value: Any) -> Any:
    """Cuts without their labels: a position read from a store has none."""
    if isinstance(value, dict):
        return {k: _unlabelled(v) for k, v in value.items() if k != "at"}
    return [_unlabelled(v) for v in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.call("world", "build", *WORLD)
    yield home
    home.call("stop")


@pytest.fixture(scope="module")
def unbroken(home: Home) -> tuple[list[Any], float]:
    """The verdicts of a run that nobody disturbed, and how long it took."""
    home.call(*CELL)  # builds the index
    begun = time.monotonic()
    run = json.loads(home.call(*CELL))
    return home.verdicts(run["run_id"]), time.monotonic() - begun


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_run_killed_at_any_moment_goes_on_to_the_same_verdicts(
    home: Home, unbroken: tuple[list[Any], float], moment: int
) -> None:
    """kill -9 of the program, of the embedded PostgreSQL under it, or of both; Ctrl-C and SIGTERM."""
    verdicts, seconds = unbroken
    draw = random.Random(moment)
    how = ("kill", "postgres", "both", "interrupt", "terminate", "kill")[moment % 6]
    process = home.start(*CELL)
    time.sleep(draw.uniform(0.25, 1.0) * seconds)
    if how in ("postgres", "both"):
        home.kill_postgres()
    if how != "postgres":
        number = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM}.get(how, signal.SIGKILL)
        process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert "Traceback" not in err
    left = home.unfinished()
    if process.returncode == 0:
        assert left == []
        run_id = json.loads(out)["run_id"]
    elif left:
        assert process.returncode in (-signal.SIGKILL, 1, 130, 143)
        if how not in ("kill", "both"):
            assert f"--resume {left[0]}" in err
        run_id = json.loads(home.call("run", "--resume", left[0], "--json"))["run_id"]
        assert run_id == left[0]
    else:
        return  # the run was not made yet: nothing is lost, and nothing is there to go on with
    assert home.verdicts(run_id) == verdicts
    if moment % 6 == 0:
        assert "none differs" in home.call("verify", run_id)


def test_afterwards_nothing_is_left_behind(home: Home, unbroken: tuple[list[Any], float]) -> None:
    home.call("runs", "gc")
    assert home.call("runs", "gc").strip() == "nothing to remove"
    assert list(home.path.rglob("*.partial")) == []


def test_three_runs_at_once_give_the_same_verdicts(home: Home, unbroken: tuple[list[Any], float]) -> None:
    processes = [home.start(*CELL) for _ in range(3)]
    done = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], done
    ids = [json.loads(out)["run_id"] for out, _ in done]
    assert len(set(ids)) == 3
    for run_id in ids:
        assert home.verdicts(run_id) == unbroken[0]


def test_three_processes_that_build_the_same_world_at_once_build_it_once(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    small = ("--set", "days=30", "--set", "consumption_per_day=50")
    processes = [home.start("world", "build", *small, "--json") for _ in range(3)]
    done = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], done
    assert len({out for out, _ in done}) == 1
    home.call("world", "verify", *small)
