"""The rules of a ledger on top of the log: partition sequences, repeats, gaps, and cuts by time.

Each record of a ledger carries in its header `pseq` its sequence in its partition (0, 1, 2 …), and in `kind`
the event's kind. Readers drop an exact repeat, which a broker's crash can leave, and refuse a gap. The record
of kind `~complete` closes each partition of a finished world; it is no event but has its sequence.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import NamedTuple

from churnbench.cuts import Cut, partition_of
from churnbench.errors import CorruptLogError, DecodeError, IncompleteError, SequenceGapError
from churnbench.events import Codec, Event
from churnbench.log._protocol import Log, NewRecord, Record

__all__ = ["COMPLETE", "LedgerBatch", "LedgerReader", "LedgerWriter", "cut_at", "ledger_end", "ledger_record"]

COMPLETE = "~complete"
_REMEMBERED = 1 << 14
_TAIL = 10_000


class LedgerBatch(NamedTuple):
    """Consecutive events of one partition.

    Attributes:
        partition: which one.
        events: the wanted events in order; empty where only others were read.
        sequences: the partition sequence of each of `events`.
        position: partition sequence of the last record read, wanted or not.
    """

    partition: int
    events: list[Event]
    sequences: list[int]
    position: int


class Stamped(NamedTuple):
    """A record of a ledger with what its headers say."""

    sequence: int
    kind: str
    record: Record


def ledger_record(value: bytes, kind: str, key: str, at_ms: int, partition: int, sequence: int) -> NewRecord:
    """A record of a ledger, with its headers."""
    headers = (("pseq", str(sequence).encode()), ("kind", kind.encode()))
    return NewRecord(value, at_ms, partition, key.encode() if key else None, headers)


def _header(record: Record, name: str) -> bytes:
    for key, value in record.headers:
        if key == name:
            return value
    raise CorruptLogError(f"{record.where} has no header {name!r}; it is no record of a ledger")


def _stamp(record: Record) -> tuple[int, str]:
    """The partition sequence and the kind in a record's headers."""
    headers = record.headers
    if len(headers) == 2 and headers[0][0] == "pseq" and headers[1][0] == "kind":
        text, kind = headers[0][1], headers[1][1]
    else:
        text, kind = _header(record, "pseq"), _header(record, "kind")
    try:
        return int(text), kind.decode()
    except ValueError as error:
        raise CorruptLogError(f"{record.where} has the partition sequence {text!r} and the kind {kind!r}") from error


def _sequence(record: Record) -> int:
    return _stamp(record)[0]


