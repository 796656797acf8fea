"""A run's own database: its schemas, its pools, and its role that can only read."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable
from decimal import Decimal
from types import TracebackType
from typing import Any, LiteralString, Self

import psycopg
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg_pool import AsyncConnectionPool
from pydantic import SecretStr

from churnbench.errors import NotFoundError, UsageError
from churnbench.stores._postgres_server import PostgresServer, answering, connected

__all__ = ["SCHEMAS", "RunDatabase", "database_name", "list_databases", "list_half_made"]

SCHEMAS = ("warehouse", "operations", "contracts", "staged", "meta")
"""A run's schemas; the read-only role sees all but `meta`, of which it sees the positions alone."""

_PREFIX = "cb_"
_COMMENT = "churnbench run: "
_LAYOUT = 1
_STATEMENT_TIMEOUT = "30s"
_POOL = 4
_OPTIONS = "-c timezone=UTC -c client_min_messages=warning"

_SETUP: LiteralString = """
CREATE EXTENSION IF NOT EXISTS vector;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO {reader};
CREATE TABLE meta.positions (
  projector text NOT NULL, partition int NOT NULL, position bigint NOT NULL,
  last_seq bigint NOT NULL DEFAULT -1, PRIMARY KEY (projector, partition));
CREATE TABLE meta.reader (password text NOT NULL);
GRANT USAGE ON SCHEMA meta TO {reader};
GRANT SELECT ON meta.positions TO {reader};
CREATE TABLE meta.layout (version int NOT NULL);
"""


class _Number(Loader):
    """`numeric` as int where it is written without a fraction, as float otherwise: sums of ints come as numeric."""

    def load(self, data: Buffer) -> int | float:
        number = Decimal(bytes(data).decode())
        return int(number) if number.is_finite() and number.as_tuple().exponent == 0 else float(number)


async def _configure(connection: psycopg.AsyncConnection[Any]) -> None:
    connection.adapters.register_loader("numeric", _Number)


def database_name(run_id: str) -> str:
    """The database of a run: at most 61 characters, its own for each id."""
    clean = re.sub(r"[^a-z0-9]+", "_", run_id.lower()).strip("_")[:44]
    return f"{_PREFIX}{clean}_{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def _role_name(database: str) -> str:
    return f"{database}_r"


class RunDatabase:
    """The database of one run; an async context manager that closes its pools.

    Attributes:
        run_id: the run.
        server: where it is.
        pool: connections of the owner; autocommit off, times in UTC.
        reader: connections of the run's read-only role: SELECT on the schemas, read-only transactions, 30 s a
            statement. `numeric` comes as int or float.
    """

    run_id: str
    server: PostgresServer
    pool: AsyncConnectionPool[psycopg.AsyncConnection[Any]]
    reader: AsyncConnectionPool[psycopg.AsyncConnection[Any]]

    def __init__(self, server: PostgresServer, run_id: str, password: SecretStr | None) -> None:
        self.server = server
        self.run_id = run_id
        self.name = database_name(run_id)
        self.pool = self._pool(lambda: server.conninfo(self.name))
        self.reader = self._pool(lambda: server.conninfo(self.name, self.reader_role, password))

    @property
    def reader_role(self) -> str:
        """The name of the read-only role."""
        return _role_name(self.name)

    def _pool(self, conninfo: Callable[[], str]) -> AsyncConnectionPool[psycopg.AsyncConnection[Any]]:
        async def ensured() -> str:
            await self.server.ready()
            return conninfo()

        address: Callable[[], Awaitable[str]] = ensured
        return AsyncConnectionPool(
            address,
            min_size=1,
            max_size=_POOL,
            open=False,
            configure=_configure,
            check=AsyncConnectionPool.check_connection,
            kwargs={"options": _OPTIONS, "application_name": "churnbench"},
            name=f"{self.name}",
        )

    @classmethod
    async def open(cls, server: PostgresServer, run_id: str, *, create: bool = True) -> RunDatabase:
        """Opens a run's database; makes database, schemas, extension and role where they are missing.

        Args:
            server: where.
            run_id: whose.
            create: False refuses a run without a database.

        Raises:
            NotFoundError: there is none, and `create` is False.
            UsageError: the server has no pgvector, the owner may not create, or another version made it.
            SourceUnavailableError: the server does not answer.
        """
        with answering():
            try:
                password = await _prepare(server, run_id, create)
            except psycopg.errors.InsufficientPrivilege as error:
                raise UsageError(
                    f"PostgreSQL refuses to make the run's database: {error.diag.message_primary}; "
                    "give postgres_url a user with CREATEDB and CREATEROLE"
                ) from error
            except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
                raise UsageError(
                    f"PostgreSQL lacks pgvector: {error.diag.message_primary}; install the extension `vector` there"
                ) from error
            database = cls(server, run_id, password)
            try:
                await database.pool.open(wait=True)
                await database.reader.open(wait=True)
            except BaseException:
                await database.close()
                raise
        return database

    async def close(self) -> None:
        """Closes both pools; the database stays."""
        await self.reader.close()
        await self.pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def let_read(self, connection: psycopg.AsyncConnection[Any], schema: str) -> None:
        """Lets the read-only role read a schema: what is in it, and what the owner will make in it."""
        await connection.execute(_grants(schema, self.reader_role))

    @staticmethod
    async def drop(server: PostgresServer, run_id: str) -> None:
        """Removes a run's database, whoever is connected to it, and its role; one that is not there is no error.

        Args:
            server: where.
            run_id: whose; or what `list_databases` calls a half-made database.

        Raises:
            SourceUnavailableError: the server does not answer.
        """
        half_made = re.fullmatch(_PREFIX + r"[a-z0-9_]*_[0-9a-f]{8}", run_id) is not None
        async with await connected(server) as connection:
            with answering():
                for name in [database_name(run_id), *([run_id] if half_made else [])]:
                    await connection.execute(
                        sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
                    )
                    await connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(_role_name(name))))


