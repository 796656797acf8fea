"""The home folder: where the embedded log, the stores, the indexes and the runs live."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from churnbench.clock import SystemClock
from churnbench.config import Settings, load_settings
from churnbench.domain import Domain, find_domain
from churnbench.errors import NotFoundError, UsageError
from churnbench.log import Log, SqliteLog
from churnbench.runs import RunFolder
from churnbench_cli._locks import Locks

__all__ = ["REPORTS", "Home", "opened_home", "run_lock", "world_lock"]

REPORTS = "reports"
"""The lock of those who write reports of studies."""

_FORMAT = "1"


def run_lock(run_id: str) -> str:
    """The name of a run's lock, which whoever works on the run holds."""
    return f"run-{run_id}"


def world_lock(world: str) -> str:
    """The name of a world's lock, which whoever builds its ledger or its index holds."""
    return f"world-{world}"


class Home:
    """Settings, the domain, the log, the locks and the paths of one home folder."""

    def __init__(self, settings: Settings, domain: Domain, log: Log) -> None:
        self.settings = settings
        self.domain = domain
        self.log = log
        self.clock = SystemClock()
        self.locks = Locks(settings.home / "locks")

    @property
    def path(self) -> Path:
        """The home folder."""
        return self.settings.home

    @property
    def runs(self) -> Path:
        """The folder of run folders."""
        return self.path / "runs"

    def index_path(self, world: str) -> Path:
        """Where a world's scoring index is kept."""
        return self.path / "worlds" / world / "index.duckdb"

    def folder(self, run_id: str) -> RunFolder:
        """The folder of a run by its whole id, whether or not it is there."""
        return RunFolder(self.runs / run_id)

    def run_folder(self, run_id: str) -> RunFolder:
        """The folder of the run whose id is, or begins or ends with, `run_id`; or of a path to one.

        Raises:
            NotFoundError: there is none, or several.
        """
        if "/" in run_id or run_id in (".", ".."):
            return RunFolder(Path(run_id).absolute())
        if (self.runs / run_id).is_dir():
            return RunFolder(self.runs / run_id)
        known = sorted(p.name for p in self.runs.iterdir() if p.is_dir()) if self.runs.is_dir() else []
        matches = [name for name in known if name.startswith(run_id) or name.endswith(run_id)]
        if len(matches) != 1:
            what = f"{run_id!r} fits {len(matches)} runs" if matches else f"no run {run_id!r}"
            raise NotFoundError(f"{what} in {self.runs}; `churnbench runs list` shows them")
        return RunFolder(self.runs / matches[0])


def _check_format(home: Path) -> None:
    """Refuses a home of another layout; marks a new one."""
    marker = home / "format"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not marker.exists():
            marker.write_text(_FORMAT)
        found = marker.read_text().strip()
    except OSError as error:
        raise UsageError(
            f"cannot write to the home folder {home}: {error.strerror}; set CHURNBENCH_HOME to a writable folder"
        ) from error
    if found != _FORMAT:
        known = re.fullmatch(r"\d+", found)
        advice = "upgrade churnbench" if known and int(found) > int(_FORMAT) else "use an older churnbench"
        raise UsageError(
            f"the home folder {home} has layout {found!r}, this version works with {_FORMAT!r}; "
            f"{advice}, or set CHURNBENCH_HOME to a new folder"
        )


@asynccontextmanager
async def opened_home(**flags: Any) -> AsyncIterator[Home]:
    """The home folder, with its log open.

    Args:
        flags: settings from flags; None leaves a setting as it is.

    Raises:
        UsageError: settings are wrong, or the folder cannot be used.
    """
    settings = load_settings(**flags)
    domain = find_domain(settings.domain)
    _check_format(settings.home)
    log = SqliteLog(settings.home / "log.db")
    try:
        yield Home(settings, domain, log)
    finally:
        await log.close()
