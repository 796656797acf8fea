"""What the terminal shows: lines, tables, progress, JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = ["Steps", "print_json", "print_table", "say", "steps", "warn"]

_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """A line on standard output, as it is."""
    _out.print(text, markup=False)


def warn(text: str) -> None:
    """A line on standard error, as it is."""
    _err.print(text, markup=False)


def print_json(value: Any) -> None:
    """One JSON value on standard output, on one line."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; columns whose name ends in a blank are aligned to the right."""
    table = Table(title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.strip(), justify="right" if column.endswith(" ") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    _out.print(table, soft_wrap=False)


class Steps:
    """Progress bars of one piece of work, a bar a step."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._bars: dict[str, Any] = {}

    def advance(self, step: str, done: int, total: int | None = None) -> None:
        """Sets a step's bar to `done` of `total` (None: unknown)."""
        if self._progress is None:
            return
        if step not in self._bars:
            self._bars[step] = self._progress.add_task(step, total=total)
        self._progress.update(self._bars[step], completed=done, total=total)

    def waiting(self, holder: str) -> None:
        """Says that another process is waited for."""
        self.advance(f"waiting for {holder}", 0)

    def clear(self) -> None:
        """Removes the bars."""
        if self._progress is not None:
            for bar in self._bars.values():
                self._progress.remove_task(bar)
        self._bars = {}


@contextmanager
def steps(quiet: bool = False) -> Iterator[Steps]:
    """Progress on standard error; nothing where it is no terminal, or `quiet`."""
    if quiet or not _err.is_terminal:
        yield Steps(None)
        return
    columns = (TextColumn("{task.description:<28}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_err, transient=True) as progress:
        yield Steps(progress)
