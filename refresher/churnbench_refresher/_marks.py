"""How far the sources are: their watermarks, the minimum over partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import cast

from churnbench.cuts import Cut
from churnbench.errors import TerminalError
from churnbench.records import Tick, Watermark
from churnbench.runs import Run

__all__ = ["SourceMarks"]


class SourceMarks:
    """Follows a run's watermarks; an async context manager.

    Args:
        run: whose.
        names: the projectors that are waited for.
    """

    def __init__(self, run: Run, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._topic = run.topic("watermarks")
        self._marks: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in self.names}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> SourceMarks:
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        reading = cast("AsyncGenerator[tuple[int, Watermark], None]", self._topic.read(0, follow=True))
        async with aclosing(reading) as marks:
            async for _, mark in marks:
                if mark.projector in self._marks:
                    known = self._marks[mark.projector]
                    for partition, position in mark.positions.items():
                        if mark.tick >= known.get(partition, (-1, -1))[0]:
                            known[partition] = (mark.tick, position)
                    self._changed.set()

    def _behind(self, tick: Tick) -> list[str]:
        return [
            name
            for name, known in self._marks.items()
            if any(known.get(partition, (-1, -1))[0] < tick.number for partition in tick.cut.positions)
        ]

    async def reached(self, tick: Tick, patience: float) -> dict[str, Cut]:
        """Waits until every projector has reached `tick` in every partition.

        Args:
            tick: the tick.
            patience: seconds without any watermark before giving up.

        Returns:
            Projector -> its newest cut; the tick's own where it stands exactly there.

        Raises:
            TerminalError: one did not come in time.
        """
        if self._task is None:
            raise TerminalError("the watermarks are not followed; enter the context first")
        while behind := self._behind(tick):
            self._changed.clear()
            waiter = asyncio.ensure_future(self._changed.wait())
            done, _ = await asyncio.wait({waiter, self._task}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            waiter.cancel()
            if self._task in done:
                self._task.result()
                raise TerminalError("the watermarks ended; see what stopped the log")
            if waiter not in done:
                raise TerminalError(
                    f"{', '.join(behind)} did not reach tick {tick.number} within {patience:g} s; "
                    "see whether the projectors run"
                )
        return {
            name: tick.cut if (cut := Cut({p: known[p][1] for p in tick.cut.positions})) == tick.cut else cut
            for name, known in self._marks.items()
        }
