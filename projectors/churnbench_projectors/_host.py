"""The consumer host: follows a run's clock and keeps projectors at its ticks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from churnbench.clock import Clock, SystemClock
from churnbench.cuts import Cut
from churnbench.errors import CutMovedError, DecodeError, TransientError
from churnbench.events import Codec, Event
from churnbench.log import LedgerReader, Log, Record
from churnbench.records import DeadLetter, Tick, Watermark
from churnbench.runs import Run
from churnbench.sources import Projector

__all__ = ["Follower", "ProjectorHost", "Rebuildable", "catch_up", "rebuild"]

_TRIES = 8


def _is_retried(error: BaseException) -> bool:
    return isinstance(error, TransientError) and not isinstance(error, CutMovedError)


class Follower:
    """A projector with the cut that it is known to be at, so that the store is not asked at every batch."""

    def __init__(self, projector: Projector) -> None:
        self.projector = projector
        self._known: Cut | None = None

    async def cut(self) -> Cut:
        """The projector's cut; read from its store at first, and again after it was lost to another owner."""
        if self._known is None:
            self._known = await self.projector.cut()
        return self._known

    async def apply(self, events: Sequence[Event], cut: Cut) -> None:
        """Applies with retries; a transient error leaves all or nothing behind.

        Raises:
            CutMovedError: another owner moved the position; `cut` reads it anew.
            TransientError: the store did not answer after the retries.
        """
        retrying = AsyncRetrying(
            retry=retry_if_exception(_is_retried),
            stop=stop_after_attempt(_TRIES),
            wait=wait_random_exponential(multiplier=0.05, max=5),
            reraise=True,
        )
        before = await self.cut()
        try:
            async for attempt in retrying:
                with attempt:
                    if attempt.retry_state.attempt_number > 1:
                        stored = await self.projector.cut()
                        if all(stored.positions[p] == position for p, position in cut.positions.items()):
                            break  # the attempt before was stored, only its answer was lost
                    await self.projector.apply(events, cut)
        except BaseException:
            self._known = None
            raise
        self._known = before.moved(cut.positions, cut.at_ms)


async def catch_up(
    projectors: Sequence[Projector] | Sequence[Follower],
    log: Log,
    topic: str,
    codec: Codec,
    upto: Cut,
    *,
    batch: int = 5000,
    dead: list[DeadLetter] | None = None,
) -> int:
    """Brings projectors up to exactly a cut; those that are at or beyond it stay.

    The ledger is read and decoded once for all projectors that stand at the same place. The last batch of each
    partition carries the label of `upto`, and a projector without any batch is told the label alone, because a
    view may depend on the time.

    Args:
        projectors: whose names differ; or their followers.
        log: where the ledger is.
        topic: the ledger's topic.
        codec: the domain's codec.
        upto: the cut to reach.
        batch: most records applied in one transaction.
        dead: takes the records that are no events, which are then passed over; None: they raise `DecodeError`.

    Returns:
        How many records were read.
    """
    followers = [p if isinstance(p, Follower) else Follower(p) for p in projectors]
    read = 0
    while True:
        groups: dict[Cut, list[Follower]] = {}
        for follower in followers:
            cut = await follower.cut()
            if not cut.covers(upto):
                groups.setdefault(cut, []).append(follower)
        if not groups:
            break
        for cut, group in groups.items():
            kinds = frozenset().union(*(follower.projector.kinds for follower in group))
            read += await _advance(group, LedgerReader(log, topic, codec, kinds), cut, upto, batch, dead)
    for follower in followers:
        cut = await follower.cut()
        if cut == upto and cut.at_ms != upto.at_ms:
            await follower.apply((), upto)
    return read


async def _advance(
    group: list[Follower], reader: LedgerReader, cut: Cut, upto: Cut, batch: int, dead: list[DeadLetter] | None
) -> int:
    """Moves a group from `cut` towards `upto`; whoever lost its place to another owner leaves the group."""
    read = 0

    def bury(record: Record, error: DecodeError) -> None:
        if dead is not None:
            dead.extend(
                DeadLetter(follower.projector.name, record.topic, record.partition, record.offset, str(error))
                for follower in group
            )

    at = dict(cut.positions)
    async for got in reader.batches(cut, upto, batch=batch, undecodable=bury if dead is not None else None):
        read += got.position - at[got.partition]
        at[got.partition] = got.position
        last = got.position == upto.positions[got.partition]
        target = Cut({got.partition: got.position}, upto.at_ms if last else None)
        done = await asyncio.gather(
            *(f.apply([e for e in got.events if e.kind in f.projector.kinds], target) for f in group),
            return_exceptions=True,
        )
        for outcome in done:
            if isinstance(outcome, BaseException) and not isinstance(outcome, CutMovedError):
                raise outcome
        group = [f for f, outcome in zip(group, done, strict=True) if outcome is None]
        if not group:
            break
    return read


class Rebuildable(Projector, Protocol):
    """A projector that can be filled anew beside its own view."""

    async def shadow(self) -> Any:
        """An empty projector of the same view beside this one."""

    async def adopt(self, shadow: Any) -> None:
        """Takes over the view and cut of a filled shadow in one step."""


class ProjectorHost:
    """Keeps projectors at the ticks of a run's clock and publishes their watermarks.

    At each tick the ledger is read up to exactly the tick's cut. Transient errors are retried with jittered
    exponential backoff; a record that is no event goes to the run's dead letters, which makes the run invalid. A
    host that is started again publishes the watermarks of ticks that its projectors have reached already.

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
        batch: int = 5000,
    ) -> None:
        self._log = log
        self._run = run
        self._topic = topic
        self._codec = codec
        self._followers = [Follower(projector) for projector in projectors]
        self._clock = clock or SystemClock()
        self._batch = batch

    async def run_clock(self) -> None:
        """Follows the clock until the final tick is reached; for ever where there is none."""
        async for _, tick in self._run.topic("clock").read(0, follow=True):
            await self.reach(tick)
            if tick.final:
                return

    async def reach(self, tick: Tick) -> None:
        """Brings every projector to a tick and publishes the watermarks."""
        begun = self._clock.monotonic()
        dead: list[DeadLetter] = []
        read = await catch_up(
            self._followers, self._log, self._topic, self._codec, tick.cut, batch=self._batch, dead=dead
        )
        if dead:
            await self._run.topic("dead-letters").append(dead, tick.at_ms)
        seconds = self._clock.monotonic() - begun
        marks = []
        for follower in self._followers:
            positions = (await follower.cut()).positions
            marks.append(Watermark(follower.projector.name, tick.number, positions, read, seconds))
        await self._run.topic("watermarks").append(marks, tick.at_ms)


async def rebuild(projector: Rebuildable, log: Log, topic: str, codec: Codec, upto: Cut) -> None:
    """Fills a shadow up to a cut and puts it in the projector's place; readers never see an empty or mixed view."""
    shadow = await projector.shadow()
    await catch_up([shadow], log, topic, codec, upto)
    await projector.adopt(shadow)
