"""PostgreSQL: a server, and the database that each run has in it, with its read-only role."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool
from pydantic import SecretStr

from churnbench.errors import SourceUnavailableError, UsageError
from churnbench.stores import _embedded
from churnbench.stores._postmaster import PORT, USER

__all__ = [
    "SCHEMAS",
    "PostgresServer",
    "RunDatabase",
    "ServerFacts",
    "embedded_running",
    "embedded_server",
    "list_databases",
    "server_facts",
    "stop_embedded",
]

SCHEMAS = ("warehouse", "operations", "contracts", "staged")
"""The schemas of a run's database that its read-only role may read; `meta` holds positions besides."""

_PREFIX = "churnbench_run_"
_STATEMENT_TIMEOUT_MS = 30_000
_SETUP_LOCK = 7_209_440


class PostgresServer(NamedTuple):
    """A server: how to reach it as a role that may make databases and roles.

    Attributes:
        base: connection string without a database; may hold a password, so it is never shown.
        embedded: whether it is the embedded one, whose roles need no password.
    """

    base: SecretStr
    embedded: bool = False

    def conninfo(self, database: str, user: str | None = None, password: str | None = None) -> str:
        """A connection string to `database`, as another user where one is given."""
        more: dict[str, Any] = {"dbname": database, "application_name": "churnbench"}
        if user is not None:
            more |= {"user": user, "password": password}
        return make_conninfo(self.base.get_secret_value(), **more)

    @classmethod
    def by_url(cls, url: SecretStr) -> PostgresServer:
        """The server behind a URL.

        Raises:
            UsageError: it is no PostgreSQL URL.
        """
        try:
            make_conninfo(url.get_secret_value())
        except psycopg.ProgrammingError as error:
            raise UsageError(
                "the PostgreSQL URL cannot be read; write postgresql://user:password@host:5432/"
            ) from error
        return cls(url)


async def embedded_server(home: Path) -> PostgresServer:
    """The embedded server of a home, started on demand and shared by processes.

    It stops when the last process that used it ends; one that was killed leaves nothing that blocks the next.

    Raises:
        SourceUnavailableError: it does not start.
        UsageError: it cannot run here.
    """
    running = await _embedded.start(home)
    base = make_conninfo(host=str(running.socket_dir), port=PORT, user=USER)
    return PostgresServer(SecretStr(base), embedded=True)


async def stop_embedded(home: Path) -> bool:
    """Stops the embedded server of a home, whoever uses it; False where none runs."""
    return await _embedded.stop(home)


def embedded_running(home: Path) -> bool:
    """Whether the embedded server of a home is up."""
    return _embedded.is_running(home)


@asynccontextmanager
async def _admin(server: PostgresServer, database: str = "postgres") -> AsyncIterator[AsyncConnection[Any]]:
    try:
        connection = await AsyncConnection.connect(server.conninfo(database), autocommit=True)
    except psycopg.OperationalError as error:
        reason = (str(error).strip().splitlines() or ["no message"])[-1]
        raise SourceUnavailableError(
            f"PostgreSQL cannot be reached: {reason}; `churnbench doctor` checks it"
        ) from error
    async with connection:
        yield connection


class ServerFacts(NamedTuple):
    """A server's version, and that of pgvector, None where it is not installed there."""

    version: str
    vector: str | None


async def server_facts(server: PostgresServer) -> ServerFacts:
    """What a server says of itself."""
    async with _admin(server) as connection:
        version = await (await connection.execute("SHOW server_version")).fetchone()
        vector = await (
            await connection.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'")
        ).fetchone()
        return ServerFacts(version[0] if version else "unknown", vector[0] if vector else None)


async def list_databases(server: PostgresServer) -> list[str]:
    """The ids of the runs that have a database."""
    async with _admin(server) as connection:
        cursor = await connection.execute(
            "SELECT coalesce(shobj_description(oid, 'pg_database'), datname) FROM pg_database "
            "WHERE datname LIKE %s ORDER BY 1",
            (_PREFIX.replace("_", r"\_") + "%",),
        )
        return [row[0] async for row in cursor]


def _name(run_id: str) -> str:
    """The run's database: at most 63 characters, distinct for distinct ids."""
    plain = re.sub(r"[^a-z0-9]+", "_", run_id.lower())
    return f"{_PREFIX}{plain[-35:]}_{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


