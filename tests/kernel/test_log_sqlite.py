"""The SQLite engine keeps the log's contract, and what only a file can suffer."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from churnbench.errors import CorruptLogError, UsageError
from churnbench.log import Log, NewRecord, SqliteLog
from churnbench.testing._log_contract import LogContract, read_all

_names = itertools.count()


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Log]:
    log = SqliteLog(path)
    try:
        yield log
    finally:
        await log.close()


class TestSqliteLog(LogContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self._path = tmp_path / "a folder with spaces" / "log.db"

    def opened(self) -> AbstractAsyncContextManager[Log]:
        return opened(self._path)

    def topic(self) -> str:
        return f"topic-{next(_names)}"


_WRITER = """
import asyncio, sys
from pathlib import Path
from churnbench.log import NewRecord, SqliteLog

async def main():
    log = SqliteLog(Path(sys.argv[1]))
    await log.create_topic("t")
    n = 0
    while True:
        await log.append("t", [NewRecord(str(n + i).encode(), n) for i in range(7)])
        n += 7
        print(n, flush=True)

asyncio.run(main())
"""


async def test_kill_9_of_a_writer_loses_no_acknowledged_record(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        acknowledged = 0
        for _ in range(20):
            acknowledged = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        async with opened(path) as log:
            values = [int(r.value) for r in await read_all(log, "t", {0: 0})]
            assert len(values) % 7 == 0
            assert len(values) >= acknowledged
            assert values == list(range(len(values)))
            await log.delete_topic("t")


async def test_a_flipped_bit_in_a_record_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with opened(path) as log:
        await log.create_topic("t")
        await log.append("t", [NewRecord(b"a payload that is easy to find", 0)])
    content = path.read_bytes()
    at = content.rindex(b"easy")
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    async with opened(path) as log:
        with pytest.raises(CorruptLogError, match="t partition 0 offset 0"):
            await read_all(log, "t", {0: 0})


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
async def test_a_truncated_file_is_refused(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "log.db"
    async with opened(path) as log:
        await log.create_topic("t")
        await log.append("t", [NewRecord(os.urandom(300), n) for n in range(2000)])
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(CorruptLogError, match="damaged"):
        async with opened(path) as log:
            await read_all(log, "t", {0: 0})


async def test_a_file_that_is_no_log_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(b"this is a text, not a database" * 100)
    with pytest.raises(CorruptLogError, match="not a database"):
        SqliteLog(path)
    assert path.read_bytes() == b"this is a text, not a database" * 100


async def test_a_log_of_a_newer_version_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with opened(path):
        pass
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(UsageError, match="newer churnbench"):
        SqliteLog(path)


async def test_a_deleted_topic_gives_its_space_back(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with opened(path) as log:
        await log.create_topic("big")
        for start in range(10):
            await log.append("big", [NewRecord(os.urandom(1000), start) for _ in range(500)])
        await log.delete_topic("big")
    assert path.stat().st_size < 500_000


async def test_another_process_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with opened(path) as log:
        await log.create_topic("t")
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.DEVNULL)
        try:
            got: list[int] = []

            async def follow() -> None:
                async for batch in log.read("t", {0: 0}, follow=True):
                    got.extend(int(r.value) for r in batch)
                    if len(got) > 50:
                        return

            await asyncio.wait_for(follow(), 30)
        finally:
            writer.kill()
            writer.wait()
        assert got == list(range(len(got)))
