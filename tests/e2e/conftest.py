"""One home for the whole session, with the reference world and the cells of the published study."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Churnbench = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home with a blank")


@pytest.fixture(scope="session")
def churnbench(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Churnbench]:
    """Runs the command line in a process of its own; `expect` is the exit code that it must end with."""
    folder = tmp_path_factory.mktemp("elsewhere")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CHURNBENCH_")}
    environment["CHURNBENCH_HOME"] = str(home)

    def call(*arguments: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "churnbench_cli", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=environment,
            timeout=600,
        )
        assert done.returncode == expect, done.stderr
        return done

    yield call
    call("stop")


@pytest.fixture(scope="session")
def cell(churnbench: Churnbench) -> Callable[..., dict[str, Any]]:
    """The JSON object of one run."""

    def run(*arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(churnbench("run", *arguments, "--json").stdout)
        return found

    return run


@pytest.fixture(scope="session")
def study(churnbench: Churnbench) -> dict[tuple[int, str], dict[str, Any]]:
    """(window, refresh) -> the JSON object of each cell of the study."""
    runs = json.loads(churnbench("run", "--json").stdout)["runs"]
    return {(run["window"], run["refresh"]): run for run in runs}
