"""Publishing a world: once, whole, and whatever happens to the publisher."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from churnbench.clock import SystemClock
from churnbench.cuts import Cut
from churnbench.errors import CorruptLogError, IncompleteError
from churnbench.events import canonical_line
from churnbench.log import LedgerReader, LedgerWriter, NewRecord, SqliteLog
from churnbench.worlds import WorldSpec, ledger_topic, world_manifest
from churnbench_producers import build_manifest, publish_world
from tests.toy import TOY

CLOCK = SystemClock()


def spec_of(partitions: int = 1, seed: int = 7) -> WorldSpec:
    return WorldSpec("toy", 1, "small", TOY.parameters("small", {}), seed, partitions)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    yield log
    await log.close()


async def content(log: SqliteLog, spec: WorldSpec) -> list[object]:
    reader = LedgerReader(log, ledger_topic(spec.name), TOY.codec)
    return [e async for events in reader.ordered(Cut.empty(spec.partitions)) for e in events]


@pytest.mark.parametrize("partitions", [1, 4])
async def test_a_published_world_is_the_simulated_one_and_says_so(log: SqliteLog, partitions: int) -> None:
    spec = spec_of(partitions)
    manifest = (await publish_world(log, TOY, spec, CLOCK)).manifest
    events = list(TOY.simulate(spec.parameters, spec.seed))
    assert await content(log, spec) == events
    assert manifest.events == len(events)
    lines = "".join(f"{canonical_line(e)}\n" for e in events)
    assert manifest.sha256 == hashlib.sha256(lines.encode()).hexdigest()
    assert await world_manifest(log, spec.name) == manifest == build_manifest(spec, TOY)


async def test_publishing_again_adds_nothing(log: SqliteLog) -> None:
    spec = spec_of()
    await publish_world(log, TOY, spec, CLOCK)
    ends = await log.end_offsets(ledger_topic(spec.name))
    await publish_world(log, TOY, spec, CLOCK)
    assert await log.end_offsets(ledger_topic(spec.name)) == ends


class _StoppedError(Exception):
    pass


class _StoppingLog:
    """Stores the first `records` records of the ledger, then fails as a killed publisher does."""

    def __init__(self, log: SqliteLog, records: int) -> None:
        self._log = log
        self._left = records

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    async def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        await self._log.append(topic, records[: self._left])
        self._left -= len(records)
        if self._left <= 0:
            raise _StoppedError


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_publisher_killed_at_any_record_is_resumed(tmp_path: Path, partitions: int) -> None:
    spec = spec_of(partitions)
    events = list(TOY.simulate(spec.parameters, spec.seed))
    total = len(events) + partitions
    draw = random.Random(1)
    for stops in [[1], [total - 1], *([draw.randrange(1, total) for _ in range(3)] for _ in range(6))]:
        log = SqliteLog(tmp_path / f"{partitions}-{'-'.join(map(str, stops))}.db")
        for records in stops:
            with pytest.raises(_StoppedError):
                await publish_world(_StoppingLog(log, records), TOY, spec, CLOCK)  # type: ignore[arg-type]
                raise _StoppedError  # an earlier stop may have finished the world
        manifest = (await publish_world(log, TOY, spec, CLOCK)).manifest
        assert await content(log, spec) == events
        assert await world_manifest(log, spec.name) == manifest
        assert sum((await log.end_offsets(ledger_topic(spec.name))).values()) == total
        await log.close()


async def test_an_unfinished_world_is_refused(log: SqliteLog) -> None:
    spec = spec_of()
    with pytest.raises(_StoppedError):
        await publish_world(_StoppingLog(log, 100), TOY, spec, CLOCK)  # type: ignore[arg-type]
    with pytest.raises(IncompleteError, match="not complete"):
        await world_manifest(log, spec.name)


async def test_a_topic_that_holds_another_world_is_never_continued(log: SqliteLog) -> None:
    spec = spec_of(seed=1)
    await log.create_topic(ledger_topic(spec.name))
    other = list(TOY.simulate(spec.parameters, 2))[:100]
    await LedgerWriter(log, ledger_topic(spec.name), TOY.codec, 1).append(other)
    with pytest.raises(CorruptLogError, match="another event"):
        await publish_world(log, TOY, spec, CLOCK)
    assert await content(log, spec) == other


_PUBLISHER = """
import asyncio, sys
from pathlib import Path
from churnbench.clock import SystemClock
from churnbench.log import SqliteLog
from churnbench.worlds import WorldSpec
from churnbench_producers import publish_world
import churnbench_producers._publish as publish
from tests.toy import TOY

publish._CHUNK = 20

async def main():
    log = SqliteLog(Path(sys.argv[1]))
    spec = WorldSpec("toy", 1, "small", TOY.parameters("small", {}), 7, int(sys.argv[2]))
    await publish_world(log, TOY, spec, SystemClock(), lambda done: print(done, flush=True))
    await log.close()

asyncio.run(main())
"""


def _publisher(path: Path, partitions: int) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _PUBLISHER, str(path), str(partitions)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)


async def test_kill_9_of_a_publishing_process_and_two_successors_at_once(tmp_path: Path) -> None:
    spec, path = spec_of(2), tmp_path / "log.db"
    for lines in (1, 6):
        first = _publisher(path, 2)
        assert first.stdout is not None
        for _ in range(lines):
            first.stdout.readline()
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
    both = [_publisher(path, 2), _publisher(path, 2)]
    assert [await asyncio.to_thread(p.wait) for p in both] == [0, 0]
    for process in both:
        process.communicate()
    log = SqliteLog(path)
    assert await content(log, spec) == list(TOY.simulate(spec.parameters, spec.seed))
    assert (await world_manifest(log, spec.name)).events == len(await content(log, spec))
    await log.close()
