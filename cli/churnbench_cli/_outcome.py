"""What a finished run leaves: the JSON object of a cell, its summary file and its reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from churnbench.log import LedgerReader
from churnbench.runs import Manifest
from churnbench.worlds import ledger_topic
from churnbench_cli._home import Home
from churnbench_scorer import EVENTS_SHOWN, LedgerIndex, RunResult, events_of, html_report, study_report, wanted_events

__all__ = ["REPORT", "SUMMARY", "Finished", "cell_object", "write_outcome", "write_report"]

REPORT = "report.html"
"""The report in a run's folder."""
SUMMARY = "summary.json"
"""The file that a run's folder has once the run is finished."""


class Finished(msgspec.Struct, frozen=True):
    """A run that is done.

    Attributes:
        manifest: its manifest.
        result: what was asked, answered and found.
        seconds: part -> wall-clock seconds.
        dead_letters: records that were no events; above 0 the run is invalid.
    """

    manifest: Manifest
    result: RunResult
    seconds: dict[str, float]
    dead_letters: int


def cell_object(finished: Finished) -> dict[str, Any]:
    """One run as the object that `--json` prints."""
    manifest, summary = finished.manifest, finished.result.summary
    spec, config = manifest.world.spec, manifest.config
    return {
        "run_id": manifest.run_id,
        "config_hash": manifest.config_hash,
        "world": {
            "name": spec.name,
            "preset": spec.preset,
            "seed": spec.seed,
            "events": manifest.world.events,
            "sha256": manifest.world.sha256,
        },
        "t_prime": config["t_prime"],
        "t": config["t"],
        "window": config["window"],
        "refresh": config["refresh"],
        "rule": config["rule"],
        "refresh_by": config["refresh_by"],
        "registry": config["registry"],
        "arm": config["arm"],
        "reader": config["reader"],
        "valid": finished.dead_letters == 0,
        "tasks": summary.tasks,
        "counts": summary.counts,
        "details": summary.details,
        "exposed": summary.exposed,
        "unattributed": summary.unattributed,
        "by_measure": summary.by_measure,
        "by_tier": summary.by_tier,
        "by_intent": summary.by_intent,
        "by_cause": summary.by_cause,
        "by_staged": summary.by_staged,
        "ages_days": summary.ages_days,
        "ttl_lapses": summary.ttl_lapses,
        "refreshes": summary.refreshes,
        "refresh_cost": summary.refresh_cost,
        "cost_usd": summary.cost_usd,
        "latency": summary.latency,
        "seconds": {name: round(value, 3) for name, value in finished.seconds.items()},
    }


async def write_report(home: Home, results: Sequence[RunResult], index: LedgerIndex, target: Path) -> Path:
    """Writes a report of runs over one world, with the events behind their stale answers; the page's path.

    Args:
        home: where the ledger is.
        results: the runs.
        index: of their world.
        target: the page, `NAME.html`; `NAME.md` stands beside it.
    """
    reader = LedgerReader(home.log, ledger_topic(results[0].world), home.domain.codec)
    seqs = {seq for result in results for seq in wanted_events(result.verdicts, EVENTS_SHOWN)}
    events = await events_of(reader, index, seqs)
    _write(target.with_suffix(".md"), study_report(results, events))
    return _write(target, html_report(results, events))


def _write(target: Path, text: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(text, encoding="utf-8", errors="replace")
    partial.replace(target)
    return target


async def write_outcome(home: Home, finished: Finished, index: LedgerIndex) -> None:
    """Writes `report.html` and `report.md`, then `summary.json`, which says that the run is finished."""
    folder = home.folder(finished.manifest.run_id)
    await write_report(home, [finished.result], index, folder.path / REPORT)
    folder.write(SUMMARY, msgspec.json.format(msgspec.json.encode(cell_object(finished)), indent=2) + b"\n")
