"""The consumer host: follows a run's clock and keeps projectors at its ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from churnbench.clock import Clock, SystemClock
from churnbench.cuts import Cut
from churnbench.errors import CutMovedError
from churnbench.events import Codec
from churnbench.log import Log
from churnbench.records import DeadLetter, Tick, Watermark
from churnbench.runs import Run
from churnbench.sources import Projector
from churnbench_projectors._following import Follower, catch_up

__all__ = ["ProjectorHost", "Rebuildable", "rebuild"]

_REBUILD_TRIES = 50


class ProjectorHost:
    """Keeps projectors at the ticks of a run's clock and publishes their watermarks.

    At each tick the ledger is read up to exactly the tick's cut. Transient errors are retried with jittered
    exponential backoff; a record that is no event goes to the run's dead letters, which makes the run invalid. A
    host that is started again publishes the watermarks of ticks that its projectors have reached already. Cancelled,
    it finishes its batch.

    Args:
        log: where the ledger and the run's topics are.
        run: the run.
        topic: the ledger's topic.
        codec: the domain's codec.
        projectors: whose names differ.
        clock: for durations.
        batch: most records applied in one transaction.
    """

    def __init__(
        self,
        log: Log,
        run: Run,
        topic: str,
        codec: Codec,
        projectors: Sequence[Projector],
        *,
        clock: Clock | None = None,
        batch: int = 10_000,
    ) -> None:
        self._log = log
        self._run = run
        self._topic = topic
        self._codec = codec
        self._followers = [Follower(projector) for projector in projectors]
        self._clock = clock or SystemClock()
        self._batch = batch
        self._buried: set[tuple[str, str, int, int]] | None = None

    async def run_clock(self) -> None:
        """Follows the clock until the final tick is reached; for ever where there is none."""
        async for _, tick in self._run.topic("clock").read(0, follow=True):
            await self.reach(tick)
            if tick.final:
                return

    async def reach(self, tick: Tick) -> None:
        """Brings every projector to a tick and publishes the watermarks."""
        begun = self._clock.monotonic()
        before = [await follower.cut() for follower in self._followers]

        async def bury(dead: Sequence[DeadLetter]) -> None:
            await self._bury(dead, tick.at_ms)

        await catch_up(self._followers, self._log, self._topic, self._codec, tick.cut, batch=self._batch, bury=bury)
        seconds = self._clock.monotonic() - begun
        marks = []
        for follower, earlier in zip(self._followers, before, strict=True):
            cut = await follower.cut()
            events = cut.events - earlier.events
            marks.append(Watermark(follower.projector.name, tick.number, dict(cut.positions), events, seconds))
        await self._run.topic("watermarks").append(marks, tick.at_ms)

    async def _bury(self, dead: Sequence[DeadLetter], at_ms: int) -> None:
        """Publishes dead letters that the topic does not hold yet: a batch that is applied again meets them again."""
        topic = self._run.topic("dead-letters")
        if self._buried is None:
            self._buried = {_place(letter) for letter in await topic.all()}
        new = {_place(letter): letter for letter in dead if _place(letter) not in self._buried}
        if new:
            await topic.append(list(new.values()), at_ms)
            self._buried |= set(new)


def _place(letter: DeadLetter) -> tuple[str, str, int, int]:
    return (letter.projector, letter.topic, letter.partition, letter.offset)


class Rebuildable(Projector, Protocol):
    """A projector that can be filled anew beside its own view."""

    async def shadow(self) -> Any:
        """An empty projector of the same view beside this one."""

    async def adopt(self, shadow: Any) -> None:
        """Takes over the view and cut of a filled shadow in one step.

        Raises:
            CutMovedError: this view has gone beyond the shadow.
        """


async def rebuild(projector: Rebuildable, log: Log, topic: str, codec: Codec, upto: Cut) -> None:
    """Fills a shadow and puts it in the projector's place; readers never see an empty or mixed view.

    Args:
        projector: it may go on being applied to meanwhile, by whoever keeps it.
        log: where the ledger is.
        topic: the ledger's topic.
        codec: the domain's codec.
        upto: how far at least; a projector that is further keeps its cut.

    Raises:
        CutMovedError: the projector was always faster.
    """
    shadow = await projector.shadow()
    for attempt in range(_REBUILD_TRIES):
        live = await projector.cut()
        await catch_up([shadow], log, topic, codec, _further(upto, live))
        try:
            await projector.adopt(shadow)
            return
        except CutMovedError:
            if attempt == _REBUILD_TRIES - 1:
                raise


def _further(upto: Cut, live: Cut) -> Cut:
    if upto.covers(live):
        return upto
    return Cut({p: max(position, live.positions.get(p, -1)) for p, position in upto.positions.items()})
