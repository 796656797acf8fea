"""`churnbench replay`: materialize a world's sources as they were at a time."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from churnbench.clock import parse_time
from churnbench.errors import NotFoundError
from churnbench.events import time_text
from churnbench.log import cut_at
from churnbench.runs import new_run_id
from churnbench.sources import Projector
from churnbench.stores.postgres import RunDatabase, embedded_server
from churnbench.worlds import find_world, ledger_topic, world_manifest
from churnbench_cli._home import Home, opened_home
from churnbench_cli._options import Json
from churnbench_cli._output import print_json, print_table, say
from churnbench_cli._plan import check_times
from churnbench_cli._sources import Sources, opened_sources
from churnbench_cli._world import World
from churnbench_projectors import catch_up

__all__ = ["replay"]


async def _counts(home: Home, sources: Sources, projector: Projector) -> dict[str, int]:
    """Relation -> rows."""
    if projector is sources.saas:
        found = {}
        for resource in home.domain.saas.resources:
            found[resource.name] = len((await sources.saas_client.list(resource.name, {})).items)
        return found
    if projector is sources.contracts:
        pieces, _ = await sources.contracts.generation()
        return {"documents": len({piece.document for piece in pieces}), "chunks": len(pieces)}
    store = home.domain.warehouse if projector is sources.warehouse else home.domain.operations
    source = sources.warehouse if projector is sources.warehouse else sources.operations
    return {relation.name: len((await source.read(relation.name))[0]) for relation in (*store.tables, *store.views)}


async def replay(
    world: World,
    at: Annotated[str, typer.Option(metavar="TIME", help="The time to show.")],
    source: Annotated[str | None, typer.Option(help="Only this source.")] = None,
    keep: Annotated[bool, typer.Option(help="Leave the sources, and say how to reach them.")] = False,
    json: Json = False,
) -> int:
    """Show a world's sources at a time: materialized anew from the ledger, with row counts and fingerprints."""
    async with opened_home() as home:
        name = await find_world(home.log, world)
        manifest = await world_manifest(home.log, name)
        at_ms = parse_time(at)
        check_times(manifest, manifest.start_ms, at_ms)
        topic = ledger_topic(name)
        cut = await cut_at(home.log, topic, at_ms)
        replay_id = new_run_id(home.clock.now_ms(), "replay")
        try:
            async with opened_sources(home, replay_id, manifest.spec.partitions) as sources:
                chosen = [p for p in sources.projectors if source is None or p.name == source]
                if not chosen:
                    known = ", ".join(p.name for p in sources.projectors)
                    raise NotFoundError(f"no source {source!r}; known: {known}")
                await catch_up(chosen, home.log, topic, home.domain.codec, cut)
                found: dict[str, dict[str, Any]] = {
                    p.name: {"fingerprint": await p.fingerprint(), "rows": await _counts(home, sources, p)}
                    for p in chosen
                }
                database = sources.database.name
        finally:
            server = await embedded_server(home.path)
            if not keep:
                await RunDatabase.drop(server, replay_id)
        reach = server.conninfo(database) if keep else None
        if json:
            print_json({"world": name, "at": time_text(at_ms), "cut": cut, "sources": found, "connect": reach})
            return 0
        say(f"{name} at {time_text(at_ms)}: {cut.events:,} events")
        rows = [
            (s, relation, f"{count:,}", facts["fingerprint"] if n == 0 else "")
            for s, facts in found.items()
            for n, (relation, count) in enumerate(facts["rows"].items())
        ]
        print_table("", ["source", "relation", "rows ", "fingerprint"], rows)
        if reach is not None:
            say(f"connect  psql '{reach}'")
            say("remove   churnbench runs gc")
    return 0
