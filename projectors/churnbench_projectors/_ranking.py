"""The order of chunks by their distance from a text, the same in every index and on every machine.

Chunks that differ in a date or a number alone are equally far from many texts, and an index that adds floats in an
order of its own tells them apart by rounding errors. So an index chooses candidates, and they are ranked here.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from churnbench.sources import Chunk

__all__ = ["Candidate", "ranked"]

_SPARE = 16
"""Candidates beyond those wanted, asked for at first."""
_MARGIN = 1e-5
"""More than the rounding error of a distance between vectors of unit length in single precision."""


class Candidate(NamedTuple):
    """A chunk, how far an index says it is, and its vector."""

    chunk: Chunk
    distance: float
    embedding: Sequence[float]


async def ranked(
    vector: Sequence[float],
    limit: int,
    nearest: Callable[[int], Awaitable[Sequence[Candidate]]],
    most: int | None = None,
) -> list[Chunk]:
    """The `limit` chunks nearest to `vector` by cosine distance, ties by document and number.

    The distance is 1 minus the exactly rounded sum of the products of the components in single precision, for vectors
    of unit length; a zero vector is equally far from all.

    Args:
        vector: of the text.
        limit: most chunks.
        nearest: the index's so many nearest, nearest first.
        most: what the index returns at once; None: any number.
    """
    asked = limit + _SPARE
    while True:
        wanted = asked if most is None else min(asked, most)
        found = await nearest(wanted)
        if len(found) < wanted or wanted == most or found[-1].distance > found[limit - 1].distance + _MARGIN:
            break
        asked *= 4
    query = array("f", vector)

    def place(candidate: Candidate) -> tuple[float, str, int]:
        # The product of two floats of single precision is exact in Python's double precision.
        products = (a * b for a, b in zip(query, array("f", candidate.embedding), strict=True))
        return (-math.fsum(products), candidate.chunk.document, candidate.chunk.number)

    return [candidate.chunk for candidate in sorted(found, key=place)[:limit]]
