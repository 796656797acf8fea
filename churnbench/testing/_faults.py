"""A log and a projector that fail on purpose."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Mapping, Sequence

from churnbench.cuts import Cut
from churnbench.errors import SourceUnavailableError
from churnbench.events import Event
from churnbench.log import Log, NewRecord, Record
from churnbench.sources import Projector

__all__ = ["FaultyLog", "FaultyProjector"]


class _Faults:
    """Draws failures.

    Args:
        probability: of a failure at each point, 0 to 1.
        draw: where the draws come from.
        most: failures in all; None for no end.
    """

    def __init__(self, probability: float, draw: random.Random, most: int | None) -> None:
        self._probability = probability
        self._draw = draw
        self._left = most
        self.raised = 0

    def point(self, where: str) -> None:
        """Fails here, or not."""
        if self._left != 0 and self._draw.random() < self._probability:
            self._left = None if self._left is None else self._left - 1
            self.raised += 1
            raise SourceUnavailableError(f"a fault was injected {where}")


class FaultyLog:
    """A `Log` whose appends and reads fail with a probability; the rest is passed through.

    An append fails before anything is stored or after everything is, as a broker's may. A read fails between batches.

    Args:
        log: the real one.
        probability: of a failure at each point, 0 to 1.
        draw: where the draws come from.
        most: failures in all; None for no end.
    """

    def __init__(self, log: Log, probability: float, draw: random.Random, most: int | None = None) -> None:
        self._log = log
        self._faults = _Faults(probability, draw, most)

    @property
    def raised(self) -> int:
        """How many failures there were."""
        return self._faults.raised

    async def create_topic(self, topic: str, partitions: int = 1) -> None:
        """See `Log.create_topic`."""
        await self._log.create_topic(topic, partitions)

    async def topics(self) -> dict[str, int]:
        """See `Log.topics`."""
        return await self._log.topics()

    async def delete_topic(self, topic: str) -> None:
        """See `Log.delete_topic`."""
        await self._log.delete_topic(topic)

    async def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """See `Log.append`."""
        self._faults.point(f"before an append to {topic}")
        await self._log.append(topic, records)
        self._faults.point(f"after an append to {topic}")

    async def read(
        self,
        topic: str,
        start: Mapping[int, int],
        *,
        end: Mapping[int, int] | None = None,
        follow: bool = False,
        batch: int = 5000,
    ) -> AsyncGenerator[list[Record], None]:
        """See `Log.read`."""
        async for got in self._log.read(topic, start, end=end, follow=follow, batch=batch):
            self._faults.point(f"reading {topic}")
            yield got

    async def beginning_offsets(self, topic: str) -> dict[int, int]:
        """See `Log.beginning_offsets`."""
        return await self._log.beginning_offsets(topic)

    async def end_offsets(self, topic: str) -> dict[int, int]:
        """See `Log.end_offsets`."""
        return await self._log.end_offsets(topic)

    async def offsets_after(self, topic: str, time_ms: int) -> dict[int, int | None]:
        """See `Log.offsets_after`."""
        return await self._log.offsets_after(topic, time_ms)

    async def close(self) -> None:
        """See `Log.close`."""
        await self._log.close()


class FaultyProjector:
    """A `Projector` whose applying fails with a probability, before or after the batch is stored.

    Args:
        projector: the real one.
        probability: of a failure at each point, 0 to 1.
        draw: where the draws come from.
        most: failures in all; None for no end.
    """

    def __init__(self, projector: Projector, probability: float, draw: random.Random, most: int | None = None) -> None:
        self.name = projector.name
        self.kinds = projector.kinds
        self._projector = projector
        self._faults = _Faults(probability, draw, most)

    @property
    def raised(self) -> int:
        """How many failures there were."""
        return self._faults.raised

    async def cut(self) -> Cut:
        """See `Projector.cut`."""
        return await self._projector.cut()

    async def apply(self, events: Sequence[Event], cut: Cut) -> None:
        """See `Projector.apply`."""
        self._faults.point("before a batch")
        await self._projector.apply(events, cut)
        self._faults.point("after a batch was stored")

    async def reset(self) -> None:
        """See `Projector.reset`."""
        await self._projector.reset()

    async def fingerprint(self) -> str:
        """See `Projector.fingerprint`."""
        return await self._projector.fingerprint()

    async def close(self) -> None:
        """See `Projector.close`."""
        await self._projector.close()
