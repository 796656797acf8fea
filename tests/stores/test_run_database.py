"""A run's database: its own, with a role that can only read."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from churnbench.errors import NotFoundError, SourceUnavailableError, UsageError
from churnbench.stores._postgres_server import connected
from churnbench.stores._run_database import database_name
from churnbench.stores.postgres import (
    SCHEMAS,
    PostgresServer,
    RunDatabase,
    embedded_server,
    list_databases,
    server_facts,
    stop_embedded,
)

RUN = "20240427-093000-window-28-abc123"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    home = Path(tempfile.mkdtemp(prefix="cb"))
    yield asyncio.run(embedded_server(home))
    asyncio.run(stop_embedded(home))
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def database(server: PostgresServer) -> AsyncIterator[RunDatabase]:
    async with await RunDatabase.open(server, RUN) as database:
        yield database
    await RunDatabase.drop(server, RUN)


async def _do(database: RunDatabase, statement: str) -> None:
    async with database.pool.connection() as connection:
        await connection.execute(statement)


async def _read(database: RunDatabase, statement: str) -> list[tuple]:
    async with database.reader.connection() as connection:
        return await (await connection.execute(statement)).fetchall()


async def test_the_schemas_are_there_and_the_reader_sees_what_is_made_later(database: RunDatabase) -> None:
    for schema in SCHEMAS[:4]:
        await _do(database, f"CREATE TABLE {schema}.later AS SELECT 1 AS n")
        assert await _read(database, f"SELECT n FROM {schema}.later") == [(1,)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO warehouse.t VALUES (1)",
        "UPDATE warehouse.t SET n = 2",
        "DELETE FROM warehouse.t",
        "TRUNCATE warehouse.t",
        "CREATE TABLE warehouse.mine (n int)",
        "CREATE TABLE public.mine (n int)",
        "CREATE TEMP TABLE mine (n int)",
        "SELECT password FROM meta.reader",
        "SELECT pg_read_file('postgresql.conf')",
        "COPY warehouse.t TO PROGRAM 'true'",
        "SET ROLE churnbench",
        "SELECT set_config('transaction_read_only', 'off', false); DELETE FROM warehouse.t",
    ],
)
async def test_the_reader_can_only_read(database: RunDatabase, statement: str) -> None:
    await _do(database, "CREATE TABLE warehouse.t AS SELECT 1 AS n")
    async with database.reader.connection() as connection:
        await connection.execute("SELECT 1")
        with pytest.raises(psycopg.Error):
            await connection.execute(statement)
        await connection.rollback()
    assert await _read(database, "SELECT n FROM warehouse.t") == [(1,)]


async def test_a_reader_of_one_run_cannot_enter_another(server: PostgresServer, database: RunDatabase) -> None:
    async with await RunDatabase.open(server, "other") as other:
        with pytest.raises(psycopg.OperationalError, match="permission denied"):
            await psycopg.AsyncConnection.connect(server.conninfo(other.name, database.reader_role))
    await RunDatabase.drop(server, "other")


async def test_a_reader_s_statement_ends_in_time(database: RunDatabase) -> None:
    assert await _read(database, "SHOW statement_timeout") == [("30s",)]


async def test_times_are_utc_and_sums_of_whole_numbers_are_whole(database: RunDatabase) -> None:
    ((whole, broken, at),) = await _read(
        database,
        "SELECT sum(n), avg(n), timestamptz '2024-04-27 02:00+02' FROM (VALUES (1::bigint), (2)) AS v(n)",
    )
    assert (whole, type(whole), broken) == (3, int, 1.5)
    assert at.isoformat() == "2024-04-27T00:00:00+00:00"


async def test_opening_again_finds_what_was_stored(server: PostgresServer, database: RunDatabase) -> None:
    await _do(database, "CREATE TABLE warehouse.t AS SELECT 1 AS n")
    async with await RunDatabase.open(server, RUN, create=False) as again:
        assert await _read(again, "SELECT n FROM warehouse.t") == [(1,)]


async def test_several_who_open_a_new_run_at_once_make_it_once(server: PostgresServer) -> None:
    opened = await asyncio.gather(*(RunDatabase.open(server, "at-once") for _ in range(4)))
    for database in opened:
        assert await _read(database, "SELECT 1") == [(1,)]
        await database.close()
    await RunDatabase.drop(server, "at-once")


async def test_a_run_without_a_database_is_not_found(server: PostgresServer) -> None:
    with pytest.raises(NotFoundError, match="no-such-run"):
        await RunDatabase.open(server, "no-such-run", create=False)


async def test_ids_that_differ_only_in_signs_have_databases_of_their_own(server: PostgresServer) -> None:
    ids = ["a-b", "a_b", "A b", "x" * 300, "x" * 299 + "y", "ü", "'; DROP"]
    for run_id in ids:
        async with await RunDatabase.open(server, run_id) as database:
            await _do(database, "CREATE TABLE warehouse.t (n int)")
    assert await list_databases(server) == sorted(ids)
    for run_id in ids:
        await RunDatabase.drop(server, run_id)
    assert await list_databases(server) == []


async def test_dropping_ends_connections_and_leaves_no_role(server: PostgresServer) -> None:
    database = await RunDatabase.open(server, "going")
    await RunDatabase.drop(server, "going")
    await RunDatabase.drop(server, "going")
    await database.close()
    assert await list_databases(server) == []
    async with await connected(server) as connection:
        cursor = await connection.execute("SELECT count(*) FROM pg_roles WHERE starts_with(rolname, 'cb_')")
        assert await cursor.fetchone() == (0,)


async def test_a_half_made_database_is_finished_or_can_be_dropped(server: PostgresServer) -> None:
    async with await connected(server) as connection:
        await connection.execute("CREATE DATABASE cb_half_0123abcd")
    assert await list_databases(server) == ["cb_half_0123abcd"]
    await RunDatabase.drop(server, "cb_half_0123abcd")
    assert await list_databases(server) == []
    async with await connected(server) as connection:
        await connection.execute(f"CREATE DATABASE {database_name(RUN)}")
        await connection.execute(f"CREATE ROLE {database_name(RUN)}_r")
    async with await RunDatabase.open(server, RUN) as again:
        assert await _read(again, "SELECT count(*) FROM meta.positions") == [(0,)]
    await RunDatabase.drop(server, RUN)


async def test_a_server_by_url_gives_the_reader_a_password_of_its_own(server: PostgresServer) -> None:
    by_url = PostgresServer.by_url(SecretStr(server.conninfo("postgres")))
    async with await RunDatabase.open(by_url, "by-url") as database:
        assert await _read(database, "SELECT 1") == [(1,)]
        async with database.pool.connection() as connection:
            ((first,),) = await (await connection.execute("SELECT password FROM meta.reader")).fetchall()
    async with await RunDatabase.open(by_url, "by-url") as database, database.pool.connection() as connection:
        ((second,),) = await (await connection.execute("SELECT password FROM meta.reader")).fetchall()
    assert len(first) > 20
    assert first == second
    await RunDatabase.drop(by_url, "by-url")


async def test_no_error_holds_the_password() -> None:
    with pytest.raises(UsageError) as refused:
        PostgresServer.by_url(SecretStr("postgresql://owner:s3cret@host:notaport:9/x?y=z"))
    gone = PostgresServer.by_url(SecretStr("postgresql://owner:s3cret@127.0.0.1:1/x"))
    with pytest.raises(SourceUnavailableError) as unanswered:
        await server_facts(gone)
    for text in (str(refused.value), repr(refused.value), str(unanswered.value), repr(gone)):
        assert "s3cret" not in text
