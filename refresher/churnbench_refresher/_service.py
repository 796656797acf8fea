"""The refresher: follows a run's clock and keeps its staged cache by a policy."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Literal, NamedTuple, cast

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential

from churnbench.clock import Clock, SystemClock
from churnbench.cuts import Cut
from churnbench.domain import Domain
from churnbench.errors import TransientError, UsageError
from churnbench.log import Log
from churnbench.records import Refresh, Tick, Watermark
from churnbench.registry import Registry
from churnbench.runs import Run
from churnbench.sources import GenerationSource, TableSource
from churnbench.stores.postgres import RunDatabase
from churnbench.tables import Row
from churnbench_refresher._check import DocumentsAt, check_staged
from churnbench_refresher._layout import layouts
from churnbench_refresher._marks import SourceMarks
from churnbench_refresher._outbox import OutboxPublisher
from churnbench_refresher._policies import Due, Policy
from churnbench_refresher._replay import Replay
from churnbench_refresher._staged import StagedCache, Stamp, Written

__all__ = ["REFRESHER", "WAYS", "RefreshSources", "Refresher", "Way"]

REFRESHER = "refresher"
"""The name of the refresher's watermarks."""
DOCUMENTS = "contracts"
"""The projector that keeps the live document index."""

_ATTEMPTS = 6
"""How often a store that does not answer is asked."""

Way = Literal["replay", "extract"]
WAYS: tuple[Way, ...] = ("replay", "extract")


class _BehindError(TransientError):
    """A source that lost its view after its watermark, and is being filled again."""


class RefreshSources(NamedTuple):
    """What is staged from.

    Attributes:
        tables: `warehouse` and `operations`, as far as the registry stages them; only `extract` reads them.
        documents: the live document index; None where the registry stages no documents.
        documents_at: makes the documents of any cut, to rebuild a generation that the live index no longer has.
    """

    tables: Mapping[str, TableSource] = {}
    documents: GenerationSource | None = None
    documents_at: DocumentsAt | None = None


