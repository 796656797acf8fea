"""The operational store in a real server of MongoDB's protocol."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import SecretStr

from churnbench.cuts import Cut
from churnbench.domain import Store
from churnbench.errors import CutMovedError, NotFoundError, SourceUnavailableError, UsageError
from churnbench.events import Event, from_millis
from churnbench.stores.postgres import PostgresServer, RunDatabase
from churnbench.tables import Fold, Relation, Table
from churnbench.testing import MakeProjector, ProjectorContract
from churnbench_projectors import MongoOperationsProjector, MongoRun, OperationsProjector, catch_up
from tests.projectors.drawn import ledgers
from tests.projectors.estates import eventful
from tests.servers.walks import LEDGER, REFERENCE_20_DAYS, TOY_WORLD, World, postgres, walked
from tests.toy import PARCELS, PLACES, SCANS, START_MS, TOY, Moved, Registered, Scanned, event
from tools.servers import Server, mongo
from tools.servers._process import answers, ports, spawn

pytestmark = pytest.mark.mongo

_numbers = itertools.count()
ALL = Store((PARCELS, PLACES, SCANS), TOY.warehouse.views)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as running:
        yield running


class Stores(NamedTuple):
    database: RunDatabase
    mongo: MongoRun

    def projector(self, store: Store = ALL, partitions: int = 1) -> MongoOperationsProjector:
        return MongoOperationsProjector(self.database, self.mongo, store, partitions)


@asynccontextmanager
async def _opened(server: PostgresServer, url: str) -> AsyncIterator[Stores]:
    run_id = f"mongo-{next(_numbers)}"
    async with await RunDatabase.open(server, run_id) as database:
        async with await MongoRun.open(SecretStr(url), database) as run:
            yield Stores(database, run)
        await MongoRun.drop(SecretStr(url), database.name)
    await RunDatabase.drop(server, run_id)


@pytest.fixture
async def stores(server: PostgresServer, mongo_server: Server) -> AsyncIterator[Stores]:
    async with _opened(server, mongo_server.url) as opened:
        yield opened


class TestMongoOperations(ProjectorContract):
    ledgers = ledgers(most=25)
    examples = eventful()

    @pytest.fixture(autouse=True)
    def _on(self, server: PostgresServer, mongo_server: Server) -> None:
        self.server, self.mongo = server, mongo_server

    @asynccontextmanager
    async def store(self, partitions: int) -> AsyncIterator[MakeProjector]:
        async with _opened(self.server, self.mongo.url) as opened:

            async def make() -> MongoOperationsProjector:
                return opened.projector(ALL, partitions)

            yield make

    def expected(self, events: Sequence[Event]) -> str:
        fold = Fold(ALL.tables)
        fold.apply(events)
        return fold.fingerprint()

    def readable(self) -> Sequence[Relation]:
        return (PARCELS, PLACES, *ALL.views)

    def folded(self) -> Sequence[Table]:
        return ALL.tables


EVENTS = [
    event(0, START_MS, "p0", Registered("north", 1.0)),
    event(1, START_MS, "p1", Registered("south", 0.1)),
    event(2, START_MS + 1, "p2", Registered("south", 1e22)),
    event(3, START_MS + 2, "p1", Moved("lost")),
]
CUT = Cut({0: 3})


def _fold(events: Sequence[Event]) -> str:
    fold = Fold(ALL.tables)
    fold.apply(events)
    return fold.fingerprint()


@pytest.fixture
async def operations(stores: Stores) -> MongoOperationsProjector:
    projector = stores.projector()
    await projector.apply(EVENTS, CUT)
    return projector


# -- reading ----------------------------------------------------------------------------------------------


async def test_documents_are_found_by_their_fields(operations: MongoOperationsProjector) -> None:
    document = {"_id": "p0", "parcel": "p0", "depot": "north", "weight": 1.0, "registered_at": START_MS}
    for where in ({"depot": "north"}, {"weight": 1}, {"weight": 1.0, "depot": "north"}, {"parcel": "p0"}):
        assert await operations.find("parcels", where) == ([document], CUT)
    found, _ = await operations.find("parcels", {"registered_at": from_millis(START_MS + 1)})
    assert [d["_id"] for d in found] == ["p2"]


async def test_a_value_is_never_taken_for_an_operator(operations: MongoOperationsProjector) -> None:
    with pytest.raises(UsageError, match=r"depot of parcels is a text, not {'\$ne': 'south'}"):
        await operations.find("parcels", {"depot": {"$ne": "south"}})


async def test_without_conditions_all_documents_are_found_by_id(operations: MongoOperationsProjector) -> None:
    assert [d["_id"] for d in (await operations.find("parcels", {}))[0]] == ["p0", "p1", "p2"]


async def test_a_removed_document_is_not_found_and_stays_as_a_tombstone(
    operations: MongoOperationsProjector, stores: Stores
) -> None:
    assert (await operations.find("places", {"parcel": "p1"}))[0] == []
    assert (await operations.find("places", {"depot": None}))[0] == []
    assert ("p1", "lost") not in (await operations.read("places"))[0]
    (name,) = [n for n in await stores.mongo.owner.list_collection_names() if n.startswith("places.")]
    assert await stores.mongo.owner[name].find_one({"_id": "p1"}) == {"_id": "p1", "_seq": 3, "_part": 0, "_gone": True}


async def test_numbers_come_back_as_they_were(operations: MongoOperationsProjector) -> None:
    weights = {row[0]: row[2] for row in (await operations.read("parcels"))[0]}
    assert weights == {"p0": 1.0, "p1": 0.1, "p2": 1e22}
    assert all(type(weight) is float for weight in weights.values())


async def test_unknown_collections_and_fields_are_named_with_the_known_ones(
    operations: MongoOperationsProjector,
) -> None:
    with pytest.raises(NotFoundError, match="no 'crates'; it has: parcels, places, scans"):
        await operations.find("crates", {})
    with pytest.raises(NotFoundError, match="no 'crates'; it has: parcels, places, scans, depots"):
        await operations.read("crates")
    with pytest.raises(UsageError, match="no field 'colour'; it has: parcel, depot"):
        await operations.find("places", {"colour": "red"})


async def test_every_look_up_has_an_index(operations: MongoOperationsProjector, stores: Stores) -> None:
    """As the server's own plans say; whole collections are scanned, which is what they are read for."""
    (name,) = [n for n in await stores.mongo.owner.list_collection_names() if n.startswith("parcels.")]
    for query in (
        {"_id": {"$in": ["p0", "p1"]}},
        {"_part": 0, "_seq": {"$gt": 3}},
        {"_gone": False, "depot": "north"},
        {"_gone": False, "parcel": "p0"},
    ):
        plan = await stores.mongo.owner.command({"explain": {"find": name, "filter": query}})
        assert not _stages(plan["queryPlanner"]["winningPlan"]) & {"COLLSCAN"}, query


