"""The ledger's rules: partition sequences, repeats, gaps, cuts by time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from churnbench.cuts import Cut, partition_of
from churnbench.errors import CorruptLogError, DecodeError, IncompleteError, SequenceGapError
from churnbench.events import Event
from churnbench.log import LedgerReader, LedgerWriter, NewRecord, SqliteLog, cut_at, ledger_end
from churnbench.log._ledger import ledger_record
from tests.toy import TOY, Moved, Registered, event

DAY = 86_400_000


def story(count: int) -> list[Event]:
    return [
        event(n, n // 3 * DAY, f"p{n % 5}", Registered("north", 1.0) if n < 5 else Moved("east")) for n in range(count)
    ]


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    yield log
    await log.close()


async def written(log: SqliteLog, topic: str, events: list[Event], partitions: int) -> LedgerWriter:
    await log.create_topic(topic, partitions)
    writer = LedgerWriter(log, topic, TOY.codec, partitions)
    await writer.append(events)
    return writer


@pytest.mark.parametrize("partitions", [1, 3])
async def test_all_events_come_back_by_seq(log: SqliteLog, partitions: int) -> None:
    events = story(40)
    await written(log, "w", events, partitions)
    reader = LedgerReader(log, "w", TOY.codec)
    assert await reader.events(Cut.empty(partitions)) == events


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_cut_by_time_holds_the_events_at_or_before_it(log: SqliteLog, partitions: int) -> None:
    events = story(40)
    await written(log, "w", events, partitions)
    reader = LedgerReader(log, "w", TOY.codec)
    for time in (-1, 0, 1, DAY, 3 * DAY - 1, 5 * DAY, 100 * DAY):
        cut = await cut_at(log, "w", time)
        assert await reader.events(Cut.empty(partitions), cut) == [e for e in events if e.at_ms <= time]


async def test_the_part_between_two_cuts_is_what_the_later_adds(log: SqliteLog) -> None:
    events = story(40)
    await written(log, "w", events, 3)
    reader = LedgerReader(log, "w", TOY.codec)
    early, late = await cut_at(log, "w", 2 * DAY), await cut_at(log, "w", 6 * DAY)
    assert await reader.events(early, late) == [e for e in events if 2 * DAY < e.at_ms <= 6 * DAY]
    assert await reader.events(late, late) == []


@given(resent=st.lists(st.tuples(st.integers(0, 29), st.integers(1, 30)), max_size=6), at=st.integers(0, 11))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_repeats_change_neither_events_nor_cuts(tmp_path: Path, resent: list[tuple[int, int]], at: int) -> None:
    """A publisher or broker that crashed sends records again, whole runs of them, from anywhere before the tail."""
    log = SqliteLog(tmp_path / f"{uuid4()}.db")
    try:
        events = story(30)
        await log.create_topic("w")
        records = [ledger_record(TOY.codec.encode(e), e.kind, e.entity_id, e.at_ms, 0, n) for n, e in enumerate(events)]
        sent: list[NewRecord] = []
        upto = 0
        for start, length in sorted(resent):
            upto = max(upto, min(30, start + 1))
            sent += records[len({r.headers for r in sent}) : upto]
            sent += records[start : min(upto, start + length)]
        sent += records[len({r.headers for r in sent}) :]
        await log.append("w", sent)
        reader = LedgerReader(log, "w", TOY.codec)
        assert await reader.events(Cut.empty(1)) == events
        cut = await cut_at(log, "w", at * DAY)
        assert cut == Cut({0: sum(e.at_ms <= at * DAY for e in events) - 1})
        after = await LedgerReader(log, "w", TOY.codec).events(cut)
        assert after == [e for e in events if e.at_ms > at * DAY]
    finally:
        await log.close()


async def test_a_gap_is_refused(log: SqliteLog) -> None:
    events = story(10)
    await log.create_topic("w")
    await log.append(
        "w",
        [
            ledger_record(TOY.codec.encode(e), e.kind, e.entity_id, e.at_ms, 0, n)
            for n, e in enumerate(events)
            if n != 6
        ],
    )
    with pytest.raises(SequenceGapError, match="sequence 7 after 5"):
        await LedgerReader(log, "w", TOY.codec).events(Cut.empty(1))


async def test_a_repeat_with_other_bytes_is_refused(log: SqliteLog) -> None:
    events = story(10)
    await written(log, "w", events, 1)
    other = event(4, DAY, "p4", Moved("west"))
    await log.append("w", [ledger_record(TOY.codec.encode(other), other.kind, "p4", DAY, 0, 4)])
    with pytest.raises(CorruptLogError, match="other bytes"):
        await LedgerReader(log, "w", TOY.codec).events(Cut.empty(1))


async def test_a_record_that_is_no_event_is_named_with_its_place(log: SqliteLog) -> None:
    await log.create_topic("w")
    await log.append("w", [ledger_record(b"{broken", "parcel_moved", "p1", 0, 0, 0)])
    with pytest.raises(DecodeError, match="w partition 0 offset 0"):
        await LedgerReader(log, "w", TOY.codec).events(Cut.empty(1))


async def test_a_cut_beyond_the_end_is_refused(log: SqliteLog) -> None:
    await written(log, "w", story(10), 1)
    with pytest.raises(IncompleteError, match="ends at sequence 9"):
        await LedgerReader(log, "w", TOY.codec).events(Cut.empty(1), Cut({0: 20}))


async def test_only_wanted_kinds_are_decoded_but_all_move_the_position(log: SqliteLog) -> None:
    await written(log, "w", story(10), 1)
    reader = LedgerReader(log, "w", TOY.codec, {"parcel_registered"})
    batches = [batch async for batch in reader.batches(Cut.empty(1))]
    assert [e.kind for b in batches for e in b.events] == ["parcel_registered"] * 5
    assert batches[-1].position == 9


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_ledger_is_closed_when_every_partition_is(log: SqliteLog, partitions: int) -> None:
    writer = await written(log, "w", story(30), partitions)
    assert (await ledger_end(log, "w"))[1] is None
    for partition in range(partitions):
        await writer.complete(b"{}", 99 * DAY, [partition])
        closed = (await ledger_end(log, "w"))[1]
        assert closed == (b"{}" if partition == partitions - 1 else None)
    assert await LedgerReader(log, "w", TOY.codec).events(Cut.empty(partitions)) == story(30)


@given(st.text(max_size=20), st.integers(1, 64))
def test_the_partition_of_an_entity_is_within_range_and_stable(entity: str, partitions: int) -> None:
    assert 0 <= partition_of(entity, partitions) < partitions
    assert partition_of(entity, partitions) == partition_of(entity, partitions)


def test_partitions_follow_crc32() -> None:
    assert [partition_of(entity, 4) for entity in ("usr_000000", "usr_000001", "lic_000000")] == [0, 2, 0]
