"""The SaaS's view: the fold of the ledger, minus the facts that are too old for it."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from churnbench.cuts import Cut
from churnbench.domain import Saas
from churnbench.errors import CutMovedError, NotFoundError, UsageError
from churnbench.events import from_millis
from churnbench.tables import Column, FactTable, Fold, fingerprint
from churnbench_projectors import _saas_view
from churnbench_projectors._saas_projector import SaasProjector
from churnbench_projectors._saas_view import FactColumns, retained_fingerprint
from tests.projectors.drawn import HOUR_MS, Batch, batches, ledgers
from tests.toy import START_MS, TOY, Moved, Registered, Scanned, event

KEEP = 48 * HOUR_MS
SAAS = msgspec.structs.replace(TOY.saas, keep_ms=KEEP)


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_saas_view, "_BLOCK", 3)
        yield


def _expected(events, saas: Saas) -> str:
    fold = Fold(saas.tables)
    fold.apply(events)
    return retained_fingerprint(fold, max((e.at_ms for e in events), default=None), saas.keep_ms)


async def _replay(projector: SaasProjector, drawn: list[Batch]) -> None:
    for batch in drawn:
        await projector.apply(batch.events, batch.cut)


@given(data=st.data(), events=ledgers(), partitions=st.integers(1, 4), keep=st.sampled_from((None, KEEP)))
@settings(max_examples=60, deadline=None)
def test_any_batches_and_partitions_give_the_fold_of_what_is_kept(data, events, partitions, keep) -> None:
    saas = msgspec.structs.replace(SAAS, keep_ms=keep)

    async def scenario() -> None:
        projector = SaasProjector(saas, partitions)
        await _replay(projector, data.draw(batches(events, partitions)))
        assert await projector.fingerprint() == _expected(events, saas)

    asyncio.run(scenario())


@given(data=st.data(), events=ledgers(), partitions=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_repeated_batches_change_nothing(data, events, partitions) -> None:
    async def scenario() -> None:
        projector = SaasProjector(SAAS, partitions)
        for batch in data.draw(batches(events, partitions)):
            for _ in range(data.draw(st.integers(1, 2))):
                await projector.apply(batch.events, batch.cut)
        assert await projector.fingerprint() == _expected(events, SAAS)

    asyncio.run(scenario())


@given(data=st.data(), events=ledgers(), partitions=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_a_restarted_projector_is_replayed_to_the_same_view(data, events, partitions) -> None:
    async def scenario() -> None:
        first = data.draw(batches(events, partitions))
        crashed = SaasProjector(SAAS, partitions)
        await _replay(crashed, first[: data.draw(st.integers(0, len(first)))])
        restarted = SaasProjector(SAAS, partitions)
        assert await restarted.cut() == Cut.empty(partitions)
        await _replay(restarted, data.draw(batches(events, partitions)))
        assert await restarted.fingerprint() == _expected(events, SAAS)

    asyncio.run(scenario())


@given(data=st.data(), events=ledgers(most=20), hours=st.integers(0, 200))
@settings(max_examples=40, deadline=None)
def test_listings_are_the_same_as_over_a_fold_that_forgets_nothing(data, events, hours) -> None:
    async def scenario() -> None:
        projector = SaasProjector(TOY.saas, 1)
        await _replay(projector, data.draw(batches(events, 1)))
        now = max((e.at_ms for e in events), default=START_MS) + hours * HOUR_MS
        await projector.apply([], Cut({}, now))
        fold = Fold(TOY.saas.tables)
        fold.apply(events)
        for resource in TOY.saas.resources:
            expected = resource.items({name: fold.rows(name) for name in resource.inputs}, now, {})
            assert projector.snapshot(resource.name, {}).items == expected

    asyncio.run(scenario())


async def test_a_batch_whose_fold_fails_changes_nothing() -> None:
    projector = SaasProjector(SAAS, 1)
    await projector.apply([event(0, START_MS, "p", Registered("north", 1.0))], Cut({0: 0}))
    before = await projector.fingerprint()
    broken = msgspec.structs.replace(event(2, START_MS, "p", Moved("east")), payload=Scanned(1))
    with pytest.raises(AttributeError):
        await projector.apply([event(1, START_MS, "p", Moved("west")), broken], Cut({0: 2}))
    assert await projector.fingerprint() == before
    assert await projector.cut() == Cut({0: 0})
    await projector.apply([event(1, START_MS, "p", Moved("west"))], Cut({0: 1}))
    assert projector.snapshot("places", {}).items == [{"id": "p", "depot": "west"}]


async def test_a_cut_behind_the_view_is_refused_and_harms_nothing() -> None:
    projector = SaasProjector(SAAS, 2)
    await projector.apply([], Cut({0: 4, 1: 7}))
    with pytest.raises(CutMovedError, match="partition 0 is at 4, beyond 3"):
        await projector.apply([], Cut({0: 3}))
    assert await projector.cut() == Cut({0: 4, 1: 7})


async def test_an_unknown_partition_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="partitions 0 to 1, not 2"):
        await SaasProjector(SAAS, 2).apply([], Cut({2: 0}))


async def test_reset_empties_the_view_and_puts_the_cut_at_the_beginning() -> None:
    projector = SaasProjector(SAAS, 1)
    await projector.apply([event(0, START_MS, "p", Registered("north", 1.0))], Cut({0: 0}))
    await projector.reset()
    assert await projector.cut() == Cut.empty(1)
    assert (await projector.cut()).at_ms is None
    assert await projector.fingerprint() == fingerprint({})


async def test_a_rebuilt_view_is_taken_over_in_one_step() -> None:
    projector = SaasProjector(SAAS, 1)
    await projector.apply([event(0, START_MS, "p", Registered("north", 1.0))], Cut({0: 0}))
    shadow = await projector.shadow()
    await shadow.apply([event(1, START_MS, "q", Registered("south", 1.0))], Cut({0: 1}))
    await projector.adopt(shadow)
    assert await projector.cut() == Cut({0: 1})
    assert projector.snapshot("places", {}).items == [{"id": "q", "depot": "south"}]


async def test_the_label_of_a_cut_moves_the_time_and_drops_facts() -> None:
    projector = SaasProjector(SAAS, 1)
    scans = [event(seq, START_MS, "p", Scanned(5)) for seq in range(7)]
    await projector.apply(scans, Cut({0: 6}))
    assert projector.snapshot("activity", {}).items == [{"id": "p", "seconds": 35}]
    await projector.apply([], Cut({0: 6}, START_MS + KEEP))
    assert projector.snapshot("activity", {}).items == [{"id": "p", "seconds": 35}]
    await projector.apply([], Cut({0: 6}, START_MS + KEEP + 1))
    assert projector.snapshot("activity", {}).items == []
    assert (await projector.cut()).at_ms == START_MS + KEEP + 1
    await projector.apply([], Cut({0: 6}, START_MS))
    assert (await projector.cut()).at_ms == START_MS + KEEP + 1
    assert projector.held_facts == 1  # two full blocks are freed, the open one waits


def test_unknown_resources_and_filters_are_named_with_the_known_ones() -> None:
    projector = SaasProjector(SAAS, 1)
    with pytest.raises(NotFoundError, match="no resource 'parcels'; known: activity, places"):
        projector.snapshot("parcels", {})
    with pytest.raises(NotFoundError, match="activity has no filter 'depot'; known: parcel"):
        projector.snapshot("activity", {"depot": "north"})


_TYPED = FactTable(
    "typed",
    tuple(Column(kind, kind) for kind in ("int", "time", "text", "float", "bool")),
    frozenset(),
    lambda e: (),
)
_times = st.integers(0, 10**12).map(from_millis)
_row = st.tuples(
    st.one_of(st.integers(), st.none()),
    st.one_of(_times, st.none()),
    st.one_of(st.text(), st.none()),
    st.one_of(st.floats(allow_nan=False), st.none(), st.integers(0, 3)),
    st.one_of(st.booleans(), st.none()),
)


@given(rows=st.lists(_row, max_size=20), since=st.integers(0, 10**12))
@settings(deadline=None)
def test_packed_rows_come_back_as_they_were(rows, since) -> None:
    columns = FactColumns(_TYPED)
    columns.extend(rows)
    assert [(*map(type, row), *row) for row in columns] == [(*map(type, row), *row) for row in rows]
    columns.drop_before(since)
    assert list(columns) == [row for row in rows if row[1] is None or row[1] >= from_millis(since)]


def test_a_month_of_a_large_world_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_saas_view, "_BLOCK", 16_384)
    table = next(table for table in TOY.saas.tables if isinstance(table, FactTable))
    start = from_millis(START_MS)
    tracemalloc.start()
    try:
        columns = FactColumns(table)
        for day in range(40):
            at = start + timedelta(days=day)
            columns.extend((day * 5_000 + n, at, f"p{n % 900:06d}", n % 100) for n in range(5_000))
            columns.drop_before(START_MS + (day - 30) * 24 * HOUR_MS)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = sum(1 for _ in columns)
    assert kept == 31 * 5_000
    assert used / kept < 90  # bytes a fact, those not yet freed and the open block included