class LedgerReader:
    """Reads a ledger as events, in batches of one partition.

    Args:
        log: where the ledger is.
        topic: its topic.
        codec: the domain's codec.
        kinds: decode only these; None: all. Records of other kinds move the position only.
    """

    def __init__(self, log: Log, topic: str, codec: Codec, kinds: Iterable[str] | None = None) -> None:
        self.log = log
        self.topic = topic
        self.codec = codec
        self.kinds = frozenset(kinds) if kinds is not None else None
        self._seen: dict[int, dict[int, bytes]] = {}

    async def records(
        self, after: Cut, upto: Cut | None = None, *, follow: bool = False, batch: int = 5000
    ) -> AsyncIterator[list[Stamped]]:
        """Batches of (partition sequence, kind, record) of one partition, repeats dropped.

        Args:
            after: read what comes after this cut, of its partitions.
            upto: stop at this cut, included; None: at the end, or never with `follow`.
            follow: wait for more.
            batch: most records in one batch.

        Raises:
            SequenceGapError: a record is missing.
            CorruptLogError: a repeat differs from the first, or a record is no ledger record.
            IncompleteError: the log ended before `upto`, or its beginning is gone.
        """
        beginning = await self.log.beginning_offsets(self.topic)
        gone = {p: offset for p, offset in beginning.items() if offset > 0}
        if gone:
            raise IncompleteError(
                f"the ledger {self.topic} begins at offset {max(gone.values())}, so its first events are gone; "
                "publish the world again on a topic without retention"
            )
        last = dict(after.positions)
        targets = upto.positions if upto is not None else None
        wanted = [p for p in last if targets is None or targets.get(p, -1) > last[p]]
        for part in wanted:
            start = {part: last[part] + 1} if targets is not None else {p: last[p] + 1 for p in wanted}
            reading = self.log.read(self.topic, start, follow=follow and targets is None, batch=batch)
            async with aclosing(reading) as source:
                async for got in source:
                    partition = got[0].partition
                    fresh = self._fresh(partition, got, last, targets[partition] if targets is not None else None)
                    if fresh:
                        yield fresh
                    if targets is not None and last[partition] >= targets[partition]:
                        break
            if targets is None:
                break
        if targets is not None:
            for part in wanted:
                if last[part] < targets[part]:
                    raise IncompleteError(
                        f"{self.topic} partition {part} ends at sequence {last[part]}, before {targets[part]}"
                    )

    def _fresh(self, partition: int, got: list[Record], last: dict[int, int], target: int | None) -> list[Stamped]:
        seen = self._seen.setdefault(partition, {})
        fresh = []
        position = last[partition]
        for record in got:
            sequence, kind = _stamp(record)
            if sequence <= position:
                known = seen.get(sequence)
                if known is not None and known != record.value:
                    raise CorruptLogError(f"{record.where} repeats sequence {sequence} with other bytes")
                continue
            if sequence != position + 1:
                raise SequenceGapError(
                    f"{record.where} has sequence {sequence} after {position}: events are missing; "
                    "build the world anew under another name"
                )
            if target is not None and sequence > target:
                break
            position = sequence
            seen[sequence] = record.value
            if len(seen) > _REMEMBERED:
                del seen[next(iter(seen))]
            fresh.append(Stamped(sequence, kind, record))
        last[partition] = position
        return fresh

    async def batches(
        self,
        after: Cut,
        upto: Cut | None = None,
        *,
        follow: bool = False,
        batch: int = 5000,
        undecodable: Callable[[Record, DecodeError], None] | None = None,
    ) -> AsyncIterator[LedgerBatch]:
        """Decoded batches; see `records` for the arguments.

        Args:
            after: see `records`.
            upto: see `records`.
            follow: see `records`.
            batch: see `records`.
            undecodable: told of records that are no events, which are then passed over; None: they raise.

        Raises:
            DecodeError: a record is no event of the domain.
        """
        kinds, known, decode = self.kinds, self.codec.kinds, self.codec.decode
        async for records in self.records(after, upto, follow=follow, batch=batch):
            events, sequences = [], []
            for sequence, kind, record in records:
                if kind == COMPLETE or (kinds is not None and kind not in kinds and kind in known):
                    continue
                try:
                    event = decode(record.value)
                except DecodeError:
                    error = self._undecodable(record)
                    if undecodable is None:
                        raise error from None
                    undecodable(record, error)
                    continue
                events.append(event)
                sequences.append(sequence)
            yield LedgerBatch(records[0].record.partition, events, sequences, records[-1].sequence)

    def _undecodable(self, record: Record) -> DecodeError:
        """The error of a record that is no event, with its place."""
        try:
            self.codec.decode(record.value, record.where)
        except DecodeError as error:
            return error
        raise AssertionError("the record can be decoded after all")

    async def ordered(self, after: Cut, upto: Cut | None = None) -> AsyncIterator[list[Event]]:
        """The events of all partitions merged by seq, in lists; holds one batch a partition in memory."""
        if len(after.positions) == 1:
            async for batch in self.batches(after, upto):
                yield batch.events
            return
        limits = upto.positions if upto is not None else (await ledger_end(self.log, self.topic))[0].positions
        readers = {
            p: LedgerReader(self.log, self.topic, self.codec, self.kinds).batches(Cut({p: start}), Cut({p: limits[p]}))
            for p, start in after.positions.items()
        }
        heads: dict[int, list[Event]] = {}
        for partition in list(readers):
            await self._refill(partition, readers, heads)
        while heads:
            safe = min(events[-1].seq for events in heads.values())
            merged = []
            for partition, events in list(heads.items()):
                count = bisect_right(events, safe, key=lambda event: event.seq)
                merged += events[:count]
                heads[partition] = events[count:]
                if not heads[partition]:
                    await self._refill(partition, readers, heads)
            merged.sort(key=lambda event: event.seq)
            yield merged

    @staticmethod
    async def _refill(
        partition: int, readers: dict[int, AsyncIterator[LedgerBatch]], heads: dict[int, list[Event]]
    ) -> None:
        heads.pop(partition, None)
        async for batch in readers[partition]:
            if batch.events:
                heads[partition] = batch.events
                return

    async def events(self, after: Cut, upto: Cut | None = None) -> list[Event]:
        """All events after `after` up to `upto`, by seq; holds them in memory."""
        found = [event async for batch in self.batches(after, upto) for event in batch.events]
        found.sort(key=lambda event: event.seq)
        return found


