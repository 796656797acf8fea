"""Bringing projectors along a ledger, with retries, up to exactly a cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from churnbench.cuts import Cut
from churnbench.errors import CutMovedError, DecodeError, TransientError
from churnbench.events import Codec, Event
from churnbench.log import LedgerReader, Log, Record
from churnbench.records import DeadLetter
from churnbench.sources import Projector

__all__ = ["Bury", "Follower", "catch_up"]

Bury = Callable[[Sequence[DeadLetter]], Awaitable[None]]
"""Keeps records that are no events, before anything beyond them is applied."""

_T = TypeVar("_T")
_PATIENCE = 120.0
_LONGEST_WAIT = 5.0
_GRACE = 30.0


def _is_retried(error: BaseException) -> bool:
    return isinstance(error, TransientError) and not isinstance(error, CutMovedError)


class Follower:
    """A projector with the cut that it is known to be at, so that its store is not asked at every batch.

    Args:
        projector: which one.
        patience: seconds for which a store that does not answer is tried again.
    """

    def __init__(self, projector: Projector, patience: float = _PATIENCE) -> None:
        self.projector = projector
        self._patience = patience
        self._known: Cut | None = None

    def _retrying(self) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception(_is_retried),
            stop=stop_after_delay(self._patience),
            wait=wait_random_exponential(multiplier=0.05, max=_LONGEST_WAIT),
            reraise=True,
        )

    async def cut(self) -> Cut:
        """The projector's cut; read from its store at first, and again after it was lost to another owner.

        Raises:
            TransientError: the store did not answer after the retries.
        """
        if self._known is not None:
            return self._known
        found: Cut = await self._retrying()(self.projector.cut)
        self._known = found
        return found

    async def apply(self, events: Sequence[Event], cut: Cut) -> None:
        """Applies with retries; a transient error leaves all or nothing behind.

        Raises:
            CutMovedError: the position is not where it was, by another owner or by a store that forgot; `cut` reads
                it anew.
            TransientError: the store did not answer after the retries.
        """
        before = await self.cut()
        failed = False

        async def attempt() -> None:
            nonlocal failed
            if failed:
                stored = (await self.projector.cut()).positions
                if all(stored.get(p) == position for p, position in cut.positions.items()):
                    return  # the attempt before was stored, only its answer was lost
                if any(stored.get(p) != before.positions.get(p) for p in cut.positions):
                    raise CutMovedError(f"{self.projector.name} is at {stored}, no longer at {before.positions}")
            failed = True
            await self.projector.apply(events, cut)

        try:
            await self._retrying()(attempt)
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
    batch: int = 10_000,
    bury: Bury | None = None,
) -> int:
    """Brings projectors up to exactly a cut; those that are at or beyond it stay.

    The ledger is read and decoded once for all projectors that stand at the same place. The last batch carries the
    label of `upto`, and a projector without any batch is told the label alone, because a view may depend on the time.
    Cancelled, it finishes the batch that it is at.

    Args:
        projectors: whose names differ; or their followers.
        log: where the ledger is.
        topic: the ledger's topic.
        codec: the domain's codec.
        upto: the cut to reach.
        batch: most records applied in one transaction.
        bury: keeps the records that are no events, which are then passed over; None: they raise `DecodeError`.

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
            read += await _advance(group, LedgerReader(log, topic, codec, kinds), cut, upto, batch, bury)
    for follower in followers:
        cut = await follower.cut()
        if cut == upto and cut.at_ms != upto.at_ms:
            await _finished(follower.apply((), upto))
    return read


async def _advance(
    group: list[Follower], reader: LedgerReader, cut: Cut, upto: Cut, batch: int, bury: Bury | None
) -> int:
    """Moves a group from `cut` towards `upto`; whoever lost its place leaves the group."""
    dead: list[DeadLetter] = []

    def note(record: Record, error: DecodeError) -> None:
        dead.extend(
            DeadLetter(follower.projector.name, record.topic, record.partition, record.offset, str(error))
            for follower in group
        )

    at = cut
    batches = reader.batches(cut, upto, batch=batch, undecodable=note if bury is not None else None)
    async with aclosing(_ahead(batches)) as source:
        async for got in source:
            if dead and bury is not None:
                letters = tuple(dead)
                dead.clear()
                await bury(letters)
            moved = at.moved({got.partition: got.position})
            target = Cut({got.partition: got.position}, upto.at_ms if moved.covers(upto) else None)
            done = await _finished(
                asyncio.gather(
                    *(f.apply([e for e in got.events if e.kind in f.projector.kinds], target) for f in group),
                    return_exceptions=True,
                )
            )
            at = moved
            for outcome in done:
                if isinstance(outcome, BaseException) and not isinstance(outcome, CutMovedError):
                    raise outcome
            group[:] = [f for f, outcome in zip(group, done, strict=True) if outcome is None]
            if not group:
                break
    return at.events - cut.events


async def _ahead(source: AsyncIterator[_T]) -> AsyncGenerator[_T, None]:
    """The items of `source`, the next one read and decoded while the stores work on the present one."""
    following = asyncio.ensure_future(anext(source, None))
    try:
        while (item := await following) is not None:
            following = asyncio.ensure_future(anext(source, None))
            yield item
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _finished(work: Awaitable[_T]) -> _T:
    """Awaits `work`, and lets it end where the caller is cancelled meanwhile, within a grace."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=_GRACE)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
