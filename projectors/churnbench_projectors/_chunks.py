"""Versions of documents and their chunks, the same for every index that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from churnbench.domain import Documents
from churnbench.events import Event, from_millis, to_millis
from churnbench.tables import EntityTable, Row, fingerprint

__all__ = [
    "MOST_CHARACTERS",
    "TextChunk",
    "Version",
    "chunk_text",
    "chunks_fingerprint",
    "chunks_of",
    "decode_row",
    "encode_row",
    "folded_chunks",
    "versions_of",
]

MOST_CHARACTERS = 600
"""Length that a chunk does not pass unless a single paragraph does."""


class TextChunk(NamedTuple):
    """A chunk of one version of a document.

    Attributes:
        document: the document's id.
        seq: of the event that made the version.
        number: place in the document, from 0.
        text: what it says.
    """

    document: str
    seq: int
    number: int
    text: str


class Version(NamedTuple):
    """What an event made of a document: its entity's row, None where the entity is gone."""

    document: str
    seq: int
    row: Row | None


def chunk_text(title: str, text: str, most: int = MOST_CHARACTERS) -> list[str]:
    """The text in chunks of whole paragraphs, packed up to `most` characters; a longer paragraph stays whole.

    The title stands at the beginning, whether or not the text repeats it there. Paragraphs are parted by empty
    lines; white space at the ends of a paragraph is lost. Without a title and a text there is no chunk.
    """
    stripped = text.strip()
    whole = stripped if stripped.startswith(title.strip()) else f"{title.strip()}\n\n{stripped}"
    chunks: list[str] = []
    for paragraph in (part.strip() for part in whole.split("\n\n")):
        if not paragraph:
            continue
        if chunks and len(chunks[-1]) + 2 + len(paragraph) <= most:
            chunks[-1] = f"{chunks[-1]}\n\n{paragraph}"
        else:
            chunks.append(paragraph)
    return chunks


def versions_of(table: EntityTable, state: dict[str, tuple[int, Row | None]], events: Iterable[Event]) -> list[Version]:
    """The versions that `events` make, in order; `state` (seq and row of each entity) moves along.

    Events of other kinds, and those not above the seq of their entity's state, make none.
    """
    versions = []
    for event in events:
        if event.kind not in table.kinds:
            continue
        seq, row = state.get(event.entity_id, (-1, None))
        if event.seq <= seq:
            continue
        row = table.step(row, event)
        state[event.entity_id] = (event.seq, row)
        versions.append(Version(event.entity_id, event.seq, row))
    return versions


def chunks_of(documents: Documents, versions: Iterable[Version]) -> list[TextChunk]:
    """The chunks of `versions`, rendered; a version without a row has none."""
    return [
        TextChunk(document, seq, number, text)
        for document, seq, row in versions
        if row is not None
        for number, text in enumerate(chunk_text(*documents.render(row, seq)))
    ]


def folded_chunks(documents: Documents, events: Iterable[Event]) -> list[TextChunk]:
    """The chunks that an index must hold as the newest after `events`: what every engine must equal."""
    state: dict[str, tuple[int, Row | None]] = {}
    versions_of(documents.table, state, events)
    return chunks_of(documents, (Version(document, seq, row) for document, (seq, row) in state.items()))


def chunks_fingerprint(chunks: Iterable[TextChunk]) -> str:
    """See `churnbench.tables.fingerprint`, of a table `chunks`: keys and texts, no vectors."""
    return fingerprint({"chunks": chunks})


_decoder = msgspec.json.Decoder(list[Any])


def encode_row(table: EntityTable, row: Row | None) -> str | None:
    """A row as a JSON array, times as milliseconds; None for no row."""
    if row is None:
        return None
    values: Sequence[Any] = [
        to_millis(value) if column.type == "time" and value is not None else value
        for value, column in zip(row, table.columns, strict=True)
    ]
    return msgspec.json.encode(values).decode()


def decode_row(table: EntityTable, text: str | None) -> Row | None:
    """The row that `encode_row` wrote."""
    if text is None:
        return None
    return tuple(
        from_millis(value) if column.type == "time" and value is not None else value
        for value, column in zip(_decoder.decode(text), table.columns, strict=True)
    )
