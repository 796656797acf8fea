"""A run's database in MongoDB: as its owner sees it, and as a user who can only read."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pydantic import SecretStr

from churnbench.errors import SourceUnavailableError, UsageError
from churnbench.stores.postgres import RunDatabase, answering
from churnbench_projectors._positions import SETUP_LOCK

if TYPE_CHECKING:
    from pymongo import AsyncMongoClient
    from pymongo.asynchronous.database import AsyncDatabase

__all__ = ["MongoRun", "mongo_answering"]

_REFUSED = {13, 18}
"""Codes of MongoDB: Unauthorized, AuthenticationFailed."""
_SELECTION_MS = 5_000
_SOCKET_MS = 60_000


def _library() -> Any:
    try:
        import pymongo
    except ImportError as error:
        raise UsageError(
            "operations in MongoDB need pymongo, which is not installed; run `pip install 'churnbench[servers]'`"
        ) from error
    return pymongo


@contextmanager
def mongo_answering(what: str = "MongoDB") -> Iterator[None]:
    """Turns a failure to answer into a `SourceUnavailableError`, and a refusal into a `UsageError`; others pass."""
    from pymongo import errors

    try:
        yield
    except errors.BulkWriteError:
        raise
    except errors.OperationFailure as error:
        if error.code in _REFUSED:
            raise UsageError(
                f"{what} refuses its user: {_line(error)}; check user and password of mongo_url, whose user needs "
                "the roles readWriteAnyDatabase and userAdminAnyDatabase"
            ) from error
        raise SourceUnavailableError(f"{what} failed: {_line(error)}") from error
    except errors.ConfigurationError as error:
        raise UsageError(f"the setting mongo_url is wrong: {_line(error)}") from error
    except errors.PyMongoError as error:
        raise SourceUnavailableError(f"{what} did not answer: {_line(error)}") from error


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


class MongoRun:
    """The database of one run; an async context manager that closes its clients.

    Every write is acknowledged by the majority and journaled, because the position that is stored after it, in
    PostgreSQL, says that it is there; every read is of the primary.

    Where the server asks for a password, a user of the run's own database, with the role `read` there and nothing
    else, is made; its name and password stand in the run's PostgreSQL, in `meta.mongo_reader`, for the owner alone.
    Where it asks for none, whoever reaches the server may write, and `reader` differs from `owner` in name only.

    Attributes:
        name: of the database, as in PostgreSQL.
        owner: the database, to write to.
        reader: the same as the run's read-only user.
        reader_user: that user's name; None where the server asks for no password.
    """

    def __init__(
        self,
        name: str,
        owner: AsyncMongoClient[dict[str, Any]],
        reader: AsyncMongoClient[dict[str, Any]] | None,
        reader_user: str | None,
    ) -> None:
        self.name = name
        self.reader_user = reader_user
        self._clients = [owner, *([reader] if reader is not None else [])]
        self.owner = _database(owner, name)
        self.reader = _database(reader or owner, name)

    @classmethod
    async def open(cls, url: SecretStr, db: RunDatabase) -> MongoRun:
        """Opens a run's database, which exists from its first document on.

        Args:
            url: mongodb:// or mongodb+srv://; where the server asks for a password, its user needs the roles
                readWriteAnyDatabase and userAdminAnyDatabase.
            db: the run's database in PostgreSQL.

        Raises:
            UsageError: pymongo is not installed, the URL is none, or the server refuses its user.
            SourceUnavailableError: the server does not answer.
        """
        owner = _client(url)
        reader = None
        try:
            with mongo_answering():
                status = await owner.admin.command("connectionStatus")
                user = None
                if status["authInfo"]["authenticatedUsers"]:
                    user = f"{db.name}_r"
                    password = await _reader(owner, db, user)
                    reader = _client(
                        url,
                        username=user,
                        password=password,
                        authSource=db.name,
                        authMechanism="SCRAM-SHA-256",
                    )
                    await reader[db.name].command("ping")
            return cls(db.name, owner, reader, user)
        except BaseException:
            await owner.close()
            if reader is not None:
                await reader.close()
            raise

    async def close(self) -> None:
        """Closes the clients; the database stays."""
        for client in self._clients:
            await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @staticmethod
    async def drop(url: SecretStr, name: str) -> None:
        """Removes a run's database and its user; what is not there is no error.

        Args:
            url: see `open`.
            name: `RunDatabase.name`.

        Raises:
            SourceUnavailableError: the server does not answer.
        """
        client = _client(url)
        try:
            with mongo_answering():
                status = await client.admin.command("connectionStatus")
                if status["authInfo"]["authenticatedUsers"]:
                    await client[name].command("dropAllUsersFromDatabase")
                # Its collections, with which it goes: the right to drop a database is in neither role of its owner.
                for collection in await client[name].list_collection_names():
                    await client[name].drop_collection(collection)
        finally:
            await client.close()


def _client(url: SecretStr, **user: str) -> AsyncMongoClient[dict[str, Any]]:
    with_url = {
        "host": url.get_secret_value(),
        "appname": "churnbench",
        "serverSelectionTimeoutMS": _SELECTION_MS,
        "connectTimeoutMS": _SELECTION_MS,
        "socketTimeoutMS": _SOCKET_MS,
        **user,
    }
    pymongo = _library()
    try:
        client: AsyncMongoClient[dict[str, Any]] = pymongo.AsyncMongoClient(**with_url)
    except (pymongo.errors.ConfigurationError, ValueError) as error:
        # Its text may repeat parts of the URL.
        raise UsageError(
            f"the setting mongo_url is no MongoDB URL ({type(error).__name__}); write mongodb://USER:PASSWORD@HOST:PORT"
        ) from None
    return client


def _database(client: AsyncMongoClient[dict[str, Any]], name: str) -> AsyncDatabase[dict[str, Any]]:
    from pymongo import ReadPreference, WriteConcern
    from pymongo.read_concern import ReadConcern

    return client.get_database(
        name,
        write_concern=WriteConcern("majority", wtimeout=_SOCKET_MS // 2, j=True),
        read_concern=ReadConcern("majority"),
        read_preference=ReadPreference.PRIMARY,
    )


async def _reader(owner: AsyncMongoClient[dict[str, Any]], db: RunDatabase, user: str) -> str:
    """Makes the run's read-only user where it is missing; its password."""
    with answering():
        async with db.pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
            await connection.execute("CREATE TABLE IF NOT EXISTS meta.mongo_reader (name text, password text NOT NULL)")
            row = await (await connection.execute("SELECT password FROM meta.mongo_reader")).fetchone()
            known = await owner[db.name].command("usersInfo", user)
            if row is not None and known["users"]:
                return str(row[0])
            password = str(row[0]) if row is not None else secrets.token_urlsafe(24)
            if row is None:
                await connection.execute("INSERT INTO meta.mongo_reader VALUES (%s, %s)", (user, password))
            await owner[db.name].command(
                "updateUser" if known["users"] else "createUser",
                user,
                pwd=password,
                roles=[{"role": "read", "db": db.name}],
            )
            return password
