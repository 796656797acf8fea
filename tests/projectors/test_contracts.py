"""The contracts source: versions of documents in pgvector, kept with their cut in one transaction."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from churnbench.cuts import Cut
from churnbench.domain import Documents
from churnbench.errors import CutMovedError, UsageError
from churnbench.events import Event
from churnbench.sources import Chunk
from churnbench.stores.postgres import PostgresServer, RunDatabase, embedded_server, stop_embedded
from churnbench_projectors._chunks import TextChunk, chunks_fingerprint, folded_chunks
from churnbench_projectors._contracts import ContractsProjector
from churnbench_projectors._embedders import HashingEmbedder
from tests.projectors.drawn import Batch, batches, ledgers
from tests.toy import PLACES, START_MS, TOY, Moved, Registered, event

EMBEDDER = HashingEmbedder()
_names = itertools.count()


def _render(row, seq: int) -> tuple[str, str]:
    parcel, depot = row
    return f"Waybill {parcel}", f"{parcel} is at {depot}.\n\n" + f"Nothing else is known of {parcel}. " * 20


PARCELS = TOY.documents
LOSABLE = Documents(PLACES, _render)
"""Its documents vanish when a parcel is lost, and come back."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    home = Path(tempfile.mkdtemp(prefix="cb"))
    yield asyncio.run(embedded_server(home))
    asyncio.run(stop_embedded(home))
    shutil.rmtree(home, ignore_errors=True)


@asynccontextmanager
async def _database(server: PostgresServer) -> AsyncIterator[RunDatabase]:
    run_id = f"contracts-{next(_names)}"
    async with await RunDatabase.open(server, run_id) as db:
        yield db
    await RunDatabase.drop(server, run_id)


@pytest.fixture
async def db(server: PostgresServer) -> AsyncIterator[RunDatabase]:
    async with _database(server) as database:
        yield database


def _projector(db: RunDatabase, documents: Documents = PARCELS, partitions: int = 1, **named) -> ContractsProjector:
    return ContractsProjector(db, documents, EMBEDDER, partitions, **named)


async def _replay(projector: ContractsProjector, drawn: Sequence[Batch]) -> None:
    for batch in drawn:
        await projector.apply(batch.events, batch.cut)


def _expected(documents: Documents, events: Sequence[Event]) -> str:
    return chunks_fingerprint(folded_chunks(documents, events))


_law = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(data=st.data(), events=ledgers(most=25), partitions=st.integers(1, 3), losable=st.booleans())
@_law
def test_any_batches_repeats_and_restarts_give_the_fold(server, data, events, partitions, losable) -> None:
    documents = LOSABLE if losable else PARCELS
    drawn = data.draw(batches(events, partitions))

    async def scenario() -> None:
        async with _database(server) as db:
            projector = _projector(db, documents, partitions)
            for batch in drawn:
                action = data.draw(st.sampled_from(("once", "twice", "restart", "crash")))
                if action == "crash":
                    with pytest.raises(_CrashError):
                        await _Crashing(db, documents, EMBEDDER, partitions).apply(batch.events, batch.cut)
                await projector.apply(batch.events, batch.cut)
                if action == "twice":
                    await projector.apply(batch.events, batch.cut)
                if action == "restart":
                    projector = _projector(db, documents, partitions)
            assert await projector.fingerprint() == _expected(documents, events)
            ends = Cut.empty(partitions)
            for batch in drawn:
                ends = ends.moved(batch.cut.positions)
            assert await projector.cut() == ends

    asyncio.run(scenario())


class _CrashError(Exception):
    pass


class _Crashing(ContractsProjector):
    async def _write(self, *arguments) -> None:
        await super()._write(*arguments)
        raise _CrashError


def _two(db: RunDatabase) -> tuple[ContractsProjector, ContractsProjector]:
    return _projector(db), _projector(db)


async def test_an_owner_that_lost_its_partition_changes_nothing(db: RunDatabase) -> None:
    paused, owner = _two(db)
    first = [event(0, START_MS, "p0", Registered("north", 1.0))]
    second = [event(1, START_MS, "p0", Moved("south"))]
    await paused.apply(first, Cut({0: 0}))
    await owner.apply(second, Cut({0: 1}))
    with pytest.raises(CutMovedError, match="no longer at 0"):
        await paused.apply(second, Cut({0: 1}))
    assert await paused.fingerprint() == _expected(PARCELS, first + second)
    assert await paused.cut() == Cut({0: 1})
    await paused.apply([event(2, START_MS, "p0", Moved("east"))], Cut({0: 2}))
    assert (await paused.search("depot", 1, "p0"))[1] == Cut({0: 2})


