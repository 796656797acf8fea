"""The contracts source in a real Weaviate: versions as objects, the newest of them by the run's PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import SecretStr

from churnbench.cuts import Cut
from churnbench.domain import Documents
from churnbench.errors import CutMovedError, SourceUnavailableError, UsageError
from churnbench.events import Event
from churnbench.sources import Chunk
from churnbench.stores.postgres import PostgresServer, RunDatabase
from churnbench.testing import MakeProjector, ProjectorContract
from churnbench_projectors import (
    ContractsProjector,
    HashingEmbedder,
    WeaviateAddress,
    WeaviateContractsProjector,
    WeaviateRun,
    catch_up,
    chunks_fingerprint,
    folded_chunks,
)
from churnbench_projectors._chunks import TextChunk
from tests.projectors.drawn import ledgers
from tests.projectors.estates import eventful
from tests.servers.walks import LEDGER, REFERENCE_20_DAYS, TOY_WORLD, World, postgres, walked
from tests.toy import PLACES, START_MS, TOY, Moved, Registered, event
from tools.servers import Server, weaviate

pytestmark = pytest.mark.weaviate

EMBEDDER = HashingEmbedder()
_numbers = itertools.count()


def _render(row: Any, seq: int) -> tuple[str, str]:
    parcel, depot = row
    return f"Waybill {parcel}", f"{parcel} is at {depot}.\n\n" + f"Nothing else is known of {parcel}. " * 20


PARCELS = TOY.documents
LOSABLE = Documents(PLACES, _render)
"""Its documents vanish when a parcel is lost, and come back."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as running:
        yield running


def _address(running: Server, key: str | None = None) -> WeaviateAddress:
    secret = None if key is None else SecretStr(key)
    return WeaviateAddress(running.url, f"127.0.0.1:{running.extra['grpc_port']}", secret)


class Stores(NamedTuple):
    database: RunDatabase
    weaviate: WeaviateRun

    def projector(self, documents: Documents = PARCELS, partitions: int = 1) -> WeaviateContractsProjector:
        return WeaviateContractsProjector(self.database, self.weaviate, documents, EMBEDDER, partitions)


@asynccontextmanager
async def _opened(server: PostgresServer, address: WeaviateAddress) -> AsyncIterator[Stores]:
    run_id = f"weaviate-{next(_numbers)}"
    async with await RunDatabase.open(server, run_id) as database:
        async with await WeaviateRun.open(address, database.name) as run:
            yield Stores(database, run)
        await WeaviateRun.drop(address, database.name)
    await RunDatabase.drop(server, run_id)


@pytest.fixture
async def stores(server: PostgresServer, weaviate_server: Server) -> AsyncIterator[Stores]:
    async with _opened(server, _address(weaviate_server)) as opened:
        yield opened


@pytest.fixture
async def projector(stores: Stores) -> WeaviateContractsProjector:
    return stores.projector()


class _WeaviateContract(ProjectorContract):
    ledgers = ledgers(most=20)
    examples = eventful(3, 3)
    documents: Documents

    @pytest.fixture(autouse=True)
    def _on(self, server: PostgresServer, weaviate_server: Server) -> None:
        self.server, self.address = server, _address(weaviate_server)

    @asynccontextmanager
    async def store(self, partitions: int) -> AsyncIterator[MakeProjector]:
        async with _opened(self.server, self.address) as opened:

            async def make() -> WeaviateContractsProjector:
                return opened.projector(self.documents, partitions)

            yield make

    def expected(self, events: Sequence[Event]) -> str:
        return chunks_fingerprint(folded_chunks(self.documents, events))


class TestWeaviateContracts(_WeaviateContract):
    documents = PARCELS


class TestWeaviateContractsThatVanish(_WeaviateContract):
    documents = LOSABLE


def _expected(documents: Documents, events: Sequence[Event]) -> str:
    return chunks_fingerprint(folded_chunks(documents, events))


# -- reading ----------------------------------------------------------------------------------------------


