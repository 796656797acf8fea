"""Publishing a world: simulate it, append it to its topic, close it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

import msgspec

from churnbench.clock import Clock
from churnbench.cuts import Cut
from churnbench.domain import Domain
from churnbench.errors import CorruptLogError
from churnbench.events import Event, canonical_line
from churnbench.log import LedgerReader, LedgerWriter, Log, NewRecord, ledger_end
from churnbench.worlds import WorldManifest, WorldSpec, ledger_topic

__all__ = ["Published", "build_manifest", "publish_world"]

_CHUNK = 4000

Progress = Callable[[int], None]
"""Told how many events have been built so far."""


class Published(NamedTuple):
    """A finished world: its manifest, and the seconds that simulating and appending it took (0 if it was there)."""

    manifest: WorldManifest
    world_seconds: float = 0.0
    publish_seconds: float = 0.0


def _silent(events: int) -> None:
    """No progress wanted."""


def build_manifest(spec: WorldSpec, domain: Domain) -> WorldManifest:
    """The manifest of a world from its seed alone: simulates it, stores nothing."""
    digest, count = hashlib.sha256(), 0
    for event in domain.simulate(spec.parameters, spec.seed):
        digest.update(f"{canonical_line(event)}\n".encode())
        count += 1
    start_ms, end_ms = domain.span(spec.parameters)
    return WorldManifest(spec, count, digest.hexdigest(), start_ms, end_ms)


async def publish_world(
    log: Log, domain: Domain, spec: WorldSpec, clock: Clock, progress: Progress = _silent
) -> Published:
    """Brings a world's ledger to its end and closes it; a finished one is left as it is.

    A publisher that was killed at any record is followed by another call, which simulates the world again,
    compares what is stored at each partition's tail with what it would have written, and appends the rest.
    Two publishers at once leave repeats, which readers drop.

    Args:
        log: where to.
        domain: simulates the world.
        spec: which world.
        clock: for the durations.
        progress: told how many events are done.

    Returns:
        The world's manifest, as its completion record holds it, and how long the parts took.

    Raises:
        CorruptLogError: what is stored is not this world.
    """
    topic = ledger_topic(spec.name)
    await log.create_topic(topic, spec.partitions)
    stored, closing = await ledger_end(log, topic)
    if closing is not None:
        return Published(msgspec.json.decode(closing, type=WorldManifest))
    tails = await _tails(LedgerReader(log, topic, domain.codec), stored)
    writer = LedgerWriter(log, topic, domain.codec, spec.partitions)
    digest, count, appending = hashlib.sha256(), 0, 0.0
    began = clock.monotonic()
    for chunk in _chunks(domain.simulate(spec.parameters, spec.seed)):
        digest.update("".join(f"{canonical_line(event)}\n" for event in chunk).encode())
        entered = clock.monotonic()
        fresh = [record for event in chunk if _is_fresh(record := writer.record(event), writer, stored, tails)]
        await log.append(topic, fresh)
        appending += clock.monotonic() - entered
        count += len(chunk)
        progress(count)
    start_ms, end_ms = domain.span(spec.parameters)
    manifest = WorldManifest(spec, count, digest.hexdigest(), start_ms, end_ms)
    await _close(writer, manifest, stored)
    return Published(manifest, clock.monotonic() - began - appending, appending)


def _chunks(events: Iterable[Event]) -> Iterable[list[Event]]:
    iterator = iter(events)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


async def _tails(reader: LedgerReader, stored: Cut) -> dict[int, bytes]:
    """Partition -> bytes of the record of its last sequence, which a repeat of earlier ones may follow."""
    tails = {}
    for partition, last in stored.positions.items():
        if last >= 0:
            async for records in reader.records(Cut({partition: last - 1}), Cut({partition: last})):
                tails[partition] = records[-1].record.value
    return tails


def _is_fresh(record: NewRecord, writer: LedgerWriter, stored: Cut, tails: dict[int, bytes]) -> bool:
    sequence = writer.next[record.partition] - 1
    last = stored.positions[record.partition]
    if sequence == last and record.value != tails[record.partition]:
        raise CorruptLogError(
            f"{writer.topic} partition {record.partition} ends with another event than this world has at sequence "
            f"{last}; remove the topic with `churnbench world rm` and build it anew"
        )
    return sequence > last


async def _close(writer: LedgerWriter, manifest: WorldManifest, stored: Cut) -> None:
    """Completion records for the partitions that have none; a kill may have closed only some."""
    open_partitions = [p for p, following in writer.next.items() if stored.positions[p] < following]
    await writer.complete(msgspec.json.encode(manifest), manifest.end_ms, open_partitions)
