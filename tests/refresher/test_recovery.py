"""Broken off at any moment and started again, each refresh is done once and said once."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from churnbench.clock import SystemClock
from churnbench.errors import IncompleteError
from churnbench.log import NewRecord
from churnbench.runs import Run
from churnbench.stores.postgres import PostgresServer, RunDatabase
from churnbench_refresher import Refresher, Tiered
from tests.refresher.stage import Stage, staged_world
from tests.toy import REGISTRY, TOY


class Crash(BaseException):
    """The process ends here."""


class Fuse:
    """Burns down with each touch; the last one crashes."""

    def __init__(self, touches: int) -> None:
        self.left = touches

    def touch(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash


class CrashingClock(SystemClock):
    def __init__(self, fuse: Fuse) -> None:
        self._fuse = fuse

    def monotonic(self) -> float:
        self._fuse.touch()
        return super().monotonic()


class CrashingLog:
    """A log whose process may end just before or just after an append of the refresher."""

    def __init__(self, log, fuse: Fuse) -> None:
        self._log = log
        self._fuse = fuse

    def __getattr__(self, name: str):
        return getattr(self._log, name)

    async def append(self, topic: str, records: list[NewRecord]) -> None:
        self._fuse.touch()
        await self._log.append(topic, records)
        self._fuse.touch()


def refresher(database: RunDatabase, stage: Stage, way: str = "replay", fuse: Fuse | None = None) -> Refresher:
    fuse = fuse or Fuse(0)
    log = CrashingLog(stage.log, fuse)
    return Refresher(
        database,
        log,
        Run(log, stage.run.run_id),
        stage.ledger,
        TOY,
        REGISTRY,
        stage.sources,
        Tiered(),
        way,
        clock=CrashingClock(fuse),
    )


async def outcome(service: Refresher, stage: Stage) -> tuple:
    """All that must not depend on crashes: events without their durations, and tables."""
    events = [
        (r.table, r.tick, r.at_ms, r.classes, r.reason, r.rows, r.changed, r.bytes, r.fingerprint)
        for r in await stage.run.topic("refreshes").all()
    ]
    tables = {name: sorted(await service.cache.rows(name)) for name in REGISTRY.staged()}
    return events, tables, await service.cache.stamps()


async def broken_walk(server: PostgresServer, run_id: str, way: str, crashes: list[int]) -> tuple:
    with tempfile.TemporaryDirectory() as folder:
        async with staged_world(Path(folder)) as stage, await RunDatabase.open(server, run_id) as database:
            walking = asyncio.create_task(stage.walk(range(2, 10)))
            for touches in crashes:
                service = refresher(database, stage, way, Fuse(touches))
                task = asyncio.create_task(swallow(service))
                if not await task:
                    break
            service = refresher(database, stage, way)
            await service.run_clock()
            await walking
            found = await outcome(service, stage)
        await RunDatabase.drop(server, run_id)
    return found


async def swallow(service: Refresher) -> bool:
    """Whether it crashed."""
    try:
        await service.run_clock()
    except Crash:
        return True
    return False


_number = iter(range(10_000))
_law = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_unbroken: dict[str, tuple] = {}


@given(way=st.sampled_from(["replay", "extract"]), crashes=st.lists(st.integers(1, 45), min_size=1, max_size=4))
@_law
def test_any_crashes_leave_the_same_events_and_tables(server: PostgresServer, way: str, crashes: list[int]) -> None:
    if way not in _unbroken:
        _unbroken[way] = asyncio.run(broken_walk(server, f"unbroken-{way}", way, []))
    assert asyncio.run(broken_walk(server, f"broken-{next(_number)}", way, crashes)) == _unbroken[way]


@pytest.mark.parametrize("touch", ["before", "after"])
async def test_a_crash_between_commit_and_publishing_publishes_once(
    database: RunDatabase, stage: Stage, touch: str
) -> None:
    ticks = await stage.walk(range(2, 4), waits_for=())
    cuts = dict.fromkeys(("warehouse", "operations", "contracts"), ticks[0].cut)
    stage.cut = ticks[0].cut
    fuse = Fuse(10_000)
    service = refresher(database, stage, fuse=fuse)
    await service.cache.prepare()
    publish = service._outbox.publish

    async def armed(**named: bool) -> int:
        fuse.left = 1 if touch == "before" else 2
        return await publish(**named)

    service._outbox.publish = armed
    with pytest.raises(Crash):
        await service.refresh(ticks[0], cuts)
    assert len(await stage.run.topic("refreshes").all()) == (0 if touch == "before" else 1)
    assert len(await service.cache.outbox()) == 4

    restarted = refresher(database, stage)
    assert await restarted.recover() == []
    await restarted.refresh(ticks[0], cuts)
    keys = [(r.table, r.tick) for r in await stage.run.topic("refreshes").all()]
    assert keys == [(name, 0) for name in ("locations", "stock", "depots", "documents")]
    assert await restarted.cache.outbox() == []


async def test_a_late_owner_changes_nothing(database: RunDatabase, stage: Stage) -> None:
    ticks = await stage.walk(range(2, 6), waits_for=())
    names = ("warehouse", "operations", "contracts")
    late, new = refresher(database, stage, "extract"), refresher(database, stage, "extract")
    await new.cache.prepare()
    stage.cut = ticks[3].cut
    await new.refresh(ticks[3], dict.fromkeys(names, ticks[3].cut))
    before = await outcome(new, stage)
    assert await late.refresh(ticks[0], dict.fromkeys(names, ticks[0].cut)) == []
    assert await late.refresh(ticks[3], dict.fromkeys(names, ticks[3].cut)) == []
    assert await outcome(new, stage) == before


async def finished_walk(database: RunDatabase, stage: Stage) -> tuple:
    service = refresher(database, stage)
    async with asyncio.TaskGroup() as group:
        group.create_task(service.run_clock())
        group.create_task(stage.walk(range(2, 10)))
    return await outcome(service, stage)


async def test_tables_that_were_tampered_with_are_rebuilt_to_their_cut(database: RunDatabase, stage: Stage) -> None:
    before = await finished_walk(database, stage)
    assert await refresher(database, stage).recover() == []
    async with database.pool.connection() as conn:
        await conn.execute("UPDATE staged.locations SET depot = 'nowhere' WHERE parcel = 'p001'")
        await conn.execute("DELETE FROM staged.documents WHERE document = 'p002'")
        await conn.execute("DELETE FROM staged._tables WHERE table_name = 'stock'")
    service = refresher(database, stage)
    assert set(await service.recover()) == {"locations", "documents", "stock"}
    assert await outcome(service, stage) == before


async def test_a_lost_database_is_rebuilt_from_the_refreshes(
    server: PostgresServer, database: RunDatabase, stage: Stage
) -> None:
    before = await finished_walk(database, stage)
    async with await RunDatabase.open(server, "another") as fresh:
        service = refresher(fresh, stage)
        assert set(await service.recover()) == set(REGISTRY.staged())
        assert await outcome(service, stage) == before
    await RunDatabase.drop(server, "another")


async def test_a_generation_that_is_gone_is_an_error_not_another_generation(
    server: PostgresServer, database: RunDatabase, stage: Stage
) -> None:
    await finished_walk(database, stage)
    stage.sources = stage.sources._replace(documents_at=None)
    stage.cut = (await stage.run.topic("clock").all())[0].cut
    async with await RunDatabase.open(server, "other") as fresh:
        with pytest.raises(IncompleteError, match="documents of tick 6 cannot be rebuilt"):
            await refresher(fresh, stage).recover()
    await RunDatabase.drop(server, "other")


async def test_a_log_that_lost_its_last_records_gets_the_refreshes_back(database: RunDatabase, stage: Stage) -> None:
    before = await finished_walk(database, stage)
    kept = (await stage.run.topic("refreshes").all())[:3]
    await stage.log.delete_topic("run.refreshes")
    await stage.run.topic("refreshes").create()
    await stage.run.topic("refreshes").append(kept, 0)
    service = refresher(database, stage)
    assert await service.recover() == []
    assert await outcome(service, stage) == before


@pytest.mark.parametrize("way", ["replay", "extract"])
async def test_a_source_that_is_filled_again_is_waited_for(database: RunDatabase, stage: Stage, way: str) -> None:
    ticks = await stage.walk(range(2, 6), waits_for=())
    service = refresher(database, stage, way)
    await service.cache.prepare()
    stage.cut = ticks[0].cut
    cuts = dict.fromkeys(("warehouse", "operations", "contracts"), ticks[3].cut)
    working = asyncio.create_task(service.refresh(ticks[3], cuts))
    await asyncio.sleep(0.3)
    assert not working.done()
    stage.cut = ticks[3].cut
    assert {r.table for r in await working} == set(REGISTRY.staged())
    for name in REGISTRY.staged():
        assert sorted(await service.cache.rows(name)) == await stage.staged_at(name, ticks[3].cut)
