"""The program: its verbs, its options for all, and how it ends."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from importlib.metadata import version
from typing import Annotated, Any, ParamSpec

import typer

from churnbench.errors import ChurnBenchError, UsageError
from churnbench_cli import _compare, _doctor, _log, _replay, _rescore, _run, _runs, _stop, _tasks, _verify, _world
from churnbench_cli._output import say, warn

__all__ = ["main"]

P = ParamSpec("P")

app = typer.Typer(
    name="churnbench",
    help="Measures what stale data costs an agent, and says which change made each answer wrong.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
world = typer.Typer(help="Worlds: the ledgers that everything follows.", no_args_is_help=True)
tasks = typer.Typer(help="Task sets.", no_args_is_help=True)
log = typer.Typer(help="The message log.", no_args_is_help=True)
runs = typer.Typer(help="Runs: their folders, topics and databases.", no_args_is_help=True)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"churnbench {version('churnbench')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    pass


def _command(function: Callable[P, Coroutine[Any, Any, int]]) -> Callable[P, None]:
    """A coroutine that returns an exit code, as a command."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        raise typer.Exit(asyncio.run(function(*args, **kwargs)))

    return run


app.command("run")(_command(_run.run))
app.command("replay")(_command(_replay.replay))
app.command("verify")(_command(_verify.verify))
app.command("rescore")(_command(_rescore.rescore))
app.command("doctor")(_command(_doctor.doctor))
app.command("stop")(_command(_stop.stop))
world.command("build")(_command(_world.build))
world.command("export")(_command(_world.export))
world.command("verify")(_command(_world.verify))
world.command("describe")(_command(_world.describe))
world.command("list")(_command(_world.list_))
world.command("rm")(_command(_world.remove))
tasks.command("generate")(_command(_tasks.generate))
tasks.command("show")(_command(_tasks.show))
log.command("show")(_command(_log.show))
log.command("topics")(_command(_log.topics))
runs.command("list")(_command(_runs.list_))
runs.command("show")(_command(_runs.show))
runs.command("compare")(_command(_compare.compare))
runs.command("export")(_command(_runs.export))
runs.command("rm")(_command(_runs.remove))
runs.command("gc")(_command(_runs.collect))
app.add_typer(world, name="world")
app.add_typer(tasks, name="tasks")
app.add_typer(log, name="log")
app.add_typer(runs, name="runs")


def main() -> None:
    """Runs the command line; exit 0 done, 1 ran and found a failure, 2 usage, 130 interrupted."""
    try:
        app()
    except BaseExceptionGroup as group:
        sys.exit(_failed(_first(group)))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        warn("churnbench: interrupted; `churnbench runs list` shows what can be resumed")
        sys.exit(130)
    except ChurnBenchError as error:
        sys.exit(_failed(error))


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that a group of tasks failed of: our own before others."""
    leaves: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending:
        error = pending.pop(0)
        if isinstance(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
        else:
            leaves.append(error)
    return next((error for error in leaves if isinstance(error, ChurnBenchError)), leaves[0])


def _failed(error: BaseException) -> int:
    if not isinstance(error, ChurnBenchError):
        raise error
    warn(f"churnbench: {error}")
    return 2 if isinstance(error, UsageError) else 1
