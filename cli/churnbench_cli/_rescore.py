"""`churnbench rescore`: new verdicts beside the old, or verdicts on answers from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from churnbench.clock import parse_time
from churnbench.errors import NotFoundError, UsageError
from churnbench_cli._home import Home, opened_home
from churnbench_cli._index import opened_index
from churnbench_cli._options import Json, Preset, Seed, SetRate, world_spec
from churnbench_cli._outcome import Finished, cell_object, write_report
from churnbench_cli._output import print_json, print_table, say, steps
from churnbench_cli._pipeline import run_result
from churnbench_cli._plan import Cell, check_times
from churnbench_cli._tasks import draw_tasks, read_tasks
from churnbench_cli._world import prepare_world
from churnbench_scorer import Gold, published_counts, score, score_published

__all__ = ["rescore"]


async def _run(home: Home, name: str, json: bool) -> int:
    folder = home.run_folder(name)
    manifest = folder.manifest()
    questions, answers = folder.records("questions"), folder.records("answers")
    ticks, refreshes = folder.records("clock"), folder.records("refreshes")
    registry, dead = home.domain.registries[Cell.of(manifest).registry], len(folder.records("dead-letters"))
    number = 1 + sum(1 for _ in folder.path.glob("verdicts-*.jsonl"))
    with steps(json) as progress:
        await prepare_world(home, manifest.world.spec, progress)
        async with opened_index(home, manifest.world, progress) as index:
            verdicts = score(index, home.domain, registry, ticks, questions, answers)
            result = run_result(manifest, registry, questions, answers, verdicts, refreshes, ticks, dead)
            lines = b"".join(msgspec.json.encode(verdict) + b"\n" for verdict in verdicts)
            target = folder.write(f"verdicts-{number}.jsonl", lines)
            report = await write_report(home, [result], index, folder.path / f"report-{number}.html")
    finished = Finished(manifest, result, {}, dead)
    if json:
        print_json(cell_object(finished))
        return 0
    counts = msgspec.to_builtins(result.summary.counts)
    print_table(manifest.run_id, ["verdict", "answers "], counts.items())
    say(f"wrote {target}")
    say(f"report {report}")
    return 0


def _lines(answers: Path) -> list[bytes]:
    try:
        return answers.read_bytes().splitlines()
    except FileNotFoundError as error:
        raise NotFoundError(f"no answers file {answers}; give JSON lines with task_id, answer_raw and t_eff") from error
    except OSError as error:
        raise UsageError(f"cannot read the answers file {answers}: {error.strerror}") from error


async def _published(
    home: Home,
    preset: str,
    seed: int,
    set_: list[str] | None,
    at_ms: int,
    answers: Path,
    tasks: Path | None,
    json: bool,
) -> int:
    spec = world_spec(home.domain, preset, seed, set_, 1)
    asked = read_tasks(home.domain, tasks) if tasks is not None else None
    lines = _lines(answers)
    with steps(json) as progress:
        manifest = (await prepare_world(home, spec, progress)).manifest
        check_times(manifest, manifest.start_ms, at_ms)
        async with opened_index(home, manifest, progress) as index:
            gold = Gold(index, home.domain)
            asked = asked or draw_tasks(home.domain, gold, preset, 180, at_ms, seed)
            verdicts = score_published(gold, asked, at_ms, lines, str(answers))
    counts = msgspec.to_builtins(published_counts(verdicts))
    if json:
        print_json({"method": "paper", "world": spec.name, "counts": counts, "verdicts": verdicts})
    else:
        print_table(f"{answers}, published method", ["verdict", "answers "], counts.items())
    return 0


async def rescore(
    run: Annotated[str | None, typer.Argument(help="A run; without it, answers from elsewhere.")] = None,
    preset: Preset = "reference",
    seed: Seed = 42,
    set_: SetRate = None,
    t_prime: Annotated[str | None, typer.Option("--t-prime", metavar="TIME", help="When the copy was staged.")] = None,
    t: Annotated[str | None, typer.Option("--t", metavar="TIME", help="When the questions were asked.")] = None,
    method: Annotated[str | None, typer.Option(help="paper: one effective time, which moves the question.")] = None,
    answers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON lines: task_id, answer_raw or answer_parsed, t_eff.")
    ] = None,
    tasks: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The tasks asked; the preset's own set if not given.")
    ] = None,
    json: Json = False,
) -> int:
    """Score a run anew, beside its old verdicts; or score answers from elsewhere by the published method."""
    async with opened_home() as home:
        if run is not None:
            if answers is not None or method is not None:
                raise UsageError("give a run, or --answers with --method paper, not both")
            return await _run(home, run, json)
        if answers is None or t is None or method is None:
            raise UsageError("name a run, or give --answers FILE, --t TIME and --method paper")
        if method != "paper":
            raise NotFoundError(f"no method {method!r}; known: paper")
        at_ms = parse_time(t)
        if t_prime is not None and parse_time(t_prime) > at_ms:
            raise UsageError(f"T' {t_prime} is after T {t}; the staged copy is made before the questions")
        return await _published(home, preset, seed, set_, at_ms, answers, tasks, json)
