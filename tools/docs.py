"""`python -m tools.docs`: writes the pages of docs/ that follow from the code.

`docs/commands.md` from the command line and the settings, `docs/presets.md` from the presets of software asset
management. `--check` writes nothing and ends with 1 where a page is out of date.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from pydantic_core import PydanticUndefined

from churnbench.config import Settings
from churnbench.domain import find_domain
from churnbench_cli import main as program
from churnbench_cli._app import app
from churnbench_sam._presets import PRESETS
from churnbench_sam._simulator import PROCESSES

__all__ = ["commands_page", "main", "presets_page", "render"]

DOCS = Path(__file__).resolve().parents[1] / "docs"
SEED = 42
_TYPES = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "FILE"}
_HOME = "a folder `churnbench` among the user's data, by the platform's rules"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    rules = ["---:" if place in right else "---" for place in range(len(head))]
    lines = [head, rules, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# -- commands -----------------------------------------------------------------------------------------


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The path of every command, those of a group after its own."""
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _kind(hint: Any) -> str:
    """What a parameter takes, as a word; empty for a flag."""
    kinds = [_kind(inner) for inner in get_args(hint) if inner is not type(None)]
    return kinds[0] if kinds else "" if hint is bool else _TYPES.get(hint, "TEXT")


def _default(value: Any) -> str:
    return "" if value is None or value is False or value == [] else f"`{value}`"


def _command(path: Sequence[str], command: Any) -> str:
    hints = get_type_hints(inspect.unwrap(command.callback))
    options, arguments, usage = [], [], ["churnbench", *path]
    for parameter in command.params:
        kind = parameter.metavar or _kind(hints.get(parameter.name, bool))
        if parameter.param_type_name == "argument":
            shown = (parameter.metavar or parameter.name.upper()) + ("..." if parameter.nargs == -1 else "")
            usage.append(shown if parameter.required else f"[{shown}]")
            arguments.append((f"`{shown}`", parameter.help or ""))
        elif parameter.name != "help":
            text = " ".join([parameter.opts[0], kind]).strip()
            notes = [parameter.help or "", *(["Required."] if parameter.required else [])]
            options.append((f"`{text}`", _default(parameter.default), " ".join(filter(None, notes))))
    help_text = " ".join(inspect.cleandoc(command.help or "").split())
    parts = [f"## churnbench {' '.join(path)}", help_text]
    parts.append(f"```text\n{' '.join([*usage, *(['[OPTIONS]'] if options else [])])}\n```")
    if arguments:
        parts.append(_table(["argument", "what"], arguments))
    if options:
        parts.append(_table(["option", "default", "what"], options))
    return "\n\n".join(parts)


def _documented(docstring: str) -> dict[str, str]:
    """Name -> text of the `Attributes:` of a docstring."""
    body = inspect.cleandoc(docstring).partition("Attributes:\n")[2]
    entries = re.split(r"\n(?=\w+: )", textwrap.dedent(body).strip())
    pairs = (entry.partition(": ") for entry in entries)
    return {name: " ".join(text.split()) for name, _, text in pairs}


def _settings() -> str:
    known = _documented(Settings.__doc__ or "")
    rows = []
    for name, field in Settings.model_fields.items():
        default = _HOME if field.default is PydanticUndefined else _default(field.default)
        values = [f"`{value}`" for value in get_args(field.annotation) if isinstance(value, str)]
        choice = f" One of {', '.join(values)}." if values else ""
        text = known[name].rstrip(".")
        rows.append((f"`{name}`", f"`CHURNBENCH_{name.upper()}`", default, f"{text[0].upper()}{text[1:]}.{choice}"))
    return _table(["setting", "environment", "default", "what"], rows)


