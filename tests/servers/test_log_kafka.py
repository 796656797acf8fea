"""The Kafka engine keeps the log's contract on a real broker, and keeps every record as it is."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

import pytest

from churnbench.cuts import Cut
from churnbench.errors import IncompleteError, NotFoundError, UsageError
from churnbench.log import KafkaLog, LedgerReader, LedgerWriter, Log, NewRecord, cut_at, ledger_end
from churnbench.testing._log_contract import LogContract, read_all
from tests.toy import TOY
from tools.servers import Server

confluent_kafka = pytest.importorskip("confluent_kafka")
admin_module = pytest.importorskip("confluent_kafka.admin")

pytestmark = pytest.mark.kafka
_names = itertools.count()


@asynccontextmanager
async def opened(servers: str, **settings: Any) -> AsyncIterator[KafkaLog]:
    log = KafkaLog(servers, **settings)
    try:
        yield log
    finally:
        await log.close()


def fresh(name: str = "topic") -> str:
    return f"{name}-{next(_names)}"


class TestKafkaLog(LogContract):
    @pytest.fixture(autouse=True)
    def _broker(self, broker: Server) -> None:
        self._servers = broker.url

    def opened(self) -> AbstractAsyncContextManager[Log]:
        return opened(self._servers)

    def topic(self) -> str:
        return fresh("contract")


def records(count: int, start: int = 0) -> list[NewRecord]:
    return [NewRecord(f"v{n}".encode(), 1_704_067_200_000 + n) for n in range(start, start + count)]


@functools.cache
def admin(servers: str) -> Any:
    """A client of the tests' own, to see the cluster's truth and to change it behind the log's back."""
    return admin_module.AdminClient({"bootstrap.servers": servers, "log_level": 0})


def settings_of(servers: str, topic: str) -> dict[str, str]:
    resource = admin_module.ConfigResource(admin_module.ConfigResource.Type.TOPIC, topic)
    answer = admin(servers).describe_configs([resource])
    return {name: entry.value for name, entry in answer[resource].result().items()}


def alter(servers: str, topic: str, name: str, value: str) -> None:
    """Changes a topic's setting, as an operator would behind our back."""
    operation = admin_module.AlterConfigOpType.SET
    resource = admin_module.ConfigResource(
        admin_module.ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[admin_module.ConfigEntry(name, value, incremental_operation=operation)],
    )
    admin(servers).incremental_alter_configs([resource])[resource].result()


async def test_a_new_topic_keeps_every_record_for_ever(broker: Server) -> None:
    topic = fresh()
    async with opened(broker.url) as log:
        await log.create_topic(topic)
    found = settings_of(broker.url, topic)
    assert (found["retention.ms"], found["retention.bytes"], found["cleanup.policy"]) == ("-1", "-1", "delete")
    assert found["message.timestamp.type"] == "CreateTime"
    assert found["message.timestamp.before.max.ms"] == found["message.timestamp.after.max.ms"] == str(2**63 - 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "604800000"),
        ("retention.bytes", "1000000"),
        ("cleanup.policy", "compact"),
        ("message.timestamp.type", "LogAppendTime"),
        ("message.timestamp.after.max.ms", "3600000"),
        ("message.timestamp.before.max.ms", "3600000"),
        ("max.message.bytes", "1000"),
    ],
)
async def test_a_changed_setting_is_refused_with_the_command_that_mends_it(
    broker: Server, name: str, value: str
) -> None:
    topic = fresh()
    async with opened(broker.url) as log:
        await log.create_topic(topic)
        await log.append(topic, records(1))
    alter(broker.url, topic, name, value)
    for attempt in range(4):
        async with opened(broker.url) as log:
            with pytest.raises(
                UsageError, match=f"{name}={value}.*--alter --topic {topic} --add-config {name}="
            ) as got:
                if attempt == 0:
                    await log.create_topic(topic)
                elif attempt == 1:
                    await log.append(topic, records(1))
                elif attempt == 2:
                    await read_all(log, topic, {0: 0})
                else:
                    await log.end_offsets(topic)
            assert "\n" not in str(got.value)


