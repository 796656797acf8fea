"""One embedded PostgreSQL for the module's tests; a database and a toy world for each test."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from churnbench.stores.postgres import PostgresServer, RunDatabase, embedded_server, stop_embedded
from tests.refresher.stage import Stage, staged_world

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
    run_id = f"stage-{next(_numbers)}"
    async with await RunDatabase.open(server, run_id) as database:
        yield database
    await RunDatabase.drop(server, run_id)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged_world(tmp_path) as stage:
        yield stage