def commands_page() -> str:
    """The command reference."""
    group = typer.main.get_command(app)
    exits = re.search(r"exit (.*?)\.", program.__doc__ or "")
    if exits is None:
        raise AssertionError("the program's docstring no longer states its exit codes")
    parts = [
        "# Commands",
        "Written by `python -m tools.docs` from the command line itself; `churnbench COMMAND --help` says the same.",
        f"Exit codes: {exits[1]}. Every error is one line on standard error. Results are on standard output, progress "
        "on standard error where it is a terminal. A `TIME` is an ISO date (midnight UTC) or an ISO time; without an "
        "offset it is UTC. A `RUN` is a run's id, its beginning or its end, where that names one run.",
        *(_command(path, command) for path, command in _commands(group)),
        "## Settings",
        "What is set outside a command's options: in `churnbench.toml` in the present folder, or in the environment, "
        "which goes before the file. An unknown key is an error in both.",
        _settings(),
    ]
    return "\n\n".join(parts) + "\n"


# -- presets ------------------------------------------------------------------------------------------


def _meanings(kind: type) -> dict[str, str]:
    """Parameter -> the comment over its field, in the class or one that it extends."""
    found: dict[str, str] = {}
    for cls in kind.__mro__:
        if cls.__module__.startswith("churnbench_sam"):
            found |= {
                name: " ".join(line.strip(" #") for line in comment.splitlines())
                for comment, name in re.findall(r"((?: {4}#.*\n)+) {4}(\w+):", inspect.getsource(cls))
            }
    return found


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _preset(name: str) -> str:
    domain = find_domain("sam")
    info, kind = domain.presets[name], type(PRESETS[name].parameters)
    meanings = _meanings(kind)
    sources = list(dict.fromkeys(info.sources.values()))
    rows = [
        (f"`{parameter}`", _value(value), meanings[parameter], str(1 + sources.index(info.sources[parameter])))
        for parameter, value in info.parameters.items()
    ]
    process = inspect.cleandoc(sys.modules[PROCESSES[kind].__module__].__doc__ or "")
    measured = _measured(name, info.parameters)
    return "\n\n".join(
        [
            f"## {name}",
            f"{info.description[0].upper()}{info.description[1:]}.",
            process,
            _table(["parameter", "value", "meaning", "source"], rows, right=[1, 3]),
            "Sources: " + "; ".join(f"({number}) {text}" for number, text in enumerate(sources, 1)) + ".",
            f"Measured over seed {SEED}, beside what the parameters state:",
            _table(["rate or share", "stated", "measured"], measured, right=[1, 2]),
        ]
    )


def _measured(name: str, parameters: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    domain = find_domain("sam")
    rates = domain.describe(domain.simulate(parameters, SEED), parameters)
    return [(f"`{rate}`", f"{stated:.4g}", f"{value:.4g}") for rate, stated, value in rates]


def presets_page() -> str:
    """The presets of software asset management: parameters, what they mean, where they come from, what came out."""
    parts = [
        "# Presets",
        "Written by `python -m tools.docs` from the presets themselves; `churnbench world describe --preset NAME` "
        "prints the same, and measures any seed. Every parameter can be replaced: `--set hires_per_day=3`. A list is "
        "written with commas: `--set terms_months=12,24`.",
        "Seats per licence are 1 in every preset, so licences and seats count alike. What the first day sets up is not "
        "counted in measured rates.",
        *(_preset(name) for name in PRESETS),
    ]
    return "\n\n".join(parts) + "\n"


# -- writing ------------------------------------------------------------------------------------------


def render() -> dict[Path, str]:
    """Every generated page and its text."""
    return {DOCS / "commands.md": commands_page(), DOCS / "presets.md": presets_page()}


def main(arguments: Sequence[str]) -> int:
    """Writes the pages; with `--check`, says which are out of date."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write(f"tools.docs: takes nothing or --check, not {' '.join(arguments)}\n")
        return 2
    stale = {path: text for path, text in render().items() if not path.is_file() or path.read_text() != text}
    for path, text in stale.items():
        if not arguments:
            path.write_text(text)
        sys.stdout.write(f"{path.relative_to(DOCS.parent)} {'is out of date' if arguments else 'written'}\n")
    return 1 if arguments and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
