"""Chunks are ranked alike whatever an index thinks of those that are equally far."""

from __future__ import annotations

import random

import numpy as np

from churnbench.sources import Chunk
from churnbench_projectors._ranking import Candidate, ranked


def _candidates(count: int) -> list[Candidate]:
    """Permutations of one vector: all equally far from the query, up to the order in which floats are added."""
    draw = random.Random(3)
    parts = [0.1, 0.2, 0.3, 0.4, 0.5]
    found = []
    for number in range(count):
        draw.shuffle(parts)
        vector = np.array(parts, dtype=np.float32)
        distance = 1 - float(np.add.reduce(vector))
        found.append(Candidate(Chunk(f"d{number:03d}", 0, ""), distance, vector.tolist()))
    draw.shuffle(found)
    return sorted(found, key=lambda c: c.distance)


async def test_those_equally_far_are_ordered_by_document_however_many_there_are() -> None:
    candidates = _candidates(200)
    asked = []

    async def nearest(count: int) -> list[Candidate]:
        asked.append(count)
        return candidates[:count]

    found = await ranked([1.0] * 5, 3, nearest)
    assert [chunk.document for chunk in found] == ["d000", "d001", "d002"]
    assert asked == [19, 76, 304]


async def test_an_index_is_asked_for_no_more_than_it_returns_at_once() -> None:
    candidates = _candidates(200)
    asked = []

    async def nearest(count: int) -> list[Candidate]:
        asked.append(count)
        return candidates[:count]

    assert len(await ranked([1.0] * 5, 3, nearest, 100)) == 3
    assert asked == [19, 76, 100]


async def test_nearer_ones_come_first_and_one_question_is_enough() -> None:
    vectors = [[1.0 - n / 100, 0.0] for n in range(40)]
    asked = []

    async def nearest(count: int) -> list[Candidate]:
        asked.append(count)
        return [Candidate(Chunk("d", n, ""), n / 100, vector) for n, vector in enumerate(vectors[:count])]

    assert [chunk.number for chunk in await ranked([1.0, 0.0], 2, nearest)] == [0, 1]
    assert asked == [18]


async def test_nothing_is_found_in_an_empty_index() -> None:
    async def nearest(count: int) -> list[Candidate]:
        return []

    assert await ranked([1.0], 5, nearest) == []
