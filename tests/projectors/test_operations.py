"""The operational store: documents with the seq of their last event, at a cut."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from churnbench.cuts import Cut
from churnbench.domain import Store
from churnbench.errors import NotFoundError, UsageError
from churnbench.events import Event, from_millis
from churnbench.stores.postgres import PostgresServer, RunDatabase
from churnbench.tables import Fold, Relation, Table
from churnbench.testing import MakeProjector, ProjectorContract
from churnbench_projectors import OperationsProjector
from tests.projectors.drawn import ledgers
from tests.projectors.estates import eventful
from tests.toy import PARCELS, PLACES, SCANS, START_MS, TOY, Moved, Registered, event

_numbers = itertools.count()
ALL = Store((PARCELS, PLACES, SCANS), TOY.warehouse.views)


class TestOperations(ProjectorContract):
    ledgers = ledgers()
    examples = eventful()

    @pytest.fixture(autouse=True)
    def _on(self, server: PostgresServer) -> None:
        self.server = server

    @asynccontextmanager
    async def store(self, partitions: int) -> AsyncIterator[MakeProjector]:
        run_id = f"operations-{next(_numbers)}"
        async with await RunDatabase.open(self.server, run_id) as database:

            async def make() -> OperationsProjector:
                return OperationsProjector(database, ALL, partitions)

            yield make
        await RunDatabase.drop(self.server, run_id)

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


@pytest.fixture
async def operations(database: RunDatabase) -> OperationsProjector:
    projector = OperationsProjector(database, ALL, 1)
    await projector.apply(EVENTS, CUT)
    return projector


async def test_documents_are_found_by_their_fields(operations: OperationsProjector) -> None:
    document = {"_id": "p0", "parcel": "p0", "depot": "north", "weight": 1.0, "registered_at": START_MS}
    for where in ({"depot": "north"}, {"weight": 1}, {"weight": 1.0, "depot": "north"}, {"parcel": "p0"}):
        assert await operations.find("parcels", where) == ([document], CUT)
    found, _ = await operations.find("parcels", {"registered_at": from_millis(START_MS + 1)})
    assert [d["_id"] for d in found] == ["p2"]


async def test_without_conditions_all_documents_are_found_by_id(operations: OperationsProjector) -> None:
    found, _ = await operations.find("parcels", {})
    assert [d["_id"] for d in found] == ["p0", "p1", "p2"]


async def test_a_removed_document_is_not_found(operations: OperationsProjector) -> None:
    assert (await operations.find("places", {"parcel": "p1"}))[0] == []
    assert ("p1", "lost") not in (await operations.read("places"))[0]


async def test_numbers_come_back_as_they_were(operations: OperationsProjector) -> None:
    weights = {row[0]: row[2] for row in (await operations.read("parcels"))[0]}
    assert weights == {"p0": 1.0, "p1": 0.1, "p2": 1e22}
    assert all(type(weight) is float for weight in weights.values())


async def test_unknown_collections_and_fields_are_named_with_the_known_ones(operations: OperationsProjector) -> None:
    with pytest.raises(NotFoundError, match="no 'crates'; it has: parcels, places, scans"):
        await operations.find("crates", {})
    with pytest.raises(NotFoundError, match="no 'crates'; it has: parcels, places, scans, depots"):
        await operations.read("crates")
    with pytest.raises(UsageError, match="no field 'colour'; it has: parcel, depot"):
        await operations.find("places", {"colour": "red"})


async def test_a_document_is_guarded_by_its_seq(operations: OperationsProjector, database: RunDatabase) -> None:
    """As where a store has no transaction: a late owner's write reaches the document after a newer one's."""
    async with database.pool.connection() as connection:
        await connection.execute("UPDATE meta.positions SET position = 0")
    late = OperationsProjector(database, ALL, 1)
    await late.apply(EVENTS[1:], CUT)
    fold = Fold(ALL.tables)
    fold.apply(EVENTS)
    assert await late.fingerprint() == fold.fingerprint()
