"""The consumer host: ticks in, watermarks out, whatever fails in between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from churnbench.cuts import Cut
from churnbench.errors import DecodeError, SequenceGapError, SourceUnavailableError
from churnbench.events import Event
from churnbench.log import SqliteLog, cut_at
from churnbench.log._ledger import ledger_record
from churnbench.records import Tick, Watermark
from churnbench.runs import Run
from churnbench.sources import Projector
from churnbench.stores.postgres import RunDatabase
from churnbench.tables import Fold
from churnbench.testing import FakeClock, FaultyProjector, write_ledger
from churnbench_projectors import OperationsProjector, SaasProjector, WarehouseProjector, catch_up, rebuild
from churnbench_projectors import _following as following
from churnbench_projectors._host import ProjectorHost
from tests.projectors.estates import HOUR_MS, eventful
from tests.toy import START_MS, TOY

LEDGER = "toy.ledger"
EVENTS = eventful(6, 6)


class Stage(NamedTuple):
    log: SqliteLog
    run: Run
    database: RunDatabase
    partitions: int

    def projectors(self) -> list[Projector]:
        return [
            WarehouseProjector(self.database, TOY.warehouse, self.partitions),
            OperationsProjector(self.database, TOY.operations, self.partitions),
            SaasProjector(TOY.saas, self.partitions),
        ]

    def host(self, projectors: list[Projector], batch: int = 4) -> ProjectorHost:
        return ProjectorHost(self.log, self.run, LEDGER, TOY.codec, projectors, clock=FakeClock(), batch=batch)

    async def tick(self, number: int, hours: int, final: bool = False) -> Tick:
        at_ms = START_MS + hours * HOUR_MS
        tick = Tick(number, at_ms, await cut_at(self.log, LEDGER, at_ms), final)
        await self.run.topic("clock").append([tick], at_ms)
        return tick

    async def marks(self, name: str) -> list[Watermark]:
        return [mark for mark in await self.run.topic("watermarks").all() if mark.projector == name]


@asynccontextmanager
async def _staged(path: Path, database: RunDatabase, partitions: int) -> AsyncIterator[Stage]:
    log = SqliteLog(path / "log.db")
    try:
        run = Run(log, "r")
        for name in ("clock", "watermarks", "dead-letters"):
            await run.topic(name).create()
        await write_ledger(log, LEDGER, TOY.codec, EVENTS, partitions)
        yield Stage(log, run, database, partitions)
    finally:
        await log.close()


@pytest.fixture(params=[1, 3])
async def stage(tmp_path: Path, database: RunDatabase, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with _staged(tmp_path, database, request.param) as stage:
        yield stage


@pytest.fixture
async def one(tmp_path: Path, database: RunDatabase) -> AsyncIterator[Stage]:
    async with _staged(tmp_path, database, 1) as stage:
        yield stage


class _Forgetful(FaultyProjector):
    forgets = False
    other: Projector

    async def apply(self, events: Sequence[Event], cut: Cut) -> None:
        if self.forgets:
            self.forgets = False
            await self.other.reset()
            raise SourceUnavailableError("it is being started again")
        await super().apply(events, cut)


def _folded(tables, hours: int) -> str:
    fold = Fold(tables)
    fold.apply(e for e in EVENTS if e.at_ms <= START_MS + hours * HOUR_MS)
    return fold.fingerprint()


async def test_each_tick_is_reached_exactly_and_its_watermarks_follow(stage: Stage) -> None:
    projectors = stage.projectors()
    host = stage.host(projectors)
    for number, hours in enumerate((0, 7, 7, 30)):
        tick = await stage.tick(number, hours)
        await host.reach(tick)
        assert await projectors[0].fingerprint() == _folded(TOY.warehouse.tables, hours)
        assert await projectors[1].fingerprint() == _folded(TOY.operations.tables, hours)
        assert [await p.cut() for p in projectors] == [tick.cut] * 3
        assert (await projectors[2].cut()).at_ms == tick.at_ms
        for projector in projectors:
            last = (await stage.marks(projector.name))[-1]
            assert (last.tick, last.positions) == (number, tick.cut.positions)
    assert [mark.events for mark in await stage.marks("warehouse")] == [1, 7, 0, 23]


async def test_the_host_ends_at_the_final_tick(one: Stage) -> None:
    await one.tick(0, 5)
    await one.tick(1, 20, final=True)
    await asyncio.wait_for(one.host(one.projectors()).run_clock(), 20)
    assert [mark.tick for mark in await one.marks("saas")] == [0, 1]


async def test_a_host_started_again_publishes_the_ticks_it_has_reached_and_goes_on(stage: Stage) -> None:
    first, second = await stage.tick(0, 5), await stage.tick(1, 20)
    await stage.host(stage.projectors()).reach(first)
    await stage.host(stage.projectors()).reach(second)
    await stage.tick(2, 40, final=True)
    projectors = stage.projectors()
    await asyncio.wait_for(stage.host(projectors).run_clock(), 20)
    ahead = (await stage.marks("warehouse"))[2:]
    assert [mark.tick for mark in ahead] == [0, 1, 2]
    assert ahead[0].positions == second.cut.positions
    assert await projectors[0].fingerprint() == _folded(TOY.warehouse.tables, 40)


async def test_faults_before_and_after_a_batch_is_stored_are_ridden_out(stage: Stage) -> None:
    projectors = stage.projectors()
    faulty = [FaultyProjector(p, 0.3, random.Random(n)) for n, p in enumerate(projectors)]
    await stage.host(list(faulty), batch=3).reach(await stage.tick(0, 60))
    assert all(f.raised for f in faulty)
    assert await projectors[0].fingerprint() == _folded(TOY.warehouse.tables, 60)
    assert await projectors[1].fingerprint() == _folded(TOY.operations.tables, 60)


async def test_a_store_that_never_answers_is_given_up_and_harms_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_LONGEST_WAIT", 0.01)
    warehouse, operations, _ = stage.projectors()
    gone = following.Follower(FaultyProjector(warehouse, 1.0, random.Random(1)), patience=0.2)
    well = following.Follower(operations)
    upto = await cut_at(stage.log, LEDGER, START_MS + 60 * HOUR_MS)
    with pytest.raises(SourceUnavailableError):
        await catch_up([gone, well], stage.log, LEDGER, TOY.codec, upto, batch=3)
    assert (await warehouse.cut()) == Cut.empty(stage.partitions)
    await catch_up([operations], stage.log, LEDGER, TOY.codec, upto)
    assert await operations.fingerprint() == _folded(TOY.operations.tables, 60)


async def test_two_hosts_of_one_store_do_no_harm(stage: Stage) -> None:
    tick = await stage.tick(0, 60)
    hosts = [stage.host(stage.projectors()[:2], batch=3) for _ in range(3)]
    await asyncio.gather(*(host.reach(tick) for host in hosts))
    warehouse, operations, _ = stage.projectors()
    assert await warehouse.fingerprint() == _folded(TOY.warehouse.tables, 60)
    assert await operations.fingerprint() == _folded(TOY.operations.tables, 60)
    assert [mark.positions for mark in await stage.marks("warehouse")] == [tick.cut.positions] * 3


async def test_a_store_that_forgot_what_it_had_stored_is_filled_again(one: Stage) -> None:
    """As after a crash of a server whose disk lost the last writes."""
    projectors = one.projectors()[:1]
    host = one.host(projectors)
    await host.reach(await one.tick(0, 10))
    await WarehouseProjector(one.database, TOY.warehouse, 1).reset()
    await host.reach(await one.tick(1, 60))
    assert await projectors[0].fingerprint() == _folded(TOY.warehouse.tables, 60)


async def test_a_store_that_forgot_while_it_was_not_answering_is_filled_again(one: Stage) -> None:
    forgetful = _Forgetful(one.projectors()[0], 0.0, random.Random(1))
    forgetful.other = WarehouseProjector(one.database, TOY.warehouse, 1)
    host = one.host([forgetful])
    await host.reach(await one.tick(0, 10))
    forgetful.forgets = True
    await host.reach(await one.tick(1, 60))
    assert not forgetful.forgets
    assert await forgetful.fingerprint() == _folded(TOY.warehouse.tables, 60)


async def test_a_record_that_is_no_event_is_buried_before_what_follows_is_applied(one: Stage) -> None:
    end = (await cut_at(one.log, LEDGER, START_MS + 100 * HOUR_MS)).positions[0]
    bad = [
        ledger_record(b"{", "parcel_moved", "p0", EVENTS[-1].at_ms, 0, end + 1),
        ledger_record(TOY.codec.encode(EVENTS[0]), "~unknown", "p0", EVENTS[-1].at_ms, 0, end + 2),
    ]
    await one.log.append(LEDGER, bad)
    upto = Cut({0: end + 2}, EVENTS[-1].at_ms)
    projectors = one.projectors()
    for _ in range(2):
        await one.host(projectors).reach(Tick(0, EVENTS[-1].at_ms, upto))
        letters = await one.run.topic("dead-letters").all()
        assert {letter.projector for letter in letters} == {"warehouse", "operations", "saas"}
        assert {letter.offset for letter in letters} >= {end + 1}
        projectors = one.projectors()
    assert len(letters) == len({(x.projector, x.offset) for x in letters})
    assert await projectors[0].cut() == upto
    assert await projectors[0].fingerprint() == _folded(TOY.warehouse.tables, 100)


async def test_catching_up_without_dead_letters_refuses_a_record_that_is_no_event(one: Stage) -> None:
    end = (await cut_at(one.log, LEDGER, START_MS + 100 * HOUR_MS)).positions[0]
    await one.log.append(LEDGER, [ledger_record(b"{", "parcel_moved", "p0", EVENTS[-1].at_ms, 0, end + 1)])
    with pytest.raises(DecodeError, match=f"{LEDGER} partition 0 offset {end + 1}"):
        await catch_up(one.projectors(), one.log, LEDGER, TOY.codec, Cut({0: end + 1}))


async def test_a_gap_in_the_ledger_stops_the_host(one: Stage) -> None:
    end = (await cut_at(one.log, LEDGER, START_MS + 100 * HOUR_MS)).positions[0]
    record = ledger_record(TOY.codec.encode(EVENTS[0]), EVENTS[0].kind, "p0", EVENTS[-1].at_ms, 0, end + 5)
    await one.log.append(LEDGER, [record])
    with pytest.raises(SequenceGapError):
        await one.host(one.projectors()).reach(Tick(0, EVENTS[-1].at_ms, Cut({0: end + 5})))


async def test_a_cancelled_host_finishes_its_batch_and_the_next_one_goes_on(stage: Stage) -> None:
    draw = random.Random(3)
    tick = await stage.tick(0, 60)
    for _ in range(8):
        task = asyncio.ensure_future(stage.host(stage.projectors(), batch=2).reach(tick))
        await asyncio.sleep(draw.uniform(0, 0.05))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    projectors = stage.projectors()
    await stage.host(projectors).reach(tick)
    assert await projectors[0].fingerprint() == _folded(TOY.warehouse.tables, 60)
    assert await projectors[1].fingerprint() == _folded(TOY.operations.tables, 60)


async def test_replay_between_two_events_shows_the_earlier_one(one: Stage) -> None:
    warehouse = one.projectors()[0]
    upto = await cut_at(one.log, LEDGER, START_MS + 3 * HOUR_MS + HOUR_MS // 2)
    assert await catch_up([warehouse], one.log, LEDGER, TOY.codec, upto) == 4
    assert await warehouse.fingerprint() == _folded(TOY.warehouse.tables, 3)


async def test_catching_up_leaves_those_that_are_further_where_they_are(one: Stage) -> None:
    near = await cut_at(one.log, LEDGER, START_MS + 3 * HOUR_MS)
    far = await cut_at(one.log, LEDGER, START_MS + 30 * HOUR_MS)
    warehouse, operations, _ = one.projectors()
    await catch_up([warehouse], one.log, LEDGER, TOY.codec, far)
    await catch_up([warehouse, operations], one.log, LEDGER, TOY.codec, near)
    assert (await warehouse.cut(), await operations.cut()) == (far, near)


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_a_rebuilt_view_is_the_fold_again_at_least_where_it_was(stage: Stage, which: int) -> None:
    projector = stage.projectors()[which]
    near = await cut_at(stage.log, LEDGER, START_MS + 3 * HOUR_MS)
    far = await cut_at(stage.log, LEDGER, START_MS + 40 * HOUR_MS)
    await catch_up([projector], stage.log, LEDGER, TOY.codec, far)
    before = await projector.fingerprint()
    await rebuild(projector, stage.log, LEDGER, TOY.codec, near)
    assert (await projector.cut(), await projector.fingerprint()) == (far, before)


async def test_a_view_that_is_damaged_is_mended_by_rebuilding(one: Stage) -> None:
    warehouse = one.projectors()[0]
    upto = await cut_at(one.log, LEDGER, START_MS + 40 * HOUR_MS)
    await catch_up([warehouse], one.log, LEDGER, TOY.codec, upto)
    async with one.database.pool.connection() as connection:
        await connection.execute("DELETE FROM warehouse.scans; UPDATE warehouse.parcels SET depot = 'moon'")
    await rebuild(warehouse, one.log, LEDGER, TOY.codec, upto)
    assert await warehouse.fingerprint() == _folded(TOY.warehouse.tables, 40)


async def test_a_view_is_rebuilt_while_its_owner_goes_on(one: Stage) -> None:
    owner, rebuilder = (WarehouseProjector(one.database, TOY.warehouse, 1) for _ in range(2))
    upto = await cut_at(one.log, LEDGER, START_MS + 100 * HOUR_MS)

    async def go_on() -> None:
        for position in range(upto.positions[0] + 1):
            await catch_up([owner], one.log, LEDGER, TOY.codec, Cut({0: position}), batch=1)
            await asyncio.sleep(0.02)

    async def again() -> None:
        for _ in range(3):
            await rebuild(rebuilder, one.log, LEDGER, TOY.codec, Cut({0: -1}))

    await asyncio.gather(go_on(), again())
    assert await owner.cut() == upto
    assert await owner.fingerprint() == _folded(TOY.warehouse.tables, 100)
