"""Runs what the pages show: console blocks in a shell, in a home of their own, one study for all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BEGINNING = "make run, its beginning"
ANSWERS = ROOT / "tests" / "data" / "published_d1.jsonl"


class Snippet(NamedTuple):
    """A command that a page shows, with the lines shown beneath it."""

    page: Path
    line: int
    command: str
    shown: list[str]


def snippets(page: Path) -> list[Snippet]:
    """The commands of a page's console blocks; the block after `<!-- output: run -->` is how `make run`'s begins."""
    found: list[Snippet] = []
    block = ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            block = "" if block else (line[3:].strip() or "plain")
        elif line.strip() == "<!-- output: run -->":
            found.append(Snippet(page, number, BEGINNING, []))
        elif block == "console" and line.startswith("$ "):
            found.append(Snippet(page, number, re.sub(r"\s{2,}#.*$", "", line[2:]), []))
        elif found and (block == "console" or (block == "plain" and found[-1].command == BEGINNING)):
            found[-1].shown.append(line)
    return found


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether `printed` is what is shown, where a line `...` stands for any lines and `...` in a line for anything."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(matches(shown[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    if not printed:
        return False
    pattern = ".*".join(map(re.escape, shown[0].rstrip().split("...")))
    return re.fullmatch(pattern, printed[0].rstrip()) is not None and matches(shown[1:], printed[1:])


class Shell:
    """A shell with the program on its path and a home."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home = home
        self.folder = folder
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("CHURNBENCH_")}
        self.environment |= {
            "CHURNBENCH_HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "80",
        }

    def __call__(self, command: str) -> str:
        """What `command` prints; it must end with 0."""
        done = subprocess.run(
            ["bash", "-c", f"set -eo pipefail; {command}"],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=self.environment,
            timeout=900,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def runs(self) -> list[str]:
        """The ids of the runs, the newest last."""
        return [run["run_id"] for run in json.loads(self("churnbench runs list --json"))]


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """One home for all pages."""
    made = Shell(tmp_path_factory.mktemp("home of the pages"), tmp_path_factory.mktemp("elsewhere"))
    yield made
    made("churnbench stop")


@pytest.fixture(scope="session")
def study(shell: Shell) -> str:
    """What `make run` prints."""
    # The recipe's last line; what it waits for makes the environment that the tests run in.
    return shell("churnbench run")
