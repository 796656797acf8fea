"""One embedded PostgreSQL for the tests of projectors; a database for each test that asks for one."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from churnbench.stores.postgres import PostgresServer, RunDatabase, embedded_server, stop_embedded

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    # A socket's path is short on every system; pytest's own folders are not.
    home = Path(tempfile.mkdtemp(prefix="cb"))
    yield asyncio.run(embedded_server(home))
    asyncio.run(stop_embedded(home))
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def database(server: PostgresServer) -> AsyncIterator[RunDatabase]:
    run_id = f"projectors-{next(_numbers)}"
    async with await RunDatabase.open(server, run_id) as database:
        yield database
    await RunDatabase.drop(server, run_id)