async def test_every_version_is_kept_and_readers_see_the_newest(
    projector: WeaviateContractsProjector, stores: Stores
) -> None:
    events = [event(0, START_MS, "p0", Registered("north", 1.0)), event(4, START_MS, "p0", Moved("south"))]
    await projector.apply(events, Cut({0: 4}))
    chunks, cut = await projector.search("At which depot is parcel p0 kept?", 5, "p0")
    assert cut == Cut({0: 4})
    assert {chunk.document for chunk in chunks} == {"p0"}
    assert any("kept at depot south" in chunk.text and "Revision 4" in chunk.text for chunk in chunks)
    assert not any("north" in chunk.text for chunk in chunks)
    (name,) = await stores.weaviate.collections()
    found = await stores.weaviate.client.collections.use(name).query.fetch_objects(limit=100)
    assert {o.properties["seq"] for o in found.objects} == {0, 4}


async def test_a_document_whose_entity_is_gone_is_not_found_and_cannot_come_back_by_a_repeat(stores: Stores) -> None:
    projector = stores.projector(LOSABLE)
    born, lost = event(0, START_MS, "p0", Moved("north")), event(1, START_MS, "p0", Moved("lost"))
    await projector.apply([born], Cut({0: 0}))
    await projector.apply([lost], Cut({0: 1}))
    await stores.projector(LOSABLE).apply([born], Cut({0: 1}))
    assert await projector.search("p0", 5) == ([], Cut({0: 1}))
    assert await projector.search("p0", 5, "p0") == ([], Cut({0: 1}))


async def test_search_by_document_filters_before_it_ranks(projector: WeaviateContractsProjector) -> None:
    events = [event(n, START_MS, f"p{n:02d}", Registered("north", 1.0 + n)) for n in range(20)]
    await projector.apply(events, Cut({0: 19}))
    for parcel in ("p00", "p13"):
        chunks, _ = await projector.search("the weight in kg", 1, parcel)
        assert [(chunk.document, chunk.number) for chunk in chunks] == [(parcel, 0)]
    found, _ = await projector.search("How much does parcel p13 weigh?", 3)
    assert found[0].document == "p13"
    assert len(found) == 3
    assert await projector.search("anything", 3, "p99") == ([], Cut({0: 19}))


async def test_ties_are_broken_by_document_and_number_however_many_there_are(stores: Stores) -> None:
    same = Documents(PARCELS.table, lambda row, seq: ("Same", "Words. " * 100 + "\n\n" + "Words. " * 100))
    projector = stores.projector(same)
    names = [f"{letter}{n}" for letter in "cab" for n in range(30)]
    await projector.apply(
        [event(n, START_MS, p, Registered("north", 1.0)) for n, p in enumerate(names)], Cut({0: len(names) - 1})
    )
    chunks, _ = await projector.search("words", 4)
    assert [(chunk.document, chunk.number) for chunk in chunks] == [("a0", 1), ("a0", 2), ("a1", 1), ("a1", 2)]
    nothing_known, _ = await projector.search("is it the", 2)  # stop words alone
    assert [(chunk.document, chunk.number) for chunk in nothing_known] == [("a0", 0), ("a0", 1)]


async def test_searches_find_what_the_embedded_engine_finds(stores: Stores, tmp_path: Path) -> None:
    async with walked(REFERENCE_20_DAYS, tmp_path) as walk:
        documents, (_, cut) = walk.domain.documents, walk.ticks[-1]
        assert documents is not None
        there = stores.projector(documents, walk.partitions)
        here = ContractsProjector(
            stores.database, documents, EMBEDDER, walk.partitions, name="embedded", schema="operations"
        )
        await catch_up([there, here], walk.log, LEDGER, walk.domain.codec, cut)
        for question in ("When does the contract end?", "value in USD", "vendor and term", "renewal"):
            for limit in (1, 3, 10):
                assert await there.search(question, limit) == await here.search(question, limit)
        some = sorted({chunk.document for chunk in (await here.generation())[0]})[:5]
        for document in some:
            assert await there.search("value of the contract", 3, document) == await here.search(
                "value of the contract", 3, document
            )


