"""The program: its verbs, its options for all, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from functools import wraps
from importlib.metadata import version
from typing import Annotated, Any, ParamSpec

import typer

from churnbench.errors import UsageError
from churnbench_cli import _compare, _doctor, _log, _replay, _rescore, _run, _runs, _stop, _tasks, _verify, _world
from churnbench_cli._output import say, warn
from churnbench_cli._signals import Signals

__all__ = ["app", "call"]

P = ParamSpec("P")

_signals: ContextVar[Signals | None] = ContextVar("signals", default=None)
# The library's `UsageError`, which it keeps in different places from version to version.
_Refused: type[Exception] = typer.BadParameter.__mro__[1]
_INTERRUPTED = 130

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


def _command(function: Callable[P, Coroutine[Any, Any, int]]) -> Callable[P, int]:
    """A coroutine that returns an exit code, as a command."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        signals = _signals.get()

        async def work() -> int:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            if signals is None or task is None:
                return await function(*args, **kwargs)
            with signals.cancelling(lambda: loop.call_soon_threadsafe(task.cancel)):
                return await function(*args, **kwargs)

        try:
            return asyncio.run(work())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

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


def call(signals: Signals, arguments: Sequence[str]) -> int:
    """Runs a command; its exit code. The first signal cancels it.

    Raises:
        UsageError: there is no such command, or it cannot be given these arguments.
        KeyboardInterrupt: it was cancelled, and has closed what it had open.
    """
    # Libraries tell of every connection that is lost; what counts is whether the command gets over it.
    logging.lastResort = None
    command = typer.main.get_command(app)
    _signals.set(signals)
    try:
        done = command.main(list(arguments), "churnbench", standalone_mode=False)
    except _Refused as error:
        return _refused(error, arguments)
    if done == _INTERRUPTED and signals.received is not None:
        raise KeyboardInterrupt
    return int(done or 0)


def _refused(error: Any, arguments: Sequence[str]) -> int:
    """The library's own refusals, as a line of ours; or the help, where a group was given no command."""
    text: str = error.format_message()
    path = error.ctx.command_path if error.ctx is not None else "churnbench"
    if "\n" in text:
        warn(text)
        return 2
    value = _given(getattr(error, "param", None), arguments)
    got = f"; got {value!r}" if value is not None and repr(value) not in text else ""
    raise UsageError(f"{text[:1].lower()}{text[1:].rstrip('.')}{got}; see `{path} --help`")


def _given(parameter: Any, arguments: Sequence[str]) -> str | None:
    """The value that the arguments give an option."""
    names = parameter.opts if parameter is not None else []
    for number, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in names and equals:
            return value
        if name in names and number + 1 < len(arguments):
            return arguments[number + 1]
    return None
