"""The public test kit: a clock that is moved, a log and a projector that fail on purpose, scripts."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from churnbench.cuts import Cut
from churnbench.errors import SourceUnavailableError, TransientError
from churnbench.log import LedgerReader, Log, NewRecord, SqliteLog, ledger_end
from churnbench.testing import (
    Batch,
    FakeClock,
    FaultyLog,
    FaultyProjector,
    LogContract,
    Mark,
    partitioned,
    scripts,
    write_ledger,
)
from tests.projectors.drawn import ledgers
from tests.projectors.estates import eventful
from tests.toy import TOY

_names = itertools.count()


@asynccontextmanager
async def _opened(path: Path, probability: float = 0.0, most: int | None = None) -> AsyncIterator[FaultyLog]:
    log = SqliteLog(path / "log.db")
    try:
        yield FaultyLog(log, probability, random.Random(5), most)
    finally:
        await log.close()


class TestFaultyLogWithoutFaults(LogContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self._path = tmp_path

    def opened(self) -> AbstractAsyncContextManager[Log]:
        return _opened(self._path)

    def topic(self) -> str:
        return f"t{next(_names)}"


async def test_an_append_fails_before_or_after_it_is_stored(tmp_path: Path) -> None:
    async with _opened(tmp_path, 0.4) as log:
        await log.create_topic("t")
        failed = set()
        for number in range(60):
            before = (await log.end_offsets("t"))[0]
            try:
                await log.append("t", [NewRecord(b"x", number)])
            except TransientError:
                failed.add((await log.end_offsets("t"))[0] - before)
        assert failed == {0, 1}
        assert log.raised > 0


async def test_faults_end_where_they_are_counted(tmp_path: Path) -> None:
    async with _opened(tmp_path, 1.0, most=2) as log:
        await log.create_topic("t")
        for _ in range(2):
            with pytest.raises(SourceUnavailableError, match="before an append to t"):
                await log.append("t", [NewRecord(b"x", 0)])
        await log.append("t", [NewRecord(b"x", 0)])
        assert (await log.end_offsets("t"))[0] == 1


async def test_a_read_fails_between_batches(tmp_path: Path) -> None:
    async with _opened(tmp_path, 1.0, most=1) as log:
        await log.create_topic("t")
        with pytest.raises(SourceUnavailableError):
            await log.append("t", [NewRecord(b"x", 0)])
        await log.append("t", [NewRecord(b"x", 0)])
        assert [r.value for got in [b async for b in log.read("t", {0: 0})] for r in got] == [b"x"]


class _Counter:
    name = "counter"
    kinds = frozenset({"parcel_moved"})
    applied = 0

    async def cut(self) -> Cut:
        return Cut({0: self.applied - 1})

    async def apply(self, events: object, cut: Cut) -> None:
        self.applied += 1

    async def reset(self) -> None:
        self.applied = 0

    async def fingerprint(self) -> str:
        return str(self.applied)

    async def close(self) -> None:
        self.applied = -1


async def test_a_projector_fails_before_or_after_a_batch_is_stored() -> None:
    counter = _Counter()
    faulty = FaultyProjector(counter, 0.4, random.Random(2))
    failed = set()
    for _ in range(60):
        before = counter.applied
        try:
            await faulty.apply((), Cut({0: 0}))
        except TransientError:
            failed.add(counter.applied - before)
    assert failed == {0, 1}
    await faulty.reset()
    assert (await faulty.cut(), await faulty.fingerprint()) == (Cut({0: -1}), "0")


def test_a_clock_moves_only_when_it_is_moved() -> None:
    clock = FakeClock(1000)
    assert (clock.now_ms(), clock.monotonic()) == (1000, 0.0)
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (2500, 1.5)
    clock.set_back(2)
    assert (clock.now_ms(), clock.monotonic()) == (500, 1.5)


@given(data=st.data(), events=ledgers(), partitions=st.integers(1, 3))
def test_a_script_holds_every_event_once_and_cuts_that_follow_each_other(
    data: st.DataObject, events: list, partitions: int
) -> None:
    script = data.draw(scripts(events, partitions))
    at = Cut.empty(partitions)
    found: dict[int, list] = {p: [] for p in range(partitions)}
    for step in script:
        if isinstance(step, Batch):
            ((part, position),) = step.cut.positions.items()
            assert position == at.positions[part] + len(step.events)
            at = at.moved(step.cut.positions)
            found[part] += step.events
        else:
            assert step in Mark
    assert found == partitioned(events, partitions)


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_written_ledger_is_complete_and_holds_the_events(tmp_path: Path, partitions: int) -> None:
    events = eventful()
    async with _opened(tmp_path) as log:
        cut = await write_ledger(log, "toy.ledger", TOY.codec, events, partitions)
        assert cut.events == len(events)
        assert (await ledger_end(log, "toy.ledger"))[1] == b"{}"
        reader = LedgerReader(log, "toy.ledger", TOY.codec)
        assert await reader.events(Cut.empty(partitions), cut) == events
