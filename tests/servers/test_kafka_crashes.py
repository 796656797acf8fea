"""Kill -9 of the broker and of the publisher during a load: nothing acknowledged is lost, and no gap is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from churnbench.clock import SystemClock
from churnbench.cuts import Cut
from churnbench.errors import SequenceGapError
from churnbench.events import Event
from churnbench.log import KafkaLog, LedgerReader, LedgerWriter, ledger_end
from churnbench.worlds import WorldSpec, ledger_topic, world_manifest
from churnbench_producers import build_manifest, publish_world
from tests.servers.test_log_kafka import fresh, opened
from tests.toy import TOY, Moved, event
from tools.servers import Server, kafka

pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.kafka

PARTITIONS = 2
CHUNK = 200


def quiet(_: str) -> None:
    """No messages wanted."""


def chunk(start: int) -> list[Event]:
    """Events of 2024: of such times the broker forgets the producer when it restarts, so that repeats can come."""
    return [
        event(n, 1_704_067_200_000 + n * 1000, f"parcel-{n % 97}", Moved("north")) for n in range(start, start + CHUNK)
    ]


async def restart(server: Server, pause: float) -> Server:
    """Kills the broker as `kill -9` does and starts it again."""
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(pause)
    return await asyncio.to_thread(kafka.start, server.folder)


async def test_kill_9_of_the_broker_during_a_load(mortal_broker: Server) -> None:
    """The appender, a follower and the next reader go on by themselves."""
    server = await asyncio.to_thread(kafka.start, mortal_broker.folder)
    draw = random.Random(3)
    topic, empty = fresh("load"), Cut.empty(PARTITIONS)
    async with opened(server.url, patience=120, say=quiet) as log:
        await log.create_topic(topic, PARTITIONS)
        writer = LedgerWriter(log, topic, TOY.codec, PARTITIONS)
        acknowledged, stop = 0, False
        followed: list[int] = []

        async def load() -> None:
            nonlocal acknowledged
            while not stop:
                await writer.append(chunk(acknowledged))
                acknowledged += CHUNK

        async def follow() -> None:
            async with aclosing(LedgerReader(log, topic, TOY.codec).batches(empty, follow=True)) as batches:
                async for batch in batches:
                    followed.extend(e.seq for e in batch.events)

        loading, following = asyncio.create_task(load()), asyncio.create_task(follow())
        for _ in range(3):
            await asyncio.sleep(draw.uniform(0.3, 1.0))
            before = acknowledged
            server = await restart(server, draw.uniform(0, 0.5))
            stored = [e.seq for e in await LedgerReader(log, topic, TOY.codec).events(empty)]
            assert stored == list(range(len(stored)))
            assert len(stored) >= before
        await asyncio.sleep(0.5)
        stop = True
        await asyncio.wait_for(loading, 120)

        events = await LedgerReader(log, topic, TOY.codec).events(empty)
        assert [e.seq for e in events] == list(range(acknowledged))
        assert sum((await log.end_offsets(topic)).values()) >= acknowledged  # what is more is repeats
        for _ in range(300):
            if len(followed) >= acknowledged:
                break
            await asyncio.sleep(0.1)
        following.cancel()
        await asyncio.wait([following])
        assert sorted(followed) == list(range(acknowledged))


async def test_repeats_in_the_topic_are_dropped_and_gaps_refused(broker: Server) -> None:
    topic, empty = fresh("repeats"), Cut.empty(1)
    async with opened(broker.url) as log:
        await log.create_topic(topic)
        writer = LedgerWriter(log, topic, TOY.codec, 1)
        sent = [writer.record(e) for e in chunk(0)]
        await log.append(topic, sent[:150])
        await log.append(topic, sent[100:150])
        await log.append(topic, sent[120:])
        assert await LedgerReader(log, topic, TOY.codec).events(empty) == chunk(0)
        assert (await ledger_end(log, topic))[0] == Cut({0: CHUNK - 1})
        for start in (0, 99, 130, 149, 150, 198):
            rest = await LedgerReader(log, topic, TOY.codec).events(Cut({0: start}))
            assert [e.seq for e in rest] == list(range(start + 1, CHUNK))
        more = [writer.record(e) for e in chunk(CHUNK)]
        await log.append(topic, more[1:])
        with pytest.raises(SequenceGapError, match=f"has sequence {CHUNK + 1} after {CHUNK - 1}"):
            await LedgerReader(log, topic, TOY.codec).events(empty)


_PUBLISHER = """
import asyncio, sys
from churnbench.clock import SystemClock
from churnbench.log import KafkaLog
from churnbench.worlds import WorldSpec
from churnbench_producers import publish_world
import churnbench_producers._publish as publish
from tests.toy import TOY

