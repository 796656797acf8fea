"""A run's topics: records of one Struct each, in one partition."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Generic, TypeVar

import msgspec

from churnbench.errors import DecodeError
from churnbench.log._protocol import Log, NewRecord

__all__ = ["Topic"]

T = TypeVar("T", bound=msgspec.Struct)


class Topic(Generic[T]):
    """Typed access to a single-partition topic of JSON records.

    Args:
        log: where it is.
        name: the topic.
        kind: the Struct of its records.
    """

    def __init__(self, log: Log, name: str, kind: type[T]) -> None:
        self.log = log
        self.name = name
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(kind)

    async def create(self) -> None:
        """Makes the topic where it is missing."""
        await self.log.create_topic(self.name, 1)

    async def append(self, items: Sequence[T], at_ms: int) -> None:
        """Appends `items`, all with the record time `at_ms`."""
        await self.log.append(self.name, [NewRecord(self._encoder.encode(item), at_ms) for item in items])

    async def read(self, start: int = 0, *, follow: bool = False) -> AsyncIterator[tuple[int, T]]:
        """Pairs of offset and record from offset `start` on; with `follow`, without end.

        Raises:
            DecodeError: a record does not fit the Struct.
        """
        async for batch in self.log.read(self.name, {0: start}, follow=follow):
            for record in batch:
                try:
                    yield record.offset, self._decoder.decode(record.value)
                except msgspec.DecodeError as error:
                    raise DecodeError(f"{record.where} does not fit: {error}") from error

    async def all(self) -> list[T]:
        """Every record so far, in order."""
        return [item async for _, item in self.read()]
