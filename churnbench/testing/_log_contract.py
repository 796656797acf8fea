"""The contract that every engine of the log keeps, as a suite to subclass."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager, aclosing

import pytest

from churnbench.errors import NotFoundError, UsageError
from churnbench.log import Log, NewRecord, Record

__all__ = ["LogContract"]


def _records(count: int, partition: int = 0, start: int = 0, step_ms: int = 1000) -> list[NewRecord]:
    return [
        NewRecord(f"v{n}".encode(), n * step_ms or 1, partition, f"k{n}".encode(), (("pseq", str(n).encode()),))
        for n in range(start, start + count)
    ]


async def read_all(log: Log, topic: str, start: dict[int, int]) -> list[Record]:
    """Everything from `start` to the present end."""
    return [record async for batch in log.read(topic, start) for record in batch]


class LogContract(ABC):
    """Subclass it in a test module and implement `opened` and `topic`.

    Offsets are compared by order, never by value, so that engines with holes pass. Times are from 1 ms on, the
    earliest that Kafka takes.
    """

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[Log]:
        """A log; entering it again opens the same stored data anew."""

    @abstractmethod
    def topic(self) -> str:
        """A topic name that no other test uses."""

    async def test_records_come_back_as_they_were_appended(self) -> None:
        """Value, key, time and headers, also empty and missing ones."""
        topic = self.topic()
        odd = NewRecord(b"", -5, 0, None, ())
        binary = NewRecord(bytes(range(256)), 1_714_176_000_123, 0, b"\x00key", (("a", b""), ("a", b"\xff")))
        async with self.opened() as log:
            await log.create_topic(topic)
            await log.append(topic, [binary])
            got = await read_all(log, topic, {0: 0})
            assert [(r.value, r.timestamp_ms, r.key, r.headers) for r in got] == [
                (binary.value, binary.timestamp_ms, binary.key, binary.headers)
            ]
            await log.append(topic, [odd._replace(timestamp_ms=1)])
            last = (await read_all(log, topic, {0: 0}))[-1]
            assert (last.value, last.key, last.headers) == (b"", None, ())

    async def test_order_holds_within_each_partition(self) -> None:
        """Across appends that mix partitions."""
        topic = self.topic()
        async with self.opened() as log:
            await log.create_topic(topic, 3)
            for start in range(0, 60, 20):
                await log.append(topic, [r for p in range(3) for r in _records(20, p, start)])
            got = await read_all(log, topic, {0: 0, 1: 0, 2: 0})
            for partition in range(3):
                mine = [r for r in got if r.partition == partition]
                assert [r.value for r in mine] == [f"v{n}".encode() for n in range(60)]
                assert [r.offset for r in mine] == sorted({r.offset for r in mine})

    async def test_concurrent_appenders_lose_nothing_and_keep_their_own_order(self) -> None:
        """Four writers with logs of their own."""
        topic = self.topic()
        async with self.opened() as log:
            await log.create_topic(topic)

        async def write(name: int) -> None:
            async with self.opened() as mine:
                for n in range(25):
                    await mine.append(topic, [NewRecord(f"{name}-{n}".encode(), n + 1)])

        await asyncio.gather(*(write(name) for name in range(4)))
        async with self.opened() as log:
            values = [r.value.decode() for r in await read_all(log, topic, {0: 0})]
        assert len(values) == 100
        for name in range(4):
            assert [v for v in values if v.startswith(f"{name}-")] == [f"{name}-{n}" for n in range(25)]

    async def test_follow_delivers_what_is_appended_later_by_anybody(self) -> None:
        """Records that were there, then those of another writer."""
        topic = self.topic()
        async with self.opened() as log, self.opened() as other:
            await log.create_topic(topic, 2)
            await log.append(topic, _records(2, 0))
            got: list[bytes] = []

            async def follow() -> None:
                async with aclosing(log.read(topic, {0: 0, 1: 0}, follow=True)) as source:
                    async for batch in source:
                        got.extend(r.value for r in batch)
                        if len(got) >= 5:
                            return

            task = asyncio.create_task(follow())
            await asyncio.sleep(0.05)
            await other.append(topic, _records(1, 1, 7))
            await asyncio.sleep(0.05)
            await log.append(topic, _records(2, 0, 2))
            await asyncio.wait_for(task, 30)
        assert got[:2] == [b"v0", b"v1"]
        assert sorted(got) == [b"v0", b"v1", b"v2", b"v3", b"v7"]

    async def test_reads_are_bounded_by_start_and_end(self) -> None:
        """A slice, an empty slice, and a start at the end."""
        topic = self.topic()
        async with self.opened() as log:
            await log.create_topic(topic)
            await log.append(topic, _records(10))
            offsets = [r.offset for r in await read_all(log, topic, {0: 0})]
            part = [r.value async for b in log.read(topic, {0: offsets[3]}, end={0: offsets[6]}, batch=2) for r in b]
            assert part == [b"v3", b"v4", b"v5"]
            assert [b async for b in log.read(topic, {0: offsets[4]}, end={0: offsets[4]})] == []
            assert await read_all(log, topic, await log.end_offsets(topic)) == []

    async def test_offsets_by_time(self) -> None:
        """Before the first, between two, exactly at one, at the last, and after it."""
        topic = self.topic()
        async with self.opened() as log:
            await log.create_topic(topic, 2)
            await log.append(topic, _records(5, 0, 1))
            offsets = [r.offset for r in await read_all(log, topic, {0: 0})]

            async def first_after(ms: int) -> int | None:
                found = await log.offsets_after(topic, ms)
                assert found[1] is None
                return found[0]

            assert await first_after(0) == offsets[0]
            assert await first_after(2500) == offsets[2]
            assert await first_after(3000) == offsets[3]
            assert await first_after(2999) == offsets[2]
            assert await first_after(5000) is None
            assert await first_after(10**12) is None

    async def test_many_records_of_one_time_are_after_all_earlier_times(self) -> None:
        """A day's events share a timestamp."""
        topic = self.topic()
        async with self.opened() as log:
            await log.create_topic(topic)
            await log.append(topic, [NewRecord(str(n).encode(), 86_400_000 * (n // 50 + 1)) for n in range(200)])
            found = (await log.offsets_after(topic, 2 * 86_400_000))[0]
            assert found is not None
            got = [r async for b in log.read(topic, {0: found}) for r in b]
            assert [r.value for r in got] == [str(n).encode() for n in range(100, 200)]

    async def test_what_was_appended_is_there_after_reopening(self) -> None:
        """Topics, records and end offsets."""
        topic = self.topic()
        async with self.opened() as log:
            await log.create_topic(topic, 2)
            await log.append(topic, _records(3, 1))
            ends = await log.end_offsets(topic)
        async with self.opened() as log:
            assert (await log.topics())[topic] == 2
            assert await log.end_offsets(topic) == ends
            assert await log.beginning_offsets(topic) == {0: 0, 1: 0}
            assert [r.value for r in await read_all(log, topic, {0: 0, 1: 0})] == [b"v0", b"v1", b"v2"]

    async def test_topics_are_made_once_and_deleted_for_good(self) -> None:
        """Making it again is no error, with other partitions it is; a deleted name starts anew."""
        topic = self.topic()
        async with self.opened() as log:
            await log.create_topic(topic, 2)
            await log.create_topic(topic, 2)
            with pytest.raises(UsageError, match="2 partitions"):
                await log.create_topic(topic, 3)
            await log.append(topic, _records(1))
            await log.delete_topic(topic)
            await log.delete_topic(topic)
            assert topic not in await log.topics()
            await log.create_topic(topic, 1)
            assert await read_all(log, topic, {0: 0}) == []

    async def test_unknown_topics_are_refused(self) -> None:
        """By every call, with the name."""
        topic = self.topic()
        async with self.opened() as log:
            with pytest.raises(NotFoundError, match=topic):
                await log.append(topic, _records(1))
            with pytest.raises(NotFoundError, match=topic):
                await read_all(log, topic, {0: 0})
            with pytest.raises(NotFoundError, match=topic):
                await log.end_offsets(topic)
            with pytest.raises(NotFoundError, match=topic):
                await log.offsets_after(topic, 0)
