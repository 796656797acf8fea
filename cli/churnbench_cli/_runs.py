"""`churnbench runs`: list, show, export, remove and clean up."""

from __future__ import annotations

import shutil
from typing import Annotated, Any

import typer

from churnbench.runs import Run
from churnbench.stores.postgres import RunDatabase, embedded_server
from churnbench_cli._garbage import collect_garbage
from churnbench_cli._home import Home, opened_home, run_lock
from churnbench_cli._known import find_run, known_runs, run_state
from churnbench_cli._options import Json
from churnbench_cli._outcome import REPORT
from churnbench_cli._output import print_json, print_table, say

__all__ = ["RunName", "collect", "export", "list_", "remove", "show"]

RunName = Annotated[str, typer.Argument(help="A run's id, its beginning or its end, or the path of its folder.")]


async def list_(json: Json = False) -> int:
    """List the runs, oldest first."""
    async with opened_home() as home:
        rows: list[dict[str, Any]] = []
        for run_id, manifest in (await known_runs(home)).items():
            state = run_state(home, run_id, manifest)
            if manifest is None:
                rows.append({"run_id": run_id, "state": state})
                continue
            config = manifest.config
            rows.append(
                {
                    "run_id": run_id,
                    "state": state,
                    "preset": manifest.world.spec.preset,
                    "seed": manifest.world.spec.seed,
                    "refresh": config["refresh"],
                    "t_prime": config["t_prime"],
                    "t": config["t"],
                    "config_hash": manifest.config_hash,
                }
            )
    if json:
        print_json(rows)
    elif not rows:
        say("no runs yet; `churnbench run` makes some")
    else:
        print_table(
            "",
            ["run", "state", "world", "T'", "T", "refresh"],
            [
                (r["run_id"], r["state"], f"{r['preset']}/{r['seed']}", r["t_prime"], r["t"], r["refresh"])
                if "preset" in r
                else (r["run_id"], r["state"], "", "", "", "")
                for r in rows
            ],
        )
    return 0


async def show(run: RunName, json: Json = False) -> int:
    """Show a run's manifest and its result."""
    async with opened_home() as home:
        folder = home.run_folder(run)
        manifest = folder.manifest()
        report, state = folder.path / REPORT, run_state(home, manifest.run_id, manifest)
        if json:
            print_json(
                {
                    "manifest": manifest,
                    "config_hash": manifest.config_hash,
                    "state": run_state(home, manifest.run_id, manifest),
                }
            )
            return 0
        rows = [
            ("run", manifest.run_id),
            ("made", manifest.created),
            ("state", state),
        ]
        rows += [("config hash", manifest.config_hash), ("tasks", str(manifest.tasks))]
        rows += [(name, str(value)) for name, value in manifest.config.items() if not isinstance(value, dict)]
        print_table("", ["", ""], rows)
        if report.exists():
            say(f"report  {report}")
    return 0


async def export(run: Annotated[str, typer.Argument(help="A run's id.")]) -> int:
    """Write a run's folder anew from its topics."""
    async with opened_home() as home:
        run_id = await find_run(home, run)
        source, folder = Run(home.log, run_id), home.folder(run_id)
        await folder.export(source, await source.manifest())
        say(f"wrote {folder.path}")
    return 0


async def _remove(home: Home, run_id: str) -> None:
    if (home.path / "postgres").exists():
        await RunDatabase.drop(await embedded_server(home.path), run_id)
    await Run(home.log, run_id).delete()
    shutil.rmtree(home.runs / run_id, ignore_errors=True)


async def remove(runs: Annotated[list[str], typer.Argument(help="Ids of runs.")]) -> int:
    """Remove runs: their folders, topics and databases."""
    async with opened_home() as home:
        chosen = [await find_run(home, wanted) for wanted in runs]
        for run_id in dict.fromkeys(chosen):
            async with home.locks.at_once(run_lock(run_id), f"the run {run_id}"):
                await _remove(home, run_id)
            say(f"removed {run_id}")
    return 0


async def collect() -> int:
    """Remove what no run needs: databases of finished or vanished runs, half-made topics, locks, partial files."""
    async with opened_home() as home:
        removed = await collect_garbage(home)
        for line in removed:
            say(f"removed {line}")
        if not removed:
            say("nothing to remove")
    return 0
