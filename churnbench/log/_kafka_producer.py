"""Appending to Kafka: idempotent, in order, without gaps, from a thread of its own.

One request a broker is in flight at a time. With more, a broker that was killed and has forgotten the producer
(it does so for records of long ago, see `producer.id.expiration.ms`) could take a later batch before an earlier
one, which leaves a gap; measured, one in flight is not slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from churnbench.errors import ChurnBenchError, TransientError, UsageError
from churnbench.log._kafka_cluster import Cluster, library
from churnbench.log._protocol import NewRecord

__all__ = ["Appender"]

_OWN: dict[str, object] = {
    "enable.idempotence": True,
    "acks": "all",
    "enable.gapless.guarantee": True,
    "max.in.flight": 1,
    "delivery.report.only.error": True,
    "message.timeout.ms": 0,  # the appender's own patience ends the waiting, for all records at once
}
_TUNED: dict[str, object] = {
    "compression.type": "lz4",
    "linger.ms": 50,  # fills batches; `flush` ends it
    "queue.buffering.max.messages": 200_000,
    "retry.backoff.ms": 50,
}
_HEALS = 5
_HINT_SECONDS = 3.0


class Appender:
    """One producer; all calls come from one thread.

    Args:
        cluster: where.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._library = library()
        self._producer: Any = None
        errors = self._library.KafkaError
        # The broker no longer knows what this producer wrote: a new one sends what was not acknowledged again.
        self._forgotten = {
            errors.OUT_OF_ORDER_SEQUENCE_NUMBER, errors.UNKNOWN_PRODUCER_ID, errors.INVALID_PRODUCER_EPOCH,
            errors.PRODUCER_FENCED, errors._GAPLESS_GUARANTEE, errors._INCONSISTENT, errors._FATAL,
            errors._PURGE_QUEUE, errors._PURGE_INFLIGHT,
        }  # fmt: skip

    def append(self, topic: str, partitions: int, records: Sequence[NewRecord]) -> None:
        """See `Log.append`.

        Args:
            topic: where.
            partitions: of the topic.
            records: what.

        Raises:
            UsageError: a record cannot be stored: its size, its time or its partition; nothing is sent.
            TransientError: the cluster took no record for as long as the patience lasts.
        """
        self._check(topic, partitions, records)
        left = records
        for _ in range(_HEALS):
            left = self._send(topic, left)
            if not left:
                return
            self.drop()
        raise TransientError(
            f"Kafka at {self._cluster.name} refused {len(left)} records for topic {topic!r} {_HEALS} times, because "
            "it forgot the producer; try again"
        )

    def _check(self, topic: str, partitions: int, records: Sequence[NewRecord]) -> None:
        limit = self._cluster.max_message_bytes
        for value, at_ms, partition, key, headers in records:
            if not 0 <= partition < partitions:
                raise UsageError(f"topic {topic!r} has partitions 0 to {partitions - 1}, not {partition}")
            if at_ms < 1:
                raise UsageError(
                    f"a record for topic {topic!r} has the time {at_ms} ms; Kafka takes times from 1 ms on"
                )
            size = len(value) + len(key or b"")
            if size > limit - 1024 and size + sum(len(name) + len(item) + 16 for name, item in headers) + 64 > limit:
                raise UsageError(
                    f"a record for topic {topic!r} has {size} bytes, but the Kafka option message.max.bytes is "
                    f"{limit}; raise it, and the topic's max.message.bytes with it"
                )

    def _send(self, topic: str, records: Sequence[NewRecord]) -> Sequence[NewRecord]:
        """Sends `records`; those that were not acknowledged because the broker forgot the producer."""
        producer, failed = self.open(), _Failures()
        sent = 0
        waiting = _Waiting(self._cluster, topic)
        try:
            for value, at_ms, partition, key, headers in records:
                while not failed.errors:
                    try:
                        producer.produce(topic, value, key, partition, failed.note, None, at_ms, list(headers))
                        sent += 1
                        break
                    except BufferError:
                        producer.poll(0.2)
                        waiting.check(len(producer))
                if failed.errors:
                    break
            while remaining := producer.flush(0.2):
                waiting.check(remaining)
        except ChurnBenchError:
            self.drop()
            raise
        except self._library.KafkaException as error:
            self.drop()
            if error.args[0].code() not in self._forgotten:
                raise self._cluster.failure(error, "append to", topic) from error
            return failed.left(records, sent)
        self._cluster.calm()
        if not failed.errors:
            return ()
        self.drop()
        for reported in failed.errors:
            if reported.code() not in self._forgotten:
                raise self._cluster.failure(reported, "append to", topic)
        return failed.left(records, sent)

    def open(self) -> Any:
        """The producer; a new one needs half a second to get its identity, in the background."""
        if self._producer is None:
            self._producer = self._cluster.client("Producer", {**_TUNED, **self._given(), **_OWN})
        return self._producer

    def _given(self) -> dict[str, object]:
        """The options over what is tuned here."""
        return {name: value for name, value in self._cluster.config({}).items() if name in _TUNED}

    def drop(self) -> None:
        """Ends the producer; what it has not sent yet counts as failed."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(1)


class _Failures:
    """What was not acknowledged, of one append: within a partition always its last records."""

    def __init__(self) -> None:
        self.errors: list[Any] = []
        self.partitions: dict[int, int] = {}

    def note(self, error: Any, message: Any) -> None:
        """Called once for each failed record."""
        if error is not None:
            self.errors.append(error)
            self.partitions[message.partition()] = self.partitions.get(message.partition(), 0) + 1

    def left(self, records: Sequence[NewRecord], sent: int) -> list[NewRecord]:
        """The records to send again, of which the first `sent` had been sent."""
        stored: dict[int, int] = {}
        for record in records[:sent]:
            stored[record.partition] = stored.get(record.partition, 0) + 1
        for partition, count in self.partitions.items():
            stored[partition] -= count
        again = []
        for record in records:
            if stored.get(record.partition, 0) > 0:
                stored[record.partition] -= 1
            else:
                again.append(record)
        return again


class _Waiting:
    """Gives up when nothing moved for as long as the patience lasts."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._left = -1
        self._since = cluster.clock.monotonic()
        self._said = False

    def check(self, left: int) -> None:
        now = self._cluster.clock.monotonic()
        if left != self._left:
            self._left, self._since, self._said = left, now, False
            return
        stood = now - self._since
        if stood >= self._cluster.patience:
            raise TransientError(
                f"Kafka at {self._cluster.name} took none of {left} records for topic {self._topic!r} within "
                f"{self._cluster.patience:g} s; look at its brokers, then try again"
            )
        if stood >= _HINT_SECONDS and not self._said:
            self._said = True
            self._cluster.say(
                f"waiting for Kafka at {self._cluster.name} to take {left} records for topic {self._topic!r}"
            )
