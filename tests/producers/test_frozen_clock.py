"""The frozen clock: lock step with whoever takes part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from churnbench.clock import SystemClock
from churnbench.errors import TerminalError, UsageError
from churnbench.log import SqliteLog, cut_at
from churnbench.records import RUN_TOPICS, Tick, Watermark
from churnbench.runs import Run
from churnbench.worlds import WorldSpec, ledger_topic
from churnbench_producers import drive_frozen, frozen_times, publish_world
from tests.toy import START_MS, TOY

DAY = 86_400_000


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    yield log
    await log.close()


async def prepared(log: SqliteLog, partitions: int) -> tuple[Run, str]:
    spec = WorldSpec("toy", 1, "small", TOY.parameters("small", {}), 7, partitions)
    await publish_world(log, TOY, spec, SystemClock())
    run = Run(log, "run")
    for name in RUN_TOPICS:
        await run.topic(name).create()
    return run, ledger_topic(spec.name)


async def follow(
    run: Run, name: str, seen: list[int], delay: float = 0.0, partition_by_partition: bool = False
) -> None:
    async for _, tick in run.topic("clock").read(0, follow=True):
        await asyncio.sleep(delay)
        seen.append(tick.number)
        positions = tick.cut.positions
        parts = [{p: s} for p, s in positions.items()] if partition_by_partition else [positions]
        for part in parts:
            await run.topic("watermarks").append([Watermark(name, tick.number, part)], tick.at_ms)
            await asyncio.sleep(0)


def test_a_walk_goes_day_by_day_with_both_ends() -> None:
    assert frozen_times(0, 3 * DAY) == [0, DAY, 2 * DAY, 3 * DAY]
    assert frozen_times(5, 5) == [5]
    assert frozen_times(0, DAY + 7) == [0, DAY, DAY + 7]
    with pytest.raises(UsageError, match="after T"):
        frozen_times(1, 0)


@pytest.mark.parametrize("partitions", [1, 3])
async def test_no_tick_is_published_before_everybody_reached_the_one_before(log: SqliteLog, partitions: int) -> None:
    run, topic = await prepared(log, partitions)
    times = frozen_times(START_MS + 2 * DAY, START_MS + 8 * DAY)
    fast: list[int] = []
    slow: list[int] = []
    workers = [
        asyncio.create_task(follow(run, "fast", fast)),
        asyncio.create_task(follow(run, "slow", slow, 0.01, partition_by_partition=True)),
    ]
    finished: list[tuple[int, int, int]] = []
    ticks = await drive_frozen(
        log, run, topic, times, ["fast", "slow"], lambda t: finished.append((t.number, len(fast), len(slow)))
    )
    for worker in workers:
        worker.cancel()
    assert finished == [(n, n + 1, n + 1) for n in range(7)]
    assert [t.cut for t in ticks] == [await cut_at(log, topic, at) for at in times]
    assert [t.final for t in ticks] == [False] * 6 + [True]


async def test_a_broken_walk_goes_on_without_repeating_ticks(log: SqliteLog) -> None:
    run, topic = await prepared(log, 1)
    times = frozen_times(START_MS, START_MS + 5 * DAY)
    seen: list[int] = []
    worker = asyncio.create_task(follow(run, "one", seen))

    def stop(tick: Tick) -> None:
        if tick.number == 2:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await drive_frozen(log, run, topic, times, ["one"], stop)
    await drive_frozen(log, run, topic, times, ["one"])
    worker.cancel()
    assert [t.number for t in await run.topic("clock").all()] == list(range(6))


async def test_whoever_does_not_come_is_named(log: SqliteLog) -> None:
    run, topic = await prepared(log, 1)
    with pytest.raises(TerminalError, match="missing did not reach tick 0"):
        await drive_frozen(log, run, topic, [START_MS], ["missing"], patience=0.05)


async def test_a_run_does_not_walk_two_ways(log: SqliteLog) -> None:
    run, topic = await prepared(log, 1)
    worker = asyncio.create_task(follow(run, "one", []))
    await drive_frozen(log, run, topic, [START_MS], ["one"])
    with pytest.raises(UsageError, match="other days"):
        await drive_frozen(log, run, topic, [START_MS + DAY], ["one"])
    worker.cancel()
