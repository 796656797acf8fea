"""A toy world with all its real sources, walked from one day to another, and an agent over them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from churnbench.events import Event
from churnbench.log import LedgerReader
from churnbench.records import Question, Tick
from churnbench.stores.postgres import RunDatabase
from churnbench_agent import Agent, AgentSources, Routes, ScriptedReader
from churnbench_producers import drive_frozen, frozen_times
from churnbench_projectors import (
    ContractsProjector,
    OperationsProjector,
    ProjectorHost,
    SaasClient,
    SaasProjector,
    SaasServer,
    VirtualPace,
    WarehouseProjector,
)
from churnbench_refresher import Policy, Refresher, RefreshSources, StagedReader
from tests.refresher.stage import EMBEDDER, Stage, staged_world
from tests.toy import MEASURES, REGISTRY, START_MS, TOY, Moved, Registered, Scanned

DAY = 86_400_000


class Desk(NamedTuple):
    """The routes of an agent, and what is behind them."""

    stage: Stage
    ticks: list[Tick]
    sources: AgentSources
    routes: Routes
    server: SaasServer

    def agent(self, reader: Any = None, **named: Any) -> Agent:
        return Agent(self.stage.run, reader or ScriptedReader(), self.routes, **named)

    async def ask(self, measure: str, **params: Any):
        """The answer to one question asked at the last tick."""
        (answer,) = await self.agent().ask([question(f"{measure}-{params}", measure, self.ticks[-1].at_ms, **params)])
        return answer

    async def state(self, tick: Tick) -> State:
        """The world at a tick, by hand."""
        reader = LedgerReader(self.stage.log, self.stage.ledger, TOY.codec)
        return State(await reader.events(tick.cut.moved(dict.fromkeys(tick.cut.positions, -1)), tick.cut))


class State:
    def __init__(self, events: list[Event]) -> None:
        self.depot: dict[str, str] = {}
        self.weight: dict[str, float] = {}
        self.scans: list[tuple[int, str, int]] = []
        for event in events:
            match event.payload:
                case Registered(depot, weight):
                    self.depot[event.entity_id] = depot
                    self.weight[event.entity_id] = weight
                case Moved(depot):
                    self.depot[event.entity_id] = depot
                case Scanned(seconds):
                    self.scans.append((event.at_ms, event.entity_id, seconds))

    def scanned(self, since_ms: int) -> set[str]:
        return {parcel for at, parcel, _ in self.scans if at >= since_ms}


def question(task_id: str, measure: str, at_ms: int = START_MS, **params: Any) -> Question:
    kind = MEASURES[measure].answer_type
    return Question(task_id, measure, params, kind, 1, "tests", "T", f"{measure}?", at_ms)


@asynccontextmanager
async def open_desk(database: RunDatabase, folder: Path, first: int, last: int, policy: Policy) -> AsyncIterator[Desk]:
    """Walks from day `first` to day `last` under a refresh policy."""
    async with staged_world(folder) as stage:
        warehouse = WarehouseProjector(database, TOY.warehouse, 1)
        operations = OperationsProjector(database, TOY.operations, 1)
        contracts = ContractsProjector(database, TOY.documents, EMBEDDER, 1)
        saas = SaasProjector(TOY.saas, 1)
        projectors = [warehouse, operations, saas, contracts]
        host = ProjectorHost(stage.log, stage.run, stage.ledger, TOY.codec, projectors)
        read = RefreshSources({"warehouse": warehouse, "operations": operations}, contracts)
        refresher = Refresher(database, stage.log, stage.run, stage.ledger, TOY, REGISTRY, read, policy, "extract")
        times = frozen_times(START_MS + first * DAY, START_MS + last * DAY)
        names = [*(projector.name for projector in projectors), "refresher"]
        async with asyncio.TaskGroup() as group:
            group.create_task(host.run_clock())
            group.create_task(refresher.run_clock())
            walk = group.create_task(drive_frozen(stage.log, stage.run, stage.ledger, times, names, patience=30))
        async with SaasServer(saas, VirtualPace()) as server, SaasClient(server.url, VirtualPace(), "run") as client:
            staged = StagedReader(database, REGISTRY, EMBEDDER)
            sources = AgentSources(staged, warehouse, operations, client, contracts)
            yield Desk(stage, walk.result(), sources, Routes(REGISTRY, sources), server)
        for projector in projectors:
            await projector.close()
