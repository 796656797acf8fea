"""Topics of a Kafka cluster: made with settings that keep every record for ever, and checked for them."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from churnbench.errors import NotFoundError, TransientError, UsageError
from churnbench.log._kafka_cluster import Cluster

__all__ = ["KafkaTopics"]

_FOREVER = str((1 << 63) - 1)
_SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _FOREVER,
    "message.timestamp.after.max.ms": _FOREVER,
}
_BATCH_OVERHEAD = 1 << 10
"""Bytes of a record batch beside its records: the broker's limit is on batches, the client's on records."""


class KafkaTopics:
    """Creates, checks, lists and deletes topics.

    Args:
        cluster: where.
        replication: copies of each partition of a new topic; -1: the cluster's default.
    """

    def __init__(self, cluster: Cluster, replication: int = -1) -> None:
        self._cluster = cluster
        self._replication = replication
        self._checked: dict[str, int] = {}
        self._admin_module = importlib.import_module("confluent_kafka.admin")
        self._library = importlib.import_module("confluent_kafka")

    async def partitions(self, topic: str) -> int:
        """The number of partitions; the settings are checked the first time.

        Raises:
            NotFoundError: there is no such topic.
            UsageError: its settings would lose or refuse events.
        """
        known = self._checked.get(topic)
        if known is None:
            await self._cluster.reach()
            known = await self._described(topic)
            await self._check(topic)
            self._checked[topic] = known
        return known

    def forget(self, topic: str) -> None:
        """Drops what is known of `topic`."""
        self._checked.pop(topic, None)

    async def names(self) -> dict[str, int]:
        """Every topic and its partitions, without the broker's own."""
        await self._cluster.reach()
        admin, patience = self._cluster.admin, self._cluster.patience
        found = await self._cluster.ask(
            lambda: {"": asyncio.ensure_future(asyncio.to_thread(admin.list_topics, None, patience))}, "list topics"
        )
        listed = found[""].topics
        return {name: len(listed[name].partitions) for name in sorted(listed) if not name.startswith("__")}

    async def create(self, topic: str, partitions: int) -> None:
        """See `Log.create_topic`; a topic that is there must have the settings."""
        if partitions < 1:
            raise UsageError(f"a topic has at least 1 partition, not {partitions}")
        await self._cluster.reach()
        new = self._admin_module.NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=self._replication,
            config={**_SETTINGS, "max.message.bytes": str(self._cluster.options.max_message_bytes + _BATCH_OVERHEAD)},
        )
        admin, patience = self._cluster.admin, self._cluster.patience
        await self._cluster.ask(
            lambda: admin.create_topics([new], request_timeout=patience, operation_timeout=patience),
            "create",
            topic,
            frozenset({self._library.KafkaError.TOPIC_ALREADY_EXISTS}),
        )
        found = await self._settled(topic)
        if found != partitions:
            raise UsageError(f"topic {topic!r} has {found} partitions, not {partitions}")
        await self._check(topic)
        self._checked[topic] = found

    async def delete(self, topic: str) -> None:
        """See `Log.delete_topic`; returns when the cluster no longer shows it."""
        await self._cluster.reach()
        self.forget(topic)
        admin, patience = self._cluster.admin, self._cluster.patience
        await self._cluster.ask(
            lambda: admin.delete_topics([topic], request_timeout=patience, operation_timeout=patience),
            "delete",
            topic,
            frozenset({self._library.KafkaError.UNKNOWN_TOPIC_OR_PART}),
        )
        deadline = self._cluster.clock.monotonic() + patience
        while topic in await self.names():
            if self._cluster.clock.monotonic() > deadline:
                raise TransientError(f"Kafka at {self._cluster.name} still shows topic {topic!r}, which was deleted")
            await asyncio.sleep(0.02)

    async def offsets(self, topic: str, which: str, *arguments: int) -> dict[int, int]:
        """Partition -> offset; -1 where no record is as late as the time asked for.

        Args:
            topic: of which.
            which: `earliest`, `latest` or `for_timestamp`.
            arguments: the time in milliseconds for the last.
        """
        count = await self.partitions(topic)
        wanted = getattr(self._admin_module.OffsetSpec, which)(*arguments)
        request = {self._library.TopicPartition(topic, part): wanted for part in range(count)}
        admin, patience, lowest = self._cluster.admin, self._cluster.patience, -1 if arguments else 0
        try:
            found = await self._cluster.ask(
                lambda: admin.list_offsets(request, request_timeout=patience),
                "list the offsets of",
                topic,
                usable=lambda result: result.offset >= lowest,
            )
        except NotFoundError:
            self.forget(topic)
            raise
        return {part: found[place].offset for part, place in enumerate(request)}

    async def _described(self, topic: str) -> int:
        """The number of partitions, each with a leader, or 0 while one has none."""
        wanted = self._library.TopicCollection([topic])
        admin, patience = self._cluster.admin, self._cluster.patience
        found = await self._cluster.ask(
            lambda: admin.describe_topics(wanted, request_timeout=patience), "describe", topic
        )
        partitions = found[topic].partitions
        return len(partitions) if all(part.leader is not None and part.leader.id >= 0 for part in partitions) else 0

    async def _settled(self, topic: str) -> int:
        """The number of partitions as soon as the cluster shows the new topic with leaders."""
        deadline = self._cluster.clock.monotonic() + self._cluster.patience
        while True:
            try:
                found = await self._described(topic)
            except NotFoundError:
                found = 0
            if found:
                return found
            if self._cluster.clock.monotonic() > deadline:
                raise TransientError(
                    f"Kafka at {self._cluster.name} has no leader for topic {topic!r}; look at its brokers"
                )
            await asyncio.sleep(0.02)

    async def _check(self, topic: str) -> None:
        resource = self._admin_module.ConfigResource(self._admin_module.ConfigResource.Type.TOPIC, topic)
        admin, patience = self._cluster.admin, self._cluster.patience
        answer = await self._cluster.ask(
            lambda: admin.describe_configs([resource], request_timeout=patience), "read the settings of", topic
        )
        found: dict[str, Any] = answer[resource]
        values = {name: entry.value for name, entry in found.items()}
        wrong = {name: wanted for name, wanted in _SETTINGS.items() if values.get(name) != wanted}
        needed = self._cluster.options.max_message_bytes
        if int(values.get("max.message.bytes", 0)) < needed:
            wrong["max.message.bytes"] = str(needed + _BATCH_OVERHEAD)
        if wrong:
            had = ", ".join(f"{name}={values.get(name)}" for name in wrong)
            mended = ",".join(f"{name}={wanted}" for name, wanted in wrong.items())
            raise UsageError(
                f"topic {topic!r} at {self._cluster.name} has {had}, so that it would lose or refuse events; mend it "
                f"with: kafka-configs.sh --bootstrap-server {self._cluster.name} --alter --topic {topic} "
                f"--add-config {mended}"
            )
