"""The warehouse: tables and views in PostgreSQL, at a cut."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import psycopg
import pytest

from churnbench.cuts import Cut
from churnbench.domain import Store
from churnbench.errors import CutMovedError, NotFoundError, SourceUnavailableError, UsageError
from churnbench.events import Event, from_millis
from churnbench.stores.postgres import PostgresServer, RunDatabase
from churnbench.tables import Fold, Relation, Table, View
from churnbench.testing import MakeProjector, ProjectorContract
from churnbench_projectors import WarehouseProjector
from tests.projectors.drawn import ledgers
from tests.projectors.estates import eventful
from tests.toy import PARCELS, PLACES, SCANS, START_MS, TOY, Registered, Scanned, event

_numbers = itertools.count()
BOTH = Store((PARCELS, PLACES, SCANS), TOY.warehouse.views)
"""With a table whose rows are removed and come back."""


class TestWarehouse(ProjectorContract):
    ledgers = ledgers()
    examples = eventful()

    @pytest.fixture(autouse=True)
    def _on(self, server: PostgresServer) -> None:
        self.server = server

    @asynccontextmanager
    async def store(self, partitions: int) -> AsyncIterator[MakeProjector]:
        run_id = f"warehouse-{next(_numbers)}"
        async with await RunDatabase.open(self.server, run_id) as database:

            async def make() -> WarehouseProjector:
                return WarehouseProjector(database, BOTH, partitions)

            yield make
        await RunDatabase.drop(self.server, run_id)

    def expected(self, events: Sequence[Event]) -> str:
        fold = Fold(BOTH.tables)
        fold.apply(events)
        return fold.fingerprint()

    def readable(self) -> Sequence[Relation]:
        return (PARCELS, PLACES, *TOY.warehouse.views)

    def folded(self) -> Sequence[Table]:
        return BOTH.tables


EVENTS = [
    event(0, START_MS, "p0", Registered("north", 1.5)),
    event(1, START_MS, "p1", Registered("south", 2.0)),
    event(2, START_MS + 1, "p0", Scanned(30)),
    event(3, START_MS + 2, "p1", Scanned(45)),
]
CUT = Cut({0: 3})


@pytest.fixture
async def warehouse(database: RunDatabase) -> WarehouseProjector:
    projector = WarehouseProjector(database, TOY.warehouse, 1)
    await projector.apply(EVENTS, CUT)
    return projector


async def test_tables_hold_the_declared_columns_and_nothing_else(warehouse: WarehouseProjector) -> None:
    rows, cut = await warehouse.query("SELECT * FROM warehouse.parcels ORDER BY parcel", {})
    at = from_millis(START_MS)
    assert rows == [("p0", "north", 1.5, at), ("p1", "south", 2.0, at)]
    assert cut == CUT


async def test_a_view_is_read_as_declared_with_or_without_sql(database: RunDatabase) -> None:
    (depots,) = TOY.warehouse.views
    plain = View("depots_derived", depots.columns, depots.inputs, depots.derive)
    warehouse = WarehouseProjector(database, Store(TOY.warehouse.tables, (depots, plain)), 1)
    await warehouse.apply(EVENTS, CUT)
    for name in ("depots", "depots_derived"):
        rows, cut = await warehouse.read(name)
        assert (sorted(rows), cut) == ([("north", 1), ("south", 1)], CUT)


async def test_a_query_takes_parameters_by_name(warehouse: WarehouseProjector) -> None:
    rows, _ = await warehouse.query(
        "SELECT parcel FROM warehouse.scans WHERE at >= %(since)s AND parcel LIKE 'p%%'",
        {"since": from_millis(START_MS + 2)},
    )
    assert rows == [("p1",)]


async def test_without_parameters_a_percent_sign_is_itself(warehouse: WarehouseProjector) -> None:
    rows, _ = await warehouse.query("SELECT count(*) FROM warehouse.scans WHERE parcel LIKE 'p%'", {})
    assert rows == [(2,)]


async def test_whole_sums_are_ints(warehouse: WarehouseProjector) -> None:
    (row,), _ = await warehouse.query("SELECT sum(seconds), avg(seconds) FROM warehouse.scans", {})
    assert row == (75, 37.5)
    assert type(row[0]) is int


@pytest.mark.parametrize(
    "statement",
    [
        "WITH a AS (SELECT 1 AS n) SELECT n FROM a",
        "(SELECT 1)",
        "VALUES (1)",
        "-- how many\nSELECT 1",
        "/* how many */ SELECT 1;",
    ],
)
async def test_whatever_only_reads_is_run(warehouse: WarehouseProjector, statement: str) -> None:
    assert (await warehouse.query(statement, {}))[0] == [(1,)]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM warehouse.scans",
        "DROP TABLE warehouse.scans",
        "COMMIT",
        "SELECT 1; COMMIT",
        "SELECT 1; DELETE FROM warehouse.scans",
        "WITH gone AS (DELETE FROM warehouse.scans RETURNING 1) SELECT * FROM gone",
        "SELECT 1 INTO warehouse.mine",
        "SET statement_timeout = 0",
        "SELECT password FROM meta.reader",
        "SELECT * FROM warehouse.no_such_table",
        "SELECT 1 / 0",
        "SELEC 1",
        "",
        "SELECT 1 WHERE %(missing)s",
    ],
)
async def test_anything_else_is_refused_in_one_line_and_does_no_harm(
    warehouse: WarehouseProjector, statement: str
) -> None:
    with pytest.raises(UsageError) as refused:
        await warehouse.query(statement, {"other": 1} if "missing" in statement else {})
    assert "\n" not in str(refused.value)
    rows, cut = await warehouse.query("SELECT count(*) FROM warehouse.scans", {})
    assert (rows, cut) == ([(2,)], CUT)


async def test_a_setting_of_a_statement_does_not_outlive_it(warehouse: WarehouseProjector) -> None:
    await warehouse.query("SELECT set_config('statement_timeout', '0', false)", {})
    for _ in range(5):
        rows, _ = await warehouse.query("SELECT current_setting('statement_timeout')", {})
        assert rows == [("30s",)]


async def test_a_query_that_takes_too_long_is_cancelled(warehouse: WarehouseProjector, database: RunDatabase) -> None:
    async with database.pool.connection() as connection:
        await connection.execute(f"ALTER ROLE {database.reader_role} SET statement_timeout = '50ms'")
    await database.reader.close()
    database.reader = database._pool(lambda: database.server.conninfo(database.name, database.reader_role))
    await database.reader.open()
    with pytest.raises(SourceUnavailableError, match="too long"):
        await warehouse.query("SELECT pg_sleep(5)", {})


async def test_an_unknown_relation_is_named_with_the_known_ones(warehouse: WarehouseProjector) -> None:
    with pytest.raises(NotFoundError, match=r"no 'crates'; it has: parcels, scans, depots"):
        await warehouse.read("crates")


async def test_a_partition_that_the_ledger_does_not_have_is_refused(warehouse: WarehouseProjector) -> None:
    with pytest.raises(UsageError, match="no partition 7"):
        await warehouse.apply((), Cut({7: 0}))


async def test_a_swap_waits_for_readers_and_shows_them_one_view(database: RunDatabase) -> None:
    warehouse = WarehouseProjector(database, TOY.warehouse, 1)
    await warehouse.apply(EVENTS, CUT)
    shadow = await warehouse.shadow()
    await shadow.apply(EVENTS, CUT)
    slow = asyncio.ensure_future(
        warehouse.query("SELECT (SELECT count(*) FROM warehouse.scans), pg_sleep(0.5)::text", {})
    )
    await asyncio.sleep(0.2)
    swapping = asyncio.ensure_future(warehouse.adopt(shadow))
    later = await asyncio.gather(*(warehouse.read("scans") for _ in range(3)))
    await swapping
    assert (await slow)[0][0][0] == 2
    assert all(len(rows) == 2 and cut == CUT for rows, cut in later)
    assert await warehouse.cut() == CUT


async def test_a_shadow_that_the_view_has_passed_is_not_adopted(database: RunDatabase) -> None:
    warehouse = WarehouseProjector(database, TOY.warehouse, 1)
    shadow = await warehouse.shadow()
    await shadow.apply(EVENTS[:2], Cut({0: 1}))
    await warehouse.apply(EVENTS, CUT)
    with pytest.raises(CutMovedError, match="catch up"):
        await warehouse.adopt(shadow)
    assert (await warehouse.read("scans"))[1] == CUT


async def test_the_reader_may_read_an_adopted_view_and_what_follows(database: RunDatabase) -> None:
    warehouse = WarehouseProjector(database, TOY.warehouse, 1)
    for _ in range(2):
        shadow = await warehouse.shadow()
        await shadow.apply(EVENTS, CUT)
        await warehouse.adopt(shadow)
        assert len((await warehouse.read("depots"))[0]) == 2
    async with database.pool.connection() as connection:
        cursor = await connection.execute("SELECT projector FROM meta.positions")
        assert await cursor.fetchall() == [("warehouse",)]


async def test_a_server_that_is_gone_is_a_source_unavailable(
    warehouse: WarehouseProjector, database: RunDatabase
) -> None:
    await database.close()
    for attempt in (warehouse.cut(), warehouse.read("scans"), warehouse.apply(EVENTS, Cut({0: 9}))):
        with pytest.raises(SourceUnavailableError, match="the PostgreSQL of warehouse did not answer"):
            await attempt


async def test_a_batch_that_fails_half_way_changes_nothing(database: RunDatabase) -> None:
    warehouse = WarehouseProjector(database, TOY.warehouse, 1)
    await warehouse.cut()
    async with database.pool.connection() as connection:
        await connection.execute("ALTER TABLE warehouse.scans ADD CHECK (seconds < 40)")
    with pytest.raises(psycopg.errors.CheckViolation):
        await warehouse.apply(EVENTS, CUT)
    assert await warehouse.cut() == Cut.empty(1)
    assert (await warehouse.read("parcels"))[0] == []
