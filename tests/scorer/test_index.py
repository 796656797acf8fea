"""The index: built from a topic or from a simulation, whole or not at all, shared by processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import pytest

from churnbench.cuts import Cut
from churnbench.domain import Assertion
from churnbench.errors import DecodeError, IncompleteError, NotFoundError, TerminalError
from churnbench.events import Event
from churnbench.log import LedgerBatch, LedgerReader, LedgerWriter, SqliteLog, cut_at
from churnbench_scorer import Gold, LedgerIndex, events_of
from tests.scorer.brute import every_question
from tests.toy import START_MS, TOY, ToyDomain

DAY_MS = 86_400_000


def world() -> list[Event]:
    return list(TOY.simulate({"days": 20, "parcels": 30, "moves": 5, "scans": 20}, 7))


def golds(index: LedgerIndex, days: int) -> list[object]:
    return [Gold(index, TOY).at(measure, params, START_MS + days * DAY_MS) for measure, params in every_question()]


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    yield log
    await log.close()


async def published(log: SqliteLog, events: list[Event], partitions: int) -> LedgerReader:
    await log.create_topic("w", partitions)
    writer = LedgerWriter(log, "w", TOY.codec, partitions)
    await writer.append(events)
    await writer.complete(b"{}", events[-1].at_ms, range(partitions))
    return LedgerReader(log, "w", TOY.codec)


@pytest.mark.parametrize("partitions", [1, 3])
async def test_an_index_of_the_topic_is_that_of_the_simulation(log: SqliteLog, tmp_path: Path, partitions: int) -> None:
    reader = await published(log, world(), partitions)
    batches = reader.batches(Cut.empty(partitions), batch=37)
    streamed = await LedgerIndex.build(batches, TOY, partitions, tmp_path / "w.index")
    simulated = LedgerIndex.of_events(world(), TOY, partitions)
    assert (streamed.events, streamed.end) == (simulated.events, simulated.end) == (530, simulated.end)
    for days in (-1, 0, 6, 19):
        assert golds(streamed, days) == golds(simulated, days)
        # The completion record moves the log's own cut on; to the index, both are the end.
        of_log = await cut_at(log, "w", START_MS + days * DAY_MS)
        assert streamed.positions(of_log) == streamed.positions(simulated.cut_at(START_MS + days * DAY_MS))
    streamed.close()


async def test_events_are_fetched_from_the_topic_by_seq(log: SqliteLog) -> None:
    events = world()
    reader = await published(log, events, 3)
    index = LedgerIndex.of_events(events, TOY, 3)
    wanted = [0, 7, 8, 300, 529]
    assert await events_of(reader, index, [*wanted, 7, 10_000]) == {seq: events[seq] for seq in wanted}
    assert await events_of(reader, index, []) == {}


def test_a_file_is_built_only_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "w.index"

    def broken() -> Iterator[Event]:
        yield from world()[:100]
        assert not path.exists()
        assert list(path.parent.iterdir())
        raise DecodeError("a record is no event")

    assert not LedgerIndex.is_built(path, TOY)
    with pytest.raises(DecodeError):
        LedgerIndex.of_events(broken(), TOY, path=path)
    assert list(path.parent.iterdir()) == []

    LedgerIndex.of_events(world(), TOY, path=path).close()
    assert LedgerIndex.is_built(path, TOY)
    assert [file.name for file in path.parent.iterdir()] == ["w.index"]


async def test_a_stream_that_breaks_leaves_the_older_index_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "w.index"
    LedgerIndex.of_events(world(), TOY, path=path).close()

    async def broken() -> AsyncIterator[LedgerBatch]:
        yield LedgerBatch(0, world()[:10], list(range(10)), 9)
        raise DecodeError("a record is no event")

    with pytest.raises(DecodeError):
        await LedgerIndex.build(broken(), TOY, 1, path)
    index = LedgerIndex.open(path, TOY)
    assert index.events == 530
    index.close()


def test_what_a_killed_builder_left_goes_with_the_next_one(tmp_path: Path) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    abandoned = tmp_path / f".w.index.{int(gone.stdout)}.partial"
    of_another = tmp_path / f".w.index.{os.getppid()}.partial"
    for partial in (abandoned, of_another):
        partial.write_bytes(b"half")
    LedgerIndex.of_events(world(), TOY, path=tmp_path / "w.index").close()
    assert not abandoned.exists()
    assert of_another.exists()


def test_several_processes_read_one_file(tmp_path: Path) -> None:
    index = LedgerIndex.of_events(world(), TOY, path=tmp_path / "w.index")
    program = (
        "import sys, pathlib; from churnbench_scorer import LedgerIndex; from tests.toy import TOY;"
        "print(LedgerIndex.open(pathlib.Path(sys.argv[1]), TOY).events)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "w.index")], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["530"]
    assert golds(index, 3)
    index.close()


def test_a_file_that_is_no_index_of_this_domain_is_refused(tmp_path: Path) -> None:
    class Newer(ToyDomain):
        version = 2

    path = tmp_path / "w.index"
    with pytest.raises(NotFoundError, match="no scoring index"):
        LedgerIndex.open(path, TOY)
    path.write_bytes(b"no database")
    assert not LedgerIndex.is_built(path, TOY)
    with pytest.raises(IncompleteError, match="delete it and build it anew"):
        LedgerIndex.open(path, TOY)
    LedgerIndex.of_events(world(), TOY, path=path).close()
    assert not LedgerIndex.is_built(path, Newer())
    with pytest.raises(IncompleteError, match="of another domain or version than toy 2"):
        LedgerIndex.open(path, Newer())


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (Assertion("location", "p999", "depot", "north"), "an event speaks of its own entity alone"),
        (
            Assertion("location", "p000", "city", "north"),
            r"asserts location\.city, which the domain toy does not declare",
        ),
        (Assertion("activity", "p000", "", (5,)), r"asserts activity\.a row, which the domain toy does not declare"),
    ],
)
def test_a_domain_that_asserts_what_it_does_not_declare_is_refused(said: Assertion, message: str) -> None:
    class Wrong(ToyDomain):
        def assertions(self, event: Event) -> Iterable[Assertion]:
            return [said]

    with pytest.raises(TerminalError, match=message):
        LedgerIndex.of_events(world()[:1], Wrong())


def test_times_of_changes_are_those_of_the_facts_that_are_read() -> None:
    index = LedgerIndex.of_events(world(), TOY)
    after, upto = START_MS, START_MS + 3 * DAY_MS
    days = [START_MS + n * DAY_MS for n in (1, 2, 3)]
    assert index.times_between({"location": ("depot",), "scans": ()}, after, upto) == days
    assert index.times_between({"activity": ()}, START_MS, START_MS + DAY_MS) == days[:1]
    assert index.times_between({"weight": ("weight",)}, after, upto) == []
    assert index.times_between({"location": ("depot",)}, upto, after) == []
