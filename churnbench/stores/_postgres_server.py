"""A PostgreSQL server: where it is, as whom, and what it can do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import PoolClosed, PoolTimeout
from pydantic import SecretStr

from churnbench.errors import SourceUnavailableError, UsageError

__all__ = ["PostgresServer", "ServerFacts", "answering", "connected", "server_facts"]


class PostgresServer:
    """A server that an owner, who may create databases and roles, connects to.

    Args:
        parameters: libpq's parameters of the owner's connection.
        ensure: makes sure that the server runs and gives its parameters; None where it is not ours to start.
    """

    def __init__(
        self, parameters: Mapping[str, str], ensure: Callable[[], Awaitable[Mapping[str, str]]] | None = None
    ) -> None:
        self._parameters = dict(parameters)
        self._ensure = ensure

    def __repr__(self) -> str:
        return f"PostgresServer({self._parameters.get('host', '')}:{self._parameters.get('port', '')})"

    @classmethod
    def by_url(cls, url: SecretStr) -> PostgresServer:
        """The server at `url`, whose user may create databases and roles.

        Raises:
            UsageError: it is no URL of PostgreSQL.
        """
        try:
            parameters = conninfo_to_dict(url.get_secret_value())
        except psycopg.ProgrammingError:
            raise UsageError(
                "the setting postgres_url is no PostgreSQL URL; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            ) from None
        return cls({name: str(value) for name, value in parameters.items()})

    @property
    def embedded(self) -> bool:
        """Whether the server is ours to start."""
        return self._ensure is not None

    @property
    def maintenance(self) -> str:
        """The database to create others from."""
        return self._parameters.get("dbname", "postgres")

    def conninfo(self, database: str, user: str | None = None, password: SecretStr | None = None) -> str:
        """The connection string for libpq.

        Args:
            database: which one.
            user: None: the owner.
            password: of `user`; None: none. The owner's stands in the URL.
        """
        parameters = {**self._parameters, "dbname": database}
        if user is not None:
            parameters["user"] = user
            parameters.pop("password", None)
            if password is not None:
                parameters["password"] = password.get_secret_value()
        return make_conninfo("", **parameters)

    async def ready(self) -> None:
        """Starts an embedded server that does not run; nothing for one by URL.

        Raises:
            SourceUnavailableError: it does not start.
        """
        if self._ensure is not None:
            self._parameters = dict(await self._ensure())


class ServerFacts(NamedTuple):
    """What a server is: its version, and pgvector's, None where it cannot be had."""

    version: str
    vector: str | None


@contextmanager
def answering(what: str = "PostgreSQL") -> Iterator[None]:
    """Turns a failure to answer into a `SourceUnavailableError` that names `what`; other errors pass."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, PoolClosed) as error:
        lines = str(error).strip().splitlines()
        raise SourceUnavailableError(f"{what} did not answer: {lines[0] if lines else type(error).__name__}") from error


async def connected(server: PostgresServer, database: str | None = None) -> psycopg.AsyncConnection[Any]:
    """A connection of the owner in autocommit, to be closed by the caller.

    Raises:
        SourceUnavailableError: the server does not answer.
    """
    await server.ready()
    with answering():
        return await psycopg.AsyncConnection.connect(server.conninfo(database or server.maintenance), autocommit=True)


async def server_facts(server: PostgresServer) -> ServerFacts:
    """Asks the server.

    Raises:
        SourceUnavailableError: it does not answer.
    """
    async with await connected(server) as connection:
        with answering():
            cursor = await connection.execute(
                "SELECT current_setting('server_version'), "
                "(SELECT default_version FROM pg_available_extensions WHERE name = 'vector')"
            )
            row = await cursor.fetchone()
    if row is None:
        raise SourceUnavailableError("PostgreSQL did not say its version; look at its log")
    return ServerFacts(str(row[0]).split()[0], row[1])
