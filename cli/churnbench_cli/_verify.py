"""`churnbench verify`: derive every verdict of a run anew, from its folder and the seed alone."""

from __future__ import annotations

from churnbench.errors import IncompleteError
from churnbench.records import Verdict
from churnbench_cli._home import opened_home
from churnbench_cli._options import Json
from churnbench_cli._output import print_json, print_table, say, steps
from churnbench_cli._plan import Cell
from churnbench_cli._runs import RunName
from churnbench_producers import build_manifest
from churnbench_scorer import LedgerIndex, score

__all__ = ["verify"]


async def verify(run: RunName, json: Json = False) -> int:
    """Derive every verdict anew from the run's folder and the world's seed; exit 1 with a list if any differs."""
    async with opened_home() as home:
        folder = home.run_folder(run)
        manifest = folder.manifest()
        spec = manifest.world.spec
        stored: dict[str, Verdict] = {verdict.task_id: verdict for verdict in folder.records("verdicts")}
        questions, answers, ticks = folder.records("questions"), folder.records("answers"), folder.records("clock")
        if len(questions) != manifest.tasks:
            raise IncompleteError(
                f"{folder.path / 'questions.jsonl'} has {len(questions)} of {manifest.tasks} questions; "
                f"`churnbench runs export {manifest.run_id}` writes the folder anew"
            )
        with steps(json) as progress:
            progress.advance("building the world from its seed", 0)
            built = build_manifest(spec, home.domain)
            index = LedgerIndex.of_events(
                home.domain.simulate(spec.parameters, spec.seed), home.domain, spec.partitions
            )
        cell = Cell.of(manifest)
        derived = {
            v.task_id: v
            for v in score(index, home.domain, home.domain.registries[cell.registry], ticks, questions, answers)
        }
        index.close()
    rows = []
    if built != manifest.world:
        rows.append(("the world", manifest.world.sha256[:16], built.sha256[:16]))
    for task_id in sorted(stored.keys() | derived.keys()):
        before, now = stored.get(task_id), derived.get(task_id)
        if before != now:
            rows.append((task_id, _text(before), _text(now)))
    if json:
        print_json({"run_id": manifest.run_id, "verdicts": len(derived), "differ": [list(row) for row in rows]})
    elif rows:
        print_table(f"{manifest.run_id}: {len(rows)} differ", ["task", "in the folder", "derived anew"], rows)
    else:
        say(f"{manifest.run_id}: {len(derived)} verdicts derived anew, none differs")
    return 1 if rows else 0


def _text(verdict: Verdict | None) -> str:
    if verdict is None:
        return "missing"
    return f"{verdict.verdict} ({verdict.detail}), gold {verdict.gold}, at its data {verdict.gold_at_vector}"
