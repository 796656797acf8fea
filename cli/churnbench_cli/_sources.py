"""The four sources of a run, in its own database, with their projectors and the SaaS's server and client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from churnbench.cuts import Cut
from churnbench.log import LedgerReader
from churnbench.sources import EmbeddedChunk, Embedder, Projector
from churnbench.stores.postgres import RunDatabase, embedded_server
from churnbench_cli._home import Home
from churnbench_projectors import (
    ContractsProjector,
    OperationsProjector,
    RealPace,
    SaasClient,
    SaasProjector,
    SaasServer,
    VirtualPace,
    WarehouseProjector,
    folded_chunks,
    make_embedder,
)

__all__ = ["Sources", "opened_sources"]


class Sources(NamedTuple):
    """What a run reads, and who keeps it."""

    database: RunDatabase
    embedder: Embedder
    warehouse: WarehouseProjector
    operations: OperationsProjector
    saas: SaasProjector
    contracts: ContractsProjector | None
    saas_client: SaasClient
    saas_url: str

    @property
    def projectors(self) -> list[Projector]:
        """All of them."""
        kept: list[Projector] = [self.warehouse, self.operations, self.saas]
        return kept if self.contracts is None else [*kept, self.contracts]


@asynccontextmanager
async def opened_sources(home: Home, run_id: str, partitions: int) -> AsyncIterator[Sources]:
    """The sources of a run, made where they are missing; closing leaves the stores as they are."""
    domain = home.domain
    async with AsyncExitStack() as stack:
        server = await embedded_server(home.path)
        database = await RunDatabase.open(server, run_id)
        stack.push_async_callback(database.close)
        embedder = make_embedder(home.settings.embedder)
        warehouse = WarehouseProjector(database, domain.warehouse, partitions)
        operations = OperationsProjector(database, domain.operations, partitions)
        saas = SaasProjector(domain.saas, partitions)
        contracts = None
        if domain.documents is not None:
            contracts = ContractsProjector(database, domain.documents, embedder, partitions)
        virtual = home.settings.saas_latency == "virtual"
        service = await stack.enter_async_context(SaasServer(saas, VirtualPace() if virtual else RealPace(home.clock)))
        pace = VirtualPace() if virtual else RealPace(home.clock)
        client = await stack.enter_async_context(SaasClient(service.url, pace, run_id))
        sources = Sources(database, embedder, warehouse, operations, saas, contracts, client, service.url)
        for projector in sources.projectors:
            stack.push_async_callback(projector.close)
        yield sources


async def documents_at(home: Home, topic: str, embedder: Embedder, cut: Cut) -> Sequence[EmbeddedChunk]:
    """The documents as of a cut, rendered and embedded anew from the ledger."""
    documents = home.domain.documents
    if documents is None:
        return []
    reader = LedgerReader(home.log, topic, home.domain.codec, documents.table.kinds)
    events = await reader.events(Cut.empty(len(cut.positions)), cut)
    chunks = folded_chunks(documents, events)
    vectors = embedder.embed([chunk.text for chunk in chunks])
    return [EmbeddedChunk(*chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True)]
