"""The SaaS's projector: its view in memory, at a cut."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from churnbench.cuts import Cut
from churnbench.domain import Resource, Saas
from churnbench.errors import CutMovedError, NotFoundError, UsageError
from churnbench.events import Event
from churnbench.tables import fingerprint
from churnbench_projectors._saas_view import SaasView

__all__ = ["SaasProjector", "Snapshot"]


class Snapshot(NamedTuple):
    """The items of one listing: all of them, at one cut.

    Attributes:
        items: ordered by id; not to be changed.
        cut: what they are of; its label is the view's time.
    """

    items: list[dict[str, Any]]
    cut: Cut


class SaasProjector:
    """Keeps the SaaS's tables in memory; implements `churnbench.sources.Projector`.

    View and position live in one process and move in one step without a pause, so no read sees half a batch. There
    is nothing to restore: a restarted projector is empty, at the empty cut, and is replayed from the first event.
    Facts older than `Saas.keep_ms` before the view's time are dropped; `fingerprint` is therefore that of
    `retained_fingerprint(fold, time, keep_ms)`, which is the fold's own where nothing is that old.

    Args:
        saas: tables and listings.
        partitions: of the ledger.
        name: the projector's name.
    """

    def __init__(self, saas: Saas, partitions: int, name: str = "saas") -> None:
        self.name = name
        self.kinds = frozenset(kind for table in saas.tables for kind in table.kinds)
        self.resources: Mapping[str, Resource] = {resource.name: resource for resource in saas.resources}
        self._saas = saas
        self._partitions = partitions
        self._view = SaasView(saas, partitions)
        self._positions = Cut.empty(partitions).positions

    async def cut(self) -> Cut:
        """See `Projector.cut`; its label is the view's time."""
        return self.position

    @property
    def position(self) -> Cut:
        """The cut that the view is at, now."""
        return Cut(dict(self._positions), self._view.at_ms)

    @property
    def held_facts(self) -> int:
        """How many fact rows are in memory."""
        return self._view.held_facts

    @property
    def version(self) -> str:
        """16 hex digits that name the view's cut and time."""
        at = self.position
        return hashlib.blake2b(msgspec.json.encode([at.key, at.at_ms]), digest_size=8).hexdigest()

    async def apply(self, events: Sequence[Event], cut: Cut) -> None:
        """See `Projector.apply`.

        A repeat of what is applied changes nothing; a cut that lies behind the view's is refused.
        """
        for partition, position in cut.positions.items():
            held = self._positions.get(partition)
            if held is None:
                raise UsageError(f"{self.name} keeps partitions 0 to {self._partitions - 1}, not {partition}")
            if position < held:
                raise CutMovedError(
                    f"{self.name} partition {partition} is at {held}, beyond {position}; read its cut anew"
                )
        self._view.apply(events, cut.at_ms)
        self._positions.update(cut.positions)

    async def reset(self) -> None:
        """See `Projector.reset`."""
        self._view = SaasView(self._saas, self._partitions)
        self._positions = Cut.empty(self._partitions).positions

    async def shadow(self) -> SaasProjector:
        """An empty projector of the same tables, to be rebuilt beside this one and then adopted."""
        return SaasProjector(self._saas, self._partitions, f"{self.name}.shadow")

    async def adopt(self, shadow: SaasProjector) -> None:
        """Takes over the view and cut of a rebuilt `shadow` in one step; readers see the old view or the new one.

        Args:
            shadow: not to be applied to afterwards.
        """
        self._view, self._positions = shadow._view, shadow._positions

    async def fingerprint(self) -> str:
        """See `Projector.fingerprint`; of the facts that are kept."""
        return fingerprint(self._view.relations())

    async def close(self) -> None:
        """Nothing is held but memory."""

    def snapshot(self, resource: str, filters: Mapping[str, str]) -> Snapshot:
        """The items of a listing as the view stands now.

        Raises:
            NotFoundError: no such resource or filter.
        """
        found = self.resources.get(resource)
        if found is None:
            raise NotFoundError(f"no resource {resource!r}; known: {', '.join(sorted(self.resources))}")
        for name in filters:
            if name not in found.filters:
                known = ", ".join(found.filters) or "none"
                raise NotFoundError(f"{resource} has no filter {name!r}; known: {known}")
        cut = self.position
        items = found.items(self._view.relations(found.inputs), cut.at_ms or 0, filters)
        return Snapshot(items, cut)
