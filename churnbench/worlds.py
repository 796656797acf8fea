"""A world: shared, read only, and known by what made it."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from churnbench.errors import IncompleteError, NotFoundError
from churnbench.log import Log, ledger_end

__all__ = ["WorldManifest", "WorldSpec", "find_world", "ledger_topic", "world_manifest", "worlds"]

_SUFFIX = ".ledger"


class WorldSpec(msgspec.Struct, frozen=True):
    """What makes a world.

    Attributes:
        domain: the domain's name.
        domain_version: its version.
        preset: where its parameters come from.
        parameters: every parameter, plain JSON values.
        seed: of the draws.
        partitions: of its topic.
    """

    domain: str
    domain_version: int
    preset: str
    parameters: dict[str, Any]
    seed: int
    partitions: int = 1

    @property
    def name(self) -> str:
        """The world's name: preset, seed, and eight hex digits of everything that can change an event."""
        identity = [self.domain, self.domain_version, sorted(self.parameters.items()), self.seed, self.partitions]
        digest = hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:8]
        return f"{self.preset}-{self.seed}-{digest}"


class WorldManifest(msgspec.Struct, frozen=True):
    """A finished world's identity, as its completion record holds it.

    Attributes:
        spec: what made it.
        events: how many events it has.
        sha256: of its canonical lines, in order.
        start_ms: its first instant.
        end_ms: the first instant after it.
    """

    spec: WorldSpec
    events: int
    sha256: str
    start_ms: int
    end_ms: int


def ledger_topic(world: str) -> str:
    """The topic of a world's ledger."""
    return world + _SUFFIX


async def world_manifest(log: Log, world: str) -> WorldManifest:
    """The manifest in a world's completion record.

    Raises:
        NotFoundError: there is no such world.
        IncompleteError: its ledger is not closed yet.
    """
    topics = await log.topics()
    if ledger_topic(world) not in topics:
        known = ", ".join(sorted(t.removesuffix(_SUFFIX) for t in topics if t.endswith(_SUFFIX))) or "none"
        raise NotFoundError(f"no world {world!r}; built: {known}; `churnbench world build` makes one")
    _, closing = await ledger_end(log, ledger_topic(world))
    if closing is None:
        raise IncompleteError(f"the world {world!r} is not complete; `churnbench world build` goes on with it")
    return msgspec.json.decode(closing, type=WorldManifest)


async def worlds(log: Log) -> list[str]:
    """The names of all worlds on the log, finished or not."""
    return sorted(t.removesuffix(_SUFFIX) for t in await log.topics() if t.endswith(_SUFFIX))


async def find_world(log: Log, name: str) -> str:
    """The one world whose name is or begins with `name`.

    Raises:
        NotFoundError: none does, or several do.
    """
    known = await worlds(log)
    if name in known:
        return name
    matches = [world for world in known if world.startswith(name)]
    if len(matches) != 1:
        what = f"{name!r} fits {', '.join(matches)}" if matches else f"no world {name!r}"
        raise NotFoundError(f"{what}; built: {', '.join(known) or 'none'}; `churnbench world build` makes one")
    return matches[0]