async def test_a_cut_behind_the_view_and_an_unknown_partition_are_refused(db: RunDatabase) -> None:
    projector = _projector(db)
    await projector.apply([], Cut({0: 3}))
    with pytest.raises(CutMovedError, match="is at 3, beyond 2"):
        await projector.apply([], Cut({0: 2}))
    with pytest.raises(UsageError, match="partitions 0 to 0, not 1"):
        await projector.apply([], Cut({1: 2}))


async def test_reset_empties_the_view_and_a_replay_fills_it_again(db: RunDatabase) -> None:
    projector = _projector(db)
    events = [event(0, START_MS, "p0", Registered("north", 1.0)), event(1, START_MS, "p0", Moved("south"))]
    await projector.apply(events, Cut({0: 1}))
    await projector.reset()
    assert await projector.cut() == Cut.empty(1)
    assert await projector.search("parcel", 5) == ([], Cut.empty(1))
    assert await projector.fingerprint() == chunks_fingerprint([])
    await projector.apply(events, Cut({0: 1}))
    assert await projector.fingerprint() == _expected(PARCELS, events)


async def test_a_rebuilt_view_is_taken_over_in_one_step(db: RunDatabase) -> None:
    projector, late = _two(db)
    events = [event(n, START_MS, f"p{n % 2}", Registered("north", float(n))) for n in range(6)]
    await projector.apply(events[:3], Cut({0: 2}))
    await late.cut()
    for _ in range(2):
        shadow = await projector.shadow()
        assert await shadow.cut() == Cut.empty(1)
        await shadow.apply(events, Cut({0: 5}))
        assert (await projector.search("parcel", 1))[1].positions[0] in (2, 5)
        await projector.adopt(shadow)
    with pytest.raises(CutMovedError):
        await late.apply(events[3:], Cut({0: 5}))
    assert await projector.cut() == Cut({0: 5})
    assert await projector.fingerprint() == _expected(PARCELS, events)
    await projector.apply([event(6, START_MS, "p0", Moved("east"))], Cut({0: 6}))


async def test_every_version_is_kept_and_readers_see_the_newest(db: RunDatabase) -> None:
    projector = _projector(db)
    events = [event(0, START_MS, "p0", Registered("north", 1.0)), event(4, START_MS, "p0", Moved("south"))]
    await projector.apply(events, Cut({0: 4}))
    chunks, cut = await projector.search("At which depot is parcel p0 kept?", 5, "p0")
    assert cut == Cut({0: 4})
    assert {chunk.document for chunk in chunks} == {"p0"}
    assert any("kept at depot south" in chunk.text and "Revision 4" in chunk.text for chunk in chunks)
    assert not any("north" in chunk.text for chunk in chunks)
    async with db.pool.connection() as connection:
        cursor = await connection.execute("SELECT DISTINCT seq FROM contracts.chunks ORDER BY seq")
        assert await cursor.fetchall() == [(0,), (4,)]


async def test_a_document_whose_entity_is_gone_is_not_found_and_cannot_come_back_by_a_repeat(db: RunDatabase) -> None:
    projector = _projector(db, LOSABLE)
    born, lost = event(0, START_MS, "p0", Moved("north")), event(1, START_MS, "p0", Moved("lost"))
    await projector.apply([born], Cut({0: 0}))
    await projector.apply([lost], Cut({0: 1}))
    await _projector(db, LOSABLE).apply([born], Cut({0: 1}))
    assert await projector.search("p0", 5) == ([], Cut({0: 1}))
    assert await projector.search("p0", 5, "p0") == ([], Cut({0: 1}))


async def test_search_by_document_filters_before_it_ranks(db: RunDatabase) -> None:
    projector = _projector(db)
    events = [event(n, START_MS, f"p{n:02d}", Registered("north", 1.0 + n)) for n in range(20)]
    await projector.apply(events, Cut({0: 19}))
    for parcel in ("p00", "p13"):
        chunks, _ = await projector.search("the weight in kg", 1, parcel)
        assert [(chunk.document, chunk.number) for chunk in chunks] == [(parcel, 0)]
    found, _ = await projector.search("How much does parcel p13 weigh?", 3)
    assert found[0].document == "p13"
    assert len(found) == 3
    assert await projector.search("anything", 3, "p99") == ([], Cut({0: 19}))