class Refresher:
    """Refreshes the staged cache of a run at each tick of its clock.

    A tick's refreshes wait for the watermarks of the sources that are staged from; each is one transaction with
    its event; then the events are published, and then the refresher's own watermark. Broken off at any moment
    and started again, it does each refresh once and publishes each event once.

    Args:
        database: the run's database.
        log: where the ledger and the run's topics are.
        run: the run.
        ledger: the ledger's topic.
        domain: the subject.
        registry: what is staged.
        sources: what is staged from.
        policy: what is refreshed when.
        way: `replay` computes the tables from the ledger, up to the source's cut; `extract` reads the source.
            The tables are the same.
        clock: for durations.
        patience: seconds without any watermark before giving up on a tick.

    Raises:
        NotFoundError: the registry stages what the domain does not have.
        UsageError: an unknown way, or a source is missing.
    """

    def __init__(
        self,
        database: RunDatabase,
        log: Log,
        run: Run,
        ledger: str,
        domain: Domain,
        registry: Registry,
        sources: RefreshSources,
        policy: Policy,
        way: Way = "replay",
        *,
        clock: Clock | None = None,
        patience: float = 600.0,
    ) -> None:
        if way not in WAYS:
            raise UsageError(f"no way to refresh {way!r}; known: {', '.join(WAYS)}")
        self.run = run
        self.registry = registry
        self.policy = policy
        self.way: Way = way
        self.layouts = layouts(domain, registry)
        self.cache = StagedCache(database, registry, self.layouts)
        self._sources = sources
        self._clock = clock or SystemClock()
        self._patience = patience
        self._replay = Replay(log, ledger, domain, self.layouts)
        self._outbox = OutboxPublisher(self.cache, run)
        needed = dict.fromkeys(table.source for table in registry.tables)
        missing: list[str] = [name for name in needed if way == "extract" and name not in sources.tables]
        if registry.documents is not None and sources.documents is None:
            missing.append(DOCUMENTS)
        if missing:
            raise UsageError(f"the registry {registry.name} stages from {', '.join(missing)}; give these sources")
        self._waits_for = (*needed, *([DOCUMENTS] if registry.documents is not None else []))

    async def run_clock(self) -> None:
        """Follows the clock until the final tick is done; for ever where there is none.

        Raises:
            TerminalError: a source did not reach a tick in time, or the ledger or the staged tables are damaged.
            TransientError: a store did not answer after the retries.
        """
        await self.recover()
        done = max((m.tick for m in await self.run.topic("watermarks").all() if m.projector == REFRESHER), default=-1)
        clock = cast("AsyncGenerator[tuple[int, Tick], None]", self.run.topic("clock").read(0, follow=True))
        async with SourceMarks(self.run, self._waits_for) as marks, aclosing(clock) as ticks:
            async for _, tick in ticks:
                if tick.number > done:
                    await self.refresh(tick, await marks.reached(tick, self._patience))
                if tick.final:
                    return

    async def recover(self) -> list[str]:
        """Publishes what is not published, and rebuilds the tables that are not what the refreshes say.

        Returns:
            The names of the rebuilt tables; empty for a new run.

        Raises:
            IncompleteError: a table cannot be rebuilt.
        """
        await self.cache.prepare()
        await self._outbox.publish(recover=True)
        return await check_staged(
            self.cache,
            self.run,
            self.registry,
            self.layouts,
            self._replay,
            self._sources.documents,
            self._sources.documents_at,
        )

    async def refresh(self, tick: Tick, cuts: Mapping[str, Cut]) -> list[Refresh]:
        """Does what the policy says for one tick, publishes it, and publishes the watermark.

        Args:
            tick: the tick.
            cuts: each source's cut, which covers the tick's.

        Returns:
            The refreshes done; those that an earlier attempt at the same tick did are not among them.

        Raises:
            UsageError: the policy names a table that is not staged.
        """
        begun = self._clock.monotonic()
        stamps = await self.cache.stamps()
        due = self.policy.due(tick, self.registry, _state_before(tick, stamps))
        unknown = [item.table for item in due if item.table not in self.registry.staged()]
        if unknown:
            raise UsageError(
                f"the policy {self.policy.name} refreshes {', '.join(unknown)}; "
                f"staged: {', '.join(self.registry.staged())}"
            )
        todo = [item for item in due if item.table not in stamps or stamps[item.table].tick < tick.number]
        shared = await self._advance(todo, cuts)
        refreshes = []
        for item in todo:
            refresh = await self._refresh(tick, item, cuts, shared)
            if refresh is not None:
                refreshes.append(refresh)
        await self._outbox.publish()
        mark = Watermark(REFRESHER, tick.number, tick.cut.positions, seconds=self._clock.monotonic() - begun)
        await self.run.topic("watermarks").append([mark], tick.at_ms)
        return refreshes

    async def _advance(self, todo: Sequence[Due], cuts: Mapping[str, Cut]) -> float:
        """Moves the folds, all at once; the seconds for each table that is replayed."""
        tables = [item for item in todo if item.table in self.layouts]
        if self.way != "replay" or not tables:
            return 0.0
        begun = self._clock.monotonic()
        await self._replay.advance(cuts)
        return (self._clock.monotonic() - begun) / len(tables)

    async def _refresh(self, tick: Tick, item: Due, cuts: Mapping[str, Cut], shared: float) -> Refresh | None:
        owner, embeds = self.registry.staged()[item.table]
        begun = self._clock.monotonic()
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            stop=self._gives_up,
            wait=wait_exponential(0.05, 2),
            reraise=True,
        ):
            with attempt:
                rows, cut, calls = await self._rows(item.table, cuts)
                if not cut.covers(tick.cut):
                    raise _BehindError(
                        f"the source of {item.table} is before tick {tick.number} although its watermark is not; "
                        "see whether its projector runs"
                    )
                # The same cut has the same label, whichever way it was read.
                at = tick.cut if cut == tick.cut else cut

                def describe(written: Written, at: Cut = at, calls: int = calls) -> Refresh:
                    return Refresh(
                        run=self.run.run_id,
                        table=item.table,
                        tick=tick.number,
                        at_ms=tick.at_ms,
                        classes=dict.fromkeys((owner, *embeds), at),
                        owner=owner,
                        way=self.way,
                        reason=item.reason,
                        rows=written.rows,
                        changed=written.changed,
                        bytes=written.bytes,
                        source_calls=calls,
                        seconds=self._clock.monotonic() - begun + (shared if item.table in self.layouts else 0.0),
                        fingerprint=written.fingerprint,
                    )

                return await self.cache.refresh(item.table, tick.number, rows, describe)
        raise AssertionError("unreachable")

    def _gives_up(self, state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, _BehindError):
            return (state.seconds_since_start or 0.0) >= self._patience
        return state.attempt_number >= _ATTEMPTS

    async def _rows(self, name: str, cuts: Mapping[str, Cut]) -> tuple[Sequence[Row], Cut, int]:
        """A staged table's rows, their cut, and how often a source was read for them."""
        if name not in self.layouts:
            if self._sources.documents is None:
                raise UsageError(f"the staged documents {name} need the live index; give this source")
            chunks, cut = await self._sources.documents.generation()
            return chunks, cut, 1
        layout = self.layouts[name]
        if self.way == "replay":
            return self._replay.rows(layout), cuts[layout.table.source], 0
        rows, cut = await self._sources.tables[layout.table.source].read(layout.table.relation)
        return layout.pick(rows), cut, 1


def _state_before(tick: Tick, stamps: Mapping[str, Stamp]) -> dict[str, int]:
    """The policy's state as it was when the tick began, even if part of the tick is done already."""
    state = {}
    for name, stamp in stamps.items():
        refreshed = stamp.refreshed_ms if stamp.tick < tick.number else stamp.previous_ms
        if refreshed is not None:
            state[name] = refreshed
    return state
