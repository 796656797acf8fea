"""The staged cache along a walk: what is in it, as of when, and for whom."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from churnbench.errors import NotFoundError, UsageError
from churnbench.records import Refresh
from churnbench.stores.postgres import RunDatabase
from churnbench_refresher import Off, Refresher, RefreshSources, StagedReader, Tiered, layouts
from tests.refresher.stage import DAY, EMBEDDER, Stage, staged_world
from tests.toy import REGISTRY, START_MS, TOY


def refresher(database: RunDatabase, stage: Stage, policy=None, way="replay", **named) -> Refresher:
    return Refresher(
        database, stage.log, stage.run, stage.ledger, TOY, REGISTRY, stage.sources, policy or Tiered(), way, **named
    )


async def whole_walk(service: Refresher, stage: Stage, days: range) -> list[Refresh]:
    async with asyncio.TaskGroup() as group:
        group.create_task(service.run_clock())
        group.create_task(stage.walk(days))
    return await stage.run.topic("refreshes").all()


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("rule", ["exceeds", "reaches"])
async def test_both_ways_give_the_same_tables_at_every_tick(
    database: RunDatabase, tmp_path: Path, partitions: int, rule: str
) -> None:
    found = {}
    for way in ("replay", "extract"):
        (tmp_path / way).mkdir()
        async with staged_world(tmp_path / way, partitions) as stage:
            await database.pool.open()
            async with database.pool.connection() as conn:
                await conn.execute("DROP SCHEMA staged CASCADE")
                await conn.execute("CREATE SCHEMA staged")
            service = refresher(database, stage, Tiered(rule), way)
            await service.cache.prepare()
            found[way] = []
            for tick in await stage.walk(range(2, 12), waits_for=()):
                stage.cut = tick.cut
                await service.refresh(tick, dict.fromkeys(("warehouse", "operations", "contracts"), tick.cut))
                stamps = await service.cache.stamps()
                for name in REGISTRY.staged():
                    rows = sorted(await service.cache.rows(name))
                    assert rows == await stage.staged_at(name, next(iter(stamps[name].cuts.values())))
                    found[way].append((tick.number, name, rows, stamps[name]))
            assert stage.warehouse.reads > 0 if way == "extract" else stage.warehouse.reads == 0
    assert found["replay"] == found["extract"]


async def test_each_refresh_says_what_it_did(database: RunDatabase, stage: Stage) -> None:
    refreshes = await whole_walk(refresher(database, stage), stage, range(2, 9))
    assert [(r.table, r.tick) for r in refreshes if r.tick <= 4] == [
        ("locations", 0),
        ("stock", 0),
        ("depots", 0),
        ("documents", 0),
        ("locations", 2),
        ("locations", 4),
        ("stock", 4),
        ("depots", 4),
    ]
    first, again = (r for r in refreshes if r.table == "locations" and r.tick <= 2)
    assert (first.reason, first.way, first.owner, set(first.classes)) == (
        "initial",
        "replay",
        "location",
        {"location", "registration"},
    )
    assert first.rows == first.changed == 30
    assert (
        first.classes["location"]
        == first.classes["registration"]
        == again.classes["location"].minimum([first.classes["location"], again.classes["location"]])
    )
    assert first.at_ms == first.classes["location"].at_ms == START_MS + 2 * DAY
    assert 0 < again.changed < 30
    assert 0 < again.bytes < first.bytes
    assert again.reason == "age 2 d exceeds TTL 1 d"
    documents = next(r for r in refreshes if r.table == "documents")
    assert (documents.source_calls, first.source_calls) == (1, 0)
    marks = [m.tick for m in await stage.run.topic("watermarks").all() if m.projector == "refresher"]
    assert marks == list(range(7))


async def test_off_keeps_the_first_copy(database: RunDatabase, stage: Stage) -> None:
    service = refresher(database, stage, Off())
    refreshes = await whole_walk(service, stage, range(2, 9))
    assert [r.tick for r in refreshes] == [0, 0, 0, 0]
    for name, stamp in (await service.cache.stamps()).items():
        cut = next(iter(stamp.cuts.values()))
        assert cut.at_ms == START_MS + 2 * DAY
        assert sorted(await service.cache.rows(name)) == await stage.staged_at(name, cut)


async def test_a_read_gives_rows_with_the_cut_of_each_class_and_the_refresh_time(
    database: RunDatabase, stage: Stage
) -> None:
    service = refresher(database, stage)
    await whole_walk(service, stage, range(2, 6))
    reader = StagedReader(database, REGISTRY, EMBEDDER)
    read = await reader.query(
        "SELECT l.parcel, s.registered_at FROM staged.locations l JOIN staged.stock s USING (parcel) "
        "WHERE l.depot = %(depot)s",
        {"depot": "north"},
        ["locations", "stock"],
    )
    ticks = {tick.number: tick for tick in await stage.run.topic("clock").all()}
    places = dict(await stage.staged_at("locations", ticks[2].cut))
    assert {row[0] for row in read.rows} == {parcel for parcel, depot in places.items() if depot == "north"}
    assert all(row[1].utcoffset() is not None for row in read.rows)
    assert read.cuts == {
        "locations": {"location": ticks[2].cut, "registration": ticks[2].cut},
        "stock": {"registration": ticks[0].cut},
    }
    assert read.refreshed_ms == {"locations": ticks[2].at_ms, "stock": ticks[0].at_ms}


async def test_documents_are_searched_in_the_staged_generation_not_the_live_one(
    database: RunDatabase, stage: Stage
) -> None:
    service = refresher(database, stage)
    await whole_walk(service, stage, range(2, 6))
    reader = StagedReader(database, REGISTRY, EMBEDDER)
    chunks, cuts, refreshed = await reader.search("weight of parcel p003", 5, "p003")
    tick = (await stage.run.topic("clock").all())[0]
    assert {chunk.document for chunk in chunks} == {"p003"}
    texts = [row[3] for row in await stage.staged_at("documents", tick.cut) if row[0] == "p003"]
    assert sorted(chunk.text for chunk in chunks) == sorted(texts)
    assert cuts == {"weight": tick.cut}
    assert refreshed == tick.at_ms
    free, _, _ = await reader.search("weight of parcel p003", 3)
    assert len(free) == 3


async def test_readers_see_a_refresh_as_a_whole_or_not_at_all(database: RunDatabase, stage: Stage) -> None:
    service = refresher(database, stage)
    ticks = await stage.walk(range(2, 10), waits_for=())
    await service.cache.prepare()
    cuts = dict.fromkeys(("warehouse", "operations", "contracts"))
    stage.cut = ticks[0].cut
    await service.refresh(ticks[0], dict.fromkeys(cuts, ticks[0].cut))
    reader = StagedReader(database, REGISTRY, EMBEDDER)
    seen = []
    stop = asyncio.Event()

    async def read() -> None:
        while not stop.is_set():
            got = await reader.query("SELECT * FROM staged.locations", {}, ["locations"])
            seen.append((got.cuts["locations"]["location"], sorted(got.rows)))

    reading = asyncio.create_task(read())
    for tick in ticks[1:]:
        stage.cut = tick.cut
        await service.refresh(tick, dict.fromkeys(cuts, tick.cut))
    stop.set()
    await reading
    assert len({cut.key for cut, _ in seen}) > 1
    for cut, rows in seen:
        assert rows == await stage.staged_at("locations", cut)


async def test_a_reader_may_not_write_nor_ask_for_what_was_never_staged(database: RunDatabase, stage: Stage) -> None:
    service = refresher(database, stage)
    await service.cache.prepare()
    reader = StagedReader(database, REGISTRY, EMBEDDER)
    with pytest.raises(NotFoundError, match="never staged: locations"):
        await reader.query("SELECT 1", {}, ["locations"])
    with pytest.raises(UsageError, match="PostgreSQL refused"):
        await reader.query("DELETE FROM staged._tables", {}, [])
    with pytest.raises(UsageError, match="PostgreSQL refused"):
        await reader.query("SELECT nonsense FROM staged.locations", {}, [])
    async with database.reader.connection() as conn:
        await conn.execute("SET TRANSACTION READ WRITE")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await conn.execute("DELETE FROM staged.locations")
        await conn.rollback()


async def test_a_registry_that_stages_what_is_not_there_is_refused(database: RunDatabase, stage: Stage) -> None:
    with pytest.raises(UsageError, match="stages from warehouse, contracts; give these sources"):
        Refresher(
            database,
            stage.log,
            stage.run,
            stage.ledger,
            TOY,
            REGISTRY,
            RefreshSources({"operations": stage.operations}),
            Off(),
            "extract",
        )
    table = REGISTRY.tables[0]
    for changed, words in (("relation", "copies operations.nowhere"), ("columns", "keeps the columns nowhere")):
        value = "nowhere" if changed == "relation" else ("nowhere",)
        wrong = {name: getattr(table, name) for name in table.__struct_fields__} | {changed: value}
        registry = type(REGISTRY)("x", REGISTRY.classes, (type(table)(**wrong),), None, ())
        with pytest.raises(NotFoundError, match=words):
            layouts(TOY, registry)