publish._CHUNK = 20

async def main():
    log = KafkaLog(sys.argv[1], patience=120)
    spec = WorldSpec("toy", 1, "small", TOY.parameters("small", {}), int(sys.argv[2]), int(sys.argv[3]))
    await publish_world(log, TOY, spec, SystemClock(), lambda done: print(done, flush=True))
    await log.close()

asyncio.run(main())
"""


def publisher(url: str, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _PUBLISHER, url, str(seed), str(PARTITIONS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def spec_of(seed: int) -> WorldSpec:
    return WorldSpec("toy", 1, "small", TOY.parameters("small", {}), seed, PARTITIONS)


async def whole(log: KafkaLog, spec: WorldSpec) -> None:
    """The world is there, complete, and is the one that was simulated."""
    reader = LedgerReader(log, ledger_topic(spec.name), TOY.codec)
    events = [e async for got in reader.ordered(Cut.empty(PARTITIONS)) for e in got]
    assert events == list(TOY.simulate(spec.parameters, spec.seed))
    assert await world_manifest(log, spec.name) == build_manifest(spec, TOY)


async def test_a_world_whose_end_was_repeated_is_continued(broker: Server) -> None:
    spec = spec_of(10)
    topic = ledger_topic(spec.name)
    async with opened(broker.url) as log:
        await log.create_topic(topic, PARTITIONS)
        writer = LedgerWriter(log, topic, TOY.codec, PARTITIONS)
        sent = [writer.record(e) for e in list(TOY.simulate(spec.parameters, spec.seed))[:100]]
        await log.append(topic, [*sent, *sent[40:70]])
        await publish_world(log, TOY, spec, SystemClock())
        await whole(log, spec)


async def test_kill_9_of_a_publishing_process_and_two_successors_at_once(broker: Server) -> None:
    spec = spec_of(11)
    for lines in (1, 6):
        first = publisher(broker.url, 11)
        assert first.stdout is not None
        for _ in range(lines):
            await asyncio.to_thread(first.stdout.readline)
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
    both = [publisher(broker.url, 11), publisher(broker.url, 11)]
    for process in both:
        await asyncio.to_thread(process.communicate)
    assert [process.returncode for process in both] == [0, 0]
    async with opened(broker.url) as log:
        await whole(log, spec)
        ends = await log.end_offsets(ledger_topic(spec.name))
        await publish_world(log, TOY, spec, SystemClock())
        assert await log.end_offsets(ledger_topic(spec.name)) == ends


async def test_kill_9_of_the_broker_while_a_world_is_published(mortal_broker: Server) -> None:
    """The publishing process finishes by itself."""
    server = await asyncio.to_thread(kafka.start, mortal_broker.folder)
    spec = spec_of(12)
    process = publisher(server.url, 12)
    assert process.stdout is not None
    for _ in range(5):
        await asyncio.to_thread(process.stdout.readline)
    server = await restart(server, 0)
    await asyncio.to_thread(process.communicate)
    assert process.returncode == 0
    async with opened(server.url, patience=120, say=quiet) as log:
        await whole(log, spec)
