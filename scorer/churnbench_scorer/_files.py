"""Database files that appear whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import duckdb
import psutil

__all__ = ["NewDatabase", "limits"]


def limits(path: Path | None) -> dict[str, str | bool | int | float | list[str]]:
    """Bounds on what DuckDB takes for a file; what does not fit goes to files beside it. In memory, none."""
    if path is None:
        return {}
    return {"memory_limit": "512MB", "temp_directory": str(path.with_name(f".{path.name}.spill"))}


class NewDatabase:
    """A database to fill, under a temporary name until `keep`; left without it, nothing remains.

    Args:
        path: the file to make, which replaces an older one; None: in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial") if path is not None else None
        if path is not None and self._partial is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(path)
            _remove(self._partial)
        self.db = duckdb.connect(str(self._partial or ":memory:"), config=limits(self._partial))
        self._kept = False

    def __enter__(self) -> NewDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._kept:
            self.db.close()
            if self._partial is not None:
                _remove(self._partial)

    def keep(self) -> duckdb.DuckDBPyConnection:
        """Moves the file to its name; the database, read only unless it is in memory."""
        if self.path is None or self._partial is None:
            self._kept = True
            return self.db
        self.db.execute("CHECKPOINT")
        self.db.close()
        self._partial.replace(self.path)
        self._kept = True
        return duckdb.connect(str(self.path), read_only=True, config=limits(self.path))


def _remove(partial: Path) -> None:
    for name in (partial.name, f"{partial.name}.wal"):
        with suppress(FileNotFoundError):
            partial.with_name(name).unlink()


def _remove_abandoned(path: Path) -> None:
    """Removes what builders that were killed left behind."""
    for partial in path.parent.glob(f".{path.name}.*.partial"):
        pid = partial.name.removesuffix(".partial").rpartition(".")[2]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            _remove(partial)
