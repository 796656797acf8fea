"""Appending to Kafka: idempotent, in order, without gaps, from a thread of its own.

One request a broker is in flight at a time. With more, a broker that was killed and has forgotten the producer
(it does so for records of long ago, see `producer.id.expiration.ms`) could take a later batch before an earlier
one, which leaves a gap; measured, one in flight is not slower.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from churnbench.errors import TransientError, UsageError
from churnbench.log._kafka_cluster import Cluster
from churnbench.log._kafka_options import library
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
_HINT_SECONDS = 3.0
_SETTLE_TRIES = 20


class Appender:
    """One producer; all calls come from one thread.

    After a failure the producer is dropped with all that it had not sent, so that nothing can be stored after
    records that were not.

    Args:
        cluster: where.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._library = library()
        self._producer: Any = None
        errors = self._library.KafkaError
        self._consequences = {
            errors._GAPLESS_GUARANTEE, errors._FATAL, errors._PURGE_QUEUE, errors._PURGE_INFLIGHT,
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
        failed: list[Any] = []
        try:
            self._send(topic, records, failed)
        except BaseException as error:
            producer, self._producer = self._producer, None
            # A producer that has failed for good raises that in place of a call's own result, and in that of
            # delivery reports too, as SystemError.
            if isinstance(error, (self._library.KafkaException, SystemError)):
                self._settle(producer)
                raise self._cluster.failure(self._cause(failed, error), "append to", topic) from error
            if producer is not None:
                producer.purge()
            raise
        if failed:
            self.drop()
            raise self._cluster.failure(self._cause(failed, failed[0]), "append to", topic)
        self._cluster.calm()

    def _settle(self, producer: Any) -> None:
        """Waits for the reports of what failed."""
        for _ in range(_SETTLE_TRIES):
            with contextlib.suppress(self._library.KafkaException, SystemError):
                if producer.flush(0.1) == 0:
                    return
        producer.purge()

    def _cause(self, failed: list[Any], error: Any) -> Any:
        """The error that the others follow from."""
        for reported in failed:
            if reported.code() not in self._consequences:
                return reported
        return error

    def _check(self, topic: str, partitions: int, records: Sequence[NewRecord]) -> None:
        limit = self._cluster.options.max_message_bytes
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

    def _send(self, topic: str, records: Sequence[NewRecord], failed: list[Any]) -> None:
        """Sends `records` and waits until they are stored, or until some are noted in `failed`."""
        producer = self.open()

        def note(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error)

        waiting = _Waiting(self._cluster, topic)
        for value, at_ms, partition, key, headers in records:
            while not failed:
                try:
                    producer.produce(topic, value, key, partition, note, None, at_ms, list(headers))
                    break
                except BufferError:
                    producer.poll(0.2)
                    waiting.check(len(producer))
            if failed:
                return
        while not failed and (remaining := producer.flush(0.2)):
            waiting.check(remaining)

    def open(self) -> Any:
        """The producer; a new one needs half a second to get its identity, in the background."""
        if self._producer is None:
            self._producer = self._cluster.client("Producer", _TUNED, _OWN)
        return self._producer

    def drop(self) -> None:
        """Ends the producer with what it has not sent yet; the next append has a new one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()


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
