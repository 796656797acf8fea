"""One run from its manifest to its verdicts; called again, it goes on where it was broken off."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from churnbench.cuts import Cut
from churnbench.domain import Domain, Task
from churnbench.errors import TerminalError
from churnbench.records import Answer, Question, Refresh, Tick, Verdict
from churnbench.registry import Registry
from churnbench.runs import MANIFEST, Manifest, Run, new_run_id
from churnbench.sources import EmbeddedChunk
from churnbench.stores.postgres import RunDatabase, embedded_server
from churnbench.worlds import WorldManifest, ledger_topic
from churnbench_agent import Agent, AgentSources, Routes, ScriptedReader
from churnbench_cli._home import Home, run_lock
from churnbench_cli._outcome import SUMMARY, Finished, write_outcome
from churnbench_cli._output import Steps
from churnbench_cli._plan import Cell, cell_config, provenance, run_settings
from churnbench_cli._sources import Sources, documents_at, opened_sources
from churnbench_producers import drive_frozen, frozen_times
from churnbench_projectors import ProjectorHost
from churnbench_refresher import REFRESHER, Refresher, RefreshSources, StagedReader, find_policy
from churnbench_scorer import LedgerIndex, RunResult, score, summarize

__all__ = ["execute", "new_run", "questions_of", "run_result"]

SCORER_VERSION = "1"


def questions_of(domain: Domain, tasks: Sequence[Task], at_ms: int) -> list[Question]:
    """The tasks as questions asked at a time."""
    return [
        Question(
            task_id=task.task_id,
            measure=task.measure,
            params=task.params,
            answer_type=task.answer_type,
            tier=task.tier,
            intent=task.intent,
            template_id=task.template_id,
            text=domain.question(task, at_ms),
            at_ms=at_ms,
        )
        for task in tasks
    ]


async def new_run(home: Home, world: WorldManifest, cell: Cell, tasks: list[Task], embedder: str) -> Manifest:
    """Makes a run's topics with its questions and, last, its manifest; nothing is overwritten."""
    now = home.clock.now_ms()
    stores = {"warehouse": "postgresql", "operations": "postgresql", "documents": "pgvector", "embedder": embedder}
    config = cell_config(cell, world, tasks, home.settings, stores, SCORER_VERSION)
    details = provenance(now)
    topics = await home.log.topics()
    while True:
        run = Run(home.log, new_run_id(now, cell.label))
        if run.topic_name(MANIFEST) not in topics and not (home.runs / run.run_id).exists():
            break
    manifest = Manifest(
        run_id=run.run_id,
        created=details["started"],
        world=world,
        config=config,
        provenance=details,
        tasks=len(tasks),
    )
    async with home.locks.at_once(run_lock(run.run_id), f"the run {run.run_id}"):
        await run.create_topics()
        await run.topic("questions").append(questions_of(home.domain, tasks, cell.t_ms), cell.t_ms)
        await run.publish_manifest(manifest, now)
        home.folder(run.run_id).write_manifest(manifest)
    return manifest


def _refresher(home: Home, run: Run, cell: Cell, sources: Sources, topic: str) -> Refresher:
    async def at(cut: Cut) -> Sequence[EmbeddedChunk]:
        return await documents_at(home, topic, sources.embedder, cut)

    read = RefreshSources({"warehouse": sources.warehouse, "operations": sources.operations}, sources.contracts, at)
    return Refresher(
        sources.database,
        home.log,
        run,
        topic,
        home.domain,
        home.domain.registries[cell.registry],
        read,
        find_policy(cell.refresh, cell.rule),
        cell.way,
        clock=home.clock,
    )


async def _walk(home: Home, run: Run, cell: Cell, sources: Sources, topic: str, progress: Steps) -> tuple[float, float]:
    """Keeps sources and staged cache from T' to T; seconds until the first tick, and from there on."""
    times = frozen_times(cell.t_prime_ms, cell.t_ms)
    host = ProjectorHost(home.log, run, topic, home.domain.codec, sources.projectors, clock=home.clock)
    refresher = _refresher(home, run, cell, sources, topic)
    participants = [*(p.name for p in sources.projectors), REFRESHER]
    reached: list[float] = []

    def note(tick: Tick) -> None:
        reached.append(home.clock.monotonic())
        progress.advance(f"{cell.label}: walk", tick.number + 1, len(times))

    begun = home.clock.monotonic()
    # The services end by themselves at the final tick. On the way they are not to be cut short: a walk that is gone on
    # with has old watermarks, but a SaaS in memory starts empty.
    async with asyncio.TaskGroup() as group:
        group.create_task(host.run_clock())
        group.create_task(refresher.run_clock())
        group.create_task(drive_frozen(home.log, run, topic, times, participants, note))
    return reached[0] - begun, reached[-1] - reached[0]