class LedgerWriter:
    """Appends events to a ledger, with their partition sequences.

    Args:
        log: where the ledger is.
        topic: its topic.
        codec: the domain's codec.
        partitions: of the topic.
    """

    def __init__(self, log: Log, topic: str, codec: Codec, partitions: int) -> None:
        self.log = log
        self.topic = topic
        self.codec = codec
        self.partitions = partitions
        self.next: dict[int, int] = dict.fromkeys(range(partitions), 0)

    def record(self, event: Event) -> NewRecord:
        """The record of `event`, which takes the next sequence of its partition."""
        partition = partition_of(event.entity_id, self.partitions)
        sequence = self.next[partition]
        self.next[partition] = sequence + 1
        return ledger_record(self.codec.encode(event), event.kind, event.entity_id, event.at_ms, partition, sequence)

    async def append(self, events: Sequence[Event]) -> Cut:
        """Appends `events`; the cut after them."""
        await self.log.append(self.topic, [self.record(event) for event in events])
        return Cut({p: following - 1 for p, following in self.next.items()})

    async def complete(self, value: bytes, at_ms: int, partitions: Iterable[int]) -> None:
        """Closes `partitions` with a completion record that holds `value`."""
        records = []
        for partition in partitions:
            records.append(ledger_record(value, COMPLETE, "", at_ms, partition, self.next[partition]))
            self.next[partition] += 1
        await self.log.append(self.topic, records)


async def _tail(log: Log, topic: str, partition: int, end: int) -> list[Record]:
    start = max(0, end - _TAIL)
    return [r async for got in log.read(topic, {partition: start}, end={partition: end}) for r in got]


async def ledger_end(log: Log, topic: str) -> tuple[Cut, bytes | None]:
    """The cut of everything in a ledger, and the value of its completion record, None if it is still open."""
    positions: dict[int, int] = {}
    closing: list[bytes | None] = []
    for partition, end in (await log.end_offsets(topic)).items():
        records = await _tail(log, topic, partition, end)
        positions[partition] = max((_sequence(record) for record in records), default=-1)
        closed = [r.value for r in records if _header(r, "kind").decode() == COMPLETE]
        closing.append(closed[-1] if closed else None)
    value = closing[0] if closing and all(item is not None for item in closing) else None
    return Cut(positions), value


async def cut_at(log: Log, topic: str, time_ms: int) -> Cut:
    """The cut of a ledger for all events at or before `time_ms`.

    The first record later than the time has, in its partition, the sequence after the last that belongs to
    the cut, because sequences follow time; that holds in the presence of repeats too.
    """
    positions: dict[int, int] = {}
    for partition, offset in (await log.offsets_after(topic, time_ms)).items():
        if offset is not None:
            async for got in log.read(topic, {partition: offset}, end={partition: offset + 1}):
                positions[partition] = _sequence(got[0]) - 1
        else:
            end = (await log.end_offsets(topic))[partition]
            records = await _tail(log, topic, partition, end)
            positions[partition] = max((_sequence(record) for record in records), default=-1)
    return Cut(positions, time_ms)
