"""Which runs there are, on the log and in folders, and how far they are."""

from __future__ import annotations

from typing import Literal

from churnbench.errors import ChurnBenchError, NotFoundError
from churnbench.log import Log
from churnbench.runs import MANIFEST, Manifest, Run
from churnbench_cli._home import Home, run_lock
from churnbench_cli._outcome import SUMMARY

__all__ = ["RunState", "find_run", "known_runs", "run_ids", "run_state"]

RunState = Literal["finished", "unfinished", "running", "damaged"]


async def run_ids(log: Log) -> list[str]:
    """The ids of the runs on the log, oldest first."""
    suffix = f".{MANIFEST}"
    return sorted(topic.removesuffix(suffix) for topic in await log.topics() if topic.endswith(suffix))


async def known_runs(home: Home) -> dict[str, Manifest | None]:
    """Id -> manifest of every run that is begun, by its id; None where only a damaged folder is left."""
    found: dict[str, Manifest | None] = {}
    for run_id in await run_ids(home.log):
        manifest = await Run(home.log, run_id).manifest_or_none()
        if manifest is not None:
            found[run_id] = manifest
    for path in sorted(home.runs.iterdir()) if home.runs.is_dir() else []:
        if path.name not in found and (path / "manifest.json").exists():
            try:
                found[path.name] = home.folder(path.name).manifest()
            except ChurnBenchError:
                found[path.name] = None
    return dict(sorted(found.items()))


def run_state(home: Home, run_id: str, manifest: Manifest | None) -> RunState:
    """How far a run is."""
    if manifest is None:
        return "damaged"
    if (home.runs / run_id / SUMMARY).exists():
        return "finished"
    return "running" if home.locks.held(run_lock(run_id)) else "unfinished"


async def find_run(home: Home, name: str) -> str:
    """The id of the one run whose id is, or begins or ends with, `name`.

    Raises:
        NotFoundError: there is none, or several.
    """
    known = list(await known_runs(home))
    if name in known:
        return name
    matches = [run_id for run_id in known if run_id.startswith(name) or run_id.endswith(name)]
    if len(matches) != 1:
        what = f"{name!r} fits {len(matches)} runs" if matches else f"no run {name!r}"
        raise NotFoundError(f"{what} in {home.path}; `churnbench runs list` shows them")
    return matches[0]
