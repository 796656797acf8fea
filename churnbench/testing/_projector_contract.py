"""The contract that every projector keeps, as a suite to subclass."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from churnbench.cuts import Cut
from churnbench.errors import CutMovedError
from churnbench.events import Event
from churnbench.sources import Projector
from churnbench.tables import Fold, Relation, fingerprint
from churnbench.testing._scripts import Batch, Mark, Script, partitioned, scripts

__all__ = ["MakeProjector", "ProjectorContract"]

MakeProjector = Callable[[], Awaitable[Projector]]
"""A projector on one store; calling it again is what a restarted process, or another owner, would have."""

_law = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


class ProjectorContract(ABC):
    """Subclass it in a test module and implement `store` and `expected`.

    Attributes:
        ledgers: hypothesis draws events from it: any, by seq, times not decreasing.
        examples: events by seq, enough for a dozen batches, that change what was before them.
        shared: whether two projectors can be owners of one store at a time.
    """

    ledgers: ClassVar[st.SearchStrategy[list[Event]]]
    examples: ClassVar[Sequence[Event]]
    shared: ClassVar[bool] = True

    @abstractmethod
    def store(self, partitions: int) -> AbstractAsyncContextManager[MakeProjector]:
        """A new, empty store for a ledger of so many partitions; removed on leaving. Entered in a loop of its own."""

    @abstractmethod
    def expected(self, events: Sequence[Event]) -> str:
        """The fingerprint of the view of `events`, for most projectors `Fold(tables).fingerprint()`."""

    def readable(self) -> Sequence[Relation]:
        """What `read` of the projector is asked for; empty for projectors that are no `TableSource`."""
        return ()

    # -- the law ----------------------------------------------------------------------------------------

    @given(data=st.data(), partitions=st.integers(1, 3))
    @_law
    def test_any_batches_repeats_crashes_and_restarts_give_the_fold(self, data: st.DataObject, partitions: int) -> None:
        """And the cut that they lead to."""
        events = data.draw(self.ledgers)
        script = data.draw(scripts(events, partitions))
        seed = data.draw(st.integers(0, 1000))

        async def scenario() -> None:
            async with self.store(partitions) as make:
                projector = await self._play(make, script, partitions, random.Random(seed))  # noqa: S311 - a test's draws
                assert await projector.fingerprint() == self.expected(events)
                sizes = {p: len(part) - 1 for p, part in partitioned(events, partitions).items()}
                assert (await projector.cut()).positions == sizes
                await projector.close()

        asyncio.run(scenario())

    async def _play(self, make: MakeProjector, script: Script, partitions: int, draw: random.Random) -> Projector:
        """Plays a script; the projector at its end."""
        projector = await make()
        await projector.cut()
        before: list[Batch] = []
        dying = False
        for step in script:
            if step is Mark.CRASH:
                dying = True
            elif step is Mark.RESTART:
                await projector.close()
                projector = await make()
                projector = await self._redo(projector, before)
            elif step is Mark.RESET:
                await projector.reset()
                assert await projector.cut() == Cut.empty(partitions)
                await self._redo(projector, before)
            elif step is Mark.REPEAT:
                if before:
                    await _harmlessly(projector.apply(*before[-1]))
            elif isinstance(step, Batch):
                if dying:
                    await _killed(projector.apply(*step), draw.randrange(12))
                    projector = await self._redo(await make(), before)
                    dying = False
                if not (await projector.cut()).covers(step.cut):
                    await projector.apply(*step)
                before.append(step)
        return projector

    @staticmethod
    async def _redo(projector: Projector, batches: Sequence[Batch]) -> Projector:
        """Gives a projector those of `batches` that its cut does not cover."""
        for batch in batches:
            if not (await projector.cut()).covers(batch.cut):
                await projector.apply(*batch)
        return projector

    # -- one by one -------------------------------------------------------------------------------------

    async def test_a_new_store_is_empty_at_the_empty_cut(self) -> None:
        """And its projector says which kinds it wants."""
        async with self.store(2) as make:
            projector = await make()
            assert projector.kinds
            assert await projector.cut() == Cut.empty(2)
            assert await projector.fingerprint() == self.expected([])

    async def test_an_empty_batch_moves_the_cut_alone(self) -> None:
        """Records of other kinds have a place on the ledger too."""
        async with self.store(1) as make:
            projector = await make()
            await projector.cut()
            await projector.apply((), Cut({0: 4}))
            assert await projector.cut() == Cut({0: 4})
            assert await projector.fingerprint() == self.expected([])

    async def test_events_of_other_kinds_change_nothing(self) -> None:
        """Whoever hands them over."""
        async with self.store(1) as make:
            projector = await make()
            events = list(self.examples)
            await projector.apply(events, Cut({0: len(events) - 1}))
            await projector.apply([_foreign(events[-1])], Cut({0: len(events)}))
            assert await projector.fingerprint() == self.expected(events)

    async def test_reset_empties_and_can_be_replayed(self) -> None:
        """From the first event on."""
        events = list(self.examples)
        async with self.store(1) as make:
            projector = await make()
            for _ in range(2):
                await projector.apply(events, Cut({0: len(events) - 1}))
                assert await projector.fingerprint() == self.expected(events)
                await projector.reset()
                assert await projector.cut() == Cut.empty(1)
                assert await projector.fingerprint() == self.expected([])

    async def test_going_back_is_refused(self) -> None:
        """A batch that ends before the cut is somebody's who does not know where the view is."""
        events = list(self.examples)
        async with self.store(1) as make:
            projector = await make()
            await projector.apply(events, Cut({0: len(events) - 1}))
            with pytest.raises(CutMovedError):
                await projector.apply(events[:1], Cut({0: 0}))
            assert await projector.cut() == Cut({0: len(events) - 1})
            assert await projector.fingerprint() == self.expected(events)

    async def test_a_late_owner_does_no_harm(self) -> None:
        """Paused while another owner took over, it learns that the cut has moved, and nothing has changed."""
        if not self.shared:
            pytest.skip("each projector has a store of its own")
        events = list(self.examples)
        third = len(events) // 3
        async with self.store(1) as make:
            late, new = await make(), await make()
            await late.apply(events[:third], Cut({0: third - 1}))
            assert await new.cut() == Cut({0: third - 1})
            await new.apply(events[third:], Cut({0: len(events) - 1}))
            with pytest.raises(CutMovedError):
                await late.apply(events[third : 2 * third], Cut({0: 2 * third - 1}))
            assert await new.fingerprint() == self.expected(events)
            assert await late.cut() == Cut({0: len(events) - 1})

    async def test_an_owner_behind_whom_the_view_was_emptied_is_refused(self) -> None:
        """Its batch does not follow what is stored: events between would be missing."""
        if not self.shared:
            pytest.skip("each projector has a store of its own")
        events = list(self.examples)
        third = len(events) // 3
        async with self.store(1) as make:
            owner = await make()
            await owner.apply(events[:third], Cut({0: third - 1}))
            await (await make()).reset()
            with pytest.raises(CutMovedError):
                await owner.apply(events[third:], Cut({0: len(events) - 1}))
            assert await owner.cut() == Cut.empty(1)
            await owner.apply(events, Cut({0: len(events) - 1}))
            assert await owner.fingerprint() == self.expected(events)

    async def test_two_owners_at_once_apply_each_batch_once(self) -> None:
        """Who loses the race reads the cut anew and goes on from there."""
        if not self.shared:
            pytest.skip("each projector has a store of its own")
        events = list(self.examples)
        async with self.store(1) as make:

            async def own() -> None:
                projector = await make()
                while (done := (await projector.cut()).positions[0] + 1) < len(events):
                    await _harmlessly(
                        projector.apply(events[done : done + 3], Cut({0: min(done + 3, len(events)) - 1}))
                    )

            await asyncio.gather(own(), own(), own())
            assert await (await make()).fingerprint() == self.expected(events)

    # -- reading ----------------------------------------------------------------------------------------

    async def test_every_read_is_of_its_cut_while_batches_are_applied(self) -> None:
        """Rows and cut are of the same moment, whatever is applied, rebuilt or reset meanwhile."""
        if not self.readable():
            pytest.skip("not a source of tables")
        events = list(self.examples)
        seen: set[int] = set()
        async with self.store(1) as make:
            writer, reader = await make(), await make() if self.shared else None
            finished = False

            async def read() -> None:
                source: Any = reader or writer
                while not finished:
                    for relation in self.readable():
                        rows, cut = await source.read(relation.name)
                        done = cut.positions[0] + 1
                        seen.add(done)
                        assert fingerprint({"": rows}) == fingerprint({"": self._fold(events[:done], relation)})
                    await asyncio.sleep(0)

            async def write() -> None:
                nonlocal finished
                try:
                    for _ in range(2):
                        for done in range(0, len(events), 2):
                            await writer.apply(events[done : done + 2], Cut({0: min(done + 2, len(events)) - 1}))
                        await self._rebuild(writer, events)
                        await writer.reset()
                finally:
                    finished = True

            await asyncio.gather(write(), read(), read())
        assert len(seen) > 1

    @staticmethod
    async def _rebuild(writer: Any, events: Sequence[Event]) -> None:
        if hasattr(writer, "shadow"):
            shadow = await writer.shadow()
            await shadow.apply(events, Cut({0: len(events) - 1}))
            await writer.adopt(shadow)
            await writer.cut()

    def _fold(self, events: Sequence[Event], relation: Relation) -> list[Any]:
        fold = Fold(self.folded())
        fold.apply(events)
        return fold.relation(relation)

    def folded(self) -> Sequence[Any]:
        """The tables that `readable` relations are of, or are derived from."""
        return ()


async def _harmlessly(applying: Awaitable[None]) -> None:
    """Applies what may have been applied before: that is nothing, or refused."""
    try:
        await applying
    except CutMovedError:
        return


async def _killed(applying: Any, moments: int) -> None:
    """Applies, and is killed at the given moment of it, if it lasts so long."""
    task = asyncio.ensure_future(applying)
    for _ in range(moments):
        if task.done():
            break
        await asyncio.sleep(0.0003)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _foreign(last: Event) -> Event:
    return Event(last.seq + 1, last.at_ms, "~foreign", last.entity_type, last.entity_id, None)
