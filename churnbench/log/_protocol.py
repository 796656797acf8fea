"""The message log as ChurnBench sees it: a small part of what Kafka offers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

__all__ = ["Headers", "Log", "NewRecord", "Record"]

Headers = tuple[tuple[str, bytes], ...]


class NewRecord(NamedTuple):
    """A record to append.

    Attributes:
        value: the bytes.
        timestamp_ms: the record's time (CreateTime), milliseconds since 1970-01-01; from 1 on, the earliest that
            Kafka takes.
        partition: where it goes.
        key: the message key, None for none.
        headers: name and value pairs, in order.
    """

    value: bytes
    timestamp_ms: int
    partition: int = 0
    key: bytes | None = None
    headers: Headers = ()


class Record(NamedTuple):
    """A record as read back."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes
    headers: Headers

    @property
    def where(self) -> str:
        """Topic, partition and offset, for messages."""
        return f"{self.topic} partition {self.partition} offset {self.offset}"


@runtime_checkable
class Log(Protocol):
    """Ordered, append-only topics of partitions.

    Offsets grow within a partition; nothing may assume that they start anywhere or leave no holes. All
    methods raise `NotFoundError` for a topic that does not exist and `CorruptLogError` for stored bytes that
    are not what was appended.
    """

    async def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Makes `topic`; one that exists with as many partitions stays as it is.

        Raises:
            UsageError: it exists with another number of partitions.
        """

    async def topics(self) -> dict[str, int]:
        """Every topic and its number of partitions, by name."""

    async def delete_topic(self, topic: str) -> None:
        """Removes `topic` and its records; one that does not exist is no error."""

    async def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """Appends all of `records`, in order within each partition, and returns when they are stored.

        Empty `records` do nothing. After an error or a crash a prefix of each partition's records may be
        stored.
        """

    def read(
        self,
        topic: str,
        start: Mapping[int, int],
        *,
        end: Mapping[int, int] | None = None,
        follow: bool = False,
        batch: int = 5000,
    ) -> AsyncGenerator[list[Record], None]:
        """Batches of records of the partitions in `start`, each from its offset on.

        Belongs to no group and commits nothing. A batch is never empty and holds records of one partition.

        Args:
            topic: what to read.
            start: partition -> first offset wanted.
            end: partition -> offset to stop before; None: the end offsets at the time of the call.
            follow: go on for ever, waiting for new records; excludes `end`.
            batch: most records in one batch.
        """

    async def beginning_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> the first offset still kept; 0 for a ledger that is whole."""

    async def end_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> the offset that the next record will have."""

    async def offsets_after(self, topic: str, time_ms: int) -> dict[int, int | None]:
        """Partition -> first offset whose record is later than `time_ms`; None where there is none."""

    async def close(self) -> None:
        """Frees what the log holds; it cannot be used afterwards."""
