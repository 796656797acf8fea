"""`churnbench run`: a cell, or the study of window by refresh policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from churnbench.clock import DAY_MS, parse_time
from churnbench.domain import Domain, Task
from churnbench.errors import NotFoundError, UsageError
from churnbench.runs import Manifest, Run
from churnbench.worlds import WorldManifest
from churnbench_cli._ending import begun, ended
from churnbench_cli._home import Home, opened_home
from churnbench_cli._index import opened_index
from churnbench_cli._known import find_run
from churnbench_cli._options import Json, Partitions, Preset, Seed, SetRate, world_spec
from churnbench_cli._outcome import REPORT, Finished, cell_object, write_report
from churnbench_cli._output import Steps, print_json, print_table, say, steps
from churnbench_cli._pipeline import execute, new_run
from churnbench_cli._plan import WINDOWS, Cell, check_cell, check_times, default_time
from churnbench_cli._tasks import draw_tasks, read_tasks
from churnbench_cli._world import prepare_world
from churnbench_projectors import make_embedder
from churnbench_refresher import WAYS, find_policy
from churnbench_scorer import Gold, LedgerIndex, accuracy, rounded

__all__ = ["run"]

_STUDY_WINDOWS = (1, 28)
_STUDY_POLICIES = ("tiered", "off")


def _cells(domain: Domain, world: WorldManifest, options: _Options) -> list[Cell]:
    """The cells that the options name: one, or every window by every policy left open."""
    t_ms = parse_time(options.t) if options.t is not None else default_time(world)
    if options.t_prime is not None:
        spans: list[tuple[int | None, int]] = [(None, parse_time(options.t_prime))]
    else:
        windows = (options.window,) if options.window is not None else _STUDY_WINDOWS
        spans = [(window, t_ms - WINDOWS[window] * DAY_MS) for window in windows]
    policies = (options.refresh,) if options.refresh is not None else _STUDY_POLICIES
    cells = []
    for window, t_prime_ms in spans:
        check_times(world, t_prime_ms, t_ms)
        for policy in policies:
            find_policy(policy, options.rule)
            cell = Cell(
                t_prime_ms=t_prime_ms,
                t_ms=t_ms,
                window=window,
                refresh=policy,
                rule=options.rule,
                way="extract" if options.way == "extract" else "replay",
                registry=options.registry,
                arm=options.arm,
                reader=options.reader,
            )
            check_cell(domain, cell)
            cells.append(cell)
    return cells


class _Options(msgspec.Struct, frozen=True, kw_only=True):
    window: int | None
    t_prime: str | None
    t: str | None
    refresh: str | None
    rule: str
    way: str
    registry: str
    arm: str
    reader: str

    def check(self) -> None:
        """Refuses values and pairs that make no run, before anything is built."""
        if self.window is not None and self.window not in WINDOWS:
            raise UsageError(
                f"--window {self.window} is none of {', '.join(map(str, WINDOWS))}; give --t-prime and --t"
            )
        if self.window is not None and self.t_prime is not None:
            raise UsageError("--window and --t-prime both say when the staged copy is made; give one of them")
        if self.way not in WAYS:
            raise NotFoundError(f"no way to refresh {self.way!r}; known: {', '.join(WAYS)}")
        if self.t_prime is not None and self.t is not None and parse_time(self.t_prime) > parse_time(self.t):
            raise UsageError(f"T' {self.t_prime} is after T {self.t}; the staged copy is made before the questions")


def _task_file(tasks: str | None) -> Path | None:
    """The file that `--tasks` names; None where it holds ids."""
    if tasks is None or not ("/" in tasks or "." in tasks or Path(tasks).exists()):
        return None
    return Path(tasks)


def _chosen(tasks: list[Task], wanted: str | None, limit: int | None) -> list[Task]:
    """Those of a preset's tasks whose ids are wanted, the first `limit` of them."""
    if wanted is not None:
        by_id = {task.task_id: task for task in tasks}
        ids = [part.strip() for part in wanted.split(",") if part.strip()]
        unknown = [task_id for task_id in ids if task_id not in by_id]
        if unknown or not ids:
            raise NotFoundError(
                f"--tasks {wanted!r} is neither a file nor ids of the set ({tasks[0].task_id} to {tasks[-1].task_id})"
            )
        tasks = [by_id[task_id] for task_id in ids]
    return tasks[:limit]


def _row(finished: Finished) -> list[str]:
    result, counts = finished.result, finished.result.summary.counts
    share = accuracy(counts)
    blamed = sorted(result.summary.by_cause.items(), key=lambda item: (-item[1], item[0]))
    causes = "\n".join(f"{cls} {rounded(share)}" for cls, share in blamed) or "-"
    return [
        result.window_text,
        result.refresh,
        "-" if share is None else f"{100 * share:.1f}%",
        str(counts.freshness_error),
        str(counts.unanswered),
        str(result.summary.exposed),
        causes,
    ]


