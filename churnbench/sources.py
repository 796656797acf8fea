"""What projectors, sources and embedders promise each other.

Every read of a source returns rows *and* the cut that they are of; the rows are exactly those of that cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from churnbench.cuts import Cut
from churnbench.events import Event
from churnbench.tables import Row

__all__ = [
    "Chunk",
    "DocumentSource",
    "EmbeddedChunk",
    "Embedder",
    "GenerationSource",
    "Listing",
    "Projector",
    "SaasSource",
    "SqlSource",
    "StagedRead",
    "StagedSource",
    "TableSource",
]


class Projector(Protocol):
    """Keeps a view of the ledger in some store.

    Law: after any batches, duplicates, crashes, restarts and rebalances the view equals the fold of the ledger
    up to its cut.

    Attributes:
        name: unique among a run's projectors.
        kinds: the kinds of event that it wants; others only move its cut.
    """

    name: str
    kinds: frozenset[str]

    async def cut(self) -> Cut:
        """The stored position, partition by partition; from now on `apply` moves it from there."""

    async def apply(self, events: Sequence[Event], cut: Cut) -> None:
        """Applies `events`, in order, and moves the partitions of `cut` to it.

        Args:
            events: of the partitions in `cut`, after the position last read or applied; may be empty.
            cut: only the partitions that move.

        Raises:
            CutMovedError: somebody else moved one of the partitions; nothing was harmed. `cut()` reads anew.
            TransientError: the store did not answer; nothing or all was applied.
        """

    async def reset(self) -> None:
        """Empties the view and puts the cut before the first event."""

    async def fingerprint(self) -> str:
        """Of the view's tables as `churnbench.tables.fingerprint` defines it."""

    async def close(self) -> None:
        """Frees connections; the view stays."""


class TableSource(Protocol):
    """A source of tables and views."""

    async def read(self, relation: str) -> tuple[list[Row], Cut]:
        """All rows of a table or view, in no particular order, columns as declared, and their cut.

        Raises:
            NotFoundError: the source has no such relation.
        """


class SqlSource(TableSource, Protocol):
    """A source of tables that speaks SQL."""

    async def query(self, statement: str, parameters: Mapping[str, Any]) -> tuple[list[Row], Cut]:
        """Rows of one read-only SELECT with `%(name)s` parameters, and their cut.

        Raises:
            UsageError: the statement is refused or fails.
            SourceUnavailableError: the store did not answer, or the statement took too long.
        """


class Chunk(NamedTuple):
    """A piece of a document: the document's id, its place in the document, and its text."""

    document: str
    number: int
    text: str


class DocumentSource(Protocol):
    """A searchable index of documents."""

    async def search(self, text: str, limit: int, document: str | None = None) -> tuple[list[Chunk], Cut]:
        """The chunks nearest to `text`, best first, and their cut.

        Args:
            text: what to look for.
            limit: most chunks.
            document: only of this document; None: free search.
        """


class EmbeddedChunk(NamedTuple):
    """A piece of a document as its index holds it.

    Attributes:
        document: the document's id.
        seq: of the event that the document was last rendered for.
        number: the piece's place in the document, from 0.
        text: its text.
        embedding: its vector.
    """

    document: str
    seq: int
    number: int
    text: str
    embedding: Sequence[float]


class GenerationSource(Protocol):
    """An index of documents that can be copied whole."""

    async def generation(self) -> tuple[list[EmbeddedChunk], Cut]:
        """The newest pieces of every document, in no particular order, and their cut."""


class Listing(NamedTuple):
    """A whole listing of the SaaS.

    Its items, their cut, the requests it took, and the seconds (real or virtual) that they lasted.
    """

    items: list[dict[str, Any]]
    cut: Cut
    calls: int
    seconds: float


class SaasSource(Protocol):
    """A client of the SaaS."""

    async def list(self, resource: str, filters: Mapping[str, str]) -> Listing:
        """Every page of a resource, at one cut.

        Raises:
            NotFoundError: no such resource or filter.
            SourceUnavailableError: no answer after the retries.
        """


class StagedRead(NamedTuple):
    """Rows of the staged cache, and for each staged table read its classes' cuts and its refresh time."""

    rows: list[Row]
    cuts: dict[str, dict[str, Cut]]
    refreshed_ms: dict[str, int]


class StagedSource(Protocol):
    """The staged cache as a reader sees it."""

    async def query(self, statement: str, parameters: Mapping[str, Any], tables: Sequence[str]) -> StagedRead:
        """Rows of one read-only SELECT over staged `tables`, with their stamps, all of one transaction."""

    async def search(
        self, text: str, limit: int, document: str | None = None
    ) -> tuple[list[Chunk], dict[str, Cut], int]:
        """The staged generation's chunks nearest to `text`, its classes' cuts and its refresh time."""


class Embedder(Protocol):
    """Turns texts into vectors of unit length.

    Attributes:
        name: as the manifest states it.
        dimensions: length of each vector.
    """

    name: str
    dimensions: int

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text; empty for no texts."""
