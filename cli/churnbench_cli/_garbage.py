"""`churnbench runs gc`: what no run needs is removed, and what a live process works on is left alone."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from churnbench.records import RUN_TOPICS
from churnbench.runs import MANIFEST, Run
from churnbench.stores.postgres import (
    PostgresServer,
    RunDatabase,
    database_name,
    embedded_server,
    list_databases,
    list_half_made,
)
from churnbench.worlds import worlds
from churnbench_cli._home import REPORTS, Home, run_lock, world_lock
from churnbench_cli._known import known_runs
from churnbench_cli._locks import HeldError
from churnbench_cli._outcome import SUMMARY

__all__ = ["collect_garbage"]

_RUN = run_lock("")


async def collect_garbage(home: Home) -> list[str]:
    """Removes leftovers of runs, worlds and processes that were broken off.

    Returns:
        A line for each thing removed.
    """
    server = await embedded_server(home.path) if (home.path / "postgres").exists() else None
    removed = []
    for name in home.locks.names():
        async with _unheld(home, name) as free:
            # Held by us, its file is removed at the end.
            removed += [f"lock {name}"] if free else []
    half_made = set(await list_half_made(server)) if server is not None else set()
    # A run's id begins with its date; the others are names of databases that do not say whose they are.
    databases = {name for name in await list_databases(server) if name[0].isdigit()} if server is not None else set()
    for run_id in sorted(databases.union(await _begun(home), _folders(home.runs))):
        async with _unheld(home, run_lock(run_id)) as free:
            removed += await _leftovers(home, run_id, server if run_id in databases else None) if free else []
    if server is not None:
        at_work = {database_name(name.removeprefix(_RUN)) for name in home.locks.names() if home.locks.held(name)}
        for name in sorted(half_made - at_work):
            await RunDatabase.drop(server, name)
            removed.append(f"database or role {name}")
    for name in _folders(home.path / "worlds"):
        async with _unheld(home, world_lock(name)) as free:
            removed += await _world_leftovers(home, name) if free else []
    async with _unheld(home, REPORTS) as free:
        removed += _partials(home.path / "reports") if free else []
    return removed


@asynccontextmanager
async def _unheld(home: Home, lock: str) -> AsyncIterator[bool]:
    """Holds a lock, if nobody else does."""
    try:
        async with home.locks.at_once(lock, lock, patience=0.0):
            yield True
            return
    except HeldError:
        pass
    yield False


async def _begun(home: Home) -> set[str]:
    """The ids that topics of runs are named by, whole or half made."""
    places = [topic.rpartition(".") for topic in await home.log.topics()]
    return {run_id for run_id, _, kind in places if kind == MANIFEST or kind in RUN_TOPICS}


async def _leftovers(home: Home, run_id: str, server: PostgresServer | None) -> list[str]:
    """Of one run, which nobody else works on; `server`, where it has a database."""
    removed, folder = _partials(home.runs / run_id), home.runs / run_id
    known = await known_runs(home)
    if run_id not in known and run_id in await _begun(home):
        await Run(home.log, run_id).delete()
        removed.append(f"half-made topics of {run_id}")
    if run_id not in known and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        removed.append(str(folder))
    if server is not None and (run_id not in known or (folder / SUMMARY).exists()):
        await RunDatabase.drop(server, run_id)
        removed.append(f"database of {run_id}")
    return removed


async def _world_leftovers(home: Home, name: str) -> list[str]:
    folder = home.path / "worlds" / name
    if name in await worlds(home.log):
        return _partials(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return [str(folder)]


def _folders(path: Path) -> list[str]:
    return sorted(item.name for item in path.iterdir() if item.is_dir()) if path.is_dir() else []


def _partials(folder: Path) -> list[str]:
    removed = []
    for partial in (*folder.glob(".*.partial"), *folder.glob(".*.partial.wal"), *folder.glob(".*.partial.spill")):
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)
        removed.append(str(partial))
    return removed