async def test_a_generation_is_the_newest_chunks_with_unit_vectors_at_one_cut(
    projector: WeaviateContractsProjector,
) -> None:
    events = [event(n, START_MS, f"p{n % 3}", Registered("north", 1.0 + n)) for n in range(7)]
    await projector.apply(events, Cut({0: 6}))
    chunks, cut = await projector.generation()
    assert cut == Cut({0: 6})
    assert [TextChunk(*chunk[:4]) for chunk in chunks] == sorted(folded_chunks(PARCELS, events))
    assert all(sum(x * x for x in chunk.embedding) == pytest.approx(1.0, abs=1e-5) for chunk in chunks)


async def test_a_generation_of_many_requests_is_whole(
    projector: WeaviateContractsProjector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("churnbench_projectors._documents_weaviate._BATCH", 7)
    events = [event(n, START_MS, f"p{n % 30}", Registered("north", 1.0 + n)) for n in range(60)]
    await projector.apply(events, Cut({0: 59}))
    chunks, _ = await projector.generation()
    assert [TextChunk(*chunk[:4]) for chunk in chunks] == sorted(folded_chunks(PARCELS, events))


async def test_reads_while_batches_are_applied_and_the_view_is_rebuilt_are_of_their_cut(stores: Stores) -> None:
    projector, reader = stores.projector(), stores.projector()
    events = [event(n, START_MS, f"p{n % 2}", Registered("north", float(n))) for n in range(40)]

    async def write() -> None:
        for n in range(0, 40, 2):
            await projector.apply(events[n : n + 2], Cut({0: n + 1}))
            if n == 20:
                shadow = await projector.shadow()
                await shadow.apply(events[: n + 2], Cut({0: n + 1}))
                await projector.adopt(shadow)
                await projector.cut()
        await projector.reset()

    async def read() -> int:
        seen = 0
        while not writing.done():
            chunks, cut = await reader.search("parcel", 10)
            wanted = folded_chunks(PARCELS, events[: cut.positions[0] + 1])
            assert sorted(chunks) == sorted(Chunk(c.document, c.number, c.text) for c in wanted)
            whole, cut = await reader.generation()
            assert chunks_fingerprint(TextChunk(*chunk[:4]) for chunk in whole) == _expected(
                PARCELS, events[: cut.positions[0] + 1]
            )
            seen += 1
        return seen

    writing = asyncio.create_task(write())
    assert min(await asyncio.gather(read(), read())) > 0
    await writing


async def test_a_search_returns_at_least_one_chunk_and_not_more_than_a_server_gives(
    projector: WeaviateContractsProjector,
) -> None:
    for limit in (0, 10_001):
        with pytest.raises(UsageError, match=f"at least 1 chunk and at most 10000, not {limit}"):
            await projector.search("parcel", limit)


# -- batches that are broken off or late; generations ------------------------------------------------------


async def test_what_a_batch_wrote_that_was_broken_off_is_read_by_nobody_and_written_again(stores: Stores) -> None:
    class Broken(WeaviateContractsProjector):
        async def _insert(self, *arguments: Any) -> None:
            await super()._insert(*arguments)
            raise SourceUnavailableError("the connection is gone")

    events = [event(0, START_MS, "p0", Registered("north", 1.0)), event(1, START_MS, "p0", Moved("south"))]
    projector = stores.projector()
    await projector.apply(events[:1], Cut({0: 0}))
    with pytest.raises(SourceUnavailableError, match="gone"):
        await Broken(stores.database, stores.weaviate, PARCELS, EMBEDDER, 1).apply(events[1:], Cut({0: 1}))
    (name,) = await stores.weaviate.collections()
    objects = stores.weaviate.client.collections.use(name)
    written = len((await objects.query.fetch_objects(limit=100)).objects)
    assert await projector.fingerprint() == _expected(PARCELS, events[:1])
    assert {chunk.text.count("south") for chunk in (await projector.search("depot", 9))[0]} == {0}
    await projector.apply(events[1:], Cut({0: 1}))
    assert await projector.fingerprint() == _expected(PARCELS, events)
    assert len((await objects.query.fetch_objects(limit=100)).objects) == written


async def test_a_rebuilt_view_is_taken_over_in_one_step_with_its_alias(stores: Stores) -> None:
    projector, late = stores.projector(), stores.projector()
    events = [event(n, START_MS, f"p{n % 2}", Registered("north", float(n))) for n in range(6)]
    await projector.apply(events[:3], Cut({0: 2}))
    await late.cut()
    alias = f"{stores.weaviate.prefix}_contracts"
    for _ in range(2):
        shadow = await projector.shadow()
        assert await shadow.cut() == Cut.empty(1)
        await shadow.apply(events[:2], Cut({0: 1}))
        with pytest.raises(CutMovedError, match="catch up"):
            await projector.adopt(shadow)
        await shadow.apply(events[2:], Cut({0: 5}))
        await projector.adopt(shadow)
        (name,) = await stores.weaviate.collections()
        aliases = await stores.weaviate.client.alias.list_all(collection=name)
        assert list(aliases) == [alias]
        through = await stores.weaviate.client.collections.use(alias).query.fetch_objects(limit=100)
        assert {o.properties["document"] for o in through.objects} == {"p0", "p1"}
    with pytest.raises(CutMovedError):
        await late.apply(events[3:], Cut({0: 5}))
    assert await projector.cut() == Cut({0: 5})
    assert await projector.fingerprint() == _expected(PARCELS, events)
    await projector.apply([event(6, START_MS, "p0", Moved("east"))], Cut({0: 6}))


async def test_a_late_owner_whose_view_was_rebuilt_at_the_same_cut_is_refused(stores: Stores) -> None:
    """Its objects went to the collection that is gone."""

    class Late(WeaviateContractsProjector):
        async def _insert(self, *arguments: Any) -> None:
            await super()._insert(*arguments)
            shadow = await projector.shadow()
            await shadow.apply(events[:1], Cut({0: 0}))
            await projector.adopt(shadow)

    events = [event(0, START_MS, "p0", Registered("north", 1.0)), event(1, START_MS, "p0", Moved("south"))]
    projector = stores.projector()
    await projector.apply(events[:1], Cut({0: 0}))
    late = Late(stores.database, stores.weaviate, PARCELS, EMBEDDER, 1)
    with pytest.raises(CutMovedError, match="rebuilt meanwhile"):
        await late.apply(events[1:], Cut({0: 1}))
    assert await projector.fingerprint() == _expected(PARCELS, events[:1])


async def test_a_collection_that_the_server_lost_is_filled_anew(
    projector: WeaviateContractsProjector, stores: Stores
) -> None:
    events = [event(0, START_MS, "p0", Registered("north", 1.0))]
    await projector.apply(events, Cut({0: 0}))
    (name,) = await stores.weaviate.collections()
    await stores.weaviate.client.collections.delete(name)
    after = stores.projector()
    assert await after.cut() == Cut.empty(1)
    await after.apply(events, Cut({0: 0}))
    assert await after.fingerprint() == _expected(PARCELS, events)


async def test_objects_that_the_server_lost_are_noticed(projector: WeaviateContractsProjector, stores: Stores) -> None:
    await projector.apply([event(0, START_MS, "p0", Registered("north", 1.0))], Cut({0: 0}))
    (name,) = await stores.weaviate.collections()
    objects = stores.weaviate.client.collections.use(name)
    await objects.data.delete_by_id((await objects.query.fetch_objects(limit=1)).objects[0].uuid)
    with pytest.raises(SourceUnavailableError, match=r"has \d of \d chunks; where it has lost some, rebuild"):
        await projector.generation()


async def test_objects_that_the_server_refuses_fail_the_batch(stores: Stores) -> None:
    class Short(HashingEmbedder):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return [vector[: 10 + n] for n, vector in enumerate(super().embed(texts))]

    projector = WeaviateContractsProjector(stores.database, stores.weaviate, PARCELS, Short(), 1)
    events = [event(n, START_MS, f"p{n}", Registered("north", float(n))) for n in range(3)]
    with pytest.raises(SourceUnavailableError, match=r"refused \d+ of \d+ objects: .*(dimension|length)"):
        await projector.apply(events, Cut({0: 2}))
    assert await projector.cut() == Cut.empty(1)


async def test_a_run_that_another_store_keeps_is_refused(stores: Stores) -> None:
    await ContractsProjector(stores.database, PARCELS, EMBEDDER, 1).apply([], Cut({0: 4}))
    with pytest.raises(UsageError, match="are kept in another store; go on with the profile that began the run"):
        await stores.projector().cut()


async def test_an_index_keeps_to_one_embedder(projector: WeaviateContractsProjector, stores: Stores) -> None:
    await projector.cut()

    class Other(HashingEmbedder):
        name = "other"

    with pytest.raises(UsageError, match="indexed by the embedder 'hashing-words-384', not 'other'"):
        await WeaviateContractsProjector(stores.database, stores.weaviate, PARCELS, Other(), 1).cut()


async def test_those_that_make_a_view_at_once_do_not_disturb_each_other(stores: Stores) -> None:
    assert await asyncio.gather(*(stores.projector().cut() for _ in range(6))) == [Cut.empty(1)] * 6
    assert len(await stores.weaviate.collections()) == 1


# -- walks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [TOY_WORLD, REFERENCE_20_DAYS], ids=["toy", "reference"])
async def test_fingerprints_equal_the_embedded_engines_at_every_tick(
    world: World, stores: Stores, tmp_path: Path
) -> None:
    documents = world.domain.documents
    assert documents is not None
    async with walked(world, tmp_path) as walk:
        there = stores.projector(documents, walk.partitions)
        here = ContractsProjector(
            stores.database, documents, EMBEDDER, walk.partitions, name="embedded", schema="operations"
        )
        for at_ms, cut in walk.ticks:
            await catch_up([there, here], walk.log, LEDGER, walk.domain.codec, cut)
            folded = _expected(documents, [e for e in walk.events if e.at_ms <= at_ms])
            assert await there.fingerprint() == await here.fingerprint() == folded
            mine, theirs = await there.generation(), await here.generation()
            assert mine[1] == theirs[1] == cut
            assert [chunk[:4] for chunk in mine[0]] == sorted(chunk[:4] for chunk in theirs[0])
        assert len(walk.ticks) == 20


async def test_a_server_killed_during_a_load_comes_back_to_the_fold(
    server: PostgresServer, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("mortal-weaviate")
    running = await asyncio.to_thread(weaviate.start, folder)
    try:
        async with _opened(server, _address(running)) as stores, walked(TOY_WORLD, tmp_path) as walk:
            projector = stores.projector(PARCELS, walk.partitions)
            _, upto = walk.ticks[-1]
            await projector.cut()
            loading = asyncio.create_task(catch_up([projector], walk.log, LEDGER, walk.domain.codec, upto, batch=2))
            for _ in range(2):
                await asyncio.sleep(0.5)
                assert not loading.done()
                await asyncio.to_thread(running.kill)
                await asyncio.sleep(0.5)
                running = await asyncio.to_thread(weaviate.start, folder)
            await loading
            assert await projector.fingerprint() == _expected(
                PARCELS, [e for e in walk.events if e.at_ms <= walk.ticks[-1][0]]
            )
            assert await projector.cut() == upto
    finally:
        running.stop()


# -- connections ------------------------------------------------------------------------------------------


async def test_a_key_is_asked_for_and_never_shown(
    server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    running = await asyncio.to_thread(weaviate.start, tmp_path_factory.mktemp("keyed-weaviate"), "the-key")
    try:
        async with _opened(server, _address(running, "the-key")) as stores:
            await stores.projector().apply([event(0, START_MS, "p0", Registered("north", 1.0))], Cut({0: 0}))
            for key in (None, "another-key"):
                with pytest.raises(UsageError, match=r"refuses the client: .*check weaviate_api_key") as caught:
                    await WeaviateRun.open(_address(running, key), stores.database.name)
                assert "another-key" not in str(caught.value)
    finally:
        running.stop()


@pytest.mark.parametrize(
    "address", [("localhost:8080", None), ("http://h:x", None), ("http://h:1", "h"), ("http://h:1", "h:1")]
)
async def test_what_is_no_address_is_refused(address: tuple[str, str | None]) -> None:
    with pytest.raises(UsageError, match=r"the setting weaviate_(url|grpc) is .*; write "):
        await WeaviateRun.open(WeaviateAddress(*address), "cb_run")


async def test_a_server_that_is_down_is_named() -> None:
    with pytest.raises(SourceUnavailableError, match="Weaviate did not answer: "):
        await WeaviateRun.open(WeaviateAddress("http://127.0.0.1:9", "127.0.0.1:10"), "cb_run")
