"""A run's collections in Weaviate."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import SecretStr

from churnbench.errors import SourceUnavailableError, UsageError

__all__ = ["WeaviateAddress", "WeaviateRun", "weaviate_answering"]

_GRPC_PORT = 50051
_QUERY_S = 30
_INSERT_S = 60
_INIT_S = 10
_REFUSED = (401, 403)


class WeaviateAddress(NamedTuple):
    """Where a server is.

    Attributes:
        url: http:// or https:// with host and port.
        grpc: host and port of gRPC, secured as `url` is; None: the host of `url` and 50051.
        api_key: None where it lets anybody in.
    """

    url: str
    grpc: str | None = None
    api_key: SecretStr | None = None


def _library() -> Any:
    try:
        # A library that it imports warns of what its next version will need, whatever the filters say.
        with warnings.catch_warnings(record=True):
            import weaviate
            import weaviate.classes
    except ImportError as error:
        raise UsageError(
            "documents in Weaviate need weaviate-client, which is not installed; "
            "run `pip install 'churnbench[servers]'`"
        ) from error
    return weaviate


@contextmanager
def weaviate_answering(what: str = "Weaviate") -> Iterator[None]:
    """Turns a failure to answer into a `SourceUnavailableError`, and a refusal into a `UsageError`; others pass."""
    from weaviate import exceptions

    try:
        yield
    except exceptions.WeaviateBaseError as error:
        text = " ".join(str(error).split())[:300]
        refused = (
            isinstance(error, exceptions.InsufficientPermissionsError | exceptions.AuthenticationFailedError)
            or getattr(error, "status_code", None) in _REFUSED
            or "unauthorized" in text.lower()
        )
        if refused:
            raise UsageError(f"{what} refuses the client: {text}; check weaviate_api_key") from error
        raise SourceUnavailableError(f"{what} did not answer: {text}") from error
    except (OSError, TimeoutError) as error:
        raise SourceUnavailableError(f"{what} did not answer: {str(error) or type(error).__name__}") from error


class WeaviateRun:
    """The collections of one run; an async context manager that closes its client.

    Weaviate has no databases: a run's collections begin with the name of its database in PostgreSQL, whose letters
    are all small after the first, because names that differ by case alone clash.

    Attributes:
        prefix: of the names of the run's collections and aliases.
        client: connected.
    """

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.prefix = _prefix(name)

    @classmethod
    async def open(cls, address: WeaviateAddress, name: str) -> WeaviateRun:
        """Connects to a run's collections.

        Args:
            address: where.
            name: `RunDatabase.name`.

        Raises:
            UsageError: weaviate-client is not installed, the address is none, or the server refuses the key.
            SourceUnavailableError: the server does not answer.
        """
        return cls(await _connected(address), name)

    async def close(self) -> None:
        """Closes the client; the collections stay."""
        await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def collections(self) -> list[str]:
        """The names of the run's collections."""
        return sorted(name for name in await self.client.collections.list_all() if name.startswith(f"{self.prefix}_"))

    async def point(self, alias: str, collection: str) -> None:
        """Lets an alias name a collection, from one moment to the next."""
        current = await self.client.alias.get(alias_name=alias)
        if current is None:
            await self.client.alias.create(alias_name=alias, target_collection=collection)
        elif current.collection != collection:
            await self.client.alias.update(alias_name=alias, new_target_collection=collection)

    @staticmethod
    async def drop(address: WeaviateAddress, name: str) -> None:
        """Removes a run's aliases and collections; what is not there is no error.

        Args:
            address: where.
            name: `RunDatabase.name`.

        Raises:
            SourceUnavailableError: the server does not answer.
        """
        async with await WeaviateRun.open(address, name) as run:
            with weaviate_answering():
                # Aliases first: that of a collection that is gone would dangle.
                for alias in await run.client.alias.list_all():
                    if alias.startswith(f"{run.prefix}_"):
                        await run.client.alias.delete(alias_name=alias)
                for collection in await run.collections():
                    await run.client.collections.delete(collection)


def _prefix(name: str) -> str:
    return name[:1].upper() + name[1:].lower()


async def _connected(address: WeaviateAddress) -> Any:
    host, port, secure, grpc_host, grpc_port = _parts(address)
    weaviate = _library()
    init = weaviate.classes.init
    client = weaviate.use_async_with_custom(
        http_host=host,
        http_port=port,
        http_secure=secure,
        grpc_host=grpc_host,
        grpc_port=grpc_port,
        grpc_secure=secure,
        auth_credentials=None if address.api_key is None else init.Auth.api_key(address.api_key.get_secret_value()),
        additional_config=init.AdditionalConfig(
            timeout=init.Timeout(query=_QUERY_S, insert=_INSERT_S, init=_INIT_S),
        ),
        # Its own checks ask a registry for the newest version of the library.
        skip_init_checks=True,
    )
    try:
        with weaviate_answering():
            await client.connect()
            await client.get_meta()
    except BaseException:
        await client.close()
        raise
    return client


def _parts(address: WeaviateAddress) -> tuple[str, int, bool, str, int]:
    try:
        parts = urlsplit(address.url)
        host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        host, port = None, 0
    if host is None or parts.scheme not in ("http", "https"):
        raise UsageError(f"the setting weaviate_url is {address.url!r}; write http://HOST:PORT or https://HOST:PORT")
    if address.grpc is None:
        return host, port, parts.scheme == "https", host, _GRPC_PORT
    grpc_host, _, grpc_port = address.grpc.rpartition(":")
    if not grpc_host or not grpc_port.isdigit() or (grpc_host, int(grpc_port)) == (host, port):
        raise UsageError(f"the setting weaviate_grpc is {address.grpc!r}; write HOST:PORT of gRPC, not of HTTP")
    return host, port, parts.scheme == "https", grpc_host, int(grpc_port)
