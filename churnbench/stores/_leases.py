"""Who uses a home's server: a file for each process, which a dead process's successors see through."""

from __future__ import annotations

import os
from pathlib import Path

from churnbench.stores._processes import identity

__all__ = ["Leases"]


class Leases:
    """The leases on one thing; to be used under its lock.

    Args:
        folder: where the files are; made when the first lease is taken.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self) -> None:
        """Writes this process's lease; taking it again changes nothing."""
        self._folder.mkdir(parents=True, exist_ok=True)
        mine = self._folder / str(os.getpid())
        partial = mine.with_suffix(".partial")
        partial.write_text(identity(os.getpid()) or "")
        partial.replace(mine)

    def release(self) -> None:
        """Removes this process's lease, if it has one."""
        (self._folder / str(os.getpid())).unlink(missing_ok=True)

    def holders(self) -> list[int]:
        """The live processes that hold a lease; files of dead ones are removed."""
        alive = []
        for lease in sorted(self._folder.iterdir()) if self._folder.is_dir() else []:
            if lease.name.isdigit() and identity(int(lease.name)) == _text(lease):
                alive.append(int(lease.name))
            else:
                lease.unlink(missing_ok=True)
        return alive


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
