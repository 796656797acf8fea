"""The embedded engine of the log: one SQLite file in WAL mode, shared by processes.

Offsets are 0, 1, 2 … per partition. Each row keeps a CRC of what was appended, checked on every read, and the
running maximum of its partition's timestamps, so that looking up an offset by time is a binary search.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from churnbench.errors import CorruptLogError, NotFoundError, TransientError, UsageError
from churnbench.log._protocol import NewRecord, Record

__all__ = ["SqliteLog"]

T = TypeVar("T")

_FORMAT = 1
_POLL_SECONDS = 0.02
_SCHEMA = """
CREATE TABLE IF NOT EXISTS topic (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS head (
  topic INTEGER NOT NULL, part INTEGER NOT NULL, next INTEGER NOT NULL, latest INTEGER NOT NULL,
  PRIMARY KEY (topic, part)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS record (
  topic INTEGER NOT NULL, part INTEGER NOT NULL, pos INTEGER NOT NULL, ts INTEGER NOT NULL, latest INTEGER NOT NULL,
  key BLOB, value BLOB NOT NULL, headers BLOB, crc INTEGER NOT NULL,
  PRIMARY KEY (topic, part, pos)) WITHOUT ROWID;
"""
_headers_encoder = msgspec.msgpack.Encoder()
_headers_decoder = msgspec.msgpack.Decoder(tuple[tuple[str, bytes], ...])
_LOWEST = -(1 << 62)


def _crc(ts: int, key: bytes | None, value: bytes, headers: bytes | None) -> int:
    return crc32(headers or b"", crc32(key or b"", crc32(value, ts & 0xFFFFFFFF)))


class SqliteLog:
    """A `Log` in one SQLite file; several processes may have it open.

    Args:
        path: the file, made with its folder where missing.

    Raises:
        CorruptLogError: the file is no log, or is damaged.
        UsageError: it cannot be opened, or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the folder {path.parent}: {error.strerror}; set CHURNBENCH_HOME") from error
        self._writer = ThreadPoolExecutor(1, "log-writer")
        self._reader = ThreadPoolExecutor(1, "log-reader")
        self._topics: dict[str, tuple[int, int]] = {}
        self._appended = asyncio.Event()
        self._closed = False
        self._write = self._guard(self._open)
        self._read = self._guard(self._open)

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=60, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            connection.execute("PRAGMA page_size = 16384")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -16000")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _FORMAT:
            raise UsageError(
                f"{self.path} was written by a newer churnbench (log format {version}, known: {_FORMAT}); "
                "upgrade churnbench or set CHURNBENCH_HOME to another folder"
            )
        if version == 0:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.strip().split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
            connection.execute("COMMIT")
        return connection

    def _guard(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.OperationalError as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                raise TransientError(f"{self.path} is held by another process: {text}") from error
            if "full" in text:
                raise TransientError(f"no space left to write {self.path}; free some and resume") from error
            if "malformed" in text or "disk I/O" in text:
                raise CorruptLogError(self._damaged(text)) from error
            raise UsageError(
                f"cannot use the log {self.path}: {text}; set CHURNBENCH_HOME to a writable folder"
            ) from error
        except sqlite3.DatabaseError as error:
            raise CorruptLogError(self._damaged(str(error))) from error

    def _damaged(self, why: str) -> str:
        return f"the log {self.path} is damaged ({why}); move it away or restore it, then run again"

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self._closed:
            raise UsageError(f"the log {self.path} is closed")
        return await asyncio.get_running_loop().run_in_executor(pool, self._guard, work)

    def _topic(self, connection: sqlite3.Connection, topic: str) -> tuple[int, int]:
        row = connection.execute("SELECT id, partitions FROM topic WHERE name = ?", (topic,)).fetchone()
        if row is None:
            raise NotFoundError(f"there is no topic {topic!r}; `churnbench log topics` lists them")
        return int(row[0]), int(row[1])

    async def create_topic(self, topic: str, partitions: int = 1) -> None:
        """See `Log.create_topic`."""
        if partitions < 1:
            raise UsageError(f"a topic has at least 1 partition, not {partitions}")

        def work() -> None:
            with _transaction(self._write):
                self._write.execute(
                    "INSERT INTO topic (name, partitions) VALUES (?, ?) ON CONFLICT DO NOTHING", (topic, partitions)
                )
                number, found = self._topic(self._write, topic)
                if found != partitions:
                    raise UsageError(f"topic {topic!r} has {found} partitions, not {partitions}")
                self._write.executemany(
                    "INSERT INTO head VALUES (?, ?, 0, ?) ON CONFLICT DO NOTHING",
                    [(number, p, _LOWEST) for p in range(partitions)],
                )

        await self._in(self._writer, work)

    async def topics(self) -> dict[str, int]:
        """See `Log.topics`."""
        return await self._in(
            self._reader,
            lambda: dict(self._read.execute("SELECT name, partitions FROM topic ORDER BY name").fetchall()),
        )

    async def delete_topic(self, topic: str) -> None:
        """See `Log.delete_topic`; the space is given back to the file system."""

        def work() -> None:
            try:
                number, _ = self._topic(self._write, topic)
            except NotFoundError:
                return
            with _transaction(self._write):
                for table in ("record", "head"):
                    self._write.execute(f"DELETE FROM {table} WHERE topic = ?", (number,))  # noqa: S608 - two fixed names
                self._write.execute("DELETE FROM topic WHERE id = ?", (number,))
            self._write.executescript("PRAGMA incremental_vacuum")

        await self._in(self._writer, work)

    async def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """See `Log.append`; here all of `records` are one transaction."""
        if not records:
            return

        def work() -> None:
            with _transaction(self._write):
                number, partitions = self._topic(self._write, topic)
                heads = {
                    part: [next_, latest]
                    for part, next_, latest in self._write.execute(
                        "SELECT part, next, latest FROM head WHERE topic = ?", (number,)
                    )
                }
                rows = []
                for value, ts, part, key, headers in records:
                    head = heads.get(part)
                    if head is None:
                        raise UsageError(f"topic {topic!r} has partitions 0 to {partitions - 1}, not {part}")
                    packed = _headers_encoder.encode(headers) if headers else None
                    head[1] = max(ts, head[1])
                    rows.append((number, part, head[0], ts, head[1], key, value, packed, _crc(ts, key, value, packed)))
                    head[0] += 1
                self._write.executemany("INSERT INTO record VALUES (?,?,?,?,?,?,?,?,?)", rows)
                self._write.executemany(
                    "UPDATE head SET next = ?, latest = ? WHERE topic = ? AND part = ?",
                    [(next_, latest, number, part) for part, (next_, latest) in heads.items()],
                )

        await self._in(self._writer, work)
        appended, self._appended = self._appended, asyncio.Event()
        appended.set()

    async def read(
        self,
        topic: str,
        start: Mapping[int, int],
        *,
        end: Mapping[int, int] | None = None,
        follow: bool = False,
        batch: int = 5000,
    ) -> AsyncGenerator[list[Record], None]:
        """See `Log.read`."""
        if follow and end is not None:
            raise UsageError("a read either follows or has an end")
        limits = None if follow else (dict(end) if end is not None else await self.end_offsets(topic))
        number, _ = await self._in(self._reader, lambda: self._topic(self._read, topic))
        positions = dict(start)
        while True:
            signal = self._appended
            found = False
            for part in sorted(positions):
                limit = limits.get(part, 0) if limits is not None else None
                while limit is None or positions[part] < limit:
                    fetch = partial(self._fetch, topic, number, part, positions[part], limit, batch)
                    got = await self._in(self._reader, fetch)
                    if not got:
                        break
                    found = True
                    positions[part] = got[-1].offset + 1
                    yield got
                    if follow:
                        break
            if limits is not None:
                return
            if not found:
                # Not wait_for: on Python 3.11 it swallows a cancellation that comes with the signal.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await signal.wait()

    def _fetch(self, topic: str, number: int, part: int, start: int, limit: int | None, batch: int) -> list[Record]:
        upto = start + batch if limit is None else min(limit, start + batch)
        rows = self._read.execute(
            "SELECT pos, ts, key, value, headers, crc FROM record "
            "WHERE topic = ? AND part = ? AND pos >= ? AND pos < ? ORDER BY pos",
            (number, part, start, upto),
        ).fetchall()
        records = []
        expected = max(start, 0)
        for pos, ts, key, value, headers, crc in rows:
            if pos != expected or crc != _crc(ts, key, value, headers):
                raise CorruptLogError(
                    self._damaged(f"{topic} partition {part} offset {expected} is not what was appended")
                )
            expected += 1
            decoded = _headers_decoder.decode(headers) if headers is not None else ()
            records.append(Record(topic, part, pos, ts, key, value, decoded))
        return records

    async def beginning_offsets(self, topic: str) -> dict[int, int]:
        """See `Log.beginning_offsets`; always 0 here."""
        return dict.fromkeys(await self.end_offsets(topic), 0)

    async def end_offsets(self, topic: str) -> dict[int, int]:
        """See `Log.end_offsets`."""

        def work() -> dict[int, int]:
            number, _ = self._topic(self._read, topic)
            return dict(
                self._read.execute("SELECT part, next FROM head WHERE topic = ? ORDER BY part", (number,)).fetchall()
            )

        return await self._in(self._reader, work)

    async def offsets_after(self, topic: str, time_ms: int) -> dict[int, int | None]:
        """See `Log.offsets_after`; a binary search over the running maximum of the timestamps."""

        def work() -> dict[int, int | None]:
            number, _ = self._topic(self._read, topic)
            heads: list[Any] = self._read.execute(
                "SELECT part, next FROM head WHERE topic = ? ORDER BY part", (number,)
            ).fetchall()
            return {part: self._first_after(number, part, next_, time_ms) for part, next_ in heads}

        return await self._in(self._reader, work)

    def _first_after(self, number: int, part: int, end: int, time_ms: int) -> int | None:
        low, high = 0, end
        while low < high:
            middle = (low + high) // 2
            row = self._read.execute(
                "SELECT latest FROM record WHERE topic = ? AND part = ? AND pos = ?", (number, part, middle)
            ).fetchone()
            if row is None:
                raise CorruptLogError(self._damaged(f"offset {middle} of partition {part} is missing"))
            if row[0] > time_ms:
                high = middle
            else:
                low = middle + 1
        return low if low < end else None

    async def close(self) -> None:
        """See `Log.close`."""
        if self._closed:
            return
        self._closed = True
        self._writer.shutdown(wait=True)
        self._reader.shutdown(wait=True)
        self._write.close()
        self._read.close()


class _transaction:  # noqa: N801 - reads as a statement
    """BEGIN IMMEDIATE … COMMIT, or ROLLBACK on any error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
