"""The other projectors keep the contract as well."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from churnbench.events import Event
from churnbench.stores.postgres import PostgresServer, RunDatabase
from churnbench.tables import Fold
from churnbench.testing import MakeProjector, ProjectorContract
from churnbench_projectors import (
    ContractsProjector,
    HashingEmbedder,
    SaasProjector,
    chunks_fingerprint,
    folded_chunks,
)
from tests.projectors.drawn import ledgers
from tests.projectors.estates import eventful
from tests.toy import TOY

_numbers = itertools.count()
KEEPS_ALL = msgspec.structs.replace(TOY.saas, keep_ms=None)


class TestContracts(ProjectorContract):
    ledgers = ledgers(most=20)
    examples = eventful(3, 3)

    @pytest.fixture(autouse=True)
    def _on(self, server: PostgresServer) -> None:
        self.server = server

    @asynccontextmanager
    async def store(self, partitions: int) -> AsyncIterator[MakeProjector]:
        run_id = f"suite-{next(_numbers)}"
        async with await RunDatabase.open(self.server, run_id) as database:

            async def make() -> ContractsProjector:
                return ContractsProjector(database, TOY.documents, HashingEmbedder(), partitions)

            yield make
        await RunDatabase.drop(self.server, run_id)

    def expected(self, events: Sequence[Event]) -> str:
        return chunks_fingerprint(folded_chunks(TOY.documents, events))


class TestSaas(ProjectorContract):
    ledgers = ledgers()
    examples = eventful()
    shared = False

    @asynccontextmanager
    async def store(self, partitions: int) -> AsyncIterator[MakeProjector]:
        async def make() -> SaasProjector:
            return SaasProjector(KEEPS_ALL, partitions)

        yield make

    def expected(self, events: Sequence[Event]) -> str:
        fold = Fold(KEEPS_ALL.tables)
        fold.apply(events)
        return fold.fingerprint()
