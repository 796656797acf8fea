"""The clock driver of frozen runs: ticks in lock step, each waiting for everybody's watermark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from churnbench.clock import DAY_MS
from churnbench.errors import TerminalError, UsageError
from churnbench.log import Log, cut_at
from churnbench.records import Tick, Watermark
from churnbench.runs import Run

__all__ = ["drive_frozen", "frozen_times"]


def frozen_times(t_prime_ms: int, t_ms: int, step_ms: int = DAY_MS) -> list[int]:
    """The times of a frozen walk: T', then every `step_ms`, and T, both ends included.

    Raises:
        UsageError: T' is after T.
    """
    if t_prime_ms > t_ms:
        raise UsageError("T' is after T; the staged copy must be made at or before the time of the questions")
    times = list(range(t_prime_ms, t_ms, step_ms))
    return [*times, t_ms]


async def drive_frozen(
    log: Log,
    run: Run,
    topic: str,
    times: Sequence[int],
    participants: Sequence[str],
    progress: Callable[[Tick], None] = lambda tick: None,
    patience: float = 600.0,
) -> list[Tick]:
    """Publishes a tick for each time and waits until every participant's watermark has reached it.

    A walk that was broken goes on: ticks that the clock already holds are not published again.

    Args:
        log: where everything is.
        run: whose clock it is.
        topic: the ledger.
        times: the ticks' times, ascending, at least one.
        participants: names whose watermarks are waited for.
        progress: told each finished tick.
        patience: seconds without any watermark before giving up.

    Returns:
        All ticks of the walk.

    Raises:
        TerminalError: a participant did not reach a tick in time.
        UsageError: the clock holds ticks of another walk.
    """
    clock = run.topic("clock")
    ticks: list[Tick] = await clock.all()
    if [tick.at_ms for tick in ticks] != list(times[: len(ticks)]):
        raise UsageError(f"the run {run.run_id} already walked other days; start a new run")
    marks = _Marks(run, participants)
    try:
        for number, at_ms in enumerate(times):
            if number >= len(ticks):
                tick = Tick(number, at_ms, await cut_at(log, topic, at_ms), number == len(times) - 1)
                await clock.append([tick], at_ms)
                ticks.append(tick)
            await marks.reached(ticks[number], patience)
            progress(ticks[number])
    finally:
        await marks.close()
    return ticks


class _Marks:
    """Follows the watermarks of a run and knows who has reached which tick."""

    def __init__(self, run: Run, participants: Sequence[str]) -> None:
        self._topic = run.topic("watermarks")
        self._participants = tuple(participants)
        self._ticks: dict[str, dict[int, int]] = {name: {} for name in participants}
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for _, mark in self._topic.read(0, follow=True):
            self._note(mark)

    def _note(self, mark: Watermark) -> None:
        if mark.projector in self._ticks:
            reached = self._ticks[mark.projector]
            for partition in mark.positions:
                reached[partition] = max(mark.tick, reached.get(partition, -1))
            self._changed.set()

    def _behind(self, tick: Tick) -> list[str]:
        return [
            name
            for name in self._participants
            if any(self._ticks[name].get(p, -1) < tick.number for p in tick.cut.positions)
        ]

    async def reached(self, tick: Tick, patience: float) -> None:
        """Returns when every participant has reached `tick` in every partition."""
        while behind := self._behind(tick):
            self._changed.clear()
            waiter = asyncio.ensure_future(self._changed.wait())
            done, _ = await asyncio.wait({waiter, self._task}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if self._task in done:
                self._task.result()
            if waiter not in done:
                waiter.cancel()
                raise TerminalError(f"{', '.join(behind)} did not reach tick {tick.number} within {patience:g} s")

    async def close(self) -> None:
        """Stops following."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
