"""`churnbench tasks`: draw task sets and show them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from churnbench.clock import parse_time
from churnbench.domain import Domain, Task
from churnbench.errors import NotFoundError, UsageError
from churnbench_cli._home import Home, opened_home
from churnbench_cli._index import opened_index
from churnbench_cli._options import Json, Preset, Seed, SetRate, world_spec
from churnbench_cli._output import print_table, say, steps
from churnbench_cli._plan import default_time
from churnbench_cli._world import prepare_world
from churnbench_scorer import Gold

__all__ = ["draw_tasks", "generate", "read_tasks", "show"]

_MOST_TASKS = 100_000


def draw_tasks(domain: Domain, gold: Gold, preset: str, n: int, at_ms: int, seed: int) -> list[Task]:
    """`n` tasks of a preset, drawn over the facts at a time."""
    return domain.generate_tasks(
        preset, lambda measure, params: gold.at(measure, params, at_ms), gold.facts(at_ms), n, seed
    )


def _checked(domain: Domain, task: Task, where: str) -> Task:
    measure = domain.measures.get(task.measure)
    if measure is None:
        raise UsageError(f"{where}: no measure {task.measure!r}; known: {', '.join(domain.measures)}")
    wanted, given = set(measure.parameters), set(task.params)
    if wanted != given:
        raise UsageError(
            f"{where}: {task.measure} takes the parameters {', '.join(measure.parameters) or 'none'}, "
            f"not {', '.join(sorted(given)) or 'none'}"
        )
    for name, kind in measure.parameters.items():
        value = task.params[name]
        fits = isinstance(value, (int, float)) if kind is float else isinstance(value, kind)
        if not fits or isinstance(value, bool):
            raise UsageError(f"{where}: the parameter {name} of {task.measure} is {kind.__name__}, not {value!r}")
    if task.answer_type != measure.answer_type:
        raise UsageError(f"{where}: {task.measure} is answered with {measure.answer_type}, not {task.answer_type!r}")
    return task


def read_tasks(domain: Domain, path: Path) -> list[Task]:
    """The tasks of a file of JSON lines, checked against the domain's measures.

    Raises:
        NotFoundError: no such file.
        UsageError: a line is no task, names an unknown measure or parameter, or repeats a task id.
    """
    decoder = msgspec.json.Decoder(Task)
    found: dict[str, Task] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                where = f"{path} line {number}"
                try:
                    line.decode()
                    task = _checked(domain, decoder.decode(line), where)
                except UnicodeDecodeError as error:
                    raise UsageError(f"{where} is not UTF-8; save the file as UTF-8") from error
                except msgspec.DecodeError as error:
                    raise UsageError(
                        f"{where} is no task: {error}; `churnbench tasks generate` shows the form"
                    ) from error
                if task.task_id in found:
                    raise UsageError(f"{where} repeats the task id {task.task_id!r}; give each task its own")
                found[task.task_id] = task
                if len(found) > _MOST_TASKS:
                    raise UsageError(f"{path} has more than {_MOST_TASKS:,} tasks; split it into several runs")
    except FileNotFoundError as error:
        raise NotFoundError(f"no task file {path}; `churnbench tasks generate > tasks.jsonl` writes one") from error
    except OSError as error:
        raise UsageError(f"cannot read the task file {path}: {error.strerror}") from error
    if not found:
        raise UsageError(f"{path} holds no task; `churnbench tasks generate` writes some")
    return list(found.values())


async def _generated(home: Home, preset: str, seed: int, set_: list[str] | None, n: int, at: str | None) -> list[Task]:
    spec = world_spec(home.domain, preset, seed, set_, 1)
    with steps() as progress:
        manifest = (await prepare_world(home, spec, progress)).manifest
        async with opened_index(home, manifest, progress) as index:
            at_ms = parse_time(at) if at is not None else default_time(manifest)
            return draw_tasks(home.domain, Gold(index, home.domain), preset, n, at_ms, seed)


async def generate(
    preset: Preset = "reference",
    seed: Seed = 42,
    set_: SetRate = None,
    n: Annotated[int, typer.Option("--n", min=1, max=_MOST_TASKS, help="How many.")] = 180,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="The time of the questions.")] = None,
) -> int:
    """Write a task set drawn over a world, as JSON lines, to standard output."""
    async with opened_home() as home:
        for task in await _generated(home, preset, seed, set_, n, at):
            typer.echo(msgspec.json.encode(task))
    return 0


def _row(task: Task, question: str) -> dict[str, Any]:
    return {**msgspec.to_builtins(task), "question": question}


async def show(
    file: Annotated[Path | None, typer.Argument(help="A task file; without it, the preset's own set.")] = None,
    preset: Preset = "reference",
    seed: Seed = 42,
    set_: SetRate = None,
    n: Annotated[int, typer.Option("--n", min=1, max=_MOST_TASKS, help="How many.")] = 180,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="The time of the questions.")] = None,
    json: Json = False,
) -> int:
    """Show tasks with their questions in words."""
    async with opened_home() as home:
        spec = world_spec(home.domain, preset, seed, set_, 1)
        start_ms, end_ms = home.domain.span(spec.parameters)
        tasks = read_tasks(home.domain, file) if file else await _generated(home, preset, seed, set_, n, at)
        at_ms = parse_time(at) if at is not None else default_time((start_ms, end_ms))
        asked = [(task, home.domain.question(task, at_ms)) for task in tasks]
        if json:
            for task, question in asked:
                typer.echo(msgspec.json.encode(_row(task, question)))
        else:
            print_table("", ["task", "tier ", "question"], [(t.task_id, t.tier, q) for t, q in asked])
            say(f"{len(asked)} tasks")
    return 0