def _stages(plan: Any) -> set[str]:
    found = {plan["stage"]} if "stage" in plan else set()
    for inner in (plan.get("inputStage"), *plan.get("inputStages", ())):
        if inner:
            found |= _stages(inner)
    return found


# -- batches that are broken off, late, or slow -----------------------------------------------------------


async def test_a_document_is_guarded_by_its_seq(operations: MongoOperationsProjector, stores: Stores) -> None:
    """A late owner's write reaches the document after a newer one's."""
    async with stores.database.pool.connection() as connection:
        await connection.execute("UPDATE meta.positions SET position = 0, last_seq = 0")
    late = stores.projector()
    await late.apply(EVENTS[1:], CUT)
    assert await late.fingerprint() == _fold(EVENTS)


async def test_a_late_insert_of_an_older_seq_gives_way_to_the_newer_one(
    operations: MongoOperationsProjector, stores: Stores
) -> None:
    """Between the look-up of a key and its insertion: the server then reports a duplicate, which is tried again."""
    (name,) = [n for n in await stores.mongo.owner.list_collection_names() if n.startswith("places.")]
    real = operations._upserted
    calls = 0

    async def raced(collection: str, documents: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1 and collection == name:
            await stores.mongo.owner[name].insert_one({"_id": "p9", "_seq": 4, "_part": 0, "_gone": True})
            return list(documents)  # what a server answers that began to look up before the insertion
        return await real(collection, documents)

    operations._tables = {"places": PLACES}
    operations._upserted = raced  # type: ignore[method-assign]
    await operations.apply([event(5, START_MS + 3, "p9", Registered("east", 2.0))], Cut({0: 4}))
    assert calls == 2
    assert ("p9", "east") in (await operations.read("places"))[0]


async def test_what_a_batch_wrote_that_was_broken_off_is_read_by_nobody(
    operations: MongoOperationsProjector, stores: Stores
) -> None:
    moved = [*EVENTS, event(4, START_MS + 3, "p0", Moved("east"))]
    real = operations._write

    async def broken(table: Table, generation: int, events: Sequence[Event]) -> None:
        await real(table, generation, events)
        raise SourceUnavailableError("the connection is gone")

    operations._write = broken  # type: ignore[method-assign]
    with pytest.raises(SourceUnavailableError, match="gone"):
        await operations.apply(moved[4:], Cut({0: 4}))
    reader = stores.projector()
    with pytest.raises(SourceUnavailableError, match="broken off; it is read again when their projector has ended it"):
        await reader.read("parcels")
    assert (await reader.read("scans"))[1] == CUT  # nothing was written there
    owner = stores.projector()
    assert await owner.cut() == CUT
    await owner.apply(moved[4:], Cut({0: 4}))
    assert ("p0", "east") in (await reader.read("places"))[0]
    assert await reader.fingerprint() == _fold(moved)


async def test_readers_do_not_starve_while_batches_come_without_a_pause(stores: Stores) -> None:
    events = eventful(6, 6)
    writer, reader = stores.projector(), stores.projector()
    await reader.cut()
    reads = 0

    async def write() -> None:
        for done in range(len(events)):
            await writer.apply(events[done : done + 1], Cut({0: done}))

    writing = asyncio.create_task(write())
    while not writing.done():
        rows, cut = await reader.read("places")
        fold = Fold([PLACES])
        fold.apply(events[: cut.positions[0] + 1])
        assert sorted(rows) == sorted(fold.rows("places"))
        reads += 1
    await writing
    assert reads > 3


async def test_a_late_owner_writes_where_nobody_reads_after_a_reset(
    operations: MongoOperationsProjector, stores: Stores
) -> None:
    """Its state is of before the reset: were it read, a replay would take it for applied."""
    (old,) = [n for n in await stores.mongo.owner.list_collection_names() if n.startswith("places.")]
    await operations.reset()
    names = await stores.mongo.owner.list_collection_names()
    assert old not in names
    assert len(names) == 3
    await stores.mongo.owner[old].insert_one({"_id": "p0", "_seq": 99, "_part": 0, "_gone": True})
    await operations.apply(EVENTS, CUT)
    assert await operations.fingerprint() == _fold(EVENTS)
    await stores.projector().cut()
    assert old not in await stores.mongo.owner.list_collection_names()


async def test_collections_that_the_server_lost_are_filled_anew(
    operations: MongoOperationsProjector, stores: Stores
) -> None:
    for name in await stores.mongo.owner.list_collection_names():
        await stores.mongo.owner.drop_collection(name)
    after = stores.projector()
    assert await after.cut() == Cut.empty(1)
    with pytest.raises(CutMovedError):
        await operations.apply([], Cut({0: 4}))
    await after.apply(EVENTS, CUT)
    assert await after.fingerprint() == _fold(EVENTS)


async def test_a_rebuilt_view_takes_the_place_of_the_old_one_whose_collections_go(
    operations: MongoOperationsProjector, stores: Stores
) -> None:
    before = set(await stores.mongo.owner.list_collection_names())
    more = [*EVENTS, event(4, START_MS + 3, "p2", Scanned(3))]
    shadow = await operations.shadow()
    await operations.apply(more[4:], Cut({0: 4}))
    await shadow.apply(EVENTS, CUT)
    with pytest.raises(CutMovedError, match="catch up"):
        await operations.adopt(shadow)
    await shadow.apply(more[4:], Cut({0: 4}))
    await operations.adopt(shadow)
    assert await operations.fingerprint() == _fold(more)
    after = set(await stores.mongo.owner.list_collection_names())
    assert len(after) == 3
    assert not before & after


async def test_a_run_that_another_store_keeps_is_refused(stores: Stores) -> None:
    await OperationsProjector(stores.database, ALL, 1).apply(EVENTS, CUT)
    with pytest.raises(UsageError, match="are kept in another store; go on with the profile that began the run"):
        await stores.projector().cut()


# -- walks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [TOY_WORLD, REFERENCE_20_DAYS], ids=["toy", "reference"])
async def test_fingerprints_equal_the_embedded_engines_at_every_tick(
    world: World, stores: Stores, tmp_path: Path
) -> None:
    store = world.domain.operations
    async with walked(world, tmp_path) as walk:
        there, here = (
            stores.projector(store, walk.partitions),
            OperationsProjector(stores.database, store, walk.partitions, name="embedded", schema="embedded"),
        )
        seen = set()
        for at_ms, cut in walk.ticks:
            await catch_up([there, here], walk.log, LEDGER, walk.domain.codec, cut)
            fold = Fold(store.tables)
            fold.apply(e for e in walk.events if e.at_ms <= at_ms)
            assert await there.fingerprint() == await here.fingerprint() == fold.fingerprint()
            for relation in (*store.tables, *store.views):
                rows, of = await there.read(relation.name)
                assert of == cut
                assert sorted(rows, key=repr) == sorted((await here.read(relation.name))[0], key=repr)
            seen.add(await there.fingerprint())
        assert len(walk.ticks) == 20
        assert len(seen) > 15


async def _moved_on(projector: MongoOperationsProjector, loading: asyncio.Task[int]) -> None:
    """Some batches more have been stored, and the next one is under way."""
    before = projector._held
    for _ in range(3):
        while projector._held == before:
            assert not loading.done()
            await asyncio.sleep(0.002)
        before = projector._held
    await asyncio.sleep(0.01)
    assert not loading.done()


async def test_a_server_killed_during_a_load_comes_back_to_the_fold(
    server: PostgresServer, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("mortal-mongo")
    running = mongo.start(folder)
    try:
        async with _opened(server, running.url) as stores, walked(REFERENCE_20_DAYS, tmp_path) as walk:
            store = walk.domain.operations
            projector = stores.projector(store, walk.partitions)
            _, upto = walk.ticks[-1]
            await projector.cut()
            loading = asyncio.create_task(catch_up([projector], walk.log, LEDGER, walk.domain.codec, upto, batch=60))
            for _ in range(3):
                await _moved_on(projector, loading)
                await asyncio.to_thread(running.kill)
                await asyncio.sleep(0.5)
                running = await asyncio.to_thread(mongo.start, folder)
            await loading
            fold = Fold(store.tables)
            fold.apply(e for e in walk.events if e.at_ms <= walk.ticks[-1][0])
            assert await projector.fingerprint() == fold.fingerprint()
            assert await projector.cut() == upto
    finally:
        running.stop()


# -- connections ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that asks for a password; the URL of its owner."""
    from pymongo import MongoClient

    folder = tmp_path_factory.mktemp("guarded-mongo")
    open_to_all = mongo.start(folder)
    roles = ["readWriteAnyDatabase", "userAdminAnyDatabase"]
    with MongoClient(open_to_all.url) as client:
        client.admin.command("createUser", "bench", pwd="se:cr@t", roles=[{"role": r, "db": "admin"} for r in roles])
    open_to_all.stop()
    port = ports(folder, "mongo")["mongo"]
    command = [str(mongo.install()), "--host", "127.0.0.1", "--port", str(port), "--storage-path", str(folder / "data")]
    running = spawn("mongo", "", folder, [*command, "--log-level", "ERROR", "--auth"], lambda _: answers(port))
    yield f"mongodb://bench:se%3Acr%40t@127.0.0.1:{port}"
    running.stop()


async def test_a_run_has_a_user_that_reads_its_database_alone(server: PostgresServer, guarded: str) -> None:
    from pymongo.errors import OperationFailure

    async with _opened(server, guarded) as stores:
        projector = stores.projector()
        await projector.apply(EVENTS, CUT)
        assert await projector.fingerprint() == _fold(EVENTS)
        assert stores.mongo.reader_user == f"{stores.database.name}_r"
        (name,) = [n for n in await stores.mongo.reader.list_collection_names() if n.startswith("places.")]
        assert await stores.mongo.reader[name].count_documents({}) == 3
        for refused in (
            stores.mongo.reader[name].insert_one({"_id": "x"}),
            stores.mongo.reader[name].update_one({"_id": "p0"}, {"$set": {"_seq": 99}}),
            stores.mongo.reader[name].drop(),
            stores.mongo.reader.client["cb_another_run"]["places.1"].find_one(),
        ):
            with pytest.raises(OperationFailure, match=r"(?i)not authorized|requires authentication"):
                await refused
        async with await MongoRun.open(SecretStr(guarded), stores.database) as again:
            assert await again.reader[name].count_documents({}) == 3


async def test_a_wrong_password_is_named_and_not_shown(server: PostgresServer, guarded: str) -> None:
    wrong = guarded.replace("se%3Acr%40t", "wrong-password")
    run_id = f"mongo-{next(_numbers)}"
    async with await RunDatabase.open(server, run_id) as database:
        with pytest.raises(UsageError, match=r"refuses its user: .*check user and password of mongo_url") as caught:
            await MongoRun.open(SecretStr(wrong), database)
        assert "wrong-password" not in str(caught.value)
    await RunDatabase.drop(server, run_id)


@pytest.mark.parametrize("url", ["localhost:x", "http://u:hidden@h", "mongodb://h:99999", "mongodb://u:hid@den@h"])
async def test_what_is_no_url_is_refused_without_its_password(stores: Stores, url: str) -> None:
    with pytest.raises(UsageError, match=r"no MongoDB URL .*mongodb://USER:PASSWORD@HOST:PORT") as caught:
        await MongoRun.open(SecretStr(url), stores.database)
    assert "hid" not in str(caught.value)


async def test_a_server_that_is_down_is_named(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("churnbench_projectors._mongo._SELECTION_MS", 300)
    with pytest.raises(SourceUnavailableError, match="MongoDB did not answer: "):
        await MongoRun.open(SecretStr("mongodb://127.0.0.1:9"), stores.database)


async def test_two_that_open_a_new_run_at_once_do_not_disturb_each_other(server: PostgresServer, guarded: str) -> None:
    async with _opened(server, guarded) as stores, contextlib.AsyncExitStack() as stack:
        runs = await asyncio.gather(*(MongoRun.open(SecretStr(guarded), stores.database) for _ in range(3)))
        for run in runs:
            await stack.enter_async_context(run)
        projectors = [MongoOperationsProjector(stores.database, run, ALL, 1) for run in runs]
        assert await asyncio.gather(*(projector.cut() for projector in projectors)) == [Cut.empty(1)] * 3
        assert len(await stores.mongo.owner.list_collection_names()) == 3
