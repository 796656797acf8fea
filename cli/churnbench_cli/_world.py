"""`churnbench world`: build, export, verify, describe, list and remove worlds."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from churnbench.cuts import Cut
from churnbench.errors import IncompleteError, UsageError
from churnbench.events import Event, canonical_line, time_text
from churnbench.log import LedgerReader
from churnbench.worlds import WorldManifest, WorldSpec, find_world, ledger_topic, world_manifest, worlds
from churnbench_cli._home import Home, opened_home, world_lock
from churnbench_cli._known import known_runs
from churnbench_cli._options import Json, Partitions, Preset, Seed, SetRate, world_spec
from churnbench_cli._output import Steps, print_json, print_table, say, steps
from churnbench_producers import Published, build_manifest, publish_world

__all__ = ["build", "describe", "export", "list_", "prepare_world", "remove", "verify"]

World = Annotated[str, typer.Argument(help="A world's name, or the beginning of one.")]


async def prepare_world(home: Home, spec: WorldSpec, progress: Steps) -> Published:
    """The world's ledger, built now if it is not there; one process builds, others wait for it."""
    async with home.locks.waiting(world_lock(spec.name), progress.waiting):
        return await publish_world(
            home.log, home.domain, spec, home.clock, lambda done: progress.advance("building the world", done)
        )


async def build(
    preset: Preset = "reference", seed: Seed = 42, set_: SetRate = None, partitions: Partitions = 1, json: Json = False
) -> int:
    """Build a world and publish it to its ledger; goes on where an earlier build stopped."""
    async with opened_home() as home:
        spec = world_spec(home.domain, preset, seed, set_, partitions)
        with steps(json) as progress:
            manifest = (await prepare_world(home, spec, progress)).manifest
        if json:
            print_json({"world": spec.name, "manifest": manifest})
        else:
            _print_manifest(manifest)
    return 0


def _print_manifest(manifest: WorldManifest) -> None:
    say(f"world   {manifest.spec.name}")
    say(f"events  {manifest.events:,}, {time_text(manifest.start_ms)} to {time_text(manifest.end_ms)}")
    say(f"sha256  {manifest.sha256}")
    say(f"topic   {ledger_topic(manifest.spec.name)}, {manifest.spec.partitions} partition(s)")


def _reader(home: Home, world: str) -> LedgerReader:
    return LedgerReader(home.log, ledger_topic(world), home.domain.codec)


async def export(
    preset: Preset = "reference", seed: Seed = 42, set_: SetRate = None, partitions: Partitions = 1
) -> int:
    """Write a world's canonical lines to standard output; builds it first where it is missing."""
    async with opened_home() as home:
        spec = world_spec(home.domain, preset, seed, set_, partitions)
        with steps() as progress:
            await prepare_world(home, spec, progress)
        async for events in _reader(home, spec.name).ordered(Cut.empty(partitions)):
            sys.stdout.write("".join(f"{canonical_line(event)}\n" for event in events))
        sys.stdout.flush()
    return 0


async def verify(
    preset: Preset = "reference", seed: Seed = 42, set_: SetRate = None, partitions: Partitions = 1
) -> int:
    """Build a world's identity anew from its seed and compare it with what the log holds; exit 1 if they differ."""
    async with opened_home() as home:
        spec = world_spec(home.domain, preset, seed, set_, partitions)
        stored = await world_manifest(home.log, spec.name)
        digest, count = hashlib.sha256(), 0
        async for events in _reader(home, spec.name).ordered(Cut.empty(partitions)):
            digest.update("".join(f"{canonical_line(event)}\n" for event in events).encode())
            count += len(events)
        built = build_manifest(spec, home.domain)
        facts = [
            ("events", built.events, count, stored.events),
            ("sha256", built.sha256, digest.hexdigest(), stored.sha256),
        ]
        if all(len({str(value) for value in row[1:]}) == 1 for row in facts):
            say(f"{spec.name}: {count:,} events, sha256 {built.sha256}: the log holds what the seed makes")
            return 0
        print_table(f"{spec.name} differs", ["", "from the seed", "in the log", "as recorded"], facts)
    return 1


async def describe(preset: Preset = "reference", seed: Seed = 42, set_: SetRate = None, json: Json = False) -> int:
    """Show a preset's parameters with their sources, and the stated rates beside those measured in the world."""
    async with opened_home() as home:
        spec = world_spec(home.domain, preset, seed, set_, 1)
        kinds: Counter[str] = Counter()

        def counted() -> Iterator[Event]:
            for event in home.domain.simulate(spec.parameters, spec.seed):
                kinds[event.kind] += 1
                yield event

        measured = home.domain.describe(counted(), spec.parameters)
        info = home.domain.presets[preset]
        if json:
            rates = [{"parameter": name, "stated": stated, "measured": value} for name, stated, value in measured]
            print_json({"world": spec, "kinds": dict(kinds), "rates": rates, "sources": dict(info.sources)})
            return 0
        say(f"{preset}: {info.description}")
        texts = list(dict.fromkeys(info.sources.get(name, "assumed") for name in spec.parameters))
        rows = [
            (name, value, 1 + texts.index(info.sources.get(name, "assumed"))) for name, value in spec.parameters.items()
        ]
        print_table("Parameters", ["parameter", "value ", "source "], rows)
        for number, text in enumerate(texts, 1):
            say(f"source {number}: {text}")
        print_table(
            f"Measured over seed {seed}",
            ["rate", "stated ", "measured "],
            [(name, f"{stated:.4g}", f"{value:.4g}") for name, stated, value in measured],
        )
        print_table("Events", ["kind", "events "], [(kind, f"{n:,}") for kind, n in kinds.most_common()])
    return 0


async def list_(json: Json = False) -> int:
    """List the worlds on the log."""
    async with opened_home() as home:
        rows: list[dict[str, Any]] = []
        for name in await worlds(home.log):
            try:
                manifest = await world_manifest(home.log, name)
            except IncompleteError:
                rows.append({"world": name, "events": None, "sha256": None})
            else:
                rows.append({"world": name, "events": manifest.events, "sha256": manifest.sha256})
        if json:
            print_json(rows)
        elif not rows:
            say("no worlds yet; `churnbench world build` makes one")
        else:
            print_table(
                "",
                ["world", "events ", "sha256"],
                [(r["world"], r["events"] or "incomplete", (r["sha256"] or "")[:16]) for r in rows],
            )
    return 0


async def remove(world: World) -> int:
    """Remove a world's ledger and index; refused while a run refers to it."""
    async with opened_home() as home:
        name = await find_world(home.log, world)
        manifests = [manifest for manifest in (await known_runs(home)).values() if manifest is not None]
        users = [manifest.run_id for manifest in manifests if manifest.world.spec.name == name]
        if users:
            raise UsageError(f"{len(users)} run(s) read the world {name}, first {users[0]}; remove them with `runs rm`")
        async with home.locks.at_once(world_lock(name), f"the world {name}"):
            await home.log.delete_topic(ledger_topic(name))
            shutil.rmtree(home.index_path(name).parent, ignore_errors=True)
        say(f"removed {name}")
    return 0
