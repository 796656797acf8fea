"""From the outbox to the topic `refreshes`: each event once, whatever broke in between."""

from __future__ import annotations

from churnbench.runs import Run
from churnbench_refresher._staged import StagedCache

__all__ = ["OutboxPublisher"]


class OutboxPublisher:
    """Publishes the events of refreshes.

    It knows what the topic holds, so an event whose mark was lost is not appended again; two publishers at the
    same moment may repeat one, which readers drop by (run, table, tick).

    Args:
        cache: whose outbox.
        run: whose topic.
    """

    def __init__(self, cache: StagedCache, run: Run) -> None:
        self._cache = cache
        self._topic = run.topic("refreshes")
        self._known: set[tuple[str, int]] = set()
        self._next = 0

    async def publish(self, *, recover: bool = False) -> int:
        """Appends what the topic lacks and marks it; how many were appended.

        Args:
            recover: look at the events that are marked too, because a log that lost its last records on a power
                failure has to get them back.
        """
        waiting = await self._cache.outbox(published=recover)
        if not waiting:
            return 0
        async for offset, refresh in self._topic.read(self._next):
            self._known.add((refresh.table, refresh.tick))
            self._next = offset + 1
        missing = [refresh for refresh in waiting if (refresh.table, refresh.tick) not in self._known]
        for refresh in missing:
            await self._topic.append([refresh], refresh.at_ms)
        await self._cache.mark_published([(refresh.table, refresh.tick) for refresh in waiting])
        return len(missing)
