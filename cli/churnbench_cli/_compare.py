"""`churnbench runs compare`: two runs, paired by task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from churnbench.errors import IncompleteError
from churnbench.runs import RunFolder
from churnbench_cli._home import opened_home
from churnbench_cli._options import Json
from churnbench_cli._output import print_json, print_table, say
from churnbench_scorer import Comparison, Flip, RunRecords, Side, compare_runs, rounded

__all__ = ["compare"]

_WORDS = {
    "correct": "right",
    "freshness_error": "stale",
    "reasoning_error": "wrong",
    "unanswered": "of these unanswered",
    "parse_failure": "unparsed",
    "transport_failure": "failed",
}

A = Annotated[str, typer.Argument(help="A run's id, its beginning or its end, or the path of its folder.")]
B = Annotated[str, typer.Argument(help="The run to compare it with.")]


def _records(folder: RunFolder) -> RunRecords:
    manifest = folder.manifest()
    questions = folder.records("questions")
    if len(questions) != manifest.tasks:
        raise IncompleteError(
            f"{folder.path / 'questions.jsonl'} has {len(questions)} of {manifest.tasks} questions; "
            f"`churnbench runs export {manifest.run_id}` writes the folder anew"
        )
    return RunRecords(
        run_id=manifest.run_id,
        world=manifest.world.spec.name,
        sha256=manifest.world.sha256,
        config=manifest.config,
        questions=questions,
        answers=folder.records("answers"),
        verdicts=folder.records("verdicts"),
        ticks=folder.records("clock"),
    )


async def compare(a: A, b: B, json: Json = False) -> int:
    """Compare two runs by task: which flipped, and why; exit 2 if they asked different tasks or of different worlds."""
    async with opened_home() as home:
        found = compare_runs(_records(home.run_folder(a)), _records(home.run_folder(b)))
    if json:
        print_json(found)
    else:
        _print(found)
    return 0


def _print(found: Comparison) -> None:
    say(f"A  {found.a}")
    say(f"B  {found.b}")
    say(f"{found.paired} of {found.tasks} tasks paired, world {found.world}, asked as of {found.t}")
    say("")
    if found.settings:
        rows = [(name, _plain(one), _plain(other)) for name, (one, other) in found.settings.items()]
        print_table("", ["set otherwise", "A", "B"], rows)
        say("")
    before, after = (msgspec.to_builtins(counts) for counts in found.counts)
    counts = [(word, before[name], after[name]) for name, word in _WORDS.items() if before[name] or after[name]]
    shares = ["-" if share is None else f"{100 * share:.1f}%" for share in found.accuracy]
    print_table("", ["verdict", "A ", "B "], [*counts, ("accuracy", *shares)])
    say("")
    say(
        f"right in A alone {found.only_a_right}, in B alone {found.only_b_right}; "
        f"McNemar's exact test p = {_probability(found.p_value)}"
    )
    say("")
    if not found.flips:
        say("no task flipped")
        return
    blamed = sorted(found.flip_causes.items(), key=lambda item: (-item[1], item[0]))
    if blamed:
        say(f"flipped because of {', '.join(f'{cls} {rounded(share)}' for cls, share in blamed)}")
        say("")
    title = f"{len(found.flips)} of {found.paired} tasks flipped"
    print_table(title, ["task", "A", "B", "because of", "as of A", "as of B"], _flips(found.flips))


def _flips(flips: list[Flip]) -> Iterator[tuple[str, ...]]:
    for flip in flips:
        classes = flip.classes
        because = "\n".join(_because(flip, cls) for cls in classes) or "-"
        dates = ("\n".join(side.as_of.get(cls, "-") for cls in classes) or "-" for side in (flip.a, flip.b))
        yield (flip.task_id, _came_out(flip.a), _came_out(flip.b), because, *dates)


def _because(flip: Flip, cls: str) -> str:
    shares = [side.causes[cls] for side in (flip.a, flip.b) if cls in side.causes]
    return f"{cls} {rounded(max(shares))}" if shares and max(shares) < 1 else cls


def _came_out(side: Side) -> str:
    if side.verdict == "reasoning_error" and side.detail:
        return side.detail
    return "torn" if side.detail == "torn" else _WORDS.get(side.verdict, side.verdict)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _probability(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"
