"""A whole cell from the command line, with the world published and indexed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from benchmarks._measure import Result, best

__all__ = ["cell_results"]


def cell_results() -> list[Result]:
    """Seconds of the 28-day tiered cell, start of the program included."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "CHURNBENCH_HOME": home}

        def run(*arguments: str) -> str:
            command = [sys.executable, "-m", "churnbench_cli", *arguments]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
            return done.stdout

        run("world", "build", "--preset", "reference")
        run("run", "--window", "1", "--refresh", "off", "--limit", "1")
        cell = ("run", "--window", "28", "--refresh", "tiered", "--json")
        seconds, printed = best(lambda: run(*cell))
        parts = json.loads(printed)["seconds"]
        run("stop")
    note = ", ".join(f"{name} {value:.1f}" for name, value in parts.items() if value)
    return [Result("28-day tiered cell, world published", seconds, None, 10, note)]