def _print_study(results: Sequence[Finished], report: Path) -> None:
    first = results[0].result
    asked = f"{first.summary.tasks} questions, world {first.world}, registry {first.registry}, reader {first.reader}"
    columns = ["window", "refresh", "right ", "stale ", "unanswered ", "exposed ", "stale because of"]
    print_table(asked, columns, [_row(finished) for finished in results])
    for finished in results:
        say(f"run     {finished.manifest.run_id}")
    say(f"report  {report}")


async def _finish(home: Home, done: list[Finished], index: LedgerIndex, json: bool, study: bool) -> int:
    report = home.folder(done[0].manifest.run_id).path / REPORT
    if study:
        report = home.path / "reports" / f"{done[0].manifest.run_id}.html"
        await write_report(home, [finished.result for finished in done], index, report)
    if json:
        objects = [cell_object(finished) for finished in done]
        print_json({"runs": objects, "report": str(report)} if study else objects[0])
    else:
        _print_study(done, report)
    return 0


async def _resume(home: Home, names: list[str], retry_failed: bool, keep: bool, json: bool) -> int:
    """Goes on with runs over one world; several make a study again."""
    manifests = [await Run(home.log, await find_run(home, name)).manifest() for name in dict.fromkeys(names)]
    worlds = {manifest.world.spec.name for manifest in manifests}
    if len(worlds) > 1:
        raise UsageError(
            f"the runs read the worlds {', '.join(sorted(worlds))}; go on with those of one world at a time"
        )
    with steps(json) as progress:
        async with opened_index(home, manifests[0].world, progress) as index:
            done = await _executed(home, manifests, index, progress, retry_failed=retry_failed, keep=keep)
            return await _finish(home, done, index, json, study=len(done) > 1)


async def _executed(
    home: Home,
    manifests: list[Manifest],
    index: LedgerIndex,
    progress: Steps,
    *,
    retry_failed: bool = False,
    keep: bool = False,
) -> list[Finished]:
    """The runs, one after the other."""
    begun([manifest.run_id for manifest in manifests])
    done = []
    for manifest in manifests:
        done.append(await execute(home, manifest, index, progress, retry_failed=retry_failed, keep=keep))
        ended(manifest.run_id)
    return done


async def run(
    preset: Preset = "reference",
    seed: Seed = 42,
    set_: SetRate = None,
    partitions: Partitions = 1,
    window: Annotated[int | None, typer.Option(help="Days from T' to T: 1, 14 or 28, as published.")] = None,
    t_prime: Annotated[str | None, typer.Option("--t-prime", metavar="TIME", help="When the copy is staged.")] = None,
    t: Annotated[str | None, typer.Option("--t", metavar="TIME", help="When the questions are asked.")] = None,
    refresh: Annotated[str | None, typer.Option(help="Refresh policy: tiered or off; both if not given.")] = None,
    rule: Annotated[str, typer.Option(help="A class lapses when its age exceeds, or reaches, its TTL.")] = "exceeds",
    refresh_by: Annotated[str, typer.Option(help="replay the ledger, or extract from the source.")] = "replay",
    registry: Annotated[str, typer.Option(help="paper or normalized.")] = "paper",
    arm: Annotated[str, typer.Option(help="The architecture.")] = "grounding",
    reader: Annotated[str, typer.Option(help="Who answers.")] = "scripted",
    limit: Annotated[int | None, typer.Option(min=1, help="Ask only the first questions.")] = None,
    tasks: Annotated[str | None, typer.Option(metavar="FILE|IDS", help="A task file, or ids of the set.")] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="How many tasks are drawn without --tasks FILE.")] = 180,
    resume: Annotated[
        list[str] | None, typer.Option(metavar="RUN", help="Go on with a run that was broken off; repeatable.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option(help="With --resume: ask failed questions anew.")] = False,
    keep_stores: Annotated[bool, typer.Option(help="Leave the runs' databases.")] = False,
    json: Json = False,
) -> int:
    """Run a study: windows of 1 and 28 days, refresh tiered and off; options narrow it down to one run."""
    options = _Options(
        window=window,
        t_prime=t_prime,
        t=t,
        refresh=refresh,
        rule=rule,
        way=refresh_by,
        registry=registry,
        arm=arm,
        reader=reader,
    )
    options.check()
    async with opened_home() as home:
        if resume:
            return await _resume(home, resume, retry_failed, keep_stores, json)
        file = _task_file(tasks)
        given = read_tasks(home.domain, file) if file is not None else None
        spec = world_spec(home.domain, preset, seed, set_, partitions)
        with steps(json) as progress:
            published = await prepare_world(home, spec, progress)
            cells = _cells(home.domain, published.manifest, options)
            async with opened_index(home, published.manifest, progress) as index:
                asked = given or draw_tasks(home.domain, Gold(index, home.domain), preset, n, cells[0].t_ms, seed)
                asked = _chosen(asked, None if file is not None else tasks, limit)
                embedder = make_embedder(home.settings.embedder).name
                # All of them first, so that whatever breaks the study, each can be gone on with.
                manifests = [await new_run(home, published.manifest, cell, asked, embedder) for cell in cells]
                done = await _executed(home, manifests, index, progress, keep=keep_stores)
                for finished in done:
                    finished.seconds.update(world=published.world_seconds, publish=published.publish_seconds)
                return await _finish(home, done, index, json, study=len(cells) > 1)