async def list_databases(server: PostgresServer) -> list[str]:
    """The ids of the runs that have a database, sorted; a database that was left half made by its name.

    Raises:
        SourceUnavailableError: the server does not answer.
    """
    async with await connected(server) as connection:
        with answering():
            cursor = await connection.execute(
                "SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database WHERE starts_with(datname, %s)",
                (_PREFIX,),
            )
            rows = await cursor.fetchall()
    return sorted(
        comment.removeprefix(_COMMENT) if comment is not None and comment.startswith(_COMMENT) else name
        for name, comment in rows
    )


async def list_half_made(server: PostgresServer) -> list[str]:
    """What making or dropping left when it was broken off, sorted: by names that `RunDatabase.drop` takes.

    These are databases that do not say whose they are, and databases of which the role alone is left.

    Raises:
        SourceUnavailableError: the server does not answer.
    """
    async with await connected(server) as connection:
        with answering():
            cursor = await connection.execute(
                "SELECT datname FROM pg_database WHERE starts_with(datname, %(prefix)s) "
                "AND NOT starts_with(coalesce(shobj_description(oid, 'pg_database'), ''), %(comment)s) "
                "UNION SELECT left(rolname, -2) FROM pg_roles WHERE starts_with(rolname, %(prefix)s) "
                "AND right(rolname, 2) = '_r' "
                "AND NOT EXISTS (SELECT FROM pg_database WHERE datname = left(rolname, -2))",
                {"prefix": _PREFIX, "comment": _COMMENT},
            )
            return sorted(name for (name,) in await cursor.fetchall())


async def _prepare(server: PostgresServer, run_id: str, create: bool) -> SecretStr | None:
    """Makes what is missing; the read-only role's password."""
    name = database_name(run_id)
    async with await connected(server) as connection:
        # Held until the connection closes: two processes that open a new run at once make it once.
        key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        await connection.execute("SELECT pg_advisory_lock(%s)", (key,))
        cursor = await connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
        if await cursor.fetchone() is None:
            if not create:
                raise NotFoundError(f"the run {run_id!r} has no database; `churnbench runs list` shows the runs")
            await connection.execute(
                # Text sorts by code points on every server, so that ties break alike.
                sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'").format(
                    sql.Identifier(name)
                )
            )
            await connection.execute(
                sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(name), sql.Literal(_COMMENT + run_id))
            )
        async with await psycopg.AsyncConnection.connect(server.conninfo(name), autocommit=True) as inside:
            return await _set_up(inside, server, name)


async def _set_up(connection: psycopg.AsyncConnection[Any], server: PostgresServer, name: str) -> SecretStr | None:
    reader, database = sql.Identifier(_role_name(name)), sql.Identifier(name)
    found = await (await connection.execute("SELECT to_regclass('meta.layout')")).fetchone()
    async with connection.transaction():
        if found is None or found[0] is None:
            await connection.execute("SET LOCAL client_min_messages = warning")
            await connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(reader))
            await connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT").format(reader)
            )
            for setting, value in (("default_transaction_read_only", "on"), ("statement_timeout", _STATEMENT_TIMEOUT)):
                await connection.execute(
                    sql.SQL("ALTER ROLE {} SET {} = {}").format(reader, sql.Identifier(setting), sql.Literal(value))
                )
            await connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
            await connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, reader))
            for schema in SCHEMAS:
                await connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
                if schema != "meta":
                    await connection.execute(_grants(schema, _role_name(name)))
            await connection.execute(sql.SQL(_SETUP).format(reader=reader))
            if not server.embedded:
                password = secrets.token_urlsafe(24)
                await connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(reader, sql.Literal(password)))
                await connection.execute("INSERT INTO meta.reader VALUES (%s)", (password,))
            await connection.execute("INSERT INTO meta.layout VALUES (%s)", (_LAYOUT,))
        layout = await (await connection.execute("SELECT version FROM meta.layout")).fetchone()
        if layout is None or layout[0] != _LAYOUT:
            raise UsageError(
                f"the run's database has layout {layout and layout[0]}, this version works with {_LAYOUT}; "
                "finish the run with the version that began it, or remove it with `churnbench runs rm`"
            )
        row = await (await connection.execute("SELECT password FROM meta.reader")).fetchone()
    return SecretStr(row[0]) if row is not None else None


def _grants(schema: str, reader: str) -> sql.Composed:
    text: LiteralString = (
        "GRANT USAGE ON SCHEMA {schema} TO {reader};"
        "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader};"
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {reader}"
    )
    return sql.SQL(text).format(schema=sql.Identifier(schema), reader=sql.Identifier(reader))