async def _setup(connection: AsyncConnection[Any], role: str) -> None:
    """Makes what is missing in a run's database."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        await connection.execute("CREATE SCHEMA IF NOT EXISTS meta")
        reader = sql.Identifier(role)
        for schema in (*SCHEMAS, "meta"):
            name = sql.Identifier(schema)
            await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
            await connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(name, reader))
            await connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(name, reader))
            await connection.execute(
                sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA {} GRANT SELECT ON TABLES TO {}").format(name, reader)
            )


class RunDatabase:
    """A run's database; an async context manager. Made by `open`.

    Attributes:
        run_id: whose it is.
        name: of the database.
        pool: connections of the owner.
        reader: connections of the run's read-only role, which may SELECT and nothing else, for 30 s at most.
    """

    def __init__(self, run_id: str, owner: str, reader: str) -> None:
        self.run_id = run_id
        self.name = _name(run_id)
        self.pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
            owner, min_size=1, max_size=8, open=False, name=f"{run_id} owner"
        )
        self.reader: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
            reader, min_size=1, max_size=8, open=False, name=f"{run_id} reader"
        )

    @classmethod
    async def open(cls, server: PostgresServer, run_id: str, *, create: bool = True) -> RunDatabase:
        """The database of a run, with its schemas, the extension `vector` and its role.

        Args:
            server: where it is.
            run_id: whose it is.
            create: make what is missing; otherwise it has to be there.

        Raises:
            UsageError: the server lacks pgvector or a right, or the database is missing.
            SourceUnavailableError: the server did not answer.
        """
        name = _name(run_id)
        password = None if server.embedded else secrets.token_urlsafe(24)
        try:
            if create:
                await cls._create(server, run_id, name, password)
            database = cls(run_id, server.conninfo(name), server.conninfo(name, f"{name}_ro", password))
            await database.pool.open(wait=True, timeout=30)
            await database.reader.open(wait=True, timeout=30)
        except psycopg.errors.InsufficientPrivilege as error:
            raise UsageError(
                f"the PostgreSQL role may not do that: {error}; give it CREATEDB and CREATEROLE"
            ) from error
        except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
            raise UsageError(f"PostgreSQL has no pgvector: {error}; install the extension `vector`") from error
        except (psycopg.OperationalError, TimeoutError) as error:
            raise SourceUnavailableError(f"the database of {run_id} cannot be reached: {error}") from error
        return database

    @staticmethod
    async def _create(server: PostgresServer, run_id: str, name: str, password: str | None) -> None:
        role = f"{name}_ro"
        async with _admin(server) as connection:
            await connection.execute("SELECT pg_advisory_lock(%s)", (_SETUP_LOCK,))
            cursor = await connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
            if await cursor.fetchone() is None:
                await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            await connection.execute(
                sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(name), sql.Literal(run_id))
            )
            cursor = await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,))
            exists = await cursor.fetchone() is not None
            options = sql.SQL("LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD {}").format(sql.Literal(password))
            await connection.execute(
                sql.SQL("ALTER ROLE {} {}" if exists else "CREATE ROLE {} {}").format(sql.Identifier(role), options)
            )
            for setting, value in (
                ("default_transaction_read_only", "on"),
                ("statement_timeout", str(_STATEMENT_TIMEOUT_MS)),
                ("idle_in_transaction_session_timeout", "60000"),
            ):
                await connection.execute(
                    sql.SQL("ALTER ROLE {} SET {} = {}").format(
                        sql.Identifier(role), sql.Identifier(setting), sql.Literal(value)
                    )
                )
            await connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))
            await connection.execute(
                sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(name), sql.Identifier(role))
            )
        async with _admin(server, name) as connection:
            await _setup(connection, role)

    async def close(self) -> None:
        """Closes the connections; the database stays."""
        await self.reader.close()
        await self.pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @staticmethod
    async def drop(server: PostgresServer, run_id: str) -> None:
        """Removes a run's database and role, ending its connections; missing ones are no error."""
        name = _name(run_id)
        async with _admin(server) as connection:
            await connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
            await connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(f"{name}_ro")))
