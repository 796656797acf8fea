"""The Kafka engine of the log: topics of a cluster, through librdkafka.

Records go to Kafka as they are: value, key, headers, and the time as CreateTime, so that any Kafka tool reads them
and can rewind to a simulated date. Appends are idempotent and leave no gaps, but a broker that is killed may have
stored a record twice (`LedgerReader` drops the repeat). Kafka takes times from 1 ms after 1970 on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from churnbench.clock import Clock
from churnbench.errors import NotFoundError, UsageError
from churnbench.log._kafka_cluster import Cluster, Say
from churnbench.log._kafka_consumer import AssignReader
from churnbench.log._kafka_options import ClusterOptions
from churnbench.log._kafka_producer import Appender
from churnbench.log._kafka_topics import KafkaTopics
from churnbench.log._protocol import NewRecord, Record

__all__ = ["KafkaLog"]

_KEPT_READERS = 4


class KafkaLog:
    """A `Log` on a Kafka cluster; making one does not connect yet.

    Args:
        servers: bootstrap servers, `host:port` with commas between.
        options: librdkafka's options, for example `security.protocol`, `sasl.mechanism`, `sasl.username`,
            `sasl.password`, `ssl.ca.location`, `message.max.bytes`. Secret ones, as `SecretStr` or plain text,
            appear in no text.
        replication: copies of each partition of a new topic; -1: the cluster's default.
        patience: seconds after which a cluster that does not answer is given up, by every call.
        say: told in a line what is waited for; None: the logger `churnbench.log`.
        clock: for the waiting; None: the machine's.

    All methods raise `TransientError` where the cluster does not answer and `UsageError` where it refuses the
    login, a permission, or has a topic whose settings would lose events.

    Raises:
        UsageError: no servers, an unusable option, or confluent-kafka is not installed.
    """

    def __init__(
        self,
        servers: str,
        options: Mapping[str, object] | None = None,
        *,
        replication: int = -1,
        patience: float = 60.0,
        say: Say | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._cluster = Cluster(ClusterOptions(servers, options), patience, say, clock)
        self._topics = KafkaTopics(self._cluster, replication)
        self._appender = Appender(self._cluster)
        self._writer = ThreadPoolExecutor(1, "kafka-writer")
        self._idle: list[AssignReader] = []
        self._busy: set[AssignReader] = set()
        self._closed = False

    def __repr__(self) -> str:
        """The address alone; options may hold secrets."""
        return f"KafkaLog({self._cluster.name!r})"

    async def connect(self) -> None:
        """Waits until the cluster answers; every other call does so too, the first time.

        Raises:
            TransientError: it did not within the patience.
            UsageError: it refused the login.
        """
        self._check_open()
        await self._cluster.reach()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"the log at {self._cluster.name} is closed")

    async def create_topic(self, topic: str, partitions: int = 1) -> None:
        """See `Log.create_topic`.

        Raises:
            UsageError: it exists with other partitions, or with settings that would lose or refuse events.
        """
        self._check_open()
        await asyncio.get_running_loop().run_in_executor(self._writer, self._appender.open)
        await self._topics.create(topic, partitions)

    async def topics(self) -> dict[str, int]:
        """See `Log.topics`."""
        self._check_open()
        return await self._topics.names()

    async def delete_topic(self, topic: str) -> None:
        """See `Log.delete_topic`."""
        self._check_open()
        await self._topics.delete(topic)
        # Clients remember the deleted topic's offsets and sequences; one of the same name starts anew.
        await asyncio.get_running_loop().run_in_executor(self._writer, self._appender.drop)
        idle, self._idle = self._idle, []
        for reader in idle:
            await reader.close()

    async def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """See `Log.append`.

        Raises:
            UsageError: a record is too large or its time is before 1 ms; nothing was stored.
        """
        self._check_open()
        if not records:
            return
        partitions = await self._topics.partitions(topic)
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._writer, self._appender.append, topic, partitions, records
            )
        except NotFoundError:
            self._topics.forget(topic)
            raise

    async def read(
        self,
        topic: str,
        start: Mapping[int, int],
        *,
        end: Mapping[int, int] | None = None,
        follow: bool = False,
        batch: int = 5000,
    ) -> AsyncGenerator[list[Record], None]:
        """See `Log.read`.

        Raises:
            IncompleteError: the records from a start offset on are no longer kept.
        """
        self._check_open()
        if follow and end is not None:
            raise UsageError("a read either follows or has an end")
        known = await self._topics.partitions(topic)
        wanted = {part: max(offset, 0) for part, offset in start.items()}
        limits: dict[int, int] | None = None
        if follow:
            strange = [part for part in wanted if not 0 <= part < known]
            if strange:
                raise UsageError(f"topic {topic!r} has partitions 0 to {known - 1}, not {strange[0]}")
        else:
            present = await self.end_offsets(topic)
            limits = {p: min(present[p], end.get(p, 0) if end is not None else present[p]) for p in present}
            wanted = {part: offset for part, offset in wanted.items() if offset < limits.get(part, 0)}
        if not wanted:
            return
        reader = self._reader(follow=follow)
        healthy = False
        try:
            await reader.start(topic, wanted, limits)
            while batches := await reader.next(batch):
                healthy = True
                for got in batches:
                    yield got
        except NotFoundError:
            self._topics.forget(topic)
            raise
        finally:
            self._release(reader, reuse=healthy)

    def _reader(self, *, follow: bool) -> AssignReader:
        for index, reader in enumerate(self._idle):
            if reader.follow == follow:
                found = self._idle.pop(index)
                break
        else:
            found = AssignReader(self._cluster, follow=follow)
        self._busy.add(found)
        return found

    def _release(self, reader: AssignReader, *, reuse: bool) -> None:
        reader.stop()
        self._busy.discard(reader)
        if reuse and not self._closed and len(self._idle) < _KEPT_READERS:
            self._idle.append(reader)
        else:
            reader.discard()

    async def beginning_offsets(self, topic: str) -> dict[int, int]:
        """See `Log.beginning_offsets`."""
        self._check_open()
        return await self._topics.offsets(topic, "earliest")

    async def end_offsets(self, topic: str) -> dict[int, int]:
        """See `Log.end_offsets`."""
        self._check_open()
        return await self._topics.offsets(topic, "latest")

    async def offsets_after(self, topic: str, time_ms: int) -> dict[int, int | None]:
        """See `Log.offsets_after`."""
        self._check_open()
        found = await self._topics.offsets(topic, "for_timestamp", max(time_ms + 1, 0))
        return {part: offset if offset >= 0 else None for part, offset in found.items()}

    async def close(self) -> None:
        """See `Log.close`."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writer, self._appender.drop)
        self._writer.shutdown(wait=False)
        for reader in [*self._idle, *self._busy]:
            await reader.close()
        self._idle.clear()
