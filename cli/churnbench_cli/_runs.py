"""`churnbench runs`: list, show, export, remove and clean up."""

from __future__ import annotations

import shutil
from typing import Annotated, Any

import typer

from churnbench.errors import ChurnBenchError, NotFoundError
from churnbench.log import Log
from churnbench.runs import MANIFEST, Manifest, Run, RunFolder
from churnbench.stores.postgres import RunDatabase, embedded_running, embedded_server
from churnbench_cli._home import Home, opened_home
from churnbench_cli._options import Json
from churnbench_cli._outcome import REPORT
from churnbench_cli._output import print_json, print_table, say

__all__ = ["collect", "export", "list_", "remove", "run_ids", "show"]

RunName = Annotated[str, typer.Argument(help="A run's id, its beginning or its end, or the path of its folder.")]


async def run_ids(log: Log) -> list[str]:
    """The ids of the runs on the log, oldest first."""
    suffix = f".{MANIFEST}"
    return sorted(topic.removesuffix(suffix) for topic in await log.topics() if topic.endswith(suffix))


def _state(folder: RunFolder) -> str:
    return "finished" if (folder.path / "summary.json").exists() else "unfinished"


async def _manifests(home: Home) -> dict[str, Manifest]:
    found: dict[str, Manifest] = {}
    for run_id in await run_ids(home.log):
        manifest = await Run(home.log, run_id).manifest_or_none()
        if manifest is not None:
            found[run_id] = manifest
    for path in sorted(home.runs.iterdir()) if home.runs.is_dir() else []:
        if path.name not in found and (path / "manifest.json").exists():
            found[path.name] = RunFolder(path).manifest()
    return dict(sorted(found.items()))


async def list_(json: Json = False) -> int:
    """List the runs, oldest first."""
    async with opened_home() as home:
        rows: list[dict[str, Any]] = []
        for run_id, manifest in (await _manifests(home)).items():
            config = manifest.config
            rows.append(
                {
                    "run_id": run_id,
                    "state": _state(RunFolder(home.runs / run_id)),
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
            [(r["run_id"], r["state"], f"{r['preset']}/{r['seed']}", r["t_prime"], r["t"], r["refresh"]) for r in rows],
        )
    return 0


async def show(run: RunName, json: Json = False) -> int:
    """Show a run's manifest and its result."""
    async with opened_home() as home:
        folder = home.run_folder(run)
        manifest = folder.manifest()
        report = folder.path / REPORT
        if json:
            print_json({"manifest": manifest, "config_hash": manifest.config_hash, "state": _state(folder)})
            return 0
        rows = [("run", manifest.run_id), ("made", manifest.created), ("state", _state(folder))]
        rows += [("config hash", manifest.config_hash), ("tasks", str(manifest.tasks))]
        rows += [(name, str(value)) for name, value in manifest.config.items() if not isinstance(value, dict)]
        print_table("", ["", ""], rows)
        if report.exists():
            say(f"report  {report}")
    return 0


async def export(run: Annotated[str, typer.Argument(help="A run's id.")]) -> int:
    """Write a run's folder anew from its topics."""
    async with opened_home() as home:
        known = [name for name in await run_ids(home.log) if name.startswith(run) or name.endswith(run)]
        if len(known) != 1:
            raise NotFoundError(f"{run!r} fits {len(known)} runs on the log; `churnbench runs list` shows them")
        source = Run(home.log, known[0])
        folder = RunFolder(home.runs / known[0])
        await folder.export(source, await source.manifest())
        say(f"wrote {folder.path}")
    return 0


async def _remove(home: Home, run_id: str) -> None:
    if embedded_running(home.path):
        await RunDatabase.drop(await embedded_server(home.path), run_id)
    await Run(home.log, run_id).delete()
    shutil.rmtree(home.runs / run_id, ignore_errors=True)


async def remove(runs: Annotated[list[str], typer.Argument(help="Ids of runs.")]) -> int:
    """Remove runs: their folders, topics and databases."""
    async with opened_home() as home:
        known = list(await _manifests(home))
        chosen = []
        for wanted in runs:
            matches = [name for name in known if name == wanted or name.startswith(wanted) or name.endswith(wanted)]
            if len(matches) != 1:
                raise NotFoundError(f"{wanted!r} fits {len(matches)} runs; `churnbench runs list` shows them")
            chosen.append(matches[0])
        for run_id in chosen:
            with home.lock(f"run-{run_id}"):
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


async def collect_garbage(home: Home) -> list[str]:
    """Removes leftovers; a line for each. What a live process holds is left alone."""
    removed: list[str] = []
    for run_id in {topic.rsplit(".", 1)[0] for topic in await home.log.topics() if not topic.endswith(".ledger")}:
        run = Run(home.log, run_id)
        try:
            await run.manifest()
        except ChurnBenchError:
            await run.delete()
            removed.append(f"half-made topics of {run_id}")
    from churnbench.stores.postgres import list_databases

    if embedded_running(home.path) or (home.path / "postgres").exists():
        server = await embedded_server(home.path)
        known = await _manifests(home)
        unfinished = {run_id for run_id in known if _state(RunFolder(home.runs / run_id)) == "unfinished"}
        for run_id in await list_databases(server):
            if run_id not in unfinished:
                await RunDatabase.drop(server, run_id)
                removed.append(f"database of {run_id}")
    for folder in (home.runs, home.path / "worlds"):
        for partial in folder.rglob("*.partial") if folder.is_dir() else []:
            partial.unlink()
            removed.append(str(partial))
    return removed
