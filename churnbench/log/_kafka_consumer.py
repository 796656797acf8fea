"""Reading from Kafka by assignment, in a thread of its own: no group is joined and nothing is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from churnbench.errors import ChurnBenchError, IncompleteError, TransientError, UsageError
from churnbench.log._kafka_cluster import Cluster
from churnbench.log._kafka_options import library
from churnbench.log._protocol import Record

__all__ = ["AssignReader"]

T = TypeVar("T")

_OWN: dict[str, object] = {
    "group.id": "churnbench-assign-only",  # the library wants one; it is never joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "check.crcs": True,
    "isolation.level": "read_uncommitted",
    "allow.auto.create.topics": False,
}
_TUNED: dict[str, object] = {
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 10,
}
_WAIT_MS = {True: 200, False: 1}
"""How long the broker may hold a fetch at the end of a partition; a bounded reader never needs what comes later."""
_POLL_SECONDS = 0.1
_FILL_SECONDS = 0.01
_PROBE_SECONDS = 1.0


class AssignReader:
    """One consumer and its thread, used for one read after the other.

    Args:
        cluster: where.
        follow: whether its reads follow.
    """

    def __init__(self, cluster: Cluster, *, follow: bool) -> None:
        self.follow = follow
        self._cluster = cluster
        self._library = library()
        self._thread = ThreadPoolExecutor(1, "kafka-reader")
        self._consumer: Any = cluster.client("Consumer", {**_TUNED, "fetch.wait.max.ms": _WAIT_MS[follow]}, _OWN)
        self._topic = ""
        self._limits: dict[int, int] | None = None
        self._open: dict[int, int] = {}
        self._stopped = False
        self._closed = False
        self._moved = 0.0

    async def start(self, topic: str, start: Mapping[int, int], limits: Mapping[int, int] | None) -> None:
        """Begins a read: partition -> first offset, and -> the offset to stop before where it is bounded."""
        self._stopped = False
        await self._run(lambda: self._assign(topic, start, limits))

    async def next(self, batch: int) -> list[list[Record]]:
        """The next batches, one partition each; empty only when a bounded read is done.

        Raises:
            TransientError: the cluster did not answer for as long as the patience lasts.
            IncompleteError: the records from the start offset on are no longer kept.
        """
        return await self._run(lambda: self._next(batch))

    def stop(self) -> None:
        """Ends a read; returns at once, the thread follows within a moment."""
        self._stopped = True
        self._thread.submit(self._unassign)

    def discard(self) -> None:
        """Ends the consumer and its thread; returns at once."""
        self._stopped = True
        if not self._closed:
            self._closed = True
            self._thread.submit(self._consumer.close)
            self._thread.shutdown(wait=False)

    async def close(self) -> None:
        """Ends the consumer and its thread, and waits for that."""
        self.discard()
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self, work: Callable[[], T]) -> T:
        def guarded() -> T:
            try:
                return work()
            except self._library.KafkaException as error:
                raise self._cluster.failure(error, "read", self._topic) from error

        return await asyncio.get_running_loop().run_in_executor(self._thread, guarded)

    def _assign(self, topic: str, start: Mapping[int, int], limits: Mapping[int, int] | None) -> None:
        self._topic = topic
        self._open = dict(start)
        self._limits = dict(limits) if limits is not None else None
        self._moved = self._cluster.clock.monotonic()
        self._consumer.assign([self._library.TopicPartition(topic, p, offset) for p, offset in start.items()])

    def _unassign(self) -> None:
        self._open = {}
        self._consumer.unassign()

    def _next(self, batch: int) -> list[list[Record]]:
        while self._open and not self._stopped:
            first = self._consumer.poll(_POLL_SECONDS)
            if first is None:
                self._idle()
                continue
            messages = [first]
            if batch > 1 and first.error() is None:
                want, fill = batch - 1, 0.0
                if self._limits is not None:
                    want = min(want, sum(self._limits[p] - at for p, at in self._open.items()) - 1)
                    fill = _FILL_SECONDS
                if want > 0:
                    messages += self._consumer.consume(want, fill)
            found = self._sorted(messages)
            if found:
                return found
        return []

    def _sorted(self, messages: list[Any]) -> list[list[Record]]:
        """The records of `messages` by partition, and the end of partitions that reached theirs."""
        topic, limits, following = self._topic, self._limits, self._open
        batches: dict[int, list[Record]] = {}
        for message in messages:
            part = message.partition()
            offset = message.offset()
            error = message.error()
            if error is not None:
                self._event(part, offset, error)
                continue
            if part not in following:
                continue
            if limits is not None and offset >= limits[part]:
                self._finish(part)
                continue
            headers = message.headers()
            record = Record(
                topic,
                part,
                offset,
                message.timestamp()[1],
                message.key(),
                message.value() or b"",
                tuple(headers) if headers else (),
            )
            if part in batches:
                batches[part].append(record)
            else:
                batches[part] = [record]
            following[part] = offset + 1
        self._moved = self._cluster.clock.monotonic()
        if batches and self._cluster.troubled:
            self._cluster.calm()
        if limits is not None:
            for part in batches:
                if following.get(part, 0) >= limits[part]:
                    self._finish(part)
        return list(batches.values())

    def _finish(self, part: int) -> None:
        if self._open.pop(part, None) is not None and self._open:
            self._consumer.incremental_unassign([self._library.TopicPartition(self._topic, part)])

    def _event(self, part: int, offset: int, error: Any) -> None:
        codes = self._library.KafkaError
        code = error.code()
        if code == codes._PARTITION_EOF:
            # The position may have passed offsets that hold no record.
            if self._limits is not None and part in self._open and offset >= self._limits[part]:
                self._finish(part)
        elif code in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            raise self._out_of_range(part)
        elif code != codes.GROUP_AUTHORIZATION_FAILED:  # no group is used
            failure = self._cluster.failure(error, "read", self._topic)
            if not isinstance(failure, TransientError):
                raise failure

    def _out_of_range(self, part: int) -> ChurnBenchError:
        wanted = self._open.get(part, 0)
        where = self._library.TopicPartition(self._topic, part)
        low, high = self._consumer.get_watermark_offsets(where, self._cluster.patience, cached=False)
        if wanted < low:
            return IncompleteError(
                f"{self._topic} partition {part} begins at offset {low}, so the records from {wanted} on are gone; "
                "publish it anew on a topic without retention"
            )
        return UsageError(f"{self._topic} partition {part} ends at offset {high}, before {wanted}; read from there")

    def _idle(self) -> None:
        """Nothing came: is the cluster there? A bounded read knows that records are missing; a follower must ask."""
        now = self._cluster.clock.monotonic()
        if self._limits is None:
            if not self._cluster.troubled:
                self._moved = now
                return
            where = self._library.TopicPartition(self._topic, next(iter(self._open)))
            try:
                self._consumer.get_watermark_offsets(where, _PROBE_SECONDS, cached=False)
            except self._library.KafkaException as error:
                why = self._cluster.text(error)
            else:
                self._cluster.calm()
                self._moved = now
                return
        else:
            why = "no record came"
        if now - self._moved >= self._cluster.patience:
            raise TransientError(
                f"Kafka at {self._cluster.name} did not answer a read of topic {self._topic!r} within "
                f"{self._cluster.patience:g} s ({why}); look at its brokers, then try again"
            )