async def _ask(home: Home, run: Run, cell: Cell, sources: Sources, retry_failed: bool, progress: Steps) -> None:
    registry = home.domain.registries[cell.registry]
    staged = StagedReader(sources.database, registry, sources.embedder)
    routes = Routes(
        registry,
        AgentSources(staged, sources.warehouse, sources.operations, sources.saas_client, sources.contracts),
        home.clock,
    )
    agent = Agent(run, ScriptedReader(), routes)
    total, done = len(await run.topic("questions").all()), len(await agent.last_answers())

    def note(answer: Answer) -> None:
        nonlocal done
        done += 1
        progress.advance(f"{cell.label}: ask", done, total)

    await agent.ask(retry_failed=retry_failed, progress=note)


def run_result(
    manifest: Manifest,
    registry: Registry,
    questions: Sequence[Question],
    answers: Sequence[Answer],
    verdicts: Sequence[Verdict],
    refreshes: Sequence[Refresh],
    ticks: Sequence[Tick],
    dead_letters: int,
) -> RunResult:
    """What a report is made of, from a run's records."""
    cell = Cell.of(manifest)
    return RunResult(
        run_id=manifest.run_id,
        world=manifest.world.spec.name,
        t_prime_ms=cell.t_prime_ms,
        t_ms=cell.t_ms,
        window=cell.window,
        refresh=cell.refresh,
        registry=cell.registry,
        reader=cell.reader,
        questions=questions,
        answers=answers,
        verdicts=verdicts,
        summary=summarize(questions, answers, verdicts, refreshes),
        refreshes=refreshes,
        ticks=ticks,
        ttls_ms={policy.name: policy.ttl_ms for policy in registry.classes if policy.ttl_ms is not None},
        settings=run_settings(manifest),
        dead_letters=dead_letters,
    )


async def _scored(home: Home, manifest: Manifest, index: LedgerIndex, seconds: dict[str, float]) -> Finished:
    """Verdicts, where they are missing, and what the run comes to."""
    run, registry = Run(home.log, manifest.run_id), home.domain.registries[Cell.of(manifest).registry]
    begun = home.clock.monotonic()
    questions, answers = await run.topic("questions").all(), await run.topic("answers").all()
    ticks, refreshes = await run.topic("clock").all(), await run.topic("refreshes").all()
    verdicts = score(index, home.domain, registry, ticks, questions, answers)
    known = {verdict.task_id: verdict for verdict in await run.topic("verdicts").all()}
    new = [verdict for verdict in verdicts if known.get(verdict.task_id) != verdict]
    await run.topic("verdicts").append(new, Cell.of(manifest).t_ms)
    seconds["score"] = home.clock.monotonic() - begun
    dead = len(await run.topic("dead-letters").all())
    result = run_result(manifest, registry, questions, answers, verdicts, refreshes, ticks, dead)
    return Finished(manifest, result, seconds, dead)


async def execute(
    home: Home,
    manifest: Manifest,
    index: LedgerIndex,
    progress: Steps,
    *,
    retry_failed: bool = False,
    keep: bool = False,
) -> Finished:
    """Brings a run to its end: walk, ask, score, export. What is done already is not done again.

    Args:
        home: where it lives.
        manifest: the run's.
        index: of its world.
        progress: bars.
        retry_failed: ask those anew whose answers failed in transport.
        keep: leave the run's database.

    Raises:
        HeldError: another process is at it.
        TerminalError: the run met records that are no events.
    """
    run_id = manifest.run_id
    cell = Cell.of(manifest)
    run, topic, clock = Run(home.log, run_id), ledger_topic(manifest.world.spec.name), home.clock
    seconds: dict[str, float] = {}
    async with home.locks.at_once(run_lock(run_id), f"the run {run_id}", patience=10.0):
        if (home.runs / run_id / SUMMARY).exists() and not retry_failed:
            finished = await _scored(home, manifest, index, seconds)
        else:
            async with opened_sources(home, run_id, manifest.world.spec.partitions) as sources:
                seconds["project"], seconds["walk"] = await _walk(home, run, cell, sources, topic, progress)
                begun = clock.monotonic()
                await _ask(home, run, cell, sources, retry_failed, progress)
                seconds["ask"] = clock.monotonic() - begun
            finished = await _scored(home, manifest, index, seconds)
            await home.folder(run_id).export(run, manifest)
            await write_outcome(home, finished, index)
            if not keep:
                await RunDatabase.drop(await embedded_server(home.path), run_id)
    if finished.dead_letters:
        raise TerminalError(
            f"the run {run_id} met {finished.dead_letters} records that are no events and is invalid; "
            f"see {home.folder(run_id).path / 'dead-letters.jsonl'}"
        )
    return finished