async def test_a_ledger_whose_beginning_is_gone_is_refused(broker: Server) -> None:
    topic = fresh()
    async with opened(broker.url) as log:
        await log.create_topic(topic)
        events = list(TOY.simulate(TOY.parameters("small", {}), 7))[:50]
        await LedgerWriter(log, topic, TOY.codec, 1).append(events)
        place = confluent_kafka.TopicPartition(topic, 0, 10)
        admin(broker.url).delete_records([place])[place].result()
        assert await log.beginning_offsets(topic) == {0: 10}
        with pytest.raises(IncompleteError, match="begins at offset 10"):
            await LedgerReader(log, topic, TOY.codec).events(Cut.empty(1))
        with pytest.raises(IncompleteError, match="begins at offset 10, so the records from 3 on are gone"):
            await read_all(log, topic, {0: 3})
        assert len(await read_all(log, topic, {0: 10})) == 40


async def test_a_ledger_of_2024_is_cut_by_its_own_time(broker: Server) -> None:
    topic, events = fresh(), list(TOY.simulate(TOY.parameters("small", {}), 7))
    async with opened(broker.url) as log:
        await log.create_topic(topic, 4)
        end = await LedgerWriter(log, topic, TOY.codec, 4).append(events)
        assert (await ledger_end(log, topic))[0] == end
        middle = events[len(events) // 2].at_ms
        cut = await cut_at(log, topic, middle)
        got = await LedgerReader(log, topic, TOY.codec).events(Cut.empty(4), cut)
        assert got == [event for event in events if event.at_ms <= middle]


async def test_readers_join_no_group_and_commit_nothing(broker: Server) -> None:
    topic = fresh()
    async with opened(broker.url) as log:
        await log.create_topic(topic)
        await log.append(topic, records(10))
        assert len(await read_all(log, topic, {0: 0})) == 10
        listed = admin(broker.url).list_consumer_groups().result()
        assert (listed.valid, listed.errors) == ([], [])


async def test_follow_is_cancelled_at_once_and_the_log_goes_on(broker: Server) -> None:
    topic = fresh()
    async with opened(broker.url) as log:
        await log.create_topic(topic)
        for _ in range(5):
            following = asyncio.create_task(anext(log.read(topic, {0: 0}, follow=True)))
            await asyncio.sleep(0.2)
            began = time.monotonic()
            following.cancel()
            with pytest.raises(asyncio.CancelledError):
                await following
            assert time.monotonic() - began < 0.1
        await log.append(topic, records(3))
        async with aclosing(log.read(topic, {0: 1}, follow=True)) as reading:
            assert [r.value for r in await asyncio.wait_for(anext(reading), 10)] == [b"v1", b"v2"]
            began = time.monotonic()
        assert time.monotonic() - began < 0.1


async def test_a_follower_hears_of_a_record_at_once(broker: Server) -> None:
    topic, heard = fresh(), []
    async with opened(broker.url) as log:
        await log.create_topic(topic)

        async def follow() -> None:
            async with aclosing(log.read(topic, {0: 0}, follow=True)) as reading:
                async for batch in reading:
                    heard.extend((time.monotonic(), r.value) for r in batch)
                    if len(heard) >= 20:
                        return

        task = asyncio.create_task(follow())
        sent = []
        for n in range(20):
            await asyncio.sleep(0.02)
            await log.append(topic, records(1, n))
            sent.append(time.monotonic())
        await asyncio.wait_for(task, 10)
    delays = sorted(at - began for (at, _), began in zip(heard, sent, strict=True))
    assert delays[len(delays) // 2] < 0.1


async def test_a_record_of_megabytes_is_stored(broker: Server) -> None:
    topic, big = fresh(), os.urandom(10_000_000)
    async with opened(broker.url) as log:
        await log.create_topic(topic)
        await log.append(topic, [NewRecord(b"before", 1), NewRecord(big, 1), NewRecord(b"after", 1)])
        assert [r.value for r in await read_all(log, topic, {0: 0})] == [b"before", big, b"after"]


async def test_a_record_that_is_too_large_is_refused_in_one_line_and_nothing_is_stored(broker: Server) -> None:
    topic = fresh()
    async with opened(broker.url, options={"message.max.bytes": 100_000}) as log:
        await log.create_topic(topic)
        with pytest.raises(UsageError, match=r"has 100001 bytes, but .* message.max.bytes is 100000; raise it") as got:
            await log.append(
                topic, [NewRecord(b"before", 1), NewRecord(os.urandom(100_001), 1), NewRecord(b"after", 1)]
            )
        assert "\n" not in str(got.value)
        assert await read_all(log, topic, {0: 0}) == []
        for near in (99_800, 99_900, 99_950):
            try:
                await log.append(topic, [NewRecord(os.urandom(near), 1, 0, None, (("pseq", b"0"),))])
            except UsageError as error:
                assert "message.max.bytes" in str(error)


async def test_nothing_is_stored_after_a_record_that_the_broker_refused(broker: Server) -> None:
    topic = fresh()
    async with opened(broker.url) as log:
        await log.create_topic(topic)
        await log.append(topic, records(1))
        alter(broker.url, topic, "max.message.bytes", "50000")
        many = [NewRecord(os.urandom(60_000), 1) if n == 2 else NewRecord(f"v{n}".encode(), 1) for n in range(1, 4000)]
        with pytest.raises(UsageError, match="larger than Kafka takes"):
            await log.append(topic, many)
        alter(broker.url, topic, "max.message.bytes", str(32 << 20))
        stored = [r.value for r in await read_all(log, topic, {0: 0})]
        assert stored in ([b"v0"], [b"v0", b"v1"])
        await log.append(topic, [NewRecord(b"next", 1)])
        assert [r.value for r in await read_all(log, topic, {0: 0})] == [*stored, b"next"]


async def test_what_cannot_be_stored_is_refused_before_anything_is(broker: Server) -> None:
    topic = fresh()
    async with opened(broker.url) as log:
        await log.create_topic(topic, 2)
        for wrong, why in [
            (NewRecord(b"", 1, 2), "partitions 0 to 1, not 2"),
            (NewRecord(b"", 1, -1), "partitions 0 to 1, not -1"),
            (NewRecord(b"", 0), "time 0 ms"),
        ]:
            with pytest.raises(UsageError, match=why):
                await log.append(topic, [NewRecord(b"fine", 1), wrong])
        with pytest.raises(UsageError, match="partitions 0 to 1, not 5"):
            await anext(log.read(topic, {5: 0}, follow=True))
        assert await read_all(log, topic, {0: 0, 1: 0}) == []


async def test_a_name_that_kafka_does_not_take_is_refused(broker: Server) -> None:
    async with opened(broker.url) as log:
        with pytest.raises(UsageError, match="refused to create topic 'no/such name'"):
            await log.create_topic("no/such name")


async def test_a_topic_deleted_by_another_is_noticed(broker: Server) -> None:
    topic = fresh()
    async with opened(broker.url) as log, opened(broker.url) as other:
        await log.create_topic(topic)
        await log.append(topic, records(5))
        await other.delete_topic(topic)
        with pytest.raises(NotFoundError, match=topic):
            await log.end_offsets(topic)
        with pytest.raises(NotFoundError, match=topic):
            await read_all(log, topic, {0: 0})


async def test_a_closed_log_says_so(broker: Server) -> None:
    log = KafkaLog(broker.url)
    await log.close()
    await log.close()
    with pytest.raises(UsageError, match="is closed"):
        await log.topics()