async def test_ties_are_broken_by_document_and_number(db: RunDatabase) -> None:
    same = Documents(PARCELS.table, lambda row, seq: ("Same", "Words. " * 100 + "\n\n" + "Words. " * 100))
    projector = _projector(db, same)
    await projector.apply([event(n, START_MS, p, Registered("north", 1.0)) for n, p in enumerate("cab")], Cut({0: 2}))
    chunks, _ = await projector.search("words", 4)
    assert [(chunk.document, chunk.number) for chunk in chunks] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    nothing_known, _ = await projector.search("is it the", 2)  # stop words alone
    assert [(chunk.document, chunk.number) for chunk in nothing_known] == [("a", 0), ("a", 1)]


async def test_a_generation_is_the_newest_chunks_with_unit_vectors_at_one_cut(db: RunDatabase) -> None:
    projector = _projector(db)
    events = [event(n, START_MS, f"p{n % 3}", Registered("north", 1.0 + n)) for n in range(7)]
    await projector.apply(events, Cut({0: 6}))
    async with projector.stream(batch=2) as (found, cut):
        first = await anext(found)
        await projector.apply([event(7, START_MS, "p0", Registered("east", 1.0))], Cut({0: 7}))
        rest = [chunk async for batch in found for chunk in batch]
    chunks = [*first, *rest]
    assert cut == Cut({0: 6})
    assert sorted(TextChunk(*chunk[:4]) for chunk in chunks) == sorted(folded_chunks(PARCELS, events))
    assert all(sum(x * x for x in chunk.embedding) == pytest.approx(1.0, abs=1e-5) for chunk in chunks)
    assert len(first) == 2
    copied, cut = await projector.generation()
    assert cut == Cut({0: 7})
    assert {(chunk.document, chunk.seq) for chunk in copied} == {("p0", 7), ("p1", 4), ("p2", 5)}


async def test_reads_while_batches_are_applied_are_of_their_cut(db: RunDatabase) -> None:
    projector, reader = _two(db)
    events = [event(n, START_MS, f"p{n % 2}", Registered("north", float(n))) for n in range(40)]

    async def write() -> None:
        for n in range(0, 40, 2):
            await projector.apply(events[n : n + 2], Cut({0: n + 1}))

    writing = asyncio.create_task(write())
    seen = 0
    while not writing.done():
        chunks, cut = await reader.search("parcel", 10)
        position = cut.positions[0]
        expected = sorted(Chunk(c.document, c.number, c.text) for c in folded_chunks(PARCELS, events[: position + 1]))
        assert sorted(chunks) == expected
        seen += 1
    await writing
    assert seen > 0


async def test_two_that_make_the_tables_at_once_do_not_disturb_each_other(db: RunDatabase) -> None:
    assert await asyncio.gather(*(_projector(db).cut() for _ in range(4))) == [Cut.empty(1)] * 4


async def test_an_index_keeps_to_one_embedder(db: RunDatabase) -> None:
    await _projector(db).cut()

    class Other(HashingEmbedder):
        name = "other"

    with pytest.raises(UsageError, match="indexed by the embedder 'hashing-words-384', not 'other'"):
        await ContractsProjector(db, PARCELS, Other(), 1).cut()


async def test_a_search_returns_at_least_one_chunk(db: RunDatabase) -> None:
    with pytest.raises(UsageError, match="at least 1 chunk, not 0"):
        await _projector(db).search("parcel", 0)


async def test_the_runs_reader_role_may_select_the_documents_but_not_change_them(db: RunDatabase) -> None:
    await _projector(db).apply([event(0, START_MS, "p0", Registered("north", 1.0))], Cut({0: 0}))
    async with db.reader.connection() as connection:
        cursor = await connection.execute("SELECT count(*) FROM contracts.chunks")
        assert (await cursor.fetchone() or (0,))[0] > 0
        with pytest.raises(psycopg.Error):
            await connection.execute("DELETE FROM contracts.chunks")


async def test_versions_survive_whatever_a_row_holds(db: RunDatabase) -> None:
    """The row is stored as JSON and read back for the next event, to the last bit."""
    text = "tabs\t, lines\n, quotes \"', backslashes \\N, and é\U0001f4e6"
    events = [
        event(0, START_MS + 1, "p\\N\t0", Registered(text, 0.1 + 0.2)),
        event(1, START_MS + 2, "p\\N\t0", Moved(text + "!")),
    ]
    projector = _projector(db)
    for e in events:
        await projector.apply([e], Cut({0: e.seq}))
    assert await projector.fingerprint() == _expected(PARCELS, events)
    assert msgspec.json.encode((await projector.search("weight", 1, "p\\N\t0"))[0][0].text)
